"""Suites of the GPU, on a fake one: what they write, and that each bar can be missed."""

from __future__ import annotations

import json
import math
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent.parent))
from timing_fakes import FakeGpu, FakeStopwatch

from kernellab import catalog, suites
from kernellab.errors import MismatchError, SpecError, UnavailableError
from kernellab.instruments import counters
from kernellab.instruments.clock import Rule
from kernellab.report.results import section
from kernellab.results import Results, load, load_folder, save, stale
from kernellab.suites import blocks, clock, compare, facts, ladder, large, peers, strides
from kernellab.suites import counters as counting
from kernellab.suites.bench import Bench, right_kernels, scaled
from kernellab.workload import CallWorkload

RULE = Rule(minimum=15, maximum=24)


def bench(jitter: tuple[float, ...] = (0.0, 0.001, -0.001), **options: object) -> Bench:
    stopwatch = FakeStopwatch(jitter)
    return Bench(FakeGpu(stopwatch, **options), stopwatch, nbytes=2**19, rule=RULE)


SMALL = {"copy": {"n": 4096}, "transpose": {"rows": 64, "columns": 64}, "relu": {"n": 4096}}


def some_kernels() -> tuple:
    return tuple(each for name in ("copy", "transpose", "relu") for each in catalog.ladder(name))


HEATS = tuple(dict.fromkeys(map(ladder.heat_of, right_kernels(catalog.kernels()))))


@pytest.mark.parametrize("heat", HEATS, ids=" ".join)
def test_the_whole_ladder_can_be_bound(heat: tuple[str, str]) -> None:
    where = bench()
    arena = ladder.arena_for(where, *heat)
    for kernel in right_kernels(catalog.ladder(heat[0])):
        if ladder.heat_of(kernel) == heat:
            plan = where.enlarged(kernel) if arena is None else arena.plan(kernel)
            assert plan.steps


def test_ladder_times_every_right_kernel_in_every_language(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(catalog, "kernels", some_kernels)
    found = ladder.run(bench())
    timed = {(row["kernel"], row["language"]) for row in found.rows if "samples" in row}
    assert timed == {
        (kernel.id, language)
        for kernel in right_kernels(some_kernels())
        for language in ("cuda-c", "numba")
        if language == "cuda-c" or kernel.has_twin
    }
    assert {tuple(name.split()) for name in found.sources} == timed
    copied = next(row for row in found.rows if row.get("kernel") == "copy/float4")
    assert copied["fraction_of_copy"] == pytest.approx(1, rel=0.01)
    assert len(copied["samples"]) == 24
    assert copied["nbytes"] == 2**19
    again = load(save(found, tmp_path))
    assert again.to_dict() == json.loads(json.dumps(found.to_dict()))
    assert [line.partition(":")[0] for line in found.lines] == ["transpose", "relu", "copy"]


def test_a_rung_of_other_elements_has_an_arena_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = catalog.kernel("scale/scalar"), catalog.kernel("scale/vectorised")
    both = (first, replace(second, elements=("float16",), constants={}, fallback=None))
    monkeypatch.setattr(catalog, "kernels", lambda: both)
    monkeypatch.setattr(catalog, "ladder", lambda name: both)
    found = ladder.run(bench())
    assert {row["kernel"]: row["element"] for row in found.rows if "samples" in row} == {
        "scale/scalar": "float32",
        "scale/vectorised": "float16",
    }


def test_every_right_kernel_can_be_enlarged() -> None:
    where = bench()
    for kernel in right_kernels(catalog.kernels()):
        assert where.enlarged(kernel).steps, kernel.id


def test_what_takes_too_long_is_left_out_and_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalog, "kernels", lambda: catalog.ladder("relu"))
    found = ladder.run(replace(bench(), budget=-1.0))
    assert found.rows == ()
    assert found.lines == (f"left out: the last 2 of 2, the {-ladder.SHARE} s were over",)


