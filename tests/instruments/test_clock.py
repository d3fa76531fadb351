"""The clock on a fake device: a timeline in which every kernel's length is known."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from kernellab.errors import SpecError, UnavailableError
from kernellab.instruments.clock import Rule, Timing, is_settled, is_slower, median_interval, time_calls


class FakeEvent:
    """As opaque as CUDA's: nothing can be done with it but ask a stopwatch."""

    def __init__(self) -> None:
        self.time = math.nan


class FakeDevice:
    """Work is queued and lasts on a simulated timeline; the host advances only a little."""

    def __init__(self, clock: float | None = 1.98e9, gate_holds: bool = True) -> None:
        self.host = 0.0
        self.device = 0.0
        self.queue: list[tuple[str, Any]] = []
        self.log: list[str] = []
        self.gate_holds = gate_holds
        self.gate_holds_up_to = 10**6
        self.clock = clock
        self.is_warm: set[int] = set()
        self.buffers_used: list[int] = []

    def launch(self, seconds: float, *, buffer: int = 0) -> None:
        self.host += 5e-6
        self.queue.append(("work", (seconds, buffer)))

    def now(self) -> float:
        return self.host

    def close_gate(self) -> None:
        self.log.append("close")

    def open_gate(self) -> bool:
        self.log.append("open")
        queued = sum(kind == "work" for kind, _ in self.queue)
        return self.gate_holds and queued <= self.gate_holds_up_to

    def mark(self) -> FakeEvent:
        event = FakeEvent()
        self.queue.append(("event", event))
        return event

    def seconds(self, start: FakeEvent, stop: FakeEvent) -> float:
        return stop.time - start.time

    def wait(self) -> None:
        for kind, what in self.queue:
            if kind == "event":
                what.time = self.device
            elif kind == "evict":
                self.is_warm.clear()
                self.device += 1e-4
            else:
                seconds, buffer = what
                self.device += seconds * (0.5 if buffer in self.is_warm else 1.0)
                self.is_warm.add(buffer)
                self.buffers_used.append(buffer)
        self.queue.clear()
        self.host = max(self.host, self.device)

    def evict(self) -> None:
        self.queue.append(("evict", None))

    def clock_hz(self) -> float | None:
        return self.clock

    def highest_clock_hz(self) -> float | None:
        return None if self.clock is None else 1.98e9


def test_reads_the_length_of_the_work_not_of_the_launch() -> None:
    device = FakeDevice()
    timing = time_calls(device, {"k": [lambda: device.launch(5e-2)]}, mode="cold")["k"]
    assert timing.seconds == pytest.approx(5e-2)


def test_eviction_and_the_gate_are_outside_the_timed_span() -> None:
    device = FakeDevice()
    timing = time_calls(device, {"k": [lambda: device.launch(1e-3)]}, mode="cold")["k"]
    assert timing.seconds == pytest.approx(1e-3)
    hot = time_calls(device, {"k": [lambda: device.launch(1e-3)]}, mode="hot")["k"]
    assert hot.seconds == pytest.approx(5e-4)
    assert (timing.mode, hot.mode) == ("cold", "hot")


def test_cold_takes_the_buffer_sets_in_turn() -> None:
    device = FakeDevice()
    calls = [lambda b=b: device.launch(1e-3, buffer=b) for b in range(3)]
    time_calls(device, {"k": calls}, mode="cold", needs_eviction=False, rule=Rule(minimum=6, queue=6))
    assert device.buffers_used[:9] == [0, 1, 2, 0, 1, 2, 0, 1, 2]


def test_the_first_call_is_not_in_the_samples() -> None:
    device = FakeDevice()
    lengths = iter([10.0] + [1e-3] * 1000)  # compiling takes ten seconds
    timing = time_calls(device, {"k": [lambda: device.launch(next(lengths))]}, mode="hot")["k"]
    assert max(timing.samples) < 1e-2


def test_noise_ends_within_the_budget() -> None:
    device = FakeDevice()
    generator = np.random.default_rng(0)
    rule = Rule(budget=0.5, minimum=10)
    timing = time_calls(
        device, {"k": [lambda: device.launch(abs(generator.normal(1e-3, 1e-3)))]}, mode="cold", rule=rule
    )["k"]
    assert len(timing.samples) >= 10
    assert device.host < 5


