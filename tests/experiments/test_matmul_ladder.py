"""The ladder of the product of matrices: every rung stands in a step, and each expectation can fail."""

from __future__ import annotations

import dataclasses
import json
import math
from pathlib import Path

import pytest
import timing_fakes
from experiment_runs import mutant_of, result_of, with_mutant

from kernellab import catalog
from kernellab.catalog import products
from kernellab.experiments import load, matmul_ladder
from kernellab.experiments.experiment import Result, Rows
from kernellab.experiments.ladders import Step, label_of
from kernellab.experiments.runner import run
from kernellab.problem import ELEMENTS

HALF = "float16"


def result() -> Result:
    return result_of("matmul-ladder")


def rows(**instead: str) -> Rows:
    """The records, some of them in place of others'."""
    found = {label: each for panel in result().panels for label, each in panel.records["cuda-c"].items()}
    return Rows({label: found[instead.get(label, label)] for label in found})


def verdict(start: str, **instead: str) -> bool | None:
    (found,) = [each for each in load("matmul-ladder").expectations if each.text.startswith(start)]
    return found.check(rows(**instead))[0]


def test_every_expectation_holds() -> None:
    assert [(each.text, each.found) for each in result().expectations if each.verdict != "held"] == []
    again = Result.from_dict(json.loads(json.dumps(result().to_dict(), allow_nan=False)))
    assert again.expectations == result().expectations


def test_every_rung_is_run_in_its_elements_and_stands_in_a_step() -> None:
    for element, steps in matmul_ladder.STEPS.items():
        takers = [
            each.name
            for each in catalog.ladder("matmul")
            if element in (each.elements or ELEMENTS[:1]) and not each.fault
        ]
        assert {label_of("matmul", name, element) for name in takers} <= {
            point.label for point in load("matmul-ladder").points
        }
        assert {name for step in steps for name in (step.before, step.after)} == set(takers)


EACH = [(element, step) for element, steps in matmul_ladder.STEPS.items() for step in steps]


@pytest.mark.parametrize(
    ("element", "step"), EACH, ids=[f"{e}: {s.before} to {s.after}, {s.reading}" for e, s in EACH]
)
def test_a_step_taken_back_breaks_its_ladder(element: str, step: Step) -> None:
    before, after = (label_of("matmul", name, element) for name in (step.before, step.after))
    assert verdict(f"{element}:") is True
    assert verdict(f"{element}:", **{after: before}) is False


@pytest.mark.parametrize(
    ("start", "rung", "other"),
    [
        ("no rung executes", "wgmma", "wmma"),
        ("rungs for 16 bits", "wmma", "blocked"),
        ("rungs for 16 bits", "blocked", "mma"),
    ],
)
def test_other_expectations_can_fail(start: str, rung: str, other: str) -> None:
    assert verdict(start) is True
    assert verdict(start, **{label_of("matmul", rung, HALF): label_of("matmul", other, HALF)}) is False


@pytest.mark.parametrize(
    ("rung", "edits"),
    [
        (
            "coalesced",
            [("j = first_column + threadIdx.x", "j = first_column + threadIdx.y"),
             ("i = first_row + threadIdx.y", "i = first_row + threadIdx.x")],
        ),
        ("tiled", [("right = b_tile[q][c]", "right = b[(start + q) * n + first_column + c]")]),
    ],
)  # fmt: skip
def test_a_kernel_that_is_right_and_wastes_is_seen(
    rung: str, edits: list[tuple[str, str]], tmp_path: Path
) -> None:
    mutant = mutant_of(f"matmul/{rung}", tmp_path, *edits)
    failed = {
        each.text.partition(":")[0]
        for each in with_mutant(load("matmul-ladder"), f"matmul/{rung}", mutant).expectations
        if each.verdict == "failed"
    }
    assert failed == {"float32"}


def test_a_wrong_answer_is_seen() -> None:
    """The weight taken for its transpose: the same counts and another answer."""
    experiment = load("matmul-ladder")
    point = next(each for each in experiment.points if each.kernel.name == "tiled")
    square = dataclasses.replace(point, case=products.case(64, 64, 64))
    stock = catalog.kernel("matmul/tiled")
    swapped = dataclasses.replace(
        stock, arguments=tuple({"a": "b", "b": "a"}.get(name, name) for name in stock.arguments)
    )
    only = dataclasses.replace(
        experiment,
        sweeps=(
            dataclasses.replace(experiment.sweeps[0], points=(dataclasses.replace(square, kernel=swapped),)),
        ),
        expectations=experiment.expectations[:1],
    )
    (outcome,) = run(only, "emulator", ("cuda-c",)).expectations
    assert outcome.verdict == "failed"
    assert "differs" in outcome.found


def test_what_no_lane_asks_for_is_not_known() -> None:
    found = rows()
    wgmma = label_of("matmul", "wgmma", HALF)
    for reading in ("sectors_per_warp", "wavefronts_per_warp"):
        assert math.isnan(found.value(wgmma, reading))
        assert found.value(label_of("matmul", "mma", HALF), reading) > 0
    assert found.value(label_of("matmul", "naive", ELEMENTS[0]), "wavefronts_per_warp") == 0


class FakeGpu(timing_fakes.FakeGpu):
    """Answers are NumPy's; nothing is counted."""

    def __init__(self) -> None:
        super().__init__(timing_fakes.FakeStopwatch())


def test_on_a_gpu_operations_a_second_are_shown() -> None:
    made = load("matmul-ladder")
    small = products.case(256, 256, 256)
    points = tuple(
        dataclasses.replace(point, case=products.case(16, 16, 16), large=small)
        for point in made.sweeps[0].points
        if point.kernel.name in ("naive", "blocked")
    )
    only = dataclasses.replace(
        made, sweeps=(dataclasses.replace(made.sweeps[0], points=points),), expectations=()
    )
    (panel,) = run(only, FakeGpu(), ("cuda-c",)).panels
    assert [column.reading for column in panel.columns[-2:]] == ["seconds_cold", "flops_per_second"]
    for record in panel.records["cuda-c"].values():
        rate = record.value("flops_per_second")
        assert rate == pytest.approx(2 * 256**3 / record.value("seconds_cold"))