def test_a_kernel_over_a_limit_is_left_out_and_said(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = catalog.kernel("sum/vectorised")
    broken = replace(kernel, constants={**kernel.constants, "THREADS": 33})
    monkeypatch.setattr(catalog, "kernels", lambda: (broken,))
    (line,) = ladder.run(bench()).lines
    assert line.startswith("left out: sum/vectorised: THREADS is 33")
    assert "(2 times, first at sum/vectorised)" in line


def test_a_slow_twin_is_explained_by_its_machine_code(monkeypatch: pytest.MonkeyPatch) -> None:
    where, calls = bench(), FakeGpu.calls

    def slower(self: FakeGpu, program: object, plan: object, buffers: dict) -> tuple:
        found = calls(self, program, plan, buffers)
        return found if program.language == "cuda-c" else (*found, *found)

    monkeypatch.setattr(FakeGpu, "calls", slower)
    monkeypatch.setattr(catalog, "kernels", lambda: (catalog.kernel("relu/branch"),))
    found = ladder.run(where)
    (twin,) = (row for row in found.rows if row.get("language") == "numba")
    assert twin["twin_ratio"] == pytest.approx(2, rel=0.01)
    assert twin["facts"]["numba"]["registers"] > 0
    assert twin["why"]
    (line,) = found.lines
    assert line == f"relu: branch 1.00 x2.00 | branch: {twin['why']}"


ONE = facts.Facts(32, 0, 1.0, 100, 4, 2, 16, 16, 0, 0)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"local_bytes": 40, "local_accesses": 6}, "40 B/thread of local memory against 0 (6 accesses)"),
        ({"load_bytes": 4}, "loads 4 B wide against 16 B"),
        ({"store_bytes": 2}, "stores 2 B wide against 16 B"),
        ({"occupancy": 0.5, "registers": 64}, "occupancy 0.50 against 1.00 (64 registers against 32)"),
        ({"loads": 1}, "1 loads written against 4: unrolled less"),
        ({"instructions": 210}, "2.1 x the instructions"),
        ({"calls": 3}, "3 calls against 0"),
    ],
)
def test_each_fact_is_a_reason(change: dict[str, float], reason: str) -> None:
    assert facts.reasons(ONE, replace(ONE, **change)) == reason
    assert facts.reasons(replace(ONE, **change), ONE).startswith("by none of")


def test_facts_are_read_off_the_machine_code() -> None:
    kernel = catalog.kernel("copy/float4")
    where = bench()
    plan = where.enlarged(kernel)
    found = facts.facts_of(where.device.build(kernel, "cuda-c"), plan)
    assert (found.load_bytes, found.store_bytes, found.local_bytes, found.calls) == (16, 16, 0, 0)
    assert found.loads >= 1
    scalar = catalog.kernel("copy/scalar")
    assert facts.facts_of(where.device.build(scalar, "cuda-c"), where.enlarged(scalar)).load_bytes == 4


def test_stale_sources_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    found = Results("x", "x", sources={"copy/float4 cuda-c": "0", "copy/gone numba": "1"})
    assert stale(found) == ("copy/float4 cuda-c", "copy/gone numba")
    fresh = bench().results("x", "x", (), [catalog.kernel("copy/float4")])
    assert set(fresh.sources) == {"copy/float4 cuda-c", "copy/float4 numba"}
    assert stale(fresh) == ()
    monkeypatch.setattr("kernellab.kernel.Kernel.text", lambda self: "changed")
    assert stale(fresh) == ("copy/float4 cuda-c",)


def test_peers_are_verified_and_compared() -> None:
    found = peers.run(bench(), SMALL)
    assert found.is_good, found.bars
    assert {row["workload"] for row in found.rows} >= {
        "copy/float4", "cudaMemcpy", "cupy.copyto", "transpose/vectorised", "cupy.copyto(y, x.T)",
    }  # fmt: skip
    if "torch" not in sys.modules:
        assert any(note.startswith("torch copy_ was left out: ") for note in found.notes)


