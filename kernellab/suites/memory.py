"""Memory: the flat problems and transpose at the speed of the memory, beside peers, under one clock."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kernellab import catalog
from kernellab.errors import LabError
from kernellab.kernel import Kernel, Language
from kernellab.problem import ELEMENTS
from kernellab.results import Results, Shown
from kernellab.suites.arena import Arena
from kernellab.suites.bench import Bench
from kernellab.suites.peer_cub import building
from kernellab.suites.peer_flat import FLAT
from kernellab.suites.precompile import precompile
from kernellab.suites.race import Rows, bar, beside, best_peer, compiled, ours, race, race_all, ratio

N = 2**28
SIDE = 16384
CLOSE = ("scale", "axpy", "triad", "cumsum")
"""Ladders whose last two rungs are nearly as fast."""
COLUMNS = (
    Shown("what", "problem"),
    Shown("rung", "our rung"),
    Shown("ours", "GB/s", digits=0),
    Shown("of_copy", "of copy", digits=3),
    Shown("peer", "best peer"),
    Shown("theirs", "GB/s", digits=0),
    Shown("ratio", "ours / peer", digits=3),
    Shown("twin_of_copy", "Numba, of copy", digits=3),
)


@dataclass(frozen=True)
class Heat:
    """One problem at one size.

    Attributes
    ----------
    problem : str
    sizes : mapping of str to int
    element : str
        Of operands of dtype ``"element"``.
    contents : {"random", "equal"}
    """

    problem: str
    sizes: Mapping[str, int]
    element: str = "float32"
    contents: str = "random"

    @property
    def label(self) -> str:
        """What tells it from the others."""
        shown = {"float32": "", "random": ""}
        words = (shown.get(each, each) for each in (self.element, self.contents))
        return " ".join(word for word in (self.problem, *words) if word)


def heats(n: int = N, side: int = SIDE) -> Iterator[Heat]:
    """Return what is timed: transpose in every element that its best rung moves."""
    for problem in ("scale", "axpy", "triad", "sum", "max", "argmax", "cumsum"):
        yield Heat(problem, {"n": n})
    for contents in ("random", "equal"):
        yield Heat("histogram", {"n": n}, contents=contents)
    for element in catalog.ladder("transpose")[-1].elements:
        yield Heat("transpose", {"rows": side, "columns": side}, element)


def contenders(heat: Heat) -> tuple[Kernel, ...]:
    """Return the rungs that may be the fastest: the last; those for this element alone; of some ladders the last two."""
    *before, last = (
        kernel
        for kernel in catalog.ladder(heat.problem)
        if not kernel.fault and heat.element in (kernel.elements or ELEMENTS[:1])
    )
    if heat.problem in CLOSE:
        return before[-1], last
    return (*(kernel for kernel in before if kernel.elements == (heat.element,)), last)


def entries(kernels: Iterable[Kernel]) -> list[tuple[Kernel, Language]]:
    """Return kernels in CUDA C, and the last one's twin."""
    kernels = tuple(kernels)
    found: list[tuple[Kernel, Language]] = [(kernel, "cuda-c") for kernel in kernels]
    return found + [(kernel, "numba") for kernel in kernels[-1:] if kernel.has_twin]


def run(bench: Bench, chosen: Sequence[Heat] = ()) -> Results:
    """Time every heat."""
    chosen = chosen or tuple(heats())
    notes: list[tuple[str, str]] = []
    try:
        building()  # takes a while, and goes on beside
    except LabError as error:
        notes.append(("CUB", str(error)))
    used = {kernel.id: kernel for heat in chosen for kernel in contenders(heat)}
    ready = (compiled(_arena(bench, heat), entries(contenders(heat))) for heat in chosen)
    precompile(bench, [entry for each in ready for entry in each])
    rows, told = race_all(
        bench,
        chosen,
        lambda heat: _arena(bench, heat),
        lambda heat, arena: race(arena, entries(contenders(heat)), FLAT[heat.problem]),
        2,
        notes,
    )
    shown = [summary(heat, each) for heat in chosen if (each := of(rows, heat))]
    return bench.results(
        "memory",
        "Flat problems and transpose beside what people would take instead",
        (*shown, *rows),
        used.values(),
        columns=COLUMNS,
        bars=bars(rows, chosen),
        notes=(
            f"{N} elements, transpose {SIDE} x {SIDE}; cold L2, medians, all of a row interleaved with "
            "cudaMemcpy of as many bytes; every answer checked in full on the device before and after",
            *told,
        ),
        lines=(*(_line(row) for row in shown), *told),
    )


def _arena(bench: Bench, heat: Heat) -> Arena:
    return Arena(bench, catalog.problem(heat.problem), heat.sizes, heat.element, heat.contents)


def of(rows: Rows, heat: Heat) -> Rows:
    """Return the rows of one heat."""
    wanted = (heat.problem, dict(heat.sizes), heat.element, heat.contents)
    return [r for r in rows if (r["problem"], r["sizes"], r["element"], r["contents"]) == wanted]


def summary(heat: Heat, rows: Rows) -> dict[str, Any]:
    """Return a row of the table."""
    first = ours(rows)
    twin = ours([row for row in rows if first and row["kernel"] == first["kernel"]], "numba")
    return {
        "what": heat.label,
        **beside(first, best_peer(rows)),
        "twin_of_copy": twin["fraction_of_copy"] if twin else None,
    }


def _line(row: Mapping[str, Any]) -> str:
    parts = [f"{row['what']}: {row['rung']}"]
    for key, unit in (("ours", " GB/s"), ("of_copy", " of copy"), ("ratio", f" of {row['peer']}")):
        if row[key] is not None:
            parts.append(f"{row[key]:.4g}{unit}")
    return ", ".join(parts)


def bars(rows: Rows, chosen: Sequence[Heat]) -> dict[str, bool]:
    """Return what the flat problems have to reach, each with what was found."""
    found: dict[str, bool] = {}
    for heat in chosen:
        each = of(rows, heat)
        first = ours(each)
        if heat.problem in ("scale", "axpy"):
            found |= bar(f"{heat.label} at least 0.99 of the best peer", ratio(first, best_peer(each)), 0.99)
        if heat.problem == "transpose":
            share = first["fraction_of_copy"] if first else None
            found |= bar(f"{heat.label} at least 0.93 of copy", share, 0.93)
        least = {"sum": 0.99, "cumsum": 1.10, "histogram": 1.4}.get(heat.problem)
        if least is not None and heat.contents == "random":
            value = ratio(first, best_peer(each, "CUB"))
            found |= bar(f"{heat.label} at least {least:.2f} of CUB", value, least)
        if heat.contents == "equal":
            random = Heat(heat.problem, heat.sizes, heat.element)
            value = ratio(first, ours(of(rows, random)))
            found |= bar(f"{heat.label} at least half of its speed on random data", value, 0.5)
    return found


__all__ = ["Heat", "bars", "contenders", "entries", "heats", "of", "run", "summary"]
