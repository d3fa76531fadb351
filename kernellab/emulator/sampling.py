"""Run some blocks of a large grid and scale up: corners, edges and interior, each stratum for itself."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

from kernellab.emulator.flow import family
from kernellab.emulator.launch import Launch
from kernellab.emulator.ptx import Instruction, Memory, Operand, Pair, Register, Vector
from kernellab.emulator.summary import Executions, add_ratios, totals_of
from kernellab.errors import ExecutionError, SpecError

Ids = npt.NDArray[np.int64]
_DERIVED = ("warp_efficiency", "sectors_per_request_load", "sectors_per_request_store")


def refuse_waiting(launch: Launch) -> None:
    """Refuse kernels whose blocks wait for each other: a sample of them would wait for ever.

    Raises
    ------
    SpecError
        If blocks form clusters, or a loop goes on or not by a value that other blocks write while it runs.
    """
    if launch.cluster_size > 1:
        raise SpecError(
            f"{launch.name}: its blocks form clusters of {launch.cluster_size} and may wait for each other; "
            "run all blocks (leave blocks= out)"
        )
    for code in launch.codes.values():
        for block in code.blocks:
            heads = [target for target in block.successors if 0 <= target <= block.index]
            if not heads:
                continue
            loop = code.function.body[code.blocks[min(heads)].start : block.stop + 1]
            for instruction in loop:
                if _sees_other_blocks(instruction) and _decides_branch(loop, instruction):
                    raise SpecError(
                        f"{launch.name}: a loop polls global memory at "
                        f"{launch.where(code.first + instruction.index)}, so blocks may wait for each other; "
                        "run all blocks (leave blocks= out)"
                    )


def _sees_other_blocks(instruction: Instruction) -> bool:
    """Say whether an instruction reads global memory afresh; a compare-and-swap loop does not wait."""
    name, *parts = instruction.opcode.replace("::", ".").split(".")
    if "shared" in parts or "local" in parts:
        return False
    return (name == "ld" and bool({"volatile", "acquire", "relaxed"} & set(parts))) or (
        name == "atom" and "cas" not in parts
    )


def _registers(operands: Iterable[Operand]) -> set[str]:
    found: set[str] = set()
    for operand in operands:
        match operand:
            case Register(name, _):
                found.add(name)
            case Memory(base, _, _):
                found |= _registers((base,))
            case Vector(elements):
                found |= _registers(elements)
            case Pair(first, second):
                found |= _registers((first, second))
    return found


def _decides_branch(loop: Sequence[Instruction], reader: Instruction) -> bool:
    """Say whether a branch of the loop depends on what `reader` reads."""
    known = _registers(reader.operands[:1])
    for _ in range(2):  # values may flow around the loop
        for instruction in loop:
            guard = {instruction.guard.register} if instruction.guard else set()
            if family(instruction.opcode) == "bra":
                if guard & known:
                    return True
            elif (guard | _registers(instruction.operands[1:])) & known:
                known |= _registers(instruction.operands[:1])
    return False


Box = tuple[range, range, range]
"""Blocks whose x, y and z lie in three ranges."""


def strata(grid: tuple[int, int, int]) -> list[list[Box]]:
    """Divide a grid's blocks into corners, edges and interior, each a list of boxes.

    The corners are blocks at an end of every axis that is longer than one; the edges of at least one.
    """
    groups: list[list[Box]] = [[], [], []]
    axes = sum(side > 1 for side in grid)
    choices = [
        ((range(0, side, side - 1), 1), (range(1, side - 1), 0)) if side > 1 else ((range(1), 0),)
        for side in grid
    ]
    for (x, a), (y, b), (z, c) in itertools.product(*choices):
        ends = a + b + c
        if len(x) * len(y) * len(z):
            groups[0 if ends == axes else 1 if ends else 2].append((x, y, z))
    return [boxes for boxes in groups if boxes]


def size_of(boxes: Sequence[Box]) -> int:
    """Return how many blocks some boxes hold."""
    return sum(len(x) * len(y) * len(z) for x, y, z in boxes)


def choose(boxes: Sequence[Box], grid: tuple[int, int, int], picks: Iterable[int]) -> Ids:
    """Return the numbers, in the grid, of the chosen ones among the blocks of some boxes."""
    numbers = []
    for pick in picks:
        place = int(pick)
        for x, y, z in boxes:
            size = len(x) * len(y) * len(z)
            if place < size:
                rest, i = divmod(place, len(x))
                k, j = divmod(rest, len(y))
                numbers.append((z[k] * grid[1] + y[j]) * grid[0] + x[i])
                break
            place -= size
    return np.sort(np.asarray(numbers, np.int64))


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
    total = launch.block_count
    totals: dict[str, float] = {}
    variances: dict[str, float] = {}
    ran = 0
    for k, group in enumerate(groups):
        size = size_of(group)
        share = size if k == 0 else min(size, max(2, round(blocks * size / total)))
        chosen = choose(group, launch.grid, generator.choice(size, share, replace=False))
        samples = []
        for block in chosen:
            counts = launch.new_counts()
            try:
                launch.run(np.array([block]), counts)
            except ExecutionError as error:
                raise SpecError(
                    f"{launch.name}: a sampled block cannot run alone ({error}); leave blocks= out"
                ) from error
            samples.append(totals_of(launch, counts, Executions.of(launch, counts)))
            launch.counts.add(counts)
        ran += share
        scale = size / share
        for name in samples[0]:
            if name in _DERIVED:
                continue
            values = np.array([sample[name] for sample in samples], np.float64)
            totals[name] = totals.get(name, 0) + float(values.sum()) * scale
            if share > 1:
                correction = 1 - share / size
                variance = size**2 * correction * float(values.var(ddof=1)) / share
                variances[name] = variances.get(name, 0) + variance
    issued = totals["warp_instructions"]
    totals["warp_efficiency"] = totals["thread_instructions"] / (32 * issued) if issued else float("nan")
    add_ratios(totals)
    return totals, {name: math.sqrt(value) for name, value in variances.items()}, ran
