"""Rows: softmax, norms and fusions at many row lengths and in three elements, beside peers, under one clock."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kernellab import catalog
from kernellab.catalog.rows import LONGEST
from kernellab.kernel import Kernel, Language
from kernellab.problem import ELEMENTS
from kernellab.results import Results, Shown
from kernellab.suites.arena import Arena, Own
from kernellab.suites.bench import Bench
from kernellab.suites.peer_rows import IN_TRITON, peers_of, warm_triton, warps_for
from kernellab.suites.precompile import precompile, spread
from kernellab.suites.race import Rows, bar, best_peer, compiled, ours, race, race_all, ratio, worst
from kernellab.workload import CallWorkload

PROBLEMS = (
    "softmax", "layernorm", "rmsnorm", "residual_layernorm", "layernorm_gelu", "softmax_dropout", "bias_gelu",
)  # fmt: skip
ELEMENTS_OF_A_MATRIX = 2**27
"""At the lengths with a bar of full speed; half as many at the others."""
USUAL = 8192
"""The row length at which twins, chains and torch.compile are timed too."""
LENGTHS = (USUAL, 4096, 16384, 32768, 1024, 1000, 64, 131072)
LONG = (4096, 32768)
"""The row lengths between which the bars of full speed hold."""
CHAINED, CHAIN = "layernorm_gelu", "unfused"
"""The problem that is timed beside its chain, and the rung that is the chain."""
CLAIM = 1.84
"""How many times as fast as its chain the write-up's fusion was."""


@dataclass(frozen=True)
class Heat:
    """One problem in one element at one row length."""

    problem: str
    element: str
    columns: int

    @property
    def label(self) -> str:
        """What tells it from the others."""
        return f"{self.problem} {self.element} {self.columns}"

    def rungs(self) -> list[tuple[Kernel, Language]]:
        """Return what of ours is timed."""
        return rungs(self.problem, self.columns, self.element)


def heats(lengths: Sequence[int] = LENGTHS) -> tuple[Heat, ...]:
    """Return what is timed, the usual length of everything first."""
    return tuple(
        Heat(problem, element, columns)
        for group in (lengths[:1], lengths[1:])
        for problem in PROBLEMS
        for element in ELEMENTS
        for columns in group
    )


def rungs(problem: str, columns: int, element: str = ELEMENTS[0]) -> list[tuple[Kernel, Language]]:
    """Return the rungs that are timed at a row length: the best, others where they may be better, chains.

    The twin, which takes seconds to compile, at the usual length in the first element.
    """
    ladder = {kernel.name: kernel for kernel in catalog.ladder(problem) if not kernel.fault}
    best = last(problem)
    found: list[tuple[Kernel, Language]] = [(best, "cuda-c")]
    others = ("split",) if columns > LONGEST else ("pipelined",) if columns >= USUAL else ()
    found += [(ladder[name], "cuda-c") for name in others if name in ladder]
    if columns == USUAL:
        found += [(best, "numba")] if best.has_twin and element == ELEMENTS[0] else []
        found += [(ladder[CHAIN], "cuda-c")] if problem == CHAINED else []
    return found


def last(problem: str) -> Kernel:
    """Return the last rung for rows of every length, which has a twin."""
    return next(kernel for kernel in reversed(catalog.ladder(problem)) if kernel.has_twin)


def stages(own: Own) -> Iterable[CallWorkload]:
    """Return each launch of a chain as a work of its own; the chain as a whole is verified."""
    if len(own.calls) < 2 or own.plan.kernel.name != CHAIN:
        return
    nbytes = own.work.nbytes  # each kernel of the chain reads and writes as much as the fused one
    for part, call in zip(own.plan.kernel.parts, own.calls, strict=True):
        yield CallWorkload(f"{own.plan.kernel.id}: {part.stage}", call, nbytes)


def run(
    bench: Bench, lengths: Sequence[int] = LENGTHS, count: int = ELEMENTS_OF_A_MATRIX, share: float = 3
) -> Results:
    """Time every heat, matrices of about `count` elements, or half as many."""
    chosen = heats(lengths)
    arenas = {heat: _arena(bench, heat, count) for heat in chosen}
    ready = [entry for heat, arena in arenas.items() for entry in compiled(arena, heat.rungs())]
    precompile(bench, ready)
    spread(bench, warm_triton, in_triton(chosen))
    rows, told = race_all(
        bench,
        chosen,
        arenas.pop,
        lambda heat, arena: race(arena, heat.rungs(), peers_of(arena), stages),
        share,
    )
    shown = summaries(rows, sorted(lengths))
    used = {kernel.id: kernel for heat in chosen for kernel, _ in heat.rungs()}
    return bench.results(
        "rows",
        "Problems on rows by row length: speed as a fraction of copy / times that of the best peer",
        (*shown, *rows),
        used.values(),
        columns=columns_for(sorted(lengths)),
        bars=bars(rows),
        notes=(
            f"about {count} elements, half as many under {LONG[0]} and over {LONG[1]} columns; ours: the fastest "
            f"rung, named where it is not the one that keeps rows in registers; peers: PyTorch, torch.compile (at "
            f"{USUAL} columns), Triton with the fastest of 4 to 32 warps; cold L2, medians, all of a cell "
            "interleaved with cudaMemcpy of as many bytes; every answer checked in full on the device before and "
            "after",
            *told,
        ),
        lines=(*(" ".join(map(str, row.values())) for row in shown), *told),
    )


