"""Fusion, automatic fusion and the ladders: what is counted holds, and fails when a step is taken back."""

from __future__ import annotations

import dataclasses
import json
import os
from functools import cache

import numpy as np
import pytest
import timing_fakes

from kernellab import catalog
from kernellab.errors import MismatchError, SpecError, UnavailableError
from kernellab.experiments import FUNDAMENTALS, auto_fusion, fusion, generated, ladders, load
from kernellab.experiments.clocked import GpuClock, first_rows
from kernellab.experiments.experiment import Experiment, Point, Result, Rows
from kernellab.experiments.runner import run
from kernellab.experiments.tools import alike, two_answers
from kernellab.instruments.clock import Timing
from kernellab.plan import bind
from kernellab.problem import Case

NAMES = ("fusion", "auto-fusion", "ladders")


FEW = ("copy", "transpose", "axpy", "sum", "row_argmax", "cumsum", "histogram", "softmax")
TESTED = ladders.LADDERS if os.environ.get("KERNELLAB_EXHAUSTIVE") else FEW


def loaded(name: str) -> Experiment:
    """The experiment; of the ladders some, unless all are asked for: together they take minutes to compile."""
    return ladders.experiment(TESTED, ("cuda-c",)) if name == "ladders" else load(name)


@cache
def result_of(name: str) -> Result:
    return run(loaded(name), "emulator", ("cuda-c",))


def rows_of(name: str, language: str = "cuda-c") -> Rows:
    panels = result_of(name).panels
    return Rows({label: each for panel in panels for label, each in panel.records[language].items()})


def verdict(name: str, start: str, **instead: str) -> bool | None:
    """Judge an expectation with the records of some points in place of others'."""
    rows = rows_of(name)
    changed = {label: rows[instead.get(label, label)] for label, _ in rows.items()}
    (found,) = [each for each in loaded(name).expectations if each.text.startswith(start)]
    return found.check(Rows(changed))[0]


@pytest.mark.parametrize("name", NAMES)
def test_every_expectation_holds(name: str) -> None:
    result = result_of(name)
    assert [(o.text, o.found) for o in result.expectations if o.verdict != "held"] == []
    assert result.expectations
    again = Result.from_dict(json.loads(json.dumps(result.to_dict(), allow_nan=False)))
    assert again.expectations == result.expectations
    assert again.notes == result.notes


def test_without_a_name_three_experiments_run() -> None:
    assert FUNDAMENTALS == ("coalescing", "bank-conflicts", "divergence")


STEPS = [(problem, step) for problem in TESTED for step in ladders.STEPS.get(problem, ())]


@pytest.mark.parametrize(
    ("problem", "step"), STEPS, ids=[f"{p}: {s.before} to {s.after}, {s.reading}" for p, s in STEPS]
)
def test_a_step_taken_back_breaks_its_ladder(problem: str, step: ladders.Step) -> None:
    before, after = (ladders.label_of(problem, rung, step.contents) for rung in (step.before, step.after))
    assert verdict("ladders", f"{problem}:") is True
    assert verdict("ladders", f"{problem}:", **{after: before}) is False


OF_OTHERS = {
    **dict.fromkeys(("strided", "offset", "take", "aos", "soa"), "copy"),
    **dict.fromkeys(("branch", "branch_free"), "relu"),
    "grouped": "cumsum",
}
"""Rungs that save no count of the one before: layouts and branches, and bits that are the same in each run."""


OF_ARITHMETIC = ("matmul", "attention")
"""Ladders that memory does not limit."""


OF_THEIR_OWN = ("chase", "reread", "tally", "horner", "elementary")
"""Ladders that the experiments hierarchy, atomics and precision-cost climb."""
CLIMBED = [name for name in catalog.PROBLEMS if not name.startswith((*OF_ARITHMETIC, *OF_THEIR_OWN))]


@pytest.mark.parametrize("problem", CLIMBED)
def test_every_rung_is_run_and_stands_in_a_step(problem: str) -> None:
    rungs = [rung.name for rung in catalog.ladder(problem) if not rung.fault]
    assert {ladders.label_of(problem, rung) for rung in rungs} <= {p.label for p in ladders.EXPERIMENT.points}
    stepped = {name for step in ladders.STEPS.get(problem, ()) for name in (step.before, step.after)}
    assert len(rungs) == 1 or set(rungs) - stepped <= {k for k, v in OF_OTHERS.items() if v == problem}


