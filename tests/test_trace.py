"""`kernellab.trace`: sources of every kind, what a Trace holds, what bad input gets."""

from __future__ import annotations

import numpy as np
import pytest

import kernellab as kl
from kernellab.errors import ArgumentError, CompileError, ExecutionError, SpecError

SAXPY = """extern "C" __global__ void saxpy(const float* x, float* y, float a, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        y[i] = a * x[i] + y[i];
}
template <typename T> __global__ void fill(T* y, T value) { y[threadIdx.x] = value; }
__global__ void mangled(const int* x, int* y, int n) { if (threadIdx.x < n) y[threadIdx.x] = x[threadIdx.x]; }
"""


def saxpy_arguments(n=1000):
    return np.arange(n, dtype=np.float32), np.ones(n, np.float32), 2.0, n


def saxpy(x=None, **options):
    x = saxpy_arguments()[0] if x is None else x
    return kl.trace(SAXPY, "saxpy", 4, 256, (x, *saxpy_arguments()[1:]), **options)


def test_counts_by_name():
    x, y, a, n = saxpy_arguments()
    t = kl.trace(SAXPY, "saxpy", 4, 256, (x, y, a, n))
    np.testing.assert_array_equal(y, 2 * x + 1)
    totals = t.totals
    assert totals["global_load_requests"] == 2 * 32
    assert totals["global_load_sectors"] == 2 * 125
    assert totals["global_load_lines"] == 2 * 32
    assert totals["global_store_requests"] == 32
    assert totals["sectors_per_request_load"] == 250 / 64
    assert totals["thread_instructions"] == pytest.approx(
        totals["warp_instructions"] * 32 * totals["warp_efficiency"]
    )
    assert totals["branches"] == totals["divergent_branches"] == 0  # the compiler made the branch a predicate
    assert (t.source, t.mapped, t.grid, t.block, t.language) == (
        "SASS",
        1.0,
        (4, 1, 1),
        (256, 1, 1),
        "cuda-c",
    )


def test_every_name_of_the_totals():
    totals = kl.trace(SAXPY, "saxpy", 4, 256, saxpy_arguments()).totals
    expected = {
        "warp_instructions",
        "thread_instructions",
        "warp_efficiency",
        "branches",
        "divergent_branches",
    }
    expected |= {"sectors_per_request_load", "sectors_per_request_store"}
    for space, operations in (("global", "load store atomic"), ("local", "load store")):
        for operation in operations.split():
            expected |= {f"{space}_{operation}_{unit}" for unit in ("requests", "sectors", "lines")}
    for operation in ("load", "store", "atomic"):
        expected |= {f"shared_{operation}_{unit}" for unit in ("requests", "wavefronts", "bank_conflicts")}
    assert expected <= set(totals)


def test_lines_hold_the_text_and_the_counts():
    t = kl.trace(SAXPY, "saxpy", 4, 256, saxpy_arguments())
    line = t.line(4)
    assert line.text.strip() == "y[i] = a * x[i] + y[i];"
    assert (line.requests, line.sectors, line.ideal_sectors) == (96, 375, 375)
    assert line.warp_executions == 32
    assert line.mean_active_lanes == pytest.approx(1000 / 32)
    assert sum(each.requests for each in t.lines) == 96
    with pytest.raises(
        SpecError, match=r"saxpy: no instruction comes from line 99; lines with code: 1, 2, 3, 4"
    ):
        t.line(99)


def test_bank_conflicts_of_a_column():
    text = """extern "C" __global__ void column(float* y, int stride) {
        __shared__ float s[32 * 33];
        s[threadIdx.x * stride] = 1;
        __syncthreads();
        y[threadIdx.x] = s[threadIdx.x * stride];
    }"""
    y = np.zeros(32, np.float32)
    conflicts = [
        kl.trace(text, "column", 1, 32, (y, stride)).totals["shared_load_bank_conflicts"]
        for stride in (1, 2, 32, 33)
    ]
    assert conflicts == [0, 1, 31, 0]


