"""Problems on rows: launch shapes by length, unaligned views, barriers, special values, dropout."""

from __future__ import annotations

from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest
from catalog_runs import run

from kernellab.catalog import gelus, kernel, norms, philox, rows, softmax
from kernellab.compile import compile_cuda
from kernellab.devices.emulated import EmulatedDevice
from kernellab.plan import bind
from kernellab.verify import verify

F = np.float32
EMULATOR = EmulatedDevice()
REGISTERS = ("softmax", "layernorm", "rmsnorm", "layernorm_gelu", "residual_layernorm", "softmax_dropout")


def outcome(name, arrays, language="cuda-c", constants=None, **parameters):
    """Run a rung on the emulator as a caller would; return its plan and its output."""
    rung = kernel(name)
    if constants is not None:
        rung = replace(rung, constants={**rung.constants, **constants})
    plan = bind(rung, arrays, **parameters)
    result = EMULATOR.run(EMULATOR.build(plan.kernel, language), plan)
    assert result.errors == ()
    return plan, result.outputs["y"]


@pytest.mark.parametrize("element", ["float32", "float16", "bfloat16"])
def test_every_length_has_a_launch_shape_that_holds_it(element):
    per = 4 if element == "float32" else 8
    for columns in [*range(1, 300), 1000, 1024, 1025, 4096, 4100, 5000, 8192, 16384, 32767, rows.LONGEST]:
        shape = rows.shape_for({"columns": columns}, element)
        assert rows.group_shape(shape) == ""
        assert shape["GROUP"] * shape["VECTORS"] * per >= columns
        assert shape["ROWS"] * shape["VECTORS"] * per <= rows.ITEMS_HELD
        assert shape["THREADS"] <= 1024


def test_a_short_row_wastes_no_lanes():
    assert rows.shape_for({"columns": 64}, "float32") == {
        "THREADS": 128,
        "GROUP": 16,
        "VECTORS": 1,
        "ROWS": 4,
    }
    assert rows.shape_for({"columns": 64}, "float16") == {"THREADS": 128, "GROUP": 8, "VECTORS": 1, "ROWS": 2}
    assert rows.shape_for({"columns": 1}, "float32")["GROUP"] == 1


def test_the_shape_follows_the_row_unless_the_caller_sets_it():
    short, long = np.zeros((2, 64), F), np.zeros((2, 8192), F)
    rung = kernel("softmax/registers")
    assert bind(rung, {"x": short}).steps[0].constants["GROUP"] == 16
    assert bind(rung, {"x": long}).steps[0].block == (256, 1, 1)
    own = replace(rung, constants={**rung.constants, "THREADS": 512, "GROUP": 512})
    assert bind(own, {"x": long}).steps[0].block == (512, 1, 1)
    assert bind(replace(rung, tuning=None), {"x": long}).steps[0].block == (128, 1, 1)
    assert bind(kernel("softmax/split"), {"x": long}).temporaries["tops"].shape == (2, 1)


@pytest.mark.parametrize("problem", REGISTERS)
def test_a_warp_with_several_rows(problem):
    rung = kernel(f"{problem}/registers")
    case = rows.case("short", 21, 40, {})
    plan, y = outcome(rung.id, rung.problem.inputs(case, 5))
    assert plan.steps[0].constants["GROUP"] == 16
    assert plan.steps[0].constants["ROWS"] == 4
    assert verify(plan, {"y": y}).is_right


@pytest.mark.parametrize("columns", [1000, 5000])
def test_longer_rows_at_their_own_shape(columns):
    plan, y = outcome("softmax/registers", softmax.PROBLEM.inputs(rows.case("", 3, columns, {})))
    assert verify(plan, {"y": y}).is_right


