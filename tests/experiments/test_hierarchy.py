"""The hierarchy and atomics: what is counted holds and fails when it should; what a GPU would be asked, on a fake one."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from experiment_runs import IS_EXHAUSTIVE, check_that_each_is_broken_once, mutant_of
from experiment_runs import quick_result_of as result_of
from timing_fakes import FakeGpu, FakeStopwatch

from kernellab.catalog import chase
from kernellab.experiments import atomics, hierarchy, levels, load
from kernellab.experiments.experiment import Experiment, Result, Rows
from kernellab.experiments.levels import BANDWIDTH, LATENCY, Reach
from kernellab.experiments.picture import Curves, Mark, Series, picture_from_dict, picture_to_dict
from kernellab.experiments.runner import run
from kernellab.instruments.clock import Timing
from kernellab.report.curves import ROWS, curve_lines, curve_shapes

NAMES = ("hierarchy", "atomics")


def rows_of(result: Result) -> dict[str, Any]:
    return {label: each for panel in result.panels for label, each in panel.records["cuda-c"].items()}


@pytest.mark.parametrize("name", NAMES)
def test_every_expectation_holds_and_claims_wait_for_a_gpu(name: str) -> None:
    result = result_of(name)
    assert [(o.text, o.found) for o in result.expectations if o.verdict != "held"] == []
    assert {o.verdict for o in result.claims} == {"needs a GPU"}
    assert any("need" in note and "GPU" in note for note in result.notes)
    again = Result.from_dict(json.loads(json.dumps(result.to_dict(), allow_nan=False)))
    assert again.pictures == result.pictures


MUTANTS = {
    "hierarchy": (
        ("every answer", "chase/global", ("last[i] = place;", "last[i] = place + 1;")),
        (
            "every read that is timed",
            "reread/global",
            ("tile += ahead;", "tile += ahead; if (read) break;"),
        ),
        (
            "what registers, constants or",
            "reread/registers",
            ("for (int round = 0", "const volatile float* again = data;\nfor (int round = 0"),
            ("held[v].y, sums[s])", "held[v].y, sums[s]) + 0.0f * again[threadIdx.x]"),
        ),
        ("in registers nearly", "reread/registers", ("__fmaf_rn(held[v].x, held[v].y, sums[s])", "__fadd_rn(__fmul_rn(held[v].x, held[v].y), sums[s])")),
        (
            "reads from memory take",
            "reread/shared",
            ("sum = __fmaf_rn(loaded[v].z", "sum = sqrtf(sum * sum);\nsum = __fmaf_rn(loaded[v].z"),
        ),
        ("a step of a walk is one request", "chase/shared", ("table[place]", "table[place + threadIdx.x * 0 + (step & 1) * 0 + (i & 1)]")),
        ("a step of a walk is no more", "chase/global", ("next[place]", "next[(unsigned)(sqrtf((float)place) * sqrtf((float)place)) % 1024u]")),
    ),
    "atomics": (
        ("every answer", "tally/contended", ("1u)", "2u)")),
        ("an address that k lanes", "tally/contended", ("counts + key", "counts + key % 2")),
        ("added up in the warp", "tally/warp", ("__ffs(same) - 1 == threadIdx.x % 32", "same")),
        ("where no lanes meet", "tally/warp", ("counts + key", "counts + key % 4")),
        ("added up in the block", "tally/block", ("return own[bin]; });", "return own[bin] / 2; });\nadd_counts<THREADS>(counts, bins, [=](int bin) { return own[bin] - own[bin] / 2; });")),
        ("adding 1 in shared", "tally/block", ("atomicAdd(own + key, 1u)", "atomicAdd(own + key, key - key % 2 + 1u)")),
    ),
}  # fmt: skip
QUICK = (
    "every read that is timed",
    "a step of a walk is one",
    "an address that k lanes",
    "added up in the block",
)
ROWS_OF_MUTANTS = [
    (name, *row)
    for name, rows in MUTANTS.items()
    for row in rows
    if IS_EXHAUSTIVE or row[0].startswith(QUICK)
]


@pytest.mark.parametrize("name", NAMES)
def test_every_expectation_has_a_mutant(name: str) -> None:
    check_that_each_is_broken_once(name, [row[0] for row in MUTANTS[name]])


@pytest.mark.parametrize("row", ROWS_OF_MUTANTS, ids=[f"{row[0]}: {row[1]}" for row in ROWS_OF_MUTANTS])
def test_mutant_breaks_its_expectation(row: tuple, tmp_path: Path) -> None:
    name, start, kernel_id, *edits = row
    rows = rows_of(result_of(name))
    mutated = without_judgement(
        load(name).replacing(kernel_id, mutant_of(kernel_id, tmp_path, *edits)), tmp_path
    )
    rows |= rows_of(run(mutated, "emulator", ("cuda-c",)))
    (broken,) = [each for each in load(name).expectations if each.text.startswith(start)]
    assert broken.check(Rows(rows))[0] is False


def without_judgement(experiment: Experiment, folder: Path) -> Experiment:
    """Only the points whose kernel lies in the folder."""
    sweeps = tuple(
        dataclasses.replace(sweep, points=tuple(p for p in sweep.points if p.kernel.path.parent == folder))
        for sweep in experiment.sweeps
    )
    return dataclasses.replace(experiment, sweeps=sweeps, expectations=(), claims=(), pictures=None)


# -- what a GPU is asked, on a fake one whose time is that of repetitions
SETS = [64 * levels.KIB, levels.MIB, 8 * levels.MIB + 2**16]


class Levelled(FakeGpu):
    """A launch takes a start, and a time a repetition that grows with the set beyond each of two caches."""

    def __init__(self) -> None:
        super().__init__(FakeStopwatch())
        self.l2_bytes = 4 * levels.MIB
        self.slow = 1.0

    def calls(self, program: object, plan: Any, buffers: dict[str, np.ndarray]) -> tuple:
        (call,) = super().calls(program, plan, buffers)
        repeated = int(plan.parameters.get("reads", plan.parameters.get("steps", 0)))
        nbytes = sum(array.nbytes for name, array in plan.inputs.items() if name in ("data", "next"))
        factor = 1 + (nbytes > 128 * levels.KIB) + 2 * (nbytes > self.l2_bytes)
        is_near = plan.kernel.name in ("registers", "constant")

        def timed() -> None:
            call()
            self._stopwatch.pass_time(5e-6 + repeated * (1e-8 if is_near else factor * self.slow * 1e-7))

        return (timed,)


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> Levelled:
    monkeypatch.setattr(levels, "COARSE", SETS)
    monkeypatch.setattr(levels, "CONSTANTS", (levels.KIB,))
    monkeypatch.setattr(levels, "READS", (8, 16))
    monkeypatch.setattr(levels, "NEAR_READS", (8, 16))
    monkeypatch.setattr(levels, "STEPS", (64, 128))
    monkeypatch.setattr(levels, "BLOCKS", 1)
    return Levelled()


def test_a_launch_and_its_first_pass_fall_out_of_a_slope(gpu: Levelled) -> None:
    found = levels.plateaus(levels.latencies(gpu, "cuda-c", SETS), gpu.l2_bytes)
    assert found["L1"].value == pytest.approx(1e-7)
    assert found["L2"].value == pytest.approx(2e-7)
    assert found["DRAM"].value == pytest.approx(4e-7)
    assert found["DRAM"].cycles == pytest.approx(4e-7 * 1.98e9)
    assert found["registers"].value == pytest.approx(1e-8 / 8)  # eight multiply-adds a tile and thread
    given = levels.plateaus(levels.bandwidths(gpu, "cuda-c", SETS), gpu.l2_bytes)
    blocks, tile = gpu.limits.multiprocessors, 4 * 4096
    assert given["L1"].value == pytest.approx(blocks * 4 * tile / 1e-7)  # in one block what else four read
    assert given["constant"].value == pytest.approx(blocks * tile / 32 / 1e-8)  # once for a warp
    assert given["registers"].value == pytest.approx(
        blocks * tile * 1.5 / 1e-8
    )  # three operands for two words


def test_a_set_is_read_once_by_all_before_any_of_it_is_read_again() -> None:
    blocks = np.arange(132)[:, None]
    for nbytes in levels.SETS:
        tiles = nbytes // (4 * levels.WIDE["TILE"])
        assert nbytes % (4 * levels.WIDE["TILE"]) == 0
        step, (few, many) = levels.order(tiles, len(blocks), again=nbytes <= 240 * levels.MIB)
        passed = (blocks + step * np.arange(tiles // step)) % tiles
        assert np.unique(passed).size == passed.size
        own = step * np.arange(tiles) % tiles
        assert np.unique(own).size == tiles  # more than an L1 holds between two reads of a tile
        if nbytes > 240 * levels.MIB:
            assert 2 * few == many <= tiles // step
    assert levels.order(3, 132, again=False) == (133, levels.READS)


def test_tables_that_fit_are_warm_and_large_ones_are_not(gpu: Levelled) -> None:
    levels.latencies(gpu, "cuda-c", SETS)
    assert "evict" in gpu._stopwatch.events
    kernel = levels.kernel("chase/global")
    arrays = chase.PROBLEM.inputs(levels.Case("t", {"n": 1024, "walkers": 32}, contents="one chain"))
    gpu._stopwatch.events.clear()
    levels.slope(gpu, "cuda-c", kernel, arrays, "steps", (64, 128), warmed="next")
    assert "evict" not in gpu._stopwatch.events


def test_levels_are_judged(gpu: Levelled) -> None:
    clock: Any = SimpleNamespace(device=gpu, language="cuda-c", is_timing=True)
    seen = hierarchy.observe(clock)
    assert seen.claims[hierarchy.GLOBAL][0] == "held"
    assert all(isinstance(each, Curves) for each in seen.pictures)
    point = {
        name: Reach(BANDWIDTH, "global", 1, 4e12 - 1e12 * i, 1e9) for i, name in enumerate(hierarchy.PATH)
    }
    wait = {name: Reach(LATENCY, "global", 1, 1e-9 * (i + 1), 1e9) for i, name in enumerate(hierarchy.PATH)}
    right = hierarchy.judged({BANDWIDTH: point, LATENCY: wait})
    assert [verdict for verdict, _ in right.values()] == ["held", "refuted"]
    turned = dict(zip(wait, reversed(wait.values()), strict=True))
    assert hierarchy.judged({BANDWIDTH: point, LATENCY: turned})[hierarchy.ORDER][0] == "refuted"
    assert hierarchy.observe(SimpleNamespace(is_timing=False)).claims == {}  # type: ignore[arg-type]


def rate(rung: str, addresses: int, seconds: float) -> atomics.Rate:
    return atomics.Rate(rung, "spread", addresses, Timing("hot", (seconds,)))


def test_contention_is_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(atomics, "MANY_KEYS", 2048)
    monkeypatch.setattr(atomics, "MANY_ADDRESSES", (1, 16384))
    clock: Any = SimpleNamespace(device=FakeGpu(FakeStopwatch()), language="cuda-c", is_timing=True)
    found = atomics.rates(clock.device, "cuda-c")
    assert ("block", 16384) not in {(each.rung, each.addresses) for each in found}  # more than a block keeps
    assert {each.pattern for each in found} == {"spread", "warps"}
    assert set(atomics.observe(clock).claims) == {atomics.COSTS, atomics.HELPS}
    contended = [rate("contended", 1, 8.0), rate("contended", 1024, 1.0)]
    helped = atomics.judged([*contended, rate("warp", 1, 2.0), rate("block", 1, 0.5)])
    assert [verdict for verdict, _ in helped.values()] == ["held", "held"]
    level = [rate("contended", 1, 1.0), rate("contended", 1024, 1.0)]
    slower = atomics.judged([*level, rate("warp", 1, 2.0), rate("block", 1, 2.0)])
    assert [verdict for verdict, _ in slower.values()] == ["refuted", "refuted"]


# -- curves
CURVES = Curves(
    "reads", "B", "B/s", (Series("near", ((1024.0, 8e12), (65536.0, 1e12))), Series("far", ((1024.0, 1e12),))),
    (Mark("L1", 8192), Mark("elsewhere", 1e9)),
)  # fmt: skip


def test_curves_as_text_and_shapes() -> None:
    lines = [line.plain for line in curve_lines(CURVES, 60)]
    assert lines[0] == "reads (B/s, log scale): o near   + far"
    top, bottom = lines[1], lines[ROWS]
    assert top.strip().startswith("8 TB/s o")
    assert bottom.strip().startswith("1 TB/s +")
    assert bottom.endswith("o")
    assert sum("|" in line for line in lines[1 : ROWS + 1]) >= ROWS - 1  # but where the curve is
    assert "L1" in lines[ROWS + 1]
    assert "elsewhere" not in lines[ROWS + 1]
    assert lines[-1].split() == ["1", "KiB", "B,", "log", "scale", "64", "KiB"]
    shapes = curve_shapes(CURVES)
    assert len(shapes["drawn"]) == 2
    labels = [text for text in shapes["texts"] if text["kind"] == "label"]
    assert {text["text"] for text in labels} == {"near", "far"}
    assert {"B, log scale", "B/s, log scale"} <= {text["text"] for text in shapes["texts"]}
    assert labels[1]["y"] - labels[0]["y"] >= 13  # both end at the bottom
    assert picture_from_dict(json.loads(json.dumps(picture_to_dict(CURVES)))) == CURVES


def test_steps_are_apart_evenly() -> None:
    curves = Curves(
        "loss", "step", "loss", (Series("a", ((1.0, 4.0), (2.0, 2.0), (5.0, 1.0))),), is_x_log=False
    )
    assert curves.place(2.0, 2.0) == pytest.approx((0.25, 0.5))
    assert curve_lines(curves, 50)[-1].plain.split() == ["1", "step", "5"]
    assert picture_from_dict(json.loads(json.dumps(picture_to_dict(curves)))) == curves


def test_a_curve_of_one_value_stands_in_the_middle() -> None:
    flat = Curves("x", "addresses", "sectors", (Series("a", ((1.0, 4.0), (2.0, 4.0))),))
    rows = [line.plain for line in curve_lines(flat, 50)]
    assert sum("o" * 20 in row for row in rows) == 1
