"""The suites memory and rows on a fake GPU: what is timed, what is shown, and that each bar can be missed."""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent.parent))
from timing_fakes import SECONDS_A_BYTE, FakeGpu
from timing_fakes import make_bench as bench

from kernellab import catalog
from kernellab.errors import CompileError, UnavailableError
from kernellab.problem import ELEMENTS
from kernellab.report.results import markdown_table, shown_rows
from kernellab.results import load, save
from kernellab.suites import memory, peer_cub, peer_rows, rows
from kernellab.suites.arena import Arena
from kernellab.suites.peer_works import Peer, Setting


@pytest.fixture(autouse=True)
def nothing_is_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent() -> None:
        raise UnavailableError("CUB needs nvcc")

    monkeypatch.setattr(FakeGpu, "build", lambda self, kernel, language="cuda-c": None)
    monkeypatch.setattr(peer_cub, "building", absent)
    monkeypatch.setattr(memory, "building", absent)


def timed(problem: str, workload: str, seconds: float, **more: object) -> dict:
    kernel, _, language = workload.partition(" ") if "/" in workload else ("", "", "")
    return {
        "problem": problem, "workload": workload, "kernel": kernel, "language": language, "seconds": seconds,
        "element": "float32", "sizes": {"n": 2**28}, "contents": "random",
        "fraction_of_copy": 1 / seconds, "gigabytes_per_second": 4000 / seconds,
    } | more  # fmt: skip


# -- memory
def test_a_twin_stands_beside_its_own_rung_or_nowhere() -> None:
    heat = memory.Heat("scale", {"n": 2**28})
    rows = [
        timed("scale", "scale/unrolled cuda-c", 1.0),
        timed("scale", "scale/vectorised cuda-c", 1.25),
        timed("scale", "scale/vectorised numba", 1.6),
    ]
    assert memory.summary(heat, rows)["rung"] == "unrolled"
    assert memory.summary(heat, rows)["twin_of_copy"] is None
    rows[1]["seconds"] = 0.8
    assert memory.summary(heat, rows)["rung"] == "vectorised"
    assert memory.summary(heat, rows)["twin_of_copy"] == 1 / 1.6


def test_memory_times_the_best_rungs_beside_peers(tmp_path: Path) -> None:
    chosen = (
        memory.Heat("scale", {"n": 4096}),
        memory.Heat("cumsum", {"n": 4096}),
        memory.Heat("histogram", {"n": 4096}, contents="equal"),
        memory.Heat("transpose", {"rows": 64, "columns": 64}),
    )
    found = memory.run(bench(), chosen)
    ran = {row["workload"] for row in found.rows if "samples" in row}
    assert {
        "scale/unrolled cuda-c",
        "scale/vectorised cuda-c",
        "scale/vectorised numba",
        "cumsum/lookback cuda-c",
    } <= ran
    assert "cupy.copyto(y, x.T)" in ran
    assert [row["what"] for row in shown_rows(found)] == ["scale", "cumsum", "histogram equal", "transpose"]
    assert "| transpose | vectorised |" in markdown_table(found)
    assert any(note.startswith("CUB") for note in found.notes)
    assert {name.split()[0] for name in found.sources} >= {"cumsum/lookback", "cumsum/grouped"}
    again = load(save(found, tmp_path))
    assert again.to_dict() == json.loads(json.dumps(found.to_dict()))


def test_memory_takes_what_the_issue_asks_for() -> None:
    chosen = tuple(memory.heats())
    assert {heat.sizes.get("n", 2**28) for heat in chosen} == {2**28}
    assert {heat.contents for heat in chosen if heat.problem == "histogram"} == {"random", "equal"}
    moved = [heat.element for heat in chosen if heat.problem == "transpose"]
    assert "float32" in moved
    assert tuple(moved) == catalog.ladder("transpose")[-1].elements
    for element in moved:
        rungs = [kernel.name for kernel in memory.contenders(memory.Heat("transpose", {}, element))]
        assert rungs[-1] == "vectorised"
        assert ("matrices" in rungs) == (element == "float16"), "the rung for 16 bits is timed in 16 bits"


EACH = tuple(memory.heats())


def memory_rows() -> list[dict]:
    found = []
    for heat in EACH:
        about = {"element": heat.element, "sizes": dict(heat.sizes), "contents": heat.contents}
        found.append(timed(heat.problem, f"{heat.problem}/best cuda-c", 1.0, **about))
        found.append(timed(heat.problem, "CUB", 1.5, **about))
    return found


def test_bars_of_memory_hold_and_can_be_missed() -> None:
    assert all(memory.bars(memory_rows(), EACH).values())
    for problem in ("scale", "axpy", "sum", "cumsum", "histogram", "transpose"):
        slow = memory_rows()
        for row in slow:
            if row["problem"] == problem and row["kernel"]:
                row |= {"seconds": 1.6, "fraction_of_copy": 0.6}
        missed = [text for text, is_reached in memory.bars(slow, EACH).items() if not is_reached]
        assert missed, problem
        assert all(text.startswith(problem) for text in missed)
    slow = memory_rows()
    for row in slow:
        if row["contents"] == "equal":
            row["seconds"] = 2.1
    (missed,) = (text for text, is_reached in memory.bars(slow, EACH).items() if not is_reached)
    assert missed == "histogram equal at least half of its speed on random data (is 0.476)"


