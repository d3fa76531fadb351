"""Shared stride: lanes read a tile in shared memory some elements apart, at three widths, padded or not."""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"
# ruff: noqa: N803, N806

from __future__ import annotations

from typing import Any

import numpy as np

from kernellab.catalog import twins, vectors
from kernellab.kernel import Geometry, Kernel
from kernellab.problem import Array, Arrays, Case, Cost, Operand, Parameter, Problem, Sizes

SIDE = 32


def reference(stride: int, **given: Array) -> dict[str, Array]:
    """Return, for each warp c and lane l of each tile, element (l * stride + c) % SIDE**2 of the tile."""
    (x,) = given.values()
    tiles, width = x.shape[0], x.shape[2] // SIDE
    warp, lane = np.mgrid[:SIDE, :SIDE]
    element = (lane * int(stride) + warp) % SIDE**2
    return {"y": x.reshape(tiles, SIDE**2, width)[:, element].reshape(x.shape)}


def make_inputs(case: Case, rng: np.random.Generator) -> dict[str, Array]:
    """Return tiles of SIDE rows of SIDE elements, each of one, two or four floats."""
    widths = {"words": SIDE, "pairs": 2 * SIDE, "quads": 4 * SIDE}
    tiles = case.sizes["tiles"]
    return {name: rng.standard_normal((tiles, SIDE, row), dtype=np.float32) for name, row in widths.items()}


def cost(sizes: Sizes, arrays: Arrays) -> Cost:
    """Return the bytes of the tiles, read once and written once."""
    (x,) = arrays.values()
    return Cost(bytes_read=x.nbytes, bytes_written=x.nbytes)


STRIDES = (1, 2, 3, 8, 31, 33, 1000, 1024)

PROBLEM = Problem(
    name="shared_stride",
    summary="y[b][c][l] = element (l * stride + c) % 1024 of tile b, through shared memory",
    operands=(
        Operand("words", "float32", ("tiles", "SIDE", "ROW")),
        Operand("pairs", "float32", ("tiles", "SIDE", "ROW")),
        Operand("quads", "float32", ("tiles", "SIDE", "ROW")),
        Operand("y", "float32", ("tiles", "SIDE", "ROW"), role="out"),
    ),
    parameters=(Parameter("stride", "int32", default=SIDE, minimum=1, maximum=SIDE**2),),
    make_inputs=make_inputs,
    reference=reference,
    cost=cost,
    cases=(
        Case("8 tiles by columns", {"tiles": 8}),
        Case("no tile", {"tiles": 0}),
        *(Case(f"stride {stride}", {"tiles": 2}, {"stride": stride}) for stride in STRIDES),
    ),
    is_bitwise=True,
)


