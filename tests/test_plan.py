"""Binding: sizes, geometry and arguments; and everything that must be refused before a launch."""

from __future__ import annotations

import itertools
import math
import re
from dataclasses import replace

import numpy as np
import pytest

from kernellab import catalog
from kernellab.arrays import ArraySpec
from kernellab.catalog import kernel
from kernellab.checks import Limits
from kernellab.errors import ArgumentError, SpecError
from kernellab.kernel import Geometry, Kernel
from kernellab.plan import Reference, bind
from kernellab.problem import Case, Cost, Operand, Parameter, Problem

F32 = np.dtype(np.float32)


def floats(*shape):
    return np.zeros(shape, np.float32)


def fake(*shape, strides=None, pointer=0, dtype=F32):
    return ArraySpec(shape, np.dtype(dtype), strides, pointer)


def test_plan_holds_what_runs():
    x = floats(3, 1000)
    plan = bind(kernel("transpose/padded"), {"x": x})
    (launch,) = plan.steps
    assert (launch.grid, launch.block, launch.shared_mem) == ((32, 1, 1), (32, 32, 1), 0)
    assert list(launch.arguments) == ["x", "y", "rows", "columns"]
    assert launch.arguments["x"] == Reference("x")
    assert launch.arguments["columns"] == 1000
    assert launch.arguments["columns"].dtype == np.int64
    assert launch.constants == {"TILE": 32}
    assert plan.outputs == {"y": ArraySpec((1000, 3), F32)}
    assert plan.cost() == Cost(bytes_read=12000, bytes_written=12000)


def test_values_follow_the_language():
    x, y = floats(64), floats(64)
    (launch,) = bind(kernel("copy/strided"), {"x": x}, stride=4).steps
    c = launch.values({"x": x, "y": y}, "cuda-c")
    assert c[0] is x
    assert c[1] is y
    assert c[2:] == (64, 4)
    assert [type(value) for value in c[2:]] == [np.int64, np.int32]
    twin = launch.values({"x": x, "y": y}, "numba")
    assert twin[0] is x
    assert twin[1] is y
    assert twin[2:] == (4,)


def test_grid_x_covers_columns():
    (launch,) = bind(kernel("transpose/naive"), {"x": floats(3, 1000)}).steps
    assert launch.grid == (32, 1, 1)
    (launch,) = bind(kernel("transpose/naive"), {"x": floats(1000, 3)}).steps
    assert launch.grid == (1, 32, 1)


def thin_case(rung, shape):
    first = ("n", "rows", "tiles")
    sizes = {name: shape[name not in first] for name in rung.problem.cases[0].sizes}
    return Case("thin", sizes, element=rung.element or "float32")


@pytest.mark.parametrize("shape", list(itertools.product((1, 2, 3), repeat=2)), ids=str)
@pytest.mark.parametrize("problem", catalog.PROBLEMS)
def test_thin_shapes_get_threads(problem, shape):
    rungs = [(rung, thin_case(rung, shape)) for rung in catalog.ladder(problem)]
    taken = [(rung, case) for rung, case in rungs if not (rung.refusal and rung.refusal(case.sizes))]
    assert taken
    for rung, case in taken:
        check_thin(rung, shape, rung.problem.inputs(case))


def check_thin(rung, shape, arrays):
    for launch in bind(rung, arrays).steps:
        assert min(launch.grid) >= 1
        assert min(launch.block) >= 1
        owned = 4 if "float4" in rung.name else 1
        assert math.prod(launch.grid) * math.prod(launch.block) * owned >= shape[0]


def is_sized_by_input(rung):
    """Whether an empty input means an empty output; the sum of no element is 0, and takes a launch."""
    return not any(name.isdigit() or name.isupper() for item in rung.outputs for name in item.shape)


def is_empty(case, rung):
    """Say whether no output has an element: sums of no rows have, and are 0."""
    return all(any(case.sizes.get(name) == 0 for name in item.shape) for item in rung.outputs)


WITH_EMPTY = [
    rung
    for rung in catalog.kernels()
    if is_sized_by_input(rung) and any(is_empty(case, rung) for case in rung.cases)
]


def test_every_problem_has_an_empty_case():
    named = {rung.problem.name for rung in WITH_EMPTY}
    assert named == {rung.problem.name for rung in catalog.kernels() if is_sized_by_input(rung)}


