"""``wmma`` through mma.h: every shape, type, layout and space against NumPy; requests as the SASS has them."""

from __future__ import annotations

import itertools
import time

import ml_dtypes
import numpy as np
import pytest
from launching import Kernels

from kernellab.compile.sass import sass_of
from kernellab.emulator.attribution_sass import by_line
from kernellab.emulator.fragment_requests import fragment_access
from kernellab.emulator.ptx import parse
from kernellab.emulator.tensor_operations import product_shape
from kernellab.errors import ExecutionError

f16, f32, f64, i32 = np.float16, np.float32, np.float64, np.int32
BF16 = ml_dtypes.bfloat16
C_NAMES = {
    f16: "half", f32: "float", f64: "double", i32: "int", BF16: "__nv_bfloat16", np.int8: "signed char",
    np.uint8: "unsigned char", "tf32": "wmma::precision::tf32",
}  # fmt: skip
SQUARE, WIDE, TALL = (16, 16, 16), (8, 32, 16), (32, 8, 16)
KINDS = [
    *itertools.product([f16], [f32, f16], [SQUARE, WIDE, TALL]),
    *itertools.product([BF16], [f32], [SQUARE, WIDE, TALL]),
    *itertools.product([np.int8, np.uint8], [i32], [SQUARE, WIDE, TALL]),
    ("tf32", f32, (16, 16, 8)),
    (f64, f64, (8, 8, 4)),
]
MIXED = list(itertools.product((True, False), repeat=3))


def name_of(narrow, wide, shape, by_rows, shared):
    flags = ",".join(str(int(flag)) for flag in (*by_rows, shared))
    return f"product<{C_NAMES[narrow]},{C_NAMES[wide]},{','.join(map(str, shape))},{flags}>"


CASES = [
    (*kind, layouts, shared)
    for kind in KINDS
    for layouts in (MIXED if kind == (f16, f32, SQUARE) else [(True,) * 3, (False,) * 3])
    for shared in (False, True)
]
WMMA = Kernels.of("wmma.cu", names=tuple(name_of(*case) for case in CASES))


def stored(matrix, is_by_rows, padding):
    """Lay a matrix out by rows or columns, `padding` elements behind each; return it and its stride."""
    lines = matrix if is_by_rows else matrix.T
    memory = np.full((lines.shape[0], lines.shape[1] + padding), 77).astype(matrix.dtype)
    memory[:, : lines.shape[1]] = lines
    return memory, memory.shape[1]


def asymmetric(m, n, dtype):
    i, j = np.arange(m)[:, None], np.arange(n)[None, :]
    if dtype in (f16, f32, f64):
        return (100 * i + j).astype(f32).clip(0, 2000).astype(dtype)
    return ((7 * i + 3 * j + i * j) % 13 - (0 if dtype == np.uint8 else 6)).astype(dtype)


