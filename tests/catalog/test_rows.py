"""Problems on rows: launch shapes by length, unaligned views, barriers, special values, dropout."""

from __future__ import annotations

from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest
from catalog_runs import run

from kernellab.catalog import gelus, kernel, norms, philox, row_rungs, rows, softmax
from kernellab.checks import Limits
from kernellab.compile import compile_cuda
from kernellab.devices.emulated import EmulatedDevice
from kernellab.errors import SpecError
from kernellab.kernel import LANGUAGES
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
    program = EMULATOR.build(plan.kernel, language, with_ladder=False)
    result = EMULATOR.run(program, plan, is_counted=False)
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


def shape_of(name, columns, element):
    """Return THREADS, GROUP, VECTORS and ROWS that a rung has for rows so long."""
    shape = kernel(name).tuning.choose({"columns": columns}, element)
    return tuple(shape[each] for each in ("THREADS", "GROUP", "VECTORS", "ROWS"))


@pytest.mark.parametrize(
    ("problem", "columns", "wide", "narrow"),
    [
        ("softmax", 64, (128, 8, 2, 1), (128, 4, 2, 1)),
        ("layernorm_gelu", 64, (64, 8, 2, 2), (64, 8, 1, 4)),
        ("softmax_dropout", 64, (128, 8, 2, 4), (128, 8, 1, 4)),
        ("softmax", 1000, (64, 64, 4, 1), (32, 32, 4, 1)),
        ("softmax", 1024, (64, 64, 4, 1), (64, 64, 2, 1)),
        ("softmax_dropout", 1024, (128, 32, 8, 1), (32, 32, 4, 1)),
        ("layernorm_gelu", 4096, (256, 256, 4, 1), (128, 128, 4, 1)),
        ("softmax", 8192, (512, 512, 4, 1), (256, 256, 4, 1)),
        ("softmax_dropout", 8192, (256, 256, 8, 1), (256, 256, 4, 1)),
        ("rmsnorm", 16384, (512, 512, 8, 1), (512, 512, 4, 1)),
        ("layernorm", 32768, (1024, 1024, 8, 1), (1024, 1024, 4, 1)),
    ],
)
def test_the_shapes_that_were_the_fastest(problem, columns, wide, narrow):
    rung = f"{problem}/registers"
    assert shape_of(rung, columns, "float32") == wide
    assert shape_of(rung, columns, "bfloat16") == narrow


def test_a_short_row_wastes_no_lanes():
    assert rows.shape_for({"columns": 1}, "float32")["GROUP"] == 1


@pytest.mark.parametrize("columns", [8192, 16384, rows.LONGEST])
@pytest.mark.parametrize("element", ["float32", "bfloat16"])
def test_a_row_on_its_way_has_128_bytes_a_thread(columns, element):
    per = 4 if element == "float32" else 8
    threads = columns // per // 8
    shape = kernel("softmax/pipelined").tuning.choose({"columns": columns}, element)
    assert shape == {"THREADS": threads, "VECTORS": 8, "BLOCKS": 1024 // threads}
    pair = kernel("residual_layernorm/pipelined")
    if not pair.refusal({"columns": columns}):
        both = pair.tuning.choose({"columns": columns}, element)
        assert 2 * 16 * both["VECTORS"] * both["THREADS"] * both["BLOCKS"] <= Limits().shared


def test_the_shape_follows_the_row_unless_the_caller_sets_it():
    short, long = np.zeros((2, 64), F), np.zeros((2, 8192), F)
    rung = kernel("softmax/registers")
    assert bind(rung, {"x": short}).steps[0].constants["GROUP"] == 8
    assert bind(rung, {"x": long}).steps[0].block == (512, 1, 1)
    own = replace(rung, constants={**rung.constants, "THREADS": 256, "GROUP": 256})
    assert bind(own, {"x": long}).steps[0].block == (256, 1, 1)
    assert bind(replace(rung, tuning=None), {"x": long}).steps[0].block == (128, 1, 1)
    assert bind(kernel("softmax/split"), {"x": long}).temporaries["tops"].shape == (2, 1)


@pytest.mark.parametrize("problem", REGISTERS)
def test_a_warp_with_several_rows(problem):
    rung = kernel(f"{problem}/registers")
    case = rows.case("short", 21, 40, {})
    plan, y = outcome(rung.id, rung.problem.inputs(case, 5))
    assert plan.steps[0].constants["GROUP"] == 8
    assert plan.steps[0].constants["ROWS"] == {"layernorm_gelu": 2, "softmax_dropout": 4}.get(problem, 1)
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


def test_with_one_scratch_for_all_rows_two_exchanges_race(tmp_path):
    rung = kernel("softmax/registers")
    rung = replace(rung, constants={**rung.constants, "ROWS": 2})
    include = rung.path.parent.parent / "include"
    text = (include / "rows.cuh").read_text()
    head, turns, tail = text.rpartition("scratch[q % 2]")
    assert turns
    plan = bind(replace(rung, tuning=None), {"x": np.zeros((2, 1024), F)})
    options = [f"-D{name}={value}" for name, value in rung.constants.items()]
    found = {}
    for name, content in (("right", text), ("wrong", f"{head}scratch[0]{tail}")):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "rows.cuh").write_text(content)
        (folder / "registers.cu").write_text(rung.text())
        binary = compile_cuda(rung.text(), path=folder / "registers.cu", options=options)
        _, (trace,) = run(plan, binary, "cuda-c", sanitize=True, errors="record")
        found[name] = {item.kind for item in trace.diagnostics}
    assert found == {"right": set(), "wrong": {"race"}}


