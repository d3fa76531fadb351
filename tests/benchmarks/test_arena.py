"""The arena: inputs and answers on the device, wrong works seen before and after, peers noted and not fatal."""

from __future__ import annotations

import functools
import inspect
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent.parent))
from timing_fakes import FakeGpu
from timing_fakes import make_bench as bench

from kernellab import catalog
from kernellab.problem import ELEMENTS
from kernellab.suites import arena as arenas
from kernellab.suites import memory, precompile, race, rows
from kernellab.suites.arena import Arena
from kernellab.suites.bench import Bench
from kernellab.suites.peer_works import Peer, peer_work
from kernellab.suites.side_by_side import QUEUED, time_side_by_side
from kernellab.workload import CallWorkload

SIZES = {"rows": 6, "columns": 40, "n": 1000}
PROBLEMS = (*dict.fromkeys(heat.problem for heat in memory.heats()), *rows.PROBLEMS)


def arena_of(problem: str, element: str = "float32", where: Bench | None = None) -> Arena:
    found = catalog.problem(problem)
    names = {name for item in found.operands for name in item.shape if name in SIZES}
    return Arena(where or bench(), found, {name: SIZES[name] for name in names}, element)


class Foreign(np.lib.mixins.NDArrayOperatorsMixin):
    """An array that takes part in NumPy's functions by the protocols alone, and only where CuPy has them."""

    def __init__(self, host: np.ndarray) -> None:
        self.host = host

    shape = property(lambda self: self.host.shape)
    size = property(lambda self: self.host.size)
    ndim = property(lambda self: self.host.ndim)
    dtype = property(lambda self: self.host.dtype)
    T = property(lambda self: Foreign(self.host.T))

    def __array__(self, *args: object, **options: object) -> None:
        raise TypeError("implicit conversion to a NumPy array")

    def __getattr__(self, name: str) -> object:
        if name.startswith("__") or name not in ("astype", "reshape", "view", "sum", "mean", "max", "copy"):
            raise AttributeError(name)
        return lambda *args, **options: Foreign(getattr(self.host, name)(*args, **options))

    def __float__(self) -> float:
        return float(self.host)

    def __getitem__(self, key: object) -> Foreign:
        return Foreign(self.host[key])

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: object, **options: object) -> Foreign:
        assert method == "__call__"
        assert hasattr(cupy, ufunc.__name__), ufunc
        assert not any(isinstance(each, np.ndarray) and each.ndim for each in inputs), ufunc
        return Foreign(ufunc(*(self._host(each) for each in inputs), **options))

    def __array_function__(self, function: object, types: object, args: tuple, options: dict) -> Foreign:
        theirs = functools.reduce(getattr, function.__module__.split(".")[1:], cupy)
        inspect.signature(getattr(theirs, function.__name__)).bind(*args, **options)
        assert all(issubclass(each, Foreign) for each in types), function
        return Foreign(function(*self._host(args), **self._host(options)))

    def _host(self, value: object) -> object:
        if isinstance(value, Foreign):
            return value.host
        if isinstance(value, tuple | list):
            return type(value)(self._host(each) for each in value)
        return {k: self._host(v) for k, v in value.items()} if isinstance(value, dict) else value


cupy = pytest.importorskip("cupy")


@pytest.fixture(autouse=True)
def nothing_is_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FakeGpu, "build", lambda self, kernel, language="cuda-c": None)


@pytest.mark.parametrize("problem", PROBLEMS)
def test_references_answer_for_arrays_of_others(problem: str) -> None:
    where = arena_of(problem)
    plan = where.plan(catalog.ladder(problem)[-1])
    known = arenas.answers(plan, {name: where.inputs[name] for name in plan.inputs})
    foreign = {name: Foreign(np.asarray(where.inputs[name])) for name in plan.inputs}
    for name, answer in arenas.answers(plan, foreign).items():
        assert isinstance(answer.expected, Foreign)
        np.testing.assert_array_equal(answer.expected.host, known[name].expected)


