"""Times of kernels on a fake GPU: sets of buffers, the copy beside them, what is refused, both languages."""

from __future__ import annotations

import itertools
import json
import math

import numpy as np
import pytest
from fakes import FakeArray, make_gpu

import kernellab as kl
from kernellab import buffers, catalog, timing
from kernellab.instruments.clock import Rule, Timing
from kernellab.plan import bind

L2 = 60 * 2**20
COPY = catalog.kernel("copy/scalar")


@pytest.fixture
def fake(monkeypatch):
    return make_gpu(monkeypatch)


@pytest.fixture
def world(fake):
    return fake[0]


@pytest.fixture
def device(fake):
    return fake[1]


def floats(*shape):
    return np.random.default_rng(1).standard_normal(shape, dtype=np.float32)


def measure(*arguments, **options):
    return kl.measure(*arguments, **{"device": "gpu", **options})


# -- what a Record gets
@pytest.mark.parametrize("mode", ["cold", "hot", "graph"])
def test_each_mode_is_labelled(world, device, mode):
    world.seconds["copy_scalar"] = 2e-4
    record = measure(COPY, floats(1000), mode=mode)
    assert record.is_right
    assert record.value(f"seconds_{mode}") == pytest.approx(2e-4)
    assert record.value("bytes_per_second") == pytest.approx(8000 / 2e-4)
    assert record.reading(f"seconds_{mode}").source == "measured"
    assert any(note.startswith(f"{mode}:") for note in record.notes)
    (kept,) = record.timings
    assert (kept.mode, len(kept.samples) >= 15) == (mode, True)
    assert not any(math.isnan(value) for value in (*kept.quartiles, *kept.interval))
    assert record.value("sm_clock") == 1.98e9
    assert record.value("throttled") == 0


@pytest.mark.parametrize("mode", ["cold", "hot", "graph"])
def test_times_that_vary_take_several_rounds(world, device, mode):
    world.seconds["masked_rows_compact"] = 2e-4

    def compact(x, weights, active, y, *sizes):
        y[active] = weights @ x[:, active]

    world.kernels["masked_rows_compact"] = compact
    world.noise = itertools.cycle((1.0, 1.1, 0.9, 1.2, 0.8))
    # An output is zeroed before each sample.
    record = measure("masked_rows/compact", case="random mask", mode=mode)
    assert record.is_right
    assert record.value(f"seconds_{mode}") == pytest.approx(2e-4, rel=0.05)
    assert len(record.timings[0].samples) > 2 * Rule().queue


def test_raw_samples_survive_strict_json(device):
    record = measure(COPY, floats(100))
    text = json.dumps(record.to_dict(), allow_nan=False)
    back = kl.Record.from_dict(json.loads(text))
    assert back.timings == record.timings
    assert back == record


def test_the_fraction_of_a_copy_is_of_the_same_run(world, device):
    world.seconds |= {"copy_scalar": 2e-4, "memcpy": 1e-4}
    for mode in ("cold", "hot"):
        assert measure(COPY, floats(1000), mode=mode).value("fraction_of_copy") == pytest.approx(0.5)


def test_launch_overhead_is_the_hosts_and_apart(device):
    assert measure(COPY, floats(1000)).value("seconds_launch") == pytest.approx(5e-6)


def test_without_a_mode_nothing_is_timed(device):
    record = measure(COPY, floats(1000), mode=None)
    assert record.is_right
    assert not [item for item in record.readings if item.source == "measured"]


def test_the_emulator_is_never_timed():
    record = kl.measure(COPY, floats(64), device="emulator")
    assert record.timings == ()
    assert not [item for item in record.readings if item.source == "measured"]


@pytest.mark.parametrize(
    ("options", "message"), [({"mode": "warm"}, "mode is 'warm'"), ({"counters": "nsys"}, "'nsys'")]
)
def test_unknown_options(options, message):
    with pytest.raises(kl.SpecError, match=message):
        kl.measure(COPY, floats(64), device="emulator", **options)


def test_nothing_to_do_is_not_timed(device):
    record = measure(COPY, floats(0))
    assert record.is_right
    assert record.timings == ()


# -- buffers
def test_how_many_sets():
    room = 2**37
    assert buffers.set_count(2**30, L2, room) == 2
    count = buffers.set_count(4 * 2**20, L2, room)
    assert (count - 1) * 4 * 2**20 >= 2 * L2
    assert buffers.set_count(4096, L2, room) == 1  # evicted instead
    assert buffers.set_count(2**30, L2, 2**30) == 1  # no room
    assert buffers.set_count(2**30, L2, room, works=2) == 4


