from __future__ import annotations

from collections import Counter
from typing import NamedTuple

import pytest

from kernellab.emulator import ptx
from kernellab.emulator.attribution import Access, Spill, attribute
from kernellab.emulator.attribution_address import Addresses
from kernellab.emulator.attribution_ptx import Blocks, branch_targets, shape


class Code(NamedTuple):
    address: int
    predicate: str | None
    opcode: str
    operands: str
    ptx_line: int | None


def _function(body):
    """Wrap instructions, one a line from line 2 on."""
    registers = (
        ".reg .pred %p<9>; .reg .b32 %r<99>; .reg .f32 %f<99>; .reg .b64 %rd<99>; .shared .b8 s[4096];"
    )
    text = f".version 9.0 .target sm_90 .address_size 64 .visible .entry k() {{ {registers}\n{body}\nret; }}"
    return ptx.parse(text).functions["k"]


def _sass(*rows):
    """Read rows such as ``3 @!P0 LDG.E R2, [R4.64]``: the PTX line, then the instruction."""
    code = []
    for place, row in enumerate(rows):
        line, *words = row.split()
        predicate = words.pop(0)[1:] if words[0].startswith("@") else None
        code.append(Code(16 * place, predicate, words[0], " ".join(words[1:]), int(line)))
    return code


def _by_line(function, attribution):
    return {function.body[index].line: access for index, access in attribution.accesses.items()}


def _kept_lines(function, attribution):
    return {function.body[index].line for index in attribution.branches}


def test_without_sass_everything_is_counted_from_ptx_and_says_so():
    function = _function("ld.global.v4.f32 {%f1,%f2,%f3,%f4}, [%rd1];\n@%p1 bra L;\nL:")
    found = attribute(function, None)
    assert _by_line(function, found) == {2: Access(16, is_approximate=True)}
    assert _kept_lines(function, found) == {3}
    assert (found.mapped, found.is_exact) == (0.0, False)
    assert "no SASS" in found.notes[0]


def test_sass_of_another_function_decides_nothing():
    function = _function("ld.global.f32 %f1, [%rd1];")
    found = attribute(function, _sass("900 LDG.E R2, [R4.64]"))
    assert found.mapped == 0.0
    assert not found.is_exact


def test_a_removed_access_counts_nothing_and_an_unrolled_one_once():
    function = _function("ld.global.f32 %f1, [%rd1];\nld.global.f32 %f2, [%rd2];\nst.global.f32 [%rd3], %f2;")
    found = attribute(
        function,
        _sass("3 LDG.E R2, [R4.64]", "3 LDG.E R3, [R4.64+0x4]", "4 STG.E [R6.64], R2", "5 EXIT"),
    )
    assert _by_line(function, found) == {3: Access(4), 4: Access(4)}
    assert found.mapped == 1.0
    assert found.is_exact


def test_a_load_without_copy_whose_value_is_used_is_doubted():
    function = _function("ld.global.f32 %f1, [%rd1];\nadd.f32 %f2, %f1, %f1;\nst.global.f32 [%rd2], %f2;")
    found = attribute(function, _sass("3 FADD R1, R2, R2", "4 STG.E [R4.64], R1"))
    assert _by_line(function, found) == {2: Access(4, is_approximate=True), 4: Access(4)}
    assert found.mapped == 0.5
    assert "PTX lines 2 " in found.notes[0]


LOADS = """ld.shared.f32 %f1, [%r1+12];
ld.shared.f32 %f2, [%r1+4];
ld.shared.f32 %f3, [%r1];
ld.shared.f32 %f4, [%r1+8];"""


@pytest.mark.parametrize("tagged", [2, 3, 4, 5])
def test_merged_loads_count_once_at_the_lowest_address(tagged):
    function = _function(LOADS)
    found = attribute(function, _sass(f"{tagged} LDS.128 R12, [R6]"))
    assert _by_line(function, found) == {4: Access(16)}
    assert found.mapped == 1.0


