"""``kernellab doctor``: one screen on what is here, what is missing and how to get it."""

from __future__ import annotations

import os
import platform
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from kernellab.compile import Part
from kernellab.errors import UnavailableError

NEEDED = ("NVRTC",)


def parts() -> Iterator[Part]:
    """Yield everything that decides what this machine can give."""
    from importlib import metadata

    from kernellab.compile import survey
    from kernellab.devices import device
    from kernellab.measurement import environment

    yield Part("kernellab", environment().get("kernellab", "not installed"), "this laboratory")
    yield Part(
        "Python",
        platform.python_version(),
        "3.11 or newer",
        "" if sys.version_info >= (3, 11) else "install 3.11",
    )
    yield Part("system", f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores", "", _system())
    yield Part("NumPy", metadata.version("numpy"), "arrays and references")
    for part in survey():
        yield with_probe(part) if part.name == "cache" else part
    try:
        yield Part("GPU", device("gpu").name, "timing and hardware counters (optional)")
    except UnavailableError as error:
        yield Part("GPU", None, "timing and hardware counters (optional)", str(error))


def with_probe(part: Part) -> Part:
    """Return the cache's part, having tried to write there: permissions alone do not tell."""
    folder = Path(part.value or "")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        remedy = (
            f"{folder} cannot be written ({error.strerror}); set KERNELLAB_CACHE_DIR to a writable directory"
        )
        return replace(part, remedy=remedy)
    return replace(part, value=f"{folder} (writable)", remedy="")


def _system() -> str:
    if platform.system() == "Darwin":
        return "NVRTC has no macOS wheel: use Linux or Windows"
    return ""


def doctor(json_file: Path | None) -> None:
    """Print the table; exit 3 if CUDA C cannot be compiled at all."""
    from rich.text import Text

    from kernellab.cli import output
    from kernellab.cli.errors import MISSING, in_options
    from kernellab.report.table import Column, Table
    from kernellab.report.text import console, print_table

    output.check_files(json_file)
    found = tuple(parts())
    lacking = [part for part in found if part.value is None or part.remedy]
    output.save_plain([vars(part) for part in found], json_file)
    if not output.is_silent(json_file):
        target = console()
        rows = tuple((_sign(part), part.name, part.value or "-", part.purpose) for part in found)
        head = (Column(""), Column("part"), Column("here"), Column("for"))
        print_table(target, Table("", head, rows))
        for part in lacking:
            target.print(Text(f"{part.name}: {in_options(part.remedy)}", "yellow"))
        target.print(Text(verdict(found), "bold"))
    if any(part.name in NEEDED and part.value is None for part in found):
        import typer

        raise typer.Exit(MISSING)


def _sign(part: Part) -> str:
    if part.value is None:
        return "missing"
    return "look" if part.remedy else "ok"


def verdict(found: tuple[Part, ...]) -> str:
    """Return in one sentence what can be done here."""
    here = {part.name: part.value is not None for part in found}
    if not here.get("NVRTC"):
        return "Nothing can be compiled here."
    exact = "exact counts" if here.get("nvdisasm") else "approximate counts (no nvdisasm)"
    tongues = "CUDA C and Numba" if here.get("numba-cuda") and here.get("nvJitLink") else "CUDA C"
    where = "the GPU and the emulator" if here.get("GPU") else "the emulator"
    return f"This machine runs {tongues} on {where}, with {exact}."
