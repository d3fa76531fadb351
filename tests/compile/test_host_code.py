import pytest

from kernellab.compile import compile_cuda, ptx_text, sass_of
from kernellab.compile.host_code import find_host_code
from kernellab.compile.toolchain import toolchain
from kernellab.errors import CompileError

HOST = """#include <cstdio>
#include <vector>
#include "scale.cuh"
__global__ void k(float* y) {
    y[threadIdx.x] = scale(y[threadIdx.x]);
}
template <typename T, int N> __global__ void tile(T* y) { y[0] = y[N]; }
int main() {
    std::vector<float> host(32);
    float* y;
    cudaMalloc(&y, 128);
    k<<<1, 32>>>(y);
    cudaDeviceSynchronize();
    printf("%f", host[0]);
    return 0;
}
"""


@pytest.fixture
def host_file(tmp_path):
    folder = tmp_path / "黄 é"
    folder.mkdir()
    (folder / "scale.cuh").write_text("__device__ float scale(float x) {\n    return 2 * x;\n}\n")
    return folder / "host é.cu"


def test_host_code_without_nvcc_names_the_line_and_the_remedy(host_file, without):
    without(nvcc=None)
    with pytest.raises(CompileError, match=r"host é\.cu: line 8 holds host code \(the function main\).*nvcc"):
        compile_cuda(HOST, path=host_file)


@pytest.mark.skipif(toolchain().nvcc is None, reason="no nvcc here")
def test_host_code_goes_through_nvcc(host_file):
    binary = compile_cuda(HOST, path=host_file, name_expressions=["tile<float, 4>"])
    assert binary.names["k"] == "_Z1kPf"
    assert binary.names["tile<float, 4>"] == "_Z4tileIfLi4EEvPT_"
    assert set(ptx_text.files(binary.ptx)) == {str(host_file), str(host_file.parent / "scale.cuh")}
    lines = binary.ptx.split("\n")
    store = next(each for each in sass_of(binary).functions["_Z1kPf"] if each.opcode.startswith("STG"))
    assert "st.global" in lines[store.ptx_line - 1]


@pytest.mark.skipif(toolchain().nvcc is None, reason="no nvcc here")
def test_an_error_beside_host_code_is_nvcc_s_with_the_right_line(host_file):
    with pytest.raises(CompileError, match=r"host é\.cu\(5\)"):
        compile_cuda(HOST.replace("scale(y[threadIdx.x]);", "missing;"), path=host_file)


def test_host_code_that_nvrtc_may_skip_needs_no_nvcc(without):
    without(nvcc=None)
    text = "__global__ void k(int* y) { *y = 1; }\n"
    text += "#ifndef __CUDACC_RTC__\nint main() { k<<<1, 1>>>(0); }\n#endif\n"
    assert compile_cuda(text).names["k"]


def test_an_error_in_device_code_is_not_blamed_on_host_code(without):
    without(nvcc=None)
    with pytest.raises(CompileError, match="nowhere"):
        compile_cuda("// int main() { k<<<1, 1>>>(); }\n__global__ void k(int* y) { *y = nowhere; }\n")


def test_an_error_beside_a_harmless_include_is_the_error(without):
    without(nvcc=None)
    with pytest.raises(CompileError, match=r"\(2\): error: .*nowhere"):
        compile_cuda("#include <iostream>\n__global__ void k(int* y) { *y = nowhere; }\n")


@pytest.mark.parametrize(
    ("text", "line", "what"),
    [
        ("\n\nint main() {}", 3, "main"),
        ("void f() {\n  k<<<1, 2>>>(0);\n}", 2, "launch"),
        ("void f() {\n cudaMalloc(&p, 4); }", 2, "runtime"),
        ("#include <iostream>\n", 1, "<iostream>"),
        ("/* int main()\n */ std::vector<int> v;", 2, "library"),
    ],
)
def test_host_code_is_found(text, line, what):
    found = find_host_code(text)
    assert found.line == line
    assert what in found.what


@pytest.mark.parametrize(
    "text",
    [
        "// int main() { }",
        'const char* s = "int main() <<<";',
        'const char* s = R"(int main() {})";',
        "#include <cuda_runtime.h>\n#include <cstdio>\n__device__ int domain(int x) { return x << 2; }",
        "/* k<<<1, 2>>> */",
    ],
)
def test_device_code_is_left_alone(text):
    assert find_host_code(text) is None