def test_a_window_may_start_below_its_lowest_access():
    function = _function(
        "ld.shared.f32 %f1, [%r1+8];\nld.shared.f32 %f2, [%r1+4];\nld.shared.f32 %f3, [%r1+12];"
    )
    found = attribute(function, _sass("2 LDS.128 R12, [R6]"))
    assert _by_line(function, found) == {3: Access(16, offset=-4)}


def test_windows_follow_the_alignment_that_serves_all_loads():
    loads = "\n".join(f"ld.shared.f32 %f{k}, [%r1+{4 * k - 8}];" for k in range(4))
    function = _function(loads)
    found = attribute(function, _sass("2 LDS.64 R12, [R6+-0x8]", "4 LDS.64 R14, [R6]"))
    assert _by_line(function, found) == {2: Access(8), 4: Access(8)}
    shifted = _function(loads.replace("%r1+", "%r1+4+"))
    found = attribute(shifted, _sass("2 LDS.64 R12, [R6+-0x4]", "4 LDS.64 R14, [R6+0x4]"))
    assert _by_line(shifted, found) == {2: Access(8), 4: Access(8)}


def test_narrow_neighbours_may_lie_anywhere_in_the_wide_word():
    offsets = [36, 32, 38, 34, 44, 42, 40, 46]
    function = _function("\n".join(f"ld.shared.u16 %r{k + 2}, [%r1+{at}];" for k, at in enumerate(offsets)))
    found = attribute(function, _sass("2 LDS.64 R8, [R13+0x20]", "6 LDS.64 R10, [R13+0x28]"))
    assert _by_line(function, found) == {3: Access(8), 8: Access(8)}


def test_neighbours_in_another_block_are_no_partners():
    function = _function("ld.shared.f32 %f1, [%r1];\n@%p1 bra L;\nld.shared.f32 %f2, [%r1+4];\nL:")
    found = attribute(function, _sass("2 LDS.64 R2, [R6]", "3 @P0 BRA `(.L_x_1)", "4 FADD R2, R2, R3"))
    assert _by_line(function, found)[2] == Access(4, is_approximate=True)
    assert found.mapped < 1.0


def test_neighbours_are_found_through_arithmetic():
    function = _function(
        "shl.b32 %r2, %r1, 2;\nmov.u32 %r3, s;\nadd.s32 %r4, %r3, %r2;\nadd.s32 %r5, %r1, 1;\n"
        "shl.b32 %r6, %r5, 2;\nadd.s32 %r7, %r6, %r3;\nst.shared.f32 [%r4], %f1;\nst.shared.f32 [%r7], %f2;"
    )
    found = attribute(function, _sass("9 STS.64 [R6], R2"))
    assert _by_line(function, found) == {8: Access(8)}
    addresses = Addresses(function)
    first, second = (addresses.of(function.body[i].operands[0], i) for i in (6, 7))
    assert first[0] == second[0]
    assert second[1] - first[1] == 4


def test_a_register_that_changes_is_another_address():
    function = _function(
        "mov.u32 %r1, s;\nL:\nld.shared.f32 %f1, [%r1];\nadd.s32 %r1, %r1, 4;\n"
        "ld.shared.f32 %f2, [%r1];\n@%p1 bra L;"
    )
    addresses = Addresses(function)
    loads = [i for i in function.body if i.opcode.startswith("ld")]
    forms = [addresses.of(load.operands[1], load.index) for load in loads]
    assert forms[0] != forms[1]


def test_a_vector_of_which_two_inner_elements_are_used_is_two_requests():
    function = _function("ld.global.v4.f32 {%f1,%f2,%f3,%f4}, [%rd1];\nst.global.v2.f32 [%rd2], {%f2,%f3};")
    found = attribute(
        function,
        _sass(
            "2 LDG.E R8, desc[UR4][R2.64+0x4]", "2 LDG.E R9, desc[UR4][R2.64+0x8]", "3 STG.E.64 [R4.64], R8"
        ),
    )
    assert _by_line(function, found) == {2: Access(4, offset=4, more=((8, 4),)), 3: Access(8)}


def test_a_vector_of_which_one_half_is_used_is_narrower():
    function = _function("ld.global.v2.b64 {%rd3,%rd4}, [%rd1];\nst.global.b64 [%rd2], %rd4;")
    found = attribute(function, _sass("2 LDG.E.64 R8, [R2.64+0x8]", "3 STG.E.64 [R4.64], R8"))
    assert _by_line(function, found)[2] == Access(8, offset=8)