def word_reader(name: str, SIDE: int, PITCH: int) -> Any:
    """Make a twin whose lanes read one float each, from a tile with rows PITCH floats apart."""
    from numba import cuda, float32

    def reader(words, y, stride):
        tile = cuda.shared.array((SIDE, PITCH), float32)
        b, c, lane = cuda.blockIdx.x, cuda.threadIdx.y, cuda.threadIdx.x

        # Fill the tile row by row, without conflicts.
        filled = words[b, c, lane]
        tile[c, lane] = filled
        cuda.syncthreads()

        # Warp c starts at element c; its lanes are `stride` elements apart.
        element = (lane * stride + c) % (SIDE * SIDE)
        value = tile[element // SIDE, element % SIDE]
        y[b, c, lane] = value

    return twins.renamed(reader, name)


def vector_reader(name: str, SIDE: int, PITCH: int, WIDTH: int) -> Any:
    """Make a twin whose lanes read WIDTH floats each, from a tile with rows PITCH elements apart."""
    from numba import cuda, float32

    FLOATS = SIDE * PITCH * WIDTH
    load, store = vectors.vector_access(WIDTH)

    def reader(x, y, stride):
        tile = cuda.shared.array(FLOATS, float32, alignment=16)
        c, lane = cuda.threadIdx.y, cuda.threadIdx.x
        thread = (cuda.blockIdx.x * SIDE + c) * SIDE + lane

        # Fill the tile row by row, without conflicts.
        filled = load(x, WIDTH * thread)
        store(tile, WIDTH * (c * PITCH + lane), filled)
        cuda.syncthreads()

        # Warp c starts at element c; its lanes are `stride` elements apart.
        element = (lane * stride + c) % (SIDE * SIDE)
        value = load(tile, WIDTH * (element // SIDE * PITCH + element % SIDE))
        store(y, WIDTH * thread, value)

    return twins.renamed(reader, name)


def words(SIDE: int, ROW: int) -> Any:
    """Make the twin of shared_stride/words."""
    return word_reader("shared_stride_words", SIDE, SIDE)


def padded_words(SIDE: int, ROW: int) -> Any:
    """Make the twin of shared_stride/padded_words."""
    return word_reader("shared_stride_padded_words", SIDE, SIDE + 1)


def pairs(SIDE: int, ROW: int) -> Any:
    """Make the twin of shared_stride/pairs."""
    return vector_reader("shared_stride_pairs", SIDE, SIDE, 2)


def padded_pairs(SIDE: int, ROW: int) -> Any:
    """Make the twin of shared_stride/padded_pairs."""
    return vector_reader("shared_stride_padded_pairs", SIDE, SIDE + 1, 2)


def quads(SIDE: int, ROW: int) -> Any:
    """Make the twin of shared_stride/quads."""
    return vector_reader("shared_stride_quads", SIDE, SIDE, 4)


def padded_quads(SIDE: int, ROW: int) -> Any:
    """Make the twin of shared_stride/padded_quads."""
    return vector_reader("shared_stride_padded_quads", SIDE, SIDE + 1, 4)


def padding_unused(SIDE: int, ROW: int) -> Any:
    """Make the twin of shared_stride/padding_unused: room for a pitch of SIDE + 1, indexed with SIDE."""
    from numba import cuda, float32

    PADDED = SIDE * (SIDE + 1)

    def shared_stride_padding_unused(words, y, stride):
        tile = cuda.shared.array(PADDED, float32)
        b, c, lane = cuda.blockIdx.x, cuda.threadIdx.y, cuda.threadIdx.x

        filled = words[b, c, lane]
        tile[c * SIDE + lane] = filled
        cuda.syncthreads()

        element = (lane * stride + c) % (SIDE * SIDE)
        value = tile[element // SIDE * SIDE + element % SIDE]
        y[b, c, lane] = value

    return shared_stride_padding_unused


def rung(operand: str, name: str, twin: Any, *, width: int, pitch: int, fault: str = "") -> Kernel:
    """Return a kernel that reads `width` floats a lane from rows of `pitch` elements."""
    nbytes = 4 * width * SIDE * pitch
    geometry = Geometry(("SIDE", "SIDE"), lambda at: (at["tiles"],), static_shared=lambda at: nbytes)
    return Kernel(
        PROBLEM,
        name,
        (operand, "y", "stride"),
        geometry,
        twin,
        constants={"SIDE": SIDE, "ROW": SIDE * width},
        alignment=4 * width,
        fault=fault,
    )


LADDER = (
    rung("words", "words", words, width=1, pitch=SIDE),
    rung("words", "padded_words", padded_words, width=1, pitch=SIDE + 1),
    rung("pairs", "pairs", pairs, width=2, pitch=SIDE),
    rung("pairs", "padded_pairs", padded_pairs, width=2, pitch=SIDE + 1),
    rung("quads", "quads", quads, width=4, pitch=SIDE),
    rung("quads", "padded_quads", padded_quads, width=4, pitch=SIDE + 1),
    rung(
        "words",
        "padding_unused",
        padding_unused,
        width=1,
        pitch=SIDE + 1,
        fault="the tile is declared with padding and indexed without, so columns conflict as if it had none",
    ),
)
