"""Copy: the same bytes moved in different orders, widths and layouts."""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"
# ruff: noqa: N803, N806

from __future__ import annotations

import math
from typing import Any

import numpy as np

from kernellab.catalog import elements, vectors
from kernellab.catalog.streams import EACH
from kernellab.kernel import Geometry, Kernel, covering
from kernellab.problem import (
    ELEMENT_CODES,
    MOVED,
    Array,
    Arrays,
    Case,
    Cost,
    Operand,
    Parameter,
    Problem,
    Sizes,
    dtype_named,
)

RECORD = {"MEMBERS": 4}


def reference(**given: Any) -> dict[str, Array]:
    """Return what each rung must give, whichever input it takes."""
    if "table" in given:
        return {"y": given["table"][given["index"]]}
    if "records" in given:
        return {"y": given["records"][:, 1]}
    if "fields" in given:
        return {"y": given["fields"][1]}
    return {"y": given["x"]}


def make_inputs(case: Case, rng: np.random.Generator) -> dict[str, Array]:
    """Return n elements, a table of as many with an index into it, and n records in both layouts."""
    n = case.sizes["n"]
    x = random_bits(rng, (n,), case.element)
    index = np.arange(n, dtype=np.int64) * 4097 % max(n, 1)
    if case.contents == "special values":
        x[: special_values().size] = special_values()[:n]
        index = rng.integers(-n, n, size=n)
    records = rng.standard_normal((n, RECORD["MEMBERS"]), dtype=np.float32)
    fields = np.ascontiguousarray(records.T)
    table = x.copy() if x.dtype == np.float32 else records[:, 0].copy()
    return {"x": x, "table": table, "index": index, "records": records, "fields": fields}


def random_bits(rng: np.random.Generator, shape: tuple[int, ...], element: str) -> Array:
    """Return an array of normal floats; where elements are only moved, and no float32, of any bits."""
    if element == "float32":
        return rng.standard_normal(shape, dtype=np.float32)
    dtype = dtype_named(element)
    return np.frombuffer(rng.bytes(math.prod(shape) * dtype.itemsize), dtype).reshape(shape)


def special_values() -> Array:
    """Return float32 values to keep bit for bit: NaN, infinities, zeros, subnormals, the limits."""
    limits = np.finfo(np.float32)
    values = [np.nan, -np.nan, np.inf, -np.inf, 0.0, -0.0, limits.smallest_subnormal, limits.max, limits.min]
    return np.array([*values, limits.smallest_normal, -limits.smallest_subnormal], dtype=np.float32)


def cost(sizes: Sizes, arrays: Arrays) -> Cost:
    """Return every element read once and written once; the index of a gather is read too."""
    n = sizes["n"]
    each = 4 if "x" not in arrays else int(arrays["x"].dtype.itemsize)
    return Cost(bytes_read=n * (each + 8 * ("index" in arrays)), bytes_written=n * each)


SIZES = (0, 1, 31, 33, 1000, 1023, 1024, 1025)
CASES = (
    Case("64 Ki elements", {"n": 2**16}),
    *(Case(f"{n} elements", {"n": n}) for n in SIZES),
    Case("special values", {"n": 1000}, contents="special values"),
    *(Case(f"1037 elements, {each}", {"n": 1037}, element=each) for each in MOVED[1:]),
    Case("stride 3, offset 17", {"n": 1000}, {"stride": 3, "offset": 17}),
    Case("stride and offset as long as the array", {"n": 33}, {"stride": 33, "offset": 33}),
)

PROBLEM = Problem(
    name="copy",
    summary="y = x, element by element",
    operands=(
        Operand("x", "element", ("n",)),
        Operand("table", "float32", ("length",)),
        Operand("index", "int64", ("n",), index_of="length", is_wrapping=True),
        Operand("records", "float32", ("n", "MEMBERS")),
        Operand("fields", "float32", ("MEMBERS", "n")),
        Operand("y", "element", ("n",), role="out"),
    ),
    parameters=(
        Parameter("stride", "int32", default=8, minimum=1, maximum=65535),
        Parameter("offset", "int64", default=1, minimum=0, maximum="n"),
    ),
    make_inputs=make_inputs,
    reference=reference,
    cost=cost,
    cases=CASES,
    is_bitwise=True,
)