def test_a_gate_that_does_not_hold_is_an_error_and_no_number() -> None:
    device = FakeDevice(gate_holds=False)
    with pytest.raises(UnavailableError, match="the work waits for the device"):
        time_calls(device, {"k": [lambda: device.launch(1e-3)]})
    assert device.log.count("close") == 3  # a gate holds for seconds, so few are enough to know


def test_a_host_too_slow_for_a_long_queue_gets_a_short_one() -> None:
    device = FakeDevice()
    device.gate_holds_up_to = 8
    timing = time_calls(device, {"k": [lambda: device.launch(1e-3)]})["k"]
    assert timing.seconds == pytest.approx(1e-3)


def test_a_low_clock_is_flagged_and_the_samples_are_kept() -> None:
    device = FakeDevice(clock=1.98e9 * 0.55)
    timing = time_calls(device, {"k": [lambda: device.launch(1e-3)]})["k"]
    assert timing.is_throttled
    assert timing.notes
    assert len(timing.samples) >= 15


def test_works_are_interleaved_and_the_order_alternates() -> None:
    device = FakeDevice()
    order: list[str] = []

    def work(name: str) -> None:
        order.append(name)
        device.launch(1e-3)

    time_calls(device, {"a": [lambda: work("a")], "b": [lambda: work("b")]}, mode="hot")
    assert order[2:10] == ["a", "b", "b", "a", "a", "b", "b", "a"]


def test_what_must_be_zeroed_is_queued_before_each_sample() -> None:
    device = FakeDevice()
    order: list[str] = []
    time_calls(
        device,
        {"k": [lambda: order.append("work")]},
        mode="hot",
        before={"k": lambda: order.append("zero")},
        rule=Rule(minimum=6, queue=6, maximum=6),
    )
    assert order == ["zero", "work"] * 7


def test_every_round_is_prepared_alike_not_only_the_first() -> None:
    device = FakeDevice()
    lengths = iter([1e-3, 2e-3] * 1000)  # never settles
    order: list[str] = []

    def work() -> None:
        order.append("work")
        device.launch(next(lengths))

    rule = Rule(minimum=6, queue=6, maximum=30)
    timing = time_calls(
        device, {"k": [work]}, mode="hot", before={"k": lambda: order.append("zero")}, rule=rule
    )["k"]
    assert len(timing.samples) == 30
    assert order == ["zero", "work"] * 31


def test_an_unknown_mode_is_refused() -> None:
    with pytest.raises(SpecError, match="mode is 'lukewarm'"):
        time_calls(FakeDevice(), {"k": [lambda: None]}, mode="lukewarm")  # type: ignore[arg-type]


@pytest.mark.parametrize("count", [0, 1, 2, 5])
def test_few_samples_have_no_spread(count: int) -> None:
    timing = Timing("cold", (1.0,) * count)
    assert all(map(math.isnan, timing.interval))
    assert count >= 3 or all(map(math.isnan, timing.quartiles))


def test_the_interval_covers_the_median_as_often_as_it_says() -> None:
    generator = np.random.default_rng(1)
    covered = 0
    for _ in range(400):
        low, high = median_interval(generator.exponential(1.0, 41).tolist())
        covered += low <= math.log(2) <= high
    assert 0.92 <= covered / 400 <= 0.995


def test_settled_needs_a_minimum_and_a_narrow_interval() -> None:
    rule = Rule(precision=0.01, minimum=10)
    assert not is_settled([1.0] * 9, rule)
    assert is_settled([1.0] * 10, rule)
    assert not is_settled([1.0, 2.0] * 10, rule)


def test_equal_works_are_called_equal_and_five_per_cent_is_seen() -> None:
    generator = np.random.default_rng(2)
    equal = slower = 0
    for _ in range(100):
        first = generator.normal(1.0, 0.01, 60)
        equal += is_slower(first.tolist(), generator.normal(1.0, 0.01, 60).tolist()) == 1.0
        slower += is_slower(first.tolist(), generator.normal(1.05, 0.01, 60).tolist()) > 1.02
    assert equal >= 97
    assert slower == 100
