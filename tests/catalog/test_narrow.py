"""Matrices of few columns: rows that share a warp, and what their groups of lanes find together."""

from __future__ import annotations

import numpy as np
import pytest
from catalog_runs import IS_EXHAUSTIVE, run

import kernellab as kl
from kernellab.catalog import kernel, rows
from kernellab.errors import SpecError
from kernellab.kernel import LANGUAGES
from kernellab.plan import bind
from kernellab.problem import ELEMENTS
from kernellab.verify import verify

EMULATOR = kl.device("emulator")
RUNGS = ("bias_gelu/vectorised", "column_sum/split", "bias_gelu_backward/fused")
CHAINS = ("bias_gelu/unfused", "bias_gelu_backward/unfused")
MANY = 2100
"""Rows for more blocks than a block of column sums has groups: the last block goes round twice."""
BY_DEFAULT = {
    (rung, "cuda-c", "float32") for rung in ("bias_gelu/vectorised", "bias_gelu_backward/fused")
} | {("column_sum/split", language, "float16") for language in LANGUAGES}
CHOSEN = [
    (rung, language, element)
    for rung in (*RUNGS, *CHAINS)
    for language in LANGUAGES
    for element in ELEMENTS
    if IS_EXHAUSTIVE or (rung, language, element) in BY_DEFAULT
]


def lanes(element):
    """Return the elements of 16 bytes."""
    return 4 if element == "float32" else 8


def plans(name, element, widths):
    """Return plans of matrices so wide: one row, rows that are no multiple, and what is no number in some."""
    rung = kernel(name).with_element(element)
    for count, width, contents in (
        (1, widths[0], "random"),
        (MANY, widths[0], "random"),
        (301, widths[1], "random"),
        (67, widths[0], "NaN in some rows"),
        (5, widths[1], "infinities"),
    ):
        case = rows.case("narrow", count, width, {}, contents, element)
        yield bind(rung, rung.problem.inputs(case))


@pytest.mark.parametrize(("name", "language", "element"), CHOSEN)
def test_rows_side_by_side_are_right_whatever_the_order_of_blocks(name, language, element):
    per = lanes(element)
    program = None
    for plan in plans(name, element, (8 * per, 8 * per - 1)):
        assert plan.kernel.constants["GROUP"] == 8
        program = program or EMULATOR.build(plan.kernel, language, with_ladder=False)
        answers = [
            run(plan, program.binary, language, sanitize=True, seed=seed)[0]
            for seed in (None, 3)[: 1 + (plan.sizes["rows"] == MANY)]
        ]
        for answer in answers:
            verdict = verify(plan, answer)
            assert verdict.is_right, (plan.sizes, verdict.message)
        first, last = answers[0], answers[-1]
        assert all(np.array_equal(first[key].view("u1"), last[key].view("u1")) for key in first)


@pytest.mark.parametrize("name", RUNGS)
def test_a_request_takes_several_rows(name):
    plan = list(plans(name, "float32", (32, 31)))[1]
    program = EMULATOR.build(plan.kernel, with_ladder=False)
    _, (trace,) = run(plan, program.binary, "cuda-c")
    matrices = sum(spec.shape == (MANY, 32) for spec in plan.inputs.values())
    assert matrices * MANY / 4 <= trace.totals["global_load_requests"] < matrices * MANY / 2


@pytest.mark.parametrize("element", ELEMENTS)
def test_a_row_has_no_lanes_that_a_smaller_group_spares(element):
    for width in (*range(1, 40 * lanes(element)), 8192):
        vectors = -(-width // lanes(element))
        for name in (*RUNGS, *CHAINS):
            rung = kernel(name)
            shape = {**rung.constants, **rung.tuning.choose({"columns": width}, element)}
            assert rung.constraint(shape) == ""
            assert shape["GROUP"] >= min(vectors, 32)
            assert shape["GROUP"] == 1 or shape["GROUP"] < vectors + 32
            assert vectors > 32 or shape["GROUP"] < 2 * vectors


def test_the_shape_of_the_gradient_that_was_the_fastest():
    rung = kernel("bias_gelu_backward/fused")
    assert rung.tuning.choose({"columns": 8192}, "float32") == {"GROUP": 32}
    wide = {"THREADS": 512, "GROUP": 32, "ROWS": 4, "BLOCKS": 2}
    assert rung.tuning.choose({"columns": 8192}, "float16") == wide
    assert rung.tuning.choose({"columns": 64}, "float16") == {"GROUP": 8}


@pytest.mark.parametrize("name", [*RUNGS, *CHAINS])
@pytest.mark.parametrize("group", [0, 3, 64])
def test_a_group_that_is_no_part_of_a_warp_is_refused(name, group):
    rung = kernel(name).with_constants(GROUP=group)
    inputs = rung.problem.inputs(rung.problem.cases[0])
    with pytest.raises(SpecError, match=f"^{name}: GROUP is {group}, it must be a power of two up to 32"):
        bind(rung, inputs)
