"""Reports as text: rich tables and pictures on a console, plain in a pipe or with NO_COLOR."""

from __future__ import annotations

import io
import math
import os
import shutil
import sys
from collections.abc import Sequence
from typing import IO, TYPE_CHECKING, Any

from rich import box
from rich.console import Console
from rich.measure import Measurement
from rich.table import Table as RichTable
from rich.text import Text

from kernellab.report.numbers import language_name
from kernellab.report.pictures import ASCII, UNICODE, draw
from kernellab.report.source import source_tables
from kernellab.report.table import (
    EXACT,
    Table,
    expectations_line,
    outcome_table,
    panel_table,
    totals_table,
    verdicts,
)

if TYPE_CHECKING:
    from kernellab.experiments.experiment import Result
    from kernellab.report.document import Document
    from kernellab.trace import Trace

VERDICT_STYLES = {
    "held": "green",
    "right": "green",
    "failed": "bold red",
    "WRONG": "bold red",
    "refuted": "magenta",
    "needs a GPU": "yellow",
    "needs nvdisasm": "yellow",
    "needs counts": "yellow",
    "not timed": "yellow",
}
PLACES = {
    "emulator": "counted on the emulator; no time is measured",
    "gpu": "timed on the GPU; nothing is counted",
    "both": "timed on the GPU, counted on the emulator",
}
PIPE_WIDTH = 120


