"""`benchmark` on a fake GPU: any callable under the clock, work that waits, peers interleaved."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from fakes import make_gpu

import kernellab as kl
from kernellab.instruments.clock import UNGATED, Rule


@pytest.fixture
def world(monkeypatch):
    return make_gpu(monkeypatch)[0]


@pytest.fixture
def stopwatch(world):
    return kl.device("gpu").stopwatch()


def work(world, seconds):
    """Return a callable that queues work of that length."""

    def queue(*arguments):
        world.host_seconds += 5e-6
        world.device_seconds += seconds
        world.log.append(("work", *(id(item) for item in arguments)))

    return queue


def test_asynchronous_work_is_timed_whole(world):
    found = kl.benchmark(work(world, 5e-2))
    assert found.seconds == pytest.approx(5e-2)
    assert found.host_seconds == pytest.approx(5e-6)
    assert found.name == "queue"
    assert math.isnan(found.bytes_per_second)
    assert math.isnan(found.fraction_of_copy)


def test_rates(world):
    world.seconds["memcpy"] = 1e-3
    found = kl.benchmark(work(world, 2e-3), nbytes=4_000_000, flops=10**9)
    assert found.bytes_per_second == pytest.approx(2e9)
    assert found.flops_per_second == pytest.approx(5e11)
    assert found.fraction_of_copy == pytest.approx(0.5)
    plain = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert plain["bytes_per_second"] == pytest.approx(2e9)
    assert plain["timing"]["samples"]


def test_large_arguments_are_copied_and_taken_in_turn(world, stopwatch):
    x = world.array(np.zeros(2**22, np.float32))
    found = kl.benchmark(work(world, 1e-3), x)
    used = [item[1] for item in world.log if item[0] == "work"]
    assert len(set(used)) == 9  # 8 x 16 MiB is just over twice the L2
    assert len(set(used[-9:])) == 9
    assert stopwatch.evictions == 0
    assert "cold: 9 sets of arguments of 16777216 bytes in turn" in found.notes[0]


def test_hot_keeps_the_same_arrays_and_evicts_nothing(world, stopwatch):
    x = world.array(np.zeros(2**22, np.float32))
    found = kl.benchmark(work(world, 1e-3), x, mode="hot")
    assert {item[1] for item in world.log if item[0] == "work"} == {id(x)}
    assert stopwatch.evictions == 0
    assert found.mode == "hot"


def test_small_or_unknown_arguments_are_evicted(world, stopwatch):
    kl.benchmark(work(world, 1e-3))
    assert stopwatch.evictions >= 15


def test_setup_comes_before_each_sample_and_is_not_timed(world):
    order = []

    def setup(x):
        order.append("setup")
        world.device_seconds += 1.0

    def function(x):
        order.append("work")
        world.device_seconds += 1e-3

    x = world.array(np.zeros(4, np.float32))
    found = kl.benchmark(function, x, setup=setup, rule=Rule(minimum=6, queue=6, maximum=6))
    assert found.seconds == pytest.approx(1e-3)
    assert order[-12:] == ["setup", "work"] * 6


def test_a_graph_is_replayed(world):
    def function():
        if world.captured is None:
            world.device_seconds += 1e-3
        else:
            world.captured.append(function)

    found = kl.benchmark(function, mode="graph")
    assert found.seconds == pytest.approx(1e-3)
    assert found.notes[0] == "graph: 20 calls one after the other in a CUDA graph"


def waiting(world):
    def function():
        world.device_seconds += 1e-3
        world.synchronize()

    return function


def test_work_that_waits_is_timed_without_a_gate_and_says_so(world, stopwatch):
    found = kl.benchmark(waiting(world), nbytes=100)
    assert found.seconds == pytest.approx(1e-3)
    assert f"function: {UNGATED}" in found.notes
    assert math.isnan(found.host_seconds)
    assert stopwatch.gate_seconds == 2.0


def test_what_is_interleaved_with_work_that_waits_says_who_waits(world):
    found = kl.benchmark({"a": work(world, 1e-3), "b": waiting(world)})
    assert "waits for the device: b" in found["a"].notes


def test_work_that_waits_has_no_graph(world):
    with pytest.raises(kl.SpecError, match="function waits for the device, no graph can hold it"):
        kl.benchmark(waiting(world), mode="graph")


def test_peers_are_interleaved(world):
    order = []

    def peer(name, seconds):
        def function():
            order.append(name)
            world.device_seconds += seconds

        return function

    found = kl.benchmark({"a": peer("a", 1e-3), "b": peer("b", 2e-3)})
    assert (found["a"].seconds, found["b"].seconds) == (pytest.approx(1e-3), pytest.approx(2e-3))
    assert "abbaabba" in "".join(order)


def test_faster_than_memory_is_an_error(world):
    world.seconds["memcpy"] = 1e-3
    with pytest.raises(
        kl.ExecutionError, match=r"benchmark: queue: 268435456 bytes at .* which memory cannot"
    ):
        kl.benchmark(work(world, 1e-4), nbytes=2**28)


def test_an_error_of_the_callable_names_nobody_else(world):
    def broken():
        raise world.cupy.cuda.runtime.CUDARuntimeError("cudaErrorInvalidValue: invalid argument")

    with pytest.raises(kl.ExecutionError, match="benchmark: CUDA says cudaErrorInvalidValue"):
        kl.benchmark(broken)


@pytest.mark.parametrize(
    ("function", "options", "error", "message"),
    [
        (3, {}, kl.ArgumentError, "benchmark: int is a int, it must be callable"),
        ({}, {}, kl.SpecError, "there is nothing to time"),
        ({"cudaMemcpy": print}, {}, kl.SpecError, "is the name of the copy timed beside"),
        (print, {"mode": "warm"}, kl.SpecError, "benchmark: mode is 'warm'"),
    ],
)
def test_refusals(function, options, error, message):
    with pytest.raises(error, match=message):
        kl.benchmark(function, **options)


def test_without_a_gpu(monkeypatch):
    def absent():
        raise kl.UnavailableError("device: 'gpu' is not here; pass device='emulator'")

    monkeypatch.setattr("kernellab.devices._gpu", absent)
    with pytest.raises(kl.UnavailableError, match=r"'gpu' is not here; run this where a GPU is$"):
        kl.benchmark(print)
