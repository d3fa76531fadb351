"""Which PTX branches are still branches in SASS."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence

from kernellab.emulator.attribution_ptx import Blocks, branch_targets, is_branch
from kernellab.emulator.attribution_sass import Line
from kernellab.emulator.ptx import Function, Instruction

_ONE_TO_ONE = {
    "ld": ("LD", "LDG", "LDS", "LDL"),
    "st": ("ST", "STG", "STS", "STL"),
    "fma": ("FFMA", "DFMA", "HFMA2"),
    "shfl": ("SHFL",),
    **dict.fromkeys(("ex2", "lg2", "sin", "cos", "tanh"), ("MUFU",)),
}


def kept_branches(
    function: Function, blocks: Blocks, jumps: Sequence[Instruction], lines: Mapping[int, Line]
) -> tuple[frozenset[int], frozenset[int], tuple[str, ...]]:
    """Return the branches that kept a BRA or BRX, those whose number of executions differs, and notes.

    A branch to a return that became ``@P EXIT`` is none: the hardware counts no branch for it. Short
    branches become predicates. A jump that all lanes take together (``BRA.U``) and a jump through a table
    (``BRX``) have no line of their own, but that of an instruction before them in their block.
    """
    kept = {jump.index for jump in jumps if jump.line in lines and lines[jump.line].branches}
    doubtful: set[int] = set()
    own_lines = {jump.line for jump in jumps}
    for number, line in lines.items():
        strays = [opcode for opcode in line.branches if _is_late(opcode)]
        if number in own_lines or not strays:
            continue
        owner = _owner(function, blocks, number)
        if owner is not None and owner.index not in kept:
            kept.add(owner.index)
            if strays[0].startswith("BRX"):
                doubtful.add(owner.index)
    notes = []
    for jump in jumps:
        if jump.index in kept and _is_unrolled(function, jump, lines):
            doubtful.add(jump.index)
    for index in sorted(doubtful):
        reason = "unrolled" if _loop_start(function, function.body[index]) is not None else "made a table of"
        notes.append(f"{function.name}: ptxas {reason} the branch at PTX line {function.body[index].line}")
    return frozenset(kept), frozenset(doubtful), tuple(notes)


def _is_late(opcode: str) -> bool:
    return opcode.startswith(("BRX", "BRA.U"))


def _owner(function: Function, blocks: Blocks, line: int) -> Instruction | None:
    """Return the branch that ends the block of the instruction at or before `line`."""
    place = bisect_right(function.body, line, key=lambda instruction: instruction.line) - 1
    if place < 0:
        return None
    last = blocks.last(blocks.of[place])
    return last if is_branch(last) else None


def _loop_start(function: Function, jump: Instruction) -> int | None:
    targets = branch_targets(jump, function.labels, function.branch_targets)
    return min((target for target in targets if target <= jump.index), default=None)


def _is_unrolled(function: Function, jump: Instruction, lines: Mapping[int, Line]) -> bool:
    """Say whether the loop that `jump` closes runs several of its iterations a jump."""
    start = _loop_start(function, jump)
    if start is None:
        return False
    repeats = list(_repeats(function.body[start : jump.index], lines))
    if not repeats:
        return function.is_entry and len(lines[jump.line].branches) > 1 if jump.line in lines else False
    # Of a device function there may be a copy for each caller.
    usual = 1 if function.is_entry else min(_repeats(function.body, lines))
    return min(repeats) > usual


def _repeats(body: Sequence[Instruction], lines: Mapping[int, Line]) -> Iterator[int]:
    """Yield how often SASS has the instructions that become exactly one."""
    for instruction in body:
        heads = _ONE_TO_ONE.get(instruction.opcode.split(".")[0], ())
        line = lines.get(instruction.line)
        if line is not None and ".param" not in instruction.opcode:
            times = [n for opcode, n in line.opcodes.items() if opcode.split(".")[0] in heads]
            if times:
                yield max(times)
