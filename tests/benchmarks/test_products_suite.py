"""The suite products on a fake GPU: what is timed beside whom, what is caught, and that each bar can be missed."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent.parent))
from test_arena import Foreign
from test_peer_works import FakeTorch, Tensor, gelu
from timing_fakes import FakeGpu, FakeStopwatch

from kernellab import catalog
from kernellab.errors import MismatchError
from kernellab.problem import ELEMENTS
from kernellab.report.results import markdown_table, shown_rows
from kernellab.results import load, save
from kernellab.suites import ladder, peer_products, product_arena, products, race, tune
from kernellab.suites.arena import Arena, limit_of
from kernellab.suites.bench import Bench
from kernellab.suites.peer_works import Peer, peer_work
from kernellab.suites.product_arena import ProductArena

SIZES = {"m": 24, "n": 40, "k": 16}
CELLS = [(problem, element) for problem in products.PLAIN for element in ELEMENTS]
CELLS += [(problem, element) for problem in products.FUSED for element in products.HALVES]


class Torch(FakeTorch):
    """PyTorch's products; the epilogue and each other call take the device's time."""

    def __init__(self, clock: FakeStopwatch) -> None:
        super().__init__()

        def timed(function: object) -> object:
            def call(*args: object, **options: object) -> object:
                clock.pass_time(1e-7)
                return function(*args, **options)

            return call

        def mm(a: np.ndarray, b: np.ndarray, out: np.ndarray | None = None) -> object:
            found = (a.astype(np.float64) @ b.astype(np.float64)).astype(a.dtype).view(Tensor)
            if out is None:
                return found
            out[...] = found
            return out

        def addmm(bias: np.ndarray, a: np.ndarray, b: np.ndarray) -> object:
            found = a.astype(np.float64) @ b.astype(np.float64) + bias.astype(np.float64)
            return found.astype(a.dtype).view(Tensor)

        def activated(bias: np.ndarray, a: np.ndarray, b: np.ndarray, use_gelu: bool) -> object:
            assert use_gelu
            wide = (each.astype(np.float64) for each in (bias, a, b))
            return gelu(addmm(*wide), "tanh").astype(a.dtype).view(Tensor)

        self.mm, self.addmm, self._addmm_activation = timed(mm), timed(addmm), timed(activated)
        self.backends = SimpleNamespace(
            cuda=SimpleNamespace(matmul=SimpleNamespace(allow_tf32=True))
        )  # fmt: skip
        self.nn.functional.gelu = lambda x, approximate: gelu(x, approximate).astype(x.dtype).view(Tensor)


@pytest.fixture
def where(monkeypatch: pytest.MonkeyPatch) -> Bench:
    clock = FakeStopwatch()
    made = Bench(FakeGpu(clock, name="NVIDIA H200"), clock)
    made.device.cupy.from_dlpack = lambda array: array.view(Tensor)
    made.device.cupy.matmul = lambda a, b, out: (clock.pass_time(2e-7), np.matmul(a, b, out=out))[1]
    monkeypatch.setattr(FakeGpu, "build", lambda self, kernel, language="cuda-c": None)
    monkeypatch.setitem(sys.modules, "torch", Torch(clock))
    return made


def arena_of(where: Bench, problem: str, element: str = "float16", **sizes: int) -> Arena:
    return product_arena.arena_of(where, catalog.problem(problem), {**SIZES, **sizes}, element)


def last(problem: str, element: str) -> catalog.Kernel:
    return products.Heat(problem, element, 16).rungs()[-1][0]


# -- inputs and answers
@pytest.mark.parametrize(("problem", "element"), CELLS)
def test_inputs_are_spread_and_answers_bounded_as_the_catalogue_s(
    where: Bench, problem: str, element: str
) -> None:
    arena = arena_of(where, problem, element, m=300, n=200, k=64)
    plan = arena.plan(last(problem, element))
    for name, deviation in {"a": 1.0, "b": 1 / 8, "bias": 1.0}.items():
        if name in plan.inputs:
            values = np.asarray(arena.inputs[name], np.float64)
            assert values.std() == pytest.approx(deviation, rel=0.15)
            assert abs(values.mean()) < 0.2 * deviation
    (answer,) = arena.answers(plan).values()
    given = {name: np.asarray(arena.inputs[name]) for name in plan.inputs}
    wanted = replace(plan, inputs=given)
    np.testing.assert_allclose(answer.expected, wanted.reference()["y"], rtol=1e-9, atol=1e-12)
    limit = limit_of(plan, wanted.reference()["y"], wanted.magnitude()["y"], plan.outputs["y"].dtype)
    np.testing.assert_allclose(answer.limit, limit)
    assert arena.answers(plan)["y"] is answer


@pytest.mark.parametrize(("problem", "element"), CELLS)
def test_answers_are_made_of_arrays_of_others(
    where: Bench, monkeypatch: pytest.MonkeyPatch, problem: str, element: str
) -> None:
    """By the protocols that CuPy has, and nothing else."""
    monkeypatch.setitem(sys.modules, "torch", None)
    where.device.cupy.matmul = np.matmul
    known, foreign = arena_of(where, problem, element), arena_of(where, problem, element)
    foreign.__dict__["inputs"] = {name: Foreign(np.asarray(each)) for name, each in known.inputs.items()}
    plan = known.plan(last(problem, element))
    (answer,), (found,) = known.answers(plan).values(), foreign.answers(plan).values()
    np.testing.assert_array_equal(found.expected.host, answer.expected)
    np.testing.assert_array_equal(found.limit.host, answer.limit)


def test_one_element_in_16_million_is_caught(where: Bench) -> None:
    arena = arena_of(where, "matmul", "float16", m=4096, n=4096, k=8)
    (answer,) = arena.answers(arena.plan(last("matmul", "float16"))).values()
    found = answer.expected.astype(np.float16)
    assert found.size >= 16e6
    assert answer.judge(np, "x", "y", found).is_right
    found[4095, 77] += np.float16(0.05)
    assert answer.judge(np, "x", "y", found).message.startswith("x: y differs in 1 of 16777216 elements")


@pytest.mark.parametrize(("breaks_at", "when"), [(1, "before"), (10, "after")])
def test_one_element_corrupted_is_seen_before_and_after(
    where: Bench, monkeypatch: pytest.MonkeyPatch, breaks_at: int, when: str
) -> None:
    calls = FakeGpu.calls

    def corrupting(self: FakeGpu, program: object, plan: object, buffers: dict) -> tuple:
        def call() -> None:
            for each in calls(self, program, plan, buffers):
                each()
            if self.launches >= breaks_at:
                buffers["y"][-1, -1] += buffers["y"].dtype.type(0.1)

        return (call,)

    monkeypatch.setattr(FakeGpu, "calls", corrupting)
    arena = arena_of(where, "matmul")
    rung = last("matmul", "float16")
    assert race.race(arena, [(rung, "cuda-c")]) == []
    assert any(note.startswith("WRONG") and when in note and "1 of 960" in note for note in arena.notes)


def test_a_wrong_product_in_float64_is_seen(where: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    a, b = np.random.default_rng(0).random((2, 8, 8))
    np.testing.assert_allclose(product_arena.exact(where.device.cupy, a, b), a @ b)
    wrong = a @ b
    wrong[3, 3] *= 1 + 1e-9
    monkeypatch.setattr(product_arena, "multiplied", lambda xp, a, b: wrong)
    with pytest.raises(MismatchError, match="misses 64 rows made without a library"):
        product_arena.exact(where.device.cupy, a, b)


def test_without_pytorch_the_product_is_cupy_s(where: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    xp = SimpleNamespace(matmul=lambda a, b: ("cupy", a, b), cuda=where.device.cupy.cuda)
    assert product_arena.multiplied(xp, 1, 2) == ("cupy", 1, 2)


# -- peers
@pytest.mark.parametrize(("problem", "element"), CELLS)
def test_each_peer_gives_the_problem_s_answer(where: Bench, problem: str, element: str) -> None:
    arena = arena_of(where, problem, element)
    plan = arena.plan(last(problem, element))
    chosen = [peer for peer in peer_products.peers_of(arena) if peer.is_for(arena)]
    assert ("CuPy" in " ".join(peer.name for peer in chosen)) == (element != "bfloat16")
    for peer in chosen:
        work = peer_work(arena, peer, plan)
        work.poison()
        assert not work.verify().is_right
        work.run()
        assert work.verify().is_right, work.verify().message
    assert not sys.modules["torch"].backends.cuda.matmul.allow_tf32


def test_a_peer_that_multiplies_in_fewer_bits_is_seen(where: Bench) -> None:
    """Float16 in place of float32: what the bound is for."""
    arena = arena_of(where, "matmul", "float32", k=64)
    narrow = Peer(
        "cuBLAS",
        lambda s: lambda: (s.inputs["a"].astype("f2") @ s.inputs["b"].astype("f2")).astype("f4"),
        slack=4.0,
    )
    work = peer_work(arena, narrow, arena.plan(last("matmul", "float32")))
    work.run()
    assert "differs in" in work.verify().message


def test_a_chain_launches_the_product_and_its_kernels(where: Bench) -> None:
    arena = arena_of(where, "matmul_bias_gelu")
    rows = race.race(arena, [(last("matmul_bias_gelu", "float16"), "cuda-c")], peer_products.peers_of(arena))
    seconds = {row["workload"]: row["seconds"] for row in rows}
    assert not arena.notes
    one, two = (
        next(value for name, value in seconds.items() if name.startswith(chain))
        for chain in peer_products.CHAINS
    )
    # The fake's launches take as long as the bytes of bias_gelu: one, and two.
    assert 0 < two - one < one - 1e-7 + 1e-9
    assert race.best_peer(rows, peer_products.EPILOGUE)


# -- the suite
def test_every_rung_of_the_catalogue_is_timed(where: Bench, tmp_path: Path) -> None:
    found = products.run(where, sides=(16,))
    ran = {(row["kernel"], row["element"]) for row in found.rows if row.get("kernel")}
    for problem, element in CELLS:
        for kernel in catalog.ladder(problem):
            takes = element in (kernel.elements or ELEMENTS[:1]) and not kernel.fault
            assert ((kernel.id, element) in ran) == takes, found.notes
    assert [(row["what"], row["in"], row["side"]) for row in shown_rows(found)] == [
        (heat.problem, heat.element, "16") for heat in products.heats((16,)) if heat.problem != products.AFTER
    ]
    assert all(row["peer"] and row["ratio"] > 0 for row in shown_rows(found))
    assert "| matmul_nt | bfloat16 | 16 |" in markdown_table(found)
    assert {row["workload"] for row in found.rows if row.get("part")} == {
        "bias_gelu/unfused: add", "bias_gelu/unfused: gelu",
    }  # fmt: skip
    again = load(save(found, tmp_path))
    assert again.to_dict() == json.loads(json.dumps(found.to_dict()))


@pytest.mark.parametrize("problem", ["matmul", "matmul_nt_bias_gelu"])
@pytest.mark.parametrize("element", ELEMENTS)
def test_the_ladder_judges_products_as_closely(
    where: Bench, problem: str, element: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An arena for anything else widens the inputs, and then takes their dtype for what was multiplied."""
    monkeypatch.setattr(ladder, "SIDES", (16,))
    arena = ladder.arena_for(where, problem, element)
    assert arena is not None
    (answer,) = arena.answers(arena.plan(last(problem, element))).values()
    assert answer.expected.shape == (16, 16)
    assert float(answer.limit.min()) < 0.02