def test_sources_of_every_kind(tmp_path):
    (tmp_path / "saxpy.cu").write_text(SAXPY)
    for source in (tmp_path / "saxpy.cu", str(tmp_path / "saxpy.cu"), SAXPY):
        x, y, a, n = saxpy_arguments()
        kl.trace(source, "saxpy", 4, 256, (x, y, a, n))
        np.testing.assert_array_equal(y, 2 * x + 1)
    y = np.zeros(32)
    kl.trace(SAXPY, "fill<double>", 1, 32, (y, 2.5))
    assert set(y) == {2.5}
    x, y = np.arange(32, dtype=np.int32), np.zeros(32, np.int32)
    kl.trace(SAXPY, "mangled", 1, 32, (x, y, 16))
    np.testing.assert_array_equal(y, np.where(x < 16, x, 0))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("-DX=1", r"^options: a sequence of strings is wanted, not '-DX=1'; write \('-DX=1',\)$"),
        (None, r"^options: a sequence of strings is wanted, not None; leave it out for none$"),
        (3, r"^options: a sequence of strings is wanted, not 3; leave it out for none$"),
    ],
)
def test_options_that_are_no_sequence(options, message):
    with pytest.raises(kl.SpecError, match=message):
        saxpy(options=options)


def test_options_and_includes_reach_the_compiler(tmp_path):
    (tmp_path / "size.cuh").write_text("constexpr int SIZE = 7;")
    (tmp_path / "k.cu").write_text(
        '#include "size.cuh"\nextern "C" __global__ void f(int* y) { y[0] = SIZE * BY; }'
    )
    y = np.zeros(1, np.int32)
    kl.trace(tmp_path / "k.cu", "f", 1, 1, (y,), options=("-DBY=6",))
    assert y[0] == 42


