"""Backward: the kernels of gradients beside PyTorch's, under one clock."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kernellab import catalog
from kernellab.kernel import Kernel, Language
from kernellab.problem import ELEMENTS
from kernellab.results import Results, Shown
from kernellab.suites.arena import Arena
from kernellab.suites.bench import Bench
from kernellab.suites.peer_flat import by_torch
from kernellab.suites.peer_works import Peer, Setting, tensors
from kernellab.suites.precompile import precompile
from kernellab.suites.race import Rows, bar, beside, best_peer, compiled, ours, race, race_all, ratio, worst

N = 2**26
WIDTHS: Mapping[str, tuple[int, ...]] = {
    "softmax_cross_entropy": (8192, 1024, 32768, 131072),
    "bias_gelu_backward": (8192, 1024),
    "column_sum": (8192, 64),
}
"""Columns of the matrices of each problem; the twin, which takes seconds to compile, at the first."""
HELD = 32768
"""Columns up to which a block holds a row: longer ones are read twice."""
COLUMNS = (
    Shown("problem", "problem"),
    Shown("element", "element"),
    Shown("columns", "columns", digits=0),
    Shown("rung", "our rung"),
    Shown("ours", "GB/s", digits=0),
    Shown("of_copy", "of copy", digits=3),
    Shown("peer", "best peer"),
    Shown("ratio", "ours / peer", digits=2),
    Shown("chain", "ours / other rung", digits=2),
)


@dataclass(frozen=True)
class Heat:
    """One problem in one element on matrices of one width."""

    problem: str
    element: str
    columns: int
    count: int = N

    @property
    def label(self) -> str:
        """What tells it from the others."""
        return f"{self.problem} {self.element}, {self.columns} columns"

    @property
    def sizes(self) -> dict[str, int]:
        """The sizes of the arena; logits without biases."""
        shape = {"rows": max(1, self.count // self.columns), "columns": self.columns}
        return shape | ({"biases": 0} if self.problem == "softmax_cross_entropy" else {})

    def rungs(self) -> list[tuple[Kernel, Language]]:
        """Return what of ours is timed: each rung, and the twin of the best at one width.

        Few columns with a thread each would take seconds.
        """
        ladder = catalog.ladder(self.problem)
        is_slow = self.problem == "column_sum" and self.columns < 1024
        found: list[tuple[Kernel, Language]] = [(kernel, "cuda-c") for kernel in ladder[is_slow:]]
        is_usual = self.columns == WIDTHS[self.problem][0] and self.element == ELEMENTS[0]
        return found + ([(ladder[-1], "numba")] if is_usual else [])


def heats(count: int = N) -> Iterator[Heat]:
    """Return what is timed."""
    for problem, widths in WIDTHS.items():
        for element in ELEMENTS:
            for columns in widths:
                yield Heat(problem, element, columns, count)


# -- peers
def _cross_entropy(setting: Setting) -> Callable[[], Any]:
    """Loss and gradient as PyTorch's autograd has them."""
    torch, given, _ = tensors(setting)
    x, labels = given["x"].detach().requires_grad_(), given["labels"]

    def call() -> Any:
        x.grad = None
        torch.nn.functional.cross_entropy(x, labels, reduction="sum").backward()
        return x.grad

    return call


def _gelu_backward(torch: Any, given: Mapping[str, Any], out: Any, setting: Setting) -> Any:
    h = given["x"] + given["bias"]
    dx = torch.ops.aten.gelu_backward(given["dy"], h, approximate="tanh")
    dx.sum(0)
    return dx


PEERS: Mapping[str, tuple[Peer, ...]] = {
    "softmax_cross_entropy": (Peer("F.cross_entropy, backward", _cross_entropy),),
    "bias_gelu_backward": (Peer("x + b, aten.gelu_backward, sum", by_torch(_gelu_backward)),),
    "column_sum": (Peer("torch.sum", by_torch(lambda torch, given, y, setting: given["x"].sum(0))),),
}


# -- the suite
def run(bench: Bench, chosen: Sequence[Heat] = ()) -> Results:
    """Time every heat."""
    chosen = chosen or tuple(heats())
    arenas = {heat: _arena(bench, heat) for heat in chosen}
    precompile(bench, [entry for heat, arena in arenas.items() for entry in compiled(arena, heat.rungs())])
    rows, told = race_all(
        bench, chosen, arenas.pop, lambda heat, arena: race(arena, heat.rungs(), PEERS[heat.problem])
    )
    shown = [summary(heat, found) for heat in chosen if (found := of(rows, heat))]
    used = {kernel.id: kernel for heat in chosen for kernel, _ in heat.rungs()}
    return bench.results(
        "backward",
        "Kernels of gradients, beside PyTorch",
        (*shown, *rows),
        used.values(),
        columns=COLUMNS,
        bars=bars(rows, chosen),
        notes=(
            f"matrices of {chosen[0].count} elements; cold L2, medians, all of a row interleaved with cudaMemcpy of "
            "as many bytes; every answer checked in full on the device before and after, of peers the gradient by x",
            *told,
        ),
        lines=(*(_line(row) for row in shown), *told),
    )


def _arena(bench: Bench, heat: Heat) -> Arena:
    return Arena(bench, catalog.problem(heat.problem), heat.sizes, heat.element)


def of(rows: Rows, heat: Heat) -> Rows:
    """Return the rows of one heat."""
    wanted = (heat.problem, heat.element, heat.columns)
    return [row for row in rows if (row["problem"], row["element"], row["sizes"]["columns"]) == wanted]


def summary(heat: Heat, rows: Rows) -> dict[str, Any]:
    """Return a row of the table."""
    first = ours(rows)
    others = [row for row in rows if row["kernel"] and first is not None and row["kernel"] != first["kernel"]]
    return {
        "problem": heat.problem,
        "element": heat.element,
        "columns": heat.columns,
        **beside(first, best_peer(rows)),
        "chain": ratio(first, ours(others)),
    }


def _line(row: Mapping[str, Any]) -> str:
    numbers = (
        (row["of_copy"], "of copy"),
        (row["ratio"], f"of {row['peer']}"),
        (row["chain"], "of the other rung"),
    )
    told = ", ".join(f"{value:.3g} {what}" for value, what in numbers if value is not None)
    return f"{row['problem']} {row['element']} {row['columns']}: {told}"


def bars(rows: Rows, chosen: Sequence[Heat]) -> dict[str, bool]:
    """Return what is to be reached; of each the worst heat stands for all."""
    found: dict[str, bool] = {}
    for problem in WIDTHS:
        known = [heat for heat in chosen if heat.problem == problem and heat.columns <= HELD]
        if not known:
            continue
        cells = [(heat, ours(of(rows, heat))) for heat in known]
        value, place = worst(
            (None if row is None else float(row["fraction_of_copy"]), heat.label) for heat, row in cells
        )
        found |= bar(f"{problem} at least 0.90 of copy{place}", value, 0.90)
        value, place = worst((ratio(row, best_peer(of(rows, heat))), heat.label) for heat, row in cells)
        found |= bar(f"{problem} at least as fast as PyTorch{place}", value, 1.0)
    return found


__all__ = ["Heat", "bars", "heats", "run"]