def test_a_wrong_peer_is_no_peer(monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = peers.Peer("half", lambda cupy, inputs, out: lambda: np.copyto(out[::2], inputs["x"][::2]))
    monkeypatch.setattr(peers, "PEERS", {"copy": (wrong,)})
    with pytest.raises(MismatchError, match="half: y differs in 2048 of 4096 elements"):
        peers.run(bench(), SMALL)


@pytest.mark.parametrize(
    ("row", "factor", "missed"),
    [
        ("copy/float4", 0.9, "0.98 of cudaMemcpy"),
        ("cupy.copyto(y, x.T)", 4, "3 times CuPy's"),
        ("transpose", 0.8, "0.90 of a copy"),
    ],
)
def test_each_bar_of_peers_can_be_missed(row: str, factor: float, missed: str) -> None:
    rows = [dict(each) for each in peers.run(bench(), SMALL).rows]
    for each in rows:
        if each["workload"].startswith(row):
            each["gigabytes_per_second"] *= factor
            each["fraction_of_copy"] *= factor
    bars = peers._bars(rows)
    assert [text for text, is_reached in bars.items() if not is_reached and missed in text]


def test_blocks_sweep_every_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "catalog", SimpleNamespace(kernels=some_kernels))
    found = blocks.run(bench())
    kernels = {row["kernel"] for row in found.rows}
    assert {"copy/scalar", "copy/float4"} <= kernels
    assert not any("transpose" in name for name in kernels)
    for name in kernels:
        ran = [row["block"][0] for row in found.rows if row["kernel"] == name]
        assert tuple(ran) == blocks.THREADS


def test_free_blocks_are_free() -> None:
    from kernellab.devices import device
    from kernellab.measurement import measure

    for kernel in blocks.free_kernels():
        for threads in blocks.THREADS:
            changed = replace(kernel, geometry=replace(kernel.geometry, block=(threads,)))
            record = measure(changed, device=device("emulator"))
            assert record.is_right, (kernel.id, threads)
            assert record.block == (threads, 1, 1)


def test_strides_show_counts_beside_times() -> None:
    found = strides.run(bench())
    rows = {(row["point"], row["language"]): row for row in found.rows}
    assert rows["stride 8", "cuda-c"]["sectors_per_request_load"] == 32
    assert rows["stride 8", "cuda-c"]["parameters"] == {"stride": 8}
    assert rows["offset 8", "numba"]["sectors_per_request_load"] == 4


def fake_ncu(change: dict[str, float]) -> object:
    """What an ncu that agrees with the emulator but for `change` would give."""
    from kernellab.devices import device
    from kernellab.measurement import measure

    def read(jobs: list[counters.Job], metrics: object = None) -> list[list[dict[str, float]]]:
        found = []
        for job in jobs:
            arrays = [job.inputs[item.name] for item in job.kernel.inputs]
            record = measure(
                job.kernel, *arrays, language=job.language, device=device("emulator"), **job.parameters
            )
            counted = {each.name: each.value for each in record.readings if each.source == "counted"}
            counted["global_red_requests"] = counted["global_red_sectors"] = 0.0
            counted["global_atom_requests"] = counted["global_atomic_requests"]
            counted["global_atom_sectors"] = counted["global_atomic_sectors"]
            counted["warp_instructions_sass"] = counted["warp_instructions"]
            counted["thread_instructions_on"] = counted["thread_instructions"]
            for kind in ("load", "store"):
                waves = counted[f"shared_{kind}_wavefronts"]
                counted[f"shared_{kind}_wavefronts_hardware"] = waves
            launch = {name: counted[name] for name in counters.METRICS if name in counted}
            found.append([{name: value * change.get(name, 1.0) for name, value in launch.items()}])
        return found

    return read