def console(width: int | None = None) -> Console:
    """Return a console on standard output: its own width on a terminal, 120 columns in a pipe."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")
    if width is None and not sys.stdout.isatty():
        width = shutil.get_terminal_size((PIPE_WIDTH, 24)).columns
    file: Any = Lasting(sys.stdout)
    return Console(file=file, width=width, highlight=False, emoji=False, soft_wrap=False)


class Lasting:
    """A text stream that takes what nobody reads any more: ``kernellab run | head -1`` comes to its end."""

    def __init__(self, stream: IO[str]) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """Write, or drop the text once the reader of the pipe has gone."""
        try:
            return self._stream.write(text)
        except BrokenPipeError:
            self._drop()
            return len(text)

    def flush(self) -> None:
        """Flush, or drop what is left."""
        try:
            self._stream.flush()
        except BrokenPipeError:
            self._drop()

    def _drop(self) -> None:
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, self._stream.fileno())
        os.close(null)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def has_blocks(target: Console) -> bool:
    """Whether the console can show block characters."""
    return target.encoding.lower().startswith("utf")


def print_table(target: Console, table: Table) -> None:
    """Print a table, its title above and its notes below."""
    if table.title:
        target.print(Text(table.title, "bold"))
    is_source = bool(table.columns) and table.columns[0].header == "line"
    grid = _grid(target, table, padding=0 if is_source else 1)
    if Measurement.get(target, target.options.update(max_width=1000), grid).maximum > target.width:
        grid = _grid(target, table, padding=0)
    target.print(grid)
    for note in table.notes:
        target.print(Text(note, "dim"))
    target.print()


def _grid(target: Console, table: Table, padding: int) -> RichTable:
    style = box.SIMPLE_HEAD if has_blocks(target) else box.ASCII
    grid = RichTable(box=style, pad_edge=False, padding=(0, padding, 0, 0), show_edge=False)
    is_source = bool(table.columns) and table.columns[0].header == "line"
    has_numbers = any(column.is_number for column in table.columns)
    for index, column in enumerate(table.columns):
        is_text = is_source and index == len(table.columns) - 1
        is_label = has_numbers and index == 0
        grid.add_column(
            Text(column.header),
            justify="right" if column.is_number else "left",
            vertical="top",
            no_wrap=has_numbers,
            overflow="ellipsis" if is_text else "fold",
            min_width=_natural_width(table, index) if column.is_number or is_label else None,
            max_width=_rest(target, table, padding) if is_text else None,
        )
    for row in table.rows:
        grid.add_row(*(_cell(value) for value in row))
    return grid


def _rest(target: Console, table: Table, padding: int) -> int:
    """The columns that are left for the text of a source line."""
    taken = sum(_natural_width(table, index) + 1 + padding for index in range(len(table.columns) - 1))
    return max(20, target.width - taken)


def _natural_width(table: Table, index: int) -> int:
    texts = [*table.columns[index].header.split("\n"), *(row[index] for row in table.rows)]
    return min(40, max(map(len, texts)))


def _cell(value: str) -> Text:
    style = VERDICT_STYLES.get(value.split("\n")[0].split("*")[0].split(" (")[0], "")
    return Text(value, style)


def print_result(target: Console, result: Result, *, is_pictured: bool | None = None) -> None:
    """Print an experiment: question, pictures, tables, expectations, claims.

    Parameters
    ----------
    target : rich.console.Console
        Where to.
    result : Result
        What an experiment gave.
    is_pictured : bool, optional
        Whether to draw; by default on a terminal only.
    """
    target.print(Text(f"{result.name}: {result.question}", "bold underline"))
    where = PLACES.get(result.device, result.device)
    names = " and ".join(language_name(each) for each in result.languages)
    target.print(Text(f"{names}, {where}", "dim"))
    target.print()
    if target.is_terminal if is_pictured is None else is_pictured:
        signs = UNICODE if has_blocks(target) else ASCII
        for picture in result.pictures:
            title, *lines = draw(picture, target.width, signs)
            target.print(title)
            for line in lines:
                target.print(line, no_wrap=True, overflow="crop")
            target.print()
    for panel in result.panels:
        print_table(target, panel_table(panel, result.languages))
    print_table(target, outcome_table("Expectations", result.expectations))
    if result.claims:
        print_table(target, outcome_table("Claims", result.claims))
    for note in result.notes:
        target.print(Text(note, "dim"))
    target.print(summary(result))
    target.print()


def summary(result: Result) -> Text:
    """Return an experiment in one line."""
    claims = verdicts(result.claims)
    known = dict.fromkeys((*(v for v in ("held", "refuted", "needs a GPU") if v in claims), *claims))
    parts = [f"{claims.count(verdict)} {verdict}" for verdict in known]
    judged = f"; claims: {', '.join(parts)}" if parts else ""
    text = f"{result.name}: {expectations_line(result)}{judged}; {result.seconds:.1f} s"
    is_whole = all(verdict == "held" for verdict in verdicts(result.expectations))
    return Text(text, "green" if is_whole else "yellow" if result.is_right else "bold red")


def print_trace(target: Console, trace: Trace, *, failure: str = "") -> None:
    """Print a trace: source with counts beside the lines, totals, diagnostics.

    Parameters
    ----------
    target : rich.console.Console
        Where to.
    trace : Trace
        What a launch counted.
    failure : str
        The message of an error that is told elsewhere, and not once more here.
    """
    label = trace_label(trace)
    target.print(Text(_launch_line(trace), "bold"))
    if trace.sampled_blocks:
        target.print(
            Text(
                f"sampled: {trace.sampled_blocks} blocks ran, counts are scaled up; outputs are incomplete",
                "yellow",
            )
        )
    for table in source_tables(trace.lines, label, target.width):
        print_table(target, table)
    print_table(target, totals_table(trace.totals, label, trace.standard_errors or None))
    for diagnostic in trace.diagnostics:
        if failure.startswith(diagnostic.message):
            continue
        times = f" ({diagnostic.count} lanes)" if diagnostic.count > 1 else ""
        kind = "error" if diagnostic.is_error else "warning"
        style = "bold red" if diagnostic.is_error else "yellow"
        target.print(Text(f"{kind}: {diagnostic.message}{times}", style))
    for note in trace.notes:
        target.print(Text(f"note: {note}", "dim"))
    if not trace.diagnostics and all(trace.grid):
        target.print(Text(_nothing_found(trace), "green"))


def _nothing_found(trace: Trace) -> str:
    if trace.is_sanitized:
        return "no out-of-bounds, misaligned or unsynchronised access found"
    return "no out-of-bounds or misaligned access found; races were not looked for (sanitize)"


def trace_label(trace: Trace) -> str:
    """Return how a trace was counted."""
    if trace.source == "SASS":
        return EXACT
    if trace.mapped == 1:
        return "approximate: the notes say what; every access and branch was found in the machine code (SASS)"
    found = (
        f"{math.floor(100 * trace.mapped)} % of accesses and branches were found in the machine code (SASS)"
    )
    return f"approximate: {found}, the others are counted as the PTX writes them"


def _launch_line(trace: Trace) -> str:
    grid, block = (" x ".join(map(str, sides)) for sides in (trace.grid, trace.block))
    shared = f", {trace.shared_bytes} bytes shared" if trace.shared_bytes else ""
    name = language_name(trace.language)
    return f"{trace.kernel} ({name}, {trace.arch}): grid {grid}, block {block}{shared}"


def trace_text(trace: Trace, width: int | None = None) -> str:
    """Return a trace as plain text.

    Parameters
    ----------
    trace : Trace
        What a launch counted.
    width : int, optional
        Columns; by default those of the terminal, or 120.
    """
    columns = width or shutil.get_terminal_size((PIPE_WIDTH, 24)).columns
    return _captured(columns, lambda target: print_trace(target, trace))


def result_text(result: Result, width: int = 100, *, is_pictured: bool = True) -> str:
    """Return an experiment as plain text."""
    return _captured(width, lambda target: print_result(target, result, is_pictured=is_pictured))


def tables_text(tables: Sequence[Table], width: int = 100) -> str:
    """Return tables as plain text."""

    def fill(target: Console) -> None:
        for table in tables:
            print_table(target, table)

    return _captured(width, fill)


def _captured(width: int, fill: object) -> str:
    buffer = io.StringIO()
    target = Console(
        file=buffer, width=width, color_system=None, highlight=False, emoji=False, legacy_windows=False
    )
    fill(target)  # type: ignore[operator]
    return "\n".join(line.rstrip() for line in buffer.getvalue().splitlines())


def document_tables(document: Document) -> tuple[Table, ...]:
    """Return the tables of a document that are no experiments and no traces."""
    from kernellab.report.checks import check_tables
    from kernellab.report.records import record_tables

    tables = [*document.tables]
    if document.checks:
        tables += check_tables(document.checks)
    if document.records:
        tables += record_tables(document.records)
    return tuple(tables)


def print_document(target: Console, document: Document, *, is_pictured: bool | None = None) -> None:
    """Print what a command found, as the command did."""
    target.print(Text(f"kernellab {document.kind}, {document.made}", "dim"))
    for result in document.experiments:
        print_result(target, result, is_pictured=is_pictured)
    for table in document_tables(document):
        print_table(target, table)
    for trace in document.traces:
        print_trace(target, trace)
