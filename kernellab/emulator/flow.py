"""Control flow of one PTX function: basic blocks, and where a diverged warp reconverges."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kernellab.emulator.ptx import Function, Instruction, Symbol
from kernellab.errors import UnsupportedPTXError

EXIT = -1
"""The virtual block behind every ``ret`` and ``exit``."""

_BRANCHES = ("bra", "brx")
_LEAVES = ("ret", "exit", "trap")
_PAUSES = ("call", "bar", "barrier", "shfl", "vote", "match", "redux", "elect")


@dataclass(frozen=True, slots=True)
class Block:
    """A basic block.

    Attributes
    ----------
    index : int
    start, stop : int
        Straight-line instructions are ``body[start:stop]``.
    terminator : Instruction or None
        The branch, return, call, barrier or warp-wide instruction that ends the block; None falls through.
    successors : tuple of int
        Block indexes; for a branch the target comes first, then the fall-through.
    join : int
        Index of the immediate post-dominator, ``EXIT`` when there is none: where diverged lanes meet again.
    """

    index: int
    start: int
    stop: int
    terminator: Instruction | None
    successors: tuple[int, ...]
    join: int


def family(opcode: str) -> str:
    """Return the opcode without its modifiers."""
    return opcode.split(".", 1)[0]


def ends_block(instruction: Instruction) -> bool:
    """Say whether control may leave the straight line at this instruction, or wait there."""
    return family(instruction.opcode) in _BRANCHES + _LEAVES + _PAUSES


def _targets(function: Function, instruction: Instruction) -> list[int]:
    name = family(instruction.opcode)
    if name == "bra":
        target = instruction.operands[0]
        if not isinstance(target, Symbol) or target.name not in function.labels:
            raise UnsupportedPTXError(f"{function.name}: the target of `{instruction}` is not a label")
        return [function.labels[target.name]]
    if name == "brx":
        table = instruction.operands[1]
        assert isinstance(table, Symbol)
        return [function.labels[label] for label in function.branch_targets[table.name]]
    return []


def basic_blocks(function: Function) -> tuple[Block, ...]:
    """Cut a function into basic blocks.

    Parameters
    ----------
    function : Function

    Returns
    -------
    tuple of Block
        In program order; empty for an empty body.
    """
    body = function.body
    leaders = {0, *function.labels.values()}
    for instruction in body:
        if ends_block(instruction):
            leaders.add(instruction.index + 1)
    starts = sorted(leader for leader in leaders if leader < len(body))
    block_at = {start: i for i, start in enumerate(starts)}

    def block_of(position: int) -> int:
        return block_at.get(position, EXIT)

    cuts: list[tuple[int, int, Instruction | None, tuple[int, ...]]] = []
    for i, start in enumerate(starts):
        stop = starts[i + 1] if i + 1 < len(starts) else len(body)
        last = body[stop - 1] if stop > start else None
        following = block_of(stop)
        if last is None or not ends_block(last):
            cuts.append((start, stop, None, (following,)))
            continue
        name = family(last.opcode)
        successors = [block_of(target) for target in _targets(function, last)]
        if name in _LEAVES:
            successors = [EXIT]
        if last.guard is not None or name in _PAUSES:
            successors.append(following)
        cuts.append((start, stop - 1, last, tuple(successors)))
    joins = _post_dominators([cut[3] for cut in cuts])
    if function.is_entry:  # lanes that only have to leave wait for nobody
        ends = {i for i, cut in enumerate(cuts) if cut[0] == cut[1] and _is_end(cut[2])}
        joins = [EXIT if join in ends else join for join in joins]
    return tuple(Block(i, *cut, joins[i]) for i, cut in enumerate(cuts))


def _is_end(instruction: Instruction | None) -> bool:
    if instruction is None or instruction.guard is not None:
        return False
    return family(instruction.opcode) in ("ret", "exit")


def _post_dominators(successors: Sequence[Sequence[int]]) -> list[int]:
    """Immediate post-dominator of every block, by Cooper, Harvey and Kennedy's iteration."""
    count = len(successors)
    exit_node = count
    edges = [[exit_node if target == EXIT else target for target in targets] for targets in successors]
    edges.append([])
    predecessors: list[list[int]] = [[] for _ in range(count + 1)]
    for node, targets in enumerate(edges):
        for target in targets:
            predecessors[target].append(node)

    def order_from_exit() -> list[int]:
        seen = {exit_node}
        order: list[int] = []
        stack = [(exit_node, iter(predecessors[exit_node]))]
        while stack:
            node, rest = stack[-1]
            for target in rest:
                if target not in seen:
                    seen.add(target)
                    stack.append((target, iter(predecessors[target])))
                    break
            else:
                order.append(node)
                stack.pop()
        return order

    order = order_from_exit()
    while len(order) <= count:  # endless loops never reach the exit: give the last block of each an edge
        stuck = max(set(range(count)) - set(order))
        edges[stuck].append(exit_node)
        predecessors[exit_node].append(stuck)
        order = order_from_exit()
    rank = {node: i for i, node in enumerate(order)}
    joins: list[int | None] = [None] * (count + 1)
    joins[exit_node] = exit_node

    def intersect(first: int, second: int) -> int:
        while first != second:
            while rank[first] < rank[second]:
                first = joins[first]  # type: ignore[assignment]
            while rank[second] < rank[first]:
                second = joins[second]  # type: ignore[assignment]
        return first

    changed = True
    while changed:
        changed = False
        for node in reversed(order):
            if node == exit_node:
                continue
            new: int | None = None
            for target in edges[node]:
                if joins[target] is not None:
                    new = target if new is None else intersect(target, new)
            if joins[node] != new:
                joins[node] = new
                changed = True
    return [EXIT if join is None or join == exit_node else join for join in joins[:count]]
