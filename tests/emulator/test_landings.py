"""Warps that do not wait for a copy that others have waited for, and those that learn of it in another way."""

from __future__ import annotations

import numpy as np
import pytest
from hopper import kernels, product
from launching import KERNELS as FOLDER

from kernellab.errors import ExecutionError

MULTIPLY = product(8, "f32.f16.f16", 4, k=16, tail=", 1, 1, 0, 0")
KERNELS = kernels(MULTIPLY + (FOLDER / "landings.cu").read_text())
f32 = np.float32
SEEDS = [None, 1, 2]
RIGHT = ["WAITS", "BLOCK_BARRIER", "NAMED_BARRIER", "CHAIN", "FENCES", "RELEASE"]
HOW = [*RIGHT, "NOTHING", "ONCE", "LATE"]


def line_of(text):
    return KERNELS.text[: KERNELS.text.index(text)].count("\n") + 1


def ring(rng, how, seed, errors="raise"):
    x, y = rng.standard_normal((9, 32)).astype(f32), np.zeros((2, 32), f32)
    trace = KERNELS("ring", 2, 96, x, y, 5 if how == "LATE" else 9, HOW.index(how), seed=seed, errors=errors)
    return x, y, trace


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("how", RIGHT)
def test_who_knows_that_a_copy_has_landed_may_read_it(rng, how, seed):
    x, y, trace = ring(rng, how, seed)
    expected = np.zeros(32, f32)
    for row in x:
        expected = 2 * expected + row
    np.testing.assert_array_equal(y, np.tile(expected, (2, 1)))
    assert trace.diagnostics == ()


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("how", ["NOTHING", "ONCE", "LATE"])
def test_a_warp_that_does_not_wait_is_found_though_another_does(rng, how, seed):
    _, _, trace = ring(rng, how, seed, errors="return")
    [found] = trace.diagnostics
    assert (found.kind, found.line, found.thread[0] // 32) == ("in flight", line_of("sum = 2 * sum"), 2)
    assert f"instruction at source.cu:{line_of('cp.async.bulk.shared')}" in found.message
    assert "others have waited for it, this warp has not; wait for it first" in found.message


@pytest.mark.parametrize(("what", "operation"), [(0, "store"), (1, "atomic"), (2, "asynchronous read")])
def test_every_way_of_touching_what_has_not_landed(rng, what, operation):
    x = rng.standard_normal(32).astype(f32)
    assert KERNELS("touched", 2, 64, x, np.zeros_like(x), what, 1).diagnostics == ()
    with pytest.raises(
        ExecutionError, match=f"in flight: this {operation} touches byte .* may still be to write"
    ):
        KERNELS("touched", 2, 64, x, np.zeros_like(x), what, 0)


@pytest.mark.parametrize("waiting", [0, 3, 4])
def test_every_warp_of_a_warpgroup_waits_for_what_it_multiplies(waiting):
    x, y = np.full(1024, 2, np.float16).view(f32), np.zeros((64, 8), f32)
    trace = KERNELS("products", 1, 256, x, y, waiting, errors="return")
    assert (y == 64).all()
    assert {each.message.split(" touches")[0] for each in trace.diagnostics} == (
        set() if waiting == 4 else {"products: in flight: this asynchronous read"}
    )
    assert all(each.thread[0] // 32 == 4 + waiting for each in trace.diagnostics)


def test_copies_into_another_block(rng):
    x, y = rng.standard_normal(32).astype(f32), np.zeros((4, 32), f32)
    assert KERNELS("both", 4, 64, x, y, 1).diagnostics == ()
    np.testing.assert_array_equal(y, np.tile(x, (4, 1)))
    with pytest.raises(ExecutionError, match=r"in flight: this load touches byte .* may still be to write"):
        KERNELS("both", 4, 64, x, y, 0)
