"""Claims: what others say, judged by every experiment on this GPU, the emulator's counts beside."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kernellab import experiments
from kernellab.devices.program import Device
from kernellab.errors import LabError
from kernellab.experiments import EXPERIMENTS, runner
from kernellab.experiments.experiment import HELD, Outcome, Result
from kernellab.kernel import Kernel
from kernellab.report.numbers import language_name
from kernellab.results import Results, Shown
from kernellab.suites.bench import Bench

COLUMNS = (
    Shown("experiment", "experiment"),
    Shown("claim", "claim"),
    Shown("by", "said by"),
    Shown("verdict", "verdict"),
    Shown("found", "found"),
)


def run(bench: Bench, names: Sequence[str] = (), place: str | Device = "both", share: float = 5) -> Results:
    """Run experiments and keep what they say of claims; their own expectations are the bars."""
    names = names or by_cost(EXPERIMENTS)
    rows: list[dict[str, Any]] = []
    bars: dict[str, bool] = {}
    used: dict[str, Kernel] = {}
    notes: list[str] = []
    for name in bench.within_budget(names, notes, share):
        bench.progress(name)
        experiment = experiments.load(name)
        try:
            result = runner.run(experiment, place, experiment.languages)
        except LabError as error:  # one that cannot run stops no other
            notes.append(f"{name} was left out: {error}")
            bars[f"{name}: every expectation holds (not measured)"] = False
            continue
        rows += claims_of(result)
        bars |= expectation_bar(result)
        # A kernel with a source of its own is generated, and in no catalogue.
        used |= {point.kernel.id: point.kernel for point in experiment.points if point.kernel.source is None}
        bench.free()
    return bench.results(
        "claims",
        "What others claim, judged here",
        rows,
        used.values(),
        columns=COLUMNS,
        bars=bars,
        notes=("held or refuted, both are fine: the number is what was found here", *notes),
        lines=(*(f"{row['experiment']}: {row['claim']}: {row['verdict']}" for row in rows), *notes),
    )


def by_cost(names: Sequence[str]) -> tuple[str, ...]:
    """Return the experiments that judge claims, last those that run most points for each.

    Examples
    --------
    >>> by_cost(["ladders", "matmul-ladder", "streams"])
    ('streams', 'ladders')
    """
    found = {name: experiments.load(name) for name in names}
    costs = {name: len(each.points) / len(each.claims) for name, each in found.items() if each.claims}
    return tuple(sorted(costs, key=costs.__getitem__))


def claims_of(result: Result) -> list[dict[str, Any]]:
    """Return a row a claim: the verdict once where both languages agree, and what was found in each."""
    grouped: dict[tuple[str, str], list[Outcome]] = {}
    for outcome in result.claims:
        grouped.setdefault((outcome.text, outcome.source), []).append(outcome)
    return [
        {
            "experiment": result.name,
            "claim": text,
            "by": source,
            "verdict": _joined(found, "verdict"),
            "found": _joined(found, "found"),
        }
        for (text, source), found in grouped.items()
    ]


def _joined(outcomes: Sequence[Outcome], name: str) -> str:
    """Return what is the same in all languages once, else each after its language."""
    values = {language_name(each.language): str(getattr(each, name)) for each in outcomes}
    if len(set(values.values())) == 1:
        return next(iter(values.values()))
    return "; ".join(f"{language}: {value}" for language, value in values.items())


def expectation_bar(result: Result) -> dict[str, bool]:
    """Return whether all that an experiment expects holds, with how much of it does."""
    held = sum(each.verdict == HELD for each in result.expectations)
    return {f"{result.name}: every expectation holds ({held} of {len(result.expectations)})": result.is_right}


__all__ = ["by_cost", "claims_of", "expectation_bar", "run"]
