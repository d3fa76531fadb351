"""Streams: a chunked pipeline in every way that helps or breaks it, and many small launches, plain and as a graph."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from kernellab import catalog
from kernellab.errors import LabError
from kernellab.experiments import graphs, launches, overlap
from kernellab.experiments.launches import COUNT, GRAPH, PREPARED, USUAL, Launched, microseconds
from kernellab.experiments.overlap import ALL, CHUNKS, GOOD, ONE, Stand
from kernellab.experiments.picture import Picture
from kernellab.experiments.streams import BAR, timelines
from kernellab.experiments.ways import Measured
from kernellab.kernel import LANGUAGES, Language
from kernellab.report.numbers import language_name
from kernellab.results import Results, Shown
from kernellab.suites.bench import Bench
from kernellab.suites.race import bar
from kernellab.sweeps import ascending

SIZES = (2**16, 2**20, 2**23, overlap.N)
"""Elements of the pipelines that show how much work is enough; the last one in every way."""
THREE = GOOD[2]
COLUMNS = (
    Shown("what", "what"),
    Shown("cuda-c", "CUDA C"),
    Shown("numba", "Numba"),
    Shown("why", "why not more"),
)
Pipelines = Mapping[int, Mapping[str, Measured]]
"""By elements and the variant's label."""


def run(bench: Bench, sizes: Sequence[int] = SIZES, counts: Sequence[int] = launches.SIZES) -> Results:
    """Measure pipelines and launches in both languages."""
    notes: list[str] = []
    pipelines: dict[Language, Pipelines] = {}
    launched: dict[Language, Sequence[Launched]] = {}
    for language in LANGUAGES:
        bench.progress(f"streams: pipelines, {language}")
        one = partial(_pipelines, bench, language, max(sizes))
        pipelines[language] = ascending(sizes, int, one, notes)
        bench.progress(f"streams: launches, {language}")
        launched[language] = _launched(bench, language, counts, notes)
        bench.free()
    told = (
        f"pipeline: {overlap.KERNEL} over {max(sizes)} elements in {CHUNKS} chunks, 8 bytes in and 4 out each, its "
        f"steps set so that it computes {overlap.BALANCE} times as long as the longer copy takes; overlap is 0 for one "
        "stage after the other and 1 for the ideal, which is the longest stage alone over all chunks, in the same run; "
        "the copies of both directions run beside each other too",
        f"launches: {COUNT} of {launches.KERNEL}, from an idle device to the end of the last one, in turn",
        "medians; every answer verified before and after",
        *notes,
    )
    shown = [*pipeline_cells(pipelines), *launch_cells(launched)]
    return bench.results(
        "streams",
        "Copies hidden behind a kernel by streams, and small launches in a CUDA graph",
        (*shown, *_raw(pipelines, launched)),
        [catalog.kernel(overlap.KERNEL), catalog.kernel(launches.KERNEL)],
        columns=COLUMNS,
        bars=bars(pipelines, launched),
        notes=told,
        pictures=pictures(pipelines),
        lines=tuple(f"{row['what']}: CUDA C {row['cuda-c']}; Numba {row['numba']}" for row in shown),
    )


def _pipelines(bench: Bench, language: Language, largest: int, n: int) -> Mapping[str, Measured]:
    stand = Stand(bench.device, language, n)
    try:
        stand.balance()
        return stand.measure(ALL if n == largest else (ONE, THREE))
    finally:
        del stand
        bench.device.memory.free_pools()


def _launched(
    bench: Bench, language: Language, counts: Sequence[int], notes: list[str]
) -> Sequence[Launched]:
    try:
        return [launches.measure(bench.device, language, n) for n in counts]
    except LabError as error:
        notes.append(f"launches in {language} were left out: {error}")
        return ()


# -- what was found
def pipeline_cells(found: Mapping[Language, Pipelines]) -> list[dict[str, Any]]:
    """Return a row a way at the largest size, and a row a smaller size with three streams."""
    rows = [
        _row(
            f"pipeline, {each.label}", {lang: of(found, lang, each.label) for lang in LANGUAGES}, each.reason
        )
        for each in ALL
    ]
    smaller = sorted({n for pipelines in found.values() for n in pipelines})[:-1]
    for n in reversed(smaller):
        cells = {lang: found[lang].get(n, {}).get(THREE.label) for lang in LANGUAGES}
        rows.append(
            _row(f"pipeline, {THREE.label}, {n} elements", cells, "chunks too small for their launches")
        )
    return rows


