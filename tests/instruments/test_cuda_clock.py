"""The stopwatch of a GPU, on a fake CuPy: gate, events, eviction, memory of its own."""

from __future__ import annotations

import itertools
import sys

import numpy as np
import pytest
from fakes import World

from kernellab.instruments.clock import Rule, time_calls
from kernellab.instruments.cuda_clock import CudaStopwatch


@pytest.fixture
def world(monkeypatch):
    world = World()
    monkeypatch.setitem(sys.modules, "cupy", world.cupy)
    return world


@pytest.fixture
def stopwatch(world):
    stopwatch = CudaStopwatch()
    stopwatch.prepare()
    return stopwatch


def test_a_spin_is_as_long_as_it_says(stopwatch):
    start = stopwatch.mark()
    stopwatch.spin(1e-3)
    stop = stopwatch.mark()
    stopwatch.wait()
    assert stopwatch.seconds(start, stop) == pytest.approx(1e-3)


def test_the_clock_is_counted_over_all_that_was_asked_for(stopwatch):
    assert stopwatch.counted_hz() == pytest.approx(2e9)  # of the preparation
    assert np.isnan(stopwatch.counted_hz())
    for _ in range(3):
        stopwatch.count_cycles(1e-5)
    assert stopwatch.counted_hz() == pytest.approx(2e9)


def test_what_events_take_themselves_is_left_out(world):
    world.cupy.cuda.get_elapsed_time = lambda start, stop: (stop.seconds - start.seconds) * 1e3 + 1.9e-3
    stopwatch = CudaStopwatch()
    stopwatch.prepare()
    assert stopwatch.overhead == pytest.approx(1.9e-6)
    start = stopwatch.mark()
    stopwatch.spin(1e-4)
    assert stopwatch.seconds(start, stopwatch.mark()) == pytest.approx(1e-4)


def test_the_gate_holds_unless_somebody_waits_behind_it(world, stopwatch):
    stopwatch.close_gate()
    stopwatch.spin(1e-5)
    assert stopwatch.open_gate()
    stopwatch.close_gate()
    world.synchronize()
    assert not stopwatch.open_gate()


def test_samples_that_vary_take_several_rounds(world, stopwatch):
    world.noise = itertools.cycle((1.0, 1.3, 0.8))
    order = []
    rule = Rule(minimum=6, queue=6, maximum=24)
    timing = time_calls(
        stopwatch,
        {"k": [lambda: stopwatch.spin(1e-4)]},
        before={"k": lambda: order.append("zero")},
        rule=rule,
    )["k"]
    assert len(timing.samples) == 24
    assert len(order) == 25
    assert timing.seconds == pytest.approx(1e-4)


def test_the_evictor_takes_no_part_of_the_pool(world, monkeypatch):
    sizes = []
    allocate = world.allocate
    monkeypatch.setattr(world, "allocate", lambda nbytes: sizes.append(nbytes) or allocate(nbytes))
    CudaStopwatch().prepare()
    assert ("cudaMalloc", 2 * 60 * 2**20) in world.log
    assert max(sizes) < 4096


def test_short_of_memory_the_pool_is_freed_for_the_evictor(world):
    stopwatch = CudaStopwatch()
    world.used = world.memory  # all of it kept by the pool
    stopwatch.prepare()
    assert world.frees == 1


def test_eviction_reads_twice_the_l2(world, stopwatch):
    before = world.device_seconds
    stopwatch.evict()
    assert world.device_seconds > before
    assert stopwatch._evictor.nbytes == 2 * stopwatch.l2_bytes
    assert not np.asarray(stopwatch._evictor.host).any()
