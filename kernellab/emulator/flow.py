"""Control flow of one PTX function: basic blocks, and the order in which a diverged warp runs them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kernellab.emulator.ptx import Function, Instruction, Symbol
from kernellab.errors import UnsupportedPTXError

EXIT = -1
"""The virtual block behind every ``ret`` and ``exit``."""

_BRANCHES = ("bra", "brx")
_LEAVES = ("ret", "exit", "trap")
_PAUSES = (
    "call", "bar", "barrier", "shfl", "vote", "match", "redux", "elect",
    "mma", "wmma", "ldmatrix", "stmatrix", "movmatrix", "wgmma.wait_group",
)  # fmt: skip


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
    rank : int
        Place in an order in which every block comes behind those that lead to it, and all of a loop before
        what follows it. Of a diverged warp the lanes at the lowest rank run first, so that the others
        find them at the next block that both reach: as early as ptxas' convergence barriers let them.
    """

    index: int
    start: int
    stop: int
    terminator: Instruction | None
    successors: tuple[int, ...]
    rank: int


def family(opcode: str) -> str:
    """Return the opcode without its modifiers."""
    return opcode.split(".", 1)[0]


def ends_block(instruction: Instruction) -> bool:
    """Say whether control may leave the straight line at this instruction, or wait there."""
    return family(instruction.opcode) in _BRANCHES + _LEAVES or _pauses(instruction)


def _pauses(instruction: Instruction) -> bool:
    name, *parts = instruction.opcode.split(".")
    return name in _PAUSES or (bool(parts) and f"{name}.{parts[0]}" in _PAUSES)


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
        if last.guard is not None or _pauses(last):
            successors.append(following)
        cuts.append((start, stop - 1, last, tuple(successors)))
    ranks = _ranks([cut[3] for cut in cuts])
    return tuple(Block(i, *cut, ranks[i]) for i, cut in enumerate(cuts))


def _ranks(successors: Sequence[Sequence[int]]) -> list[int]:
    """Number blocks so that loops stay together: components in order, inside each first its header."""
    edges = {i: [target for target in targets if target != EXIT] for i, targets in enumerate(successors)}
    order: list[int] = []
    todo: list[tuple[set[int], frozenset[int]]] = [(set(edges), frozenset({0}) if edges else frozenset())]
    while todo:
        nodes, entries = todo.pop()
        if len(nodes) == 1:
            order += nodes
            continue
        inner = {node: [t for t in edges[node] if t in nodes and t not in entries] for node in nodes}
        parts = _components(inner)
        if len(parts) == 1:  # one loop without its header's incoming edges still: cut at its first block
            header = min(nodes)
            todo.append((nodes, entries | {header}))
            continue
        # the last pushed is the next one taken
        for part in reversed(parts):
            outside = frozenset(
                node for node in part if any(node in edges[other] for other in nodes - part)
            ) or frozenset({min(part)})
            todo.append((part, frozenset({min(outside)}) if len(part) > 1 else outside))
    ranks = [0] * len(edges)
    for place, node in enumerate(order):
        ranks[node] = place
    return ranks


def _components(edges: dict[int, list[int]]) -> list[set[int]]:
    """Return strongly connected components, each before those that it leads to (Kosaraju)."""
    finished: list[int] = []
    seen: set[int] = set()
    for root in sorted(edges):
        stack = [(root, iter(edges[root]))] if root not in seen else []
        seen.add(root)
        while stack:
            node, rest = stack[-1]
            following = next((target for target in rest if target not in seen), None)
            if following is None:
                finished.append(node)
                stack.pop()
            else:
                seen.add(following)
                stack.append((following, iter(edges[following])))
    reverse: dict[int, list[int]] = {node: [] for node in edges}
    for node, targets in edges.items():
        for target in targets:
            reverse[target].append(node)
    parts: list[set[int]] = []
    placed: set[int] = set()
    for root in reversed(finished):
        if root in placed:
            continue
        part, waiting = set(), [root]
        placed.add(root)
        while waiting:
            node = waiting.pop()
            part.add(node)
            fresh = [other for other in reverse[node] if other not in placed]
            placed.update(fresh)
            waiting += fresh
        parts.append(part)
    return parts
