import pytest

from kernellab.compile import assemble_ptx, compile_cuda, find_entry, global_symbols
from kernellab.errors import SpecError

TEXT = """
__constant__ float weights[64];
__device__ int counter = 3;
static __device__ double hidden;
namespace lab { __constant__ int width; }
extern "C" __global__ void k(float* y) {
    y[0] = weights[threadIdx.x] + lab::width + hidden;
    hidden = y[1];
    atomicAdd(&counter, 1);
}
"""


def test_globals_are_found_by_their_plain_names():
    symbols = global_symbols(compile_cuda(TEXT))
    assert symbols["weights"] == "weights"
    assert symbols["counter"] == "counter"
    assert symbols["width"] == symbols["lab::width"] == "_ZN3lab5widthE"
    assert "hidden" in symbols[symbols["hidden"]]


def test_the_only_kernel_needs_no_name():
    assert find_entry(compile_cuda(TEXT)) == "k"


def test_several_kernels_need_one():
    text = TEXT + 'extern "C" __global__ void other(int* y) { *y = 1; }\n'
    with pytest.raises(SpecError, match=r"other.*name one"):
        find_entry(compile_cuda(text))


def test_a_text_with_no_kernel():
    with pytest.raises(SpecError, match="has none"):
        find_entry(compile_cuda("__device__ int f() { return 1; }\n"), "k")


def test_scoped_names_in_foreign_ptx():
    ptx = ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry _ZN3lab4copyEv()\n{\n    ret;\n}\n"
    binary = assemble_ptx(ptx)
    assert find_entry(binary, "lab::copy") == find_entry(binary, "copy") == "_ZN3lab4copyEv"