def test_what_was_not_measured_reaches_no_bar() -> None:
    found = memory.bars([], EACH)
    assert found
    assert not any(found.values())
    assert all(text.endswith("(not measured)") for text in found)


# -- rows
def test_rows_times_cells_twins_and_chains() -> None:
    found = rows.run(bench(), lengths=(rows.USUAL, 64), count=2**14)
    raw = [row for row in found.rows if "samples" in row]
    usual = {row["workload"] for row in raw if row["sizes"]["columns"] == rows.USUAL}
    assert {
        "softmax/registers cuda-c", "softmax/registers numba", "layernorm_gelu/unfused cuda-c",
        "layernorm_gelu/unfused: norm", "layernorm_gelu/unfused: gelu",
    } <= usual  # fmt: skip
    assert {(row["problem"], row["element"]) for row in raw} == {
        (problem, element) for problem in rows.PROBLEMS for element in ELEMENTS
    }
    shown = shown_rows(found)
    assert len(shown) == len(rows.PROBLEMS) * len(ELEMENTS)
    # One launch that moves the compulsory bytes is as fast as a copy; no peer is here.
    assert shown[0]["64 columns"] == "1.00 / -"
    assert sum("Triton was left out" in note for note in found.notes) <= 2


def test_rows_are_as_many_bytes_at_every_length() -> None:
    for heat in rows.heats():
        sizes = rows._arena(bench(), heat, rows.ELEMENTS_OF_A_MATRIX).sizes
        expected = 2**27 if 4096 <= heat.columns <= 32768 else 2**26
        assert sizes["rows"] * sizes["columns"] == pytest.approx(expected, rel=1e-3)
    assert rows._arena(bench(), rows.Heat("softmax", "float32", 8192), 2**27).sizes["rows"] == 16384


def test_long_rows_are_also_split_over_blocks() -> None:
    def names(columns: int) -> list[str]:
        return [kernel.name for kernel, _ in rows.rungs("softmax", columns)]

    assert names(131072)[:2] == [rows.last("softmax").name, "split"]
    assert names(4096)[0] == names(131072)[0]
    assert "split" not in names(4096)
    assert len(names(1000)) == 1
    assert names(8192)[:2] == ["registers", "pipelined"]


def test_what_triton_compiles_before_is_what_takes_part() -> None:
    heats = [heat for heat in rows.heats() if heat.problem in peer_rows.IN_TRITON]
    made = rows.in_triton(rows.heats())
    assert len(set(made)) == len(made)
    for heat in heats:
        peers = peer_rows.peers_of(rows._arena(bench(), heat, 2**14))
        warps = [each for *what, each in made if what == [heat.problem, heat.element, heat.columns]]
        assert [peer.name for peer in peers if peer.family] == [f"Triton, {each} warps" for each in warps]


def test_a_cell_names_a_rung_that_is_not_the_usual_one() -> None:
    row = {"problem": "softmax", "language": "cuda-c", "seconds": 1.0, "fraction_of_copy": 1.0}
    assert rows.cell([row | {"kernel": "softmax/registers"}]) == "1.00 / -"
    assert rows.cell([row | {"kernel": "softmax/pipelined"}]) == "1.00 / - pipelined"


def rows_rows(seconds: float = 1.0) -> list[dict]:
    found = []
    for heat in rows.heats():
        about = {"element": heat.element, "sizes": {"rows": 1, "columns": heat.columns}}
        found.append(timed(heat.problem, f"{heat.problem}/registers cuda-c", seconds, **about))
        found.append(timed(heat.problem, "Triton, 4 warps", 1.0, **about))
        if heat.problem == rows.CHAINED and heat.columns == rows.USUAL:
            found.append(timed(heat.problem, f"{heat.problem}/unfused cuda-c", 1.9, **about))
            part = {"kernel": f"{heat.problem}/unfused", "language": "cuda-c", "part": True}
            found += [timed(heat.problem, name, 1.0, **about, **part) for name in ("norm", "gelu")]
    return found


