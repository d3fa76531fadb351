"""Ranges and captures on a fake GPU: what is marked, in which order, and that nothing is timed meanwhile."""

from __future__ import annotations

import dataclasses

import pytest
from fakes import make_gpu

from kernellab.experiments import load
from kernellab.experiments.experiment import Claim, Observed
from kernellab.experiments.runner import run
from kernellab.instruments.profiler import NOBODY, Profiler, can_range, command_lines

LABEL = "branch-free"


@pytest.fixture
def fake(monkeypatch):
    return make_gpu(monkeypatch)


def small():
    """An experiment of one kernel that the fake GPU knows."""
    found = load("divergence")
    sweep = dataclasses.replace(
        found.sweeps[0], points=tuple(each for each in found.sweeps[0].points if each.label == LABEL)
    )
    return dataclasses.replace(found, sweeps=(sweep,), expectations=(), claims=(), pictures=None)


def watch(device, profiler, **changes):
    device.launcher.profiler = profiler
    return run(dataclasses.replace(small(), **changes), device, ("cuda-c",), profiler=profiler)


def test_an_experiment_a_case_and_a_launch_are_ranges_within_the_capture(fake):
    world, device = fake
    result = watch(device, Profiler(world.cupy, has_ranges=True, is_capturing=True))
    marks = [item for item in world.log if item[0] in ("profile", "done", "range", "end of range", "launch")]
    end = ("end of range",)
    assert marks == [
        ("profile",), ("range", "divergence"), ("range", f"{LABEL} cuda-c"), ("range", "relu/branch_free"),
        ("launch", "relu_branch_free", 0), end, end, end, ("done",),
    ]  # fmt: skip
    assert not result.panels[0].records["cuda-c"][LABEL].timings


def test_ranges_alone_leave_the_clock_running(fake):
    world, device = fake
    result = watch(device, Profiler(world.cupy, has_ranges=True))
    assert ("range", f"{LABEL} cuda-c") in world.log
    assert ("profile",) not in world.log
    assert result.panels[0].records["cuda-c"][LABEL].timings


def test_the_capture_ends_with_an_error(fake):
    world, device = fake

    def broken(*arguments):
        raise ZeroDivisionError

    world.kernels["relu_branch_free"] = broken
    with pytest.raises(ZeroDivisionError):
        watch(device, Profiler(world.cupy, has_ranges=True, is_capturing=True))
    assert world.log[-1] == ("done",)
    assert world.log.count(("end of range",)) == 3


@pytest.mark.parametrize("is_capturing", [True, False])
def test_what_an_experiment_sees_on_a_gpu_knows_whether_somebody_watches(fake, is_capturing):
    world, device = fake
    seen = []

    def observe(clock):
        seen.append((clock.language, clock.is_timing))
        return Observed({"it is fast": ("held", "")})

    claim = Claim("it is fast", "somebody", lambda rows: ("needs a GPU", ""))
    result = watch(device, Profiler(world.cupy, is_capturing=is_capturing), observe=observe, claims=(claim,))
    assert seen == [("cuda-c", not is_capturing)]
    assert [each.verdict for each in result.claims] == ["not timed" if is_capturing else "held"]


def test_nobody_costs_nothing():
    def call():
        """A launch."""

    assert NOBODY.wrapped("k", call) is call
    with NOBODY.capture(), NOBODY.range("x"):
        pass


def test_a_cupy_without_nvtx_has_no_ranges(fake):
    world, _ = fake
    del world.cupy.cuda.nvtx
    assert not can_range(world.cupy)
    profiler = Profiler(world.cupy, has_ranges=True)
    with profiler.range("x"):
        pass
    assert world.log == []


def test_commands_quote_what_a_shell_would_read():
    systems, compute = command_lines(["my python", "-m", "x"], ["a", "ladders:sum"], ["sum"])
    assert (
        "--capture-range=cudaProfilerApi --capture-range-end=repeat:2 -o kernellab-a-ladders-sum" in systems
    )
    assert systems.endswith("'my python' -m x")
    assert "--profile-from-start off" in compute
    assert "-k 'regex:(^|:)(sum)_'" in compute
