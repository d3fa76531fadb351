"""Experiments run once, and with one rung broken."""

from __future__ import annotations

import dataclasses
import os
from functools import cache
from pathlib import Path

from kernellab import catalog
from kernellab.experiments import load
from kernellab.experiments.experiment import Experiment, Panel, Result
from kernellab.experiments.runner import judge, run
from kernellab.kernel import LANGUAGES, Kernel

IS_EXHAUSTIVE = bool(os.environ.get("KERNELLAB_EXHAUSTIVE"))


@cache
def result_of(name: str) -> Result:
    """The experiment in both languages, run once in the whole session."""
    return run(load(name), "emulator")


@cache
def quick_result_of(name: str) -> Result:
    """The experiment, its twins too where everything is asked for."""
    return run(load(name), "emulator", LANGUAGES if IS_EXHAUSTIVE else LANGUAGES[:1])


def check_that_each_is_broken_once(name: str, starts: list[str]) -> None:
    """Every expectation of an experiment begins with one of the mutants' texts, and there are no more of these."""
    for expectation in load(name).expectations:
        assert sum(expectation.text.startswith(start) for start in starts) == 1, expectation.text
    assert len(starts) == len(load(name).expectations)


def mutant_of(kernel_id: str, folder: Path, *edits: tuple[str, str]) -> Kernel:
    """A rung whose `.cu` is a copy with some text replaced; each edit must find its text."""
    stock = catalog.kernel(kernel_id)
    text = stock.text()
    for old, new in edits:
        assert old in text, f"{kernel_id}: nothing to replace: {old}"
        text = text.replace(old, new)
    path = folder / f"{stock.name}.cu"
    path.write_text(text, encoding="utf-8")
    return dataclasses.replace(stock, source=path)


def with_mutant(experiment: Experiment, kernel_id: str, mutant: Kernel) -> Result:
    """The experiment in CUDA C with one rung replaced; what the others gave is not run again."""
    changed = experiment.replacing(kernel_id, mutant)
    sweeps = tuple(
        dataclasses.replace(sweep, points=tuple(p for p in sweep.points if p.kernel is mutant))
        for sweep in changed.sweeps
    )
    anew = run(
        dataclasses.replace(changed, sweeps=sweeps, expectations=(), claims=(), pictures=None),
        "emulator",
        ("cuda-c",),
    )
    fresh = {label: each for panel in anew.panels for label, each in panel.records["cuda-c"].items()}
    panels = tuple(_merged(panel, fresh) for panel in result_of(experiment.name).panels)
    return judge(changed, "emulator", ("cuda-c",), panels)


def _merged(panel: Panel, fresh: dict[str, object]) -> Panel:
    records = {label: fresh.get(label, old) for label, old in panel.records["cuda-c"].items()}
    return dataclasses.replace(panel, records={"cuda-c": records})