def test_the_ladder_shows_operations_of_products() -> None:
    row = {"kernel": "matmul/naive", "language": "cuda-c", "flops": 2 * 2048**3, "seconds": 2.0**-7}
    shown = ladder.summaries([row, row | {"language": "numba", "twin_ratio": 1.5}])
    assert shown[0]["rungs"] == "naive 2.2 TFLOP/s x1.50"


def test_what_is_timed_is_what_the_issue_asks_for() -> None:
    chosen = products.heats()
    assert {heat.side for heat in chosen} == {2048, 4096, 8192}
    assert {(heat.problem, heat.element) for heat in chosen} >= set(CELLS)
    assert products.RULE.minimum >= 15
    assert products.Heat("bias_gelu", "float16", 8).sizes == {"rows": 8, "columns": 8}
    assert products.Heat("matmul", "float16", 8).sizes == {"m": 8, "n": 8, "k": 8}
    sides = [heat.side for heat in chosen]
    assert sides == sorted(sides)


def test_a_rung_too_slow_for_the_next_size_is_left_out() -> None:
    pace, notes = products.Pace(), []
    kernel = catalog.ladder("matmul")[0]
    small, large = (products.Heat("matmul", "float32", side) for side in (2048, 8192))
    assert pace.is_bearable(large, kernel, notes)
    pace.note([timed(small, f"{kernel.id} cuda-c", 0.002)])
    assert pace.is_bearable(large, kernel, notes)
    assert not notes
    pace.note([timed(small, f"{kernel.id} cuda-c", 0.02)])
    assert pace.is_bearable(replace(large, element="float16"), kernel, notes)
    assert not pace.is_bearable(large, kernel, notes)
    assert notes == [f"{kernel.name} was left out: 15 samples would take 19 s"]


