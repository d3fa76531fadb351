"""Tensor arena: problems over lists of arrays on the device, in one array, in equal ones or in mixed ones."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, TypeAlias

from kernellab.arrays import ArraySpec
from kernellab.instruments.clock import Call
from kernellab.plan import Plan
from kernellab.problem import Problem
from kernellab.suites.arena import Answer, Arena, answers, filled
from kernellab.suites.peer_works import Peer, Setting, tensor, torch_on_stream
from kernellab.tensor_lists import base_name, flattened, grouped, is_list, mapped
from kernellab.verify import Comparison, Verdict
from kernellab.workload import CallWorkload

SLACK = 2.0
"""Times our own limit that a peer may miss."""
ALIGNED = 256
"""Elements to a multiple of which arrays of a list are apart."""
SPLITS = ("tensors", "mixed_tensors")
"""Sizes that say into how many arrays ``n`` elements are split: equal ones, or of lengths up to 2048 times others'."""


def over_lists(problem: Problem) -> bool:
    """Whether a problem takes lists of arrays."""
    return any(operand.is_list for operand in problem.operands)


def lengths_of(sizes: Mapping[str, int]) -> tuple[int, ...] | None:
    """Return the lengths of the arrays; None for one array.

    Examples
    --------
    >>> lengths_of({"n": 10, "tensors": 4}), lengths_of({"n": 70, "mixed_tensors": 4}), lengths_of({"n": 10})
    ((3, 3, 2, 2), (4, 9, 18, 39), None)
    """
    n = sizes["n"]
    if "tensors" in sizes:
        count = sizes["tensors"]
        return tuple(n // count + (k < n % count) for k in range(count))
    if "mixed_tensors" not in sizes:
        return None
    shares = [2 ** (k % 12) for k in range(sizes["mixed_tensors"])]
    found = [n * share // sum(shares) for share in shares]
    return (*found[:-1], n - sum(found[:-1]))


class TensorArena(Arena):
    """One problem over lists, at one size; numbers of one element are those of the problem's first case."""

    @cached_property
    def specs(self) -> dict[str, Any]:
        """Every input without memory: an array, or a tuple of such."""
        lengths, found = lengths_of(self.sizes), dict[str, Any]()
        for item in (each.at(self.element) for each in self.problem.operands if each.is_input):
            if item.is_list and lengths is not None:
                found[item.name] = tuple(ArraySpec((n,), item.numpy_dtype) for n in lengths)
            else:
                shape = tuple(int(name) if name.isdigit() else self.sizes[name] for name in item.shape)
                found[item.name] = ArraySpec(shape, item.numpy_dtype)
        return found

    @cached_property
    def whole(self) -> dict[str, Any]:
        """Every input, on the device; a list in one array, from which its own are cut."""
        device = self.bench.device
        numbers = self.problem.inputs(self.problem.cases[0])
        fixed = {item.name for item in self.problem.operands if math.prod(map(_length, item.shape)) == 1}
        found = {}
        for salt, (name, spec) in enumerate(self.specs.items()):
            last = self.cuts[-1][1] if is_list(spec) else 0
            whole = ArraySpec((last,), spec[0].dtype) if is_list(spec) else spec
            found[name] = (
                device.on_device(numbers[name])
                if name in fixed
                else filled(device, whole, salt, self.contents)
            )
        return found

    @cached_property
    def cuts(self) -> list[tuple[int, int]]:
        """Where each array of a list begins and ends; each begins where a GPU's allocation might."""
        found, start = [], 0
        for n in lengths_of(self.sizes) or ():
            found.append((start, start + n))
            start += -(-n // ALIGNED) * ALIGNED
        return found

    def cut(self, name: str, whole: Any) -> Any:
        """Return the arrays of a list, as views; anything else as it is."""
        if not is_list(self.specs[name]):
            return whole
        return tuple(whole[start:stop] for start, stop in self.cuts)

    @cached_property
    def inputs(self) -> dict[str, Any]:
        """Every input, on the device."""
        return {name: self.cut(name, whole) for name, whole in self.whole.items()}

    def copies(self, names: Sequence[str]) -> tuple[dict[str, Any], Call]:
        """Return copies, those of a list together: one launch gives all of them their contents back."""
        made = {name: self.whole[name].copy() for name in dict.fromkeys(map(base_name, names))}

        def restore() -> None:
            for name, array in made.items():
                array[...] = self.whole[name]

        return flattened({name: self.cut(name, array) for name, array in made.items()}), restore

    def answers(self, plan: Plan) -> dict[str, Answer]:
        """Return what is right, by operand: lists are judged as one array."""
        if not self._answers:
            given = flattened(self.inputs)
            each = answers(plan, {name: given[name] for name in plan.inputs})
            for name, group in grouped(each).items():
                self._answers[name] = self._joined(group) if is_list(group) else group
        return self._answers

    def _joined(self, group: Sequence[Answer]) -> Answer:
        parts = ([each.expected for each in group], [each.limit for each in group])
        expected, limit = (self.xp.concatenate(part) for part in parts)
        return Answer(expected, limit, group[0].dtype)

    def verdict(self, plan: Plan, who: str, buffers: Mapping[str, Any], slack: float = 1.0) -> Verdict:
        """Judge all outputs of a plan."""
        found = grouped({key: buffers[key] for key in plan.outputs})
        comparisons: list[Comparison] = []
        for name, array in found.items():
            written = self.xp.concatenate(list(array)) if is_list(array) else array
            comparisons += self.answers(plan)[name].judge(self.xp, who, name, written, slack).comparisons
        return Verdict(who, tuple(comparisons))


def _length(name: str) -> int:
    return int(name) if name.isdigit() else 0


Change: TypeAlias = Callable[[Any, dict[str, Any], Setting], tuple[Callable[[], Any], Callable[[], Any]]]
"""``change(torch, tensors, setting) -> (call, reset)``: what changes tensors in place, and what it needs reset before."""


def in_place(name: str, change: Change, is_for: Callable[[Arena], bool] = lambda arena: True) -> Peer:
    """Return a peer in PyTorch that changes its inputs, and is judged by all that ours changes of them."""

    def work(arena: Arena, peer: Peer, plan: Plan) -> CallWorkload:
        changed, restore = arena.copies(plan.in_place)
        kept, _ = arena.copies([key for key in plan.inputs if key not in changed])
        held = {key: changed[key] if key in changed else kept[key] for key in plan.inputs}
        torch = torch_on_stream(arena.xp)
        tensors = {
            key: mapped(lambda array: tensor(torch, array, arena.element), each)
            for key, each in grouped(held, plan.lists).items()
        }
        setting = Setting(arena.xp, held, None, arena.element, arena.sizes, plan.parameters)
        call, reset = change(torch, tensors, setting)

        def before() -> None:
            restore()
            reset()

        def check() -> Verdict:
            return arena.verdict(plan, name, held, SLACK)

        cost = plan.cost()
        return CallWorkload(
            name, call, cost.nbytes, cost.flops, check, None, before, written=cost.bytes_written
        )

    return Peer(name, _never, is_for=is_for, work=work)


def _never(setting: Setting) -> Callable[[], Any]:
    raise NotImplementedError("this peer makes its work itself")


__all__ = ["SPLITS", "TensorArena", "in_place", "lengths_of", "over_lists"]
