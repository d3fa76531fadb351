"""Products: matrix products in every rung and element, plain and with bias and GeLU, beside cuBLAS and chains."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kernellab import catalog
from kernellab.instruments.clock import Rule
from kernellab.kernel import Kernel, Language
from kernellab.problem import ELEMENTS
from kernellab.results import Results, Shown
from kernellab.suites.arena import Arena, Own
from kernellab.suites.bench import Bench
from kernellab.suites.peer_products import CHAINS, CUBLAS, EPILOGUE, peers_of
from kernellab.suites.precompile import precompile
from kernellab.suites.product_arena import arena_of
from kernellab.suites.race import Rows, bar, best_peer, compiled, ours, race, race_all, ratio, worst
from kernellab.suites.rows import stages
from kernellab.workload import CallWorkload

PLAIN, FUSED, AFTER = ("matmul", "matmul_nt"), ("matmul_bias_gelu", "matmul_nt_bias_gelu"), "bias_gelu"
CHAINED = "unfused"
"""The rung that is a chain."""
HALVES = ELEMENTS[1:]
SIDES = (2048, 4096, 8192)
RULE = Rule(budget=0.4, maximum=75, queue=15)
LONGEST = 3.0
"""Seconds that the samples of a rung may take at one size: a slower one stops at the size before."""
PEAK = {"float32": 67e12, "float16": 989e12, "bfloat16": 989e12}
"""The datasheet's operations a second of an H100 or H200 SXM; of tensor cores without sparsity in 16 bits."""
CHIPS = ("H100", "H200")
COLUMNS = (
    Shown("what", "problem"),
    Shown("in", "element"),
    Shown("side", "m = n = k"),
    Shown("rung", "our rung"),
    Shown("ours", "TFLOP/s", digits=1),
    Shown("of_peak", "of peak", digits=3),
    Shown("peer", "best peer"),
    Shown("theirs", "TFLOP/s", digits=1),
    Shown("ratio", "ours / peer", digits=3),
    Shown("others", "all others, TFLOP/s"),
)


@dataclass(frozen=True)
class Heat:
    """One problem in one element at one size: a product of square matrices, or what chains do after it."""

    problem: str
    element: str
    side: int

    @property
    def label(self) -> str:
        """What tells it from the others."""
        return f"{self.problem} {self.element} {self.side}"

    @property
    def sizes(self) -> dict[str, int]:
        """The sizes of its operands."""
        names = {name for item in catalog.problem(self.problem).operands for name in item.shape}
        return dict.fromkeys(sorted(names), self.side)

    def rungs(self) -> list[tuple[Kernel, Language]]:
        """Return what of ours is timed: every rung that takes the element; of chains, what follows the product."""
        names = tuple(CHAINS.values()) if self.problem == AFTER else ()
        return [
            (kernel, "cuda-c")
            for kernel in catalog.ladder(self.problem)
            if not kernel.fault and self.element in (kernel.elements or ELEMENTS[:1])
            if not names or kernel.name in names
        ]


def heats(sides: Sequence[int] = SIDES) -> tuple[Heat, ...]:
    """Return what is timed, small sizes first: they tell which rungs are too slow for large ones."""
    return tuple(
        Heat(problem, element, side)
        for side in sides
        for problem in (*PLAIN, *FUSED, AFTER)
        for element in (ELEMENTS if problem in PLAIN else HALVES)
    )


