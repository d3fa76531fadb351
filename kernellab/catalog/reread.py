"""Reread: a set read again and again, so that its bytes over time are the bandwidth of the level that holds it."""

# mypy: disable-error-code="no-untyped-def, no-untyped-call, untyped-decorator"
# ruff: noqa: N803, N806

from __future__ import annotations

from math import gcd
from typing import Any

import numpy as np

from kernellab.catalog import vectors
from kernellab.kernel import Geometry, Kernel
from kernellab.problem import Array, Arrays, Case, Cost, Operand, Parameter, Problem, Sizes

TILE, THREADS, VECTORS = 4096, 256, 4
"""Floats of a tile, and the threads that read it, so many vectors of four floats each."""
SUMS = 16
"""Of a thread of reread/registers: neighbouring multiply-adds share two operands, and none waits."""
LARGEST = 4
"""The inputs are whole numbers below it: their sums are exact in whatever order."""


def built_in() -> Array:
    """Return the floats of reread/constant, which nothing may change.

    Examples
    --------
    >>> built_in()[:8].tolist()
    [0.0, 2.0, 0.0, 1.0, 3.0, 0.0, 2.0, 0.0]
    """
    fixed = (np.arange(TILE) * 7 % 5 % LARGEST).astype(np.float32)
    fixed.flags.writeable = False
    return fixed


