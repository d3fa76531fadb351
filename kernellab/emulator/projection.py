"""Instruction counts as SASS has them: PTX says how often each block ran, SASS how many instructions that is.

Every SASS instruction names the PTX line that it came from, so it ran as often as that line's block, divided
by the number of copies where ptxas unrolled. Code behind a branch that ptxas turned into predicates is issued
for every warp that reaches the branch, with some of its lanes switched off.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from kernellab.compile.binary import SassInstruction
from kernellab.emulator.attribution import Attribution
from kernellab.emulator.code import Code
from kernellab.emulator.counts import Counts
from kernellab.emulator.flow import EXIT, Block
from kernellab.emulator.fragment_requests import fragment_access
from kernellab.emulator.tensor_operations import product_shape

_PADDING = ("NOP",)


@dataclass(frozen=True)
class Projection:
    """Instruction counts of a launch on SASS.

    Attributes
    ----------
    warp_instructions : int
        As ``smsp__inst_executed``.
    thread_instructions : int
        As ``smsp__thread_inst_executed``: lanes that are active, also where a predicate switches them off.
    thread_instructions_on : int
        As ``smsp__sass_thread_inst_executed_pred_on``: lanes that do something.
    """

    warp_instructions: int
    thread_instructions: int
    thread_instructions_on: int

    def __add__(self, other: Projection) -> Projection:
        return Projection(
            self.warp_instructions + other.warp_instructions,
            self.thread_instructions + other.thread_instructions,
            self.thread_instructions_on + other.thread_instructions_on,
        )


def project(
    code: Code, attribution: Attribution, sass: Sequence[SassInstruction], counts: Counts
) -> Projection:
    """Project what a function's blocks did onto its SASS.

    Parameters
    ----------
    code : Code
    attribution : Attribution
        Says which branches SASS kept.
    sass : sequence of SassInstruction
        Everything that may hold the function's code.
    counts : Counts

    Returns
    -------
    Projection
    """
    body = code.function.body
    if not body or not code.blocks:
        return Projection(0, 0, 0)
    first_line, last_line = code.function.line, body[-1].line
    lines = [instruction.line for instruction in body]
    block_of = _block_of_each_instruction(code)
    issued_with = _issuing_blocks(code, attribution)
    own, expanded = _own(sass)
    by_block: dict[int, list[SassInstruction]] = {}
    meetings: list[int] = []
    is_meeting = False
    for instruction in own:
        line = instruction.ptx_line
        if line is None or not first_line <= line <= last_line:
            continue
        if instruction.opcode == "BSYNC":  # its line is that of what stands before it, its place is the join
            is_meeting = True
            continue
        number = block_of[max(bisect_right(lines, line) - 1, 0)]
        if is_meeting:
            meetings.append(number)
            is_meeting = False
        by_block.setdefault(number, []).append(instruction)
    warps = lanes = on = 0.0
    for number in meetings:  # every part of a warp executes it for itself
        place = code.first_block + number
        warps += counts.block_warps[place] + counts.splits[place]
        lanes += counts.block_lanes[place]
        on += counts.block_lanes[place]
    gone = _gone(code, attribution, counts)
    parts = _parts(code)
    for number, instructions in by_block.items():
        copies = _copies(
            [each for each in instructions if each.ptx_line not in expanded] or instructions, parts
        )
        place, issuing = code.first_block + number, code.first_block + issued_with[number]
        block_warps, block_lanes = counts.block_warps[issuing], counts.block_lanes[issuing]
        own_lanes = counts.block_lanes[place] if place != issuing else block_lanes
        for instruction in instructions:
            if instruction.opcode.startswith("EXIT") and not instruction.predicate:
                left_warps, left_lanes = gone.get(EXIT, (0, 0))
                warps += block_warps - left_warps
                lanes += block_lanes - left_lanes
                on += block_lanes - left_lanes
                continue
            warps += block_warps / copies
            lanes += block_lanes / copies
            if instruction.opcode.startswith("EXIT"):
                on += gone.get(number, (0, 0))[1]
            else:
                on += (own_lanes if instruction.predicate else block_lanes) / copies
    return Projection(round(warps), round(lanes), round(on))


_owns: dict[int, tuple[Sequence[SassInstruction], list[SassInstruction], set[int | None]]] = {}
KEPT_LISTINGS = 32


def _own(sass: Sequence[SassInstruction]) -> tuple[list[SassInstruction], set[int | None]]:
    """Return the instructions that are a kernel's own, and the lines that call routines of ptxas.

    Worked out once for each listing, of which a launch is given the very object again.
    """
    known = _owns.get(id(sass))
    if known is None:
        while len(_owns) >= KEPT_LISTINGS:
            _owns.pop(next(iter(_owns)))
        expanded = {instruction.ptx_line for instruction in sass if is_routine(instruction)}
        known = _owns[id(sass)] = (sass, _without_routines(_without_padding(sass)), expanded)
    return known[1:]


def _gone(code: Code, attribution: Attribution, counts: Counts) -> dict[int, tuple[int, int]]:
    """Return the warps and lanes that leave by ``@P EXIT`` at the end of a block; under EXIT their sum."""
    gone: dict[int, tuple[int, int]] = {}
    total_warps = total_lanes = 0
    for block in code.blocks:
        last = block.terminator
        if last is None or last.guard is None or last.index in attribution.branches:
            continue
        if not last.opcode.startswith("bra") or not _returns(code, block.successors[0]):
            continue
        here, behind = code.first_block + block.index, code.first_block + block.successors[1]
        warps = int(counts.block_warps[here] - counts.block_warps[behind])
        lanes = int(counts.block_lanes[here] - counts.block_lanes[behind])
        gone[block.index] = (warps, lanes)
        total_warps, total_lanes = total_warps + warps, total_lanes + lanes
    gone[EXIT] = (total_warps, total_lanes)
    return gone


def _returns(code: Code, target: int) -> bool:
    """Say whether a block does nothing but return."""
    return target == EXIT or code.only_returns(code.blocks[target])


def _without_padding(sass: Sequence[SassInstruction]) -> list[SassInstruction]:
    """Drop what fills up a section: NOPs, and the jump to itself in front of them."""
    found = []
    for i, instruction in enumerate(sass):
        if instruction.opcode in _PADDING or instruction.predicate == "!PT":
            continue
        is_last = i + 1 == len(sass) or sass[i + 1].opcode in _PADDING or sass[i + 1].address == 0
        if instruction.opcode == "BRA" and instruction.predicate is None and is_last:
            continue
        found.append(instruction)
    return found


def _without_routines(sass: Sequence[SassInstruction]) -> list[SassInstruction]:
    """Drop the way to ptxas' own routines, which division and roots take for awkward operands only, and the
    jump that follows the one that closes a loop: it is taken once, when the loop ends.

    That way is moves, of the return address too, the call, and on the same PTX line moves and the jump back.
    """
    found: list[SassInstruction] = []
    way: int | None = None
    for instruction in sass:
        if is_routine(instruction):
            way = instruction.ptx_line
            while found and "MOV" in found[-1].opcode and found[-1].ptx_line == way:
                found.pop()
            continue
        is_jump = instruction.opcode == "BRA" and instruction.predicate is None
        if way is not None and instruction.ptx_line == way and (is_jump or "MOV" in instruction.opcode):
            way = None if is_jump else way
            continue
        way = None
        last = found[-1] if found else None
        if is_jump and last is not None and last.opcode == "BRA" and last.ptx_line == instruction.ptx_line:
            continue
        found.append(instruction)
    return found


def is_routine(instruction: SassInstruction) -> bool:
    """Say whether an instruction calls a routine of ptxas' own."""
    return instruction.opcode.startswith("CALL") and "__cuda_sm" in instruction.operands