def test_large_arrays_take_sets_in_turn_and_nothing_is_evicted(world, device):
    stopwatch = device.stopwatch()
    record = measure(COPY, floats(2**21))
    assert stopwatch.evictions == 0
    assert any("sets of 16777216 bytes in turn" in note for note in record.notes)


def test_small_arrays_are_evicted(world, device):
    stopwatch = device.stopwatch()
    measure(COPY, floats(64))
    assert stopwatch.evictions >= 15


def test_the_callers_array_is_not_used_for_timing(world, device):
    x = world.array(floats(64))
    before = x.host.copy()
    assert measure(COPY, x).is_right
    assert np.array_equal(x.host, before)


def test_accumulators_are_zeroed_before_each_sample(world, device):
    kernel = catalog.kernel("masked_rows/compact")
    plan = bind(kernel, kernel.problem.inputs(kernel.problem.cases[0]))
    assert plan.zeroed
    sets = buffers.make_sets(device, plan, 1)
    (output,) = plan.outputs
    assert np.isnan(sets.buffers[0][output].host).all()
    sets.restore[0]()
    assert not sets.buffers[0][output].host.any()


# -- what is refused
def test_a_wrong_kernel_has_no_speed(world, device):
    world.kernels["copy_scalar"] = lambda x, y, n: y.__setitem__(..., x + 1)
    record = measure(COPY, floats(64))
    assert not record.is_right
    assert record.timings == ()
    assert not [item for item in record.readings if item.source == "measured"]


@pytest.mark.parametrize("after", [3, 40])
def test_a_kernel_that_goes_wrong_in_the_timed_loop_has_no_speed(world, device, after):
    runs = [0]

    def kernel(x, y, n):
        runs[0] += 1
        y[...] = x if runs[0] < after else x + 1

    world.kernels["copy_scalar"] = kernel
    record = measure(COPY, floats(64))
    assert not record.is_right
    assert "(after the timed loop)" in record.verdict.message
    assert record.timings == ()


def test_a_kernel_that_writes_only_the_first_time_is_caught(world, device):
    runs = [0]

    def kernel(x, y, n):
        runs[0] += 1
        if runs[0] <= 2:
            y[...] = x

    world.kernels["copy_scalar"] = kernel
    assert "which nothing wrote there (after the timed loop)" in measure(COPY, floats(64)).verdict.message


def test_faster_than_memory_is_an_error_and_no_result(world, device):
    timing.check_ceiling("k", Timing("cold", (1.0,)), Timing("cold", (1.14,)), 5 * L2, L2)
    timing.check_ceiling("k", Timing("cold", (1.0,)), Timing("cold", (1.07,)), 3 * L2 * 2, L2, 2 * L2)
    with pytest.raises(kl.ExecutionError, match=r"more than 1\.05 times"):
        timing.check_ceiling("k", Timing("cold", (1.0,)), Timing("cold", (1.06,)), 6 * L2, L2, 3 * L2)
    timing.check_ceiling("k", Timing("cold", (1.0,)), Timing("cold", (1.04,)), 5 * L2, L2)
    timing.check_ceiling("k", Timing("cold", (0.5,)), Timing("cold", (1.0,)), 3 * L2, L2)
    timing.check_ceiling("k", Timing("hot", (0.5,)), Timing("hot", (1.0,)), 5 * L2, L2)
    message = r"k: 314572800 bytes at 629 GB/s are more than 1\.14 times what a copy gives \(315 GB/s\)"
    with pytest.raises(kl.ExecutionError, match=message):
        timing.check_ceiling("k", Timing("cold", (0.5e-3,)), Timing("cold", (1e-3,)), 5 * L2, L2)


# -- both languages
def test_compare_says_equal_or_slower(world, device):
    world.seconds |= {"copy_scalar": 1e-4, "copy_scalar twin": 1e-4}
    equal = kl.compare(COPY, floats(64), device="gpu")
    assert equal.time_ratio == 1.0
    assert equal.speed.startswith("equal")
    world.seconds["copy_scalar twin"] = 1.2e-4
    slower = kl.compare(COPY, floats(64), device="gpu")
    assert slower.time_ratio == pytest.approx(1.2)
    assert slower.speed == "Numba is slower by 20.0 %"
    world.seconds["copy_scalar twin"] = 0.8e-4
    assert kl.compare(COPY, floats(64), device="gpu").speed == "CUDA C is slower by 25.0 %"