@pytest.mark.parametrize("rung", WITH_EMPTY, ids=lambda rung: rung.id)
def test_nothing_to_do_launches_nothing(rung):
    empty = next(case for case in rung.cases if is_empty(case, rung))
    plan = bind(rung, rung.problem.inputs(empty))
    assert plan.steps == ()
    assert {name: spec.shape for name, spec in plan.outputs.items()} == {
        name: answer.shape for name, answer in plan.reference().items()
    }
    assert plan.cost().bytes_written == 0


@pytest.mark.parametrize("shape", [(0, 5), (5, 0)])
def test_empty_transpose_keeps_its_shape(shape):
    plan = bind(kernel("transpose/tiled"), {"x": floats(*shape)})
    assert plan.steps == ()
    assert plan.outputs["y"].shape == shape[::-1]


def test_no_active_row_still_zeroes_the_output():
    problem = catalog.problem("masked_rows")
    plan = bind(kernel("masked_rows/compact"), problem.inputs(problem.case("no row active")))
    assert plan.steps == ()
    assert plan.zeroed == ("y",)
    assert plan.outputs["y"].size == 1000


def test_numpy_integers_become_python_integers():
    plan = bind(kernel("copy/scalar"), {"x": fake(np.int32(70000) * 1)})
    assert type(plan.sizes["n"]) is int
    tall = bind(kernel("transpose/naive"), {"x": ArraySpec((np.int32(70000), np.int32(70000)), F32)})
    assert tall.cost().bytes_read == 4 * 70000**2
    assert tall.steps[0].grid == (2188, 2188, 1)


def test_more_than_2_to_the_31_elements():
    n = 2**33 + 7
    (launch,) = bind(kernel("copy/scalar"), {"x": fake(n)}).steps
    assert launch.grid[0] * 256 >= n
    assert launch.arguments["n"] == n
    tall = bind(kernel("transpose/naive"), {"x": fake(10**8, 3)}).steps[0]
    assert tall.grid == (1, 65535, 48)
    assert tall.grid[1] * tall.grid[2] * 32 >= 10**8


def test_grid_limit():
    with pytest.raises(
        SpecError, match=r"^copy/scalar: grid has 4294967296 blocks along x, the limit is 2147483647"
    ):
        bind(kernel("copy/scalar"), {"x": fake(2**40)})


def test_block_limit_names_the_constant():
    wide = replace(kernel("transpose/padded"), constants={"TILE": 33})
    message = "transpose/padded: block has 1089 threads, the limit is 1024; lower TILE (now 33)"
    with pytest.raises(SpecError, match=f"^{re.escape(message)}$"):
        bind(wide, {"x": floats(64, 64)})


def swept(name, **changes):
    rung = kernel(name)
    return replace(rung, geometry=replace(rung.geometry, **changes))


def test_block_sweeps_and_its_limits():
    (launch,) = bind(swept("copy/scalar", block=(128,)), {"x": floats(1000)}).steps
    assert (launch.grid, launch.block) == ((8, 1, 1), (128, 1, 1))
    with pytest.raises(SpecError, match=r"block has 1025 threads, the limit is 1024; lower the block size$"):
        bind(swept("copy/scalar", block=(1025,)), {"x": floats(8)})
    with pytest.raises(SpecError, match=r"block has 65 threads along z, the limit is 64"):
        bind(swept("copy/scalar", block=(1, 1, 65)), {"x": floats(8)})
    with pytest.raises(SpecError, match=r"block is \(0, 1, 1\), each side must be at least 1"):
        bind(swept("copy/scalar", block=(0,)), {"x": floats(8)})


@pytest.mark.parametrize("limit", [49152, 101376, 232448])
@pytest.mark.parametrize("static", [0, 1])
def test_shared_memory_counts_static_and_dynamic(limit, static):
    limits = Limits(shared=limit)

    def bound(dynamic):
        rung = swept("copy/scalar", static_shared=lambda at: static, dynamic_shared=lambda at: dynamic)
        return bind(rung, {"x": floats(8)}, limits=limits).steps[0].shared_mem

    assert bound(limit - static) == limit - static
    with pytest.raises(
        SpecError, match=f"block needs {limit + 1} bytes of shared memory, the limit is {limit}"
    ):
        bound(limit - static + 1)


