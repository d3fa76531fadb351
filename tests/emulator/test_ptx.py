"""The PTX parser: dialects, scopes, literals; what it refuses names the line."""

from __future__ import annotations

import numpy as np
import pytest
from launching import KERNELS, Kernels

import kernellab as kl
from kernellab.emulator.attribution_ptx import sources
from kernellab.emulator.ptx import Immediate, Pair, Register, Symbol, Vector, parse
from kernellab.errors import UnsupportedPTXError

HEAD = ".version 8.0\n.target sm_80\n.address_size 64\n"


def body_of(text):
    return parse(f"{HEAD}.entry f() {{ {text} }}").functions["f"]


def test_a_file_in_odd_style_runs():
    x = np.zeros(32, np.uint32)
    box = np.array((1, 2, 3.7), [("a", "i4"), ("b", "i4"), ("c", "f8")])[()]
    kl.trace(KERNELS / "odd.ptx", "odd", 1, 32, (x, box, 2.0), shared_mem=16)
    low = np.arange(32) < 16
    inner = 4 + 5 + np.where(low, 100, -1 + 1000) + 1 + 2 + 3 + round((2.0 + 4.0 + 1.25) * 2 + 0.5)
    np.testing.assert_array_equal(x, 2 * inner + 10 + 0o77 + ord("o") + 16)


def test_a_file_in_the_style_of_triton_runs():
    x, y, z = np.arange(1000, dtype=np.float32), np.ones(1000, np.float32), np.zeros(1000, np.float32)
    trace = kl.trace(
        KERNELS / "block_of_512.ptx", "sum_of_two", 2, 128, (x, y, z, 1000, None), shared_mem=2048
    )
    np.testing.assert_array_equal(z, x + y)
    assert trace.totals["global_load_requests"] == 16  # 2 arrays, 8 warps, all of them with lanes on
    assert trace.line(23).requests == 16


@pytest.mark.parametrize("arch", ["sm_75", "sm_80", "sm_90", "sm_100", "sm_120"])
def test_every_dialect_of_the_compiler(arch):
    text = """extern "C" __global__ void f(const float4* x, float* y, int n) {
        __shared__ float s[128];
        int i = threadIdx.x;
        if (i < n) { float4 v = x[i]; s[i] = v.x + v.y * v.z - v.w; }
        __syncthreads();
        if (i < n) atomicAdd(y, __shfl_xor_sync(__activemask(), s[i], 1));
    }"""
    x, y = np.arange(4 * 64, dtype=np.float32), np.zeros(1, np.float32)
    Kernels(text, arch=arch)("f", 1, 64, x, y, 64)
    v = x.reshape(-1, 4)
    assert y[0] == (v[:, 0] + v[:, 1] * v[:, 2] - v[:, 3]).sum()


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("12", Immediate(12)), ("-3", Immediate(-3)), ("0x1FU", Immediate(31)), ("017", Immediate(15)),
        ("0b110", Immediate(6)), ("~1", Immediate(-2)), ("0f3F800000", Immediate(0x3F800000, "f32")),
        ("-0f3F800000", Immediate(0xBF800000, "f32")), ("0d3FF0000000000000", Immediate(0x3FF0 << 48, "f64")),
        ("1.5", Immediate(0x3FF8 << 48, "f64")), ("1e1", Immediate(0x4024 << 48, "f64")),
    ],
)  # fmt: skip
def test_literals(text, value):
    (move, _) = body_of(f".reg .b64 %rd; mov.b64 %rd, {text}; ret;").body
    assert move.operands[1] == value


def test_operands_guards_and_lines():
    function = body_of(
        ".reg .b32 %r<4>; .reg .pred %p, %q; .reg .b64 %rd;\n"
        "@!%p ld.global.v2.u32 {%r0, _}, [%rd + -8];\n setp.lt.u32 %p|%q, %r1, %r2; ret;"
    )
    load, compare, _ = function.body
    assert str(load) == "@!%p ld.global.v2.u32 {%r0, _}, [%rd+-8]"
    assert isinstance(load.operands[0], Vector)
    assert compare.operands[0] == Pair(Register("%p"), Register("%q"))
    assert (load.line, compare.line) == (5, 6)


