"""Lists of arrays under one operand: bound, measured, applied; what is refused."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import kernellab as kl
from kernellab.catalog import kernel
from kernellab.plan import TableReference, bind
from kernellab.verify import verify

ONE = np.zeros(1, "float32")


def scaled(lists, name="multi", **options):
    rest = {"found": ONE, "inv_scale": ONE + 0.5, "norm": ONE}
    return bind(kernel(f"unscale/{name}"), {"x": lists, **rest}, **options)


def ones(*lengths, dtype="float32"):
    return [np.ones(n, dtype) for n in lengths]


def table_of(step):
    return next(each for each in step.arguments.values() if isinstance(each, TableReference))


def test_a_launch_for_each_array_or_one_for_all():
    lists = ones(5000, 0, 7)
    each = scaled(lists, "vectorised")
    assert [step.grid[0] for step in each.steps] == [10, 1]  # 512 elements a block
    assert [step.arguments["n"] for step in each.steps] == [5000, 7]
    (step,) = scaled(lists).steps
    assert step.grid == (6, 1, 1)  # 1024 elements a block
    assert table_of(step) == TableReference((("x[0]", "x[2]"),), 64, (0, 5), 0)
    assert each.sizes == {"n": 5007, "tensors": 3}
    assert each.cost().bytes_read == 4 * 5007


def test_more_arrays_than_a_table_holds():
    steps = scaled(ones(*[3] * 1030)).steps
    assert [(table_of(step).capacity, step.grid[0]) for step in steps] == [(512, 512), (512, 512), (512, 6)]
    assert [table_of(step).blocks_before for step in steps] == [0, 512, 1024]


def test_what_cannot_be_aligned_falls_back_as_a_whole():
    room = np.ones(12, "float32")
    plan = scaled([room[:4], room[5:]], "vectorised", fall_back=True)
    assert {step.kernel.name for step in plan.steps} == {"scalar"}
    assert plan.notes[0].startswith("unscale/vectorised: x[1] starts 4 bytes past a multiple of 16")


def test_a_list_is_applied_and_measured():
    x = ones(3, 6)
    first, second, found = kl.apply("unscale/multi", x, ONE, ONE + 0.5, ONE, device="emulator")
    assert (first.tolist(), second.tolist(), found.tolist()) == ([0.5] * 3, [0.5] * 6, [0])
    assert x[0].tolist() == [1] * 3
    assert kl.measure("unscale/multi", case="100 equal tensors", device="emulator").is_right


def test_a_table_off_by_one_is_seen():
    plan = scaled(ones(300, 300))
    (step,) = plan.steps
    wrong = replace(table_of(step), first_blocks=(0, 0))
    broken = replace(plan, steps=(replace(step, arguments={**step.arguments, "tensors": wrong}),))
    place = kl.device("emulator")
    program = place.build(plan.kernel, with_ladder=False)
    assert verify(plan, place.run(program, plan).outputs).is_right
    assert not verify(broken, place.run(program, broken).outputs).is_right


@pytest.mark.parametrize(
    ("lists", "match"),
    [
        ([np.ones(3, "float16"), np.ones(3, "float32")], r"x\[1\] has dtype float32, it must be float16"),
        ([np.ones((1, 3), "float32")], r"x\[0\] has shape \(1, 3\), it must be \(n,\)"),
        (
            [np.ones(6, "float32")[::2]],
            r"x\[0\] has shape \(3,\) and strides \(8,\), it must be C-contiguous",
        ),
        ([1.0], r"x\[0\] is a float, it must be an array"),
    ],
)
def test_an_array_of_a_list_is_refused_by_its_place(lists, match):
    with pytest.raises(kl.LabError, match=match):
        scaled(lists)


def test_lists_that_do_not_agree():
    inputs = dict.fromkeys(("param", "exp_avg", "exp_avg_sq"), ones(3, 4))
    inputs |= dict.fromkeys(("found", "inv_scale", "norm"), ONE) | {"skipped": np.zeros(1, "int32")}
    with pytest.raises(kl.SpecError, match="grad is 1 arrays and param is 2; give lists that agree"):
        bind(kernel("adamw/multi"), {**inputs, "grad": ones(3)})
    with pytest.raises(kl.SpecError, match="grad is one array and param is 2"):
        bind(kernel("adamw/multi"), {**inputs, "grad": np.ones(3, "float32")})
    with pytest.raises(kl.SpecError, match=r"grad\[1\] has shape \(5,\), it must be \(n,\) with n = 4"):
        bind(kernel("adamw/multi"), {**inputs, "grad": ones(3, 5)})


def test_what_takes_no_lists():
    with pytest.raises(kl.ArgumentError, match="inv_scale is a list, it must be an array"):
        bind(kernel("unscale/multi"), {"x": ONE, "found": ONE, "inv_scale": [ONE], "norm": ONE})
    with pytest.raises(kl.SpecError, match="x is a list here, out takes arrays only"):
        kl.apply("unscale/multi", ones(3), ONE, ONE, ONE, out={"x": ONE}, device="emulator")
    with pytest.raises(kl.SpecError, match="with isolated=True no input may be a list"):
        kl.measure("unscale/multi", ones(3), ONE, ONE, ONE, isolated=True, device="emulator")


@pytest.mark.parametrize(
    ("constant", "value"), [("TENSORS", 0), ("TENSORS", 513), ("THREADS", 33), ("VECTORS", 17)]
)
def test_shapes_that_no_launch_has(constant, value):
    rung = kernel("unscale/multi").with_constants(**{constant: value})
    inputs = {"x": ones(3), "found": ONE, "inv_scale": ONE, "norm": ONE}
    with pytest.raises(kl.SpecError, match=f"unscale/multi: {constant} is {value}, it must be"):
        bind(rung, inputs)
