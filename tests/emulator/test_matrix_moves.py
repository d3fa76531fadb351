"""``ldmatrix``, ``stmatrix`` and ``movmatrix``: values, counts, and what must not be done with them."""

from __future__ import annotations

import numpy as np
import pytest
from launching import Kernels

from kernellab.errors import ExecutionError

MATRICES = Kernels.of("matrices.cu")
u16, u32 = np.uint16, np.uint32
FORMS = [(n, trans) for n in (1, 2, 4) for trans in (False, True)]


def name_of(operation, count, is_transposed):
    return f"{operation}_x{count}" + "_trans" * is_transposed


def held(matrices):
    """Registers of 8 x 8 matrices: lane i holds row i / 4, elements 2 (i % 4) and the next."""
    return np.ascontiguousarray(matrices).view(u32).reshape(len(matrices), 32)


def tile_of(rng):
    return rng.integers(0, 2**32, 1024, dtype=np.uint64).astype(u32)


def rows_in(tile, count, pitch, shift=0):
    """The 8 x 8 matrices at rows `pitch` bytes apart, as a view of all rows of 16 bytes."""
    starts = shift + pitch * np.arange(8 * count)
    return (starts[:, None] + np.arange(16)).reshape(-1), tile.view(np.uint8)


@pytest.mark.parametrize(("count", "is_transposed"), FORMS)
@pytest.mark.parametrize(("pitch", "shift"), [(16, 0), (80, 32), (128, 0)])
def test_ldmatrix(rng, count, is_transposed, pitch, shift):
    tile, y = tile_of(rng), np.zeros((4, 32), u32)
    trace = MATRICES(name_of("load", count, is_transposed), 1, 32, tile, y, pitch, shift)
    where, raw = rows_in(tile, count, pitch, shift)
    expected = raw[where].view(u16).reshape(count, 8, 8)
    if is_transposed:
        expected = expected.swapaxes(1, 2)
    np.testing.assert_array_equal(y[:count], held(expected))
    assert trace.source == "SASS"
    conflicts = 7 * count if pitch == 128 else 0
    assert trace.totals["shared_load_requests"] == 1
    assert trace.totals["shared_load_wavefronts"] == count + conflicts
    assert trace.totals["shared_load_bank_conflicts"] == conflicts


@pytest.mark.parametrize(("count", "is_transposed"), FORMS)
@pytest.mark.parametrize(("pitch", "shift"), [(16, 0), (80, 32), (128, 0)])
def test_stmatrix(rng, count, is_transposed, pitch, shift):
    matrices, y = rng.integers(0, 2**16, (count, 8, 8)).astype(u16), np.zeros(1024, u32)
    trace = MATRICES(name_of("store", count, is_transposed), 1, 32, held(matrices), y, pitch, shift)
    where, raw = rows_in(np.zeros(1024, u32), count, pitch, shift)
    raw[where] = (
        np.ascontiguousarray(matrices.swapaxes(1, 2) if is_transposed else matrices).view(np.uint8).ravel()
    )
    np.testing.assert_array_equal(y.view(np.uint8), raw)
    conflicts = 7 * count if pitch == 128 else 0
    assert trace.source == "SASS"
    assert trace.totals["shared_store_bank_conflicts"] == conflicts


def test_movmatrix(rng):
    x, y = rng.integers(0, 2**16, (1, 8, 8)).astype(u16), np.zeros(32, u32)
    MATRICES("move", 1, 32, held(x), y)
    np.testing.assert_array_equal(y, held(x.swapaxes(1, 2))[0])


def test_several_warps_of_several_blocks(rng):
    tile, y = tile_of(rng), np.zeros((4, 32), u32)
    MATRICES("load_x4", 5, 32, tile, y, 16, 0)
    np.testing.assert_array_equal(y, tile[:128].reshape(4, 32))


def test_a_misaligned_row_is_an_error(rng):
    with pytest.raises(
        ExecutionError, match=r"load_x4: misaligned shared load: address .* multiple of 16; at"
    ):
        MATRICES("load_x4", 1, 32, tile_of(rng), np.zeros((4, 32), u32), 20, 0)
    with pytest.raises(ExecutionError, match=r"store_x4: misaligned shared store.* multiple of 16"):
        MATRICES("store_x4", 1, 32, np.zeros((4, 32), u32), np.zeros(1024, u32), 16, 8)


def test_a_row_out_of_bounds_is_an_error(rng):
    with pytest.raises(
        ExecutionError, match=r"out of bounds shared load: byte 4096 of shared memory.*\(16, 0, 0\)"
    ):
        MATRICES("load_x4", 1, 32, tile_of(rng), np.zeros((4, 32), u32), 256, 0)
    with pytest.raises(ExecutionError, match=r"out of bounds shared store: byte 4096"):
        MATRICES("store_x4", 1, 32, np.zeros((4, 32), u32), np.zeros(1024, u32), 256, 0)


def test_lanes_that_name_no_row_may_name_anything(rng):
    y = np.zeros((4, 32), u32)
    MATRICES("load_x1", 1, 32, tile_of(rng), y, 512, 0)  # lanes 8 to 31 are out of bounds


def test_half_a_warp_is_an_error():
    with pytest.raises(ExecutionError, match=r"ldmatrix\.sync is executed without the lanes 0xffff0000"):
        MATRICES("half_a_warp_loads", 1, 32, np.zeros(32, u32))


def test_a_warp_that_is_not_whole_is_an_error(rng):
    with pytest.raises(ExecutionError, match="needs all 32 of a warp"):
        MATRICES("load_x1", 1, 48, tile_of(rng), np.zeros((4, 64), u32), 16, 0)


def test_unwritten_shared_memory_is_reported():
    trace = MATRICES("loads_what_nobody_wrote", 1, 32, np.zeros(32, u32))
    (found,) = trace.diagnostics
    assert (found.kind, found.thread, found.count) == ("unwritten shared memory", (7, 0, 0), 1)


@pytest.mark.parametrize("name", ["loads_without_a_barrier", "stores_without_a_barrier"])
def test_races_are_seen(name):
    y = np.zeros(64, u32)
    assert MATRICES(name, 1, 64, y, 1, sanitize=True).diagnostics == ()
    trace = MATRICES(name, 1, 64, y, 0, sanitize=True)
    assert {found.kind for found in trace.diagnostics} >= {"race"}
