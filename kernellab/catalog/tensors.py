"""Tensors: what the problems over lists of arrays share: lengths, contents, geometries, rungs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from kernellab.catalog.elements import lanes
from kernellab.catalog.reductions import whole_warps
from kernellab.catalog.streams import THREADS
from kernellab.kernel import Geometry, covering
from kernellab.problem import ELEMENTS, Array, Case, Operand, Sizes
from kernellab.tensor_lists import each_of

WIDE = {"THREADS": THREADS, "VECTORS": 4}
SHAPE = {**WIDE, "TENSORS": 64}
"""Threads of a block, vectors a thread, tensors of a launch."""

MOST_TENSORS = 512
"""Of one launch, where there are more than the table holds by default: arguments have 32764 bytes at most."""

NO_TWIN = "Numba passes no structure by value, and a tuple of arrays would be compiled anew for each number of tensors"

LENGTHS = (1, 0, 33, 1025, 7, 4096, 128)


def cases(contents: str = "random") -> tuple[Case, ...]:
    """Return one array and lists of arrays, of lengths around whole warps and vectors."""
    sizes = {"n": sum(LENGTHS), "tensors": len(LENGTHS)}
    lists = [
        Case(f"lengths from 0 to 4096, {element}", sizes, contents="lengths", element=element)
        for element in ELEMENTS
    ]
    return (
        Case("16 Ki elements", {"n": 2**14}, contents=contents),
        Case("16 Ki elements, float16", {"n": 2**14}, contents=contents, element="float16"),
        *lists,
        Case("no tensor", {"n": 0, "tensors": 0}, contents="lengths"),
        *(Case(f"{n} elements", {"n": n}, contents=contents) for n in (0, 1, 1023, 1025)),
        Case("special values", {"n": 100}, contents="special values"),
        Case("special values, float16", {"n": 100}, contents="special values", element="float16"),
        Case("100 equal tensors", {"n": 800, "tensors": 100}, contents="equal"),
    )


def lengths_of(case: Case) -> tuple[int, ...] | None:
    """Return the lengths of a case's arrays; None where it is one array."""
    tensors = case.sizes.get("tensors")
    if tensors is None:
        return None
    if case.contents == "lengths":
        return LENGTHS[:tensors]
    return (case.sizes["n"] // max(tensors, 1),) * tensors


def made(case: Case, make: Callable[[int], Array]) -> Any:
    """Return an array of a case's length, or one for each of its lengths."""
    lengths = lengths_of(case)
    return make(case.sizes["n"]) if lengths is None else tuple(make(n) for n in lengths)


def scalars(*names: str, dtype: str = "float32", role: Any = "in") -> tuple[Operand, ...]:
    """Return operands of one element: numbers that live where the arrays do, so that no host waits for them."""
    return tuple(Operand(name, dtype, ("1",), role=role) for name in names)


def listed(name: str, dtype: str = "element", role: Any = "inout") -> Operand:
    """Return an operand that may be a list."""
    return Operand(name, dtype, ("n",), role=role, is_list=True)


def share(at: Sizes) -> int:
    """Return the elements that a block takes: some vectors a thread."""
    return at["THREADS"] * at["VECTORS"] * at.get("ROUNDS", 1) * lanes(ELEMENTS[at["ELEMENT"]])


def in_shares(each: Callable[[Sizes], int]) -> Geometry:
    """Return as many blocks as cover one array, each with a share of so many elements."""
    return Geometry(("THREADS",), lambda at: (covering(at["n"], each(at)),))


TABLE = Geometry(("THREADS",), lambda at: (at["blocks"],))
"""The blocks that a table needs."""


def chosen_for(sizes: Sizes, element: str) -> dict[str, int]:
    """Return a larger table where there are more tensors."""
    return {"TENSORS": MOST_TENSORS if sizes.get("tensors", 1) > SHAPE["TENSORS"] else SHAPE["TENSORS"]}


def in_limits(constants: Sizes) -> str:
    """Return why a launch of such a shape cannot be, or nothing."""
    if broken := whole_warps(constants):
        return broken
    for name, most in (("ROUNDS", 1024), ("BLOCKS", 2**20), ("TENSORS", MOST_TENSORS)):
        if not 1 <= constants.get(name, 1) <= most:
            return f"{name} is {constants[name]}, it must be 1 to {most}; take {SHAPE.get(name, 4)}"
    return ""


def nbytes(given: Any) -> int:
    """Return the bytes of an array or of a list of such."""
    return sum(int(array.size) * int(array.dtype.itemsize) for array in each_of(given))


def gradients(case: Case, rng: np.random.Generator) -> Any:
    """Return an array or a list of gradients, with the contents that the case names."""

    def make(n: int) -> Array:
        if case.contents == "special values":
            return special(n, rng)
        values = rng.standard_normal(n, np.float32)
        if case.contents == "infinite" and n:
            values[n // 2] = np.inf
        return values

    return made(case, make)


def special(n: int, rng: np.random.Generator) -> Array:
    """Return floats of which some are infinite, NaN or zero."""
    values = rng.standard_normal(n, dtype=np.float32)
    values[: n // 2] = rng.choice(np.array([np.nan, np.inf, -np.inf, 0, -0.0, 1]), n // 2)
    return values
