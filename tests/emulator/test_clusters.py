"""Clusters: whose block is whose neighbour, each other's shared memory, their barrier, multicast."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hopper import kernels
from launching import KERNELS as FOLDER

from kernellab.errors import ExecutionError, SpecError
from kernellab.tensor_map import TensorMap

KERNELS = kernels((FOLDER / "clusters.cu").read_text())
f32, i32 = np.float32, np.int32


def test_blocks_read_the_memory_of_their_cluster(rng):
    x = rng.integers(0, 100, (4, 6)).astype(f32)
    y, places = np.zeros_like(x), np.zeros(x.shape, i32)
    trace = KERNELS("sum", (6, 4), 32, x, y, places, 0)
    sums = x.reshape(2, 2, 3, 2).sum(axis=(1, 3))
    np.testing.assert_array_equal(y, sums.repeat(2, axis=0).repeat(2, axis=1))
    i, j = np.indices(x.shape)
    rank = i % 2 * 2 + j % 2
    np.testing.assert_array_equal(places, rank + 10 * (j % 2) + 100 * (i % 2) + 2000)
    assert trace.diagnostics == ()


def test_what_another_block_has_not_written_is_seen():
    x = np.zeros((2, 2), f32)
    trace = KERNELS("sum", (2, 2), 32, x, x.copy(), np.zeros((2, 2), i32), 2)
    assert "read of unwritten shared memory" in str(trace.diagnostics[0])


def test_a_large_grid_runs_in_whole_clusters():
    x = np.arange(2 * 602, dtype=f32).reshape(2, 602) % 64
    y = np.zeros_like(x)
    KERNELS("sum", (602, 2), 32, x, y, np.zeros(x.shape, i32), 0)
    np.testing.assert_array_equal(y[0, ::2], x.sum(axis=0).reshape(-1, 2).sum(axis=1))


def test_remote_stores_reductions_and_arrivals(rng):
    x = rng.integers(0, 100, (6, 32)).astype(i32)
    y = np.zeros((3, 32), i32)
    trace = KERNELS("push", 6, 32, x, y, 32)
    np.testing.assert_array_equal(y, x[::2, ::-1] + 5)
    assert trace.diagnostics == ()


def test_a_remote_arrival_too_few_is_reported():
    with pytest.raises(
        ExecutionError, match=r"mbarrier at byte .* of block \(1, 0, 0\).*for 1 of 33 arrivals"
    ):
        KERNELS("push", 2, 32, np.zeros((2, 32), i32), np.zeros((1, 32), i32), 33)


@pytest.mark.parametrize("seed", [None, 1, 2])
def test_multicast(rng, seed):
    x = rng.standard_normal((16, 24)).astype(f32)
    y = np.zeros((6, 16, 8), f32)
    trace = KERNELS("spread", 6, 32, TensorMap(x, (8, 8)), y, np.uint16(3), seed=seed)
    for block in range(6):
        np.testing.assert_array_equal(y[block], x[:, block // 2 * 8 :][:, :8])
    assert trace.totals["tma_load_bytes"] == x.nbytes  # each byte comes once for both blocks
    assert trace.diagnostics == ()


def test_multicast_to_one_block_leaves_the_other_waiting():
    with pytest.raises(ExecutionError, match=r"waits in phase 0 for \d+ bytes"):
        KERNELS(
            "spread", 2, 32, TensorMap(np.zeros((16, 8), f32), (8, 8)), np.zeros((2, 128), f32), np.uint16(1)
        )


@pytest.mark.parametrize(
    ("what", "message"),
    [
        (0, "mapa names the block of rank 2; the cluster has 2 blocks"),
        (1, "threads arrive again before they have waited"),
        (2, r"32 threads wait at barrier 1 at source.cu:\d+; 32 threads wait at the barrier of the cluster"),
        (3, r"out of bounds shared load: byte (32|40) of shared memory, which has 24"),
        (4, "threads wait that have not arrived"),
        (8, "an mbarrier of another block, at which a thread may arrive but not look"),
        (5, r"mapa names the block of rank 2; .* block \(1, 0, 0\), thread \(0, 0, 0\)"),
    ],
)
def test_wrong_use(what, message):
    with pytest.raises(ExecutionError, match=message):
        KERNELS("wrong", 2, 32, np.zeros(2, i32), what)


@pytest.mark.parametrize("what", [6, 7])
def test_a_block_that_others_do_not_keep_from_ending(what):
    (found,) = KERNELS("wrong", 2, 32, np.zeros(2, i32), what).diagnostics
    assert "block (1, 0, 0), whose shared memory this accesses, may have ended by then" in str(found)
    assert "block (0, 0, 0), thread (0, 0, 0)" in str(found)


def test_a_grid_that_is_no_multiple():
    with pytest.raises(SpecError, match=r"wrong: grid \(3, 1, 1\) is no multiple of its cluster \(2, 1, 1\)"):
        KERNELS("wrong", 3, 32, np.zeros(2, i32), 0)


def test_a_sample_of_clusters_is_refused():
    with pytest.raises(SpecError, match="its blocks form clusters of 2 and may wait for each other"):
        KERNELS("push", 6, 32, np.zeros((6, 32), i32), np.zeros((3, 32), i32), 32, blocks=2)


PASS = ["FINE", "BEFORE_IT_CAME", "WRITTEN_MEANWHILE", "NOT_FENCED", "NEVER_WRITTEN"]


@pytest.mark.parametrize("seed", [None, 1, 2, 3])
def test_a_copy_from_one_block_into_another(rng, seed):
    x = rng.standard_normal(32).astype(f32)
    y = np.zeros((2, 32), f32)
    trace = KERNELS("pass", 4, 32, x, y, PASS.index("FINE"), seed=seed)
    np.testing.assert_array_equal(y, [x, x])
    assert trace.diagnostics == ()


@pytest.mark.parametrize("seed", [None, 1, 2])
@pytest.mark.parametrize(
    ("way", "message"),
    [
        ("BEFORE_IT_CAME", "in flight: this asynchronous read touches byte .* is still to write"),
        ("WRITTEN_MEANWHILE", "in flight: this store touches byte .* may still be reading"),
        ("NOT_FENCED", "missing fence: this asynchronous read"),
        ("NEVER_WRITTEN", "read of unwritten shared memory"),
    ],
)
def test_the_source_of_a_copy_into_another_block(way, message, seed):
    x, y = np.ones(32, f32), np.zeros((1, 32), f32)
    trace = KERNELS("pass", 2, 32, x, y, PASS.index(way), seed=seed, errors="return")
    found = next(each for each in trace.diagnostics if re.search(message, each.message))
    assert "block (0, 0, 0)" in str(found)
