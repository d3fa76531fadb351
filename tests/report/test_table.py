"""Tables: sources never mix, approximate numbers are marked, languages stand side by side."""

from __future__ import annotations

import dataclasses

import pytest

import kernellab as kl
from kernellab.errors import SpecError
from kernellab.experiments.experiment import Column, Outcome, Panel
from kernellab.instruments.reading import Reading
from kernellab.report.numbers import plain, short
from kernellab.report.records import record_tables
from kernellab.report.table import outcome_table, panel_table, readings_tables, source_of


@pytest.fixture(scope="module")
def record():
    return kl.measure("copy/scalar", case="1000 elements", device="emulator")


def panel_of(records: dict, column: Column) -> Panel:
    labels = tuple(next(iter(records.values())))
    return Panel("a sweep", (column,), labels, {}, records)


def test_a_column_never_mixes_sources(record) -> None:
    clocked = dataclasses.replace(
        record, readings=(Reading("global_load_sectors", 1.0, "sectors", "measured"),)
    )
    panel = panel_of({"cuda-c": {"a": record, "b": clocked}}, Column("sectors", "global_load_sectors"))
    with pytest.raises(SpecError, match="column 'sectors' would mix counted and measured numbers"):
        panel_table(panel, ("cuda-c",))


def test_readings_of_each_source_have_a_table_of_their_own(record) -> None:
    tables = readings_tables([record])
    assert [table.columns[0].header for table in tables] == ["counted", "derived"]
    for table in tables:
        assert {column.source for column in table.columns if column.is_number} == {table.columns[0].header}


def test_languages_stand_side_by_side(record) -> None:
    panel = panel_of({"cuda-c": {"a": record}, "numba": {"a": record}}, Column("load", "global_load_sectors"))
    table = panel_table(panel, ("cuda-c", "numba"))
    assert [column.header for column in table.columns] == ["", "CUDA C\nload", "Numba\nload", "answer"]
    assert table.rows == (("a", "125", "125", "right"),)
    assert table.notes[0].startswith("load: counted, SASS")


def test_approximate_numbers_are_marked(record) -> None:
    readings = tuple(
        dataclasses.replace(each, note="approximate") if each.note == "SASS" else each
        for each in record.readings
    )
    rough = dataclasses.replace(record, readings=readings)
    panel = panel_of({"cuda-c": {"a": rough}}, Column("load", "global_load_sectors"))
    table = panel_table(panel, ("cuda-c",))
    assert table.rows[0][1] == "~125"
    assert any(note.startswith("~ approximate") for note in table.notes)
    assert any(row[1] == "~125" for table in readings_tables([rough]) for row in table.rows)


def test_a_wrong_answer_is_shown(record) -> None:
    verdict = dataclasses.replace(
        record.verdict,
        comparisons=(dataclasses.replace(record.verdict.comparisons[0], wrong=1, message="y!"),),
    )
    wrong = dataclasses.replace(record, verdict=verdict)
    column = Column("load", "global_load_sectors")
    both = panel_of({"cuda-c": {"a": record}, "numba": {"a": wrong}}, column)
    assert panel_table(both, ("cuda-c", "numba")).rows[0][-1] == "WRONG (Numba)"
    exhibit = dataclasses.replace(both, faults={"a": "steps too far"})
    table = panel_table(exhibit, ("cuda-c", "numba"))
    assert table.rows[0][-1] == "WRONG (Numba)*"
    assert table.notes[-1] == "* a: wrong on purpose: steps too far"


def test_languages_that_agree_share_a_row() -> None:
    same = [Outcome("claim", "who", language, "held", "8 x") for language in ("cuda-c", "numba")]
    assert outcome_table("Claims", same).rows == (("held", "claim", "8 x"),)
    other = [same[0], dataclasses.replace(same[1], verdict="refuted", found="9 x")]
    assert outcome_table("Claims", other).rows == (("held\nrefuted", "claim", "CUDA C: 8 x\nNumba: 9 x"),)


def test_source_of_says_how_it_was_counted() -> None:
    sass = Reading("a", 1.0, "1", "counted", "SASS")
    assert source_of([sass, sass], "a") == "counted, SASS"
    assert (
        source_of([sass, dataclasses.replace(sass, note="approximate")], "a") == "counted, SASS/approximate"
    )
    assert source_of([Reading("t", 1.0, "s", "measured", "cold")], "t") == "measured"


def test_records_show_source_lines_with_their_counts(record) -> None:
    tables = record_tables([record])
    (source,) = [table for table in tables if table.columns[0].header == "line"]
    (row,) = [row for row in source.rows if "value = x[i]" in row[-1]]
    heads = [column.header for column in source.columns]
    assert row[heads.index("sect\n/req")] == "3.9"
    assert source.title.endswith("copy/scalar.cu")


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.0, "0"), (4.0, "4"), (99999, "99999"), (100000, "100,000"), (0.004, "0.004"), (float("inf"), "inf"),
     (float("-inf"), "-inf"), (1.234e-9, "1.23e-09"), (-2.5, "-2.50")],
)  # fmt: skip
def test_plain(value: float, text: str) -> None:
    assert plain(value) == text


@pytest.mark.parametrize("value", [1, 99999, 100_000, 999_949, 1e6, 123456789, 5e11])
def test_short_is_short(value: float) -> None:
    assert len(short(value)) <= 6
