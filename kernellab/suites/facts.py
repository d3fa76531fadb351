"""Facts: what the machine code of a kernel takes, and why a twin is slower, in words made from them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from kernellab.devices.program import Program
from kernellab.instruments import static
from kernellab.plan import Plan

MORE = 1.15
"""Times as many instructions, or loads, as are worth a word."""
LESS = 0.95
"""Share of the other's occupancy that is worth a word."""
_WIDTHS = {"128": 16, "64": 8, "U16": 2, "S16": 2, "U8": 1, "S8": 1}


@dataclass(frozen=True)
class Facts:
    """What the machine code of all launches of a rung takes.

    Attributes
    ----------
    registers, local_bytes : int
        A thread; of the launch that takes most.
    occupancy : float
        Of the launch that has least.
    instructions : int
        As written, of all launches.
    loads, stores : int
        Global loads and stores as written.
    load_bytes, store_bytes : int
        A lane's bytes in the widest of them; 0 where there is none.
    local_accesses, calls : int
        Loads and stores of local memory, calls, as written.
    """

    registers: int
    local_bytes: int
    occupancy: float
    instructions: int
    loads: int
    stores: int
    load_bytes: int
    store_bytes: int
    local_accesses: int
    calls: int


def facts_of(program: Program, plan: Plan) -> Facts:
    """Read a rung's facts off its machine code.

    Raises
    ------
    UnavailableError
        If there is no machine code or no nvdisasm.
    """
    found = [_values(program, replace(plan, steps=(step,))) for step in plan.steps]
    mix: dict[str, float] = {}
    for values in found:
        for name, value in values.items():
            if name.startswith("sass/"):
                opcode = name.removeprefix("sass/")
                mix[opcode] = mix.get(opcode, 0) + value
    return Facts(
        registers=int(max(values["registers"] for values in found)),
        local_bytes=int(max(values["local_bytes"] for values in found)),
        occupancy=min(values["occupancy"] for values in found),
        instructions=int(sum(mix.values())),
        loads=_count(mix, "LDG"),
        stores=_count(mix, "STG"),
        load_bytes=_widest(mix, "LDG"),
        store_bytes=_widest(mix, "STG"),
        local_accesses=_count(mix, "LDL", "STL"),
        calls=_count(mix, "CALL"),
    )


def _values(program: Program, plan: Plan) -> dict[str, float]:
    readings = (*static.resources(program, plan), *static.sass_mix(program, plan))
    return {reading.name: reading.value for reading in readings}


def _count(mix: Mapping[str, float], *kinds: str) -> int:
    return int(sum(count for opcode, count in mix.items() if opcode.partition(".")[0] in kinds))


def _widest(mix: Mapping[str, float], kind: str) -> int:
    return max((width(opcode) for opcode in mix if opcode.partition(".")[0] == kind), default=0)


def width(opcode: str) -> int:
    """Return the bytes that a lane moves by a memory instruction.

    Examples
    --------
    >>> width("LDG.E.128.CONSTANT"), width("STG.E"), width("LDG.E.U16")
    (16, 4, 2)
    """
    return next((_WIDTHS[part] for part in re.split(r"[.]", opcode)[1:] if part in _WIDTHS), 4)


def reasons(first: Facts, twin: Facts) -> str:
    """Return in what the twin's machine code differs to its disadvantage; the plain numbers where in nothing.

    Examples
    --------
    >>> one = Facts(32, 0, 1.0, 100, 4, 1, 16, 16, 0, 0)
    >>> reasons(one, Facts(40, 40, 0.75, 210, 4, 1, 4, 16, 6, 0))  # doctest: +NORMALIZE_WHITESPACE
    '40 B/thread of local memory against 0 (6 accesses), loads 4 B wide against 16 B, occupancy 0.75 against
     1.00 (40 registers against 32), 2.1 x the instructions'
    >>> reasons(one, one)
    'by none of: local memory 0 B, loads 16 B, occupancy 1.00, 100 instructions, 32 registers'
    """
    found = []
    if twin.local_bytes > first.local_bytes or twin.local_accesses > first.local_accesses:
        against = f"against {first.local_bytes} ({twin.local_accesses} accesses)"
        found.append(f"{twin.local_bytes} B/thread of local memory {against}")
    for what, wide, narrow in (
        ("loads", first.load_bytes, twin.load_bytes),
        ("stores", first.store_bytes, twin.store_bytes),
    ):
        if narrow < wide:
            found.append(f"{what} {narrow} B wide against {wide} B")
    if twin.occupancy < LESS * first.occupancy:
        registers = f"({twin.registers} registers against {first.registers})"
        found.append(f"occupancy {twin.occupancy:.2f} against {first.occupancy:.2f} {registers}")
    if MORE * twin.loads < first.loads and twin.load_bytes == first.load_bytes:
        found.append(f"{twin.loads} loads written against {first.loads}: unrolled less")
    if twin.instructions > MORE * first.instructions:
        found.append(f"{twin.instructions / first.instructions:.1f} x the instructions")
    if twin.calls > first.calls:
        found.append(f"{twin.calls} calls against {first.calls}")
    return ", ".join(found) or (
        f"by none of: local memory {twin.local_bytes} B, loads {twin.load_bytes} B, occupancy "
        f"{twin.occupancy:.2f}, {twin.instructions} instructions, {twin.registers} registers"
    )


def plain(facts: Facts) -> dict[str, Any]:
    """Return the facts by name."""
    return dict(vars(facts))


__all__ = ["Facts", "facts_of", "plain", "reasons", "width"]
