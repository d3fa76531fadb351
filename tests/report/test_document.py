"""Documents: JSON there and back, whole files or none, differences, pages."""

from __future__ import annotations

import dataclasses
import html.parser
import json
import math
import os
from pathlib import Path

import numpy as np
import pytest

import kernellab as kl
from kernellab.errors import SpecError
from kernellab.experiments.check import Check
from kernellab.experiments.experiment import Outcome, Panel, Result
from kernellab.report.diff import compare_documents
from kernellab.report.document import Document, check_writable, load, to_json, write
from kernellab.report.html import page
from kernellab.report.table import Column, Table

CODE = 'extern "C" __global__ void twice(float* y) { y[threadIdx.x] *= 2; /* <b>&</b> */ }'


@pytest.fixture(scope="module")
def document():
    trace = kl.trace(CODE, "twice", 1, 32, (np.ones(32, np.float32),))
    records = kl.compare("relu/branch_free", case="1000 elements", device="emulator").records
    checks = (Check("relu/branch", "numba", "1 elements", True, True),)
    table = Table("t", (Column("kernel"), Column("seconds", "measured", is_number=True)), (("a", "1.5"),))
    panel = Panel("p", (), ("a",), {}, {"cuda-c": {"a": records[0]}})
    bare = Result("bare", "?", "emulator", ("cuda-c",), (panel,), (), ())
    return Document("trace", (bare,), records, (trace,), checks, (table,))


def test_there_and_back(document, tmp_path: Path) -> None:
    path = tmp_path / "out.json"
    write(path, to_json(document))
    again = load(path)
    assert again.checks == document.checks
    assert again.tables == document.tables
    assert again.traces[0].lines == document.traces[0].lines
    assert again.records[0].is_right
    assert to_json(again) == to_json(document)


def test_json_is_strict(document) -> None:
    def refuse(text: str) -> None:
        raise AssertionError(text)

    assert "NaN" not in to_json(document)
    json.loads(to_json(document), parse_constant=refuse)


def test_a_file_is_written_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "out.json"
    path.write_text("before")

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(SpecError, match=r"out\.json: it cannot be written: No space left on device; choose"):
        write(path, "after")
    assert path.read_text() == "before"
    assert os.listdir(tmp_path) == ["out.json"]


def test_a_link_stays_and_so_do_the_rights_of_a_file(tmp_path: Path) -> None:
    path, link = tmp_path / "out.json", tmp_path / "link.json"
    link.symlink_to(path)
    write(link, "first")
    path.chmod(0o600)
    write(link, "second")
    assert link.is_symlink()
    assert (path.read_text(), path.stat().st_mode & 0o777) == ("second", 0o600)


def test_a_pipe_is_written_to_and_not_replaced(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        check_writable(pipe)
        write(pipe, "text")
        assert os.read(reader, 9) == b"text"
    finally:
        os.close(reader)
    assert pipe.is_fifo()


def test_a_place_that_cannot_be_written_is_refused_before(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=r"the folder .*missing does not exist"):
        check_writable(tmp_path / "missing" / "x.json")
    with pytest.raises(SpecError, match="it is a folder; name a file"):
        check_writable(tmp_path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "it is not JSON"),
        ("{}", "this is not a kernellab report .*of run, check, compare, trace or bench"),
        ("[1]", "this is not a kernellab report"),
        ('{"format": "kernellab-1", "kind": "run"}', "the report is damaged"),
    ],
)
def test_other_files_are_refused(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "x.json"
    path.write_text(text)
    with pytest.raises(SpecError, match=message):
        load(path)
    with pytest.raises(SpecError, match="it cannot be read"):
        load(tmp_path / "none.json")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda data: data["traces"][0]["lines"][0].update(requests="x"), r"requests is 'x' and no int"),
        (
            lambda data: data["traces"][0]["totals"].update(branches="x"),
            r"totals\['branches'\] is 'x' and no float",
        ),
        (lambda data: data["traces"][0].update(mapped=None), "mapped is None and no float"),
        (lambda data: data["records"][0]["sizes"].update(n=1.5), r"sizes\['n'\] is 1.5 and no int"),
        (lambda data: data["records"][0].pop("sizes"), "record: it is damaged"),
        (lambda data: data["tables"][0].update(title=3), r"tables\[0\].title is 3 and no str"),
        (
            lambda data: data["tables"][0]["rows"][0].append("x"),
            "the table 't' has rows that are not of 2 cells",
        ),
        (lambda data: data["tables"][0].update(rows="xy"), "the table 't' has rows"),
        (
            lambda data: data["experiments"][0].update(languages="numba"),
            "bare: languages are numba, records in",
        ),
        (lambda data: data.pop("made"), "it lacks 'made'"),
        (lambda data: data.update(traces=3), "'int' object is not iterable"),
    ],
)
def test_an_edited_file_is_one_sentence(document, tmp_path: Path, change, message: str) -> None:
    data = document.to_dict()
    change(data)
    path = tmp_path / "edited.json"
    path.write_text(json.dumps(data))
    with pytest.raises(SpecError, match=rf"^{path}: .*{message}.*; m[^\n]* again[^\n]*$"):
        load(path)