@pytest.mark.parametrize(("copies", "is_approximate"), [(1, True), (2, False), (3, True)])
def test_two_accesses_on_one_line_are_decided_if_their_copies_divide(copies, is_approximate):
    function = _function("ld.global.f32 %f1, [%rd1]; ld.global.f32 %f2, [%rd2];")
    found = attribute(function, _sass(*["2 LDG.E R8, [R2.64]"] * copies))
    assert list(found.accesses.values()) == [Access(4, is_approximate=is_approximate)] * 2


def test_an_instruction_that_never_runs_is_no_copy():
    function = _function("cp.async.cg.shared.global [%r1], [%rd1], 16;\nld.shared.f32 %f1, [%r2];")
    rows = ["2 @!PT LDS RZ, [RZ]", "2 LDGSTS.E.BYPASS.128 [R7], desc[UR6][R2.64]", "3 @!PT LDS RZ, [RZ]"]
    found = attribute(function, _sass(*rows))
    assert _by_line(function, found) == {2: Access(16)}


def test_a_store_without_copy_is_doubted_unless_another_overwrites_it():
    once = _function("st.global.f32 [%rd1], %f1;\nadd.f32 %f2, %f1, %f1;")
    found = attribute(once, _sass("3 FADD R1, R2, R2"))
    assert _by_line(once, found) == {2: Access(4, is_approximate=True)}
    twice = _function("st.global.f32 [%rd1], %f1;\nst.global.f32 [%rd1], %f2;")
    found = attribute(twice, _sass("3 STG.E [R4.64], R2"))
    assert _by_line(twice, found) == {3: Access(4)}
    assert found.is_exact


HALVES = """ld.shared.v4.f32 {{%f1,%f2,%f3,%f4}}, [%r1+528];
ld.shared.v2.f32 {{%f5,%f6}}, [%r1+{at}];
fma.rn.f32 %f7, %f1, %f2, %f3;
fma.rn.f32 %f8, %f4, %f5, %f6;"""


@pytest.mark.parametrize(
    ("at", "is_decided"), [(536, True), (528, True), (532, True), (540, False), (524, False), (544, False)]
)
def test_a_load_of_what_a_wider_one_loads_is_removed(at, is_decided):
    """One PTX of matmul/buffered in ten has it: NVVM loads half of a vector a second time, ptxas does not."""
    function = _function(HALVES.format(at=at))
    found = attribute(
        function, _sass("2 LDS.128 R48, [R88+0x210]", "4 FFMA R7, R48, R49, R50", "5 FFMA R8, R51, R50, R51")
    )
    again = {} if is_decided else {3: Access(8, is_approximate=True)}
    assert _by_line(function, found) == {2: Access(16)} | again
    assert found.is_exact is is_decided


def test_a_load_of_more_than_its_neighbour_loads_is_doubted():
    function = _function(HALVES.format(at=536).replace("%f3;", "%f1;").replace("%f4,", "%f2,"))
    rows = ["2 LDS.64 R48, [R88+0x210]", "4 FFMA R7, R48, R49, R48", "5 FFMA R8, R49, R50, R51"]
    found = attribute(function, _sass(*rows))
    assert _by_line(function, found) == {2: Access(8), 3: Access(8, is_approximate=True)}
    function = _function(
        "ld.shared.f32 %f1, [%r1];\nld.shared.v2.f32 {%f2,%f3}, [%r1];\nadd.f32 %f4, %f2, %f3;"
    )
    found = attribute(function, _sass("2 LDS R2, [R6]", "4 FADD R4, R2, R3"))
    assert _by_line(function, found) == {2: Access(4), 3: Access(8, is_approximate=True)}