def test_names_of_inner_scopes_hide_outer_ones():
    function = body_of(".reg .b32 %r; { .reg .b32 %r; mov.b32 %r, 1; } mov.b32 %r, 2; ret;")
    inner, outer, _ = function.body
    assert inner.operands[0] != outer.operands[0]
    assert len(function.registers) == 2


def test_variables_parameters_and_directives():
    module = parse(
        HEAD + ".extern .shared .align 16 .b8 dyn[];\n.global .align 4 .u32 a[2][3], b = 5;\n"
        ".const .b64 p = a+4;\n.entry f(.param .align 8 .b8 s[24], .param .u64 .ptr .global .align 16 q)\n"
        ".maxntid 128, 1, 1\n.minnctapersm 2\n{ ret; }"
    )
    assert module.variables["dyn"].count == 0
    assert (module.variables["a"].count, module.variables["a"].nbytes) == (6, 24)
    assert module.variables["b"].initial == (Immediate(5),)
    assert module.variables["p"].initial == (Symbol("a", 4),)
    first, second = module.functions["f"].parameters
    assert (first.nbytes, first.align, first.is_scalar, second.nbytes, second.is_scalar) == (
        24,
        8,
        False,
        8,
        True,
    )
    assert module.functions["f"].performance["maxntid"] == (128, 1, 1)


def test_locations_of_inlined_code():
    function = body_of(".loc 2 7 3, function_name info+4, inlined_at 1 9 2\n ret;")
    assert (function.body[0].file, function.body[0].source_line) == (2, 7)


@pytest.mark.parametrize(
    ("path", "place"),
    [
        ("/x/site-packages/nvidia/cu13/include/crt/mma.hpp", (1, 9)),
        ("/usr/local/cuda-13.0/targets/x86_64-linux/include/crt/mma.hpp", (1, 9)),
        (r"C:\cuda\include\cuda_fp16.hpp", (1, 9)),
        ("/home/me/cuda/project/include/mine.cuh", (3, 5)),
    ],
)
def test_code_inlined_from_a_header_of_the_toolkit_counts_where_it_is_called(path, place):
    inner = (
        ".loc 2 7 3, function_name a, inlined_at 1 9 2\n.loc 3 5 1, function_name b, inlined_at 2 7 3\n ret;"
    )
    files = f'.file 1 "source.cu"\n.file 2 "{path}"\n.file 3 "{path}"\n'
    body = parse(HEAD + f".entry f() {{ {inner} }}\n{files}").functions["f"].body
    assert (body[0].file, body[0].source_line) == place


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (HEAD + ".entry f() { mov.b32 %r1, 2; ret; }", r"PTX line 4: the register '%r1' is not declared"),
        (HEAD + ".entry f() { ret;", r"PTX line 4: found the end of the text where more was expected"),
        (HEAD + ".nonsense x;", r"PTX line 4: the directive '\.nonsense' is not known"),
        (HEAD + ".global .f99 x;", r"PTX line 4: the type 'f99' is not known"),
    ],
)
def test_what_is_not_ptx_is_refused_with_its_line(text, message):
    with pytest.raises(UnsupportedPTXError, match=message):
        parse(text)


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("brx.idx %r1, table;", {"%r1"}),
        ("nanosleep.u32 %r1;", {"%r1"}),
        ("bar.sync %r1, %r2;", {"%r1", "%r2"}),
        ("barrier.cta.red.popc.aligned.u32 %r1, %r2, %p1;", {"%r2", "%p1"}),
        ("redux.sync.add.s32 %r1, %r2, %r3;", {"%r2", "%r3"}),
        ("@%p1 st.global.u32 [%rd1], %r1;", {"%rd1", "%r1", "%p1"}),
    ],
)
def test_what_an_instruction_reads(text, read):
    head = ".reg .b32 %r<4>; .reg .b64 %rd<2>; .reg .pred %p<2>; L: table: .branchtargets L; "
    (instruction,) = body_of(head + text).body
    assert sources(instruction) == read
