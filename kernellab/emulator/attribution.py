"""SASS corrects what is counted: which PTX accesses and branches ptxas kept, merged, narrowed, removed.

Values and masks come from executing PTX; a hardware counter counts SASS. This module reads the SASS
listing, in which every instruction names the PTX line it came from, and says for each PTX access how the
machine is to count it. SASS is never executed.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from kernellab.emulator.attribution_address import accesses
from kernellab.emulator.attribution_branch import kept_branches
from kernellab.emulator.attribution_merge import displaced, may_be, parts_of, windows
from kernellab.emulator.attribution_ptx import (
    Blocks,
    PTXAccess,
    is_branch,
    read_registers,
    registers,
    sources,
)
from kernellab.emulator.attribution_sass import Copy, Line, Sass, by_line
from kernellab.emulator.ptx import Function, Vector


@dataclass(frozen=True, slots=True)
class Access:
    """How to count one PTX access.

    Attributes
    ----------
    width : int
        Bytes a lane, as issued. Of accesses that ptxas merged only the one with the lowest address
        counts, with the wide width.
    offset : int
        Bytes to add to its address.
    more : tuple of (offset, width)
        Further requests that the same PTX access became, such as the second half of a vector of which
        only the two middle elements are used.
    is_aggregated : bool
        ptxas made the warp elect one lane, which does the atomic for all lanes that are on.
    is_full_warp_only : bool
        With `is_aggregated`: only if all 32 lanes are on; otherwise each lane does its own.
    is_hardware_aggregated : bool
        ``ATOMS.POPC.INC``: the hardware counts the lanes of each address.
    is_loop : bool
        An atomic that became a loop of load and compare-and-swap.
    is_reduction : bool
        An atomic whose result is unused became a RED.
    is_approximate : bool
        SASS did not decide; counted as PTX says.
    """

    width: int
    offset: int = 0
    more: tuple[tuple[int, int], ...] = ()
    is_aggregated: bool = False
    is_full_warp_only: bool = False
    is_hardware_aggregated: bool = False
    is_loop: bool = False
    is_reduction: bool = False
    is_approximate: bool = False


@dataclass(frozen=True, slots=True)
class Spill:
    """A local access that no PTX instruction asks for; it runs with the block of PTX line `after_line`."""

    after_line: int
    is_store: bool
    width: int


@dataclass(frozen=True, slots=True)
class Attribution:
    """How a function's accesses and branches count.

    Attributes
    ----------
    accesses : mapping
        Instruction index -> Access; an index that is absent counts nothing.
    branches : frozenset of int
        Indexes of PTX branches that still branch.
    approximate_branches : frozenset of int
        Those of `branches` that SASS executes at other times than PTX: back edges of loops that ptxas
        unrolled, and comparisons that became a jump through a table.
    spills : tuple of Spill
    mapped : float
        Share of accesses and branches that SASS decided, 0 to 1.
    is_exact : bool
        All of them, with no approximate branch.
    notes : tuple of str
        What is approximate, for people.
    """

    accesses: Mapping[int, Access]
    branches: frozenset[int]
    spills: tuple[Spill, ...]
    mapped: float
    is_exact: bool
    notes: tuple[str, ...]
    approximate_branches: frozenset[int] = frozenset()


def attribute(function: Function, sass: Sequence[Sass] | None) -> Attribution:
    """Decide from SASS how each memory access and branch of a PTX function counts.

    Parameters
    ----------
    function : ptx.Function
        One function; only SASS instructions that come from its lines are looked at.
    sass : sequence of SassInstruction or None
        Everything that may hold its code, in order. None: nothing is known, all is counted from PTX.

    Returns
    -------
    Attribution
    """
    blocks = Blocks(function)
    asked = accesses(function, blocks)
    jumps = [instruction for instruction in function.body if is_branch(instruction)]
    last = function.body[-1].line if function.body else function.line
    lines = by_line(sass or (), function.line, last)
    if not lines:
        note = "no SASS" if sass is None else "no SASS instruction comes from its lines"
        return _from_ptx(function, asked, frozenset(jump.index for jump in jumps), note)
    decided = _Decisions(function, blocks, asked, lines).decide()
    branches, doubtful, notes = kept_branches(function, blocks, jumps, lines)
    total = len(asked) + len(jumps)
    unsure = sorted(index for index, access in decided.items() if access.is_approximate)
    unsure_lines = ", ".join(str(function.body[index].line) for index in unsure[:8])
    if unsure:
        notes = (f"{function.name}: accesses at PTX lines {unsure_lines} are counted from PTX", *notes)
    return Attribution(
        accesses=decided,
        branches=branches,
        spills=tuple(_spills(function, blocks, asked, lines)),
        mapped=(total - len(unsure)) / total if total else 1.0,
        is_exact=not unsure and not doubtful,
        notes=notes,
        approximate_branches=doubtful,
    )


def _from_ptx(
    function: Function, asked: Sequence[PTXAccess], jumps: frozenset[int], reason: str
) -> Attribution:
    counted = {access.index: Access(access.width, is_approximate=True) for access in asked}
    is_all = not counted and not jumps
    notes = () if is_all else (f"{function.name}: {reason}; all counts are from PTX",)
    return Attribution(counted, jumps, (), float(is_all), False, notes, jumps)


def _spills(
    function: Function, blocks: Blocks, asked: Sequence[PTXAccess], lines: Mapping[int, Line]
) -> Iterator[Spill]:
    expected = {(a.line, a.kind) for a in asked if a.space in ("local", "generic")}
    starts = [instruction.line for instruction in function.body]
    for number, line in sorted(lines.items()):
        for copy in line.memory:
            if copy.space == "local" and (number, copy.kind) not in expected:
                place = max(bisect_right(starts, number) - 1, 0)
                block = blocks.of[place]
                if copy.is_joined and block + 1 < len(blocks.starts):
                    place = blocks.starts[block + 1]
                yield Spill(function.body[place].line, copy.kind == "store", copy.width)


class _Decisions:
    """One function's decisions, access by access, then group by group."""

    def __init__(
        self, function: Function, blocks: Blocks, asked: Sequence[PTXAccess], lines: Mapping[int, Line]
    ) -> None:
        self.function = function
        self.blocks = blocks
        self.asked = asked
        self.lines = lines
        self.copies = {access.index: self._copies(access) for access in asked}
        self.found: dict[int, Access] = {}
        self.wide: dict[int, int] = {}
        self.orphans: list[PTXAccess] = []
        self.elected: set[str] = set()
        self.read = read_registers(function)
        self.peers = Counter((access.line, access.kind, access.space) for access in asked)

    def decide(self) -> dict[int, Access]:
        """Return the Access of each instruction that counts."""
        for access in self.asked:
            if access.kind == "atomic":
                self._atomic(access)
            else:
                self._plain(access)
        self._merge()
        for access in self.orphans:
            if not self._is_removable(access):
                self.found[access.index] = Access(access.width, is_approximate=True)
        return dict(sorted(self.found.items()))

    def _copies(self, access: PTXAccess) -> list[Copy]:
        line = self.lines.get(access.line)
        if line is None:
            return []
        return [copy for copy in line.memory if copy.kind == access.kind and may_be(access.space, copy.space)]

    def _plain(self, access: PTXAccess) -> None:
        copies = self.copies[access.index]
        widths = {copy.width for copy in copies}
        peers = self.peers[access.line, access.kind, access.space] * access.issued
        if not copies:
            self.orphans.append(access)
        elif len(copies) % peers:  # several accesses on one line of inline assembly: whose copies are these?
            self.found[access.index] = Access(access.width, is_approximate=True)
        elif access.kind.endswith("matrix") or widths == {access.width}:
            self.found[access.index] = Access(access.width)
        elif len(widths) == 1 and min(widths) > access.width:
            self.wide[access.index] = min(widths)
        elif max(widths) < access.width:
            self.found[access.index] = self._narrowed(access, copies)
        else:
            self.found[access.index] = Access(access.width, is_approximate=True)

    # -- vectors of which only some elements are used
    def _narrowed(self, access: PTXAccess, copies: Sequence[Copy]) -> Access:
        if access.count == 1:
            return Access(copies[0].width, is_approximate=len({copy.width for copy in copies}) > 1)
        parts = tuple(parts_of(access, self._used_elements(access)))
        wanted = sorted(width for _, width in parts)
        times, rest = divmod(len(copies), len(parts) or 1)
        if rest or sorted(copy.width for copy in copies) != sorted(wanted * times):
            parts = displaced(access, copies)
        if not parts:
            return Access(access.width, is_approximate=True)
        return Access(parts[0][1], parts[0][0], parts[1:])

    def _used_elements(self, access: PTXAccess) -> list[int]:
        result = self.function.body[access.index].operands[0]
        if access.kind != "load" or not isinstance(result, Vector):
            return list(range(access.count))
        return [
            i for i, each in enumerate(result.elements) if any(name in self.read for name in registers(each))
        ]

    # -- neighbours that became one
    def _merge(self) -> None:
        families: dict[object, list[PTXAccess]] = {}
        for access in self.asked:
            key = access.kind, access.space, access.base, access.block
            families.setdefault(key, []).append(access)
        for family in families.values():
            members = {access.index: access for access in family}
            wide = {index: width for index, width in self.wide.items() if index in members}
            if not wide:
                continue
            orphans = [access for access in self.orphans if access.index in members]
            for index, window in zip(wide, windows(wide, orphans, members, self.copies), strict=True):
                self._apply(members[index], window.start, window.width, window.members)

    def _apply(self, tagged: PTXAccess, start: int, width: int, members: Sequence[PTXAccess]) -> None:
        if len(members) == 1:  # its partners are elsewhere: other iterations, other blocks
            self.found[tagged.index] = Access(tagged.width, is_approximate=True)
            return
        leader = members[0]
        self.found[leader.index] = Access(width, start - leader.offset)
        served = {member.index for member in members}
        self.orphans = [access for access in self.orphans if access.index not in served]

    def _is_removable(self, access: PTXAccess) -> bool:
        """Say whether the absence of copies proves that nothing is issued."""
        if access.space == "local" or not self._is_block_alive(access.block):
            return True
        wanted = self._asked_bytes(access)
        same = [
            other
            for other in self.asked
            if other is not access
            and (other.base, other.kind) == (access.base, access.kind)
            and wanted
            and wanted <= self._issued_bytes(other)
        ]
        if access.kind != "load" or access.is_volatile:
            return any(other.block == access.block for other in same)
        if not same:
            return not self._is_used(access)
        return all(
            self.blocks.dominates(other.block, access.block)
            or self.blocks.dominates(access.block, other.block)
            for other in same
        )

    def _asked_bytes(self, access: PTXAccess) -> set[int]:
        starts = (access.offset + access.element * i for i in self._used_elements(access))
        return {start + byte for start in starts for byte in range(access.element)}

    def _issued_bytes(self, access: PTXAccess) -> set[int]:
        """Name the bytes of a symbolic address that SASS surely moves for an access."""
        found = self.found.get(access.index)
        if found is None or found.is_approximate:
            return set()
        parts = (found.offset, found.width), *found.more
        return {access.offset + at + byte for at, width in parts for byte in range(width)}

    def _is_used(self, access: PTXAccess) -> bool:
        """Say whether an instruction that SASS has reads what the load gives."""
        given = set(registers(self.function.body[access.index].operands[0]))
        return any(
            not given.isdisjoint(sources(instruction))
            for instruction in self.function.body
            if instruction.line in self.lines and instruction.index != access.index
        )

    def _is_block_alive(self, block: int) -> bool:
        body = self.function.body
        return any(body[index].line in self.lines for index in self.blocks.members(block))

    # -- atomics
    def _atomic(self, access: PTXAccess) -> None:
        line = self.lines.get(access.line)
        copies = self.copies[access.index]
        if line is None or not copies:
            self.orphans.append(access)
            return
        predicates = {copy.predicate for copy in copies if copy.predicate}
        by_vote = bool(line.elections) and len(predicates) > 0
        is_aggregated = by_vote or bool(predicates & self.elected)
        if by_vote:
            self.elected = predicates
        is_loop = any(".CAS" in copy.opcode for copy in copies) and ".cas" not in self._opcode(access)
        self.found[access.index] = Access(
            access.width,
            is_aggregated=is_aggregated,
            is_full_warp_only=is_aggregated and "SHFL" in line.elections,
            is_hardware_aggregated=any(".POPC." in copy.opcode for copy in copies),
            is_loop=is_loop,
            is_reduction=all(copy.opcode.startswith("RED") for copy in copies),
            is_approximate=len({copy.space for copy in copies}) > 1,
        )

    def _opcode(self, access: PTXAccess) -> str:
        return self.function.body[access.index].opcode