def scalar(element: str) -> Any:
    """Make the twin of copy/scalar."""
    from numba import cuda

    def copy_scalar(x, y):
        i = cuda.grid(1)
        if i < x.size:
            value = x[i]
            y[i] = value

    return copy_scalar


def float4(element: str) -> Any:
    """Make the twin of copy/float4."""
    from numba import cuda

    load4, store4 = vectors.vector_access(4, "uint32")
    EACH = elements.lanes(element)

    def copy_float4(x, y):
        i = cuda.grid(1)
        vectors = x.size // EACH
        if i < vectors:
            value = load4(x, EACH * i)
            store4(y, EACH * i, value)

        last = EACH * vectors + i
        if last < x.size:
            rest = x[last]
            y[last] = rest

    return copy_float4


def float4_faulty() -> Any:
    """Make the twin of copy/float4_faulty, with the same two faults."""
    from numba import cuda

    load4, store4 = vectors.vector_access(4)

    def copy_float4_faulty(x, y):
        i = cuda.blockIdx.x * cuda.blockDim.x * 4 + cuda.threadIdx.x
        if i < x.size:
            value = load4(x, 4 * i)
            store4(y, 4 * i, value)

    return copy_float4_faulty


def strided() -> Any:
    """Make the twin of copy/strided."""
    from numba import cuda

    def copy_strided(x, y, stride):
        step, first = cuda.grid(2)
        i = step * stride + first
        if i < x.size:
            value = x[i]
            y[i] = value

    return copy_strided


def offset() -> Any:
    """Make the twin of copy/offset."""
    from numba import cuda

    def copy_offset(x, y, offset):
        thread = cuda.grid(1)
        if thread < x.size:
            i = thread + offset
            if i >= x.size:
                i -= x.size
            value = x[i]
            y[i] = value

    return copy_offset


def take() -> Any:
    """Make the twin of copy/take; Numba wraps negative indices by itself."""
    from numba import cuda

    def copy_take(table, index, y):
        i = cuda.grid(1)
        if i < index.size:
            at = index[i]
            value = table[at]
            y[i] = value

    return copy_take


def aos(MEMBERS: int) -> Any:
    """Make the twin of copy/aos."""
    from numba import cuda

    def copy_aos(records, y):
        i = cuda.grid(1)
        if i < y.size:
            value = records[i, 1]
            y[i] = value

    return copy_aos


def soa(MEMBERS: int) -> Any:
    """Make the twin of copy/soa."""
    from numba import cuda

    def copy_soa(fields, y):
        i = cuda.grid(1)
        if i < y.size:
            value = fields[1, i]
            y[i] = value

    return copy_soa


def width(at: Sizes) -> int:
    """Return how many elements 16 bytes hold."""
    return elements.lanes(ELEMENT_CODES[at.get("ELEMENT", 0)])


FOURS = Geometry(block=(256,), grid=lambda at: (max(1, covering(at["n"] // width(at), at["threads"])),))
ROWS = Geometry(
    block=(256,), grid=lambda at: (covering(covering(at["n"], at["stride"]), at["threads"]), at["stride"])
)

SCALAR = Kernel(PROBLEM, "scalar", ("x", "y", "n"), EACH, scalar, elements=MOVED)

LADDER = (
    SCALAR,
    Kernel(PROBLEM, "float4", ("x", "y", "n"), FOURS, float4, alignment=16, fallback=SCALAR, elements=MOVED),
    Kernel(PROBLEM, "strided", ("x", "y", "n", "stride"), ROWS, strided),
    Kernel(PROBLEM, "offset", ("x", "y", "n", "offset"), EACH, offset),
    Kernel(PROBLEM, "take", ("table", "index", "y", "length", "n"), EACH, take),
    Kernel(PROBLEM, "aos", ("records", "y", "n"), EACH, aos, constants=RECORD),
    Kernel(PROBLEM, "soa", ("fields", "y", "n"), EACH, soa, constants=RECORD),
    Kernel(
        PROBLEM,
        "float4_faulty",
        ("x", "y", "n"),
        FOURS,
        float4_faulty,
        alignment=16,
        fault="blocks step four times too far and the bound counts elements where the index counts vectors",
        fails_on=tuple(
            case.name for case in CASES if case.sizes["n"] not in (0, 1024) and case.element == MOVED[0]
        ),
    ),
)