def test_static_shared_memory_limit():
    rung = swept("copy/scalar", static_shared=lambda at: 49153)
    with pytest.raises(SpecError, match="block declares 49153 bytes of shared memory, the limit is 49152"):
        bind(rung, {"x": floats(8)})


def test_swizzle_wants_a_power_of_two():
    rung = replace(kernel("transpose/swizzled"), constants={"TILE": 24})
    with pytest.raises(SpecError, match=r"^transpose/swizzled: TILE is 24, it must be a power of two"):
        bind(rung, {"x": floats(8, 8)})


@pytest.mark.parametrize("dtype", ["float64", "int64", "complex64", "float16", ">f4"])
def test_wrong_dtype(dtype):
    with pytest.raises(
        ArgumentError, match=r"^copy/offset: x has dtype .*, it must be float32; (convert|pass)"
    ):
        bind(kernel("copy/offset"), {"x": np.zeros(4, dtype)})


@pytest.mark.parametrize(("dtype", "like"), [("int64", "float64"), (">f4", "float32"), ("bool", "uint8")])
def test_what_is_only_moved_is_to_be_viewed_and_not_cast(dtype, like):
    message = (
        rf"x has dtype .*, it must be float32, .* or .*; only its bits are moved, so view it .*{like}'\)$"
    )
    with pytest.raises(ArgumentError, match=message):
        bind(kernel("copy/scalar"), {"x": np.zeros(4, dtype)})
    assert bind(kernel("copy/scalar"), {"x": np.zeros(4, dtype).view(like)}).steps


def test_an_element_is_no_remedy_for_a_large_block():
    with pytest.raises(SpecError, match=r"block has 2048 threads, the limit is 1024; lower the block size$"):
        bind(swept("scale/scalar", block=(2048,)), {"x": floats(8)})


def test_wrong_kind():
    with pytest.raises(ArgumentError, match=r"^copy/scalar: x is a list, it must be an array"):
        bind(kernel("copy/scalar"), {"x": [1.0, 2.0]})
    with pytest.raises(ArgumentError, match=r"^copy/scalar: the input 'x' is missing; it takes x$"):
        bind(kernel("copy/scalar"), {"x": None})
    with pytest.raises(ArgumentError, match=r"^copy/scalar: there is no input 'z'; it takes x$"):
        bind(kernel("copy/scalar"), {"x": floats(3), "z": floats(3)})


def test_wrong_shape():
    with pytest.raises(
        SpecError, match=r"^transpose/naive: x has shape \(4,\), it must be \(rows, columns\)"
    ):
        bind(kernel("transpose/naive"), {"x": floats(4)})
    with pytest.raises(SpecError, match=r"^copy/aos: records has shape \(8, 3\), .* with MEMBERS = 4"):
        bind(kernel("copy/aos"), {"records": floats(8, 3)})
    with pytest.raises(SpecError, match=r"^uneven_work/unsorted: trips has shape \(5,\), .* with n = 4"):
        bind(kernel("uneven_work/unsorted"), {"x": floats(4), "trips": np.zeros(5, np.int32)})


@pytest.mark.parametrize(
    "view",
    [
        np.arange(10, dtype=np.float32).reshape(2, 5)[:, :4],
        floats(4, 6)[::2],
        floats(4, 6).T,
        np.asfortranarray(floats(4, 6)),
        np.broadcast_to(np.float32(1), (10, 100)),
        floats(4, 6)[:, ::-1],
    ],
    ids=["columns", "rows", "T", "F", "broadcast", "reversed"],
)
def test_views_are_refused(view):
    with pytest.raises(
        SpecError, match=r"^transpose/naive: x has shape .* and strides .*, it must be C-contiguous"
    ):
        bind(kernel("transpose/naive"), {"x": view})


@pytest.mark.parametrize(
    ("array", "is_contiguous"),
    [
        (fake(1, 10, strides=(4000, 4)), True),
        (fake(10, 1, strides=(4, 4000)), True),
        (fake(10, 1, strides=(4, -8)), True),
        (fake(1, strides=(-4,)), True),
        (fake(1, strides=(0,)), True),
        (fake(2, strides=(0,)), False),
        (fake(2, strides=(-4,)), False),
        (fake(0, 3, strides=(99, 99)), True),
        (fake(2, 3), True),
    ],
    ids=str,
)
def test_contiguity_ignores_axes_of_length_one(array, is_contiguous):
    assert array.is_contiguous == is_contiguous


