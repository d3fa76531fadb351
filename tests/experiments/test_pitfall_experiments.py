"""Launch configuration and precision: what is counted holds, each expectation can fail, claims have their numbers."""

from __future__ import annotations

import dataclasses
import json
import math
import re
from pathlib import Path

import pytest
import timing_fakes
from experiment_runs import mutant_of
from experiment_runs import quick_result_of as result_of

from kernellab import plan
from kernellab.catalog import kernel
from kernellab.experiments import launch_config, launch_points, load, precision_cost
from kernellab.experiments.clocked import time_sweep
from kernellab.experiments.experiment import NEEDS_GPU, Point, Result, Rows, Sweep
from kernellab.experiments.runner import run
from kernellab.kernel import LANGUAGES
from kernellab.report.table import panel_table

NAMES = ("launch-config", "precision-cost")


def rows(name: str, label: str = "", other: str = "") -> Rows:
    """The records, that of one point in place of another's."""
    found = {key: each for panel in result_of(name).panels for key, each in panel.records["cuda-c"].items()}
    return Rows({key: found[other if key == label else key] for key in found})


@pytest.mark.parametrize("name", NAMES)
def test_every_expectation_holds(name: str) -> None:
    result = result_of(name)
    assert [
        (each.text, each.language, each.found) for each in result.expectations if each.verdict != "held"
    ] == []
    again = Result.from_dict(json.loads(json.dumps(result.to_dict(), allow_nan=False)))
    assert again.expectations == result.expectations
    assert again.pictures == result.pictures
    assert {each.text: each.verdict for each in result.claims}[result.claims[-1].text] == NEEDS_GPU


FAST_EXP = precision_cost.fast(precision_cost.error("exp"))
CHANGES = (
    ("launch-config", "blocks that are no multiple of 32", "33 threads", "64 threads"),
    ("launch-config", "blocks of 33 threads take", "33 threads", "32 threads"),
    ("launch-config", "blocks that are no multiple of 8", "100 threads", "128 threads"),
    ("launch-config", "a grid of one block", "1 blocks", "132 blocks"),
    ("launch-config", "one block over", "1057 blocks", "1056 blocks"),
    ("launch-config", "shared memory limits", "76801 B shared", "76800 B shared"),
    ("launch-config", "more vectors", "16 vectors", "1 vectors"),
    ("precision-cost", "every answer", "sqrt of subnormal", precision_cost.FLUSHED),
    ("precision-cost", "literals without an f", precision_cost.DOUBLE, precision_cost.SINGLE),
    ("precision-cost", "literals without an f", precision_cost.SINGLE, precision_cost.DOUBLE),
    ("precision-cost", "no compiler takes", precision_cost.DOUBLE, precision_cost.SINGLE),
    ("precision-cost", "the answer with double", precision_cost.DOUBLE, FAST_EXP),
    ("precision-cost", "a division or a function", "divide", "multiply"),
    ("precision-cost", "with fast math each", "log, fast", "log"),
    ("precision-cost", "with fast math exp and power", FAST_EXP, precision_cost.error("exp")),
    ("precision-cost", "fast math flushes", precision_cost.FLUSHED, "sqrt of subnormal"),
)


@pytest.mark.parametrize(("name", "start", "label", "other"), CHANGES)
def test_every_expectation_can_fail(name: str, start: str, label: str, other: str) -> None:
    (found,) = [each for each in load(name).expectations if each.text.startswith(start)]
    assert found.check(rows(name))[0] is True
    assert found.check(rows(name, label, other))[0] is False


def test_none_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    alone = {"launch-config": {"every answer", "one byte of shared"}, "precision-cost": set()}
    for name in NAMES:
        starts = {start for each, start, _, _ in CHANGES if each == name} | alone[name]
        for expectation in load(name).expectations:
            assert sum(expectation.text.startswith(start) for start in starts) == 1, expectation.text
    known = rows("launch-config")
    wrong = dataclasses.replace(known["33 threads"], verdict=None)
    first, *_, last = load("launch-config").expectations
    assert first.check(Rows({"33 threads": wrong}))[0] is False
    monkeypatch.setattr(plan.checks, "check_shared", lambda kernel, at, limits: 0)
    assert last.check(known)[0] is False