def test_a_load_shared_by_both_sides_of_a_branch_is_doubted():
    function = _function(
        "@%p1 bra E;\nld.global.f32 %f1, [%rd1];\nadd.f32 %f3, %f1, %f1;\nbra D;\nE:\n"
        "ld.global.f32 %f1, [%rd1];\nmul.f32 %f3, %f1, %f1;\nD:"
    )
    found = attribute(function, _sass("3 LDG.E R2, [R4.64]", "4 FADD R3, R2, R2", "8 @P0 FMUL R3, R2, R2"))
    assert _by_line(function, found) == {3: Access(4), 7: Access(4, is_approximate=True)}


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        (["2 RED.E.ADD.STRONG.GPU [R2.64], R5"], Access(4, is_reduction=True)),
        (["2 ATOMG.E.ADD.STRONG.GPU PT, R3, [R2.64], R5"], Access(4)),
        (
            ["2 VOTEU.ANY UR4, UPT, PT", "2 REDUX.SUM UR5, R2", "2 @P0 REDG.E.ADD.STRONG.GPU [R4.64], R7"],
            Access(4, is_aggregated=True, is_reduction=True),
        ),
        (
            [
                "2 VOTE.ANY R0, PT, PT",
                "2 @!P0 RED.E.ADD.STRONG.GPU [UR4], R2",
                "2 SHFL.BFLY PT, R3, R2, 0x1, 0x1f",
                "2 @P0 RED.E.ADD.STRONG.GPU [UR4], R7",
            ],
            Access(4, is_aggregated=True, is_full_warp_only=True, is_reduction=True),
        ),
        # a short branch around it, made a predicate: nothing is aggregated
        (["2 @!P0 RED.E.ADD.STRONG.GPU [R2.64], R5"], Access(4, is_reduction=True)),
    ],
)
def test_atomics(rows, expected):
    function = _function("atom.global.add.u32 %r2, [%rd1], %r1;")
    assert _by_line(function, attribute(function, _sass(*rows))) == {2: expected}


@pytest.mark.parametrize(
    ("instruction", "rows", "expected"),
    [
        (
            "atom.shared.add.u32 %r2, [%r1], 1;",
            ["2 ATOMS.POPC.INC.32 RZ, [R6+URZ]"],
            "is_hardware_aggregated",
        ),
        (
            "atom.shared.add.f32 %f2, [%r1], %f1;",
            ["2 LDS R2, [R6]", "2 ATOMS.CAST.SPIN R3, [R6], R2, R3", "2 @!P0 BRA `(.L_x_23)"],
            "is_loop",
        ),
    ],
)
def test_shared_atomics(instruction, rows, expected):
    function = _function(instruction)
    assert _by_line(function, attribute(function, _sass(*rows))) == {2: Access(4, **{expected: True})}


def test_a_compare_and_swap_that_the_kernel_asks_for_is_no_loop():
    function = _function("atom.shared.cas.b32 %r2, [%r1], %r3, %r4;")
    found = attribute(function, _sass("2 ATOMS.CAS R2, [R6], R10, R11"))
    assert _by_line(function, found) == {2: Access(4)}


def test_a_branch_to_a_return_that_became_an_exit_is_none():
    function = _function("@%p1 bra L;\nst.global.f32 [%rd1], %f1;\nL:")
    found = attribute(
        function, _sass("2 @P0 EXIT", "3 STG.E [R2.64], R4", "5 EXIT", "5 BRA `(.L_x_1)", "5 NOP")
    )
    assert not found.branches
    assert found.mapped == 1.0


def test_the_jump_to_itself_behind_the_code_is_no_branch_of_the_kernel():
    function = _function(
        "@%p1 bra L;\nst.global.f32 [%rd1], %f1;\nbra M;\nL:\nst.global.f32 [%rd1], %f2;\nM:"
    )
    rows = ["2 @P0 BRA `(.L_x_1)", "6 STG.E [R2.64], R4", "6 EXIT", "3 STG.E [R2.64], R5", "4 EXIT"]
    found = attribute(function, _sass(*rows, "4 BRA `(.L_x_2)", "4 NOP"))
    assert _kept_lines(function, found) == {2}
    found = attribute(function, _sass(*rows[:-1], "4 BRA `(.L_x_3)", "8 EXIT"))
    assert _kept_lines(function, found) == {2, 4}