def test_one_ladder_in_both_languages_and_all_in_one() -> None:
    result = run(load("ladders:scale"), "emulator")
    assert result.languages == ("cuda-c", "numba")
    assert [o.verdict for o in result.expectations] == ["held"] * 4
    assert load("ladders").languages == ("cuda-c",)
    with pytest.raises(SpecError, match=r"^ladders: it runs in cuda-c and not in numba; ask for that$"):
        run(load("ladders"), "emulator", ("numba",))
    with pytest.raises(SpecError, match=r"^ladders:scales: no ladder has this name; there are copy, "):
        load("ladders:scales")
    with pytest.raises(SpecError, match=r"^fusion:sum: this experiment has no parts; write fusion$"):
        load("fusion:sum")


@pytest.mark.parametrize("pair", fusion.PAIRS, ids=lambda pair: pair.problem)
@pytest.mark.parametrize("start", ["a chain is two", "fusing saves", "a fused kernel writes"])
def test_a_fused_kernel_that_is_a_chain_is_seen(pair: fusion.Pair, start: str) -> None:
    chain, fused = pair.labels
    assert verdict("fusion", start) is True
    assert verdict("fusion", start, **{fused: chain}) is False


def without(name: str, label: str, **values: float) -> Rows:
    """The rows with some readings of one point replaced."""
    rows = rows_of(name)
    record = rows[label]
    readings = tuple(dataclasses.replace(r, value=values.get(r.name, r.value)) for r in record.readings)
    changed = dataclasses.replace(record, readings=readings)
    return Rows({each: changed if each == label else rec for each, rec in rows.items()})


def test_a_wasted_sector_is_seen() -> None:
    label = fusion.NORM_GELU.labels[1]
    wasted = rows_of("fusion").value(label, "global_load_sectors") + 1
    assert fusion.nothing_wasted(without("fusion", label, global_load_sectors=wasted))[0] is False


def test_a_wrong_answer_is_seen() -> None:
    """Weight and bias swapped: the same counts and another answer."""
    experiment = load("fusion")
    stock = catalog.kernel("layernorm_gelu/registers")
    swapped = dataclasses.replace(
        stock, arguments=tuple({"weight": "bias", "bias": "weight"}.get(n, n) for n in stock.arguments)
    )
    only = dataclasses.replace(
        experiment.replacing(stock.id, swapped),
        sweeps=(
            dataclasses.replace(
                experiment.sweeps[0],
                points=(dataclasses.replace(experiment.sweeps[0].points[1], kernel=swapped),),
            ),
        ),
        expectations=experiment.expectations[:1],
        claims=(),
    )
    (outcome,) = run(only, "emulator", ("cuda-c",)).expectations
    assert outcome.verdict == "failed"
    assert "differs" in outcome.found


@pytest.mark.parametrize(
    ("text", "verdict", "found"),
    [
        ("halves the traffic", "held", "16 bytes an element against 8"),
        ("1.84 times", "needs a GPU", "2 x the bytes"),
        ("8.4 GB took 1.23 ms", "refuted", "6.8 TB/s, 3.4 times"),
        ("LayerNorm and residual", "needs a GPU", "1.67 x the bytes"),
    ],
)
def test_claims_of_fusion(text: str, verdict: str, found: str) -> None:
    (outcome,) = [claim for claim in result_of("fusion").claims if text in claim.text]
    assert outcome.verdict == verdict
    assert found in outcome.found


@pytest.mark.parametrize(
    ("start", "label"),
    [
        ("each tool makes one launch", auto_fusion.FUSE),
        ("each tool reads an element", auto_fusion.JIT),
    ],
)
def test_a_tool_that_does_not_fuse_or_is_wide_is_seen(start: str, label: str) -> None:
    other = auto_fusion.CHAIN if "launch" in start else auto_fusion.HAND
    assert verdict("auto-fusion", start) is True
    assert verdict("auto-fusion", start, **{label: other}) is False


def test_a_tool_that_wastes_is_seen() -> None:
    wasteful = without("auto-fusion", auto_fusion.JIT, global_load_sectors=7000.0)
    assert auto_fusion.tools_waste_nothing(wasteful)[0] is False
    assert auto_fusion.tools_waste_nothing(rows_of("auto-fusion"))[0] is True