def multiply(narrow, wide, shape, layouts, shared, wrong=None, **settings):
    """Run one case; `wrong` may change what the kernel is told: {"lda": 24} or the layouts of another kernel."""
    m, n, k = shape
    element = f32 if narrow == "tf32" else narrow
    a, b = asymmetric(m, k, element), asymmetric(n, k, np.int8).T.astype(element)
    c = asymmetric(m, n, np.int8).astype(wide)
    padding = 16 // np.dtype(element).itemsize
    (am, lda), (bm, ldb) = stored(a, layouts[0], padding), stored(b, layouts[1], padding)
    cm, ldc = stored(c, layouts[2], 16 // np.dtype(wide).itemsize)
    d = cm.copy()
    wrong = dict(wrong or {})
    name = name_of(narrow, wide, shape, wrong.pop("layouts", layouts), shared)
    strides = {"lda": lda, "ldb": ldb, "ldc": ldc} | wrong
    trace = WMMA(name, 1, 32, am, bm, cm, d, *strides.values(), **settings)
    length = n if layouts[2] else m
    found = d[:, :length] if layouts[2] else d[:, :length].T
    return found, (a.astype(f64) @ b.astype(f64) + c.astype(f64)).astype(wide), trace, d[:, length:]


@pytest.mark.parametrize(("narrow", "wide", "shape", "layouts", "shared"), CASES)
def test_a_product_is_that_of_numpy(narrow, wide, shape, layouts, shared):
    found, expected, trace, behind = multiply(narrow, wide, shape, layouts, shared, sanitize=shared)
    np.testing.assert_array_equal(found, expected)
    assert (behind == np.array(77).astype(wide)).all()
    assert trace.diagnostics == ()
    m, n, k = shape
    assert trace.totals["tensor_flops"] == 2 * m * n * k
    assert trace.totals["tensor_instructions"] == max(m * n // 128, 1) * (2 if narrow == "tf32" else 1)
    assert trace.source == "SASS"


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize(
    "wrong", [{"lda": 16}, {"ldb": 16}, {"layouts": (False, True, True)}, {"layouts": (True, False, True)},
              {"layouts": (True, True, False)}],
)  # fmt: skip
def test_a_wrong_stride_or_layout_gives_another_product(wrong, shared):
    found, expected, _, _ = multiply(f16, f32, SQUARE, (True,) * 3, shared, wrong)
    assert (found != expected).any()


def test_what_is_issued_is_what_sass_has():
    binary, checked = WMMA.binary, 0
    sass = sass_of(binary).functions
    for name, function in parse(binary.ptx).functions.items():
        lines = by_line(sass[name], function.line, function.body[-1].line)
        for instruction in function.body:
            if product := product_shape(instruction.opcode):
                opcodes = lines[instruction.line].opcodes
                found = sum(n for opcode, n in opcodes.items() if opcode.startswith(("HMMA", "IMMA", "DMMA")))
                assert found == product.instructions, instruction
            access = fragment_access(instruction.opcode)
            if access is None:
                continue
            copies = lines[instruction.line].memory
            kind = ("store" if access.is_store else "load") + " matrix" * bool(access.matrices)
            width = 4 if access.matrices else access.width
            assert [(copy.kind, copy.width) for copy in copies] == [(kind, width)] * access.issued, (
                instruction
            )
            checked += 1
    assert checked >= 4 * len(CASES)


@pytest.mark.parametrize(("narrow", "wide", "shape"), KINDS)
def test_instructions_are_those_of_the_machine_code(narrow, wide, shape):
    """Without loops every SASS instruction runs once, also where one of PTX became several equal ones."""
    case = narrow, wide, shape, (True,) * 3, False
    code = sass_of(WMMA.binary).functions[WMMA.binary.names[name_of(*case)]]
    _, _, trace, _ = multiply(*case)
    assert trace.totals["warp_instructions"] == sum(each.predicate != "!PT" for each in code)


@pytest.mark.parametrize(
    ("lda", "wavefronts"),
    [(16, 8), (24, 4), (32, 16), (40, 4), (64, 32)],
)
def test_bank_conflicts_of_a_tile_depend_on_its_stride(lda, wavefronts):
    a, other = np.zeros((16, lda), f16), np.zeros((16, 24), f16)
    c = np.zeros((16, 20), f32)
    name = name_of(f16, f32, SQUARE, (True, True, True), True)
    trace = WMMA(name, 1, 32, a, other, c, c.copy(), lda, 24, 20)
    (line,) = (line for line in trace.lines if "load_matrix_sync(fa, sa" in line.text)
    assert (line.shared_requests, line.shared_wavefronts, line.bank_conflicts) == (
        1,
        wavefronts,
        wavefronts - 4,
    )


def test_sectors_of_a_tile_in_global_memory():
    """Of 64 elements a row, 16 x 16 is a sector a row: each of four requests touches 8 rows, half a sector."""
    a, c = np.zeros((16, 64), f16), np.zeros((16, 64), f32)
    trace = WMMA(name_of(f16, f32, SQUARE, (True,) * 3, False), 1, 32, a, a, c, c.copy(), 64, 64, 64)
    by_text = {line.text.strip().split(";")[0]: line for line in trace.lines}
    load, store = (
        by_text["wmma::load_matrix_sync(fa, a, lda)"],
        by_text["wmma::store_matrix_sync(d, fc, ldc, layout)"],
    )
    assert (load.requests, load.sectors, load.ideal_sectors) == (4, 32, 16)
    assert (store.requests, store.sectors, store.ideal_sectors) == (4, 32, 32)


TILES = Kernels.of("wmma_tiles.cu")


@pytest.mark.parametrize("from_shared", [0, 1])
def test_an_address_that_may_be_anywhere(rng, from_shared):
    a, b, d = (
        rng.integers(-9, 9, (16, 16)).astype(f16),
        rng.integers(-9, 9, (16, 16)).astype(f16),
        np.zeros((16, 16), f32),
    )
    trace = TILES("generic", 1, 32, a, b, d, from_shared)
    np.testing.assert_array_equal(d, a.astype(f32) @ b.astype(f32))
    assert trace.totals["shared_load_requests"] == 4 * from_shared


def test_every_element_of_a_fragment_can_be_changed(rng):
    a, b, d = (
        rng.integers(-9, 9, (16, 16)).astype(f16),
        rng.integers(-9, 9, (16, 16)).astype(f16),
        np.zeros((16, 16), f32),
    )
    TILES("scaled", 1, 32, a, b, d, 0.5)
    np.testing.assert_array_equal(d, a.astype(f32) @ b.astype(f32))


def test_part_of_a_warp_is_an_error():
    with pytest.raises(ExecutionError, match=r"wmma\.load\.a\.sync is executed without the lanes 0xfff00000"):
        TILES("diverged", 1, 32, np.zeros(256, f16), np.zeros(32, f32))
    with pytest.raises(ExecutionError, match="needs all 32 of a warp"):
        TILES("scaled", 1, 24, np.zeros(256, f16), np.zeros(256, f16), np.zeros(256, f32), 1.0)


def test_lanes_that_name_different_tiles_are_an_error():
    with pytest.raises(ExecutionError, match="lane 8 gives another address than the lanes before it"):
        TILES("each_its_own", 1, 32, np.zeros(512, f16), np.zeros(32, f32))


def test_rows_that_overlap_are_a_race():
    trace = TILES("overlapping", 1, 32, np.zeros(32, f32), sanitize=True)
    assert [found.kind for found in trace.diagnostics] == ["race"]


@pytest.mark.parametrize(
    ("lda", "message"),
    [
        (
            17,
            r"misaligned global load by wmma\.load\.a\.sync: the leading dimension is 17 elements of 2 bytes",
        ),
        (4096, r"out of bounds global load: \d+ bytes past the end of a"),
    ],
)
def test_a_bad_stride_is_an_error(lda, message):
    a, c = np.zeros((16, 24), f16), np.zeros((16, 20), f32)
    with pytest.raises(ExecutionError, match=message):
        WMMA(name_of(f16, f32, SQUARE, (True,) * 3, False), 1, 32, a, a, c, c.copy(), lda, 24, 20)


def test_a_misaligned_tile_is_an_error():
    a, c = np.zeros(16 * 24 + 4, f16), np.zeros((16, 20), f32)
    with pytest.raises(ExecutionError, match=r"misaligned global load by wmma.*is no multiple of 16"):
        WMMA(name_of(f16, f32, SQUARE, (True,) * 3, False), 1, 32, a[4:], a[:-4], c, c.copy(), 24, 24, 20)


def test_a_tile_that_is_not_whole_is_reported():
    trace = TILES("unfinished", 1, 32, np.zeros(32, f32))
    (found,) = trace.diagnostics
    assert (found.kind, found.thread, found.count) == ("unwritten shared memory", (31, 0, 0), 1)


@pytest.mark.parametrize(
    ("name", "lda", "ldb", "is_c_by_rows"),
    [
        ("strip", 48, 32, 1),
        ("strip_of_columns", 48, 32, 1),
        ("strip", 16, 32, 1),
        ("strip", 48, 48, 1),
        ("strip", 48, 32, 0),
    ],
)
def test_only_the_right_strides_and_layouts_multiply_16_x_48_by_48_x_32(name, lda, ldb, is_c_by_rows):
    """Square or symmetric matrices hide that a layout or a leading dimension is mixed up."""
    # field problem F12
    a = (100 * np.arange(16)[:, None] + np.arange(48)[None, :]).astype(f16)
    b, c = (
        np.zeros((128, 32), f16),
        np.zeros((32, 32), f32),
    )  # more rows, so that what is wrong stays in bounds
    b[:48] = np.arange(48)[:, None] - 2 * np.arange(32)[None, :]
    TILES(name, 1, 32, a, b, c, 32, 48, lda, ldb, is_c_by_rows)
    is_right = (c[:16] == a.astype(f64) @ b[:48].astype(f64)).all()
    assert is_right == ((name, lda, ldb, is_c_by_rows) == ("strip", 48, 32, 1))


def test_a_tiled_product_is_right_and_quick(rng):
    m, n, k = 128, 192, 96
    a, b, c = (
        rng.standard_normal((m, k)).astype(f16),
        rng.standard_normal((k, n)).astype(f16),
        np.zeros((m, n), f32),
    )
    TILES.binary  # noqa: B018  (compiled before the clock starts)
    TILES("matmul", (3, 2), 512, a, b, c, n, k, 1)
    np.testing.assert_allclose(c, a.astype(f64) @ b.astype(f64), atol=1e-4)
    start = time.process_time()
    trace = TILES("matmul", (1, 1), 512, a, b, c, n, 64, 1)
    assert time.process_time() - start < 1
    assert trace.totals["tensor_flops"] == 2 * 64**3
    assert trace.totals["shared_load_bank_conflicts"] == 0


def test_a_missing_barrier_is_a_race():
    a, b, c = np.ones((64, 32), f16), np.ones((32, 64), f16), np.zeros((64, 64), f32)
    assert TILES("matmul", 1, 512, a, b, c, 64, 32, 1, sanitize=True).diagnostics == ()
    trace = TILES("matmul", 1, 512, a, b, c, 64, 32, 0, sanitize=True)
    assert {found.kind for found in trace.diagnostics} == {"race"}
