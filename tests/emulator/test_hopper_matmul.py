"""A matmul as Hopper wants it, on a machine with no GPU: right results, and every missing wait is found."""

from __future__ import annotations

import re
import time

import numpy as np
import pytest
from hopper import kernels, product
from launching import KERNELS as FOLDER

from kernellab.errors import ExecutionError
from kernellab.tensor_map import TensorMap

SOURCE = (FOLDER / "hopper_matmul.cu").read_text()
MULTIPLY = product(64, "f32.f16.f16", 32, k=16, tail=", 1, 1, 0, 0")
CLUSTER = (FOLDER / "hopper_cluster.cu").read_text()
SHARED = 3 * (128 + 64) * 64 * 2 + 128 * 64 * 4 + 2 * 3 * 8


def matmul(rng, m, n, k, grid, *, without="", swizzle=1, seed=None, replace=("", ""), text=SOURCE):
    if without:
        text = re.sub(rf"^.*@{without}@.*$", "", text, flags=re.MULTILINE)
        assert text != SOURCE
    assert replace[0] in text
    text = text.replace(*replace).replace("SWIZZLE", str(swizzle))
    a = rng.integers(-8, 8, (m, k)).astype(np.float16)
    b = rng.integers(-8, 8, (n, k)).astype(np.float16)
    c = np.full((m, n), np.nan, np.float32)
    maps = TensorMap(a, (128, 64), 128), TensorMap(b, (64, 64), 128), TensorMap(c, (64, 64))
    run, is_right = kernels(MULTIPLY + text), text == SOURCE.replace("SWIZZLE", "1")
    # Of a broken kernel nobody counts anything.
    trace = run("matmul", grid, 384, *maps, m, n, k, shared_mem=SHARED, seed=seed, with_sass=is_right)
    return c, a.astype(np.float32) @ b.astype(np.float32).T, trace


@pytest.mark.parametrize("seed", [None, 1, 2])
@pytest.mark.parametrize(("m", "n", "k", "grid"), [(256, 192, 256, 2), (200, 100, 328, 3), (64, 8, 8, 1)])
def test_a_persistent_matmul(rng, m, n, k, grid, seed):
    start = time.process_time()
    c, expected, trace = matmul(rng, m, n, k, grid, seed=seed)
    np.testing.assert_array_equal(c, expected)
    assert trace.diagnostics == ()
    assert trace.totals["tma_store_bytes"] == c.nbytes
    assert time.process_time() - start < 10


def test_the_tiles_are_what_is_loaded(rng):
    _, _, trace = matmul(rng, 256, 128, 128, 2)
    assert trace.totals["tma_load_requests"] == 2 * 2 * 2 * 2  # tiles of A and B, steps of K, of 2 x 2 blocks
    assert trace.totals["tma_load_bytes"] == 2 * 2 * 2 * (128 + 64) * 64 * 2
    assert trace.source == "SASS"


@pytest.mark.parametrize("seed", [None, 1])
@pytest.mark.parametrize(
    ("without", "message"),
    [
        ("loaded", "read of unwritten shared memory, byte .* of shared memory"),
        ("free", "asynchronous write touches byte .* (may still be reading|is still to write)"),
        ("product", "an accumulator of the wgmma at source.cu:.* is read before it is waited for"),
        ("stored", "this store touches byte .* may still be reading; wait for it first"),
        ("registers", "missing fence: this is the warp's first wgmma"),
    ],
)
def test_what_is_not_waited_for_is_found(rng, without, message, seed):
    with pytest.raises(ExecutionError, match=f"matmul: .*{message}"):
        matmul(rng, 256, 128, 512, 1, without=without, seed=seed)


@pytest.mark.parametrize("seed", [None, 1])
def test_a_stage_that_is_released_before_its_product_has_ended(rng, seed):
    line = "if (j > 0 && t == 0) arrive(empty + (step - 1) % STAGES);  // one step late"
    early = "if (j > 0 && t == 0) arrive(empty + step % STAGES);"
    first = ("wait_products<0>();  // @product@\n        if (t == 0) arrive(empty + (step - 1) % STAGES);",
             "wait_products<0>();")  # fmt: skip
    text_of = SOURCE.replace(*first)
    assert text_of != SOURCE
    with pytest.raises(ExecutionError, match=r"released too early: this copy into byte \d+ of shared memory"):
        matmul(rng, 256, 128, 512, 1, replace=(line, early.replace("j > 0 && ", "")), text=text_of, seed=seed)


def test_stores_that_are_not_fenced_from_the_copy_out(rng):
    c, expected, trace = matmul(rng, 128, 64, 64, 1, without="fence")
    np.testing.assert_array_equal(c, expected)
    assert {each.kind for each in trace.diagnostics} == {"missing fence"}


@pytest.mark.parametrize(
    "replace",
    [
        ("init(empty + s, 2)", "init(empty + s, 3)"),
        ("sizeof(Stage));", "sizeof(Stage) + 16);"),
        ("(step / STAGES & 1) ^ 1", "step / STAGES & 1"),
    ],
)
def test_what_never_completes_is_reported(rng, replace):
    start = time.process_time()
    with pytest.raises(ExecutionError, match="threads wait in a loop in which nothing changes at source"):
        matmul(rng, 256, 128, 512, 1, replace=replace)
    assert time.process_time() - start < 10


def test_a_wrong_swizzle_is_seen(rng):
    c, expected, _ = matmul(rng, 128, 64, 64, 1, swizzle=2)
    assert (c != expected).mean() > 0.5


def matmul_in_clusters(rng, m, n, k, early=0, seed=None):
    a = rng.integers(-8, 8, (m, k)).astype(np.float16)
    b = rng.integers(-8, 8, (n, k)).astype(np.float16)
    y = np.full((m, n), np.nan, np.float32)
    maps = TensorMap(a, (64, 64), 128), TensorMap(b, (32, 64), 128)
    shared = 2 * (64 + 64) * 64 * 2 + 2 * 2 * 8
    launch = kernels(MULTIPLY + CLUSTER)
    trace = launch("matmul", (m // 64, n // 64), 256, *maps, y, n, k, early, shared_mem=shared, seed=seed)
    return y, a.astype(np.float32) @ b.astype(np.float32).T, trace


@pytest.mark.parametrize("seed", [None, 1, 2])
def test_blocks_of_a_cluster_load_for_each_other(rng, seed):
    y, expected, trace = matmul_in_clusters(rng, 256, 128, 320, seed=seed)
    np.testing.assert_array_equal(y, expected)
    assert trace.diagnostics == ()
    assert trace.totals["tma_load_bytes"] == 4 * 2 * 5 * (64 + 32) * 64 * 2


def test_an_early_release_to_another_block(rng):
    with pytest.raises(ExecutionError, match=r"released too early: this copy into byte \d+ of shared memory"):
        matmul_in_clusters(rng, 128, 64, 320, early=1)