@pytest.fixture(scope="module")
def two_points() -> tuple[counting.Task, ...]:
    every = counting.tasks()
    assert {task.experiment for task in every} == {"coalescing", "bank-conflicts", "divergence"}
    assert {task.language for task in every} == {"cuda-c", "numba"}
    chosen = ("stride 8", "4 B, stride 32")
    return tuple(task for task in every if task.point.label in chosen)


@pytest.mark.parametrize(
    ("change", "missed"),
    [
        ({}, 0),
        ({"global_load_sectors": 1.01}, 1),
        ({"shared_load_wavefronts": 0.5}, 1),
        ({"divergent_branches": math.nan}, 1),
        ({"shared_load_wavefronts_hardware": 1.04, "thread_instructions": 0.97}, 0),
        ({"shared_load_wavefronts_hardware": 1.06}, 1),
        ({"thread_instructions": 0.9}, 1),
    ],
)
def test_counters_must_be_the_hardware_s(
    monkeypatch: pytest.MonkeyPatch, two_points: tuple, change: dict[str, float], missed: int
) -> None:
    monkeypatch.setattr(counting, "tasks", lambda: two_points)
    monkeypatch.setattr(counters, "read_counters", fake_ncu(change))
    found = counting.run(bench())
    assert list(found.bars.values()).count(False) == missed, (found.bars, found.lines)
    summaries = [row for row in found.rows if "points" in row]
    assert [row["points"] for row in summaries] == [1, 1, 1, 1]


def test_locked_counters_are_said() -> None:
    def refuse(*args: object) -> None:
        raise UnavailableError("counters: locked")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(counters, "read_counters", refuse)
        assert counting.run(bench()).lines == ("counters: locked",)


