"""Tables as plain data, made from Records and results; a column never mixes sources."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kernellab.errors import SpecError
from kernellab.report.numbers import language_name, plain

if TYPE_CHECKING:
    from kernellab.experiments.experiment import Outcome, Panel, Result
    from kernellab.instruments.reading import Reading
    from kernellab.record import Record

EXACT = "accesses, branches and instructions counted on SASS; instructions and lanes by line on PTX"
APPROXIMATE = "~ approximate: counted as the PTX writes it, not by the machine code (SASS)"


@dataclass(frozen=True)
class Column:
    """Head of a column.

    Attributes
    ----------
    header : str
        One or two short lines.
    source : str
        ``"counted, SASS"``, ``"derived"``, ``"measured"`` and so on; empty for text.
    is_number : bool
        Aligned to the right.
    """

    header: str
    source: str = ""
    is_number: bool = False


@dataclass(frozen=True)
class Table:
    """A table.

    Attributes
    ----------
    title : str
        May be empty.
    columns : tuple of Column
        From left to right.
    rows : tuple of tuple of str
        A cell for each column.
    notes : tuple of str
        What stands below.
    """

    title: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...] = ()


def source_of(readings: Iterable[Reading], header: str) -> str:
    """Return what a column of readings says of its source.

    Raises
    ------
    SpecError
        If the readings come from different sources.

    Examples
    --------
    >>> from kernellab.instruments.reading import Reading
    >>> source_of([Reading("a", 1.0, "1", "counted", "SASS")], "a")
    'counted, SASS'
    """
    found = list(readings)
    sources = list(dict.fromkeys(reading.source for reading in found))
    if len(sources) > 1:
        raise SpecError(
            f"report: column {header!r} would mix {' and '.join(sources)} numbers; show them in columns apart"
        )
    notes = dict.fromkeys(r.note for r in found if r.note in ("SASS", "PTX", "approximate"))
    return ", ".join((*sources, "/".join(notes))) if notes else "".join(sources)


def cell(reading: Reading | None, digits: int = 2, scale: float = 1.0) -> str:
    """Return a reading as a cell: ``~`` before what is approximate, a dash for nothing."""
    if reading is None:
        return "-"
    return ("~" if reading.note == "approximate" else "") + plain(reading.value * scale, digits)


def reading_of(record: Record | None, name: str, source: str = "") -> Reading | None:
    """Return a reading by name, from any source or one; None where there is none."""
    if record is None:
        return None
    found = (reading for reading in record.readings if reading.name == name)
    return next((reading for reading in found if source in ("", reading.source)), None)


def panel_table(panel: Panel, languages: Sequence[str]) -> Table:
    """Return a sweep: a row a point, the languages side by side under each heading."""
    columns = [Column("")]
    cells: list[list[str]] = [list(panel.labels)]
    origins: dict[str, list[str]] = {}
    for wanted in panel.columns:
        if not any(
            reading_of(panel.records[each].get(label), wanted.reading)
            for each in languages
            for label in panel.labels
        ):
            continue  # of a run on a GPU what only the emulator counts
        for language in languages:
            readings = [
                reading_of(panel.records[language].get(label), wanted.reading) for label in panel.labels
            ]
            source = source_of((reading for reading in readings if reading is not None), wanted.header)
            columns.append(Column(f"{language_name(language)}\n{wanted.header}", source, is_number=True))
            cells.append([cell(reading, wanted.digits, wanted.scale) for reading in readings])
            origins.setdefault(source, []).append(_one_line(wanted.header))
    columns.append(Column("answer"))
    cells.append([_answer(panel, label, languages) for label in panel.labels])
    legend = "; ".join(
        f"{', '.join(dict.fromkeys(names))}: {source}" for source, names in origins.items() if source
    )
    notes = [legend] if legend else []
    if any("approximate" in source for source in origins):
        notes.append(APPROXIMATE)
    notes += [f"* {label}: wrong on purpose: {panel.faults[label]}" for label in _faulty(panel, languages)]
    return Table(panel.title, tuple(columns), tuple(zip(*cells, strict=True)), tuple(notes))


def _one_line(header: str) -> str:
    return header.replace("-\n", "").replace("\n", " ")


def _faulty(panel: Panel, languages: Sequence[str]) -> list[str]:
    return [label for label in panel.labels if _answer(panel, label, languages).endswith("*")]


def _answer(panel: Panel, label: str, languages: Sequence[str]) -> str:
    wrong = [
        language
        for language in languages
        if label in panel.records[language] and not panel.records[language][label].is_right
    ]
    if not wrong:
        return "right"
    who = "" if len(wrong) == len(languages) else f" ({', '.join(map(language_name, wrong))})"
    return f"WRONG{who}*" if label in panel.faults else f"WRONG{who}"


def by_statement(outcomes: Sequence[Outcome]) -> dict[str, list[Outcome]]:
    """Return what was judged in each language, by statement: what a reader counts."""
    grouped: dict[str, list[Outcome]] = {}
    for outcome in outcomes:
        grouped.setdefault(outcome.text, []).append(outcome)
    return grouped


def verdicts(outcomes: Sequence[Outcome]) -> list[str]:
    """Return the verdict on each statement; ``differs by language`` where it does."""
    found = [{outcome.verdict for outcome in group} for group in by_statement(outcomes).values()]
    return [each.pop() if len(each) == 1 else "differs by language" for each in found]


def expectations_line(result: Result) -> str:
    """Return how many expectations hold, in every language, of those that can be judged here; and the others."""
    found = verdicts(result.expectations)
    open_ones = {each: found.count(each) for each in found if each.startswith("needs")}
    left = "".join(
        f", {count} {each if count == 1 else each.replace('needs', 'need')}"
        for each, count in open_ones.items()
    )
    return f"{found.count('held')} of {len(found) - sum(open_ones.values())} expectations hold{left}"


def outcome_table(title: str, outcomes: Sequence[Outcome]) -> Table:
    """Return expectations or claims; languages that agree share a row."""
    rows = []
    for text, group in by_statement(outcomes).items():
        if len({(outcome.verdict, outcome.found) for outcome in group}) == 1:
            rows.append((group[0].verdict, text, group[0].found))
            continue
        verdicts = {outcome.verdict for outcome in group}
        verdict = group[0].verdict if len(verdicts) == 1 else "\n".join(o.verdict for o in group)
        found = "\n".join(f"{language_name(outcome.language)}: {outcome.found}" for outcome in group)
        rows.append((verdict, text, found))
    sources = dict.fromkeys(outcome.source for outcome in outcomes if outcome.source)
    heading = f"{title} ({', '.join(sources)})" if sources else title
    return Table(heading, (Column("verdict"), Column("statement"), Column("found here")), tuple(rows))


def result_tables(result: Result) -> tuple[Table, ...]:
    """Return every table of an experiment, in the order of reading."""
    return (
        *(panel_table(panel, result.languages) for panel in result.panels),
        outcome_table("Expectations of ours", result.expectations),
        outcome_table("Claims", result.claims),
    )


def readings_tables(
    records: Sequence[Record], names: Sequence[str] | None = None, headers: Sequence[str] | None = None
) -> tuple[Table, ...]:
    """Return readings as rows and records as columns, a table for each source.

    Parameters
    ----------
    records : sequence of Record
        The columns.
    names : sequence of str, optional
        Which readings; by default all that are not zero everywhere.
    headers : sequence of str, optional
        Heads of the columns; by default the languages.
    """
    by_source: dict[str, list[str]] = {}
    for record in records:
        for reading in record.readings:
            known = by_source.setdefault(reading.source, [])
            if reading.name not in known and (names is None or reading.name in names):
                known.append(reading.name)
    heads = headers or [language_name(record.language) for record in records]
    tables = []
    for source in ("measured", "counted", "derived"):
        rows = [_reading_row(records, name, source) for name in by_source.get(source, ())]
        if names is None:
            rows = [row for row in rows if any(value not in ("0", "-", "~0") for value in row[1:-1])]
        if rows:
            columns = (
                Column(source),
                *(Column(head, source, is_number=True) for head in heads),
                Column("unit"),
            )
            is_marked = any(value.startswith("~") for row in rows for value in row[1:-1])
            tables.append(Table("", columns, tuple(rows), (APPROXIMATE,) if is_marked else ()))
    return tuple(tables)


def _reading_row(records: Sequence[Record], name: str, source: str) -> tuple[str, ...]:
    found = [reading_of(record, name, source) for record in records]
    first = next(reading for reading in found if reading is not None)
    unit = "" if first.unit == "1" else first.unit
    note = f" ({first.note})" if first.note in ("SASS", "PTX") else ""
    return (name, *(cell(reading) for reading in found), f"{unit}{note}".strip())


def totals_table(totals: Mapping[str, float], label: str, errors: Mapping[str, float] | None = None) -> Table:
    """Return the totals of a trace that are not zero."""
    rows = [
        (name, plain(value), *((plain(errors.get(name, 0.0)),) if errors else ()))
        for name, value in totals.items()
        if value and value == value
    ]
    columns = [Column("totals"), Column("count", "counted", is_number=True)]
    if errors:
        columns.append(Column("+- std. error", "counted", is_number=True))
    return Table("", tuple(columns), tuple(rows), (label,))
