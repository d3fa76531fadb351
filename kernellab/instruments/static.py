"""What the compiled code says without running: registers, shared memory, occupancy, instruction mix."""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING

from kernellab.errors import UnavailableError
from kernellab.instruments.float64 import float64_lines
from kernellab.instruments.occupancy import occupancy
from kernellab.instruments.reading import Reading

if TYPE_CHECKING:
    from kernellab.devices.program import Program
    from kernellab.emulator.ptx import Function
    from kernellab.plan import Launch, Plan


def read(program: Program, plan: Plan) -> tuple[Reading, ...]:
    """Return the Readings of a plan's first launch: resources, PTX mix, SASS mix.

    Raises
    ------
    UnavailableError
        If there is no machine code or no nvdisasm; `ptx_mix` needs neither.
    """
    return (*resources(program, plan), *ptx_mix(program, plan), *sass_mix(program, plan))


def resources(program: Program, plan: Plan) -> tuple[Reading, ...]:
    """Return registers, shared and local bytes, and theoretical occupancy.

    Raises
    ------
    UnavailableError
        If nothing here could make machine code.
    """
    launch = _first(plan)
    if launch is None:
        return ()
    from kernellab.compile.elf import resource_usage

    used = resource_usage(program.binary(launch.kernel))[program.entry(launch.kernel)]
    shared = used.shared_bytes + launch.shared_mem
    found = occupancy(program.arch, math.prod(launch.block), used.registers, shared, used.barriers)
    return (
        Reading("registers", used.registers, "registers/thread", "derived"),
        Reading("shared_bytes", shared, "bytes/block", "derived"),
        Reading("local_bytes", used.local_bytes, "bytes/thread", "derived"),
        Reading("occupancy", found.fraction, "1", "derived", f"limited by {' and '.join(found.limited_by)}"),
        Reading("resident_blocks", found.blocks, "blocks/multiprocessor", "derived"),
    )


def ptx_mix(program: Program, plan: Plan) -> tuple[Reading, ...]:
    """Return how many PTX instructions the kernel has, of which families: ``ptx/ld.global`` and so on.

    ``ptx_float64_instructions`` are those that compute in float64; its note holds their source lines.
    """
    launch = _first(plan)
    if launch is None:
        return ()
    from kernellab.emulation import parsed
    from kernellab.emulator.program import reachable

    binary, entry = program.binary(launch.kernel), program.entry(launch.kernel)
    functions, _ = reachable(parsed(binary.ptx), entry)
    mix = _mix("ptx", Counter(name for function in functions.values() for name in _families(function)))
    wide = float64_lines(binary, entry)
    count = sum(len(line.opcodes) for line in wide)
    where = "; ".join(map(str, wide))
    return (*mix, Reading("ptx_float64_instructions", count, "instructions", "derived", where))


def sass_mix(program: Program, plan: Plan) -> tuple[Reading, ...]:
    """Return how many machine instructions the kernel has, and of which kinds: ``sass/LDG.E.128`` and so on.

    Raises
    ------
    UnavailableError
        If there is no machine code or no nvdisasm.
    """
    launch = _first(plan)
    if launch is None:
        return ()
    from kernellab.compile.sass import sass_of

    entry = program.entry(launch.kernel)
    functions = sass_of(program.binary(launch.kernel)).functions
    if entry not in functions:
        raise UnavailableError(
            f"{launch.kernel.id}: the machine code has no {entry}, so there is no SASS mix"
        )
    return _mix("sass", Counter(item.opcode for item in functions[entry] if item.opcode != "NOP"))


def _first(plan: Plan) -> Launch | None:
    return plan.steps[0] if plan.steps else None


def _families(function: Function) -> list[str]:
    return [family(instruction.opcode) for instruction in function.body]


def family(opcode: str) -> str:
    """Return what a PTX opcode does, without types and modifiers; memory operations keep their space.

    Examples
    --------
    >>> family("ld.global.nc.v4.f32"), family("mad.lo.s32"), family("cvta.to.global.u64")
    ('ld.global', 'mad', 'cvta')
    """
    name, *modifiers = opcode.split(".")
    spaces = ("global", "shared", "local", "param", "const")
    space = next((item.partition("::")[0] for item in modifiers if item.partition("::")[0] in spaces), "")
    has_space = name in ("ld", "st", "ldu", "atom", "red", "cp", "prefetch")
    return f"{name}.{space}" if has_space and space else name


def _mix(kind: str, counts: Counter[str]) -> tuple[Reading, ...]:
    total = Reading(
        f"{kind}_instructions", sum(counts.values()), "instructions", "derived", "as written, once each"
    )
    parts = (
        Reading(f"{kind}/{name}", count, "instructions", "derived", "as written, once each")
        for name, count in sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    )
    return (total, *parts)