# -- bars
def timed(heat: products.Heat, workload: str, seconds: float, **more: object) -> dict:
    kernel, _, language = workload.partition(" ") if "/" in workload else ("", "", "")
    return {
        "problem": heat.problem, "element": heat.element, "sizes": heat.sizes, "workload": workload,
        "kernel": kernel, "language": language, "seconds": seconds, "fraction_of_copy": 1 / seconds,
    } | more  # fmt: skip


def all_rows() -> list[dict]:
    """Rows that reach every bar, just."""
    found = []
    for heat in products.heats():
        if heat.problem == products.AFTER:
            found.append(timed(heat, "bias_gelu/vectorised cuda-c", 1.1))
            found.append(timed(heat, "bias_gelu/unfused cuda-c", 2.2))
            found += [
                timed(heat, f"bias_gelu/unfused: {each}", 1.1, part=True, kernel="bias_gelu/unfused", language="cuda-c")
                for each in ("add", "gelu")
            ]  # fmt: skip
            continue
        found += [
            timed(heat, f"{heat.problem}/{name} cuda-c", seconds)
            for name, seconds in (("mma", 1.6), ("wgmma", 1.0), ("buffered", 1.0))
        ]
        others = {"cuBLAS by PyTorch": 0.98}
        if heat.problem in products.FUSED:
            factors = (1.26, 1.81) if heat.element == "float16" else (1.16, 1.46)
            others = {"cuBLASLt epilogue": 1.001, **dict(zip(peer_products.CHAINS, factors, strict=True))}
        found += [timed(heat, name, seconds) for name, seconds in others.items()]
    return found


