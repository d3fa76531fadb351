"""Text: it fits the width, it reads without colour, pictures show the numbers."""

from __future__ import annotations

import dataclasses
import io

import numpy as np
import pytest
from rich.console import Console

import kernellab as kl
from kernellab.errors import ExecutionError
from kernellab.experiments.experiment import Outcome
from kernellab.experiments.picture import BankMap, Bar, Bars, LaneMap, SourceLine
from kernellab.report.pictures import ASCII, UNICODE, draw
from kernellab.report.table import Column, Table, panel_table
from kernellab.report.text import has_blocks, print_table, result_text, summary, tables_text, trace_text

CODE = """extern "C" __global__ void far(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[i * 8 % n];
}
"""


def far(n: int = 1024, **options: object) -> kl.Trace:
    x, y = np.arange(n, dtype=np.float32), np.zeros(n, np.float32)
    return kl.trace(CODE, "far", n // 256, 256, (x, y, n), **options)


@pytest.fixture(scope="module")
def result():
    from kernellab.experiments import load
    from kernellab.experiments.runner import run

    return run(load("divergence"), "emulator")


@pytest.mark.parametrize("width", [80, 120])
def test_a_result_fits_its_width_and_has_no_escape_codes(result, width: int) -> None:
    text = result_text(result, width)
    assert max(map(len, text.splitlines())) <= width
    assert "\x1b" not in text
    for part in (
        "CUDA C",
        "Numba",
        "held",
        "refuted",
        "needs a GPU",
        "counted, SASS",
        "derived",
    ):
        assert part in text
    rows = text.split("Expectations")[1].split("Claims")[0].splitlines()
    assert sum(row.startswith("held") for row in rows) == 9  # as many as the last line says
    assert "9 of 9 expectations hold" in text
    refuted = sum(row.startswith("refuted") for row in text.split("Claims")[1].splitlines())
    assert f" {refuted} refuted" in text


def test_labels_are_never_cut_at_80_columns(result) -> None:
    text = result_text(result, 80, is_pictured=False)
    for panel in result.panels:
        for label in panel.labels:
            assert any(line.startswith(label) for line in text.splitlines()), label


def test_the_summary_counts_statements_not_languages(result) -> None:
    claims = [
        Outcome(text, "who", language, verdict, "")
        for text, verdicts in (("a", ("refuted", "refuted")), ("b", ("held", "refuted")))
        for language, verdict in zip(("cuda-c", "numba"), verdicts, strict=True)
    ]
    changed = dataclasses.replace(
        result,
        claims=tuple(claims),
        expectations=tuple(dataclasses.replace(each, source="", text="x" + each.text) for each in claims),
    )
    text = summary(changed).plain
    assert "0 of 2 expectations hold; claims: 1 refuted, 1 differs by language;" in text


def test_the_summary_says_what_could_not_be_judged(result) -> None:
    verdicts = ("held", "needs counts", "needs counts", "failed", "needs nvdisasm")
    outcomes = tuple(
        Outcome(f"{k}", "", language, verdict, "")
        for k, verdict in enumerate(verdicts)
        for language in ("cuda-c", "numba")
    )
    text = summary(dataclasses.replace(result, expectations=outcomes)).plain
    assert "1 of 2 expectations hold, 2 need counts, 1 needs nvdisasm;" in text


def test_a_column_without_any_number_is_left_out(result) -> None:
    panel = result.panels[0]
    shown = panel.columns[0].header.splitlines()
    bare = {
        language: {
            label: dataclasses.replace(
                record,
                readings=tuple(each for each in record.readings if each.name != panel.columns[0].reading),
            )
            for label, record in records.items()
        }
        for language, records in panel.records.items()
    }
    full, less = (
        panel_table(each, result.languages).columns
        for each in (panel, dataclasses.replace(panel, records=bare))
    )
    assert len(full) - len(less) == len(result.languages)
    assert any(shown[0] in column.header for column in full)
    assert not any(panel.columns[0].header in column.header for column in less)


def test_a_trace_prints_counts_beside_the_lines() -> None:
    text = trace_text(far(), 100)
    (line,) = [each for each in text.splitlines() if "y[i] = x[i" in each]
    assert line.split()[:4] == ["3", "32", "32", "64"]  # line, warps, lanes, requests: a load and a store
    assert line.split()[4] == "18"  # sectors a request: (32 + 4) / 2
    assert "global_load_sectors" in text
    assert "no out-of-bounds" in text
    assert max(map(len, text.splitlines())) <= 100


def test_a_trace_is_its_text() -> None:
    assert str(far()).startswith("far (CUDA C, sm_90): grid 4 x 1 x 1, block 256 x 1 x 1")


def test_a_trace_shows_what_went_wrong() -> None:
    x = np.zeros(10, np.float32)
    with pytest.raises(ExecutionError) as caught:
        kl.trace(CODE, "far", 1, 256, (x, x.copy(), 256))
    text = trace_text(caught.value.trace, 80)
    assert "error: far: out of bounds" in text
    assert "no out-of-bounds" not in text


@pytest.mark.parametrize(
    ("mapped", "said"),
    [
        (
            1.0,
            "approximate: the notes say what; every access and branch was found in the machine code (SASS)",
        ),
        (
            0.996,
            "approximate: 99 % of accesses and branches were found in the machine code (SASS), the others",
        ),
        (0.0, "approximate: 0 % of accesses and branches were found in the machine code (SASS), the others"),
    ],
)
def test_a_trace_says_in_words_how_exact_it_is(mapped: float, said: str) -> None:
    trace = dataclasses.replace(far(), source="approximate", mapped=mapped, notes=("far: why",))
    text = " ".join(trace_text(trace, 250).split())
    assert said in text
    assert "note: far: why" in text


def test_an_empty_grid_is_no_pass() -> None:
    trace = kl.trace(CODE, "far", 0, 256, (np.zeros(4, np.float32), np.zeros(4, np.float32), 4))
    assert trace.source == "SASS"
    assert "note: no block ran: the grid is empty, a GPU refuses such a launch" in trace_text(trace, 100)
    assert "no out-of-bounds" not in trace_text(trace, 100)


def test_a_sample_is_labelled() -> None:
    text = trace_text(far(2**16, blocks=8), 80)
    assert "sampled: " in text
    assert "std. error" in text


def test_brackets_are_no_markup() -> None:
    table = Table("a[bold]b", (Column("x"),), (("[red]y[/red]",),), ("[dim]",))
    text = tables_text([table])
    assert "a[bold]b" in text
    assert "[red]y[/red]" in text


def test_a_console_without_utf8_gets_ascii() -> None:
    buffer = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    target = Console(file=buffer, width=80)
    assert not has_blocks(target)
    print_table(target, Table("t", (Column("x"), Column("y", "", is_number=True)), (("a", "1"),)))
    buffer.flush()


BARS = Bars(
    "Sectors",
    "sectors",
    (Bar("one", {"cuda-c": 4, "numba": 4}), Bar("two", {"cuda-c": 32, "numba": 16})),
    32,
    4,
)


@pytest.mark.parametrize("signs", [UNICODE, ASCII])
def test_bars_are_in_proportion_and_carry_the_number(signs) -> None:
    lines = [line.plain for line in draw(BARS, 80, signs)]
    assert lines[0] == "Sectors (4 is ideal)"
    assert lines[1].endswith(" 4")
    assert lines[2].endswith(" 32 CUDA C")
    assert lines[3].endswith(" 16 Numba")
    lengths = [line.count(signs.full) for line in lines[1:]]
    assert lengths[1] == 2 * lengths[2] == 8 * lengths[0]
    assert max(map(len, lines)) <= 80


def test_a_bank_map_shows_lane_and_bank() -> None:
    picture = BankMap("Two ways", (tuple(range(32)), (31, *([-1] * 31))))
    lines = [line.plain for line in draw(picture, 80, UNICODE)]
    assert lines[0] == "Two ways: 2 wavefronts"
    assert lines[3].split() == ["wave", "1", *"0123456789abcdefghijklmnopqrstuv"]
    assert lines[4].split() == ["wave", "2", "v", *["·"] * 31]
    assert max(map(len, lines)) <= 80


def test_many_wavefronts_are_cut() -> None:
    picture = BankMap("Column", tuple((lane, *([-1] * 31)) for lane in range(32)))
    assert draw(picture)[-1].plain == "  ... and 26 more such wavefronts"


@pytest.mark.parametrize("width", [80, 120])
def test_a_lane_map_is_as_full_as_the_warps(width: int) -> None:
    picture = LaneMap(
        "k", (SourceLine(3, "    x;" + "y" * 200, 16.0, 8000), SourceLine(4, "        z;", 32.0, 1))
    )
    lines = [line.plain for line in draw(picture, width, UNICODE)]
    length = 32 if width == 120 else 16
    assert [line.count("█") for line in lines[1:]] == [length // 2, length]
    assert "16 " in lines[1]
    assert "8000" in lines[1]
    assert lines[2].endswith("      z;")
    assert max(map(len, lines)) <= width