def test_a_uniform_branch_has_the_line_of_an_instruction_before_it():
    function = _function("setp.lt.s32 %p1, %r1, 4;\n@%p1 bra L;\nst.global.f32 [%rd1], %f1;\nL:")
    found = attribute(
        function,
        _sass("2 UISETP.GE.AND UP0, UPT, UR7, 0x4, UPT", "2 BRA.U !UP0, `(.L_x_0)", "4 STG.E [R2.64], R4"),
    )
    assert _kept_lines(function, found) == {3}
    assert found.is_exact


def test_comparisons_that_became_a_table_are_doubted():
    function = _function(
        "setp.eq.s32 %p1, %r1, 0;\n@%p1 bra A;\nsetp.eq.s32 %p2, %r1, 1;\n@%p2 bra B;\nA:\n"
        "st.global.f32 [%rd1], %f1;\nB:"
    )
    found = attribute(function, _sass("2 BRX R2 -0x110", "7 STG.E [R2.64], R4"))
    assert _kept_lines(function, found) == {3}
    assert [function.body[index].line for index in found.approximate_branches] == [3]
    assert not found.is_exact


LOOP = "L:\nld.global.f32 %f1, [%rd1];\nfma.rn.f32 %f2, %f1, %f2, %f2;\n@%p1 bra L;"


@pytest.mark.parametrize(("times", "is_exact"), [(1, True), (4, False)])
def test_the_back_edge_of_an_unrolled_loop_is_approximate(times, is_exact):
    function = _function(LOOP)
    body = ["3 LDG.E R2, [R4.64]", "4 FFMA R5, R2, R5, R5"] * times
    found = attribute(function, _sass(*body, "5 @P0 BRA `(.L_x_1)", "6 EXIT"))
    assert _kept_lines(function, found) == {5}
    assert found.is_exact is is_exact
    assert found.mapped == 1.0
    assert any("unrolled" in note for note in found.notes) is not is_exact


def test_local_accesses_that_no_ptx_asks_for_are_spills():
    function = _function("st.local.f32 [%rd1], %f1;\nadd.f32 %f2, %f1, %f1;\nst.global.f32 [%rd2], %f2;")
    rows = ["2 STL [R1], R2", "3 STL.64 [R1+0x8], R4", "3 FADD R2, R2, R2", "4 LDL R5, [R1+0x8]"]
    found = attribute(function, _sass(*rows, "4 STG.E [R6.64], R2"))
    assert found.spills == (Spill(3, True, 8), Spill(4, False, 4))
    assert _by_line(function, found) == {2: Access(4), 4: Access(4)}


def test_what_is_restored_after_lanes_met_again_belongs_to_the_next_block():
    function = _function("@%p1 bra L;\nld.global.f32 %f1, [%rd1];\nL:\nadd.f32 %f2, %f1, %f1;")
    rows = ["2 @P0 BRA `(.L_x_1)", "3 LDG.E R2, [R4.64]", "3 BSYNC B6", "3 LDL R20, [R1]"]
    found = attribute(function, _sass(*rows, "5 FADD R2, R2, R2"))
    assert found.spills == (Spill(5, False, 4),)


def test_dominators_follow_loops_and_branches():
    function = _function("@%p1 bra E;\nadd.f32 %f1, %f1, %f1;\nL:\n@%p2 bra L;\nE:\nadd.f32 %f2, %f1, %f1;")
    blocks = Blocks(function)
    assert [blocks.dominates(0, block) for block in range(4)] == [True] * 4
    assert blocks.dominates(1, 2)
    assert not blocks.dominates(2, 3)
    assert not blocks.dominates(3, 2)


# Compiled for real -------------------------------------------------------------------------------------