def test_compare_interleaves_and_tells_launch_cost_apart(world, device):
    found = kl.compare(COPY, floats(64), device="gpu")
    first, second = (len(record.timings[0].samples) for record in found.records)
    assert first == second
    order = [item[1] for item in world.launches()][-300:]
    timed = "".join("t" if "twin" in name else "c" for name in order)
    assert "cttc" in timed
    assert found.launch_seconds == pytest.approx((5e-6, 5e-6))
    rows = {row.name: row for row in found.rows}
    assert rows["seconds_cold"].values == tuple(record.value("seconds_cold") for record in found.records)
    assert json.dumps(found.to_dict(), allow_nan=False)


def test_compare_of_a_wrong_twin_gives_the_right_one_a_time(world, device, monkeypatch):
    monkeypatch.setattr(device.launcher, "numba_call", lambda *arguments: lambda: None)
    found = kl.compare(COPY, floats(64), device="gpu")
    assert [record.is_right for record in found.records] == [True, False]
    assert [len(record.timings) for record in found.records] == [1, 0]
    assert math.isnan(found.time_ratio)
    assert found.speed == ""


# -- the emulator's counts beside
def test_both_has_counts_beside_times(device):
    record = kl.measure(COPY, floats(64), device="both")
    assert record.device == "gpu"
    assert record.value("global_load_requests") == 2
    assert record.reading("global_load_requests").source == "counted"
    assert record.value("seconds_cold") > 0
    assert record.lines


def test_locked_counters_leave_the_emulators_counts_and_the_reason(device, monkeypatch):
    def locked(jobs):
        raise kl.UnavailableError("counters: this GPU's performance counters are locked")

    monkeypatch.setattr("kernellab.instruments.counters.read_counters", locked)
    record = measure(COPY, floats(64), counters="ncu", mode=None)
    assert "counters: this GPU's performance counters are locked" in record.notes
    assert record.reading("global_load_sectors", "counted").value == 8
    monkeypatch.setattr("kernellab.hardware.MOST_COUNTED", 10)
    large = measure(COPY, floats(64), counters="ncu", mode=None)
    assert any("the emulator did not count" in note for note in large.notes)


def test_hardware_counters_stand_beside_the_emulators_and_differences_are_named(device, monkeypatch):
    seen = {"global_load_requests": 2.0, "global_load_sectors": 9.0, "seconds": 1e-6}
    monkeypatch.setattr("kernellab.instruments.counters.read_counters", lambda jobs: [[seen]])
    record = measure(COPY, floats(64), counters="ncu", device="both")
    assert record.value("global_load_sectors", "measured") == 9
    assert record.value("global_load_sectors", "counted") == 8
    assert [note for note in record.notes if "measured" in note] == [
        "global_load_sectors: counted 8, measured 9 (+12.5 %)",
        "sectors_per_request_load: counted 4, measured 4.5 (+12.5 %)",
    ]
    assert record.value("seconds_ncu") == 1e-6


def test_outputs_are_arrays_of_the_device_that_was_asked(world, device):
    out = world.array(np.zeros(64, np.float32))
    x = floats(64)
    assert measure(COPY, x, out=out, mode=None).is_right
    assert isinstance(out, FakeArray)
    assert np.array_equal(out.host, x)


def test_a_full_queue_costs_fewer_calls_and_no_number():
    from kernellab.instruments.clock import launch_seconds

    class Full:
        """A device whose queue holds sixteen launches; with more the host waits until the gate opens."""

        def __init__(self):
            self.time, self.queued, self.opened = 0.0, 0, 0

        def now(self):
            return self.time

        def wait(self):
            self.queued = 0

        close_gate = wait

        def open_gate(self):
            self.opened += self.queued > 16
            return self.queued <= 16

        def call(self):
            self.queued += 1
            self.time += 4e-6

    full = Full()
    assert launch_seconds(full, full.call) == pytest.approx(4e-6)
    assert full.opened == 1


def test_hardware_counters_by_line(device, monkeypatch):
    from kernellab.emulator.summary import Line

    monkeypatch.setattr("kernellab.instruments.counters.read_counters", lambda jobs: [[{}]])
    lines = kl.measure(COPY, floats(64), device="both", mode=None).lines
    counted = next(line for line in lines if line.requests)
    seen = Line("elsewhere/scalar.cu", counted.number, counted.text, requests=2, sectors=9)
    monkeypatch.setattr("kernellab.instruments.counters.line_counters", lambda job: (seen,))
    alone = measure(COPY, floats(64), counters="ncu-lines", mode=None)
    assert alone.lines == (seen,)
    assert any(note.startswith("lines: by Nsight Compute") for note in alone.notes)
    both = measure(COPY, floats(64), counters="ncu-lines", device="both", mode=None)
    assert f"scalar.cu:{counted.number} sectors: counted 8, measured 9 (+12.5 %)" in both.notes
    assert counted in both.lines
