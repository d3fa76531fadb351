"""``kernellab occupancy``."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kernellab.api_occupancy import Needs, is_file, needs
from kernellab.cli import output
from kernellab.cli.arguments import parse_sides
from kernellab.errors import SpecError
from kernellab.experiments.picture import Bar, Bars
from kernellab.instruments.occupancy import WARP, Multiprocessor, Occupancy, Waves, multiprocessor
from kernellab.kernel import Language
from kernellab.report.table import Column, Table

SIDES = (32, 64, 96, 128, 192, 256, 384, 512, 768, 1024)
"""Threads of the blocks that are compared."""


def occupancy(
    target: str,
    block: str | None,
    shared_mem: int | None,
    grid: str | None,
    language: Language,
    arch: str,
    json_file: Path | None,
) -> None:
    """Print what a block takes, how many fit, what limits them, other block sizes, and a grid's waves."""
    from kernellab.report.pictures import ASCII, UNICODE, draw
    from kernellab.report.text import console, has_blocks, print_table

    output.check_files(json_file)
    threads = None if block is None else math.prod(parse_sides(block, "block"))
    kernel = int(target) if target.lstrip("-").isdigit() else target
    if threads is None and (isinstance(kernel, int) or is_file(kernel)):
        raise SpecError(f"occupancy: the threads of a block of {target} are not known; pass --block 256")
    taken = needs(kernel, threads, shared_mem, language, arch)
    found = taken.occupancy(arch)
    waves = None if grid is None else found.waves(math.prod(parse_sides(grid, "grid")))
    if json_file is not None:
        text = json.dumps(_plain(target, arch, taken, found, waves), indent=1) + "\n"
        if output.is_silent(json_file):
            sys.stdout.write(text)
            return
        json_file.write_text(text, encoding="utf-8")
    screen = console()
    print_table(screen, table(target, arch, taken, found))
    for line in sentences(taken, found, waves, arch):
        screen.print(line, markup=False, highlight=False)
    for drawn in draw(sweep(taken, arch), screen.width, UNICODE if has_blocks(screen) else ASCII):
        screen.print(drawn)


def table(target: str, arch: str, taken: Needs, found: Occupancy) -> Table:
    """Return a row for each thing that limits blocks."""
    chip = multiprocessor(arch)
    warps = -(-taken.threads // WARP)
    takes = {
        "warps": (f"{warps}", f"{chip.warps}"),
        "blocks": ("1", f"{chip.blocks}"),
        "registers": (f"{taken.registers} a thread", f"{chip.registers}"),
        "shared memory": (f"{taken.shared_bytes} B", _shared(chip)),
        "barriers": (f"{taken.barriers}", f"{chip.blocks * chip.barriers_per_block}"),
    }
    rows = tuple(
        (name, *takes[name], str(count), "limits" if name in found.limited_by else "")
        for name, count in found.room.items()
    )
    head = ("", f"a block of {taken.threads} takes", "there are", "blocks that fit", "")
    return Table(f"{target} on {arch}", tuple(Column(name) for name in head), rows)


def _shared(chip: Multiprocessor) -> str:
    reserved = f", {chip.reserved_bytes} reserved a block" if chip.reserved_bytes else ""
    return f"{chip.shared_bytes} B{reserved}"


def sentences(taken: Needs, found: Occupancy, waves: Waves | None, arch: str) -> list[str]:
    """Return occupancy, idle lanes and waves in words."""
    most = multiprocessor(arch).warps
    share = f"{100 * found.fraction:.4g} % of {most} warps"
    lines = [f"{found.blocks} blocks, {found.warps} warps resident: {share}, limited by {found.limiter}"]
    if idle := -taken.threads % WARP:
        warps = -(-taken.threads // WARP)
        lines.append(f"{idle} of the {warps * WARP} lanes of a block's warps never work: {taken.threads} is no "
                     f"multiple of {WARP}")  # fmt: skip
    if waves is not None:
        tail = f", {waves.tail} in the last of {waves.full + 1}" if waves.tail else ""
        lines.append(
            f"a grid of {waves.blocks}: {waves.count:.4g} waves of {waves.capacity} blocks{tail}; "
            f"{100 * waves.efficiency:.3g} % of the places are taken"
        )
    return lines


def sweep(taken: Needs, arch: str) -> Bars:
    """Return the share of warps by threads a block, registers and shared memory of a block as they are."""
    bars = []
    for threads in sorted({*SIDES, taken.threads}):
        each = Needs(threads, taken.registers, taken.shared_bytes, taken.barriers).occupancy(arch)
        bars.append(Bar(str(threads), {"occupancy": 100 * each.fraction}))
    return Bars("occupancy by threads a block", "%", tuple(bars), 100.0)


def _plain(target: str, arch: str, taken: Needs, found: Occupancy, waves: Waves | None) -> Mapping[str, Any]:
    about = {"target": target, "arch": arch, **vars(taken)}
    about |= {**vars(found), "limiter": found.limiter}
    if waves is not None:
        about["waves"] = {
            **vars(waves),
            "count": waves.count,
            "tail": waves.tail,
            "efficiency": waves.efficiency,
        }
    return about