@pytest.mark.parametrize("element", ELEMENTS)
@pytest.mark.parametrize("problem", PROBLEMS)
def test_one_wrong_element_is_seen(problem: str, element: str) -> None:
    kernel = catalog.ladder(problem)[-1]
    if element not in (kernel.elements or ("float32",)):
        pytest.skip(f"{kernel.id} takes no {element}")
    where = arena_of(problem, element)
    own = where.own(kernel, "cuda-c")
    own.work.poison()
    assert not own.work.verify().is_right
    own.work.run()
    assert own.work.verify().is_right, own.work.verify().message
    (name, answer), *_ = where.answers(own.plan).items()
    broken = np.array(answer.expected, np.float64, order="C")
    broken.reshape(-1)[-1] = broken.reshape(-1)[-1] * 1.5 + 1
    found = broken.astype(own.plan.outputs[name].dtype)
    assert "differs in 1 of" in answer.judge(np, "x", name, found).message


def test_what_counts_the_elements_of_an_axis_lies_within_it() -> None:
    sizes = {"rows": 200, "columns": 7, "biases": 0}
    labels = Arena(bench(), catalog.problem("softmax_cross_entropy"), sizes).inputs["labels"]
    assert (labels.min(), labels.max()) == (0, 6)
    keys = Arena(bench(), catalog.problem("tally"), {"n": 100, "bins": 3}).inputs["keys"]
    assert set(keys.tolist()) == {0, 1, 2}


def test_an_array_of_another_size_is_wrong() -> None:
    where = arena_of("sum")
    (answer,) = where.answers(where.plan(catalog.ladder("sum")[-1])).values()
    assert answer.judge(np, "x", "y", np.zeros(3)).message == "x: y has 3 elements, the reference has 1"


def test_inputs_are_spread_and_the_largest_is_one() -> None:
    x = np.asarray(arena_of("max").inputs["x"])
    assert (x.min() >= 0.5, x.max(), (x == 4).sum()) == (True, 4, 1)
    assert len(np.unique(x)) > 990
    where = Arena(bench(), catalog.problem("softmax"), {"rows": 100, "columns": 1000})
    matrix = np.asarray(where.inputs["x"])
    assert abs(matrix.mean()) < 0.01
    assert abs(matrix.std() - 1) < 0.01
    brain = Arena(bench(), catalog.problem("softmax"), where.sizes, "bfloat16").inputs["x"]
    np.testing.assert_allclose(brain.astype(np.float32), matrix, rtol=2**-7)
    equal = Arena(bench(), catalog.problem("histogram"), {"n": 100}, contents="equal").inputs["x"]
    assert set(equal.tolist()) == {200}


def run_race(where: Arena, *peers: Peer) -> list[dict]:
    return race.race(where, [(catalog.ladder(where.problem.name)[-1], "cuda-c")], peers)


def peer(name: str, function: object, family: str = "") -> Peer:
    return Peer(name, lambda setting: lambda: function(setting), family)


def test_a_kernel_that_stops_working_has_no_speed() -> None:
    for breaks_at, when in ((1, "before"), (10, "after")):
        where = arena_of("scale", where=bench(breaks_at=breaks_at))
        assert [row["workload"] for row in run_race(where)] == []
        assert any(note.startswith("WRONG") and when in note for note in where.notes), where.notes


