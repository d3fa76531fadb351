"""Arena: one problem at one size on the device, where ours and peers are judged and timed side by side.

Inputs are made on the device, and the catalogue's reference answers there too, in float64: CuPy's arrays
take part in NumPy's functions. One answer judges every work, each before and after it is timed.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import ml_dtypes
import numpy as np

from kernellab.arrays import ArraySpec
from kernellab.buffers import poison
from kernellab.instruments.clock import Call
from kernellab.kernel import Kernel, Language
from kernellab.plan import Plan, bind
from kernellab.problem import Problem
from kernellab.suites.bench import Bench
from kernellab.tensor_lists import flattened, grouped
from kernellab.verify import Comparison, Verdict, is_float
from kernellab.workload import CallWorkload

CHUNK = 2**26
HASH = np.uint64(0x9E3779B97F4A7C15)
MIX = np.uint64(0xBF58476D1CE4E5B9)
ON_DEVICE: Mapping[str, Callable[..., dict[str, Any]]] = {"transpose": lambda x: {"y": x.T}}
"""References where NumPy's own function does not take arrays of others."""


@dataclass(frozen=True)
class Answer:
    """What is right, and by how much it may be missed.

    Attributes
    ----------
    expected : array
        On the device, float64 or integers.
    limit : array or None
        The largest error of each element; None where all bits must agree.
    dtype : numpy.dtype
        Of the output.
    """

    expected: Any
    limit: Any
    dtype: np.dtype[Any]

    def judge(
        self, xp: Any, who: str, name: str, found: Any, slack: float = 1.0, absolute: float = 0.0
    ) -> Verdict:
        """Compare an output on the device with the answer; a NaN is wrong.

        `slack` times the limit is allowed, and `absolute` beyond that.
        """
        expected = self.expected
        if found.size != expected.size:
            message = f"{name} has {found.size} elements, the reference has {expected.size}"
            return Verdict(who, (Comparison(name, expected.size, expected.size, message),))
        found = found.reshape(expected.shape)
        if self.limit is None:
            wrong = _bits(found) != _bits(expected)
        else:
            found = widened(found, self.dtype).astype("float64")
            wrong = ~(abs(found - expected) <= self.limit * slack + absolute)
        count = int(xp.count_nonzero(wrong))
        message = ""
        if count:
            first = int(xp.argmax(wrong.reshape(-1)))
            want, got = (array.reshape(-1)[first] for array in (expected, found))
            message = f"{name} differs in {count} of {wrong.size} elements, first at flat {first}: "
            message += f"expected {want}, got {got}"
        return Verdict(who, (Comparison(name, count, int(wrong.size), message),))


def _bits(array: Any) -> Any:
    return array if array.dtype.kind in "iub" else array.view(f"u{array.dtype.itemsize}")


def widened(array: Any, dtype: np.dtype[Any]) -> Any:
    """Return an array with its values as the device can compute with them: bfloat16 becomes float32.

    Examples
    --------
    >>> bits = np.array([0x3F80, 0xC000], np.uint16)
    >>> widened(bits, np.dtype(ml_dtypes.bfloat16)), widened(bits, bits.dtype) is bits
    (array([ 1., -2.], dtype=float32), True)
    """
    if dtype != ml_dtypes.bfloat16:
        return array
    return (array.view("uint16").astype("uint32") << np.uint32(16)).view("float32")


@dataclass(frozen=True)
class Own:
    """A rung of the catalogue, ready to be timed.

    Attributes
    ----------
    work : CallWorkload
    plan : Plan
    language : {"cuda-c", "numba"}
    calls : tuple of callable
        One a launch.
    """

    work: CallWorkload
    plan: Plan
    language: Language
    calls: tuple[Call, ...]