@pytest.mark.parametrize("language", ["cuda-c", "numba"])
def test_short_rows_of_halves_in_both_languages(language):
    arrays = softmax.PROBLEM.inputs(rows.case("", 5, 64, {}, element="bfloat16"))
    plan, y = outcome("softmax/registers", arrays, language)
    assert y.dtype == ml_dtypes.bfloat16
    assert verify(plan, {"y": y}).is_right


@pytest.mark.parametrize("problem", ["softmax", "rmsnorm"])
def test_a_twin_of_one_lane_a_row(problem):
    arrays = kernel(f"{problem}/registers").problem.inputs(rows.case("", 1, 1, {}))
    plan, y = outcome(f"{problem}/registers", arrays, "numba")
    assert plan.steps[0].constants["GROUP"] == 1
    assert verify(plan, {"y": y}).is_right


@pytest.mark.parametrize("name", ["softmax/registers", "softmax/split"])
def test_a_view_that_starts_at_no_vector(name, binary_of):
    room = np.random.default_rng(1).standard_normal(3 * 1024 + 4).astype(F)
    first = (-room.ctypes.data % 16) // 4 + 1
    x = room[first : first + 3 * 1024].reshape(3, 1024)
    assert x.ctypes.data % 16 == 4
    plan = bind(replace(kernel(name), tuning=None), {"x": x})
    outputs, traces = run(plan, lambda part: binary_of(part, "cuda-c"), "cuda-c", sanitize=True)
    assert verify(plan, outputs).is_right
    assert traces[0].totals["global_load_requests"] >= x.size // 32


def test_without_the_last_barrier_two_exchanges_race(tmp_path):
    rung = kernel("softmax/registers")
    include = rung.path.parent.parent / "include"
    text = (include / "rows.cuh").read_text()
    head, barrier, tail = text.rpartition("        __syncthreads();\n")
    assert barrier
    plan = bind(replace(rung, tuning=None), {"x": np.zeros((2, 1024), F)})
    options = [f"-D{name}={value}" for name, value in rung.constants.items()]
    found = {}
    for name, content in (("right", text), ("wrong", head + tail)):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "rows.cuh").write_text(content)
        (folder / "registers.cu").write_text(rung.text())
        binary = compile_cuda(rung.text(), path=folder / "registers.cu", options=options)
        _, (trace,) = run(plan, binary, "cuda-c", sanitize=True, errors="record")
        found[name] = {item.kind for item in trace.diagnostics}
    assert found == {"right": set(), "wrong": {"race"}}


@pytest.mark.parametrize("rung", ["three_pass", "online", "split", "registers"])
def test_softmax_far_below_zero_and_of_special_rows(rung):
    x = np.full((5, 4), -10000, F)
    x[1] = 7999.99, 8000, 2, 1
    x[2] = -np.inf
    x[3] = np.nan, 1, 2, 3
    _, y = outcome(f"softmax/{rung}", {"x": x})
    assert y[0].tolist() == [0.25] * 4
    assert np.allclose(y[1], [0.497559, 0.502441, 0, 0], atol=1e-6)
    assert np.isnan(y[2:4]).all()
    assert y[4].tolist() == [0.25] * 4


@pytest.mark.parametrize("form", [gelus.ERF, gelus.TANH])
@pytest.mark.parametrize("language", ["cuda-c", "numba"])
def test_gelu_in_its_tails(form, language):
    x = np.array([[-np.inf, np.inf, np.nan, -13.24, -6, -4, -0.0, 40]], F)
    _, y = outcome("bias_gelu/vectorised", {"x": x, "bias": np.zeros(8, F)}, language, form=form)
    tail = (-5.9195e-9, -1.26685e-4) if form == gelus.ERF else (-8.4396e-11, -7.02459e-5)
    assert y[0, 0] == 0
    assert y[0, 1] == np.inf
    assert np.isnan(y[0, 2])
    assert -1e-30 < y[0, 3] <= 0
    assert np.allclose(y[0, 4:6], tail, rtol=2e-5, atol=0)
    assert y[0, 6] == 0
    assert y[0, 7] == 40