PROJECT = r"""
#include <cuda_fp16.h>
#define T 32
struct P3 {
  float x, y, z;
};
extern "C" __global__ void copy_scalar(const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = x[i];
}
extern "C" __global__ void copy_float4(const float4* x, float4* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = x[i];
}
extern "C" __global__ void copy_strided(const float* x, float* y, int n, int stride) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
    y[i] = x[(size_t)i * stride];
}
extern "C" __global__ void copy_structs(const P3* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = x[i].x + x[i].z;
}
extern "C" __global__ void copy_narrow(const uchar4* a, uchar4* b, const int2* c, int2* d, const __half2* e,
                                       __half2* f) {
  int i = threadIdx.x;
  uchar4 v = a[i];
  v.x += v.w;
  b[i] = v;
  int2 w = c[i];
  w.x += w.y;
  d[i] = w;
  f[i] = __hadd2(e[i], e[i]);
}
extern "C" __global__ void transpose_tiled(const float* x, float* y, int m, int n) {
  __shared__ float tile[T][T + 1];
  int j = blockIdx.x * T + threadIdx.x, i = blockIdx.y * T + threadIdx.y;
#pragma unroll
  for (int k = 0; k < T; k += 8)
    if (i + k < m && j < n) tile[threadIdx.y + k][threadIdx.x] = x[(size_t)(i + k) * n + j];
  __syncthreads();
  j = blockIdx.y * T + threadIdx.x;
  i = blockIdx.x * T + threadIdx.y;
#pragma unroll
  for (int k = 0; k < T; k += 8)
    if (i + k < n && j < m) y[(size_t)(i + k) * m + j] = tile[threadIdx.x][threadIdx.y + k];
}
extern "C" __global__ void transpose_dynamic(const float* x, float* y, int m, int n) {
  extern __shared__ float tile[];
  int j = blockIdx.x * T + threadIdx.x, i = blockIdx.y * T + threadIdx.y;
  for (int k = 0; k < T; k += 8)
    tile[(threadIdx.y + k) * T + (threadIdx.x ^ (threadIdx.y + k))] = x[(i + k) * n + j];
  __syncthreads();
  j = blockIdx.y * T + threadIdx.x;
  i = blockIdx.x * T + threadIdx.y;
  for (int k = 0; k < T; k += 8)
    y[(i + k) * m + j] = tile[threadIdx.x * T + ((threadIdx.y + k) ^ threadIdx.x)];
}
extern "C" __global__ void relu_branch(const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float v = x[i];
  if (v > 0.f)
    y[i] = v;
  else
    y[i] = 0.f;
}
extern "C" __global__ void uneven_work(const int* trips, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float a = 1.f;
  int t = trips[i];
  for (int k = 0; k < t; ++k) a = a * 1.0001f + 0.5f;
  y[i] = a;
}
extern "C" __global__ void uneven_rolled(const int* trips, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float a = 1.f;
  int t = trips[i];
#pragma unroll 1
  for (int k = 0; k < t; ++k) a = a * 1.0001f + 0.5f;
  y[i] = a;
}
extern "C" __global__ void shared_columns(const float* x, float* y) {
  __shared__ float tile[1024];
  int l = threadIdx.x;
  for (int k = 0; k < 32; ++k) tile[k * 32 + l] = x[k * 32 + l];
  __syncthreads();
  float s = 0.f;
  for (int k = 0; k < 32; ++k) s += tile[l * 32 + k];
  y[l] = s;
}
extern "C" __global__ void shared_strided(const double* x, double* y, int stride) {
  __shared__ double tile[4096];
  int l = threadIdx.x;
  for (int k = l; k < 4096; k += 32) tile[k] = x[k];
  __syncthreads();
  y[l] = tile[(l * stride) & 4095];
}
extern "C" __global__ void histogram(const unsigned char* x, unsigned* h, int n) {
  __shared__ unsigned bins[256];
  bins[threadIdx.x] = 0;
  __syncthreads();
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
    atomicAdd(&bins[x[i]], 1u);
  __syncthreads();
  if (bins[threadIdx.x]) atomicAdd(&h[threadIdx.x], bins[threadIdx.x]);
}
extern "C" __global__ void reduction(const float* x, float* y, int n) {
  __shared__ float part[32];
  float s = 0.f;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) s += x[i];
  for (int o = 16; o; o >>= 1) s += __shfl_down_sync(~0u, s, o);
  if ((threadIdx.x & 31) == 0) part[threadIdx.x / 32] = s;
  __syncthreads();
  if (threadIdx.x < 32) {
    s = threadIdx.x < blockDim.x / 32 ? part[threadIdx.x] : 0.f;
    for (int o = 16; o; o >>= 1) s += __shfl_down_sync(~0u, s, o);
    if (threadIdx.x == 0) atomicAdd(y, s);
  }
}
extern "C" __global__ void masked(const float* x, const unsigned char* mask, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float v = 0.f;
  if (mask[i]) {
    v = x[i];
    for (int k = 0; k < 64; ++k) v = fmaf(v, 0.999f, 0.1f);
  }
  y[i] = v;
}
__device__ __noinline__ float helper(const float* x, int i) {
  float s = 0.f;
  for (int k = 0; k < i; ++k) s += x[k];
  return s;
}
extern "C" __global__ void calls_one(const float* x, float* y) { y[threadIdx.x] = helper(x, threadIdx.x); }
extern "C" __global__ void calls_two(const float* x, float* y) {
  y[threadIdx.x] = helper(x, threadIdx.x) + helper(x + 1, 9);
}
"""
UNROLLED = {"uneven_work", "shared_strided"}


