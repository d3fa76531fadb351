"""Checks as tables: a row a rung, and what went wrong."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kernellab.report.numbers import language_name
from kernellab.report.table import Column, Table

if TYPE_CHECKING:
    from kernellab.experiments.check import Check


def check_tables(checks: Sequence[Check]) -> tuple[Table, ...]:
    """Return a table of rungs and, where something is not as it should be, one of what is wrong."""
    languages = tuple(dict.fromkeys(item.language for item in checks))
    kernels = dict.fromkeys(item.kernel for item in checks)
    rows = []
    for kernel in kernels:
        cells = []
        for language in languages:
            cells.append(_cell([c for c in checks if c.kernel == kernel and c.language == language]))
        own = [item for item in checks if item.kernel == kernel]
        rows.append((kernel, *cells, "right" if all(item.is_expected for item in own) else "WRONG"))
    columns = (Column("kernel"), *(Column(language_name(each)) for each in languages), Column("verdict"))
    tables = [Table("Every case against NumPy, races looked for", columns, tuple(rows))]
    wrong = [item for item in checks if not item.is_expected]
    if wrong:
        head = (Column("kernel"), Column("language"), Column("case"), Column("what is wrong"))
        body = tuple((c.kernel, language_name(c.language), c.case, c.message) for c in wrong)
        tables.append(Table("Not as it should be", head, body))
    return tuple(tables)


def _cell(checks: Sequence[Check]) -> str:
    if not checks:
        return "no twin"
    right = sum(item.is_right for item in checks)
    faults = sum(not item.is_right and item.is_expected for item in checks)
    text = f"{right} of {len(checks)} right"
    return text + (f", {faults} wrong on purpose" if faults else "")
