"""Control flow: loops, switches, irreducible jumps, lanes and blocks that wait for each other, deadlocks."""

from __future__ import annotations

import time

import numpy as np
import pytest
from launching import Kernels, integers

from kernellab.errors import ExecutionError

CONTROL = Kernels.of("control.cu")
f32, i32 = np.float32, np.int32


def test_mandelbrot_with_breaks():
    width, height, limit = 40, 20, 50
    y = np.zeros((height, width), i32)
    CONTROL("mandelbrot", (2, 3), (32, 8), y, width, height, limit)
    i, j = np.meshgrid(np.arange(width), np.arange(height))
    c = (-2 + 3 * i / width) + 1j * (-1.5 + 3 * j / height)
    z, n = np.zeros_like(c), np.zeros(c.shape, i32)
    active = np.ones(c.shape, bool)
    while active.any():
        active &= np.abs(z) ** 2 <= 4
        n[active] += 1
        active &= n < limit
        z[active] = z[active] ** 2 + c[active]
    assert (y != n).mean() < 0.01  # fused multiply-adds move a point on the border


def test_breaks_and_continues():
    x, y = np.arange(1, 101, dtype=i32), np.zeros(100, i32)
    CONTROL("collatz", 2, 64, x, y, 100)

    def reference(v):
        steps = skipped = 0
        for k in range(1000):
            if v == 1:
                break
            if k % 7 == 3:
                skipped += 1
                continue
            v = 3 * v + 1 if v & 1 else v // 2
            steps += 1
        return steps * 1000 + skipped

    assert y.tolist() == [reference(v) for v in x.tolist()]