@pytest.fixture(scope="module", params=["sm_75", "sm_80", "sm_90", "sm_100"])
def project(request):
    compiled = pytest.importorskip("kernellab.compile")
    try:
        binary = compiled.compile_cuda(PROJECT, arch=request.param)
        sass = compiled.sass_of(binary).functions
    except compiled.UnavailableError as error:
        pytest.skip(str(error))
    functions = ptx.parse(binary.ptx).functions
    return {
        name: (function, attribute(function, sass[name]), sass[name]) for name, function in functions.items()
    }


def test_every_access_and_branch_of_the_projects_kernels_is_decided(project):
    doubtful = {name: found.notes for name, (_, found, _) in project.items() if found.mapped != 1.0}
    assert doubtful == {}
    assert len(project) == 18
    inexact = {name for name, (_, found, _) in project.items() if not found.is_exact}
    assert inexact <= UNROLLED | {"_Z6helperPKfi"}


def test_kernels_without_loops_issue_as_many_requests_as_sass_has(project):
    compared = 0
    for name, (function, found, sass) in project.items():
        jumps = (branch_targets(i, function.labels, function.branch_targets) for i in function.body)
        if any(target <= i for i, targets in enumerate(jumps) for target in targets) or not function.is_entry:
            continue
        issued = Counter(
            _KINDS[c.opcode[:2]] for c in sass if c.opcode.startswith(("LDG", "LDS", "STG", "STS"))
        )
        counted = Counter()
        for index, access in found.accesses.items():
            counted[shape(function.body[index])[0]] += 1 + len(access.more)
        assert (name, counted) == (name, issued)
        compared += 1
    assert compared > 8


_KINDS = {"LD": "load", "ST": "store"}


def test_copies_count_one_load_and_one_store_and_no_branch(project):
    for name, width in (("copy_scalar", 4), ("copy_float4", 16)):
        _, found, _ = project[name]
        assert list(found.accesses.values()) == [Access(width)] * 2
        assert not found.branches


def test_columns_of_a_tile_are_read_four_at_a_time(project):
    function, found, _ = project["shared_columns"]
    loads = [a for i, a in found.accesses.items() if function.body[i].opcode.startswith("ld.shared")]
    assert loads == [Access(16)] * 8


def test_loops_keep_their_branch(project):
    for name in ("uneven_rolled", "copy_strided", "histogram"):
        assert project[name][1].branches
    assert not project["relu_branch"][1].branches


def test_a_histogram_reduces_and_a_transposition_does_not_spill(project):
    function, found, _ = project["histogram"]
    atomics = [a for i, a in found.accesses.items() if function.body[i].opcode.startswith("atom")]
    assert [a.is_reduction for a in atomics] == [False, True]
    assert not any(attribution.spills for _, attribution, _ in project.values())


