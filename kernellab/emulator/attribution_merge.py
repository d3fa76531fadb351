"""Which neighbouring PTX accesses ptxas made one: windows of the wide copy's size over their offsets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from kernellab.emulator.attribution_ptx import PTXAccess
from kernellab.emulator.attribution_sass import Copy


@dataclass(frozen=True, slots=True)
class Window:
    """One wide access in place of several: where it starts, how wide it is, whom it serves."""

    start: int
    width: int
    members: tuple[PTXAccess, ...]


def windows(
    wide: Mapping[int, int], orphans: Sequence[PTXAccess], accesses: Mapping[int, PTXAccess],
    copies: Mapping[int, Sequence[Copy]],
) -> tuple[Window, ...]:  # fmt: skip
    """Place the wide copies of one basic block and one symbolic address.

    Parameters
    ----------
    wide : mapping
        Index of each PTX access whose line has copies that are wider than it -> their width.
    orphans : sequence of PTXAccess
        Accesses whose lines have no copy.
    accesses, copies : mapping
        Every access with this address by index, and its copies.

    Returns
    -------
    tuple of Window
        One for each wide copy. All are aligned alike; of all alignments the one is taken that serves
        most orphans and agrees best with the displacements that SASS writes.
    """
    step = min(access.element for access in accesses.values())
    limit = max(wide.values())
    return max(
        (tuple(_placed(wide, orphans, accesses, phase)) for phase in range(0, limit, step)),
        key=lambda placed: _merit(placed, wide, accesses, copies),
    )


def _placed(
    wide: Mapping[int, int], orphans: Sequence[PTXAccess], accesses: Mapping[int, PTXAccess], phase: int
) -> Iterator[Window]:
    for index, width in wide.items():
        access = accesses[index]
        start = (access.offset - phase) // width * width + phase
        inside = [o for o in orphans if start <= o.offset and o.end <= start + width]
        members = sorted([access, *inside], key=lambda member: (member.offset, member.index))
        yield Window(start, width, tuple(members))


def _merit(
    placed: Sequence[Window],
    wide: Mapping[int, int],
    accesses: Mapping[int, PTXAccess],
    copies: Mapping[int, Sequence[Copy]],
) -> tuple[int, int, int, int]:
    tagged = [accesses[index] for index in wide]
    overflow = sum(
        access.end > window.start + window.width for access, window in zip(tagged, placed, strict=True)
    )
    starts = sorted((window.start, window.start + window.width) for window in placed)
    clashes = sum(first[1] > second[0] for first, second in pairwise(starts))
    served = {member.index for window in placed for member in window.members}
    return (
        -overflow - clashes,
        len(served),
        _agreement(placed, tagged, accesses, copies),
        -abs(placed[0].start),
    )


def _agreement(
    placed: Sequence[Window],
    tagged: Sequence[PTXAccess],
    accesses: Mapping[int, PTXAccess],
    copies: Mapping[int, Sequence[Copy]],
) -> int:
    """Count the accesses whose SASS displacement differs from the PTX constant by the commonest amount."""
    starts = {access.index: window.start for access, window in zip(tagged, placed, strict=True)}
    votes: dict[tuple[str, int], int] = {}
    for index, access in accesses.items():
        start = starts.get(index, access.offset)
        for vote in {(copy.base, copy.place - start) for copy in copies.get(index, ())}:
            votes[vote] = votes.get(vote, 0) + 1
    return max(votes.values(), default=0)


def may_be(asked: str, issued: str) -> bool:
    """Say whether an access to one state space can have become one to another."""
    return asked == issued or "generic" in (asked, issued)


def parts_of(access: PTXAccess, used: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Cover the used elements by aligned loads, as ptxas does: (offset, width) of each."""
    waiting = list(used)
    while waiting:
        first, count = waiting[0], 1
        while (
            first % (2 * count) == 0
            and set(range(first, first + 2 * count)) <= set(waiting)
            and 2 * count * access.element <= 16
        ):
            count *= 2
        yield first * access.element, count * access.element
        waiting = waiting[count:]


def displaced(access: PTXAccess, copies: Sequence[Copy]) -> tuple[tuple[int, int], ...]:
    """Read (offset, width) of a vector's parts from what SASS adds to their address; empty if unclear."""
    vectors: dict[tuple[str, int], set[tuple[int, int]]] = {}
    for copy in copies:
        number, offset = divmod(copy.place, access.width)
        vectors.setdefault((copy.base, number), set()).add((offset, copy.width))
    patterns = {tuple(sorted(parts)) for parts in vectors.values()}
    return patterns.pop() if len(patterns) == 1 else ()
