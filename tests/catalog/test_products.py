"""Products of matrices: references by hand, bounds of the error, what is caught, and the counts of the best rung."""

from __future__ import annotations

import re

import ml_dtypes
import numpy as np
import pytest
from catalog_runs import plan_of, run

from kernellab import catalog
from kernellab.catalog import gelus, product_rungs, products
from kernellab.checks import HOPPER
from kernellab.compile import compile_cuda
from kernellab.compile.sass import disassemble
from kernellab.errors import SpecError
from kernellab.kernel import kernels_folder
from kernellab.plan import bind
from kernellab.problem import ELEMENTS, Case, dtype_named
from kernellab.verify import compare, verify

F = np.float32
NAMES = ("matmul", "matmul_nt", "matmul_bias_gelu", "matmul_nt_bias_gelu")


@pytest.mark.parametrize("name", NAMES)
def test_references_by_hand(name):
    problem = products.problem(name)
    a, b = np.array([[1, 2, 3], [0, -1, 1]], F), np.array([[1, 0], [2, 1], [0, 5]], F)
    arrays = {"a": a, "b": np.ascontiguousarray(b.T) if "_nt" in name else b}
    expected = np.array([[5, 17], [-2, 4]])
    if name.endswith("gelu"):
        arrays["bias"], expected = (
            np.array([1, -17], F),
            gelus.gelu(np.array([[6.0, 0], [-1, -13]]), gelus.ERF),
        )
        assert np.array_equal(problem.reference(**arrays, form=gelus.ERF)["y"], expected)
    else:
        assert np.array_equal(problem.reference(**arrays)["y"], expected)
    cost = bind(catalog.ladder(name)[0], arrays).cost()
    is_activated = name.endswith("gelu")
    assert (cost.bytes_read, cost.bytes_written) == (4 * (12 + 2 * is_activated), 16)
    assert cost.flops == 2 * 2 * 2 * 3 + 11 * 4 * is_activated


def corrupted(element, break_it):
    """Compare a right answer of 16 Mi elements, of which one is broken."""
    problem, side = products.problem("matmul"), 4096
    arrays = problem.inputs(Case("large", {"m": side, "n": side, "k": 32}, element=element))
    expected = problem.reference(**arrays)["y"]
    y = expected.astype(dtype_named(element))
    y[1234, 4095] = break_it(arrays, y)
    return compare(
        y,
        expected,
        dtype=y.dtype,
        roundings=problem.roundings,
        magnitude=problem.magnitude(**arrays)["y"],
    )


def a_term_left_out(arrays, y):
    return y[1234, 4095] - y.dtype.type(arrays["a"][1234, 31]) * y.dtype.type(arrays["b"][31, 4095])


@pytest.mark.parametrize("element", ELEMENTS)
def test_one_wrong_element_in_16_million_is_caught(element):
    found = corrupted(element, a_term_left_out)
    assert (found.wrong, found.count) == (1, 2**24)
    assert "first at [1234, 4095]" in found.message


def test_a_right_element_in_16_million_is_not():
    assert corrupted("float32", lambda arrays, y: y[1234, 4095]).wrong == 0


def as_tensorfloat(x):
    """Round float32 to 10 bits of mantissa, to nearest."""
    return ((x.view(np.uint32) + 0x1000) & 0xFFFFE000).view(F)


def added_in(dtype, a, b):
    total = np.zeros((a.shape[0], b.shape[1]), dtype)
    for q in range(a.shape[1]):
        total += (a[:, q, None] * b[None, q]).astype(dtype)
    return total


def worst(product, a, b):
    """Return the largest error of a product, in proportion to the sum of absolute products."""
    wide, other = a.astype(np.float64), b.astype(np.float64)
    return float((np.abs(product - wide @ other) / (np.abs(wide) @ np.abs(other))).max())


@pytest.mark.parametrize("k", [16, 1024, 8192])
def test_tolerance_follows_element_accumulator_and_length(k):
    """Field report F11: a product in TF32, or added up in float16, is not judged as one in float32."""
    rng = np.random.default_rng(k)
    a, b = rng.uniform(0.5, 1, (32, k)).astype(F), rng.uniform(0.5, 1, (k, 32)).astype(F)
    bound = products.error_bound
    assert worst(added_in(F, a, b), a, b) <= bound("float32", k)
    in_tensorfloat = worst(as_tensorfloat(a).astype(np.float64) @ as_tensorfloat(b).astype(np.float64), a, b)
    assert in_tensorfloat <= bound("tensorfloat32", k)
    halves = a.astype(np.float16), (b / k).astype(np.float16)
    in_halves = worst(added_in(np.float16, *halves), *halves)
    assert bound("float16", k) < in_halves <= bound("float16", k, accumulator="float16")
    if k <= 1024:  # a longer sum's own drift hides what the roundings of its terms leave
        assert bound("float32", k) < in_tensorfloat


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_a_sum_that_is_rounded_to_16_bits_on_the_way_is_caught(dtype):
    problem = products.problem("matmul")
    case = Case("long", {"m": 32, "n": 32, "k": 4096}, element=np.dtype(dtype).name)
    arrays = problem.inputs(case)
    expected, size = problem.reference(**arrays)["y"], problem.magnitude(**arrays)["y"]
    right = added_in(F, arrays["a"].astype(F), arrays["b"].astype(F)).astype(dtype)
    wrong = added_in(dtype, arrays["a"], arrays["b"])
    judged = [
        compare(y, expected, dtype=dtype, roundings=problem.roundings, magnitude=size).wrong
        for y in (right, wrong)
    ]
    assert judged[0] == 0 < judged[1]