@pytest.mark.parametrize(
    ("which", "change", "missed"),
    [
        ({}, {}, []),
        ({"problem": "softmax"}, {"fraction_of_copy": 0.94}, ["softmax in float32 at least 0.95 of copy"]),
        (
            {"problem": "rmsnorm", "element": "bfloat16"}, {"fraction_of_copy": 0.92},
            ["rmsnorm in float16 and bfloat16 at least 0.93 of copy"],
        ),
        ({"problem": "softmax_dropout"}, {"fraction_of_copy": 0.89}, ["softmax_dropout at least 0.90 of copy"]),
        (
            {"problem": "layernorm"}, {"seconds": 1.06},
            ["layernorm at least 0.99 of the best peer", "layernorm: no peer faster by over 5 %"],
        ),
        (
            {"problem": "layernorm_gelu"}, {"seconds": 1.04},
            ["layernorm_gelu at least 0.99 of", *[f"layernorm_gelu in {e} at least 1.84" for e in ELEMENTS]],
        ),
        (
            {"part": True, "element": "float16"}, {"fraction_of_copy": 0.9},
            ["each kernel of that chain in float16 at least 0.95"],
        ),
    ],
)  # fmt: skip
def test_bars_of_rows_hold_and_can_be_missed(which: dict, change: dict, missed: list[str]) -> None:
    found = rows_rows()
    for row in found:
        is_ours = row["kernel"].endswith("registers") or "part" in which
        if is_ours and all(row.get(key) == value for key, value in which.items()):
            row |= change
    texts = [text for text, is_reached in rows.bars(found).items() if not is_reached]
    assert len(texts) == len(missed), texts
    for text, start in zip(texts, missed, strict=True):
        assert text.startswith(start)


def test_a_cell_that_was_not_timed_is_no_bar_reached() -> None:
    found = [row for row in rows_rows() if row["sizes"]["columns"] != 16384 or row["problem"] != "softmax"]
    missed = [text for text, is_reached in rows.bars(found).items() if not is_reached]
    assert missed
    assert all("softmax" in text and "16384 (not measured)" in text for text in missed)


def test_what_is_over_the_budget_is_said() -> None:
    found = rows.run(bench(), lengths=(64,), count=2**10, share=-1)
    assert found.lines == ("left out: the last 21 of 21, the -90 s were over",)


# -- peers
def test_cub_is_called_with_storage_of_the_size_it_asks_for(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def algorithm(storage, nbytes, x, y, n, stream):
        asked.append((storage, n))
        nbytes._obj.value = 77
        return 0 if n != 5 else 9

    monkeypatch.setattr(peer_cub, "algorithm", lambda name: algorithm)
    where = Arena(bench(), catalog.problem("sum"), {"n": 1000})
    out = where.bench.device.cupy.empty(1, "float32")
    setting = Setting(where.xp, where.inputs, out, "float32", where.sizes, {})
    call = peer_cub.cub("sum")(setting)
    assert asked == [(None, 1000)]
    assert call() is None
    assert asked[1][0] is not None
    counts = peer_cub.cub("histogram")(setting)()
    assert (counts.shape, counts.dtype) == ((256,), np.int32)
    small = Setting(where.xp, {"x": where.inputs["x"][:5]}, out, "float32", where.sizes, {})
    with pytest.raises(RuntimeError, match="CUB's sum gives CUDA error 9"):
        peer_cub.cub("sum")(small)


def test_cub_that_does_not_build_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    class Job:
        returncode = 1

        def communicate(self, timeout: float) -> tuple[str, None]:
            return "cub.cu(1): error: no such thing", None

    monkeypatch.setattr(peer_cub, "building", lambda: ("/nowhere", {"sum": Job()}))
    with pytest.raises(CompileError, match=r"CUB's sum does not build: .*no such thing"):
        peer_cub.algorithm.__wrapped__("sum")


def test_every_algorithm_of_cub_is_in_its_source() -> None:
    text = peer_cub.SOURCE.read_text()
    for name in peer_cub.ALGORITHMS:
        assert f"#ifdef WITH_{name.upper()}\n" in text
        assert f"int cub_{name}(" in text


def test_every_problem_in_triton_has_its_kernel() -> None:
    text = peer_rows.SOURCE.read_text()
    compile(text, "triton_rows.py", "exec")
    for problem in peer_rows.IN_TRITON:
        assert f'    "{problem}": (' in text


def test_peers_by_row_length() -> None:
    def names(problem: str, columns: int) -> list[str]:
        where = Arena(bench(), catalog.problem(problem), {"rows": 2, "columns": columns})
        return [peer.name for peer in peer_rows.peers_of(where) if peer.is_for(where)]

    assert names("layernorm_gelu", 8192)[:3] == ["F.layer_norm, F.gelu", "torch.compile", "Triton, 8 warps"]
    assert "torch.compile" not in names("layernorm_gelu", 4096)
    assert names("bias_gelu", 4096) == ["x + b, F.gelu"]
    assert names("softmax", 131072) == ["torch.softmax", "Triton, 32 warps"]


def test_a_peer_s_clock_is_ours() -> None:
    where = bench()
    fast = Peer("fast", lambda s: lambda: where.stopwatch.pass_time(1e-6) or s.inputs["x"] * np.float32(2))
    found = memory.race(
        Arena(where, catalog.problem("scale"), {"n": 4096}),
        memory.entries(memory.contenders(memory.Heat("scale", {}))),
        [fast],
    )
    seconds = {row["workload"]: row["seconds"] for row in found}
    assert seconds["fast"] == pytest.approx(1e-6, rel=0.01)
    assert seconds["scale/unrolled cuda-c"] == pytest.approx(8 * 4096 * SECONDS_A_BYTE, rel=0.01)
    assert not any(math.isnan(each) for each in seconds.values())