def test_fused_multiply_add_can_be_switched_off():
    text = 'extern "C" __global__ void f(float* y, float a, float c) { y[0] = a * a + c; }'
    a = np.float32(1 + 2**-12)
    found = []
    for options in ((), ("--fmad=false",)):
        y = np.zeros(1, np.float32)
        kl.trace(text, "f", 1, 1, (y, a, -(a * a)), options=options)
        found.append(float(y[0]))
    assert found == [2**-24, 0]


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: kl.trace(SAXPY, "nothing", 1, 32, ()), SpecError, "nothing: there is no such kernel.*saxpy"),
        (
            lambda: kl.trace(SAXPY, "saxpy", 1, 32),
            ArgumentError,
            r"trace takes entry, grid, block, args .*got 3",
        ),
        (
            lambda: kl.trace(SAXPY, "saxpy", 1, 32, np.zeros(4, np.float32)),
            ArgumentError,
            r"saxpy: args is a ndarray, it must be a tuple of arguments; write \(x,\) for one",
        ),
        (
            lambda: kl.trace("nowhere.cu", "f", 1, 1, ()),
            SpecError,
            r"nowhere\.cu cannot be read: No such file",
        ),
        (
            lambda: kl.trace("", "f", 1, 1, ()),
            SpecError,
            "trace: the source is empty; pass a .cu or .ptx file",
        ),
        (lambda: kl.trace(" \n", "f", 1, 1, ()), SpecError, "trace: the source is empty; pass"),
        (
            lambda: kl.trace(3, "f", 1, 1, ()),
            ArgumentError,
            "the source is a int, it must be a .cu or .ptx file",
        ),
        (
            lambda: kl.trace(SAXPY, "saxpy", 1, 32, saxpy_arguments(), errors="ignore"),
            SpecError,
            "'raise' or 'record'",
        ),
        (lambda: saxpy(shared_mem=-1), SpecError, "saxpy: shared_mem is -1, it must be at least 0; raise it"),
        (lambda: saxpy(shared_mem=1.5), ArgumentError, "saxpy: shared_mem is 1.5, it must be an integer"),
        (lambda: saxpy(budget=0), SpecError, "saxpy: budget is 0, it must be at least 1"),
        (lambda: saxpy(blocks=0), SpecError, "saxpy: blocks is 0, it must be at least 1"),
        (lambda: saxpy(seed="a"), ArgumentError, "saxpy: seed is 'a', it must be an integer"),
        (
            lambda: saxpy(x=np.ma.zeros(1000, np.float32)),
            ArgumentError,
            "argument 0 is a masked array, a kernel cannot see the mask; fill it",
        ),
        (
            lambda: kl.trace("__global__ void f() { int x = ; }", "f", 1, 1, ()),
            CompileError,
            r"source\.cu\(1\): error",
        ),
    ],
)
def test_bad_input_gets_one_sentence(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_an_error_holds_the_counts_so_far():
    x, y, a, _ = saxpy_arguments(900)
    with pytest.raises(ExecutionError, match="past the end of x") as caught:
        kl.trace(SAXPY, "saxpy", 4, 256, (x, y, a, 1000))
    t = caught.value.trace
    assert t.totals["global_load_requests"] == 64
    assert [d.kind for d in t.diagnostics] == ["out of bounds"] * len(t.diagnostics)
    np.testing.assert_array_equal(y, 2 * x + 1)  # the lanes inside went on


def test_a_numba_function_takes_no_entry():
    pytest.importorskip("numba.cuda")
    from numba import cuda

    def double(x):
        i = cuda.grid(1)
        if i < x.size:
            x[i] *= 2

    x = np.arange(100.0)
    t = kl.trace(double, 4, 32, (x,))
    np.testing.assert_array_equal(x, 2 * np.arange(100.0))
    assert (t.language, t.kernel, t.totals["global_load_requests"]) == ("numba", "double", 4)
    with pytest.raises(
        kl.SpecError, match=r"^double: options are for CUDA C, and this is Python; leave them out$"
    ):
        kl.trace(double, 4, 32, (x,), options=("-DX=1",))
    with pytest.raises(ArgumentError, match=r"double takes grid, block, args"):
        kl.trace(double, "double", 4, 32, (x,))


@pytest.mark.parametrize("threads", [32, 1024])
def test_results_do_not_depend_on_how_blocks_are_batched(threads):
    n = 5000
    x, y = np.arange(n, dtype=np.float32), np.ones(n, np.float32)
    t = kl.trace(SAXPY, "saxpy", -(-n // threads), threads, (x, y, 2.0, n))
    np.testing.assert_array_equal(y, 2 * x + 1)
    assert t.totals["global_load_sectors"] == 2 * n * 4 // 32


def test_parameters_that_point_to_arrays():
    text = """#define N 8
    __global__ void add(float A[N][N], const float B[][N], float (*C)[N]) {
        int i = threadIdx.y, j = threadIdx.x;
        C[i][j] = A[i][j] + B[i][j];
    }"""
    a, b, c = (
        np.arange(64, dtype=np.float32).reshape(8, 8),
        np.ones((8, 8), np.float32),
        np.zeros((8, 8), "f4"),
    )
    kl.trace(text, "add", 1, (8, 8), (a, b, c))
    np.testing.assert_array_equal(c, a + 1)
    with pytest.raises(ArgumentError, match=r"C is `float \(\*\)\[N\]` and takes an array of float32"):
        kl.trace(text, "add", 1, (8, 8), (a, b, c.astype("f8")))


def test_a_block_is_what_the_kernel_was_compiled_for():
    text = """extern "C" __global__ void __launch_bounds__(64) bound(int* y) { y[threadIdx.x] = 1; }
    extern "C" __global__ void __block_size__((8, 8, 1)) exact(int* y) { y[threadIdx.x] = 1; }"""
    y = np.zeros(128, np.int32)
    kl.trace(text, "bound", 1, (32, 2), (y,))
    with pytest.raises(
        SpecError, match=r"bound: block \(128, 1, 1\) has 128 threads, it was compiled for at "
    ):
        kl.trace(text, "bound", 1, 128, (y,))
    kl.trace(text, "exact", 1, (8, 8), (y,))
    with pytest.raises(SpecError, match=r"exact: block is \(64, 1, 1\), it was compiled for \(8, 8, 1\)"):
        kl.trace(text, "exact", 1, 64, (y,))


TEMPLATE = "template <class T> __global__ void k(T* y) { y[0] = 1; }"
OVERLOADS = "__global__ void k(float* y) { y[0] = 1; } __global__ void k(int* y) { y[0] = 1; }"
SCOPES = """namespace a { __global__ void k(float* y) { y[0] = 1; } }
namespace b { __global__ void k(float* y) { y[0] = 2; } }"""


@pytest.mark.parametrize(
    ("text", "name", "message"),
    [
        (TEMPLATE, "k", "k: it is a template; ask for an instance, such as 'k<float>'"),
        (
            TEMPLATE + "template __global__ void k(int*); template __global__ void k(float*);",
            "k",
            "k: it is a template; ask for an instance, such as 'k<int>'",
        ),
        (
            OVERLOADS,
            "k",
            "k: it is not one kernel but 2; write '_Z1kPf' for k(float *), '_Z1kPi' for k(int *)",
        ),
        (SCOPES, "k", "k: it is not one kernel but 2; write 'a::k', 'b::k'"),
        (SAXPY, "saxpi", "saxpi: there is no such kernel in the source; it has saxpy, mangled; did you mean"),
    ],
)
def test_a_name_that_is_not_one_kernel_says_what_to_write(text, name, message):
    with pytest.raises(SpecError) as caught:
        kl.trace(text, name, 1, 1, (np.zeros(1, np.float32),))
    assert str(caught.value).startswith(message)


def test_an_overload_is_asked_for_as_the_message_says():
    y = np.zeros(1, np.float32)
    kl.trace(OVERLOADS, "_Z1kPf", 1, 1, (y,))
    kl.trace(SCOPES, "b::k", 1, 1, (z := np.zeros(1, np.float32),))
    assert (y[0], z[0]) == (1, 2)


def test_a_source_in_another_encoding_is_read_and_a_binary_is_not(tmp_path):
    path = tmp_path / "latin.cu"
    path.write_bytes('extern "C" __global__ void f(int* y) { y[0] = 7; } // caf\xe9'.encode("latin-1"))
    y = np.zeros(1, np.int32)
    kl.trace(path, "f", 1, 1, (y,))
    assert y[0] == 7
    path.write_bytes(b"\x7fELF\x02\x01\x00\x00")
    with pytest.raises(SpecError, match=r"latin\.cu is not text; pass a \.cu or \.ptx file"):
        kl.trace(path, "f", 1, 1, (y,))


def test_a_trace_names_the_parameters():
    t = kl.trace(SAXPY, "saxpy", 4, 256, saxpy_arguments())
    assert t.parameters == ("x", "y", "a", "n")
    text = 'extern "C" __global__ void f(float4 v, const float w[4][4], float* y) { y[0] = v.x + w[0][1]; }'
    call = (np.ones(4, "f4"), np.ones((4, 4), "f4"), np.zeros(1, "f4"))
    assert kl.trace(text, "f", 1, 1, call).parameters == ("v", "w", "y")


def test_a_trace_of_numba_names_the_arguments():
    pytest.importorskip("numba.cuda")
    from numba import cuda

    def one(values, n):
        if cuda.grid(1) < n:
            values[0] = 1

    assert kl.trace(one, 1, 1, (np.zeros(4), 4)).parameters == ("values", "n")
