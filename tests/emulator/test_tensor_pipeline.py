"""A matrix product as people write it for mma.sync, with what goes wrong in such kernels."""

from __future__ import annotations

import time

import numpy as np
import pytest
from launching import Kernels

from kernellab.errors import ExecutionError

f16, f32, f64 = np.float16, np.float32, np.float64
RIGHT = Kernels.of("mma_pipeline.cu")


def broken(*options):
    return Kernels(RIGHT.text, options=options)


def run(kernels, m=64, n=64, k=96, **settings):
    """Multiply, with a[i, k] = 16 i + k: no row and no column is like another."""
    a = (np.arange(m)[:, None] * 16 % 1009 + np.arange(k)[None, :]).astype(f16)
    b = (np.arange(k)[:, None] * 3 % 31 - np.arange(n)[None, :] % 17).astype(f16)
    c = np.zeros((m, n), f32)
    trace = kernels("matmul", (n // 64, m // 64), 128, a, b, c, n, k, **settings)
    return c, a.astype(f64) @ b.astype(f64), trace


def test_it_is_right_and_its_counts_are_exact():
    m, n, k = 128, 192, 96
    c, expected, trace = run(RIGHT, m, n, k)
    np.testing.assert_array_equal(c, expected)
    assert (trace.source, trace.diagnostics) == ("SASS", ())
    blocks, stages = (m // 64) * (n // 64), k // 32
    totals = trace.totals
    assert totals["tensor_instructions"] == blocks * stages * 4 * 2 * 8
    assert totals["tensor_flops"] == 2 * m * n * k
    assert totals["shared_load_requests"] == blocks * stages * 4 * 2 * 4
    assert totals["shared_load_wavefronts"] == 4 * totals["shared_load_requests"]
    assert totals["shared_load_bank_conflicts"] == 0


@pytest.mark.parametrize("seed", [None, 1, 2, 3])
def test_nothing_is_to_be_said_of_it(seed):
    c, expected, trace = run(RIGHT, sanitize=True, seed=seed)
    np.testing.assert_array_equal(c, expected)
    assert trace.diagnostics == ()


def test_it_is_quick():
    run(RIGHT)
    start = time.process_time()
    run(RIGHT, 256, 256, 256)
    assert time.process_time() - start < 2


def test_without_a_swizzle_banks_conflict():
    c, expected, trace = run(broken("-DSWIZZLE(x)=0"))
    np.testing.assert_array_equal(c, expected)
    # of 8 rows 64 bytes apart (A) 4 meet in a bank, of 8 rows 128 bytes apart (B) all; a request is 4 times 8 rows
    mean = (4 * 4 + 4 * 8) / 2
    assert trace.totals["shared_load_wavefronts"] == mean * trace.totals["shared_load_requests"]


def test_a_wrong_swizzle_gives_another_product():
    c, expected, _ = run(broken("-DREAD_SWIZZLE(x)=((x) ^ 1)"))
    assert (c != expected).any()


def test_a_wait_for_too_few_groups_is_found():
    with pytest.raises(
        ExecutionError, match=r"in flight: this load touches byte .* shared memory.*source\.cu:\d+"
    ):
        run(broken('-DWAIT="2"'))


def test_a_missing_barrier_is_found():
    _, _, trace = run(broken("-DNO_BARRIER"), sanitize=True, errors="return")
    assert {each.kind for each in trace.diagnostics} & {"race", "in flight"}