@pytest.mark.parametrize(("error", "agrees"), [(0.0, True), (0.015, True), (0.03, False)])
def test_the_clock_is_compared_with_ncu_s(
    monkeypatch: pytest.MonkeyPatch, error: float, agrees: bool
) -> None:
    where = bench(jitter=(0.0,))
    where.stopwatch.spin = where.stopwatch.pass_time
    times = iter(())

    def read(jobs: list[counters.Job], metrics: object) -> list[list[dict[str, float]]]:
        seconds = [timed[job.kernel.id, str(dict(job.inputs["x"].__array_interface__))] for job in jobs]
        return [[{"seconds": each * (1 + error)}] for each in seconds]

    timed: dict[tuple[str, str], float] = {}
    workload = where.workload

    def remember(plan: object, language: str, name: str = "") -> object:
        work = workload(plan, language, name)
        key = plan.kernel.id, str(dict(plan.inputs["x"].__array_interface__))
        timed[key] = work.nbytes * 1e-12
        return work

    monkeypatch.setattr(where, "workload", remember)
    monkeypatch.setattr(counters, "read_counters", read)
    monkeypatch.setattr(clock, "SHORT", (1e-6, 2e-6))
    monkeypatch.setattr(clock, "LONG", (1e-5,))
    monkeypatch.setattr(clock, "ABSOLUTE", 0.0)
    monkeypatch.setattr(clock, "scaled", lambda problem, nbytes: scaled(problem, nbytes // 2**7))
    found = clock.run(where)
    assert next(times, None) is None
    assert found.is_good == agrees, (found.bars, found.lines)
    assert found.rows[-1]["kernel"] == "spin of 1 ms"
    assert found.rows[-1]["seconds"] == pytest.approx(1e-3)


def test_a_clock_that_misreads_a_spin_misses_its_bar() -> None:
    where = bench(jitter=(0.03,))
    where.stopwatch.spin = where.stopwatch.pass_time
    assert not clock.spin_row(where)["agrees"]


def test_compare_finds_what_is_there_and_nothing_else() -> None:
    found = compare.run(bench(jitter=(0.0, 0.004, -0.003, 0.002)))
    assert found.is_good, found.bars
    assert [row["ratio"] for row in found.rows if row["pair"] == "itself"] == [1.0] * 10
    assert all(row["ratio"] == pytest.approx(1.05, abs=0.01) for row in found.rows[10:])


def test_compare_s_bars_can_be_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compare, "SLOWDOWN", 1.0)
    bars = compare.run(bench()).bars
    assert list(bars.values()) == [True, False]
    monkeypatch.setattr(compare, "is_slower", lambda first, second: 1.02)
    assert list(compare.run(bench()).bars.values()) == [False, True]


def test_large_arrays_are_looked_at_element_by_element(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(large, "ROWS", 2**6)
    monkeypatch.setattr(large, "CHUNK", 2**9)
    found = large.run(bench(), elements=2**12)
    assert found.is_good
    assert {row["elements"] for row in found.rows} == {2**12}
    assert not large.run(bench(breaks_at=3), elements=2**12).is_good
    # 36 columns are no whole vectors of 16-bit elements: a rung that refuses them gets 40.
    assert {row["elements"] for row in large.run(bench(), elements=2**6 * 36).rows} == {2**6 * 36, 2**6 * 40}


def test_one_wrong_element_of_many_is_seen() -> None:
    first = np.arange(10_000, dtype=np.float32).reshape(100, 100)
    second = first.copy()
    assert large._is_equal(np, first, second)
    second[99, 99] = np.nan
    assert not large._is_equal(np, first, second)


def test_numbered_elements_differ_from_neighbours() -> None:
    x = large._numbered(np, (64, 64), "float32").view(np.uint32).ravel()
    assert len(np.unique(x)) > 4000
    assert not np.array_equal(x.reshape(64, 64), x.reshape(64, 64).T)


def test_two_workloads_of_one_name_are_refused() -> None:
    where = bench()
    twice = [CallWorkload("same", lambda: None), CallWorkload("same", lambda: None)]
    with pytest.raises(SpecError, match="two workloads share a name"):
        where.time(twice)


def test_a_suite_that_is_not_there() -> None:
    with pytest.raises(SpecError, match="did you mean 'ladder'"):
        suites.run("lader", bench())


def test_the_readme_says_which_committed_results_are_of_other_sources() -> None:
    root = Path(__file__).parents[2]
    text = (root / "README.md").read_text(encoding="utf-8")
    for results in load_folder(root / "benchmarks" / "results"):
        assert results.rows, results.name
        assert results.environment.get("device"), results.name
        for name in stale(results):
            (line,) = [each for each in text.splitlines() if each.startswith(f"- {results.name}: ")]
            assert name.rpartition(" ")[0] in line, results.name


def test_results_of_other_sources_are_named() -> None:
    (known, *_) = load_folder(Path(__file__).parents[2] / "benchmarks" / "results")
    name = next(iter(known.sources))
    fresh = replace(known, sources={})
    assert "sources changed" not in section([fresh])
    old = section([replace(known, sources={name: "something else"})])
    assert f"- {known.name}: {name.rpartition(' ')[0]}\n" in old


@pytest.mark.parametrize(
    "text", ["", "[]", '{"format": "else"}', '{"format": "kernellab-results-1", "x": 1}']
)
def test_what_is_no_result_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "x.json"
    path.write_text(text)
    with pytest.raises(SpecError, match=r"x\.json: "):
        load(path)


def test_results_have_no_nan(tmp_path: Path) -> None:
    path = save(Results("x", "x", rows=({"a": math.nan, "b": [math.inf, 1.0]},)), tmp_path)
    assert json.loads(path.read_text(), parse_constant=lambda text: pytest.fail(text))["rows"] == [
        {"a": None, "b": [None, 1.0]}
    ]


def test_scaled_cases_move_what_was_asked_for() -> None:
    for problem in (catalog.problem(name) for name in catalog.PROBLEMS):
        case = scaled(problem, 2**24)
        kernel = catalog.ladder(problem.name)[0]
        given = problem.inputs(case)
        from kernellab.plan import bind

        nbytes = bind(kernel, {item.name: given[item.name] for item in kernel.inputs}).cost().nbytes
        assert 2**24 <= nbytes < 2**26.5, problem.name
