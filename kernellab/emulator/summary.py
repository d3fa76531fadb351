"""From raw counters to what people read: totals by name, and counts by source line."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from kernellab.emulator.counts import IDEAL, REQUESTS, SECOND, UNITS, Counts
from kernellab.emulator.lanes import WARP
from kernellab.emulator.launch import Launch
from kernellab.emulator.projection import project
from kernellab.emulator.tensor_operations import product_shape

Int64 = npt.NDArray[np.int64]
CATEGORIES = (
    "global_load", "global_store", "global_atomic", "shared_load", "shared_store", "shared_atomic",
    "local_load", "local_store",
)  # fmt: skip


@dataclass(frozen=True)
class Line:
    """What one source line did.

    Attributes
    ----------
    file, number, text : str, int, str
        Where it stands; `text` is empty when the source is not at hand.
    warp_executions : int
        How often a warp ran it (its most executed instruction).
    warp_instructions : int
        PTX instructions of it that warps executed.
    mean_active_lanes : float
        Lanes on, averaged over these; 32 is ideal.
    branches, divergent_branches : int
    requests, sectors, ideal_sectors : int
        Of global and local memory.
    shared_requests, shared_wavefronts, bank_conflicts : int
    atomics : int
        Atomic requests, global and shared.
    """

    file: str
    number: int
    text: str
    warp_executions: int = 0
    warp_instructions: int = 0
    mean_active_lanes: float = 0.0
    branches: int = 0
    divergent_branches: int = 0
    requests: int = 0
    sectors: int = 0
    ideal_sectors: int = 0
    shared_requests: int = 0
    shared_wavefronts: int = 0
    bank_conflicts: int = 0
    atomics: int = 0


@dataclass(frozen=True)
class Executions:
    """How often the instructions of a launch ran.

    Attributes
    ----------
    warps, lanes : numpy.ndarray of int64
        For every instruction, the warps that executed it, and the lanes that were on in them.
    is_branch : numpy.ndarray of bool
        For every instruction, whether it is a branch that SASS still has.
    """

    warps: Int64
    lanes: Int64
    is_branch: npt.NDArray[np.bool_]

    @classmethod
    def of(cls, launch: Launch, counts: Counts) -> Executions:
        """Spread the counts of basic blocks over their instructions."""
        total = counts.guarded.size
        warps, lanes = np.zeros(total, np.int64), np.zeros(total, np.int64)
        for code in launch.codes.values():
            for block in code.blocks:
                stop = block.stop + (1 if block.terminator is not None else 0)
                where = slice(code.first + block.start, code.first + stop)
                warps[where] = counts.block_warps[code.first_block + block.index]
                lanes[where] = counts.block_lanes[code.first_block + block.index]
        is_branch = np.zeros(total, np.bool_)
        for name, attribution in launch.attributions.items():
            for index in attribution.branches:
                is_branch[launch.codes[name].first + index] = True
        return cls(warps, lanes - counts.guarded, is_branch)


def spill_rows(launch: Launch, executions: Executions) -> dict[str, Any]:
    """Return requests, sectors, lines and ideal sectors of spills, as ``local_load`` and ``local_store``."""
    rows: dict[str, Any] = {}
    for name, attribution in launch.attributions.items():
        code = launch.codes[name]
        last = {instruction.line: code.first + instruction.index for instruction in code.function.body}
        for spill in attribution.spills:
            number = last.get(spill.after_line)
            warps = 0 if number is None else int(executions.warps[number])
            words = max(spill.width // 4, 1)
            row = np.array([words, 4 * words, words, 4 * words, WARP], np.int64) * warps
            key = "local_store" if spill.is_store else "local_load"
            rows[key] = rows.get(key, 0) + row
    return rows


def totals_of(launch: Launch, counts: Counts, executions: Executions) -> dict[str, float]:
    """Return the totals of a launch by their public names; `executions` are those of `counts`."""
    on_ptx = (int(executions.warps.sum()), int(executions.lanes.sum()))
    on_sass = _projected(launch, counts) or on_ptx
    totals: dict[str, float] = {
        "warp_instructions": on_sass[0],
        "thread_instructions": on_sass[1],
        "ptx_warp_instructions": on_ptx[0],
        "ptx_thread_instructions": on_ptx[1],
        "branches": int(counts.branches[executions.is_branch].sum()),
        "divergent_branches": int(counts.divergent[executions.is_branch].sum()),
    }
    issued = totals["warp_instructions"]
    totals["warp_efficiency"] = totals["thread_instructions"] / (issued * WARP) if issued else float("nan")
    sums = {category: np.zeros(5, np.int64) for category in CATEGORIES}
    for (_, space, operation), row in counts.accesses.items():
        sums.setdefault(f"{space}_{operation}", np.zeros(5, np.int64))[:] += row
    for category, row in spill_rows(launch, executions).items():
        sums[category] += row
    for category, row in sums.items():
        totals[f"{category}_requests"] = int(row[REQUESTS])
        if category.startswith("shared"):
            totals[f"{category}_wavefronts"] = int(row[UNITS])
            totals[f"{category}_bank_conflicts"] = int(row[SECOND])
        elif category.startswith("tma"):
            totals[f"{category}_sectors"] = int(row[UNITS])
            totals[f"{category}_bytes"] = int(row[SECOND])
        else:
            totals[f"{category}_sectors"] = int(row[UNITS])
            totals[f"{category}_lines"] = int(row[SECOND])
            totals[f"{category}_ideal_sectors"] = int(row[IDEAL])
    totals["async_copy_requests"] = sum(
        int(row[REQUESTS])
        for (number, _, _), row in counts.accesses.items()
        if launch.position(number)[1].opcode.startswith("cp.async.c")
    )
    totals |= tensor_totals(launch, executions.warps)
    add_ratios(totals)
    return totals


def tensor_totals(launch: Launch, warps: Any) -> dict[str, float]:
    """Return the instructions and operations of tensor cores; empty for a kernel without them."""
    products = [
        (product, int(warps[code.first + instruction.index]))
        for code in launch.codes.values()
        for instruction in code.function.body
        if (product := product_shape(instruction.opcode))
    ]
    if not products:
        return {}
    return {
        "tensor_instructions": sum(product.instructions * times for product, times in products),
        "tensor_flops": sum(product.flops * times for product, times in products),
    }


def _projected(launch: Launch, counts: Counts) -> tuple[int, int] | None:
    """Return warp and thread instructions as the SASS has them; None without SASS."""
    if launch.sass is None:
        return None
    warps = lanes = 0
    for name, attribution in launch.attributions.items():
        found = project(launch.codes[name], attribution, launch.sass, counts)
        warps, lanes = warps + found.warp_instructions, lanes + found.thread_instructions
    return (warps, lanes) if warps else None


def add_ratios(totals: dict[str, float]) -> None:
    """Add what is derived from sums; not a number where there was no request."""
    for kind in ("load", "store"):
        requests = totals[f"global_{kind}_requests"]
        sectors = totals[f"global_{kind}_sectors"]
        totals[f"sectors_per_request_{kind}"] = sectors / requests if requests else float("nan")


def lines_of(
    launch: Launch, counts: Counts, executions: Executions, sources: Mapping[str, str]
) -> tuple[Line, ...]:
    """Return the counts of every source line that has instructions, in the order of files and lines."""
    warps, lanes = executions.warps, executions.lanes
    found: dict[tuple[str, int], dict[str, float]] = {}
    files = launch.module.files

    def row_of(number: int) -> dict[str, float] | None:
        _, instruction = launch.position(number)
        if not instruction.source_line:
            return None
        return found.setdefault((files.get(instruction.file, ""), instruction.source_line), {})

    def add(row: dict[str, float], name: str, value: float) -> None:
        row[name] = row.get(name, 0) + value

    for number in range(warps.size):
        row = row_of(number)
        if row is None:
            continue
        add(row, "warp_instructions", int(warps[number]))
        add(row, "lanes", int(lanes[number]))
        row["warp_executions"] = max(row.get("warp_executions", 0), int(warps[number]))
        if executions.is_branch[number]:
            add(row, "branches", int(counts.branches[number]))
            add(row, "divergent_branches", int(counts.divergent[number]))
    for (number, space, operation), values in counts.accesses.items():
        row = row_of(number)
        if row is None:
            continue
        if operation == "atomic":
            add(row, "atomics", int(values[REQUESTS]))
        if space == "shared":
            add(row, "shared_requests", int(values[REQUESTS]))
            add(row, "shared_wavefronts", int(values[UNITS]))
            add(row, "bank_conflicts", int(values[SECOND]))
        else:
            add(row, "requests", int(values[REQUESTS]))
            add(row, "sectors", int(values[UNITS]))
            add(row, "ideal_sectors", int(values[IDEAL]))
    texts = {path: text.splitlines() for path, text in sources.items()}
    result = []
    for (path, number), row in sorted(found.items()):
        total = row.pop("lanes")
        issued = row["warp_instructions"]
        row["mean_active_lanes"] = total / issued if issued else 0.0
        text = texts.get(path, [])
        result.append(
            Line(path, number, text[number - 1] if 0 < number <= len(text) else "", **row)  # type: ignore[arg-type]
        )
    return tuple(result)
