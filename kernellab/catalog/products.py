"""Products of matrices: what the four problems share: reference, inputs, cost, error bound, cases.

A problem is a weight's layout, (k, n) or (n, k), and an epilogue, none or bias and GeLU.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from kernellab.arrays import spec_of
from kernellab.catalog import gelus, rows
from kernellab.kernel import Geometry, Kernel, Tile, Tuning, covering
from kernellab.problem import ELEMENTS, Array, Arrays, Case, Cost, Operand, Problem, Sizes, dtype_named
from kernellab.verify import ulp

FULL = (128, 128, 64)
EDGES = (
    *((1, 1, 1), (31, 37, 29), (127, 131, 67), (5, 7, 0), (0, 5, 3), (1, 300, 70)),
    *((257, 3, 40), (3, 257, 40), (129, 130, 65), (136, 264, 72), (2, 3, 264)),
)
HALF_EDGES = ((1, 1, 1), (31, 37, 29), (5, 7, 0), (136, 200, 72), (3, 257, 40), (2, 3, 264))
CONTENTS = ("NaN and infinities", "asymmetric")


def case(
    m: int,
    n: int,
    k: int,
    element: str = ELEMENTS[0],
    contents: str = "random",
    **parameters: int,
) -> Case:
    """Return a case of that size, named after all that is not usual."""
    words = [f"{m} x {n} x {k}"]
    words += [element] if element != ELEMENTS[0] else []
    words += [contents] if contents != "random" else []
    words += ["with erf"] if parameters.get("form", gelus.TANH) == gelus.ERF else []
    return Case(", ".join(words), {"m": m, "n": n, "k": k}, parameters, contents, element)


def cases(is_activated: bool) -> tuple[Case, ...]:
    """Return full tiles first, then edges, contents, 16-bit elements, and the other form of GeLU."""
    found = [case(*size) for size in (FULL, *EDGES)]
    found += [case(16, 32, 48, contents=word) for word in CONTENTS]
    for element in ELEMENTS[1:]:
        found += [case(*size, element) for size in (FULL, *HALF_EDGES)]
        found += [case(16, 32, 48, element, word) for word in CONTENTS]
    if is_activated:
        found += [case(64, 72, 40, element, form=gelus.ERF) for element in ELEMENTS]
    return tuple(found)


def inputs(case: Case, rng: np.random.Generator) -> dict[str, Array]:
    """Return ``a`` (m, k), ``b`` (k, n) of variance 1 / k, so that the answer's is 1, and ``bias`` (n,).

    ``"asymmetric"`` numbers the elements of ``a``, as 100 times the row plus the column, and gives ``b`` small
    multiples of 1/8 that repeat along neither axis: a layout taken for another gives other numbers.
    """
    m, n, k = (case.sizes[name] for name in ("m", "n", "k"))
    a = rng.standard_normal((m, k), dtype=np.float32)
    b = rng.standard_normal((k, n), dtype=np.float32) / np.float32(math.sqrt(max(k, 1)))
    if case.contents == "asymmetric":
        i, j = np.indices((m, k))
        a = (100 * i + j).astype(np.float32)
        i, j = np.indices((k, n))
        b = ((3 * i + 5 * j + i * j) % 7 - 3).astype(np.float32) / 8
    if case.contents == "NaN and infinities":
        a[1, 2], a[3, 4], a[5, :2], b[7, 8], b[9, 10] = np.nan, np.inf, (np.inf, -np.inf), np.nan, -np.inf
        b[11, 12], a[:, 11] = np.inf, 0
    return {"a": a, "b": b, "bias": rng.standard_normal(n, dtype=np.float32)}


def error_bound(element: str, k: int, accumulator: str = "float32") -> float:
    """Return the largest error that a right product may have, in proportion to the sum of |a| |b|.

    A chain of `k` additions, each rounded to nearest, drifts as the square root of `k`. Tensor cores, which take
    16-bit elements 16 at a time, cut off instead: half a unit each time, of a sum half as large on average. A sum
    in float16 soon loses the whole of each term.

    Parameters
    ----------
    element : {"float32", "tensorfloat32", "float16", "bfloat16"}
        What is multiplied; ``"tensorfloat32"`` is float32 rounded to 10 bits of mantissa, which is an error of
        its own.
    k : int
        Terms of each sum.
    accumulator : {"float32", "float16"}
        What is added in.

    Examples
    --------
    >>> error_bound("float32", 1024) < 1e-5 < error_bound("tensorfloat32", 1024) < 1e-3
    True
    """
    unit = float(np.finfo(np.dtype(accumulator)).eps)
    drift = math.sqrt(k) + (0 if element == "float32" else k / 64)
    drift = k if accumulator == "float16" else drift
    return unit * drift + (2.0**-10 if element == "tensorfloat32" else 0.0)


def answer(product: Array, bias: Array | None = None, form: int = gelus.TANH) -> Array:
    """Return what a problem answers, made of the product in float64."""
    if bias is None:
        return product
    with np.errstate(all="ignore"):
        return gelus.gelu(product + bias.astype(np.float64), form)


def magnitude(
    product: Array,
    absolute: Array,
    element: str,
    k: int,
    bias: Array | None = None,
    form: int = gelus.TANH,
) -> Array:
    """Return the answer's own size, and its error's where that is larger, in units of the element.

    Parameters
    ----------
    product, absolute : array
        ``a @ b`` and ``abs(a) @ abs(b)`` in float64.
    element : {"float32", "float16", "bfloat16"}
        What was multiplied, and what the answer is in.
    k : int
        Terms of each sum.
    bias : array, optional
    form : int
        Of GeLU; without a bias there is none.
    """
    share = error_bound(element, k) / float(ulp(np.ones(1), dtype_named(element))[0])
    size = np.abs(product) + share * absolute
    if bias is None:
        return size
    wide = bias.astype(np.float64)
    with np.errstate(all="ignore"):
        between = product + wide
        return rows.passed_on(between, size + np.abs(wide), gelus.gelu(between, form))


def _product(a: Array, b: Array) -> Array:
    with np.errstate(all="ignore"):
        result: Array = a.astype(np.float64) @ b.astype(np.float64)
    return result


def _cost(sizes: Sizes, arrays: Arrays) -> Cost:
    """Return every element read and written once; a multiplication and an addition for each pair."""
    m, n, k = (sizes[name] for name in ("m", "n", "k"))
    each = int(spec_of(arrays["a"], "a").dtype.itemsize)
    return Cost((m * k + k * n) * each, m * n * each, 2 * m * n * k)


def _activated_cost(sizes: Sizes, arrays: Arrays) -> Cost:
    """Return that of the product, the bias read once, and eleven operations more an element."""
    plain = _cost(sizes, arrays)
    bias_bytes = sizes["n"] * int(spec_of(arrays["bias"], "bias").dtype.itemsize)
    flops = plain.flops + 11 * sizes["m"] * sizes["n"]
    return Cost(plain.bytes_read + bias_bytes, plain.bytes_written, flops)


def problem(name: str) -> Problem:
    """Return the problem of that name: ``matmul``, then ``_nt`` and ``_bias_gelu`` for what it has of these.

    Examples
    --------
    >>> problem("matmul_nt_bias_gelu").summary
    'y = gelu(a @ b.T + bias)'
    """
    is_turned, is_activated = "_nt" in name, name.endswith("_bias_gelu")

    def turned(b: Array) -> Array:
        return b.T if is_turned else b

    def make_inputs(case: Case, rng: np.random.Generator) -> dict[str, Array]:
        made = inputs(case, rng)
        made["b"] = np.ascontiguousarray(turned(made["b"]))
        return made if is_activated else {"a": made["a"], "b": made["b"]}

    def reference(a: Array, b: Array, **rest: Any) -> dict[str, Array]:
        return {"y": answer(_product(a, turned(b)), **rest)}

    def sizes(a: Array, b: Array, **rest: Any) -> dict[str, Array]:
        parts = _product(a, turned(b)), _product(np.abs(a), np.abs(turned(b)))
        return {"y": magnitude(*parts, a.dtype.name, a.shape[1], **rest)}

    product = "a @ b.T" if is_turned else "a @ b"
    bias = (Operand("bias", "element", ("n",)),) if is_activated else ()
    return Problem(
        name=name,
        summary=f"y = gelu({product} + bias)" if is_activated else f"y = {product}",
        operands=(
            Operand("a", "element", ("m", "k")),
            Operand("b", "element", ("n", "k") if is_turned else ("k", "n")),
            *bias,
            Operand("y", "element", ("m", "n"), role="out"),
        ),
        make_inputs=make_inputs,
        reference=reference,
        magnitude=sizes,
        cost=_activated_cost if is_activated else _cost,
        cases=cases(is_activated),
        parameters=(gelus.FORM,) if is_activated else (),
        roundings=6 if is_activated else 2,
    )


def arguments(problem: Problem) -> tuple[str, ...]:
    """Return the arguments of every rung of one launch: arrays, the three sizes, the form of GeLU."""
    arrays = (operand.name for operand in problem.operands)
    return (*arrays, "m", "n", "k", *(item.name for item in problem.parameters))


def tiles(rows_each: int, columns_each: int) -> Any:
    """Return the grid of a block for each tile, all on x."""
    return lambda at: (covering(at["m"], rows_each) * covering(at["n"], columns_each),)


def in_vectors(sizes: Sizes) -> str:
    """Return why rows of 16-bit elements do not start at multiples of 16 bytes, or nothing."""
    for name in ("k", "n"):
        if sizes[name] % 8 or not sizes[name]:
            return (
                f"{name} is {sizes[name]}, it must be a multiple of 8 and not 0; pad it, or take another rung"
            )
    return ""


WGMMA_BASE = {"ROWS": 128, "COLUMNS": 256, "STAGES": 4, "CLUSTER": 1, "BAND": 16}


WGMMA_TABLE: Mapping[float, Mapping[str, int]] = {
    66: {"COLUMNS": 128, "STAGES": 6},
    1024: {},
    math.inf: {"CLUSTER": 2, "BAND": 8},
}
"""What differs from that, by the most tiles of 128 x 256 up to which it does. To measure it anew, on a GPU:
``kernellab tune matmul/wgmma --size m=2048 --size n=2048 --size k=2048 -c COLUMNS=128,256 -c CLUSTER=1,2``."""


def wgmma_shape(sizes: Sizes, element: str) -> dict[str, int]:
    """Return the tiles for a shape: narrower ones where there are few, two blocks to a part of b where many."""
    tiles = covering(sizes["m"], 128) * covering(sizes["n"], 256)
    chosen = next(each for most, each in WGMMA_TABLE.items() if tiles <= most)
    return {**WGMMA_BASE, **chosen}


def _clusters(at: Sizes) -> tuple[int, ...]:
    tiles = covering(at["m"], at["ROWS"] * at["CLUSTER"]) * covering(at["n"], at["COLUMNS"])
    return (min(tiles, at["multiprocessors"] // at["CLUSTER"]) * at["CLUSTER"],)


def wgmma(problem: Problem, fallback: Kernel) -> Kernel:
    """Return the rung of a problem that multiplies by warpgroups."""
    is_turned, has_forms = "_nt" in problem.name, bool(problem.parameters)  # barriers for each form of GeLU
    b = Tile(("PART", 64), 128) if is_turned else Tile((64, 64), 128)
    return Kernel(
        problem,
        "wgmma",
        arguments(problem),
        Geometry(
            (384,),
            _clusters,
            static_shared=lambda at: 16 * at["STAGES"] * (1 + has_forms),
            dynamic_shared=lambda at: (
                128 * at["STAGES"] * (at["ROWS"] + at["COLUMNS"]) + 256 * at["ROWS"] + 1024
            ),
        ),
        "Numba has neither tensor maps nor wgmma",
        WGMMA_BASE,
        elements=ELEMENTS[1:],
        requires=("sm_90a",),
        refusal=in_vectors,
        alignment=16,
        fallback=fallback,
        tiles={"a": Tile(("ROWS", 64), 128), "b": b, "y": Tile((64, 64), 128)},
        derived={"PART": lambda at: at["COLUMNS"] // at["CLUSTER"]},
        tuning=Tuning(WGMMA_BASE, wgmma_shape),
    )
