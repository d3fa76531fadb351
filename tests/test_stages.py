"""Elements of several dtypes and rungs of several launches: bound, built and run from a kernel made here."""

from __future__ import annotations

from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest

import kernellab as kl
from kernellab.arrays import ArraySpec
from kernellab.checks import Limits
from kernellab.errors import ArgumentError, SpecError
from kernellab.kernel import Geometry, Kernel, Stage, covering
from kernellab.plan import bind
from kernellab.problem import ELEMENTS, Case, Cost, Operand, Problem, dtype_named
from kernellab.verify import verify

SOURCE = """// total/two: partial sums of 32 elements, then their sum.
#include "element.cuh"
extern "C" __global__ void total_two_blocks(const element_t* x, float* partials, unsigned* calls,
                                            long long n) {
    const long long first = (long long)blockIdx.x * EACH;
    float sum = 0.0f;
    for (long long i = first; i < first + EACH && i < n; ++i) {
        sum += to_float(x[i]);
    }
    if (threadIdx.x == 0) {
        partials[blockIdx.x] = sum;
        atomicAdd(calls, 1u);
    }
}
extern "C" __global__ void total_two_rest(const float* partials, const unsigned* calls, element_t* y,
                                          long long blocks) {
    float sum = 0.0f;
    for (long long i = 0; i < blocks; ++i) {
        sum += partials[i];
    }
    if (threadIdx.x == 0 && calls[0] == blocks) {
        y[0] = from_float<element_t>(sum);
    }
}
"""


def twins(EACH, element):  # noqa: N803
    from numba import cuda, float32

    from kernellab.catalog.elements import conversions

    to_float, from_float = conversions(element)
    ZERO = float32(0)  # noqa: N806

    def total_two_blocks(x, partials, calls):
        total = ZERO
        first = cuda.blockIdx.x * EACH
        for i in range(first, min(first + EACH, x.size)):
            total += to_float(x[i])
        if cuda.threadIdx.x == 0:
            partials[cuda.blockIdx.x] = total
            cuda.atomic.add(calls, 0, 1)

    def total_two_rest(partials, calls, y):
        total = ZERO
        for i in range(partials.size):
            total += partials[i]
        if cuda.threadIdx.x == 0 and calls[0] == partials.size:
            y[0] = from_float(total)

    return total_two_blocks, total_two_rest


PROBLEM = Problem(
    name="total",
    summary="y[0] = sum of x",
    operands=(Operand("x", "element", ("n",)), Operand("y", "element", ("1",), role="out")),
    make_inputs=lambda case, rng: {"x": rng.integers(-4, 5, case.sizes["n"]).astype(np.float32)},
    reference=lambda x: {"y": x.astype(np.float64).sum(keepdims=True)},
    cost=lambda sizes, arrays: Cost(arrays["x"].nbytes, arrays["x"].itemsize),
    cases=tuple(Case(f"{n} {element}", {"n": n}, element=element) for n in (100, 0) for element in ELEMENTS),
)


@pytest.fixture
def two(tmp_path):
    source = tmp_path / "two.cu"
    source.write_text(SOURCE, encoding="utf-8")
    bulk = Geometry((32,), lambda at: (at["blocks"],))
    return Kernel(
        PROBLEM,
        "two",
        ("x", "y", "n"),
        bulk,
        twins,
        constants={"EACH": 32},
        elements=ELEMENTS,
        stages=(
            Stage("blocks", ("x", "partials", "calls", "n"), bulk),
            Stage("rest", ("partials", "calls", "y", "blocks"), Geometry((32,), lambda at: (1,))),
        ),
        temporaries=(
            Operand("partials", "float32", ("blocks",), role="scratch"),
            Operand("calls", "uint32", ("1",), role="scratch"),
        ),
        derived={"blocks": lambda at: covering(at["n"], at["EACH"])},
        zeroed=("calls",),
        source=source,
    )


@pytest.mark.parametrize("element", ELEMENTS)
@pytest.mark.parametrize("language", ["cuda-c", "numba"])
def test_both_stages_run_on_each_element(two, element, language):
    x = PROBLEM.inputs(PROBLEM.case(f"100 {element}"))["x"]
    assert x.dtype == dtype_named(element)
    y = kl.apply(two, x, language=language, device="emulator")
    assert (y.dtype, float(y[0])) == (x.dtype, float(x.astype(np.float64).sum()))


def test_a_plan_holds_its_launches_and_what_they_share(two):
    plan = bind(two, {"x": np.zeros(100, np.float16)})
    assert [step.kernel.entry for step in plan.steps] == ["total_two_blocks", "total_two_rest"]
    assert {step.kernel.id for step in plan.steps} == {"total/two"}
    assert [step.grid for step in plan.steps] == [(4, 1, 1), (1, 1, 1)]
    assert plan.steps[1].arguments["blocks"] == 4
    assert plan.temporaries["partials"] == ArraySpec((4,), np.dtype(np.float32))
    assert plan.zeroed == ("calls",)
    assert plan.outputs["y"].dtype == np.float16
    assert plan.kernel.element == "float16"
    assert plan.steps[0].constants == {"EACH": 32, "ELEMENT": 1}
    assert [item.role for item in plan.kernel.operands] == ["in", "out"]


def test_a_launch_with_an_empty_grid_is_left_out(two):
    plan = bind(two, {"x": np.zeros(0, np.float32)})
    assert [step.kernel.stage for step in plan.steps] == ["rest"]
    y = kl.apply(two, np.zeros(0, np.float32), device="emulator")
    assert y.tolist() == [0]


def test_without_zeroing_the_answer_is_wrong(two):
    x = np.ones(100, np.float32)
    dirty = replace(two, zeroed=())
    device = kl.EmulatedDevice()
    plan = bind(dirty, {"x": x})
    assert not verify(plan, device.run(device.build(dirty), plan).outputs).is_right
    plan = bind(two, {"x": x})
    assert verify(plan, device.run(device.build(two), plan).outputs).is_right


def test_a_dtype_that_is_no_element_is_refused(two):
    rule = r"^total/two: x has dtype float64, it must be float32, float16 or bfloat16; convert it"
    with pytest.raises(ArgumentError, match=rule):
        bind(two, {"x": np.zeros(3)})
    narrow = replace(two, elements=("float32",))
    with pytest.raises(ArgumentError, match=r"x has dtype float16, it must be float32; convert it"):
        bind(narrow, {"x": np.zeros(3, np.float16)})
    with pytest.raises(SpecError, match=r"^total/two: it is not made for elements of 'bfloat16'"):
        narrow.with_element("bfloat16")


def test_twins_see_16_bit_elements_as_bits(two):
    x = np.ones(3, ml_dtypes.bfloat16)
    plan = bind(two, {"x": x})
    buffers = {"x": x, "partials": np.zeros(1, np.float32), "calls": np.zeros(1, np.uint32)}
    values = plan.steps[0].values(buffers, "numba")
    assert values[0].dtype == np.uint16
    assert values[0].tolist() == [0x3F80] * 3
    assert plan.steps[0].values(buffers, "cuda-c")[0] is x
    assert plan.steps[0].kernel.twin_types() == ("uint16[::1]", "float32[::1]", "uint32[::1]")


def test_grids_know_the_multiprocessors(two):
    looping = replace(two, derived={"blocks": lambda at: 2 * at["multiprocessors"]})
    plan = bind(looping, {"x": np.zeros(100, np.float32)}, limits=Limits(multiprocessors=7))
    assert plan.steps[0].grid == (14, 1, 1)
