"""``kernellab list`` and ``kernellab check``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from kernellab.cli import output
from kernellab.kernel import Kernel


def find_kernels(names: Sequence[str]) -> tuple[Kernel, ...]:
    """Return the rungs that names stand for, each once; all for no name."""
    from kernellab import catalog

    found = [kernel for name in (names or [""]) for kernel in catalog.kernels(name)]
    return tuple({kernel.id: kernel for kernel in found}.values())


def list_catalogue(names: Sequence[str]) -> None:
    """Print experiments, problems and rungs, each with its lesson."""
    from kernellab.experiments import EXPERIMENTS, load
    from kernellab.report.table import Column, Table
    from kernellab.report.text import console, print_table

    kernels = find_kernels(names)
    target = console()
    if not names:
        questions = tuple((name, load(name).question) for name in EXPERIMENTS)
        print_table(target, Table("Experiments", (Column("name"), Column("question")), questions))
    rows = tuple((kernel.id, _languages(kernel), kernel.header.lesson) for kernel in kernels)
    head = (Column("kernel"), Column("languages"), Column("lesson"))
    print_table(target, Table("Kernels", head, rows))


def _languages(kernel: Kernel) -> str:
    return "CUDA C, Numba" if kernel.has_twin else "CUDA C"


def check_catalogue(
    names: Sequence[str], device: str, language: str, json_file: Path | None, html_file: Path | None
) -> None:
    """Verify rungs on every case, print a table, and fail if one is not as it should be."""
    from kernellab.experiments.check import check
    from kernellab.report.checks import check_tables
    from kernellab.report.document import Document
    from kernellab.report.text import console, print_table

    kernels = find_kernels(names)
    output.check_files(json_file, html_file)
    with output.progress() as progress:
        checks = check(kernels, device, output.languages(language), progress)
    output.save(Document("check", checks=checks, environment=output.environment()), json_file, html_file)
    if not output.is_silent(json_file):
        target = console()
        for table in check_tables(checks):
            print_table(target, table)
    output.fail(not all(item.is_expected for item in checks))