SOFTMAXES = [
    (rung, language)
    for rung in ("three_pass", "online", "split", "registers", "pipelined")
    for language in LANGUAGES
    if kernel(f"softmax/{rung}").has_twin or language == "cuda-c"
]


@pytest.mark.parametrize("element", ["float32", "float16"])
@pytest.mark.parametrize(("rung", "language"), SOFTMAXES)
def test_softmax_far_below_zero_and_of_special_rows(rung, language, element):
    """F02: a running maximum that starts at 0 makes NaN of a row of -10000."""
    x = np.full((5, 8), -np.inf, element)
    x[:, :4] = -10000
    x[1, :4] = (7999.99, 8000, 2, 1) if element == "float32" else (7996, 8000, 2, 1)
    x[2] = -np.inf
    x[3, :4] = np.nan, 1, 2, 3
    _, y = outcome(f"softmax/{rung}", {"x": x}, language)
    top = [0.497559, 0.502441, 0, 0] if element == "float32" else [0.017986, 0.982014, 0, 0]
    assert y[0].tolist() == [0.25] * 4 + [0] * 4
    assert np.allclose(y[1, :4].astype(F), top, rtol=0, atol=1e-6 if element == "float32" else 5e-4)
    assert np.isnan(y[2:4]).all()
    assert y[4].tolist() == [0.25] * 4 + [0] * 4


@pytest.mark.parametrize("columns", [1, 31, 33, 4097])
@pytest.mark.parametrize("element", ["float32", "float16"])
def test_equal_values_far_below_zero_share_the_row_whatever_its_length(columns, element):
    """F02: so for rows within a warp, beyond it, and beyond a block's vectors."""
    x = np.full((2, columns), -10000, element)
    _, y = outcome("softmax/registers", {"x": x})
    assert np.allclose(y.astype(F), 1 / columns, rtol=1e-6 if element == "float32" else 1e-3, atol=0)


@pytest.mark.parametrize("form", [gelus.ERF, gelus.TANH])
@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("element", ["float32", "float16"])
def test_gelu_in_its_tails(form, language, element):
    """F04: infinities, NaN, magnitudes above 11, and the tail that 1 + tanh loses."""
    x = np.array([[-np.inf, np.inf, np.nan, -13.24, -6, -5, -4, -0.0, 11, 40, 1, 0, 0, 0, 0, 0]], element)
    _, y = outcome("bias_gelu/vectorised", {"x": x, "bias": np.zeros(16, element)}, language, form=form)
    y = y.astype(F)
    six, four = (-5.9195e-9, -1.26685e-4) if form == gelus.ERF else (-8.4396e-11, -7.02459e-5)
    rtol, atol = (2e-5, 0) if element == "float32" else (1e-3, 2.0**-24)
    assert y[0, 0] == 0
    assert y[0, 1] == np.inf
    assert np.isnan(y[0, 2])
    assert -1e-30 < y[0, 3] <= 0
    assert np.allclose(y[0, [4, 6]], (six, four), rtol=rtol, atol=atol)
    assert four < y[0, 5] < 0
    assert y[0, 7] == 0
    assert y[0, 8:10].tolist() == [11, 40]
    assert np.isclose(y[0, 10], gelus.gelu(np.ones(1), form)[0], rtol=1e-3 if element == "float16" else 1e-6)


def staying(problem, columns, count=5, element="float32", contents="random"):
    """Return the plan of `pipelined` on a device of two multiprocessors, so that blocks take several rows."""
    rung = kernel(f"{problem}/pipelined")
    case = rows.case("", count, columns, {}, contents, element)
    rung = replace(rung, constants={**rung.constants, "BLOCKS": 1}, tuning=None)
    return bind(rung, rung.problem.inputs(case, 7), limits=Limits(multiprocessors=2))


@pytest.mark.parametrize("problem", REGISTERS)
@pytest.mark.parametrize("element", ["float32", "bfloat16"])
def test_a_block_that_stays_takes_every_row(problem, element):
    for columns in (104, 4096):
        plan = staying(problem, columns, element=element)
        assert plan.steps[0].grid == (2, 1, 1)
        program = EMULATOR.build(plan.kernel, with_ladder=False)
        result = EMULATOR.run(program, plan, is_counted=False)
        assert result.errors == ()
        assert verify(plan, result.outputs).is_right


