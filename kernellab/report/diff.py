"""Two documents of the same command, number by number."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kernellab.errors import SpecError
from kernellab.report.numbers import language_name, plain
from kernellab.report.table import Column, Table, by_statement

if TYPE_CHECKING:
    from kernellab.record import Record
    from kernellab.report.document import Document

ABSENT = "absent"


@dataclass(frozen=True)
class Value:
    """A number or word of a document; `matters` if it must not change by itself, as a time does."""

    text: str
    number: float | None
    matters: bool


@dataclass(frozen=True)
class Change:
    """One difference."""

    name: str
    before: str
    after: str
    ratio: str
    matters: bool


def compare_documents(before: Document, after: Document) -> tuple[Change, ...]:
    """Return what differs.

    Raises
    ------
    SpecError
        If they come from different commands or devices.
    """
    if before.kind != after.kind:
        raise SpecError(
            f"diff: one is of {before.kind!r} and one of {after.kind!r}; compare two of one command"
        )
    devices = [sorted(_devices(document)) for document in (before, after)]
    if devices[0] != devices[1]:
        first, second = (" and ".join(each) or "none" for each in devices)
        raise SpecError(
            f"diff: one ran on {first} and one on {second}; numbers of different devices do not compare"
        )
    old, new = dict(_values(before)), dict(_values(after))
    changes = []
    for name in dict.fromkeys((*old, *new)):
        one, other = old.get(name), new.get(name)
        if one is not None and other is not None and one.text == other.text:
            continue
        changes.append(
            Change(
                name,
                one.text if one else ABSENT,
                other.text if other else ABSENT,
                _ratio(one, other),
                any(value.matters for value in (one, other) if value is not None),
            )
        )
    return tuple(changes)


def _ratio(first: Value | None, second: Value | None) -> str:
    if first is None or second is None or not first.number or second.number is None:
        return ""
    return f"{second.number / first.number:.3g} x"


def _records(document: Document) -> Iterator[tuple[str, Record]]:
    for result in document.experiments:
        for panel in result.panels:
            for language, records in panel.records.items():
                for label, record in records.items():
                    yield f"{result.name}/{label}/{language}", record
    for record in document.records:
        yield f"{record.kernel}/{record.case}/{record.language}", record


def _devices(document: Document) -> set[str]:
    found = {record.device_name for _, record in _records(document)}
    return found | {f"the emulator ({trace.arch})" for trace in document.traces}


def _values(document: Document) -> Iterator[tuple[str, Value]]:
    for name, record in _records(document):
        yield f"{name}: answer", Value("right" if record.is_right else "WRONG", None, True)
        for reading in record.readings:
            is_kept = reading.source != "measured"
            yield f"{name}: {reading.name}", Value(plain(reading.value, 4), reading.value, is_kept)
    for result in document.experiments:
        for text, group in by_statement((*result.expectations, *result.claims)).items():
            found = {outcome.verdict for outcome in group}
            each = (f"{language_name(outcome.language)}: {outcome.verdict}" for outcome in group)
            said = found.pop() if len(found) == 1 else ", ".join(each)
            yield f"{result.name}: {text}", Value(said, None, True)
    for trace in document.traces:
        for total, number in trace.totals.items():
            yield f"{trace.kernel}: {total}", Value(plain(number, 4), number, True)
        for diagnostic in trace.diagnostics:
            yield f"{trace.kernel}: {diagnostic.kind}, line {diagnostic.line}", Value("found", None, True)
    for check in document.checks:
        text = "as it should be" if check.is_expected else "WRONG"
        yield f"{check.kernel}/{check.case}/{check.language}", Value(text, None, True)
    for table in document.tables:
        for row in table.rows:
            for column, cell in zip(table.columns[1:], row[1:], strict=True):
                yield f"{row[0]}: {column.header}", _measured(cell, column)


def _measured(cell: str, column: Column) -> Value:
    try:
        number = float(cell.replace(",", "").split()[0])
    except (ValueError, IndexError):
        number = None
    return Value(cell, number, column.source not in ("", "measured"))


def diff_table(changes: tuple[Change, ...], before: str, after: str) -> Table:
    """Return the differences as a table."""
    rows = tuple((change.name, change.before, change.after, change.ratio) for change in changes)
    columns = (
        Column("what"),
        Column("before"),
        Column("after"),
        Column("ratio"),
    )
    return Table(f"{before} -> {after}", columns, rows)
