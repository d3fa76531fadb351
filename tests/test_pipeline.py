"""Pipelines: answers, chunks, buffers that are not reused too early, and the overlap that is found."""

from __future__ import annotations

import gc
import weakref
from itertools import pairwise

import numpy as np
import pytest
from fakes import make_gpu
from lazy_fakes import LazyWorld

import kernellab as kl
from kernellab import catalog
from kernellab.devices import gpu_pipeline
from kernellab.devices.gpu_pipeline import Pipeline, Way, page_locked
from kernellab.measurement import prepare
from kernellab.pipeline import cut, parts
from kernellab.timeline import STAGES, Overlap, scheduled, spans_of

RELU = "relu/branch_free"


def floats(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape, dtype=np.float32)


# -- where to cut
@pytest.mark.parametrize("count", [0, 1, 2, 31, 100])
@pytest.mark.parametrize("chunks", [1, 2, 7, 64])
def test_parts_cover_everything_once(count, chunks):
    found = parts(count, chunks)
    assert [i for part in found for i in range(count)[part]] == list(range(count))
    assert len(found) <= chunks
    assert all(part.stop > part.start for part in found)


@pytest.mark.parametrize(
    "name",
    ["cumsum/lookback", "sum/vectorised", "transpose/padded", "histogram/shared", "uneven_work/sorted"],
)
def test_rows_that_depend_on_others_are_refused(name):
    place = kl.device("emulator")
    plan = prepare(name, (), device=place, parameters={}).plan
    with pytest.raises(kl.SpecError, match=f"pipeline: {plan.kernel.id}: a row of its output depends on"):
        cut(plan, 4, place.limits)


def test_nothing_is_made_up_where_no_array_is_given():
    for call in (kl.pipeline, kl.apply):
        with pytest.raises(kl.ArgumentError, match=r"^relu/branch_free: takes 1 array \(x\), got 0"):
            call("relu/branch_free", device="emulator")


def test_a_seed_that_counts_elements_is_refused():
    x = floats(4, 8)
    with pytest.raises(kl.SpecError, match="or on its own number, so it cannot be cut"):
        kl.pipeline("softmax_dropout/registers", x, p=0.5, seed=1, device="emulator")


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"chunks": 0}, kl.SpecError, "pipeline: chunks is 0, it must be at least 1"),
        ({"streams": -1}, kl.SpecError, "pipeline: streams is -1, it must be at least 1"),
        ({"chunks": 2.5}, kl.ArgumentError, "pipeline: chunks is 2.5, it must be an integer"),
        ({"streams": None}, kl.ArgumentError, "pipeline: streams is None, it must be an integer"),
    ],
)
def test_numbers_that_make_no_sense(options, error, message):
    with pytest.raises(error, match=message):
        kl.pipeline(RELU, floats(8), device="emulator", **options)