def of(found: Mapping[Language, Pipelines], language: Language, label: str) -> Measured | None:
    """Return a way at the largest size, if that was measured."""
    pipelines = found[language]
    return pipelines[max(pipelines)].get(label) if pipelines else None


def _row(what: str, cells: Mapping[Language, Measured | None], why: str) -> dict[str, Any]:
    texts: dict[Language, str] = {
        language: "-" if one is None else f"{1e3 * one.overlap.seconds:.3g} ms, {one.overlap}"
        for language, one in cells.items()
    }
    return {"what": what, **_plain(texts), "why": why or "-"}


def launch_cells(found: Mapping[Language, Sequence[Launched]]) -> list[dict[str, Any]]:
    """Return a row for who launches, of the smallest kernels, and a row a size of what a graph gives."""
    rows: list[dict[str, Any]] = []
    own, graph = (dict.fromkeys(LANGUAGES, how) for how in (PREPARED, GRAPH))
    for what, how in {"as its library's users do": USUAL, PREPARED: own, GRAPH: graph}.items():
        cells = {language: _launches(found[language][:1], how[language]) for language in LANGUAGES}
        rows.append({"what": f"{COUNT} launches, {what}", **_plain(cells), "why": "-"})
    for n in sorted({one.n for each in found.values() for one in each}):
        cells = {
            language: "".join(f"{one.gain(one.fastest):.2f} x" for one in each if one.n == n) or "-"
            for language, each in found.items()
        }
        why = "the longer a kernel, the less it waits for the host"
        rows.append({"what": f"plain launches over a graph, {n} elements", **_plain(cells), "why": why})
    return rows


def _plain(cells: Mapping[Language, str]) -> dict[str, str]:
    return {str(language): text for language, text in cells.items()}


def _launches(found: Sequence[Launched], how: str) -> str:
    texts = (
        f"{microseconds(one.timings[how].seconds)} us, {microseconds(one.host_seconds[how])} us of the host a kernel"
        for one in found
    )
    return next(texts, "-")


def bars(
    pipelines: Mapping[Language, Pipelines], launched: Mapping[Language, Sequence[Launched]]
) -> dict[str, bool]:
    """Return what pipelines and graphs have to reach."""
    found: dict[str, bool] = {}
    for language in LANGUAGES:
        known = [one for each in GOOD if (one := of(pipelines, language, each.label)) is not None]
        best = max((one.overlap.of_ideal for one in known), default=None)
        found |= bar(
            f"pipeline in {language_name(language)} at least {BAR} of its longest stage alone", best, BAR
        )
        small = launched[language][0] if launched[language] else None
        gain = None if small is None else small.gain(small.fastest)
        text = f"{COUNT} small kernels in {language_name(language)}: graph at least {graphs.BAR} times plain launches"
        found |= bar(text, gain, graphs.BAR)
    return found


def pictures(found: Mapping[Language, Pipelines]) -> tuple[Picture, ...]:
    """Return time lines of the largest pipelines in CUDA C, if all ways were measured."""
    first = LANGUAGES[0]
    whole = found[first][max(found[first])] if found[first] else {}
    return timelines(whole, first) if len(whole) == len(ALL) else ()


def _raw(
    pipelines: Mapping[Language, Pipelines], launched: Mapping[Language, Sequence[Launched]]
) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for language in LANGUAGES:
        for n, found in pipelines[language].items():
            for label, one in found.items():
                rows.append(
                    {
                        "workload": f"pipeline, {label}", "language": language, "kernel": overlap.KERNEL, "n": n,
                        "samples": one.samples, "seconds": one.overlap.seconds, "alone": dict(one.overlap.alone),
                        "overlap": one.overlap.hidden, "of_ideal": one.overlap.of_ideal,
                    }
                )  # fmt: skip
        for each in launched[language]:
            for how, timing in each.timings.items():
                rows.append(
                    {
                        "workload": f"{COUNT} launches, {how}", "language": language, "kernel": launches.KERNEL,
                        "n": each.n, "samples": timing.samples, "seconds": timing.seconds,
                        "host_seconds": each.host_seconds[how],
                    }
                )  # fmt: skip
    return rows


__all__ = ["bars", "launch_cells", "pipeline_cells", "run"]