@pytest.mark.parametrize("contents", rows.CONTENTS)
def test_special_rows_on_their_way(contents):
    for problem in ("softmax", "layernorm"):
        plan = staying(problem, 104, contents=contents)
        program = EMULATOR.build(plan.kernel, with_ladder=False)
        result = EMULATOR.run(program, plan, is_counted=False)
        assert verify(plan, result.outputs).is_right


READ, ASK = "            here.read(s, value);\n", "residual + next * columns, s);\n            }\n"


@pytest.mark.parametrize(
    ("old", "new"),
    [("        wait_for_copies<0>();\n", ""), (READ, ""), (ASK, f"{ASK}{READ}")],
    ids=["not waiting", "not reading", "reading twice"],
)
def test_a_row_is_asked_for_once_it_was_read(tmp_path, old, new):
    """The mutants read a row before it has arrived, never, or after the next one was asked for."""
    plan = staying("softmax", 1024)
    rung = plan.kernel
    text = (rung.path.parent.parent / "include" / "pipeline.cuh").read_text()
    assert text.count(old) == 1
    (tmp_path / "pipeline.cuh").write_text(text.replace(old, new))
    (tmp_path / "pipelined.cu").write_text(rung.text())
    options = [f"-D{name}={value}" for name, value in rung.constants.items()]
    binary = compile_cuda(rung.text(), path=tmp_path / "pipelined.cu", options=options)
    outputs, (trace,) = run(plan, binary, "cuda-c", errors="record")
    found = {item.kind for item in trace.diagnostics}
    assert found & {"in flight", "unwritten shared memory"} or not verify(plan, outputs).is_right


def test_rows_that_cannot_be_on_their_way_go_by_registers():
    x, odd, long = np.zeros((2, 64), F), np.zeros((2, 99), F), np.zeros((1, 8 * rows.LONGEST), F)
    rung = kernel("softmax/pipelined")
    with pytest.raises(SpecError, match="99 columns, they must be a multiple of 8; pad them"):
        bind(rung, {"x": odd})
    with pytest.raises(SpecError, match=f"a block holds {rows.LONGEST}; take split"):
        bind(rung, {"x": long})
    pair = kernel("residual_layernorm/pipelined")
    assert f"a block holds {rows.LONGEST // 2}" in pair.refusal({"columns": rows.LONGEST})
    assert bind(rung, {"x": odd}, fall_back=True).kernel.id == "softmax/registers"
    assert bind(rung, {"x": x}).kernel.id == "softmax/pipelined"
    small = replace(rung, constants={**rung.constants, "VECTORS": 1})
    with pytest.raises(SpecError, match="rows have 2048 columns, THREADS times VECTORS vectors hold 1024"):
        bind(small, {"x": np.zeros((2, 2048), F)})


def test_blocks_that_stay_share_the_rows_evenly():
    at = {"rows": 16384, "columns": 8192, "THREADS": 512, "VECTORS": 4, "BLOCKS": 4, "ELEMENT": 0}
    assert row_rungs.stays({**at, "multiprocessors": 132}) == (512,)
    assert row_rungs.stays({**at, "rows": 3, "multiprocessors": 132}) == (3,)
    assert row_rungs.stays({**at, "rows": 0, "multiprocessors": 132}) == (0,)


def test_the_mean_of_halves_neither_overflows_nor_stops_counting():
    x = np.full((1, 4096), 300, np.float16)
    x[0, ::2] = 302
    arrays = {"x": x, "weight": np.ones(4096, np.float16), "bias": np.zeros(4096, np.float16)}
    _, y = outcome("layernorm/registers", arrays)
    assert y[0, :2].astype(F).tolist() == [1, -1]


def test_a_large_mean_costs_the_registers_no_precision():
    x = (1e6 + np.arange(1024) % 2 * 2).astype(F).reshape(1, -1)
    arrays = {"x": x, "weight": np.ones(1024, F), "bias": np.zeros(1024, F)}
    for rung in ("three_pass", "split", "registers", "pipelined"):
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
    assert all(np.allclose(y, seen[0], rtol=1e-6, atol=0) for y in seen)
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
    program = EMULATOR.build([plan.kernel for plan in plans], with_ladder=False)
    runs = [EMULATOR.run(program, plan) for plan in plans]
    ours, theirs = (each.outputs["y"] for each in runs)
    assert ours.shape == theirs.shape
    assert ours.dtype == theirs.dtype == np.float16
    sectors = [
        sum(t.totals["global_load_sectors"] + t.totals["global_store_sectors"] for t in r.traces)
        for r in runs
    ]
    assert sectors[1] - sectors[0] == 2 * arrays["x"].nbytes // 32
