"""The README: every snippet runs, every command ends well, and what is rendered is what is there."""

from __future__ import annotations

import doctest
import importlib
import re
import shlex
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

import kernellab as kl
from kernellab import catalog
from kernellab.catalog import copy as copy_module
from kernellab.cli import app
from kernellab.header import parse_header

pytest_plugins = ["pytester"]

README = Path(__file__).parents[1] / "README.md"
TEXT = README.read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)


def blocks(language: str) -> list[str]:
    return [body for name, body in BLOCKS if name == language]


def named(path: str) -> str:
    """The block whose first line names a file."""
    (found,) = [body for _, body in BLOCKS if body.partition("\n")[0].endswith(path)]
    return found


def between(marker: str) -> str:
    return TEXT.partition(f"<!-- {marker} -->\n")[2].partition("<!-- end -->")[0]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("row_sums.cu", "tile.cu"):
        (tmp_path / name).write_text(named(name))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_it_is_short_and_nothing_is_left_out() -> None:
    assert len(TEXT.partition("<!-- results -->")[0].splitlines()) <= 280
    assert {name for name, _ in BLOCKS} == {"", "console", "cuda", "pycon", "python"}
    assert "../" not in TEXT


def test_every_public_function_is_in_the_table() -> None:
    table = TEXT.partition("| functions |")[2].partition("\n\n")[0]
    rows = re.findall(r"^\| (`.*`) \|", table, re.MULTILINE)
    named_there = re.findall(r"`(\w+)`", " ".join(rows))
    functions = [name for name in kl.__all__ if name.islower() and not isinstance(getattr(kl, name), type)]
    assert sorted(named_there) == sorted(functions)


def test_every_experiment_is_named() -> None:
    from kernellab.experiments import EXPERIMENTS

    assert [name for name in EXPERIMENTS if f"`{name}`" not in TEXT.partition("<!-- results -->")[0]] == []


def test_what_has_no_twin_and_what_is_never_exact_is_said() -> None:
    (first,) = [line for line in TEXT.splitlines() if "Numba CUDA twin" in line]
    lacks = {"asynchronous cop": "asynchronous copies", "tensor maps": "TMA", "ldmatrix": "`ldmatrix`"}
    lacks |= {"tensor-core": "tensor cores", "structure by value": "structures by value"}
    for kernel in catalog.kernels():
        if not kernel.has_twin:
            said = [words for reason, words in lacks.items() if reason in str(kernel.twin)]
            assert said, kernel.twin
            assert all(words in first for words in said), kernel.twin
    assert {kernel.name for kernel in catalog.kernels() if kernel.tiles} == {"wgmma"}
    (approximate,) = [line for line in TEXT.splitlines() if line.startswith("- Approximate, and marked so:")]
    assert "the `wgmma` rungs" in approximate
    (reported,) = [line for line in TEXT.splitlines() if "unsynchronised accesses" in line]
    assert "with `sanitize=True`" in reported


@pytest.mark.usefixtures("folder")
def test_examples() -> None:
    parser, runner = doctest.DocTestParser(), doctest.DocTestRunner(verbose=False)
    session = "\n".join(blocks("pycon"))
    assert session.count(">>>") >= 10
    runner.run(parser.get_doctest(session, {}, "README", "README.md", 0))
    assert runner.summarize(verbose=False).failed == 0


@pytest.mark.parametrize(
    "command",
    [line[2:] for block in blocks("console") for line in block.splitlines() if line.startswith("$ ")],
)
@pytest.mark.usefixtures("folder")
def test_commands(command: str) -> None:
    program, *arguments = shlex.split(command)
    assert program == "kernellab"
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output


def test_pytest_example(pytester: pytest.Pytester) -> None:
    pytest.importorskip("pytest_benchmark")
    from importlib.metadata import entry_points

    pytester.path.joinpath("row_sums.cu").write_text(named("row_sums.cu"))
    (source,) = [body for body in blocks("python") if "def test_" in body]
    pytester.makepyfile(source)
    is_installed = any(point.name == "kernellab" for point in entry_points(group="pytest11"))
    options = () if is_installed else ("-p", "kernellab.pytest_plugin")
    result = pytester.runpytest_subprocess(*options, "-p", "no:cacheprovider")
    found = result.parseoutcomes()
    assert found.get("failed", 0) == found.get("errors", 0) == 0
    assert found["passed"] >= 2


@pytest.mark.parametrize("language", ["cuda-c", "numba"])
def test_a_kernel_in_two_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, language: str) -> None:
    path = tmp_path / "reversed.cu"
    path.write_text(named("kernels_cu/copy/reversed.cu").partition("\n")[2])
    source = Path(copy_module.__file__).read_text() + named("kernellab/catalog/copy.py")
    tmp_path.joinpath("copy_and_more.py").write_text(source)
    monkeypatch.syspath_prepend(tmp_path)
    ladder = importlib.import_module("copy_and_more").LADDER
    monkeypatch.delitem(sys.modules, "copy_and_more")
    assert [each.id for each in ladder[:-1]] == [each.id for each in copy_module.LADDER]
    added = ladder[-1]
    kernel = replace(added, source=path)
    header = parse_header(path.read_text(), kernel.id)
    assert header.lesson
    for case in kernel.cases:
        record = kl.measure(kernel, case=case, language=language, device="emulator")
        assert record.is_right, (case.name, record.verdict)
    counted = kl.measure(kernel, language=language, device="emulator")
    for name in ("load", "store"):
        assert counted.value(f"sectors_per_request_{name}") == 4


def test_the_picture_is_what_the_commands_print() -> None:
    from kernellab.cli.readme_command import picture

    assert between("picture").strip() == picture().strip()


def test_the_results_are_those_of_the_files() -> None:
    from kernellab.report.results import section
    from kernellab.results import load_folder

    assert (
        between("results").strip() == section(load_folder(README.parent / "benchmarks" / "results")).strip()
    )


def test_rendering_twice_changes_nothing(tmp_path: Path) -> None:
    copy = tmp_path / "README.md"
    copy.write_text(TEXT, encoding="utf-8")
    results = README.parent / "benchmarks" / "results"
    done = CliRunner().invoke(app, ["report", "--readme", str(copy), "--results", str(results)])
    assert done.exit_code == 0, done.output
    assert copy.read_text(encoding="utf-8") == TEXT


def test_a_readme_without_markers_is_refused(tmp_path: Path) -> None:
    copy = tmp_path / "README.md"
    copy.write_text("nothing\n", encoding="utf-8")
    done = CliRunner().invoke(app, ["report", "--readme", str(copy)])
    assert done.exit_code == 2
    assert copy.read_text(encoding="utf-8") == "nothing\n"
