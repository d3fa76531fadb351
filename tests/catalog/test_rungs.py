"""Every rung, every case, both languages, on the emulator: values, faults where they are due, and counts."""

from __future__ import annotations

import numpy as np
import pytest
from catalog_runs import plan_of, run

from kernellab import catalog
from kernellab.errors import ExecutionError
from kernellab.header import agrees, measured
from kernellab.kernel import LANGUAGES
from kernellab.trace import run_binary
from kernellab.verify import poisoned, verify

each_rung = pytest.mark.parametrize("rung", catalog.kernels(), ids=lambda rung: rung.id)
each_language = pytest.mark.parametrize("language", LANGUAGES)


@each_rung
@each_language
def test_every_case(rung, language, binary_of):
    binary = binary_of(rung, language)
    wrong = {}
    for case in rung.problem.cases:
        plan = plan_of(rung, case)
        try:
            outputs, traces = run(plan, binary, language, sanitize=True)
        except ExecutionError as error:
            wrong[case.name] = str(error)
            continue
        assert all(trace.diagnostics == () for trace in traces)
        verdict = verify(plan, outputs)
        if not verdict.is_right:
            wrong[case.name] = verdict.message
    assert set(wrong) == set(rung.fails_on), wrong


@each_rung
def test_header_counts_are_true(rung, binary_of):
    _, (trace,) = run(
        plan_of(rung, rung.problem.cases[0]), binary_of(rung, "cuda-c"), "cuda-c", errors="record"
    )
    assert trace.source == "SASS"
    for count in rung.header.counts:
        value = measured(count, trace.lines)
        assert agrees(count, value), f"{rung.id}: {count} is {value}"


@each_rung
def test_both_languages_count_the_same(rung, binary_of):
    totals = []
    for language in LANGUAGES:
        binary = binary_of(rung, language)
        _, (trace,) = run(plan_of(rung, rung.problem.cases[0]), binary, language, errors="record")
        assert trace.source == "SASS"
        totals.append(trace.totals)
    for name in ("global_load", "global_store"):
        for unit in ("requests", "sectors"):
            assert totals[0][f"{name}_{unit}"] == totals[1][f"{name}_{unit}"]
    for name in ("shared_load", "shared_store"):
        for unit in ("requests", "wavefronts", "bank_conflicts"):
            assert totals[0][f"{name}_{unit}"] == totals[1][f"{name}_{unit}"]


def test_the_faulty_copy_is_pointed_at(binary_of):
    (rung,) = catalog.kernels("copy/float4_faulty")
    plan = plan_of(rung, rung.problem.cases[0])
    with pytest.raises(ExecutionError, match=r"out of bounds global load.*float4_faulty\.cu:18") as caught:
        run(plan, binary_of(rung, "cuda-c"), "cuda-c")
    assert {item.kind for item in caught.value.trace.diagnostics} == {"out of bounds"}
    outputs, _ = run(plan, binary_of(rung, "cuda-c"), "cuda-c", errors="record")
    message = verify(plan, outputs).message
    assert "y differs in 49152 of 65536 elements, first at [1024]" in message
    assert "which nothing wrote there" in message


def test_a_twin_that_computes_something_else_is_found(binary_of):
    relu, copy = catalog.kernels("relu/branch_free")[0], catalog.kernels("copy/scalar")[0]
    plan = plan_of(relu, relu.problem.cases[0])
    outputs = {"y": poisoned((2**16,), np.float32)}
    (step,) = plan.steps
    binary = binary_of(copy, "numba")
    values = step.values({**plan.inputs, **outputs}, "numba")
    run_binary(binary, binary.names[copy.entry], step.grid, step.block, values)
    assert not verify(plan, outputs).is_right