def test_peers_are_timed_and_their_failures_noted() -> None:
    where = arena_of("scale")
    clock = where.bench.stopwatch

    def doubled(seconds: float) -> object:
        def run(setting: object) -> object:
            clock.pass_time(seconds)
            return setting.inputs["x"] * np.float32(2)

        return run

    def absent(setting: object) -> object:
        raise ImportError("no such library")

    def raising(setting: object) -> object:
        raise RuntimeError("its own trouble")

    def waiting(setting: object) -> object:
        clock.wait()
        return doubled(3e-6)(setting)

    found = run_race(
        where,
        peer("right", doubled(1e-6)),
        peer("wrong", lambda setting: setting.inputs["x"] * np.float32(1.9)),
        peer("raises", raising),
        peer("waits", waiting),
        peer("elsewhere", lambda setting: setting.inputs["x"] * np.float32(2)),
        peer("four", doubled(4e-6), "family"),
        peer("two", doubled(2e-6), "family"),
        Peer("not here", absent),
    )
    assert [row["workload"] for row in found] == ["scale/vectorised cuda-c", "right", "waits", "two"]
    notes = "\n".join(where.notes)
    for text in (
        "not here was left out: ImportError: no such library",
        "WRONG: wrong: y differs in",
        "raises was left out: RuntimeError: its own trouble",
        "waits waits for the device",
        "elsewhere was left out: no time passed",
    ):
        assert text in notes, notes
    assert race.ours(found)["workload"] == "scale/vectorised cuda-c"
    assert race.best_peer(found)["workload"] == "right"
    assert race.ratio(race.best_peer(found), race.best_peer(found, "two")) == pytest.approx(2, rel=0.01)


def test_dropout_of_another_generator_is_judged_by_its_share() -> None:
    where = arena_of("softmax_dropout")
    where.sizes = {"rows": 50, "columns": 1000}
    plan = where.plan(catalog.ladder("softmax_dropout")[-1])
    whole = where.reference_of(catalog.ladder("softmax")[0])["y"].expected
    random = np.random.default_rng(0)

    def dropping(p: float, scale: float) -> CallWorkload:
        kept = random.random(whole.shape) >= p
        made = Peer("other", lambda setting: lambda: (whole * kept * scale).astype("float32"), is_random=True)
        work = peer_work(where, made, plan)
        work.run()
        return work

    assert dropping(0.1, 1 / 0.9).verify().is_right
    assert "it must be about 0.900" in dropping(0.3, 1 / 0.7).verify().message
    assert "differs in" in dropping(0.1, 1.0).verify().message


def test_a_rung_that_cannot_be_built_is_noted() -> None:
    where = arena_of("sum")
    best = catalog.ladder("sum")[-1]
    broken = replace(best, constants={**best.constants, "THREADS": 33})
    assert race.race(where, [(broken, "cuda-c")]) == []
    assert where.notes[0].startswith("left out: sum/vectorised: THREADS is 33")


def test_more_than_memory_can_give_is_no_result() -> None:
    where = arena_of("scale")
    cheat = Peer(
        "cheat", lambda setting: lambda: where.bench.stopwatch.pass_time(1e-10) or setting.inputs["x"] * 2
    )
    assert "cheat" not in [row["workload"] for row in run_race(where, cheat)]
    assert any("which memory cannot" in note for note in where.notes), where.notes


def test_few_samples_of_many_works_stand_behind_one_gate() -> None:
    where = bench()
    works = [CallWorkload(str(i), lambda: where.stopwatch.pass_time(1e-6)) for i in range(20)]
    time_side_by_side(where, works, [])
    gates = "".join({"close": "|", "open": "|", "work": "w"}.get(each, "") for each in where.stopwatch.events)
    held = gates.split("|")[1::2]
    assert 20 < max(gate.count("w") for gate in held) <= QUEUED


def test_precompiling_needs_processes_and_says_what_failed() -> None:
    kernel = catalog.kernel("scale/scalar")
    assert precompile.precompile(bench(), [(kernel, "cuda-c")]) == 0
    job = (kernel.id, tuple(sorted(kernel.constants.items())), "cuda-c", "sm_90", False)
    assert precompile.build(job)
    assert not precompile.build(
        ("scale/unrolled", (("ELEMENT", 0), ("VECTORS", 99)), "cuda-c", "sm_90", False)
    )