class Pace:
    """How long rungs took, to leave out those that would take too long at the next size."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, str], tuple[int, float]] = {}

    def note(self, rows: Rows) -> None:
        """Remember the speeds of one heat."""
        for row in rows:
            if row["kernel"] and not row.get("part"):
                self._found[row["kernel"], row["element"]] = (max(row["sizes"].values()), row["seconds"])

    def is_bearable(self, heat: Heat, kernel: Kernel, notes: list[str]) -> bool:
        """Say whether a rung can be timed at a size; note it if not."""
        side, seconds = self._found.get((kernel.id, heat.element), (heat.side, 0.0))
        needed = RULE.minimum * seconds * (heat.side / side) ** 3
        if needed > LONGEST:
            notes.append(f"{kernel.name} was left out: {RULE.minimum} samples would take {needed:.0f} s")
        return needed <= LONGEST


def run(bench: Bench, sides: Sequence[int] = SIDES, share: float = 1.0) -> Results:
    """Time every heat."""
    chosen = heats(sides)
    ready = [entry for heat in chosen for entry in compiled(_arena(bench, heat), heat.rungs())]
    precompile(bench, ready)
    pace, device = Pace(), str(bench.device.describe().get("device", ""))

    def timed(heat: Heat, arena: Arena) -> Rows:
        entries = [each for each in heat.rungs() if pace.is_bearable(heat, each[0], arena.notes)]
        peers = () if heat.problem == AFTER else peers_of(arena)
        found = race(arena, entries, peers, parts, RULE)
        pace.note(found)
        return [row | speeds(row, device) for row in found]

    rows, told = race_all(bench, chosen, lambda heat: _arena(bench, heat), timed, share)
    shown = [summary(heat, each) for heat in chosen if heat.problem != AFTER and (each := of(rows, heat))]
    used = {kernel.id: kernel for heat in chosen for kernel, _ in heat.rungs()}
    return bench.results(
        "products",
        "Products of square matrices, plain and with bias and GeLU",
        (*shown, *rows),
        used.values(),
        columns=COLUMNS,
        bars=bars(rows),
        notes=(
            "b is (k, n), with nt (n, k); peak: the datasheet's, dense; cold L2, medians of at least "
            f"{RULE.minimum}, all of a row interleaved; every answer checked in full on the device before and "
            "after, against float64 with a bound by k and the sum of |a| |b|; chains: cuBLAS, then our "
            "bias_gelu in one or two kernels",
            *told,
        ),
        lines=(*map(_line, shown), *told),
    )


def parts(own: Own) -> Iterable[CallWorkload]:
    """Return each launch of what chains do after a product; those of our own chains move other bytes than it."""
    return stages(own) if own.plan.kernel.problem.name == AFTER else ()


def _arena(bench: Bench, heat: Heat) -> Arena:
    return arena_of(bench, catalog.problem(heat.problem), heat.sizes, heat.element)


# -- what was found
def speeds(row: Mapping[str, Any], device: str) -> dict[str, float]:
    """Return a row's operations a second, of the product alone, and as a share of the datasheet's.

    Examples
    --------
    >>> row = {"sizes": dict.fromkeys("mnk", 2048), "element": "float16", "seconds": 2.0**-15}
    >>> {name: round(value, 3) for name, value in speeds(row, "NVIDIA H200").items()}
    {'teraflops': 562.95, 'of_peak': 0.569}
    """
    if "k" not in row["sizes"]:
        return {}
    m, n, k = (row["sizes"][name] for name in ("m", "n", "k"))
    rate = 2 * m * n * k / float(row["seconds"])
    is_known = any(chip in device for chip in CHIPS)
    return {"teraflops": rate / 1e12} | ({"of_peak": rate / PEAK[row["element"]]} if is_known else {})


def of(rows: Rows, heat: Heat) -> Rows:
    """Return the rows of one heat."""
    wanted = (heat.problem, heat.element, heat.sizes)
    return [row for row in rows if (row["problem"], row["element"], row["sizes"]) == wanted]


def rung(rows: Rows, name: str) -> Mapping[str, Any] | None:
    """Return the row of one of our rungs, if there is one."""
    return ours([row for row in rows if row["kernel"].partition("/")[2] == name])


def in_one(rows: Rows) -> Mapping[str, Any] | None:
    """Return the row of our fastest rung that is one kernel and no chain, if there is one."""
    return ours([row for row in rows if row["kernel"].partition("/")[2] != CHAINED])


def summary(heat: Heat, rows: Rows) -> dict[str, Any]:
    """Return a row of the table."""
    first, peer = in_one(rows), best_peer(rows)
    others = sorted((row for row in rows if row is not first and row is not peer), key=_seconds)
    return {
        "what": heat.problem,
        "in": heat.element,
        "side": str(heat.side),
        "rung": first["kernel"].partition("/")[2] if first else "",
        "ours": first["teraflops"] if first else None,
        "of_peak": first.get("of_peak") if first else None,
        "peer": peer["workload"] if peer else "",
        "theirs": peer["teraflops"] if peer else None,
        "ratio": ratio(first, peer),
        "others": ", ".join(f"{_short(row)} {row['teraflops']:.4g}" for row in others),
    }


def _seconds(row: Mapping[str, Any]) -> float:
    return float(row["seconds"])


def _short(row: Mapping[str, Any]) -> str:
    return str(row["kernel"].partition("/")[2] or row["workload"])


def _line(row: Mapping[str, Any]) -> str:
    text = f"{row['what']} {row['in']} {row['side']}: {row['rung']}"
    if row["ours"] is not None:
        text += f" {row['ours']:.4g} TFLOP/s"
    if row["ratio"] is not None:
        text += f", {row['ratio']:.3f} of {row['peer']}"
    return f"{text}; {row['others']}"


# -- what must be reached
def bars(rows: Rows) -> dict[str, bool]:
    """Return what products have to reach, each with the worst that was found and where."""
    found: dict[str, bool] = {}

    def add(text: str, cells: Iterable[Heat], value: Any, least: float) -> None:
        number, place = worst((value(of(rows, heat)), heat.label) for heat in cells)
        found.update(bar(f"{text}{place}", number, least))

    def cells(problems: Iterable[str], elements: Iterable[str], side: int) -> list[Heat]:
        return [Heat(problem, element, side) for problem in problems for element in elements]

    def against(peer: str, name: str = "") -> Any:
        return lambda cell: ratio(rung(cell, name) if name else in_one(cell), best_peer(cell, peer))

    text = "float32 product at 4096 at least 0.92 of cuBLAS"
    add(text, cells(PLAIN, ELEMENTS[:1], 4096), against(CUBLAS), 0.92)
    for side, least in ((2048, 0.95), (4096, 0.97), (8192, 0.97)):
        text = f"wgmma in 16 bits at {side} at least {least:.2f} of cuBLAS"
        add(text, cells(PLAIN, HALVES, side), against(CUBLAS, "wgmma"), least)
    text = "mma in 16 bits at 4096 at least 0.60 of cuBLAS"
    add(text, cells(PLAIN, HALVES, 4096), against(CUBLAS, "mma"), 0.60)
    for side in SIDES:
        text = f"bias and GeLU fused at {side} at least 1.00 of the cuBLASLt epilogue"
        add(text, cells(FUSED, HALVES, side), against(EPILOGUE), 1.0)
    for element, factors in (("float16", (1.25, 1.8)), ("bfloat16", (1.15, 1.45))):
        for chain, least in zip(CHAINS, factors, strict=True):
            text = f"fused in {element} at 2048 at least {least:.2f} times {chain}"
            add(text, cells(FUSED, (element,), 2048), against(chain), least)
    text = "each kernel of those chains at 2048 at least 0.90 of a copy of as many bytes"
    add(text, cells((AFTER,), HALVES, 2048), slowest_part, 0.90)
    return found


def slowest_part(rows: Rows) -> float | None:
    """Return the least speed, of copy, of the kernels that chains launch; a copy that small is launch-bound too."""
    apart = {row["kernel"] for row in rows if row.get("part")}
    each = [row for row in rows if row.get("part") or (row["kernel"] and row["kernel"] not in apart)]
    return min((float(row["fraction_of_copy"]) for row in each), default=None) if apart else None


__all__ = ["Heat", "Pace", "bars", "heats", "run", "speeds", "summary"]
