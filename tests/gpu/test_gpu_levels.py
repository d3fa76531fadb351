"""Levels of memory on a GPU: nearer ones answer sooner, and the clock that is counted is the one that is set."""

from __future__ import annotations

import pytest

from kernellab.experiments import levels


def test_the_counted_clock_is_the_one_that_the_driver_tells(device):
    stopwatch = device.stopwatch()
    stopwatch.counted_hz()
    for _ in range(50):
        stopwatch.count_cycles(1e-4)
    counted, told = stopwatch.counted_hz(), stopwatch.clock_hz()
    assert 3e8 < counted < 3e9
    assert told is None or counted == pytest.approx(told, rel=0.05)


@pytest.mark.parametrize("language", ["cuda-c", "numba"])
def test_nearer_levels_answer_sooner(device, language):
    tables = (64 * levels.KIB, device.l2_bytes // 4, 8 * device.l2_bytes)
    found = levels.latencies(device, language, tables)
    cycles = {each.rung: each.cycles for each in found if each.rung != "global"}
    near, middle, far = (each.cycles for each in found if each.rung == "global")
    assert 3.5 < cycles["registers"] < 4.5
    assert cycles["registers"] < cycles["shared"] < near < middle < far
    assert 20 < cycles["shared"] < 60


@pytest.mark.parametrize("language", ["cuda-c", "numba"])
def test_nearer_levels_give_more(device, language):
    sets = (64 * levels.KIB, 16 * levels.MIB, 256 * levels.MIB)
    found = levels.bandwidths(device, language, sets)
    own = {each.rung: each.cycles / device.limits.multiprocessors for each in found if each.rung != "global"}
    near, middle, far = (
        each.cycles / device.limits.multiprocessors for each in found if each.rung == "global"
    )
    assert own["registers"] > own["shared"] > 0.9 * near
    assert near > middle > far
    assert 1200 < own["registers"] <= 1536 * 1.03
    assert middle <= 64 * 1.03  # no more than a multiprocessor takes from the L2
    assert own["shared"] <= 128 * 1.03  # no more than the banks give