@pytest.mark.parametrize(
    ("start", "kernel_id", "label", "edits"),
    [
        (
            "literals without",
            "horner/double_literals",
            precision_cost.DOUBLE,
            (("0.5 *", "0.5f *"), ("+ 1.0;", "+ 1.0f;")),
        ),
        (
            "a division or a",
            "elementary/accurate",
            "divide",
            (("sum_of(function,", "sum_of(function == 1 ? 0 : function,"),),
        ),
    ],
)
def test_a_mutant_breaks_its_expectation(
    start: str, kernel_id: str, label: str, edits: tuple[tuple[str, str], ...], tmp_path: Path
) -> None:
    experiment = load("precision-cost")
    changed = experiment.replacing(kernel_id, mutant_of(kernel_id, tmp_path, *edits))
    (point,) = [each for each in changed.points if each.label == label]
    sweep = dataclasses.replace(experiment.sweeps[0], points=(point,))
    bare = dataclasses.replace(changed, sweeps=(sweep,), expectations=(), claims=(), pictures=None)
    record = run(bare, "emulator", LANGUAGES[:1]).panels[0].records["cuda-c"][label]
    (found,) = [each for each in experiment.expectations if each.text.startswith(start)]
    known = dict(rows("precision-cost").items())
    assert found.check(Rows({**known, label: record}))[0] is False


def test_errors_of_fast_math_need_a_gpu() -> None:
    (claim,) = [each for each in load("precision-cost").claims if each.text.startswith("exp with fast")]
    found = rows("precision-cost")
    assert claim.judge(found)[0] == NEEDS_GPU
    label = precision_cost.fast(precision_cost.error("sin"))
    assert math.isnan(found.value(label, "max_ulp"))
    on_gpu = dataclasses.replace(found[FAST_EXP], device="gpu")
    assert claim.judge(Rows({FAST_EXP: on_gpu}))[0] == "held"
    ulp = {each.name: each.formula for each in precision_cost.DERIVED}["max_ulp"]
    assert ulp(on_gpu) > 1


def test_what_fast_math_flushes_is_starred_and_explained() -> None:
    (panel,) = [each for each in result_of("precision-cost").panels if precision_cost.FLUSHED in each.labels]
    table = panel_table(panel, LANGUAGES[:1])
    assert [row[-1] for row in table.rows] == ["right", "WRONG*"]
    assert any(note.startswith(f"* {precision_cost.FLUSHED}: wrong on purpose: sub") for note in table.notes)


def test_an_error_is_named_with_its_limit() -> None:
    (claim,) = [each for each in result_of("precision-cost").claims if "good to 4 ulp" in each.text]
    assert re.search(r"its own limit: \w+ 0\.5 of 0\.5 ulp; largest error: sin 1\.\d+ of 4 ulp", claim.found)


def test_what_is_swept_in_one_language_is_left_out_in_the_other() -> None:
    experiment = load("launch-config")
    (asked,) = [each for each in experiment.expectations if each.text.startswith("more vectors")]
    bare = dataclasses.replace(
        experiment, sweeps=experiment.sweeps[-1:], expectations=(asked,), claims=(), pictures=None
    )
    result = run(bare, "emulator", ("numba",))
    assert (result.panels, result.expectations) == ((), ())
    assert all("swept in CUDA C only" in note for note in result.notes[-2:])


def test_the_line_with_the_literals_is_shown() -> None:
    (found,) = [
        each for each in result_of("precision-cost").expectations if each.text.startswith("literals")
    ][:1]
    assert "double_literals.cu:21 `value = 0.5 * x_value * value + 1.0;`: cvt.f64.f32" in found.found


def test_a_grid_of_other_bytes_has_no_share_of_a_copy() -> None:
    stopwatch = timing_fakes.FakeStopwatch()
    points = tuple(
        Point(f"{n}", kernel("horner/single"), launch_points.steps(n, 4), large=launch_points.steps(n, 8))
        for n in (256, 512)
    )
    records = {"cuda-c": {point.label: rows("launch-config")["1 blocks"] for point in points}}
    time_sweep(Sweep("grids", points, ()), timing_fakes.FakeGpu(stopwatch), records, notes := [])
    assert notes == []
    shares = [
        [reading.name for reading in records["cuda-c"][point.label].readings].count("fraction_of_copy")
        for point in points
    ]
    assert shares == [1, 0]
    assert all(records["cuda-c"][point.label].timings for point in points)


def test_pitfalls_name_each_point_once() -> None:
    for pitfalls in (launch_config.PITFALLS, precision_cost.PITFALLS):
        points = [point for each in pitfalls for point in (each.slow, each.fast)]
        by_label = {point.label: point for point in points}
        assert all(by_label[point.label] == point for point in points)
        assert len({each.text for each in pitfalls}) == len(pitfalls)
