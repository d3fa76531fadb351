"""The experiment mixed-precision: short runs hold what it says of them, and each expectation has something that breaks it."""

from __future__ import annotations

import dataclasses
import os
from functools import cache

import numpy as np
import pytest
from experiment_runs import result_of

import kernellab as kl
from kernellab.experiments import load, mixed_precision, training
from kernellab.experiments.experiment import Rows
from kernellab.experiments.mixed_precision import FLOAT32, MIXED, SCALE, UNSCALED, Plan
from kernellab.experiments.training import Recipe, Task, train
from kernellab.record import Record

IS_EXHAUSTIVE = bool(os.environ.get("KERNELLAB_EXHAUSTIVE"))
TASK = Task(rows=64, features=8, hidden=32, classes=8, lr=0.1, growth=1)
PLAN = Plan(
    TASK,
    {
        FLOAT32: Recipe("float32", 2),
        MIXED: Recipe("float16", 3, SCALE, inject=2),
        UNSCALED: Recipe("float16", 1),
    },
)


def made(label, task=TASK):
    return train(task, PLAN.recipes[label], kl.device("emulator"))


@cache
def runs():
    return {label: made(label) for label in PLAN.recipes}


def backs_off(found):
    return mixed_precision.backs_off(found, PLAN)


def ended_at(run, loss):
    return dataclasses.replace(run, losses=[*run.losses[:-1], loss])


def test_short_runs_hold_what_is_said_of_them():
    for check in (
        mixed_precision.scaling_keeps,
        mixed_precision.skips,
        backs_off,
        mixed_precision.saves_activations,
    ):
        assert check(runs())[0] is True, check(runs())
    ours, theirs = runs()[MIXED], runs()[FLOAT32]
    assert ours.losses[1] == ours.losses[2]  # nothing was learnt from the step that was skipped
    assert ours.losses[2] < ours.losses[0]
    np.testing.assert_allclose(ours.losses[::2], theirs.losses, rtol=1e-3)
    assert mixed_precision.stable(runs())[0] == "held"
    assert ours.scales == [SCALE, 2 * SCALE, SCALE]


def test_memory_is_counted_and_its_claim_can_be_refuted():
    parameters = 8 * 32 + 32 + 32 * 8 + 8
    held = runs()[FLOAT32].held
    assert held["parameters"] == held["gradients of parameters"] == 4 * parameters
    assert held["optimiser"] == 8 * parameters
    assert held["activations"] == 4 * 64 * (8 + 8 + 32 + 32 + 8)
    verdict, found = mixed_precision.saved(runs())
    assert verdict == "held"
    assert found.startswith("41.1 % of 49792 B: parameters -50 %, ")
    few = {FLOAT32: made(FLOAT32, dataclasses.replace(TASK, rows=8)), MIXED: runs()[MIXED]}
    scaled = {name: n // 8 if "activations" in name else n for name, n in runs()[MIXED].held.items()}
    few[MIXED] = dataclasses.replace(runs()[MIXED], held=scaled)
    assert mixed_precision.saved(few)[0] == "refuted"


def test_a_run_that_ends_elsewhere_or_learns_nothing_is_seen():
    ours, theirs = (ended_at(runs()[label], 0.2) for label in (MIXED, FLOAT32))
    first = theirs.losses[0]
    assert mixed_precision.converges({MIXED: ours, FLOAT32: theirs})[0]
    assert not mixed_precision.converges({MIXED: ended_at(ours, 0.2 + 0.011 * first), FLOAT32: theirs})[0]
    assert not mixed_precision.converges({MIXED: ended_at(ours, np.nan), FLOAT32: theirs})[0]
    same = {label: ended_at(run, 0.3 * first) for label, run in ((MIXED, ours), (FLOAT32, theirs))}
    assert not mixed_precision.converges(same)[0]
    assert mixed_precision.stable({**runs(), MIXED: ended_at(ours, 9.0)})[0] == "refuted"


def test_a_run_without_its_scale_is_seen():
    broken = {**runs(), MIXED: runs()[UNSCALED]}
    assert not mixed_precision.scaling_keeps(broken)[0]


def test_an_optimiser_that_does_not_skip_is_seen(monkeypatch):
    def eager(*lists, found_inf=None, skipped=None, **options):
        return kl.adamw(*lists, **options)

    monkeypatch.setattr(training, "adamw", eager)
    run = made(MIXED)
    assert run.skipped == [2, 3]  # what is infinite once stays so
    assert run.changed[2] > 0
    assert not mixed_precision.skips({**runs(), MIXED: run})[0]


def test_an_infinity_that_is_not_found_is_seen(monkeypatch):
    look = kl.GradScaler.find_inf
    monkeypatch.setattr(
        kl.GradScaler, "find_inf", lambda self, grads: look(self, [np.nan_to_num(g, posinf=0) for g in grads])
    )
    run = made(MIXED)
    assert not mixed_precision.skips({**runs(), MIXED: run})[0]
    assert not backs_off({**runs(), MIXED: run})[0]


def test_activations_in_float32_are_seen():
    run = runs()[MIXED]
    wide = {**run.held, "activations": 2 * run.held["activations"]}
    broken = {**runs(), MIXED: dataclasses.replace(run, held=wide)}
    assert not mixed_precision.saves_activations(broken)[0]


class Counted:
    """In place of a record: what it moves."""

    def __init__(self, nbytes):
        self.nbytes = nbytes

    def value(self, name):
        assert name == "bytes_per_element"
        return self.nbytes


def test_kernels_that_move_more_are_seen():
    def rows(**changed):
        moved = {
            f"{label}, {element}": each * size
            for label, each in (("loss and gradient", 2), ("GeLU and bias", 3), ("GeLU, then bias", 5))
            for element, size in (("float32", 4), ("float16", 2))
        }
        return Rows({label: Counted(n) for label, n in {**moved, **changed}.items()})

    assert mixed_precision.no_second_pass(rows())[0]
    assert mixed_precision.half_the_bytes(rows())[0]
    assert not mixed_precision.no_second_pass(rows(**{"GeLU and bias, float16": 10}))[0]
    assert not mixed_precision.half_the_bytes(rows(**{"loss and gradient, float16": 8}))[0]


def test_curves_are_drawn_and_every_expectation_is_looked_at():
    losses, scale = mixed_precision.pictures_of(runs(), "cuda-c")
    assert [series.label for series in losses.series] == [FLOAT32, MIXED, UNSCALED]
    assert scale.series[0].points == ((1, SCALE), (2, 2 * SCALE), (3, SCALE))
    assert losses.marks[0].x == 2
    assert len(load("mixed-precision").expectations) == 8  # those above, and that answers equal NumPy's


@pytest.mark.skipif(not IS_EXHAUSTIVE, reason="with KERNELLAB_EXHAUSTIVE=1 only")
@pytest.mark.parametrize("rungs", [training.LEAST, training.BEST], ids=["least", "best"])
def test_everything_holds_on_the_emulator(rungs, monkeypatch):
    monkeypatch.setattr(training, "LEAST", rungs)
    mixed_precision.trained.cache_clear()
    result_of.cache_clear()
    result = result_of("mixed-precision")
    assert [(o.text, o.found) for o in result.expectations if o.verdict != "held"] == []
    assert [claim.verdict for claim in result.claims] == ["held", "held", "needs a GPU"]
    assert type(result).from_dict(result.to_dict()).pictures == result.pictures
    assert all(isinstance(record, Record) for record in result.panels[0].records["cuda-c"].values())
