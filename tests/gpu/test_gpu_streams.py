"""Pipelines, graphs and ranges on a GPU: right answers first, then what overlaps and what does not."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import kernellab as kl
from kernellab.devices.gpu_pipeline import page_locked
from kernellab.experiments import launches, load, overlap
from kernellab.experiments.overlap import GOOD, ONE, PAGEABLE, SYNCHRONISED, Stand
from kernellab.experiments.runner import run
from kernellab.instruments.profiler import NOBODY, Profiler

LANGUAGES = ("cuda-c", "numba")
each_language = pytest.mark.parametrize("language", LANGUAGES)
THREE = GOOD[2]


def floats(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape, dtype=np.float32)


@each_language
@pytest.mark.parametrize("n", [0, 1, 1003, 2**20 + 3])
@pytest.mark.parametrize("streams", [1, 3, 8])
def test_a_pipeline_gives_the_answer_of_the_whole(device, language, n, streams):
    x = floats(n)
    y = kl.pipeline("relu/branch_free", x, chunks=13, streams=streams, language=language, device="gpu")
    assert np.array_equal(y, np.maximum(x, 0))


def test_weights_go_to_every_chunk_and_outputs_where_they_are_wanted(device):
    x, weights, out = floats(1001, 512), floats(512, seed=1), np.zeros((1001, 1024), np.float32)[:, ::2]
    whole = kl.apply("rmsnorm/registers", x, weights, device="gpu")
    assert kl.pipeline("rmsnorm/registers", x, weights, chunks=7, out=out, device="gpu") is out
    assert np.array_equal(out, whole)


@pytest.mark.parametrize("is_pinned", [True, False])
def test_host_arrays_may_be_overwritten_once_it_returns(cupy, device, is_pinned):
    """E09: many chunks through few buffers, and the caller's arrays changed right after."""
    first = floats(2**22)
    x = page_locked(cupy, first) if is_pinned else first.copy()
    for i in range(10):
        x[...] = first + np.float32(i)
        y = kl.pipeline("copy/scalar", x, chunks=64, streams=2, device="gpu")
        x.fill(np.nan)
        assert np.array_equal(y, first + np.float32(i))


@each_language
def test_what_overlaps_is_measured_and_so_is_what_does_not(device, language):
    """E03."""
    stand = Stand(device, language, 2**24)
    assert device.cupy.cuda.pinned_memory.is_memory_pinned(stand.pinned["x"].ctypes.data)
    assert not device.cupy.cuda.pinned_memory.is_memory_pinned(stand.pageable["x"].ctypes.data)
    stand.balance()
    found = stand.measure((ONE, THREE, PAGEABLE, SYNCHRONISED, overlap.DEFAULT, overlap.STAGED), rounds=5)
    assert found[THREE.label].overlap.hidden > 0.6
    for variant in (ONE, SYNCHRONISED):
        assert found[variant.label].overlap.hidden < 0.15
    for variant in (PAGEABLE, overlap.DEFAULT):
        assert found[variant.label].overlap.hidden < found[THREE.label].overlap.hidden
    for span in found[THREE.label].spans:
        assert 0 <= span.start <= span.stop


@each_language
def test_a_graph_of_small_kernels_is_faster_and_loses_none(device, language):
    found = launches.measure(device, language, rounds=15)
    assert found.gain(found.fastest) > 1.3
    assert 0 < found.host_seconds[launches.PREPARED] < 1e-3


@pytest.mark.parametrize("name", ["streams", "graphs"])
def test_nothing_is_timed_while_a_profiler_watches(device, name):
    device.launcher.profiler = profiler = Profiler(device.cupy, has_ranges=True, is_capturing=True)
    experiment = replace(load(name), expectations=())
    try:
        result = run(experiment, device, ("cuda-c",), profiler=profiler)
    finally:
        device.launcher.profiler = NOBODY
    records = result.panels[0].records["cuda-c"]
    assert all(record.is_right and not record.timings for record in records.values())
    assert {claim.verdict for claim in result.claims} == {"not timed"}