def test_one_element_taken_backwards_is_contiguous():
    a = np.arange(2, dtype=np.float32)
    bind(kernel("copy/scalar"), {"x": a[1:0:-1]})


def test_extent_includes_strides():
    assert fake(3, 2, strides=(100, -4), pointer=1000).extent == (996, 1204)
    huge = fake(2**20, strides=(2**13,), pointer=0)
    assert huge.extent == (0, (2**20 - 1) * 2**13 + 4)


@pytest.mark.parametrize("offset", [4, 8, 12])
def test_vector_rungs_refuse_a_misaligned_pointer(offset):
    with pytest.raises(
        SpecError, match=rf"^copy/float4: x starts {offset} bytes past a multiple of 16, it must be 16"
    ):
        bind(kernel("copy/float4"), {"x": fake(64, pointer=4096 + offset)})
    bind(kernel("copy/scalar"), {"x": fake(64, pointer=4096 + offset)})
    bind(kernel("copy/float4"), {"x": fake(64, pointer=4096)})


def test_fallback_takes_another_rung_and_says_so():
    plan = bind(kernel("copy/float4"), {"x": fake(64, pointer=4100)}, fall_back=True)
    assert plan.steps[0].kernel.id == plan.kernel.id == "copy/scalar"
    why = "copy/float4: x starts 4 bytes past a multiple of 16, it must be 16-byte aligned"
    assert plan.notes == (f"{why}; copy/scalar ran instead",)
    out = {"y": fake(64, pointer=8200)}
    assert bind(kernel("copy/float4"), {"x": fake(64)}, out=out, fall_back=True).kernel.id == "copy/scalar"
    aligned = bind(kernel("copy/float4"), {"x": fake(64, pointer=4096)}, fall_back=True)
    assert (aligned.kernel.id, aligned.notes) == ("copy/float4", ())
    with pytest.raises(SpecError, match="it must be 16-byte aligned"):
        bind(kernel("shared_stride/quads"), {"quads": fake(1, 32, 128, pointer=4)}, fall_back=True)


def test_misaligned_elements_are_refused():
    with pytest.raises(SpecError, match=r"^copy/scalar: x starts 2 bytes past a multiple of 4"):
        bind(kernel("copy/scalar"), {"x": fake(64, pointer=4098)})


def test_output_is_honoured_or_refused():
    x, y = floats(8), floats(8)
    assert bind(kernel("copy/scalar"), {"x": x}, out={"y": y}).given["y"] is y
    buffer = floats(12)
    frozen = floats(8)
    frozen.flags.writeable = False
    for out, error, message in [
        ({"y": x}, SpecError, "y overlaps x, an output needs memory of its own"),
        ({"y": floats(9)}, SpecError, r"y has shape \(9,\), it must be \(8,\)"),
        ({"y": np.zeros(8)}, ArgumentError, "y has dtype float64, it must be float32"),
        ({"y": floats(16)[::2]}, SpecError, "it must be C-contiguous"),
        ({"y": np.broadcast_to(np.float32(0), (8,))}, SpecError, "it must be C-contiguous"),
        ({"y": frozen}, SpecError, "y is read-only"),
        ({"z": y}, ArgumentError, "z is not an output; the outputs are y"),
    ]:
        with pytest.raises(error, match=message):
            bind(kernel("copy/scalar"), {"x": x}, out=out)
    with pytest.raises(SpecError, match="y overlaps x"):
        bind(kernel("copy/scalar"), {"x": buffer[:8]}, out={"y": buffer[4:]})


@pytest.mark.parametrize(
    ("value", "error", "message"),
    [
        (0, SpecError, "stride is 0, it must be at least 1"),
        (-3, SpecError, "stride is -3, it must be at least 1"),
        (65536, SpecError, "stride is 65536, it must be at most 65535"),
        (2**40, SpecError, "stride is 1099511627776, it must fit int32"),
        (2.0, ArgumentError, r"stride is 2\.0, it must be an integer"),
        (True, ArgumentError, "stride is True, it must be an integer"),
        ("2", ArgumentError, "stride is '2', it must be an integer"),
        (None, ArgumentError, "stride is None, it must be an integer"),
    ],
)
def test_parameters_are_checked(value, error, message):
    with pytest.raises(error, match=f"^copy/strided: {message}"):
        bind(kernel("copy/strided"), {"x": floats(8)}, stride=value)