def test_the_mean_of_halves_neither_overflows_nor_stops_counting():
    x = np.full((1, 4096), 300, np.float16)
    x[0, ::2] = 302
    arrays = {"x": x, "weight": np.ones(4096, np.float16), "bias": np.zeros(4096, np.float16)}
    _, y = outcome("layernorm/registers", arrays)
    assert y[0, :2].astype(F).tolist() == [1, -1]


def test_a_large_mean_costs_the_registers_no_precision():
    x = (1e6 + np.arange(1024) % 2 * 2).astype(F).reshape(1, -1)
    arrays = {"x": x, "weight": np.ones(1024, F), "bias": np.zeros(1024, F)}
    for rung in ("three_pass", "split", "registers"):
        _, y = outcome(f"layernorm/{rung}", arrays, eps=0.0)
        assert np.abs(np.abs(y) - 1).max() < 1e-6


def test_references_by_hand():
    x = np.array([[1, 3]], F)
    assert softmax.reference(np.log(x))["y"].round(7).tolist() == [[0.25, 0.75]]
    assert norms.normalised(x, np.array([2, 2], F), np.array([1, 1], F), 0).tolist() == [[-1, 3]]
    answer = kernel("rmsnorm/registers").problem.reference(np.array([[3, 4]], F), np.ones(2, F), 0)["y"]
    assert answer.tolist() == [[3 / np.sqrt(12.5), 4 / np.sqrt(12.5)]]
    assert gelus.gelu(np.array([1.0]), gelus.ERF).round(6).tolist() == [0.841345]


def test_dropout_drops_the_same_everywhere():
    x = np.random.default_rng(3).standard_normal((6, 100)).astype(F)
    expected = philox.kept(600, 0.3, 11).reshape(6, 100)
    seen = []
    for rung in ("registers", "unfused"):
        for language in ("cuda-c", "numba"):
            for odd in (x, x[:, :99].copy()):
                _, y = outcome(f"softmax_dropout/{rung}", {"x": odd}, language, p=0.3, seed=11)
                if odd is x:
                    seen.append(y)
                    assert ((y != 0) == expected).all()
                else:
                    assert ((y != 0) == philox.kept(594, 0.3, 11).reshape(6, 99)).all()
    assert all(np.array_equal(y, seen[0]) for y in seen)
    _, other = outcome("softmax_dropout/registers", {"x": x}, p=0.3, seed=12)
    assert ((other != 0) != expected).any()


def test_dropout_drops_as_many_as_asked():
    for p in (0.1, 0.5, 0.9):
        assert abs(philox.kept(2**16, p, 1).mean() - (1 - p)) < 0.006


def test_philox_known_answer():
    words = philox.philox(np.array([0], np.uint64), 0)[0].tolist()
    assert words == [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]


@pytest.mark.parametrize("problem", ["layernorm_gelu", "residual_layernorm", "bias_gelu", "softmax_dropout"])
def test_a_chain_moves_more_and_gives_the_same_shape_and_dtype(problem):
    fused, chain = ("vectorised" if problem == "bias_gelu" else "registers"), "unfused"
    arrays = kernel(f"{problem}/{fused}").problem.inputs(rows.case("", 4, 1024, {}, element="float16"))
    plans = [bind(kernel(f"{problem}/{rung}"), arrays) for rung in (fused, chain)]
    assert [len(plan.steps) for plan in plans] == [1, 2]
    runs = [EMULATOR.run(EMULATOR.build(plan.kernel), plan) for plan in plans]
    ours, theirs = (each.outputs["y"] for each in runs)
    assert ours.shape == theirs.shape
    assert ours.dtype == theirs.dtype == np.float16
    sectors = [
        sum(t.totals["global_load_sectors"] + t.totals["global_store_sectors"] for t in r.traces)
        for r in runs
    ]
    assert sectors[1] - sectors[0] == 2 * arrays["x"].nbytes // 32
