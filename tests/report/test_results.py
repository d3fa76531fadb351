"""Results as Markdown, the README's markers, and the commands that measure and render."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from typer.testing import CliRunner

from kernellab.cli import app
from kernellab.cli.suites_command import summary
from kernellab.errors import SpecError, UnavailableError
from kernellab.report.results import TABLES, cell, markdown_table, replace_between, section, shown_rows
from kernellab.results import Results, Shown, save
from kernellab.suites import SUITES

COLUMNS = (Shown("what", "what"), Shown("seconds", "us", 1e6, 1), Shown("ratio", "ratio", digits=3))
ROWS = (
    {"what": "copy|float4", "seconds": 1.25e-4, "ratio": 0.9991, "samples": [1.0]},
    {"what": "cuda-c", "seconds": 1.0, "ratio": None},
    {"what": "raw", "samples": [2.0]},
)
PEERS = Results(
    "peers", "Beside others", COLUMNS, ROWS, {"fast enough (0.99)": True, "faster still": False},
    notes=("cold",), environment={"device": "NVIDIA H200", "driver": "13000"}, made="2026-11-29T16:00:00",
    lines=("copy 1", "scale 2"),
)  # fmt: skip


def test_a_table_shows_rows_with_every_column() -> None:
    assert markdown_table(PEERS).splitlines() == [
        "| what | us | ratio |",
        "| --- | ---: | ---: |",
        "| copy/float4 | 125.0 | 0.999 |",
        "| CUDA C | 1,000,000.0 | - |",
    ]
    assert len(shown_rows(PEERS)) == 2
    assert markdown_table(Results("x", "x", COLUMNS)) == ""


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"bars": {"fast": "x"}}, r"bars\['fast'\] is 'x' and no bool"),
        ({"columns": [{"key": "a", "header": 3}]}, r"columns\[0\].header is 3 and no str"),
        ({"notes": [1]}, r"notes\[0\] is 1 and no str"),
        ({"rows": [3]}, r"rows\[0\] is 3 and no Mapping"),
        ({"rows": 3}, "'int' object is not iterable"),
    ],
)
def test_edited_results_are_refused_in_one_sentence(change: dict[str, object], message: str) -> None:
    data = {**PEERS.to_dict(), **change}
    with pytest.raises(SpecError, match=rf"^peers\.json: the result is damaged, {message}; make it again$"):
        Results.from_dict(data, "peers.json")


@pytest.mark.parametrize("nothing", [None, math.nan])
def test_nothing_is_a_dash(nothing: float | None) -> None:
    assert cell(nothing, Shown("x", "x")) == "-"


def test_the_section_names_machine_bars_and_files() -> None:
    other = Results(
        "compare", "Compared", bars={"equal": True}, environment={"device": "NVIDIA B200"}, made="2027"
    )
    text = section([other, PEERS])
    assert text.startswith("## Results\n\nMeasured by `kernellab bench gpu`")
    assert "NVIDIA H200, driver 13000, 2026-11-29: [peers](benchmarks/results/peers.json)" in text
    assert "NVIDIA B200, 2027: [compare]" in text
    assert "- yes: fast enough (0.99)\n- **no**: faster still" in text
    assert "**Beside others** (cold):\n\n| what |" in text
    assert section([]) == ""


def test_every_suite_with_a_table_is_shown_in_order() -> None:
    assert set(TABLES) <= set(SUITES)
    found = [Results(name, f"Title of {name}", COLUMNS, ROWS) for name in SUITES]
    text = section(found)
    places = [text.index(f"**Title of {name}**") for name in TABLES]
    assert places == sorted(places)
    assert all(f"Title of {name}" not in text for name in set(SUITES) - set(TABLES))


def test_markers_are_needed_and_kept() -> None:
    text = "before\n<!-- results -->\n<!-- end -->\nbetween\n<!-- other -->\nkept\n<!-- end -->\n"
    once = replace_between(text, "results", "new\n\nlines\n")
    assert once == text.replace("results -->\n", "results -->\nnew\n\nlines\n")
    assert replace_between(once, "results", "") == text
    for broken in ("", "<!-- results -->\n", "<!-- end -->\n<!-- results -->\n"):
        with pytest.raises(SpecError, match="it has no <!-- results --> followed by <!-- end -->"):
            replace_between(broken, "results", "x")


def test_the_terminal_sees_lines_and_missed_bars() -> None:
    assert summary(PEERS, 12.3).splitlines() == [
        "== peers (12 s)", "copy 1", "scale 2", "ok: fast enough (0.99)", "MISSED: faster still",
    ]  # fmt: skip


def run(*arguments: str) -> object:
    return CliRunner().invoke(app, list(arguments))


def test_report_renders_what_the_folder_holds(tmp_path: Path) -> None:
    save(PEERS, tmp_path / "results")
    readme = tmp_path / "R.md"
    readme.write_text("<!-- picture -->\n<!-- end -->\n<!-- results -->\n<!-- end -->\n")
    done = run("report", "--readme", str(readme), "--results", str(tmp_path / "results"))
    assert done.exit_code == 0, done.output
    text = readme.read_text()
    assert "| copy/float4 | 125.0 | 0.999 |" in text
    assert "stride 32        ████" in text


def test_report_needs_something() -> None:
    done = run("report")
    assert done.exit_code == 2
    assert "there is no file to report" in done.output


def test_bench_knows_its_suites(monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[object] = []
    monkeypatch.setattr(
        "kernellab.cli.suites_command.run_suites", lambda names, folder: ran.append((tuple(names), folder))
    )
    assert run("bench", "peers", "--out", "x").exit_code == 0
    assert run("bench", "gpu").exit_code == 0
    assert ran == [(("peers",), Path("x")), (SUITES, None)]
    done = run("bench", "gpus")
    assert done.exit_code == 2
    assert "write emulator, gpu for all suites, or one: peers" in done.output


def test_bench_gpu_without_one_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    done = run("bench", "peers")
    assert done.exit_code == 3
    assert "'gpu'" in done.output


def test_a_suite_that_fails_does_not_stop_the_others(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    import typer

    from kernellab import suites
    from kernellab.cli import suites_command

    class Nothing:
        def free(self) -> None:
            pass

    def run_one(name: str, bench: object) -> Results:
        if name == "ladder":
            raise SpecError("ladder: broken")
        if name == "all_reduce":
            raise UnavailableError("all-reduce: it takes two GPUs")
        return Results(name, name, bars={"fine": name != "clock"})

    monkeypatch.setattr(suites_command, "make_bench", Nothing)
    monkeypatch.setattr(suites, "run", run_one)
    with pytest.raises(typer.Exit):
        suites_command.run_suites(("ladder", "peers"), tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["peers.json"]
    assert "== ladder: FAILED: ladder: broken" in capsys.readouterr().out
    with pytest.raises(typer.Exit):
        suites_command.run_suites(("clock",), None)
    suites_command.run_suites(("peers", "all_reduce"), None)
    assert "== all_reduce: left out: all-reduce: it takes two GPUs" in capsys.readouterr().out
    with pytest.raises(UnavailableError):
        suites_command.run_suites(("all_reduce",), None)