def reference(
    reads: int,
    data: Array | None = None,
    start: Array | None = None,
    shift: Array | None = None,
    mask: int = 0,
    step: int = 1,
) -> dict[str, Array]:
    """Return, for each block and thread, the sum of data[2i] data[2i+1] over its floats of what is read, in float64."""
    if data is None or start is None:
        return {"y": _of_constants(np.asarray(shift), int(reads), mask)}
    tiles, tile = data.shape
    vectors_of = data.reshape(tiles, VECTORS, tile // (4 * VECTORS), 4)
    products = vectors_of[..., 0::2].astype(np.float64) * vectors_of[..., 1::2]
    sums = products.sum(axis=(1, 3))
    round_of = tiles // gcd(step, tiles) if tiles else 1
    rounds, rest = divmod(int(reads), round_of)
    y = np.zeros((start.size, sums.shape[1]))
    for read in range(round_of if rounds and start.size else 0):
        y += rounds * sums[(start + read * step) % tiles]
    for read in range(rest if start.size else 0):
        y += sums[(start + read * step) % tiles]
    return {"y": y}


def _of_constants(shift: Array, reads: int, mask: int) -> Array:
    vectors_of = built_in().reshape(-1, 4).astype(np.float64)
    sums = (vectors_of[:, 0::2] * vectors_of[:, 1::2]).sum(axis=1)
    # Every 1024 vectors the places are the same again, as the mask is smaller.
    round_of = sums[(shift[:, None] + np.arange(TILE // 4)) & mask]
    rounds, rest = divmod(4 * reads, TILE // 4)
    y = rounds * round_of.sum(axis=1) + round_of[:, :rest].sum(axis=1)
    return np.repeat(y[:, None], THREADS, axis=1)


def make_inputs(case: Case, rng: np.random.Generator) -> dict[str, Array]:
    """Return tiles of small whole numbers, and where blocks start, each a tile after the one before."""
    tiles, blocks = case.sizes["tiles"], case.sizes["blocks"]
    data = rng.integers(0, LARGEST, (tiles, case.sizes.get("TILE", TILE)), dtype=np.uint8).astype(np.float32)
    start = np.arange(blocks) % max(tiles, 1)
    return {"data": data, "start": start, "shift": rng.integers(0, TILE // 4, blocks)}


def cost(sizes: Sizes, arrays: Arrays) -> Cost:
    """Return the set, read once, and the sums, written: reading it again is what is measured."""
    read = 4 * TILE * sizes.get("tiles", 0) + 8 * sizes["blocks"]
    return Cost(bytes_read=read, bytes_written=4 * THREADS * sizes["blocks"])


def case(tiles: int, blocks: int, reads: int, step: int = 1) -> Case:
    """Return a case of a small set."""
    name = f"{blocks} blocks read {reads} of {tiles} tiles" + f", {step} apart" * (step > 1)
    return Case(name, {"tiles": tiles, "blocks": blocks}, {"reads": reads, "step": step})


PROBLEM = Problem(
    name="reread",
    summary="y[b][t] = sum of data[2i] data[2i+1] over thread t's floats of `reads` tiles from start[b], `step` apart",
    operands=(
        Operand("data", "float32", ("tiles", "TILE")),
        Operand("start", "int64", ("blocks",), index_of="tiles"),
        Operand("shift", "int64", ("blocks",)),
        Operand("y", "float32", ("blocks", "THREADS"), role="out"),
    ),
    parameters=(
        Parameter("reads", "int32", default=16, minimum=0),
        Parameter("step", "int32", default=1, minimum=0),
        Parameter("mask", "int32", default=63, minimum=0, maximum=TILE // 4 - 1),
    ),
    make_inputs=make_inputs,
    reference=reference,
    cost=cost,
    cases=(
        case(3, 2, 16),
        case(1, 2, 16),
        *(
            case(*numbers)
            for numbers in (
                (3, 3, 7),
                (2, 1, 0),
                (1, 3, 35),
                (1, 2, 517),
                (2, 0, 4),
                (0, 0, 4),
                (4, 3, 11, 2),
                (3, 2, 9, 8),
            )
        ),
    ),
)


def products() -> tuple[Any, Any]:
    """Return ``load(array, i)`` of four floats, and the device function ``add(sum, floats)``."""
    from numba import cuda

    load, _ = vectors.vector_access(4)

    @cuda.jit(device=True)
    def add(total, floats):
        return cuda.fma(floats[2], floats[3], cuda.fma(floats[0], floats[1], total))

    return load, add


def everywhere(TILE: int, THREADS: int) -> Any:
    """Make the twin of reread/global."""
    from numba import cuda, float32

    load, add = products()
    ZERO, STEP = float32(0), 4 * THREADS

    def reread_global(data, start, y, reads, step):
        b, t = cuda.blockIdx.x, cuda.threadIdx.x
        tile, tiles, total = start[b], data.shape[0], ZERO
        ahead = step % tiles
        for _ in range(reads):
            first = tile * TILE + 4 * t
            one, two = load(data, first), load(data, first + STEP)
            three, four = load(data, first + 2 * STEP), load(data, first + 3 * STEP)
            total = add(add(add(add(total, one), two), three), four)
            tile += ahead
            tile -= 0 if tile < tiles else tiles
        y[b, t] = total

    return reread_global


def shared(TILE: int, THREADS: int) -> Any:
    """Make the twin of reread/shared."""
    from numba import cuda, float32, int32

    load, add = products()
    _, store = vectors.vector_access(4)
    ZERO, STEP = float32(0), 4 * THREADS

    def reread_shared(data, start, y, reads):
        held = cuda.shared.array(0, float32)
        b, t = cuda.blockIdx.x, cuda.threadIdx.x
        size = data.size
        for i in range(4 * t, size, STEP):
            filled = load(data, i)
            store(held, i, filled)
        cuda.syncthreads()
        first, total = int32(start[b] * TILE + 4 * t), ZERO
        for _ in range(reads):
            one, two = load(held, first), load(held, first + STEP)
            three, four = load(held, first + 2 * STEP), load(held, first + 3 * STEP)
            total = add(add(add(add(total, one), two), three), four)
            first = int32(first + TILE if first + TILE < size else 4 * t)
        y[b, t] = total

    return reread_shared


def registers(TILE: int, THREADS: int, SUMS: int) -> Any:
    """Make the twin of reread/registers."""
    from numba import cuda, float32

    load, add = products()
    ZERO, STEP, EACH = float32(0), 4 * THREADS, 16
    FOURS = tuple(tuple(float32(4 * i + j) for j in range(4)) for i in range(4))
    BEGUN = float32(sum(range(16)))

    @cuda.jit(device=True)
    def to_four(totals, x, y):
        a, b, c, d = totals
        return cuda.fma(x, y, a), cuda.fma(x, y, b), cuda.fma(x, y, c), cuda.fma(x, y, d)

    @cuda.jit(device=True)
    def to_all(totals, x, y):
        a, b, c, d = totals
        return to_four(a, x, y), to_four(b, x, y), to_four(c, x, y), to_four(d, x, y)

    @cuda.jit(device=True)
    def add_to_all(totals, floats):
        x, y, z, w = floats
        return to_all(to_all(totals, x, y), z, w)

    @cuda.jit(device=True)
    def sum_of(totals):
        a, b, c, d = totals
        return a + b + c + d

    def sixteen_sums(data, start, y, reads):
        b, t = cuda.blockIdx.x, cuda.threadIdx.x
        first, totals = start[b] * TILE + 4 * t, FOURS
        one, two = load(data, first), load(data, first + STEP)
        three, four = load(data, first + 2 * STEP), load(data, first + 3 * STEP)
        for _ in range(reads // (2 * SUMS)):
            for _ in range(2):
                totals = add_to_all(add_to_all(add_to_all(add_to_all(totals, one), two), three), four)
        i, j, k, m = totals
        total = sum_of(i) + sum_of(j) + sum_of(k) + sum_of(m) - BEGUN
        for _ in range(reads % (2 * SUMS)):
            total = add(add(add(add(total, one), two), three), four)
        y[b, t] = total

    def reread_registers(data, start, y, reads):
        b, t = cuda.blockIdx.x, cuda.threadIdx.x
        first, total = start[b] * TILE + 4 * t, ZERO
        one, two = load(data, first), load(data, first + STEP)
        three, four = load(data, first + 2 * STEP), load(data, first + 3 * STEP)
        for _ in range(reads // EACH):
            for _ in range(EACH):
                total = add(add(add(add(total, one), two), three), four)
        for _ in range(reads % EACH):
            total = add(add(add(add(total, one), two), three), four)
        y[b, t] = total

    sixteen_sums.__name__ = reread_registers.__name__
    return reread_registers if SUMS == 1 else sixteen_sums


def constant(TILE: int, THREADS: int) -> Any:
    """Make the twin of reread/constant."""
    from numba import cuda, float32, int32

    FIXED, ZERO = built_in(), float32(0)

    def reread_constant(shift, y, reads, mask):
        fixed = cuda.const.array_like(FIXED)
        b, t = cuda.blockIdx.x, cuda.threadIdx.x
        place, total = int32(shift[b]), ZERO
        for _ in range(4 * reads):
            k = 4 * (place & mask)
            total = cuda.fma(fixed[k], fixed[k + 1], total)
            total = cuda.fma(fixed[k + 2], fixed[k + 3], total)
            place = int32(place + 1)
        y[b, t] = total

    return reread_constant


def four_vectors(constants: Sizes) -> str:
    """Return why the constants do not suit the kernels, or nothing."""
    tile, threads, sums = constants["TILE"], constants["THREADS"], constants.get("SUMS", SUMS)
    if tile != 4 * VECTORS * threads:
        return f"TILE is {tile} and THREADS {threads}, TILE must be {4 * VECTORS} THREADS"
    return "" if sums in (1, SUMS) else f"SUMS is {sums}, it must be 1 or {SUMS}"


def only(constants: Sizes) -> str:
    """Return why the constants are not those of the table that is built in, or nothing."""
    tile, threads = constants["TILE"], constants["THREADS"]
    is_right = (tile, threads) == (TILE, THREADS)
    return "" if is_right else f"TILE is {tile} and THREADS {threads}, they must be {TILE} and {THREADS}"


def one_tile(sizes: Sizes) -> str:
    """Return why registers do not hold a set, or nothing."""
    tiles = sizes["tiles"]
    return "" if tiles == 1 else f"data has {tiles} tiles, registers hold one; give one tile"


def rung(name: str, twin: Any, arguments: tuple[str, ...], **changes: Any) -> Kernel:
    """Return a kernel whose block b makes the sums y[b]."""
    dynamic = changes.pop("dynamic", None)
    constants = {"TILE": TILE, "THREADS": THREADS, **changes.pop("constants", {})}
    return Kernel(
        PROBLEM,
        name,
        arguments,
        Geometry(("THREADS",), lambda at: (at["blocks"],), dynamic_shared=dynamic),
        twin,
        constants=constants,
        alignment=16,
        **{"constraint": four_vectors, **changes},
    )


LADDER = (
    rung("global", everywhere, ("data", "start", "y", "reads", "step", "tiles")),
    rung("constant", constant, ("shift", "y", "reads", "mask"), constraint=only),
    rung(
        "shared",
        shared,
        ("data", "start", "y", "reads", "tiles"),
        dynamic=lambda at: 4 * at["TILE"] * at["tiles"],
    ),
    rung("registers", registers, ("data", "start", "y", "reads"), refusal=one_tile, constants={"SUMS": SUMS}),
)
