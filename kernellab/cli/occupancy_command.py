"""``kernellab occupancy``."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kernellab import catalog
from kernellab.api_occupancy import Needs, is_file, needs
from kernellab.cli import output
from kernellab.cli.arguments import parse_sides
from kernellab.errors import SpecError
from kernellab.experiments.picture import Bar, Bars
from kernellab.instruments.occupancy import WARP, Multiprocessor, Occupancy, Waves, multiprocessor
from kernellab.kernel import Language
from kernellab.report.numbers import language_name
from kernellab.report.table import Column, Table

if TYPE_CHECKING:
    from rich.console import Console

SIDES = (32, 64, 96, 128, 192, 256, 384, 512, 768, 1024)
"""Threads of the blocks that are compared."""


def occupancy(
    target: str,
    block: str | None,
    shared_mem: int | None,
    grid: str | None,
    language: str,
    arch: str,
    json_file: Path | None,
) -> None:
    """Print what a block takes, how many fit, what limits them, other block sizes, and a grid's waves."""
    from kernellab.report.text import console

    output.check_files(json_file)
    threads = None if block is None else math.prod(parse_sides(block, "block"))
    kernel = int(target) if target.lstrip("-").isdigit() else target
    if threads is None and (isinstance(kernel, int) or is_file(kernel)):
        raise SpecError(f"occupancy: the threads of a block of {target} are not known; pass --block 256")
    sides = None if grid is None else parse_sides(grid, "grid")
    asked: list[tuple[str, Needs, Occupancy, Waves | None]] = []
    for each in _languages(kernel, language):
        taken = needs(kernel, threads, shared_mem, each, arch)
        found = taken.occupancy(arch)
        title = f"{target} ({language_name(each)})" if language == "both" else target
        asked.append((title, taken, found, None if sides is None else found.waves(sides)))
    if json_file is not None:
        plain = [_plain(title, arch, taken, found, waves) for title, taken, found, waves in asked]
        output.save_plain(plain if language == "both" else plain[0], json_file)
    if output.is_silent(json_file):
        return
    screen = console()
    for title, taken, found, waves in asked:
        _show(screen, title, arch, taken, found, waves)


def _languages(kernel: int | str, language: str) -> tuple[Language, ...]:
    """Return the languages to ask for: of both only those that there are.

    Raises
    ------
    SpecError
        If there are no two of what is asked for.
    """
    if language != "both":
        return output.languages(language)
    if isinstance(kernel, int) or is_file(kernel):
        raise SpecError(
            f"occupancy: {kernel} is in one language; leave --language both to rungs of the catalogue"
        )
    rung = catalog.kernel(kernel)
    if not rung.has_twin:
        raise SpecError(f"{kernel}: it has no Numba twin: {rung.twin}; ask for --language cuda-c")
    return output.languages(language)


def _show(
    screen: Console, title: str, arch: str, taken: Needs, found: Occupancy, waves: Waves | None
) -> None:
    from kernellab.report.pictures import ASCII, UNICODE, draw
    from kernellab.report.text import has_blocks, print_table

    print_table(screen, table(title, arch, taken, found))
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
        "launch bounds": (f"{taken.threads} threads", f"at most {taken.most_threads}"),
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
    if taken.threads > taken.most_threads:
        lines.append(f"it was compiled for blocks of at most {taken.most_threads} threads (__launch_bounds__), so none "
                     f"of {taken.threads} is launched; make the block smaller or raise the bound")  # fmt: skip
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
    for threads in sorted(each for each in {*SIDES, taken.threads} if each <= taken.most_threads):
        each = replace(taken, threads=threads).occupancy(arch)
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
