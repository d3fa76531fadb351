"""All-reduce: iterations on two GPUs whose gradients are added up at the end, at once, and in ways that break that."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kernellab import catalog
from kernellab.devices.gpu_ranks import pair
from kernellab.errors import LabError
from kernellab.experiments import all_reduce, ranks
from kernellab.experiments.all_reduce import BAR, link_text, measure_little, timelines
from kernellab.experiments.layers import ADD, KERNEL, Shape
from kernellab.experiments.picture import Picture
from kernellab.experiments.ranks import ALL, EACHS, Measured
from kernellab.kernel import LANGUAGES, Language
from kernellab.report.numbers import language_name
from kernellab.results import Results, Shown
from kernellab.suites.bench import Bench
from kernellab.suites.race import bar

PRODUCTS = ("matmul/wgmma", "matmul_nt/wgmma")
COLUMNS = (
    Shown("what", "iteration"),
    Shown("cuda-c", "CUDA C"),
    Shown("numba", "all-reduce in Numba"),
    Shown("why", "why not more"),
)
Found = Mapping[Language, Mapping[str, Measured]]
"""By the variant's label, for each language in which gradients were added up."""


def run(bench: Bench) -> Results:
    """Measure iterations with the all-reduce in both languages.

    Raises
    ------
    UnavailableError
        If no two GPUs of this host reach each other's memory.
    """
    pair(bench.device)
    notes: list[str] = []
    found: dict[Language, Mapping[str, Measured]] = {}
    shapes: dict[str, Shape] = {}
    little: dict[str, Measured] = {}
    for language in LANGUAGES:
        bench.progress(f"all_reduce: {language}")
        try:
            with bench.device.health.naming("all-reduce"):
                found[language] = _measured(bench, language, shapes, notes)
                little = little or dict(measure_little(bench.device, language, shapes))
        except LabError as error:
            notes.append(f"{language_name(language)} was left out: {error}")
        bench.free()
    shown = cells(found, little)
    return bench.results(
        "all_reduce",
        "An all-reduce of two ranks hidden behind the backward pass",
        (*shown, *_raw(found, little)),
        [*(catalog.kernel(name) for name in (KERNEL, ADD, *PRODUCTS))],
        columns=COLUMNS,
        bars=bars(found),
        notes=(*_told(shapes), *notes),
        pictures=pictures(found),
        lines=tuple(f"{row['what']}: CUDA C {row['cuda-c']}; Numba {row['numba']}" for row in shown),
    )


def _measured(
    bench: Bench, language: Language, shapes: dict[str, Shape], notes: list[str]
) -> Mapping[str, Measured]:
    """Measure every way; at the first call choose the all-reduce's shapes, and measure the link."""
    stand = ranks.Stand(bench.device, language)
    if not shapes:
        stand.choose()
        shapes |= stand.shapes
        notes.append(link_text(stand.link()))
    stand.shapes |= shapes
    return stand.measure()


def _told(shapes: Mapping[str, Shape]) -> tuple[str, ...]:
    chosen = "; ".join(
        f"{where}: {shape['BLOCKS']} blocks of {shape['THREADS']}, {shape['VECTORS']} vectors a thread"
        for where, shape in shapes.items()
    )
    return (
        all_reduce.EXPERIMENT.lessons[0],
        "overlap is 0 for one after the other and 1 for the ideal, which is the longer of computing and the all-reduce alone, "
        "in the same run; median of the rank that takes longer; gradients of both ranks verified before and after",
        *((f"the all-reduce's fastest shapes, {chosen}",) if chosen else ()),
    )


# -- what was found
def cells(found: Found, little: Mapping[str, Measured]) -> list[dict[str, Any]]:
    """Return a row a way, a row a stage alone, what overlapping saves; and that with few tokens."""
    rows = [
        _row(
            each.label,
            {lang: str(some[each.label]).partition(": ")[0] for lang, some in found.items()},
            each.reason,
        )
        for each in ALL
    ]
    for variant in ranks.ENDS:
        for stage in (ranks.COMPUTE, ranks.REDUCE) if variant is ranks.END else (ranks.REDUCE,):
            texts = {
                lang: f"{1e3 * some[variant.label].overlap.alone[stage]:.3g} ms"
                for lang, some in found.items()
            }
            by = f", by {variant.way.mover}" if stage == ranks.REDUCE else ""
            rows.append(_row(f"{stage} alone{by}", texts))
    saved = {lang: f"{100 * ranks.shorter(some):.1f} % shorter" for lang, some in found.items()}
    rows.append(_row("fastest at once, beside fastest at the end", saved, "the write-up: 15-20 % shorter"))
    if little:
        text = f"{100 * ranks.shorter(little):.1f} % shorter, {ranks.hidden(little):.2f} of the all-reduce hidden"
        why = "less to compute than to add up"
        rows.append(_row(f"the same with {ranks.LITTLE} tokens", {LANGUAGES[0]: text}, why))
    return rows


def _row(what: str, texts: Mapping[Language, str], why: str = "") -> dict[str, Any]:
    return {"what": what, **{lang: texts.get(lang, "-") for lang in LANGUAGES}, "why": why or "-"}


def bars(found: Found) -> dict[str, bool]:
    """Return what overlapping has to reach."""
    some = found.get(LANGUAGES[0])
    ideal = None if some is None else ranks.best_of(some, EACHS).overlap.of_ideal
    return bar(f"all-reduce at once at least {BAR} of the longer of it and computing alone", ideal, BAR)


def pictures(found: Found) -> tuple[Picture, ...]:
    """Return time lines, gradients added up in CUDA C."""
    first = LANGUAGES[0]
    return timelines(found[first], first) if first in found else ()


def _raw(found: Found, little: Mapping[str, Measured]) -> list[dict[str, Any]]:
    every = [(language, ranks.TOKENS, some) for language, some in found.items()]
    every += [(LANGUAGES[0], ranks.LITTLE, little)]
    products = [
        {
            "workload": "products alone", "language": LANGUAGES[0], "kernel": name, "tokens": ranks.TOKENS,
            "seconds": next(iter(some.values())).overlap.alone[ranks.COMPUTE],
        }
        for some in list(found.values())[:1]
        for name in PRODUCTS
    ]  # fmt: skip
    return products + [
        {
            "workload": label, "language": language, "kernel": ADD if one.variant.way.mover == "copies" else KERNEL, "tokens": tokens, "samples": one.samples,
            "seconds": one.seconds, "alone": dict(one.overlap.alone), "overlap": one.overlap.hidden,
            "of_ideal": one.overlap.of_ideal,
        }
        for language, tokens, some in every
        for label, one in some.items()
    ]  # fmt: skip


__all__ = ["bars", "cells", "run"]
