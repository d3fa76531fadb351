"""``kernellab list`` and ``kernellab check``."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from kernellab.cli import output
from kernellab.kernel import Kernel

if TYPE_CHECKING:
    from kernellab.report.table import Table


def find_kernels(names: Sequence[str]) -> tuple[Kernel, ...]:
    """Return the rungs that names stand for, each once; all for no name."""
    from kernellab import catalog

    found = [kernel for name in (names or [""]) for kernel in catalog.kernels(name)]
    return tuple({kernel.id: kernel for kernel in found}.values())


def list_catalogue(names: Sequence[str]) -> None:
    """Print experiments and problems; of named problems their rungs; of named rungs what and where they are."""
    from kernellab import catalog
    from kernellab.experiments import EXPERIMENTS, load
    from kernellab.report.table import Column, Table
    from kernellab.report.text import console, print_table

    target = console()
    if not names:
        questions = tuple((name, load(name).question) for name in EXPERIMENTS)
        print_table(target, Table("Experiments", (Column("name"), Column("question")), questions))
        ladders = tuple(
            (name, catalog.problem(name).summary, " ".join(kernel.name for kernel in catalog.ladder(name)))
            for name in catalog.PROBLEMS
        )
        head = (Column("problem"), Column("computes"), Column("kernels, the simplest first"))
        note = (
            "kernellab list PROBLEM: what each kernel teaches; PROBLEM/KERNEL: where it is, in both languages"
        )
        print_table(target, Table("Problems", head, ladders, (note,)))
    for name in dict.fromkeys(names):
        print_table(target, _rung_table(catalog.kernel(name)) if "/" in name else _ladder_table(name))


def _ladder_table(name: str) -> Table:
    from kernellab import catalog
    from kernellab.report.table import Column, Table

    ladder, problem = catalog.ladder(name), catalog.problem(name)
    rows = tuple((kernel.id, _languages(kernel), kernel.header.lesson) for kernel in ladder)
    head = (Column("kernel"), Column("languages"), Column("lesson"))
    return Table(f"{name}: {problem.summary}", head, rows, (f"reference: {where(problem.reference)}",))


def _rung_table(kernel: Kernel) -> Table:
    from kernellab.report.table import Column, Table

    header = kernel.header
    twin = kernel.twin if isinstance(kernel.twin, str) else where(kernel.twin)
    rows = (
        ("lesson", header.lesson),
        *header.sections.items(),
        *((("fault", kernel.fault),) if kernel.fault else ()),
        *((("gives up", kernel.gives_up),) if kernel.gives_up else ()),
        *((("elements", ", ".join(kernel.elements)),) if kernel.elements else ()),
        *((("requires", ", ".join(kernel.requires)),) if kernel.requires else ()),
        ("CUDA C", f"kernels_cu/{kernel.id}.cu"),
        ("Numba", twin),
        ("reference", where(kernel.problem.reference)),
    )
    return Table("", (Column(kernel.id), Column(kernel.problem.summary)), rows)


def where(function: Callable[..., object]) -> str:
    """Return the file and line of a function, from the folder that holds the package.

    Examples
    --------
    >>> where(find_kernels).partition(":")[0]
    'kernellab/cli/catalogue.py'
    """
    import kernellab

    code = inspect.unwrap(getattr(function, "func", function)).__code__  # a partial has a `func`
    path = Path(code.co_filename)
    folder = Path(kernellab.__file__).parents[1]
    shown = path.relative_to(folder) if path.is_relative_to(folder) else path
    return f"{shown.as_posix()}:{code.co_firstlineno}"


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