def missed(rows: list[dict]) -> list[str]:
    return [text for text, is_reached in products.bars(rows).items() if not is_reached]


def test_every_bar_is_reached_by_these_rows() -> None:
    assert len(products.bars(all_rows())) == 13
    assert missed(all_rows()) == []


def with_slow(seconds: float, **which: object) -> list[dict]:
    """The rows, one kind of which is slower: by kernel's rung or workload, element, side, problems."""
    found = all_rows()
    for row in found:
        name = row["kernel"].partition("/")[2] or row["workload"]
        about = {"name": name, "element": row["element"], "side": max(row["sizes"].values())}
        about |= {"problem": row["problem"], "part": row.get("part", False)}
        if all(about[key] == value for key, value in which.items()):
            row |= {"seconds": seconds, "fraction_of_copy": 1 / seconds}
    return found


@pytest.mark.parametrize(
    ("which", "seconds", "start"),
    [
        ({"name": "cuBLAS by PyTorch", "element": "float32", "side": 4096, "problem": "matmul_nt"}, 0.91,
         "float32 product at 4096 at least 0.92 of cuBLAS, worst matmul_nt float32 4096 (is 0.910)"),
        *[
            ({"name": "wgmma", "element": element, "side": side, "problem": "matmul"}, seconds,
             f"wgmma in 16 bits at {side} at least {least} of cuBLAS, worst matmul {element} {side}")
            for element in products.HALVES
            for side, seconds, least in ((2048, 1.04, "0.95"), (4096, 1.02, "0.97"), (8192, 1.02, "0.97"))
        ],
        ({"name": "mma", "side": 4096, "problem": "matmul_nt"}, 1.7, "mma in 16 bits at 4096 at least 0.60"),
        *[
            ({"name": "cuBLASLt epilogue", "side": side, "element": "bfloat16"}, 0.99,
             f"bias and GeLU fused at {side} at least 1.00 of the cuBLASLt")
            for side in products.SIDES
        ],
        ({"name": "cuBLAS + one kernel", "side": 2048, "element": "float16"}, 1.2,
         "fused in float16 at 2048 at least 1.25 times cuBLAS + one kernel"),
        ({"name": "cuBLAS + two kernels", "side": 2048, "element": "bfloat16"}, 1.4,
         "fused in bfloat16 at 2048 at least 1.45 times cuBLAS + two kernels"),
        ({"part": True, "side": 2048, "element": "float16"}, 1.2, "each kernel of those chains at 2048"),
        ({"name": "vectorised", "side": 2048}, 1.2, "each kernel of those chains at 2048"),
    ],
)  # fmt: skip
def test_each_bar_can_be_missed(which: dict, seconds: float, start: str) -> None:
    (text,) = missed(with_slow(seconds, **which))
    assert text.startswith(start)