def in_triton(chosen: Iterable[Heat]) -> list[tuple[str, str, int, int]]:
    """Return what is compiled with Triton: problem, element, columns, warps."""
    return [
        (heat.problem, heat.element, heat.columns, warps)
        for heat in chosen
        if heat.problem in IN_TRITON
        for warps in warps_for(heat.columns)
    ]


def _arena(bench: Bench, heat: Heat, count: int) -> Arena:
    low, high = LONG
    share = count if low <= heat.columns <= high else count // 2
    sizes = {"rows": max(1, share // heat.columns), "columns": heat.columns}
    return Arena(bench, catalog.problem(heat.problem), sizes, heat.element)


# -- what was found
def columns_for(lengths: Iterable[int]) -> tuple[Shown, ...]:
    """Return the table's columns: a problem, an element, and a column a row length."""
    return (
        Shown("what", "problem"), Shown("in", "element"),
        *(Shown(f"{each} columns", str(each)) for each in lengths),
    )  # fmt: skip


def of(rows: Rows, problem: str, element: str, columns: int) -> Rows:
    """Return the rows of one cell."""
    wanted = (problem, element, columns)
    return [r for r in rows if (r["problem"], r["element"], r["sizes"]["columns"]) == wanted]


def summaries(rows: Rows, lengths: Sequence[int]) -> list[dict[str, Any]]:
    """Return a row a problem and element, a cell a length."""
    found = []
    for problem, element in dict.fromkeys((row["problem"], row["element"]) for row in rows):
        cells = {f"{each} columns": cell(of(rows, problem, element, each)) for each in lengths}
        found.append({"what": problem, "in": element, **cells})
    return found


def cell(rows: Rows) -> str:
    """Return ours of copy, over the best peer, and which rung it was; dashes for what was not timed.

    Examples
    --------
    >>> cell([])
    '-'
    """
    first = fused(rows)
    if first is None:
        return "-"
    over = ratio(first, best_peer(rows))
    rung = str(first["kernel"]).rpartition("/")[2]
    named = "" if first["kernel"] == last(first["problem"]).id else f" {rung}"
    return f"{first['fraction_of_copy']:.2f} / {'-' if over is None else f'{over:.2f}'}{named}"


def bars(rows: Rows) -> dict[str, bool]:
    """Return what the problems on rows have to reach; of each the worst cell stands for all."""
    found: dict[str, bool] = {}
    low, high = LONG
    where = f"from {low} to {high} columns"
    for problem in PROBLEMS[:5]:
        for elements, least in ((ELEMENTS[:1], 0.95), (ELEMENTS[1:], 0.93)):
            value, place = of_cells(rows, problem, elements, _of_copy, range(low, high + 1))
            what = " and ".join(elements)
            found |= bar(f"{problem} in {what} at least {least} of copy {where}{place}", value, least)
        value, place = of_cells(rows, problem, ELEMENTS, _of_peer, range(low, high + 1))
        found |= bar(f"{problem} at least 0.99 of the best peer {where}{place}", value, 0.99)
    value, place = of_cells(rows, "softmax_dropout", ELEMENTS, _of_copy, range(low, high + 1))
    found |= bar(f"softmax_dropout at least 0.90 of copy {where}{place}", value, 0.90)
    others = [each for each in LENGTHS if not low <= each <= high]
    for problem in PROBLEMS[:5]:
        value, place = of_cells(rows, problem, ELEMENTS, _of_peer, others)
        text = f"{problem}: no peer faster by over 5 % at {', '.join(map(str, sorted(others)))} columns"
        found |= bar(f"{text}{place}", value, 1 / 1.05)
    return found | chain_bars(rows)


def chain_bars(rows: Rows) -> dict[str, bool]:
    """Return the bars of the fusion against its chain."""
    found: dict[str, bool] = {}
    for element in ELEMENTS:
        cells = {row["workload"]: row for row in of(rows, CHAINED, element, USUAL)}
        chain = cells.get(f"{CHAINED}/{CHAIN} cuda-c")
        whole = fused(list(cells.values()))
        found |= bar(f"{CHAINED} in {element} at least {CLAIM} times its chain", ratio(whole, chain), CLAIM)
        parts = [row["fraction_of_copy"] for row in cells.values() if row.get("part")]
        least = min(parts, default=None)
        found |= bar(f"each kernel of that chain in {element} at least 0.95 of copy", least, 0.95)
    return found


def fused(rows: Rows) -> Mapping[str, Any] | None:
    """Return the row of our fastest rung that is no chain, if there is one."""
    return ours([row for row in rows if not row["kernel"].endswith(f"/{CHAIN}")])


def _of_copy(rows: Rows) -> float | None:
    first = fused(rows)
    return None if first is None else float(first["fraction_of_copy"])


def _of_peer(rows: Rows) -> float | None:
    return ratio(fused(rows), best_peer(rows))


def of_cells(
    rows: Rows, problem: str, elements: Iterable[str], value: Any, lengths: Iterable[int]
) -> tuple[float | None, str]:
    """Return the least value over elements and lengths, and where; nothing where one was not measured."""
    return worst(
        (value(of(rows, problem, element, columns)), f"{element} {columns}")
        for element in elements
        for columns in LENGTHS
        if columns in lengths
    )


__all__ = ["Heat", "bars", "cell", "heats", "run", "rungs", "stages", "summaries"]