def test_parameter_bounded_by_a_size():
    with pytest.raises(SpecError, match=r"^copy/offset: offset is 9, it must be at most n = 8; lower it$"):
        bind(kernel("copy/offset"), {"x": floats(8)}, offset=9)
    bind(kernel("copy/offset"), {"x": floats(8)}, offset=np.uint8(8))


def test_unknown_parameter():
    with pytest.raises(ArgumentError, match=r"^copy/scalar: there is no parameter 'stride'; it takes none$"):
        bind(kernel("copy/scalar"), {"x": floats(8)}, stride=2)


@pytest.mark.parametrize(("index", "worst"), [([0, 8], 8), ([-9, 0], -9)])
def test_index_outside_is_refused(index, worst):
    arrays = {"table": floats(8), "index": np.array(index)}
    with pytest.raises(SpecError, match=rf"^copy/take: index holds {worst}, an index must lie in \[-8, 8\)"):
        bind(kernel("copy/take"), arrays)


def test_order_may_not_wrap():
    arrays = {"x": floats(2), "trips": np.zeros(2, np.int32), "order": np.array([0, -1])}
    with pytest.raises(SpecError, match=r"order holds -1, an index must lie in \[0, 2\)"):
        bind(kernel("uneven_work/sorted"), arrays)


def in_place_kernel():
    problem = Problem(
        name="negate",
        summary="x = scale * x",
        operands=(Operand("x", "float32", ("n",), role="inout"),),
        parameters=(Parameter("scale", "float32", default=-1.0),),
        make_inputs=lambda case, rng: {"x": rng.standard_normal(case.sizes["n"], dtype=np.float32)},
        reference=lambda x, scale: {"x": scale * x},
        cost=lambda sizes, arrays: Cost(4 * sizes["n"], 4 * sizes["n"]),
        cases=(Case("few", {"n": 8}),),
    )
    geometry = Geometry((32,), lambda at: (1,))
    return Kernel(problem, "in_place", ("x", "n", "scale"), geometry, "an example")


def test_in_place_kernels_get_a_fresh_copy_each_run():
    rung = in_place_kernel()
    x = rung.problem.inputs(rung.problem.cases[0])["x"]
    plan = bind(rung, {"x": x})
    assert plan.in_place == ("x",)
    rounds = []
    for _ in range(3):
        buffers = plan.fresh_inputs()
        buffers["x"] *= -1
        rounds.append(buffers["x"])
    assert np.array_equal(rounds[0], rounds[1])
    assert np.array_equal(rounds[0], rounds[2])
    assert np.array_equal(plan.reference()["x"], rounds[0])


@pytest.mark.parametrize("value", [1e39, -1e39])
def test_float_parameter_must_fit(value):
    rung = in_place_kernel()
    with pytest.raises(SpecError, match="it must fit float32"):
        bind(rung, {"x": floats(8)}, scale=value)
    assert bind(rung, {"x": floats(8)}, scale=0.1).parameters["scale"] == np.float32(0.1)
    assert bind(rung, {"x": floats(8)}, scale=np.inf).parameters["scale"] == np.inf


@pytest.mark.parametrize("name", ["scale/unrolled", "axpy/unrolled", "triad/unrolled"])
def test_a_stream_fills_the_device_that_is_there(name):
    stock = kernel(name)

    def launch(n, multiprocessors, rung=stock):
        arrays = {operand.name: ArraySpec((n,), F32) for operand in rung.inputs}
        (step,) = bind(rung, arrays, limits=Limits(multiprocessors=multiprocessors)).steps
        return step.constants["VECTORS"], step.grid[0]

    assert launch(2**26, 132) == (4, 2**26 // 4096)
    assert launch(2**20, 132) == (1, 1024)
    assert launch(2**20, 32) == (4, 256)
    assert launch(2**20, 64) == (2, 512)
    assert launch(2**20, 132, stock.with_constants(VECTORS=4)) == (4, 256)
    assert launch(2**20, 132, replace(stock, tuning=None)) == (4, 256)


def test_a_constant_that_was_left_out_is_named():
    bare = replace(kernel("transpose/padded"), constants={})
    with pytest.raises(SpecError, match=r"^transpose/padded: it has no constant 'TILE', which its launch n"):
        bind(bare, {"x": np.zeros((4, 4), np.float32)})
