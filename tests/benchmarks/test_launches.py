"""The suite of launches on a fake GPU: a row for each pitfall in each language, bars that can be missed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from timing_fakes import FakeGpu, FakeStopwatch

from kernellab.experiments import launch_config, precision_cost
from kernellab.experiments.clocked import GpuClock
from kernellab.experiments.experiment import Point
from kernellab.instruments.clock import Timing
from kernellab.report.results import markdown_table
from kernellab.results import load, save
from kernellab.suites import driver_occupancy, launches
from kernellab.suites.bench import Bench

GROUPS = ((launch_config.PITFALLS[0], launch_config.PITFALLS[2]), (precision_cost.PITFALLS[-1],))


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Bench:
    """A bench whose clock finds what has a pitfall half again as long, and a driver that agrees."""
    slow = {item.slow.label for group in launches.GROUPS for item in group}

    def times(self: GpuClock, points: tuple[Point, ...]) -> dict[str, Timing]:
        return {each.label: Timing("cold", (1.5e-3 if each.label in slow else 1e-3,) * 20) for each in points}

    def measured(kernel: Any, **options: Any) -> SimpleNamespace:
        return SimpleNamespace(verdict=SimpleNamespace(max_ulp=2.0 if kernel.is_fast_math else 1.0))

    monkeypatch.setattr(GpuClock, "times", times)
    monkeypatch.setattr(launches, "measure", measured)
    monkeypatch.setattr(launches, "ask", lambda device: iter(agreeing()))
    stopwatch = FakeStopwatch()
    return Bench(FakeGpu(stopwatch), stopwatch)  # type: ignore[arg-type]


def agreeing() -> list[dict[str, int]]:
    asked = {"arch": 90, "threads": 256, "registers": 40, "shared_bytes": 0, "barriers": 1}
    return [{**asked, "blocks": driver_occupancy.ours(asked)}]


def test_every_pitfall_is_a_row_in_each_language(bench: Bench, tmp_path: Path) -> None:
    found = launches.run(bench, GROUPS)
    texts = [item.text for group in GROUPS for item in group]
    rows = [row for row in found.rows if "pitfall" in row]
    assert [(row["pitfall"], row["language"]) for row in rows] == [
        (text, language) for language in ("cuda-c", "numba") for text in texts
    ]
    assert [row["factor"] for row in rows] == pytest.approx([1.5] * 6)
    assert [row["ulp"] for row in rows] == [(), (), (1.0, 2.0)] * 2
    assert found.is_good
    assert len(found.lines) == 3
    shown = markdown_table(load(save(found, tmp_path)))
    assert f"| {texts[0]} | 1.50 (95 % 1.50 to 1.50) | 1.50 (95 % 1.50 to 1.50) |  |" in shown
    assert "| 1 and 2 |" in shown
    assert len(shown.splitlines()) == 2 + len(texts)


def test_a_pitfall_that_is_not_timed_is_a_bar_missed(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    from kernellab.errors import MismatchError

    def times(self: GpuClock, points: tuple[Point, ...]) -> Mapping[str, Timing]:
        raise MismatchError("copy/scalar: y differs")

    monkeypatch.setattr(GpuClock, "times", times)
    found = launches.run(bench, GROUPS[:1])
    assert not found.is_good
    assert any("copy/scalar: y differs" in note for note in found.notes)


def test_a_driver_that_counts_otherwise_is_a_bar_missed(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = [{**agreeing()[0], "blocks": 7}]
    monkeypatch.setattr(launches, "ask", lambda device: iter(other))
    found = launches.run(bench, ())
    assert [reached for text, reached in found.bars.items() if "0 of 1 launches" in text] == [False]
    assert found.rows == ({"driver": other[0], "ours": 6},)

    def fails(device: object) -> Iterator[Mapping[str, int]]:
        raise RuntimeError("no driver")
        yield {}

    monkeypatch.setattr(launches, "ask", fails)
    assert "the driver was not asked for occupancy: no driver" in launches.run(bench, ()).notes


def test_the_driver_is_asked_of_registers_of_many_kinds() -> None:
    from kernellab.compile import compile_cuda, resource_usage

    binary = compile_cuda(driver_occupancy.source())
    used = resource_usage(binary)
    queries: list[tuple[int, int, int]] = []

    def count(pointer: int, threads: int, shared: int) -> int:
        queries.append((pointer, threads, shared))
        return 1

    function = SimpleNamespace(kernel=SimpleNamespace(ptr=7))
    cupy = SimpleNamespace(
        RawModule=lambda path: SimpleNamespace(get_function=lambda name: function),
        cuda=SimpleNamespace(driver=SimpleNamespace(occupancyMaxActiveBlocksPerMultiprocessor=count)),
    )
    device = SimpleNamespace(arch="sm_90", cupy=cupy, limits=SimpleNamespace(shared=232448))
    rows = list(driver_occupancy.ask(device))  # type: ignore[arg-type]
    assert (
        len(rows) == len(queries) == len(used) * len(driver_occupancy.THREADS) * len(driver_occupancy.SHARED)
    )
    assert tuple(rows[0]) == driver_occupancy.FIELDS
    assert len({row["registers"] for row in rows}) >= 10
    assert {row["barriers"] for row in rows} == {1, 16}
    assert function.preferred_shared_memory_carveout == 100
    assert function.max_dynamic_shared_size_bytes == 232448


def test_a_claim_is_held_by_a_factor_that_no_interval_doubts() -> None:
    from kernellab.experiments.clocked import Ratio

    def found(value: float, low: float) -> Any:
        return SimpleNamespace(ratio=lambda slow, fast: Ratio(value, low, value, value, 1.0))

    pitfall = launch_config.PITFALLS[0]
    given = ((1.5, 1.4), (1.005, 1.004), (1.2, 0.9), (0.9, 0.8))
    assert [pitfall.timed(found(*each))[0] for each in given] == ["held", "refuted", "refuted", "refuted"]
