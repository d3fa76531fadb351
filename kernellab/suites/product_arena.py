"""Product arena: matrix products on the device, judged in full by a product in float64.

That product is a library's; rows of it are made again without one. So every element of an answer is looked at,
by a bound that grows with k and the sum of |a| |b|, in the time of one product in float64.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any

import numpy as np

from kernellab.arrays import ArraySpec
from kernellab.catalog import products
from kernellab.errors import MismatchError
from kernellab.plan import Plan
from kernellab.problem import Problem
from kernellab.suites.arena import Answer, Arena, filled, limit_of, widened
from kernellab.suites.bench import Bench
from kernellab.suites.peer_works import as_array, tensor, torch_on_stream
from kernellab.suites.tensor_arena import TensorArena, over_lists

ROWS = 64
"""Rows of the product in float64 that are made again."""


def is_product(problem: Problem) -> bool:
    """Whether a problem is a product of matrices."""
    return {"m", "n", "k"} <= {name for item in problem.operands for name in item.shape}


def is_turned(problem: Problem) -> bool:
    """Whether its second matrix is given as (n, k)."""
    return problem.operand("b").shape == ("n", "k")


class ProductArena(Arena):
    """One product at one size; the inputs are spread as the catalogue's are."""

    @cached_property
    def inputs(self) -> dict[str, Any]:
        """Every input, on the device: ``b`` of variance 1 / k, the others of 1."""
        found = {}
        for salt, (name, spec) in enumerate(self.specs.items()):
            deviation = max(self.sizes["k"], 1) ** -0.5 if name == "b" else 1.0
            matrix = ArraySpec((1, *spec.shape)[-2:], spec.dtype)  # so that a bias is spread around 0 too
            made = filled(self.bench.device, matrix, salt, self.contents, deviation)
            found[name] = made.reshape(spec.shape)
        return found

    def answers(self, plan: Plan) -> dict[str, Answer]:
        """Return what is right, and the errors allowed; the same for all rungs."""
        if not self._answers:
            ((name, spec),) = plan.outputs.items()
            wide = {key: widened(self.inputs[key], spec.dtype).astype("float64") for key in plan.inputs}
            a, b = wide.pop("a"), wide.pop("b")
            b = b.T if is_turned(self.problem) else b
            product, absolute = exact(self.xp, a, b), exact(self.xp, abs(a), abs(b))
            rest: dict[str, Any] = {**wide, **plan.parameters}
            size = products.magnitude(product, absolute, self.element, self.sizes["k"], **rest)
            expected = products.answer(product, **rest)
            self._answers[name] = Answer(expected, limit_of(plan, expected, size, spec.dtype), spec.dtype)
        return self._answers


def arena_of(bench: Bench, problem: Problem, sizes: Mapping[str, int], element: str) -> Arena:
    """Return where works of a problem are judged and timed."""
    kind = ProductArena if is_product(problem) else TensorArena if over_lists(problem) else Arena
    return kind(bench, problem, sizes, element)


def multiplied(xp: Any, a: Any, b: Any) -> Any:
    """Return a product in float64 on the device: PyTorch's, or CuPy's, which needs a wheel of its own."""
    try:
        torch = torch_on_stream(xp)
    except ImportError:
        return xp.matmul(a, b)
    return as_array(xp, torch.mm(tensor(torch, a), tensor(torch, b)))


def exact(xp: Any, a: Any, b: Any) -> Any:
    """Return a product in float64 on the device, some rows of which were found right.

    Raises
    ------
    MismatchError
        If one was not.
    """
    product = multiplied(xp, a, b)
    (m, k), worst = a.shape, np.float64(0)
    chosen = np.random.default_rng(m).choice(m, min(ROWS, m), replace=False).tolist() if k else ()
    for i in chosen:
        again = (a[i][:, None] * b).sum(axis=0)
        worst = np.maximum(worst, abs(again - product[i]).max())
    allowed = float(np.finfo(np.float64).eps) * k * k * float(abs(a).max() * abs(b).max()) if k else 0.0
    if not float(worst) <= allowed:
        raise MismatchError(
            f"the product in float64 misses {ROWS} rows made without a library by {float(worst):.3g}, "
            f"{allowed:.3g} is allowed; look at the library"
        )
    return product


__all__ = ["ROWS", "ProductArena", "arena_of", "exact", "is_product", "is_turned", "multiplied"]