@dataclass
class Arena:
    """One problem at one size.

    Attributes
    ----------
    bench : Bench
    problem : Problem
    sizes : mapping of str to int
    element : str
        Of operands of dtype ``"element"``.
    contents : {"random", "equal"}
    parameters : mapping of str to int or float
        Run-time scalars that differ from their defaults.
    notes : list of str
        What was left out, and why.
    """

    bench: Bench
    problem: Problem
    sizes: Mapping[str, int]
    element: str = "float32"
    contents: str = "random"
    parameters: Mapping[str, int | float] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    @property
    def xp(self) -> Any:
        """CuPy, or what stands for it."""
        return self.bench.device.cupy

    @cached_property
    def specs(self) -> dict[str, ArraySpec]:
        """Every input of the problem whose sizes are known, without memory."""
        operands = [item.at(self.element) for item in self.problem.operands if item.is_input]
        return {
            item.name: ArraySpec(tuple(self.sizes[name] for name in item.shape), item.numpy_dtype)
            for item in operands
            if all(name in self.sizes for name in item.shape)
        }

    @cached_property
    def inputs(self) -> dict[str, Any]:
        """Every input, on the device; what counts the elements of an axis lies within it."""
        found = {
            name: filled(self.bench.device, spec, salt, self.contents)
            for salt, (name, spec) in enumerate(self.specs.items())
        }
        axes = {item.name: item.index_of for item in self.problem.operands if item.index_of}
        return {
            name: array % self.sizes[axes[name]] if name in axes else array for name, array in found.items()
        }

    def plan(self, kernel: Kernel) -> Plan:
        """Bind a rung of the problem."""
        taken = {item.name for item in kernel.parameters}
        parameters: dict[str, Any] = {k: v for k, v in self.parameters.items() if k in taken}
        specs = {item.name: self.specs[item.name] for item in kernel.inputs}
        return bind(kernel, specs, limits=self.bench.device.limits, **parameters)

    def answers(self, plan: Plan) -> dict[str, Answer]:
        """Return what is right, by output, for a rung; the same for all of them."""
        if not self._answers:
            given = flattened(self.inputs)
            self._answers = answers(plan, {name: given[name] for name in plan.inputs})
        return self._answers

    def reference_of(self, kernel: Kernel) -> dict[str, Answer]:
        """Return what another problem's rung would have to answer on the same inputs."""
        specs = {item.name: self.specs[item.name] for item in kernel.inputs}
        plan = bind(kernel, specs, limits=self.bench.device.limits)
        return answers(plan, {name: self.inputs[name] for name in specs})

    _answers: dict[str, Answer] = field(default_factory=dict)

    def copies(self, names: Sequence[str]) -> tuple[dict[str, Any], Call]:
        """Return copies of inputs, for work that changes them, and what gives them back their contents."""
        pristine = flattened(self.inputs)
        made = {key: pristine[key].copy() for key in names}

        def restore() -> None:
            for key, array in made.items():
                array[...] = pristine[key]

        return made, restore

    def verdict(self, plan: Plan, who: str, buffers: Mapping[str, Any], slack: float = 1.0) -> Verdict:
        """Judge all outputs of a plan."""
        found = self.answers(plan)
        each = (found[key].judge(self.xp, who, key, buffers[key], slack) for key in plan.outputs)
        return Verdict(who, tuple(part for verdict in each for part in verdict.comparisons))

    def own(self, kernel: Kernel, language: Language, name: str = "") -> Own:
        """Build a rung, and return it as a work on arrays of its own."""
        plan, device = self.plan(kernel), self.bench.device
        name = name or f"{kernel.id} {language}"
        specs = {
            key: spec
            for key, spec in {**plan.outputs, **plan.temporaries}.items()
            if key not in plan.in_place
        }
        changed, reset = self.copies(plan.in_place)
        made = {key: device.empty(spec) for key, spec in specs.items()}
        buffers = {**flattened(self.inputs), **made, **changed}
        calls = device.calls(device.build(plan.kernel, language), plan, buffers)

        def run() -> None:
            for call in calls:
                call()

        def restore() -> None:
            reset()
            for key in plan.zeroed:
                buffers[key].fill(0)

        cost = plan.cost()
        before = restore if changed or plan.zeroed else None
        work = CallWorkload(
            name,
            run,
            cost.nbytes,
            cost.flops,
            lambda: self.verdict(plan, name, buffers),
            lambda: poison(plan, buffers),
            before,
            written=cost.bytes_written,
        )
        return Own(work, plan, language, tuple(calls))