def test_what_numba_makes_is_one_kernel_too() -> None:
    result = run(load("auto-fusion"), "emulator", ("numba",))
    assert result.is_right
    assert len(result.panels[0].records["numba"]) == 4
    assert any("cupy.fuse: no Numba twin" in note for note in result.notes)


def test_what_cupy_generates_is_what_is_traced() -> None:
    made = generated.sources()
    assert "a * b + c" in made["elementwise"]
    assert "cupy_multiply" in made["fuse"]
    assert "blockIdx.x * blockDim.x" in made["jit"]
    generated.write(auto_fusion.FOLDER)
    text = (auto_fusion.FOLDER / "fuse.cu").read_text(encoding="utf-8")
    body = made["fuse"].partition('extern "C" __global__ void fuse(')[2]
    assert body.strip() in text


def test_without_cupy_it_says_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    def moved() -> str:
        raise AttributeError("module 'cupy._core.fusion' has no attribute '_FusionHistory'")

    generated.sources.cache_clear()
    monkeypatch.setattr(generated, "_fused", moved)
    with pytest.raises(UnavailableError, match=r"^auto-fusion: CuPy's generated source is not to be had"):
        run(load("auto-fusion"), "emulator", ("cuda-c",))
    monkeypatch.undo()


def test_cupy_without_a_folder_for_its_cache_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    def nowhere() -> None:
        raise FileNotFoundError(2, "No such file or directory", "/proc/.cupy")

    generated.sources.cache_clear()
    monkeypatch.setattr(generated, "_fused", nowhere)
    with pytest.raises(UnavailableError, match=r"cannot be imported .*'/proc/.cupy'\); set CUPY_CACHE_DIR"):
        generated.sources()


@pytest.mark.parametrize(
    ("got", "found"),
    [
        ((np.zeros((2, 2, 2), "f4"), np.zeros((2, 2, 2), "f4")), r"output 1 is float32 of shape \(2, 2, 2\)"),
        ((np.zeros((2, 2, 2), "f4"), np.zeros((2, 2), "f8")), "output 1 is float64"),
        (np.zeros((2, 2, 2), "f4"), "it has 1 outputs, the chain has 2"),
    ],
)
def test_kinds_are_compared_before_anything_is_timed(got: object, found: str) -> None:
    wanted = two_answers(np.ones((2, 2, 2), "f4"), np.ones((2, 2), "f4"))
    alike("fused", wanted, wanted)
    with pytest.raises(MismatchError, match=found):
        alike("fused", got, wanted)


class FakeGpu(timing_fakes.FakeGpu):
    """Answers are NumPy's; nothing is counted."""

    def __init__(self, **options: object) -> None:
        super().__init__(timing_fakes.FakeStopwatch(), **options)


SMALL = Case("512 x 64", {"rows": 512, "columns": 64})


def timed_experiment(name: str, count: int = 1) -> object:
    """An experiment whose large cases are small."""
    made = load(name)
    sweeps = tuple(
        dataclasses.replace(
            each, points=tuple(dataclasses.replace(p, case=SMALL, large=SMALL) for p in each.points)
        )
        for each in made.sweeps[:count]
    )
    return dataclasses.replace(made, sweeps=sweeps, expectations=(), claims=made.claims[1:2])


def test_large_cases_are_timed_beside_a_copy() -> None:
    result = run(timed_experiment("fusion"), FakeGpu(), ("cuda-c",))
    (panel,) = result.panels
    assert panel.title == "LayerNorm + GeLU; timed: 512 x 64"
    assert [column.reading for column in panel.columns[-2:]] == ["seconds_cold", "fraction_of_copy"]
    chain, fused = (panel.records["cuda-c"][label] for label in fusion.NORM_GELU.labels)
    # The fake's launches take as long as the whole plan's bytes: two for the chain.
    assert chain.value("seconds_cold") == pytest.approx(2 * fused.value("seconds_cold"))
    (claim,) = result.claims
    assert (claim.verdict, claim.found[:3]) == ("held", "2 x")


