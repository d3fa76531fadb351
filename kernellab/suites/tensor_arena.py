"""Tensor arena: problems over lists of arrays on the device, in one array, in equal ones or in mixed ones."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any, TypeAlias

from kernellab.arrays import ArraySpec
from kernellab.plan import Plan
from kernellab.problem import Problem
from kernellab.suites.arena import Arena, filled
from kernellab.suites.peer_works import Peer, Setting, tensor, torch_on_stream
from kernellab.tensor_lists import flattened, grouped, mapped
from kernellab.verify import Verdict
from kernellab.workload import CallWorkload

SLACK = 2.0
"""Times our own limit that a peer may miss."""
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
    def inputs(self) -> dict[str, Any]:
        """Every input, on the device."""
        device = self.bench.device
        numbers = self.problem.inputs(self.problem.cases[0])
        fixed = {item.name for item in self.problem.operands if math.prod(map(_length, item.shape)) == 1}
        salts = iter(range(10**6))
        return {
            name: device.on_device(numbers[name])
            if name in fixed
            else mapped(lambda spec: filled(device, spec, next(salts), self.contents), specs)
            for name, specs in self.specs.items()
        }


def _length(name: str) -> int:
    return int(name) if name.isdigit() else 0


Change: TypeAlias = Callable[[Any, dict[str, Any], Setting], tuple[Callable[[], Any], Callable[[], Any]]]
"""``change(torch, tensors, setting) -> (call, reset)``: what changes tensors in place, and what it needs reset before."""


def in_place(name: str, change: Change, is_for: Callable[[Arena], bool] = lambda arena: True) -> Peer:
    """Return a peer in PyTorch that changes its inputs, and is judged by all that ours changes of them."""

    def work(arena: Arena, peer: Peer, plan: Plan) -> CallWorkload:
        pristine = flattened(arena.inputs)
        held = {key: pristine[key].copy() for key in plan.inputs}
        torch = torch_on_stream(arena.xp)
        tensors = {
            key: mapped(lambda array: tensor(torch, array, arena.element), each)
            for key, each in grouped(held, plan.lists).items()
        }
        setting = Setting(arena.xp, held, None, arena.element, arena.sizes, plan.parameters)
        call, reset = change(torch, tensors, setting)

        def before() -> None:
            for key in plan.in_place:
                held[key][...] = pristine[key]
            reset()

        def check() -> Verdict:
            answers = arena.answers(plan)
            each = (answers[key].judge(arena.xp, name, key, held[key], SLACK) for key in plan.outputs)
            return Verdict(name, tuple(part for verdict in each for part in verdict.comparisons))

        cost = plan.cost()
        return CallWorkload(
            name, call, cost.nbytes, cost.flops, check, None, before, written=cost.bytes_written
        )

    return Peer(name, _never, is_for=is_for, work=work)


def _never(setting: Setting) -> Callable[[], Any]:
    raise NotImplementedError("this peer makes its work itself")


__all__ = ["SPLITS", "TensorArena", "in_place", "lengths_of", "over_lists"]
