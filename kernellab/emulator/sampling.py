"""Run some blocks of a large grid and scale up: corners, edges and interior, each stratum for itself."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from kernellab.emulator.flow import family
from kernellab.emulator.launch import Launch
from kernellab.emulator.summary import add_ratios, totals_of
from kernellab.errors import ExecutionError, SpecError

Ids = npt.NDArray[np.int64]
_DERIVED = ("warp_efficiency", "sectors_per_request_load", "sectors_per_request_store")


def refuse_waiting(launch: Launch) -> None:
    """Refuse kernels whose blocks wait for each other: a sample of them would wait for ever.

    Raises
    ------
    SpecError
        If a loop reads global memory in a way that sees other blocks' writes.
    """
    for code in launch.codes.values():
        for block in code.blocks:
            if not any(0 <= target <= block.index for target in block.successors):
                continue
            head = min(target for target in block.successors if target >= 0)
            start = code.blocks[head].start
            for instruction in code.function.body[start : block.stop]:
                parts = instruction.opcode.split(".")
                waits = family(instruction.opcode) == "ld" and {"volatile", "acquire", "relaxed"} & set(parts)
                waits = waits or (parts[0] == "atom" and "shared" not in parts)
                if waits:
                    raise SpecError(
                        f"{launch.name}: a loop polls global memory at "
                        f"{launch.where(code.first + instruction.index)}, so blocks may wait for each other; "
                        "run all blocks (leave blocks= out)"
                    )


def strata(grid: tuple[int, int, int]) -> list[Ids]:
    """Divide a grid's blocks into corners, edges and interior.

    The corners are blocks at an end of every axis that is longer than one; the edges of at least one.
    """
    counts = []
    for side in grid:
        ends = np.zeros(side, np.int64)
        if side > 1:
            ends[0] = ends[-1] = 1
        counts.append(ends)
    x, y, z = counts
    ends = z[:, None, None] + y[None, :, None] + x[None, None, :]
    axes = sum(side > 1 for side in grid)
    flat = ends.reshape(-1)
    groups = [np.flatnonzero(flat == axes)]
    groups += [np.flatnonzero((flat > 0) & (flat < axes)), np.flatnonzero(flat == 0)]
    return [group for group in groups if group.size]


def run_sampled(launch: Launch, blocks: int, seed: int = 0) -> tuple[dict[str, float], dict[str, float], int]:
    """Run about `blocks` blocks of a grid.

    Returns
    -------
    tuple
        Totals scaled to the whole grid, their standard errors, and how many blocks ran.

    Raises
    ------
    SpecError
        For a sample without blocks, or a kernel whose blocks wait for each other.
    """
    if blocks < 1:
        raise SpecError(f"{launch.name}: blocks is {blocks}, it must be at least 1")
    refuse_waiting(launch)
    generator = np.random.default_rng(seed)
    groups = strata(launch.grid)
    total = sum(group.size for group in groups)
    totals: dict[str, float] = {}
    variances: dict[str, float] = {}
    ran = 0
    for k, group in enumerate(groups):
        share = group.size if k == 0 else max(2, round(blocks * group.size / total))
        share = min(share, group.size)
        chosen = np.sort(generator.choice(group, share, replace=False))
        samples = []
        for block in chosen:
            counts = launch.new_counts()
            try:
                launch.run(np.array([block]), counts)
            except ExecutionError as error:
                raise SpecError(f"{launch.name}: a sampled block cannot run alone ({error}); run all blocks") from error
            samples.append(totals_of(launch, counts))
            launch.counts.add(counts)
        ran += share
        scale = group.size / share
        for name in samples[0]:
            if name in _DERIVED:
                continue
            values = np.array([sample[name] for sample in samples], np.float64)
            totals[name] = totals.get(name, 0) + float(values.sum()) * scale
            if share > 1:
                correction = 1 - share / group.size
                variance = group.size**2 * correction * float(values.var(ddof=1)) / share
                variances[name] = variances.get(name, 0) + variance
    issued = totals["warp_instructions"]
    totals["warp_efficiency"] = totals["thread_instructions"] / (32 * issued) if issued else float("nan")
    add_ratios(totals)
    return totals, {name: math.sqrt(value) for name, value in variances.items()}, ran