def test_what_json_cannot_hold_is_none_or_nan_again(document, tmp_path: Path) -> None:
    record = dataclasses.replace(document.records[0], parameters={"max_norm": math.inf})
    line = dataclasses.replace(document.traces[0].lines[0], mean_active_lanes=math.nan)
    trace = dataclasses.replace(document.traces[0], lines=(line,), standard_errors={"branches": math.nan})
    write(tmp_path / "out.json", to_json(dataclasses.replace(document, records=(record,), traces=(trace,))))
    again = load(tmp_path / "out.json")
    assert again.records[0].parameters == {"max_norm": None}
    assert math.isnan(again.traces[0].lines[0].mean_active_lanes)
    assert math.isnan(again.traces[0].standard_errors["branches"])


def test_a_document_equals_itself(document) -> None:
    assert compare_documents(document, document) == ()


def test_a_changed_count_matters_and_a_changed_time_does_not(document) -> None:
    trace = document.traces[0]
    totals = {**trace.totals, "global_load_sectors": trace.totals["global_load_sectors"] * 2}
    other = dataclasses.replace(document, traces=(dataclasses.replace(trace, totals=totals),))
    (change,) = compare_documents(document, other)
    assert (change.name, change.before, change.after) == ("twice: global_load_sectors", "4", "8")
    assert (change.ratio, change.matters) == ("2 x", True)
    slower = dataclasses.replace(
        document, tables=(dataclasses.replace(document.tables[0], rows=(("a", "3.0"),)),)
    )
    (change,) = compare_documents(document, slower)
    assert (change.ratio, change.matters) == ("2 x", False)


def test_a_wrong_verdict_matters(document) -> None:
    checks = (dataclasses.replace(document.checks[0], is_expected=False),)
    (change,) = compare_documents(document, dataclasses.replace(document, checks=checks))
    assert change.matters
    assert change.after == "WRONG"


def test_a_changed_verdict_is_listed_once_for_both_languages(document) -> None:
    def claims(cuda: str, numba: str) -> Document:
        judged = (Outcome("c", "who", "cuda-c", cuda, ""), Outcome("c", "who", "numba", numba, ""))
        result = Result("e", "?", "emulator", ("cuda-c", "numba"), (), (), judged)
        return dataclasses.replace(document, experiments=(result,))

    (change,) = compare_documents(claims("held", "held"), claims("refuted", "refuted"))
    assert (change.name, change.before, change.after) == ("e: c", "held", "refuted")
    (change,) = compare_documents(claims("held", "held"), claims("held", "refuted"))
    assert (change.before, change.after) == ("held", "CUDA C: held, Numba: refuted")


def test_devices_and_commands_do_not_compare(document) -> None:
    elsewhere = tuple(dataclasses.replace(record, device_name="NVIDIA H200") for record in document.records)
    with pytest.raises(SpecError, match="numbers of different devices do not compare"):
        compare_documents(document, dataclasses.replace(document, records=elsewhere))
    with pytest.raises(SpecError, match="one is of 'trace' and one of 'run'"):
        compare_documents(document, dataclasses.replace(document, kind="run"))


class Tags(html.parser.HTMLParser):
    """Finds tags that do not close, and what they load."""

    VOID = ("meta", "br")

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.loaded: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.loaded += [value or "" for name, value in attrs if name in ("src", "href")]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def test_a_page_is_whole_and_needs_nothing_else(document) -> None:
    from kernellab.experiments import load as load_experiment
    from kernellab.experiments.runner import run

    results = tuple(
        run(load_experiment(name), "emulator", ("cuda-c",)) for name in ("bank-conflicts", "divergence")
    )
    text = page([document, Document("run", experiments=results)])
    tags = Tags()
    tags.feed(text)
    assert tags.open == []
    assert tags.loaded == []
    assert "<script" not in text
    assert "/* <b>&</b> */" in tags.text  # escaped in the page
    for part in ("padding moves conflicts", "needs a GPU", "counted, SASS", "Active lanes by line"):
        assert part in tags.text
