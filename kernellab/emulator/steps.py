"""Steps of data instructions: they compute for full warps in place, for others through a mask."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from kernellab.emulator.code import Binder, Step, Views, storage_dtype
from kernellab.emulator.lanes import Lanes
from kernellab.emulator.memory import UNSIGNED
from kernellab.emulator.opcodes import semantics
from kernellab.emulator.ptx import TYPE_BYTES, Instruction, Operand, Pair, Register, Vector
from kernellab.errors import UnsupportedPTXError

if TYPE_CHECKING:
    from kernellab.emulator.batch import Batch


def data_step(
    compute: Callable[..., Any], sources: list[int], constant: list[bool], targets: list[int | None]
) -> Step:
    """Make the step of a data instruction."""
    if isinstance(compute, np.ufunc) and len(targets) == 1 and targets[0] is not None and not all(constant):
        return _ufunc_step(compute, sources, constant, targets[0])

    def step(views: Views, lanes: Lanes, batch: Batch) -> None:
        if lanes.is_full:
            results = compute(*[views[s] for s in sources])
        else:
            rows = lanes.rows
            results = compute(
                *[views[s] if c else views[s][rows] for s, c in zip(sources, constant, strict=True)]
            )
        if not isinstance(results, tuple):
            results = (results,)
        for target, result in zip(targets, results, strict=True):
            if target is not None:
                lanes.put(views[target], result)

    return step


def _ufunc_step(compute: np.ufunc, sources: list[int], constant: list[bool], target: int) -> Step:
    if len(sources) == 2:
        first, second = sources
        first_constant, second_constant = constant

        def step_binary(views: Views, lanes: Lanes, batch: Batch) -> None:
            if lanes.is_full:
                compute(views[first], views[second], out=views[target])
                return
            rows = lanes.rows
            a = views[first] if first_constant else views[first][rows]
            b = views[second] if second_constant else views[second][rows]
            lanes.put(views[target], compute(a, b))

        return step_binary

    def step(views: Views, lanes: Lanes, batch: Batch) -> None:
        if lanes.is_full:
            compute(*[views[s] for s in sources], out=views[target])
            return
        rows = lanes.rows
        arguments = [views[s] if c else views[s][rows] for s, c in zip(sources, constant, strict=True)]
        lanes.put(views[target], compute(*arguments))

    return step


def copy_step(source: int, is_constant: bool, target: int) -> Step:
    """Make the step that copies one slot to another."""

    def step(views: Views, lanes: Lanes, batch: Batch) -> None:
        if lanes.is_full:
            views[target][...] = views[source]
        else:
            lanes.put(views[target], views[source] if is_constant else views[source][lanes.rows])

    return step


def guarded(step: Step, predicate: int, is_negated: bool, index: int) -> Step:
    """Run a step only for the lanes whose predicate holds."""

    def run(views: Views, lanes: Lanes, batch: Batch) -> None:
        keep = views[predicate][lanes.rows]
        inner = lanes.restricted(~keep if is_negated else keep)
        batch.counts.guarded[index] += lanes.count - inner.count
        if inner.count:
            step(views, inner, batch)

    return run


def sequence_step(steps: list[Step]) -> Step:
    """Make one step of several."""
    if len(steps) == 1:
        return steps[0]

    def step(views: Views, lanes: Lanes, batch: Batch) -> None:
        for each in steps:
            each(views, lanes, batch)

    return step


def bind_data(binder: Binder, instruction: Instruction) -> Step:
    """Make the step of an instruction that `opcodes` knows."""
    rule = semantics(instruction.opcode, 2 if isinstance(instruction.operands[0], Pair) else 1)
    code = binder.code
    before: list[Step] = []
    operands = list(instruction.operands)
    first = operands[0]
    destinations = [first.first, first.second] if isinstance(first, Pair) else [first]
    inputs = operands[1:]
    results = list(rule.results)
    targets: list[int | None] = [
        binder.target(destination, dtype) for destination, dtype in zip(destinations, results, strict=False)
    ]
    sources: list[int] = []
    for operand, dtype in zip(inputs, rule.sources, strict=True):
        if isinstance(operand, Register) and operand.is_negated:
            inverse = Register(code.temporary("pred"))
            original = binder.source(Register(operand.name), np.dtype(np.bool_))
            copy = binder.target(inverse, np.dtype(np.bool_))
            assert copy is not None
            before.append(_ufunc_step(np.logical_not, [original], [False], copy))
            operand = inverse
        sources.append(binder.source(operand, dtype))
    if rule.reads_carry or rule.writes_carry:
        code.register_types.setdefault("%carry", "pred")
        carry = code.slot("register", "%carry", np.dtype(np.bool_))
        if rule.reads_carry:
            sources.append(carry)
        if rule.writes_carry:
            targets.append(carry)
    constant = [binder.is_constant(slot) for slot in sources]
    return sequence_step([*before, data_step(rule.compute, sources, constant, targets)])


def bind_move(binder: Binder, instruction: Instruction) -> Step:
    """Make the step of ``mov``, also the forms that pack and unpack vectors."""
    kind = instruction.opcode.rsplit(".", 1)[1]
    target, source = instruction.operands
    if isinstance(target, Vector) or isinstance(source, Vector):
        return _bind_pack(binder, target, source, TYPE_BYTES[kind])
    dtype = storage_dtype(kind)
    if isinstance(source, Register) and source.is_negated:
        raise UnsupportedPTXError("a negated source in mov")
    slot = binder.source(source, dtype)
    where = binder.target(target, dtype)
    assert where is not None
    return copy_step(slot, binder.is_constant(slot), where)


def _bind_pack(binder: Binder, target: Operand, source: Operand, nbytes: int) -> Step:
    steps: list[Step] = []
    if isinstance(target, Vector):
        dtype = UNSIGNED[nbytes // len(target.elements)]
        if isinstance(source, Vector):
            pairs = zip(target.elements, source.elements, strict=True)
            found = [(binder.target(t, dtype), binder.source(s, dtype)) for t, s in pairs]
        else:
            found = [
                (binder.target(t, dtype), binder.source(source, dtype, part=k))
                for k, t in enumerate(target.elements)
            ]
    else:
        assert isinstance(source, Vector)
        dtype = UNSIGNED[nbytes // len(source.elements)]
        found = [
            (binder.target(target, dtype, part=k), binder.source(s, dtype))
            for k, s in enumerate(source.elements)
        ]
    # through temporaries, since {a, b} = {b, a} is allowed
    outputs = [(t, s) for t, s in found if t is not None]
    if len(outputs) > 1:
        kind = f"b{8 * dtype.itemsize}"
        late: list[Step] = []
        for t, s in outputs:
            middle = binder.target(Register(binder.code.temporary(kind)), dtype)
            assert middle is not None
            steps.append(copy_step(s, binder.is_constant(s), middle))
            late.append(copy_step(middle, False, t))
        return sequence_step([*steps, *late])
    return sequence_step([copy_step(s, binder.is_constant(s), t) for t, s in outputs] or [lambda *_: None])
