"""Every rung, every case, both languages, on the emulator: values, faults where they are due, and counts."""

from __future__ import annotations

import numpy as np
import pytest
from catalog_runs import cases_of, is_tested, plan_of, run

from kernellab import catalog
from kernellab.emulation import run_binary
from kernellab.errors import ExecutionError
from kernellab.header import agrees, measured
from kernellab.instruments.trace import totals
from kernellab.kernel import LANGUAGES
from kernellab.verify import poisoned, verify

each_rung = pytest.mark.parametrize("rung", catalog.kernels(), ids=lambda rung: rung.id)
each_language = pytest.mark.parametrize("language", LANGUAGES)
each_twin = pytest.mark.parametrize(
    "rung",
    [rung for rung in catalog.kernels() if rung.has_twin and is_tested(rung, "numba")],
    ids=lambda rung: rung.id,
)


def expressible(rung, language):
    if language == "numba" and not rung.has_twin:
        pytest.skip(rung.twin)
    if not is_tested(rung, language):
        pytest.skip("with KERNELLAB_EXHAUSTIVE=1 only")


@each_rung
@each_language
def test_every_case(rung, language, binary_of):
    expressible(rung, language)
    wrong = {}
    for case in cases_of(rung, language):
        plan = plan_of(rung, case)
        try:
            outputs, traces = run(plan, lambda part: binary_of(part, language), language, sanitize=True)
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
    expressible(rung, "cuda-c")
    plan = plan_of(rung, rung.cases[0])
    _, traces = run(plan, lambda part: binary_of(part, "cuda-c"), "cuda-c", errors="record")
    # How often a loop asks for tiles is not decided by the code alone; every access is known all the same.
    assert {trace.source for trace in traces} == {"approximate" if rung.tiles else "SASS"}
    assert {trace.mapped for trace in traces} <= {1.0}
    lines = [line for trace in traces for line in trace.lines]
    for count in rung.header.counts:
        value = measured(count, lines)
        assert agrees(count, value), f"{rung.id}: {count} is {value}"


@each_twin
def test_both_languages_count_the_same(rung, binary_of):
    both = []
    for language in LANGUAGES:
        plan = plan_of(rung, rung.cases[0])
        _, traces = run(plan, lambda part, to=language: binary_of(part, to), language, errors="record")
        assert {trace.mapped for trace in traces} == {1.0}
        both.append(totals(traces))
    ours, twins = both
    for name in ("global_load", "global_store"):
        for unit in ("requests", "sectors"):
            assert ours[f"{name}_{unit}"] == twins[f"{name}_{unit}"], (name, unit)
    for name in ("shared_load", "shared_store"):
        for unit in ("requests", "wavefronts", "bank_conflicts"):
            assert ours[f"{name}_{unit}"] == twins[f"{name}_{unit}"], (name, unit)


def test_the_faulty_copy_is_pointed_at(binary_of):
    (rung,) = catalog.kernels("copy/float4_faulty")
    plan = plan_of(rung, rung.cases[0])
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