def main_loop(listing):
    """Return how many instructions of the longest loop multiply, and how many it has."""
    code, labels, loops = [], {}, [(0, 0)]
    for row in listing.splitlines():
        if label := re.match(r"(\.L_x_\d+):", row):
            labels[label[1]] = len(code)
        elif instruction := re.match(r"\s*/\*[0-9a-f]{4,}\*/\s+(?:@!?\w+ +)?([A-Z].*?);", row):
            code.append(instruction[1])
            back = re.match(r"BRA.*`\((\.L_x_\d+)\)", instruction[1])
            body = code[labels[back[1]] :] if back and back[1] in labels else []
            loops.append((len(body), sum(each.startswith("FFMA") for each in body)))
    length, multiplications = max(loops)
    return multiplications, length


@pytest.mark.parametrize("name", NAMES)
def test_the_share_of_multiplications_in_the_header_is_that_of_the_machine_code(name):
    rung = catalog.kernel(f"{name}/buffered")
    (stated,) = re.findall(r"(\d+) of (\d+) instructions", rung.header.sections["teaches"])
    binary = compile_cuda(rung.text(), path=rung.path, include_dirs=[str(kernels_folder() / "include")])
    assert main_loop(disassemble(binary.cubin)) == tuple(map(int, stated))
    assert int(stated[0]) > 0.85 * int(stated[1])


@pytest.mark.parametrize(
    ("sizes", "tile"),
    [((4096, 4096, 64), (128, 256)), ((2048, 1536, 64), (128, 128)), ((128, 128, 4096), (128, 64))],
)
def test_buffered_takes_the_largest_tile_that_keeps_every_multiprocessor_busy(sizes, tile):
    chosen = product_rungs.shape_for(
        {**dict(zip("mnk", sizes, strict=True)), "multiprocessors": 132}, "float32"
    )
    assert (chosen["ROWS"], chosen["COLUMNS"]) == tile


@pytest.mark.parametrize(
    ("constants", "words"),
    [
        ({"ROWS": 64}, "the tile is 64 x 128"),
        ({"ROWS": 256, "COLUMNS": 256}, "the tile is 256 x 256"),
        ({"STEP": 4}, "STEP is 4"),
        ({"ROWS": 256, "STEP": 32}, "STEP is 32"),
        ({"STAGES": 1}, "STAGES 1"),
        ({"STAGES": 64}, "shared memory"),
    ],
)
def test_buffered_refuses_tiles_that_it_cannot_cover(constants, words):
    rung = catalog.kernel("matmul/buffered").with_constants(**constants)
    arrays = rung.problem.inputs(rung.cases[0])
    with pytest.raises(SpecError, match=words):
        bind(rung, arrays, limits=HOPPER)


def test_blocks_take_every_tile_where_there_are_more_than_eight_rows_of_them(binary_of):
    for name in ("matmul/blocked", "matmul/buffered"):
        rung = catalog.kernel(name)
        plan = plan_of(rung, Case("tall", {"m": 1100, "n": 260, "k": 1}))
        outputs, _ = run(plan, binary_of(rung, "cuda-c"), "cuda-c", with_sass=False)
        assert verify(plan, outputs).is_right


@pytest.mark.parametrize("name", ["matmul/buffered", "matmul_nt/buffered"])
@pytest.mark.parametrize(
    "constants",
    [product_rungs.LARGE, product_rungs.SMALL, {"ROWS": 256, "STEP": 16, "STAGES": 2}],
    ids=lambda constants: " ".join(map(str, constants.values())),
)
def test_every_tile_is_right(name, constants):
    rung = catalog.kernel(name).with_constants(**constants)
    options = [f"-D{key}={value}" for key, value in rung.constants.items()]
    binary = compile_cuda(
        rung.text(), path=rung.path, options=options, include_dirs=[str(kernels_folder() / "include")]
    )
    for sizes in ((300, 300, 41), (256, 256, 16)):
        plan = plan_of(rung, Case("several tiles", dict(zip("mnk", sizes, strict=True))))
        outputs, traces = run(plan, binary, "cuda-c", sanitize=True)
        assert verify(plan, outputs).is_right
        assert all(trace.diagnostics == () for trace in traces)
