"""Run an experiment: compile, measure every point in every language, judge."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from kernellab.errors import LabError, SpecError
from kernellab.experiments.clocked import GpuClock, time_sweep
from kernellab.experiments.experiment import (
    FAILED,
    HELD,
    NEEDS_COUNTS,
    NEEDS_SASS,
    NOT_TIMED,
    Column,
    Experiment,
    Observed,
    Outcome,
    Panel,
    Point,
    Result,
    Rows,
    Sweep,
)
from kernellab.instruments.profiler import NOBODY, Profiler
from kernellab.kernel import LANGUAGES, Kernel, Language

if TYPE_CHECKING:
    from kernellab.devices.program import Device
    from kernellab.experiments.picture import Picture
    from kernellab.instruments.clock import Mode
    from kernellab.record import Record

Progress = Callable[[str, int, int], None]
"""Called with what is being done, how many steps are done, and how many there are."""
ON_GPU = "a GPU run gives answers and times; counts come from --device emulator or both"
WATCHED = "nothing is timed with --profile: Nsight's tools do that, and may hold each launch back"
TIME = Column("us", "seconds_cold", 2, 1e6)
SPEED = Column("of\ncopy", "fraction_of_copy", 3)
RATE = Column("TFLOP\n/s", "flops_per_second", 1, 1e-12)


def run(
    experiment: Experiment,
    device: str | Device = "auto",
    languages: Sequence[Language] | None = None,
    progress: Progress | None = None,
    profiler: Profiler = NOBODY,
) -> Result:
    """Run an experiment.

    Parameters
    ----------
    experiment : Experiment
        What to run.
    device : {"auto", "gpu", "emulator", "both"} or Device
        Where. ``"auto"`` is the emulator, since what experiments ask is counted. The GPU compares answers,
        times every point and what claims say of time; what needs counts says so. ``"both"`` is the GPU with
        the emulator's counts beside, and the emulator alone for exhibits, which may break a GPU's context.
    languages : sequence of {"cuda-c", "numba"}, optional
        In which languages; each is judged for itself. By default those that the experiment is run in unasked.
    progress : callable, optional
        ``progress(what, done, total)``, called before each step.
    profiler : Profiler, optional
        Who watches. While it captures, nothing is timed: its tools do that, and may hold each launch back.

    Returns
    -------
    Result
        Also when expectations fail: see ``is_right``.

    Raises
    ------
    UnavailableError
        If the device or a compiler is not here.
    SpecError
        For no language or an unknown one.
    """
    from kernellab.devices import device as find_device

    languages = _check_languages(experiment, experiment.unasked if languages is None else languages)
    started = time.perf_counter()
    is_both = device == "both"
    where = find_device("gpu" if is_both else "emulator" if device == "auto" else device)
    report = progress or (lambda what, done, total: None)
    total = len(experiment.points) * len(languages)
    report(f"{experiment.name}: compiling", 0, total)
    if experiment.prepare is not None:
        experiment.prepare()
    has_clock = hasattr(where, "stopwatch")
    _compile(experiment, where, languages, has_clock, lambda what: report(what, 0, total))
    is_timed = has_clock and not profiler.is_capturing
    panels = []
    notes: list[str] = list(experiment.lessons)
    timed: dict[tuple[str, str], tuple[str, str]] = {}
    pictures: list[Picture] = []
    done = 0
    with profiler.capture(), profiler.range(experiment.name):
        for sweep in experiment.sweeps:
            records: dict[str, dict[str, Record]] = {language: {} for language in languages}
            for point in sweep.points:
                for language in languages:
                    report(f"{experiment.name}: {point.label}", done, total)
                    done += 1
                    if language == "numba" and not point.kernel.has_twin:
                        notes.append(f"{point.label}: no Numba twin: {point.kernel.twin}")
                        continue
                    place: str | Device = "both" if is_both else where
                    if where.name == "gpu" and point.kernel.fault:
                        notes.append(f"{point.label}: not run on a GPU: {point.kernel.fault}")
                        if not is_both:
                            continue
                        place = "emulator"
                    with profiler.range(f"{point.label} {language}"):
                        mode: Mode | None = "cold" if is_timed and point.large is None else None
                        records[language][point.label] = _measure(experiment, point, language, place, mode)
            if is_timed:
                report(f"{experiment.name}: timing {sweep.title}", done, total)
                time_sweep(sweep, where, records, notes)
            if any(records.values()):
                panels.append(_panel(sweep, records))
        if has_clock and experiment.observe is not None:
            report(f"{experiment.name}: on the GPU", total, total)
            for language in languages:
                clock = GpuClock(where, language, is_timing=is_timed)
                seen = _observe(experiment, experiment.observe, clock)
                timed |= {(text, language): found for text, found in seen.claims.items()}
                pictures += seen.pictures
                notes += seen.notes
    if is_timed:
        report(f"{experiment.name}: timing what claims say of time", total, total)
        timed |= _time_claims(experiment, where, languages)
    elif has_clock:
        timed = {
            (claim.text, language): (NOT_TIMED, WATCHED)
            for claim in experiment.claims
            for language in languages
            if claim.timed is not None or experiment.observe is not None
        }
    report(f"{experiment.name}: done", total, total)
    name = "both" if is_both else where.name
    result = judge(experiment, name, tuple(languages), tuple(panels), tuple(notes), started, timed)
    return replace(result, pictures=(*result.pictures, *pictures))


def _observe(experiment: Experiment, observe: Callable[[GpuClock], Observed], clock: GpuClock) -> Observed:
    """Return what an experiment sees on a GPU; why it saw nothing, if so."""
    try:
        return observe(clock)
    except LabError as error:
        return Observed({claim.text: (NOT_TIMED, str(error)) for claim in experiment.claims})
    finally:
        clock.device.memory.free_pools()


def _time_claims(
    experiment: Experiment, where: Device, languages: Sequence[Language]
) -> dict[tuple[str, str], tuple[str, str]]:
    """Judge on a GPU what claims say of time; by text and language."""
    found: dict[tuple[str, str], tuple[str, str]] = {}
    kept: dict[str, Any] = {}
    for claim in experiment.claims:
        for language in languages if claim.timed is not None else ():
            try:
                assert claim.timed is not None
                found[claim.text, language] = claim.timed(GpuClock(where, language, kept))
            except LabError as error:
                found[claim.text, language] = NOT_TIMED, str(error)
    return found


def _check_languages(experiment: Experiment, languages: Sequence[Language]) -> tuple[Language, ...]:
    wrong = [language for language in languages if language not in LANGUAGES]
    if wrong or not languages:
        raise SpecError(f"run: languages is {list(languages)!r}, it must hold some of {', '.join(LANGUAGES)}")
    known = tuple(language for language in languages if language in experiment.languages)
    if not known:
        there = ", ".join(experiment.languages)
        raise SpecError(
            f"{experiment.name}: it runs in {there} and not in {', '.join(languages)}; ask for that"
        )
    return known


def _compile(
    experiment: Experiment,
    where: Device,
    languages: Sequence[Language],
    is_timed: bool,
    say: Callable[[str], None],
) -> None:
    """Compile what runs in each language: a problem's rungs together, and those with tuned constants.

    `say` is told what is waited for.
    """
    groups: dict[str, dict[str, Kernel]] = {}
    for point in experiment.points:
        for case in (point.case, point.large if is_timed else None):
            if case is not None:
                kernel = point.kernel.tuned(case.sizes, where.limits.multiprocessors)
                of_what = kernel.element if kernel is point.kernel else "tuned"
                group = groups.setdefault(f"{kernel.problem.name} {of_what}", {})
                group[f"{kernel.id} {kernel.constants}"] = kernel
    jobs = [
        (tuple(k for k in kernels.values() if language == "cuda-c" or k.has_twin), language)
        for language in languages
        for kernels in groups.values()
    ]
    pool = ThreadPoolExecutor(max_workers=4)
    try:
        for future, name in [
            (pool.submit(where.build, kernels, language), f"{kernels[0].id} ({language})")
            for kernels, language in jobs
            if kernels
        ]:
            say(f"{experiment.name}: compiling {name}")
            future.result()
    finally:
        # After an error or Ctrl-C nobody waits for the compilers that are still at work.
        pool.shutdown(wait=False, cancel_futures=True)


def _measure(
    experiment: Experiment, point: Point, language: Language, where: str | Device, mode: Mode | None
) -> Record:
    from kernellab.instruments.reading import Reading
    from kernellab.measurement import measure

    if point.arrays is None:
        record = measure(point.kernel, case=point.case, language=language, device=where, mode=mode)
    else:
        given = point.arrays()
        parameters: dict[str, Any] = dict(point.case.parameters)
        arrays = [given[operand.name] for operand in point.kernel.inputs]
        record = measure(point.kernel, *arrays, language=language, device=where, mode=mode, **parameters)
    is_rough = any(reading.note == "approximate" for reading in record.readings)
    if not any(reading.source == "counted" for reading in record.readings):
        return record
    derived = tuple(
        Reading(
            each.name,
            float(each.formula(record)),
            each.unit,
            "derived",
            "approximate" if is_rough and each.basis == "SASS" else each.basis,
        )
        for each in experiment.derived
    )
    return replace(record, readings=(*record.readings, *derived))


def _panel(sweep: Sweep, records: dict[str, dict[str, Record]]) -> Panel:
    timed = [item for found in records.values() for item in found.values() if item.timings]
    is_timed = bool(timed)
    rated = any(reading.name == RATE.reading for item in timed for reading in item.readings)
    large = next((point.large.name for point in sweep.points if point.large), "")
    return Panel(
        title=f"{sweep.title}; timed: {large}" if large and is_timed else sweep.title,
        columns=(
            *sweep.columns,
            *((TIME,) if is_timed else ()),
            *((RATE if rated else SPEED,) if is_timed and large else ()),
        ),
        labels=tuple(
            point.label for point in sweep.points if any(point.label in found for found in records.values())
        ),
        faults={
            each.label: reason
            for each in sweep.points
            if (reason := each.kernel.fault or each.kernel.gives_up)
        },
        records=records,
    )


def judge(
    experiment: Experiment,
    device: str,
    languages: tuple[str, ...],
    panels: tuple[Panel, ...],
    notes: tuple[str, ...] = (),
    started: float | None = None,
    timed: Mapping[tuple[str, str], tuple[str, str]] | None = None,
) -> Result:
    """Judge expectations and claims on records, and return the result.

    `timed` holds what the clock found of claims, by text and language, in place of what their counts say.
    """
    is_counted = device in ("emulator", "both")
    rows = {
        language: Rows({label: each for panel in panels for label, each in panel.records[language].items()})
        for language in languages
    }
    expectations, claims = [], []
    for expectation in experiment.expectations:
        for language in (each for each in languages if each in expectation.languages):
            try:
                holds, found = expectation.check(rows[language])
            except (LookupError, ValueError):
                if is_counted:
                    raise
                expectations.append(Outcome(expectation.text, "", language, NEEDS_COUNTS, ON_GPU))
                continue
            verdict = NEEDS_SASS if holds is None else HELD if holds else FAILED
            expectations.append(Outcome(expectation.text, "", language, verdict, found))
    for claim in experiment.claims:
        for language in languages:
            try:
                known = (timed or {}).get((claim.text, language))
                verdict, found = known or claim.judge(rows[language])
            except (LookupError, ValueError):
                if is_counted:
                    raise
                verdict, found = NEEDS_COUNTS, ON_GPU
            claims.append(Outcome(claim.text, claim.source, language, verdict, found))
    return Result(
        name=experiment.name,
        question=experiment.question,
        device=device,
        languages=languages,
        panels=panels,
        expectations=tuple(expectations),
        claims=tuple(claims),
        pictures=experiment.pictures(rows) if experiment.pictures and is_counted else (),
        notes=notes,
        seconds=time.perf_counter() - started if started is not None else 0.0,
    )