def _block_of_each_instruction(code: Code) -> list[int]:
    owner = [0] * len(code.function.body)
    for block in code.blocks:
        stop = block.stop + (1 if block.terminator is not None else 0)
        for index in range(block.start, stop):
            owner[index] = block.index
    return owner


def _issuing_blocks(code: Code, attribution: Attribution) -> list[int]:
    """For each block: the one whose warps issue it, which is further up where a branch became predicates."""
    issued = list(range(len(code.blocks)))
    entries: dict[int, list[Block]] = {}
    for block in code.blocks:
        for target in block.successors:
            if target != EXIT:
                entries.setdefault(target, []).append(block)
    for block in code.blocks:
        sources = entries.get(block.index, [])
        if len(sources) != 1 or sources[0].index >= block.index:
            continue
        source = sources[0]
        last = source.terminator
        is_branch = last is not None and last.opcode.startswith("bra") and last.guard is not None
        if is_branch and last is not None and last.index not in attribution.branches:
            if any(target != block.index and _returns(code, target) for target in source.successors):
                continue  # @P EXIT: the warps without lanes are gone
            issued[block.index] = issued[source.index]
    return issued


def _parts(code: Code) -> dict[int, int]:
    """Return the lines of matrix operations of which one execution is several equal instructions."""
    found = {}
    for instruction in code.function.body:
        if access := fragment_access(instruction.opcode):
            found[instruction.line] = access.issued
        elif product := product_shape(instruction.opcode):
            found[instruction.line] = product.instructions
    return found


_TELLING = (
    "LDG", "STG", "LDS", "STS", "LD.", "ST.", "FFMA", "DFMA", "ATOM", "RED", "SHFL", "MUFU", "HMMA", "IMMA", "DMMA",
)  # fmt: skip


def _copies(instructions: Sequence[SassInstruction], parts: Mapping[int, int]) -> int:
    """Estimate how many copies of a block there are: how often its lines have their commonest instruction."""
    by_line: dict[int, Counter[str]] = {}
    for instruction in instructions:
        by_line.setdefault(instruction.ptx_line or 0, Counter())[instruction.opcode] += 1
    telling = [
        max(times // parts.get(line, 1), 1)
        for line, counter in by_line.items()
        for opcode, times in counter.items()
        if opcode.startswith(_TELLING)
    ]
    most: Any = Counter(telling or [counter.most_common(1)[0][1] for counter in by_line.values()])
    return int(np.max([times for times, n in most.items() if n == max(most.values())]))
