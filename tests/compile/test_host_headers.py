import pytest

from kernellab.compile import compile_cuda
from kernellab.compile.host_headers import built_in_headers, wants_prelude
from kernellab.errors import CompileError

HEADERS = (
    "cuda_runtime.h device_launch_parameters.h stdio.h cstdio math.h cmath stdint.h cstdint assert.h",
    "stdlib.h cstdlib string.h cstring limits.h climits float.h cfloat stddef.h cstddef time.h ctime",
    "stdbool.h inttypes.h cassert algorithm iostream vector string chrono random cuda.h cuda_runtime_api.h",
    "cuda_fp16.h",
)


def test_a_tutorial_s_includes_compile():
    text = "".join(f"#include <{name}>\n" for row in HEADERS for name in row.split())
    text += """
__global__ void k(float* y, std::size_t n, std::int64_t m, uint8_t b) {
    assert(n > 3);
    printf("%d\\n", 3);
    y[0] = INT_MAX + FLT_MAX * M_PI - INFINITY;
    y[1] = std::sqrt(y[2]) + std::pow(y[3], 2) + std::max(y[4], 1.0f) + std::abs(-3) + fabsf(y[5]) + m + b;
    bool odd = std::isnan(y[0]);
    if (odd) y[2] = NAN;
    memset(y, 0, 4);
}
"""
    assert compile_cuda(text).names["k"] == "_Z1kPfmxh"


def test_names_that_nvcc_brings_unasked_are_here_too():
    text = "__global__ void k(float* y, uint32_t n, uint m) {"
    text += " y[0] = M_PI * n + FLT_MAX + std::sqrt(y[1]) + std::min(n, 3u) + m; }\n"
    assert compile_cuda(text).cubin


def test_a_user_s_own_definitions_are_left_alone():
    text = """
typedef unsigned char uint8_t; typedef char int8_t; typedef long int64_t;
#define INFINITY __int_as_float(0x7f800000)
#define M_PI 3
__global__ void k(uint8_t* y, int64_t n) { y[0] = INFINITY > 2 ? M_PI : n; }
"""
    assert compile_cuda(text).cubin


def test_fixed_width_types_agree_with_cccl_s():
    text = "#include <stdint.h>\n#include <cuda/std/cstdint>\n#include <cstdint>\n"
    text += (
        "__global__ void k(int64_t* y, cuda::std::uint64_t n) { *y = INT64_MAX - n + (std::uintptr_t)y; }\n"
    )
    assert compile_cuda(text).cubin


def test_what_a_host_header_would_bring_fails_by_name(without):
    without(nvcc=None)
    text = "#include <vector>\n__global__ void k(int* y) { std::vector<int> v; *y = v.size(); }\n"
    with pytest.raises(CompileError, match="line 2 holds host code"):
        compile_cuda(text)


def test_an_unknown_name_asks_for_no_prelude():
    assert not wants_prelude('k.cu(1): error: identifier "uint33_t" is undefined')
    assert wants_prelude('k.cu(1): error: namespace "std" has no member "sqrt"')


def test_hidden_headers_are_left_out():
    assert "vector" not in built_in_headers(hidden=["vector"])
