"""Records of one kernel side by side: what ran, verdicts, readings, instruction mix, lines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.text import Text

from kernellab.report.numbers import language_name
from kernellab.report.source import source_tables
from kernellab.report.table import EXACT, Column, Table, readings_tables

if TYPE_CHECKING:
    from rich.console import Console

    from kernellab.record import Record

MIX_ROWS = 12


def record_tables(records: Sequence[Record], width: int = 120) -> tuple[Table, ...]:
    """Return every table of records of one kernel."""
    mixed = [name for record in records for name in (r.name for r in record.readings) if "/" in name]
    plain = [r.name for record in records for r in record.readings if "/" not in r.name]
    shown = [name for name in dict.fromkeys(plain) if any(_value(record, name) for record in records)]
    tables = [_ran_table(records), *readings_tables(records, shown)]
    tables += [
        mix_table(records, kind) for kind in ("sass", "ptx") if any(n.startswith(f"{kind}/") for n in mixed)
    ]
    for record in records:
        tables += source_tables(record.lines, label_of(record), width)
    return tuple(tables)


def _value(record: Record, name: str) -> float:
    found = [reading.value for reading in record.readings if reading.name == name]
    return found[0] if found and found[0] == found[0] else 0.0


def label_of(record: Record) -> str:
    """Return how a record's lines were counted."""
    notes = {reading.note for reading in record.readings if reading.source == "counted"}
    return "approximate: counted on PTX" if "approximate" in notes else EXACT


def _ran_table(records: Sequence[Record]) -> Table:
    first = records[0]
    parameters = {**first.sizes, **first.parameters, **first.constants}
    about = ", ".join(f"{key} = {value}" for key, value in parameters.items())
    case = f", {first.case}" if first.case else ""
    title = f"{first.kernel} on {first.device_name} ({first.arch}){case}: {about}"
    rows = tuple(
        (
            language_name(record.language),
            " x ".join(map(str, record.grid)),
            " x ".join(map(str, record.block)),
            _verdict(record),
        )
        for record in records
    )
    notes = tuple(dict.fromkeys(note for record in records for note in (*record.diagnostics, *record.notes)))
    return Table(title, (Column("language"), Column("grid"), Column("block"), Column("answer")), rows, notes)


def _verdict(record: Record) -> str:
    if record.verdict is None:
        return "not compared"
    return "right" if record.is_right else f"WRONG: {record.verdict.message}"


def mix_table(records: Sequence[Record], kind: str) -> Table:
    """Return the most frequent instructions as written, once each."""
    prefix = f"{kind}/"
    counts = [
        {r.name.removeprefix(prefix): int(r.value) for r in record.readings if r.name.startswith(prefix)}
        for record in records
    ]
    names = sorted(
        {name for each in counts for name in each}, key=lambda n: (-max(c.get(n, 0) for c in counts), n)
    )
    rows = [(name, *(str(each.get(name, 0)) for each in counts)) for name in names[:MIX_ROWS]]
    if len(names) > MIX_ROWS:
        rest = [sum(each.get(name, 0) for name in names[MIX_ROWS:]) for each in counts]
        rows.append((f"{len(names) - MIX_ROWS} others", *map(str, rest)))
    rows.append(("all", *(str(sum(each.values())) for each in counts)))
    heads = (Column(language_name(record.language), "derived", is_number=True) for record in records)
    title = f"{kind.upper()} instructions in the compiled code (derived: as written, not as executed)"
    return Table(title, (Column("instruction"), *heads), tuple(rows))


def print_records(target: Console, records: Sequence[Record]) -> None:
    """Print records of one kernel side by side."""
    from kernellab.report.text import print_table

    tables = record_tables(records, target.width)
    for table in tables:
        print_table(target, table)
    wrong = [record for record in records if not record.is_right]
    text = "both right" if not wrong else f"wrong in {', '.join(language_name(r.language) for r in wrong)}"
    target.print(Text(f"{records[0].kernel}: {text}", "bold red" if wrong else "green"))