def test_a_chain_that_wins_is_not_shown_as_fused() -> None:
    heat = products.Heat("matmul_bias_gelu", "float16", 2048)
    row = timed(heat, "matmul_bias_gelu/unfused cuda-c", 0.1)
    found = products.of([*all_rows(), row], heat)
    shown = products.summary(heat, [each | products.speeds(each, "") for each in found])
    assert shown["rung"] == "wgmma"
    assert "unfused" in shown["others"]
    taken_out = [f"{heat.problem}/{name} cuda-c" for name in ("wgmma", "buffered")]
    slow = [each for each in all_rows() if each["workload"] not in taken_out]
    assert missed([*slow, row]) == missed(slow) != []


def test_what_was_not_timed_is_no_bar_reached() -> None:
    found = [row for row in all_rows() if row["sizes"].get("m") != 8192 or row["element"] != "bfloat16"]
    texts = missed(found)
    assert len(texts) == 2
    assert all("bfloat16 8192 (not measured)" in text for text in texts)
    assert len(missed([])) == 13


# -- tune
def test_a_product_is_tuned_in_its_own_arena(where: Bench) -> None:
    kernel = next(each for each in catalog.ladder("matmul_nt") if "CLUSTER" in each.constants)
    assert isinstance(arena_of(where, "matmul_nt"), ProductArena)
    sweeps = {"CLUSTER": (1, 2), "BAND": (4, 8, 16)}
    table = tune.tune(where, kernel, SIZES | {"m": 128, "n": 256, "k": 64}, sweeps, "float16")
    assert len(table.rows) == 7
    assert table.columns[-1].header == "TFLOP/s"
    seconds, rate = float(table.rows[0][2]) * 1e-6, float(table.rows[0][-1]) * 1e12
    assert rate == pytest.approx(2 * 128 * 256 * 64 / seconds, rel=0.1)