def filled(device: Any, spec: ArraySpec, salt: int, contents: str = "random", deviation: float = 1.0) -> Any:
    """Return an array on the device whose elements are hashes of their places.

    Floats of one axis lie in [0.5, 1.5) but for one of 4 (sums do not cancel, the largest is unique); those
    of a matrix are nearly normal, of that deviation; anything else has random bits.
    """
    array, xp = device.empty(spec), device.cupy
    flat = array.reshape(-1)
    for start in range(0, spec.size, CHUNK):
        stop = min(start + CHUNK, spec.size)
        places = xp.arange(start + 1, stop + 1, dtype="uint64") + np.uint64(salt << 40)
        flat[start:stop] = _values(places, spec, contents, deviation).astype(flat.dtype)
    if is_float(spec.dtype) and len(spec.shape) == 1 and spec.size:
        flat[2 * spec.size // 3] = flat.dtype.type(0x4080 if _is_carried(spec, flat) else 4)
    return array


def _is_carried(spec: ArraySpec, flat: Any) -> bool:
    return bool(spec.dtype == ml_dtypes.bfloat16 and flat.dtype.kind == "u")


def _values(places: Any, spec: ArraySpec, contents: str, deviation: float) -> Any:
    bits = places * HASH
    bits = (bits ^ (bits >> np.uint64(29))) * MIX
    bits = bits ^ (bits >> np.uint64(32))
    if contents == "equal":
        bits = bits * np.uint64(0) + np.uint64(200)
    if not is_float(spec.dtype):
        return bits
    if len(spec.shape) == 1:
        values = (bits >> np.uint64(40)).astype("float32") * np.float32(2.0**-24) + np.float32(0.5)
    else:  # the sum of four uniform numbers, of variance 4/12
        parts = ((bits >> np.uint64(16 * k)) & np.uint64(0xFFFF) for k in range(4))
        total = functools.reduce(operator.add, (part.astype("float32") for part in parts))
        values = (total * np.float32(2.0**-16) - np.float32(2)) * np.float32(deviation * 3**0.5)
    if spec.dtype == ml_dtypes.bfloat16:  # cut, so that both carriers of bfloat16 hold the same
        words = values.view("uint32") >> np.uint32(16)
        return _Carried(words.astype("uint16"))
    return values


class _Carried:
    """Bits of bfloat16, for an array of uint16 and, on a fake device, one of bfloat16."""

    def __init__(self, bits: Any) -> None:
        self.bits = bits

    def astype(self, dtype: Any) -> Any:
        return self.bits if dtype.kind == "u" else self.bits.view(dtype)


def answers(plan: Plan, inputs: Mapping[str, Any]) -> dict[str, Answer]:
    """Return what the catalogue's reference gives for arrays on the device, and the errors allowed."""
    problem = plan.kernel.problem
    reference: Callable[..., dict[str, Any]] = ON_DEVICE.get(problem.name, problem.reference)
    if problem.is_bitwise:
        expected = flattened(reference(**grouped(inputs, plan.lists), **plan.parameters))
        return {name: Answer(expected[name], None, spec.dtype) for name, spec in plan.outputs.items()}
    given = {}
    for name, array in inputs.items():
        dtype = plan.inputs[name].dtype
        is_half = is_float(dtype) and dtype.itemsize == 2
        given[name] = widened(array, dtype).astype("float64") if is_half else array
    with np.errstate(all="ignore"):
        arrays = grouped(given, plan.lists)
        expected = flattened(reference(**arrays, **plan.parameters))
        sizes = flattened(problem.magnitude(**arrays, **plan.parameters)) if problem.magnitude else {}
    return {
        name: Answer(expected[name], limit_of(plan, expected[name], sizes.get(name), spec.dtype), spec.dtype)
        for name, spec in plan.outputs.items()
    }


def limit_of(plan: Plan, expected: Any, magnitude: Any, dtype: np.dtype[Any]) -> Any:
    """Return the largest error that each element of an output may have."""
    if not is_float(dtype):
        return 0
    finfo = ml_dtypes.finfo(dtype)
    scale = np.maximum(abs(expected), float(finfo.smallest_normal))
    if magnitude is not None:
        scale = np.maximum(scale, abs(magnitude))
    return scale * (plan.roundings * float(finfo.eps))


__all__ = ["Answer", "Arena", "Own", "answers", "filled", "limit_of", "widened"]