def _numba_kernels():
    cuda = pytest.importorskip("numba.cuda")
    from numba import float32, int32

    def copy(x, y):
        i = cuda.grid(1)
        if i < x.shape[0]:
            y[i] = x[i]

    def transpose(x, y):
        tile = cuda.shared.array((32, 33), float32)
        i, j = cuda.blockIdx.x * 32 + cuda.threadIdx.x, cuda.blockIdx.y * 32 + cuda.threadIdx.y
        for k in range(0, 32, 8):
            if j + k < x.shape[0] and i < x.shape[1]:
                tile[cuda.threadIdx.y + k, cuda.threadIdx.x] = x[j + k, i]
        cuda.syncthreads()
        i, j = cuda.blockIdx.y * 32 + cuda.threadIdx.x, cuda.blockIdx.x * 32 + cuda.threadIdx.y
        for k in range(0, 32, 8):
            if j + k < y.shape[0] and i < y.shape[1]:
                y[j + k, i] = tile[cuda.threadIdx.x, cuda.threadIdx.y + k]

    def relu(x, y):
        i = cuda.grid(1)
        if i < x.shape[0]:
            if x[i] > 0:
                y[i] = x[i]
            else:
                y[i] = 0

    def uneven(trips, y):
        i = cuda.grid(1)
        if i < trips.shape[0]:
            a = float32(1)
            for _ in range(trips[i]):
                a = a * float32(1.0001) + float32(0.5)
            y[i] = a

    def histogram(x, h):
        bins = cuda.shared.array(256, int32)
        bins[cuda.threadIdx.x] = 0
        cuda.syncthreads()
        for i in range(cuda.grid(1), x.shape[0], cuda.gridsize(1)):
            cuda.atomic.add(bins, x[i], 1)
        cuda.syncthreads()
        cuda.atomic.add(h, cuda.threadIdx.x, bins[cuda.threadIdx.x])

    line, plane = "float32[::1]", "float32[:,::1]"
    return [
        (copy, (line, line)),
        (transpose, (plane, plane)),
        (relu, (line, line)),
        (uneven, ("int32[::1]", line)),
        (histogram, ("uint8[::1]", "int32[::1]")),
    ]


def test_numbas_kernels_are_decided_too():
    compiled = pytest.importorskip("kernellab.compile")
    kernels = _numba_kernels()
    jobs = [
        compiled.NumbaJob(lambda function=function: function, types, function.__name__)
        for function, types in kernels
    ]
    try:
        binaries = compiled.compile_numba_many(jobs)
        listings = [compiled.sass_of(binary).functions for binary in binaries]
    except compiled.UnavailableError as error:
        pytest.skip(str(error))
    for binary, listing in zip(binaries, listings, strict=True):
        for name, function in ptx.parse(binary.ptx).functions.items():
            found = attribute(function, listing.get(name))
            assert (name, found.mapped) == (name, 1.0)
            assert found.accesses


WMMA_LOAD = "wmma.load.a.sync.aligned.row.m16n16k16.{}.f16 {{%r2,%r3,%r4,%r5,%r6,%r7,%r8,%r9}}, [{}], %r10;"


@pytest.mark.parametrize(("copies", "is_exact"), [(4, True), (8, True), (3, False), (6, False)])
def test_a_fragment_is_several_requests(copies, is_exact):
    function = _function(WMMA_LOAD.format("global", "%rd1"))
    found = attribute(function, _sass(*[f"2 LDG.E R{i}, [R4.64]" for i in range(copies)]))
    assert _by_line(function, found) == {2: Access(4, is_approximate=not is_exact)}


def test_a_fragment_in_shared_memory_is_a_matrix():
    function = _function(WMMA_LOAD.format("shared", "%r1"))
    found = attribute(function, _sass("2 LDSM.16.M88.4 R4, [R4]"))
    assert _by_line(function, found) == {2: Access(16)}


@pytest.mark.parametrize(
    "between",
    [
        "stmatrix.sync.aligned.m8n8.x1.shared.b16 [%r1], {%r2};",
        "wmma.store.d.sync.aligned.row.m16n16k16.shared.f16 [%r1], {%r2,%r3,%r4,%r5}, %r6;",
        "cp.async.ca.shared.global [%r1], [%rd1], 4;",
    ],
)
def test_an_address_that_comes_first_is_no_result(between):
    function = _function(f"st.shared.f32 [%r1], %f1;\n{between}\nst.shared.f32 [%r1+4], %f2;")
    found = attribute(function, _sass("4 STS.64 [R6], R2"))
    assert _by_line(function, found)[2] == Access(8)