# -- on the emulator
@pytest.mark.parametrize("n", [0, 1, 3, 100, 257])
def test_the_answer_is_that_of_the_whole(n):
    x = floats(n)
    x[: n // 7] = np.nan
    whole = kl.apply(RELU, x, device="emulator")
    for chunks in (1, 3, 16):
        y = kl.pipeline(RELU, x, chunks=chunks, device="emulator")
        assert np.array_equal(y, whole, equal_nan=True)


def test_views_outputs_and_weights():
    x, weights = floats(12, 40)[::-2, ::2], floats(20, seed=1)
    whole = kl.apply("rmsnorm/registers", x, weights, device="emulator")
    out = np.zeros((6, 40), np.float32)[:, ::2]
    assert kl.pipeline("rmsnorm/registers", x, weights, chunks=4, out=out, device="emulator") is out
    assert np.array_equal(out, whole)


def test_an_output_that_overlaps_its_input_later_on():
    both = floats(101)
    before = both[:100].copy()
    kl.pipeline("copy/scalar", both[:100], out=both[1:], chunks=10, device="emulator")
    assert np.array_equal(both[1:], before)


# -- on a fake GPU, which does everything as late as it may
@pytest.fixture
def fake(monkeypatch):
    return make_gpu(monkeypatch, LazyWorld)


def pinned(world, array):
    room = page_locked(world.cupy, array)
    room[...] = array
    return room


@pytest.mark.parametrize("streams", [1, 2, 3, 8])
@pytest.mark.parametrize("is_pinned", [True, False])
@pytest.mark.parametrize("language", ["cuda-c", "numba"])
def test_host_buffers_are_not_overwritten_before_they_are_copied(fake, streams, is_pinned, language):
    """E09: pageable arrays go through few buffers many times."""
    world, _ = fake
    x = floats(1003)
    given = pinned(world, x) if is_pinned else x
    y = kl.pipeline(RELU, given, chunks=20, streams=streams, language=language, device="gpu")
    given[...] = np.nan  # all has been read by now
    world.synchronize()
    assert np.array_equal(y, np.maximum(x if is_pinned else floats(1003), 0))


def test_a_buffer_that_is_not_waited_for_is_seen(fake, monkeypatch):
    """The fake is late enough to show what E09 is about."""
    monkeypatch.setattr(gpu_pipeline._Lane, "reclaim", lambda self: None)
    y = np.zeros(1000, np.float32)
    kl.pipeline(RELU, floats(1000), chunks=20, streams=2, out=y, device="gpu")
    assert not np.array_equal(y, np.maximum(floats(1000), 0))


def test_nothing_is_let_go_before_streams_are_done_with_it(fake, monkeypatch):
    """E02: an error half way waits for what is queued, whose buffers go then."""
    world, _ = fake
    sent = []

    def failing(self, part, stages, send=gpu_pipeline._Lane.send):
        sent.append(self)
        if len(sent) == 3:
            raise RuntimeError("half way")
        return send(self, part, stages)

    monkeypatch.setattr(gpu_pipeline._Lane, "send", failing)
    x = pinned(world, floats(1000))
    with pytest.raises(RuntimeError, match="half way"):
        kl.pipeline(RELU, x, chunks=10, streams=2, device="gpu")
    assert all(not lane.stream.queue for lane in sent)


def test_a_pipeline_that_is_done_with_holds_nothing(fake):
    world, device = fake
    x = pinned(world, floats(100))
    gone = weakref.ref(x)
    gc.disable()  # no cycle keeps host and device memory until somebody collects it
    try:
        kl.pipeline(RELU, x, chunks=3, device="gpu")
        device.health.settle()
        del x
        assert gone() is None
    finally:
        gc.enable()


def test_buffers_come_from_the_pool_that_stays(fake, monkeypatch):
    """E04: CuPy keeps a pool for each stream, and streams of a pipeline go with it."""
    world, device = fake
    made, real = [], device.memory.empty
    monkeypatch.setattr(device.memory, "empty", lambda spec: made.append(world.stream) or real(spec))
    kl.pipeline(RELU, floats(100), chunks=3, device="gpu")
    assert made
    assert set(made) == {world.null}


@pytest.mark.parametrize("is_pinned", [True, False])
def test_page_locked_arrays_are_copied_from_where_they_are(fake, is_pinned):
    """E03: the flag that decides whether copies can overlap is asked for."""
    world, device = fake
    x = pinned(world, floats(100)) if is_pinned else floats(100)
    work = cut(prepare(catalog.kernel(RELU), (x,), device=device, parameters={}).plan, 4, device.limits)
    (lane, *_) = Pipeline(device, "cuda-c", work, {"y": np.zeros_like(x)}, Way(2)).lanes
    assert set(lane.staged) == {("copy out", "y"), *(() if is_pinned else [("copy in", "x")])}


def test_arrays_on_the_gpu_need_no_pipeline(fake):
    world, _ = fake
    with pytest.raises(kl.ArgumentError, match="lives on a GPU already, there is nothing to copy; call"):
        kl.pipeline(RELU, world.array(floats(8)), device="gpu")
    with pytest.raises(kl.ArgumentError, match="out lives on a GPU, it must be on the host"):
        kl.pipeline(RELU, floats(8), out=world.array(floats(8)), device="gpu")


# -- what overlaps (E03)
N, CHUNKS = 2**20, 32


def overlap_of(fake, way, is_pinned=True):
    world, device = fake
    x = floats(N)
    given, answers = (pinned(world, x) if is_pinned else x), {"y": np.zeros(N, np.float32)}
    if is_pinned:
        answers = {"y": pinned(world, answers["y"])}
    plan = prepare(catalog.kernel(RELU), (given,), device=device, parameters={}).plan
    work = cut(plan, CHUNKS, device.limits)
    pipeline = Pipeline(device, "cuda-c", work, answers, way)
    alone = {stage: pipeline.run((stage,)).seconds for stage in STAGES}
    found = pipeline.run()
    assert np.array_equal(answers["y"], np.maximum(x, 0))
    return Overlap(found.seconds, alone), found


def test_pinned_buffers_and_three_streams_overlap(fake):
    overlap, found = overlap_of(fake, Way(3))
    assert overlap.of_ideal > 0.9
    assert {span.stage for span in found.spans} == set(STAGES)
    for stage in STAGES:  # no two chunks on one piece of hardware
        spans = [span for span in found.spans if span.stage == stage]
        assert len(spans) == CHUNKS
        assert all(a.stop <= b.start + 1e-12 for a, b in pairwise(spans))


@pytest.mark.parametrize(
    ("way", "is_pinned"),
    [(Way(1), True), (Way(4, waits=True), True), (Way(4, is_staged=False), False)],
)
def test_what_breaks_the_overlap_is_measured_as_none(fake, way, is_pinned):
    overlap, _ = overlap_of(fake, way, is_pinned)
    assert overlap.hidden < 0.1
    assert str(overlap).startswith("overlap none")


def test_kernels_on_the_default_stream_overlap_with_no_copy(fake):
    overlap, found = overlap_of(fake, Way(4, is_on_default=True))
    kernels = [span for span in found.spans if span.stage == "compute"]
    copies = [span for span in found.spans if span.stage != "compute"]
    assert all(a.stop <= b.start + 1e-8 or b.stop <= a.start + 1e-8 for a in copies for b in kernels)
    assert overlap.seconds >= overlap.alone["compute"] + overlap.alone["copy in"]
    assert overlap.of_ideal < 0.6


def test_pageable_arrays_overlap_by_way_of_page_locked_buffers(fake):
    overlap, _ = overlap_of(fake, Way(4), is_pinned=False)
    assert overlap.hidden > 0.5


# -- the time line
def test_a_schedule_takes_as_long_as_its_longest_stage():
    seconds = {"copy in": 2.0, "compute": 3.0, "copy out": 1.0}
    for streams, least in ((1, 60), (2, 30), (3, 30), (8, 30)):
        spans = scheduled(seconds, 10, streams)
        total = max(span.stop for span in spans)
        assert least <= total <= (60 if streams == 1 else 36)
        for span, after in pairwise(spans):
            if span.chunk == after.chunk:
                assert after.start >= span.stop


def test_events_say_when_a_stream_came_not_when_its_hardware_was_free():
    came = {"copy in": 0.0}
    marks = [(0, came, {"copy in": 1.0, "compute": 3.0}), (1, came, {"copy in": 2.0, "compute": 5.0})]
    assert [(s.stage, s.start, s.stop) for s in spans_of(marks)] == [
        ("copy in", 0.0, 1.0), ("compute", 1.0, 3.0), ("copy in", 1.0, 2.0), ("compute", 3.0, 5.0),
    ]  # fmt: skip