@pytest.mark.parametrize(("chain", "verdict"), [(1.9e-3, "held"), (1.7e-3, "refuted"), (0.9e-3, "refuted")])
def test_the_claimed_factor_is_held_or_refuted(
    chain: float, verdict: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def times(self: GpuClock, points: list[Point], *, has_copy: bool = False) -> dict[str, Timing]:
        seconds = [chain, 1e-3][: len(points)]
        self.nbytes = {point.label: 2**20 for point in points}
        made = {p.label: Timing("cold", (s,) * 20) for p, s in zip(points, seconds, strict=True)}
        return {**made, "cudaMemcpy": Timing("cold", (1e-3,) * 20)}

    monkeypatch.setattr(GpuClock, "times", times)
    (claim,) = run(timed_experiment("fusion"), FakeGpu(), ("cuda-c",)).claims
    assert claim.verdict == verdict
    assert f"{chain * 1e3:.3g} x" in claim.found


def test_what_cannot_be_timed_is_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    def times(self: GpuClock, points: list[Point], *, has_copy: bool = False) -> dict[str, Timing]:
        raise MismatchError("layernorm_gelu/unfused: y differs")

    monkeypatch.setattr(GpuClock, "times", times)
    result = run(timed_experiment("fusion"), FakeGpu(), ("cuda-c",))
    assert result.notes[-1] == "LayerNorm + GeLU: not timed: layernorm_gelu/unfused: y differs"
    assert result.claims[0].verdict == "needs a GPU"


def test_only_the_first_rows_are_judged_and_the_rest_compared() -> None:
    rung = catalog.kernel("layernorm_gelu/registers")
    inputs = rung.problem.inputs(SMALL)
    plan = bind(rung, inputs)
    from kernellab.devices.program import Run

    cut, answer = first_rows(plan, Run({"y": np.zeros((512, 64), "f4")}), 8)
    assert cut.inputs["x"].shape == (8, 64)
    assert cut.inputs["weight"].shape == (64,)
    assert answer.outputs["y"].shape == (8, 64)
    points = [Point(each.name, each, SMALL, head=8) for each in catalog.ladder("layernorm_gelu")]
    gpu = FakeGpu()
    assert len(GpuClock(gpu, "cuda-c").times(points)) == len(points)
    clock = GpuClock(gpu, "cuda-c")
    with pytest.raises(MismatchError, match="far: its answer at 1 is nan, ours 1"):
        clock._near("far", np.array([1.0, np.nan]), np.array([1.0, 1.0]))


def triad_of(cupy: object, at: dict[str, np.ndarray]) -> object:
    return lambda: generated.triad(at["a"], at["b"], at["c"])


def test_counters_are_cleared_before_ours_is_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a sum whose blocks count who is last; a counter of another value leaves no answer."""
    from kernellab.workload import PlanWorkload

    seen: list[str] = []
    monkeypatch.setattr(PlanWorkload, "run", lambda self: seen.append("run"))
    point = Point("by hand", catalog.kernel("sum/vectorised"), Case("ones", {"n": 4096}, contents="ones"))
    clock = GpuClock(FakeGpu(), "cuda-c")
    ours = clock._workload(point)
    assert ours.before is not None
    ours.before = lambda: seen.append("before")
    monkeypatch.setattr(clock, "_workload", lambda point: ours)
    with pytest.raises(MismatchError, match="its answer at 0 is"):
        clock.beside(
            point, "sum", lambda cupy, at: lambda: np.float32([3]), lambda cupy, at: lambda: np.float32([3])
        )
    assert seen == ["before", "run"]


def test_a_callable_is_compared_and_timed_beside_ours() -> None:
    point = Point("by hand", catalog.kernel("triad/scalar"), Case("4096", {"n": 4096}), head=128)
    gpu = FakeGpu()
    clock = GpuClock(gpu, "cuda-c")

    def slow(cupy: object, at: dict[str, np.ndarray]) -> object:
        def call() -> np.ndarray:
            gpu.stopwatch().pass_time(3 * 16 * 4096 * timing_fakes.SECONDS_A_BYTE)
            return generated.triad(at["a"], at["b"], at["c"])

        return call

    assert clock.beside(point, "slow", slow, triad_of).value == pytest.approx(3)
    wide = lambda cupy, at: lambda: generated.triad(at["a"], at["b"], at["c"]).astype("f8")  # noqa: E731
    with pytest.raises(MismatchError, match="wide: output 0 is float64"):
        clock.beside(point, "wide", wide, triad_of)
    wrong = lambda cupy, at: lambda: generated.triad(at["a"], at["b"], at["c"]) + at["a"]  # noqa: E731
    with pytest.raises(MismatchError, match="wrong: its answer at 0 is"):
        clock.beside(point, "wrong", wrong, triad_of)