def test_switches_with_returns_and_falling_through(rng):
    x, y = integers(rng, 0, 12, 64), np.zeros(64, i32)
    trace = CONTROL("switches", 1, 64, x, y)
    for i, v in enumerate(x.tolist()):
        cases = {0: 100, 1: i * 3 + 7, 2: 9, 3: -3, 4: -4, 5: 5 + i * (i - 1) // 2, 6: 48, 7: 7 ^ 0x55, 8: -1}
        assert y[i] == cases.get(v, int(x[(i + 1) % 64]) if v == 9 else 12345)
    assert trace.totals["divergent_branches"] > 0


def test_returns_inside_loops(rng):
    x, y = integers(rng, -8, 8, 64), np.zeros(64, i32)
    CONTROL("leaves_from_within", 1, 64, x, y, 5)
    np.testing.assert_array_equal(y, np.where((x >= 0) & (x < 5), -x, 1000 + x))


def test_jumps_into_a_loop(rng):
    x, y = integers(rng, -8, 30, 64), np.zeros(64, i32)
    CONTROL("gotos", 1, 64, x, y)

    def reference(v):
        n, from_top = 0, not v & 1
        while True:
            if from_top:
                v, n = v + 3, n + 1
            v, n = v - 1, n + 1
            if v <= 0 or n >= 20:
                return v * 100 + n
            from_top = v % 3 == 0
            v -= 0 if from_top else 2

    assert y.tolist() == [reference(v) for v in x.tolist()]


def test_nested_loops_left_by_goto(rng):
    x, y = integers(rng, 0, 12, 64), np.zeros(64, i32)
    CONTROL("nested", 1, 64, x, y)

    def reference(i):
        total = 0
        for a in range(x[i]):
            for b in range(a, x[(i + 1) & 63]):
                if (a + b) % 5 == 4:
                    continue
                if b > 6:
                    break
                total += a * b
                if total > 200:
                    return total
            total += 1
        return total

    assert y.tolist() == [reference(i) for i in range(64)]


def test_uneven_loops_cost_what_their_longest_lane_costs(rng):
    trips = integers(rng, 0, 20, 128)
    y = np.zeros(128, f32)
    mixed = CONTROL("uneven", 1, 128, trips, y, 128)
    expected = np.arange(128, dtype=f32)
    for k in range(20):
        expected = np.where(k < trips, expected * f32(0.5) + f32(k), expected)
    np.testing.assert_array_equal(y, expected)
    even = CONTROL("uneven", 1, 128, np.sort(trips), y, 128)
    assert even.totals["thread_instructions"] == mixed.totals["thread_instructions"]
    assert even.totals["warp_instructions"] < mixed.totals["warp_instructions"]
    assert even.totals["warp_efficiency"] > mixed.totals["warp_efficiency"]


# -- who waits for whom
@pytest.mark.parametrize("name", ["lanes_lock", "lanes_lock_spin"])
def test_lanes_of_a_warp_take_a_lock_in_turns(name):
    lock, total = np.zeros(1, i32), np.zeros(2, i32)
    trace = CONTROL(name, 3, 64, lock, total)
    assert total[0] == 192
    assert trace.diagnostics == ()


def test_blocks_take_a_lock_in_turns():
    total = np.zeros(2, i32)
    CONTROL("blocks_lock", 300, 32, np.zeros(1, i32), total)
    assert total[0] == 300


def test_blocks_go_in_the_order_of_their_numbers():
    y = np.zeros(20, i32)
    CONTROL("in_order", 20, 64, np.zeros(1, i32), y)
    expected = [1]
    for _ in range(19):
        expected.append((expected[-1] * 3 + 1 + 2**31) % 2**32 - 2**31)
    assert y.tolist() == expected


def test_two_warps_shake_hands():
    y = np.zeros(64, i32)
    CONTROL("handshake", 1, 64, np.zeros(3, i32), y)
    assert set(y[:32]) == {44}


def test_a_lane_waits_for_another_lane_of_its_warp():
    y = np.zeros(32, i32)
    CONTROL("lane_waits_for_lane", 1, 32, np.zeros(1, i32), y)
    assert (y[0], y[5], y[31]) == (7, 5, 8)


# -- what goes wrong
@pytest.mark.parametrize(
    ("name", "absent"),
    [("barrier_in_branch", "threads 0, 2, 4"), ("barrier_both_sides", "threads [01], [23], ")],
)
def test_a_divergent_barrier_is_an_error(name, absent):
    with pytest.raises(ExecutionError, match=rf"{name}: divergent barrier: {absent}.*control\.cu|source\.cu"):
        CONTROL(name, 1, 64, np.zeros(64, i32))


def test_warps_may_wait_at_different_barrier_instructions():
    y = np.zeros(64, i32)
    assert CONTROL("barrier_by_warp", 1, 64, y).diagnostics == ()
    assert (set(y[:32]), set(y[32:])) == ({2}, {1})


def test_a_deadlock_names_the_lines():
    with pytest.raises(
        ExecutionError, match=r"32 threads wait at barrier 1 at source\.cu:\d+; 32 .* barrier 2"
    ):
        CONTROL("never_met", 1, 64, np.zeros(64, i32))


def test_a_loop_in_which_nothing_changes_ends_at_once():
    start = time.process_time()
    with pytest.raises(
        ExecutionError, match=r"endless loop: 64 threads wait in a loop in which nothing changes"
    ):
        CONTROL("never_changes", 1, 64, np.zeros(64, i32))
    assert time.process_time() - start < 2


def test_an_endless_loop_meets_its_budget():
    with pytest.raises(
        ExecutionError, match=r"instruction budget: more than 5000 instructions.*budget="
    ) as caught:
        CONTROL("never_ends", 1, 64, np.zeros(64, i32), budget=5000)
    assert caught.value.trace.totals["warp_instructions"] > 5000


def test_an_endless_loop_ends_without_a_budget(monkeypatch):
    monkeypatch.setattr("kernellab.emulator.batch.MAX_SECONDS", 0.2)
    monkeypatch.setattr("kernellab.emulator.batch.LEAST_STEPS", 1000)
    with pytest.raises(ExecutionError, match=r"instruction budget: \d+ instructions in \d+ seconds"):
        CONTROL("never_ends", 1, 64, np.zeros(64, i32))


def test_a_long_loop_of_one_thread_is_fine():
    y = np.zeros(1, i32)
    CONTROL("one_thread", 1, 1, y, 5000)
    s = 1
    for i in range(5000):
        s = (s * 1664525 + 1013904223 + i) % 2**32
    assert y.view(np.uint32)[0] == s
