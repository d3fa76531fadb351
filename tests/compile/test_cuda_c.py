import os
import subprocess
import sys

import pytest

from kernellab.compile import compile_cuda, find_entry, nvrtc, ptx_text, resource_usage, sass_of
from kernellab.errors import ArgumentError, CompileError, SpecError, UnavailableError

ONE = 'extern "C" __global__ void one(int* y) { *y = 1; }\n'


def test_one_compile_gives_ptx_and_cubin():
    binary = compile_cuda(ONE)
    assert binary.language == "cuda-c"
    assert ptx_text.entries(binary.ptx) == ("one",)
    assert binary.cubin[:4] == b"\x7fELF"
    assert ".target sm_90\n" in binary.ptx


def test_python_s_shared_bytes_stay_whole():
    compile_cuda("// shared bytes\n" + ONE)
    assert bytes([32]) == b" "
    assert b" "[0] == 32


@pytest.mark.parametrize(
    "arch", ["sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_90a", "sm_100", "sm_100a", "sm_120"]
)
def test_every_architecture(arch):
    binary = compile_cuda(ONE, arch=arch)
    assert f".target {arch}" in binary.ptx
    assert binary.arch == arch


@pytest.mark.parametrize("arch", ["sm_30", "sm_130"])
def test_an_unknown_architecture_names_the_known_ones(arch):
    with pytest.raises(SpecError, match=f"arch {arch}.*sm_90"):
        compile_cuda(ONE, arch=arch)


@pytest.mark.parametrize("arch", ["90", "compute_90", 90, "sm90", "sm_90x"])
def test_a_misspelt_architecture_is_refused(arch):
    with pytest.raises(SpecError, match="sm_90"):
        compile_cuda(ONE, arch=arch)


@pytest.mark.parametrize("known", [(50, 52), (75, 80, 90), (100, 120)])
def test_the_list_is_nvrtc_s_own(monkeypatch, known):
    monkeypatch.setattr(nvrtc, "architectures", lambda: known)
    nvrtc.check_architecture(f"sm_{known[0]}")
    with pytest.raises(SpecError, match=f"sm_{known[-1]}"):
        nvrtc.check_architecture("sm_21")


def test_an_error_has_nvrtc_s_log_with_file_and_line(tmp_path):
    path = tmp_path / "bad.cu"
    with pytest.raises(CompileError, match=r"bad\.cu\(2\): error: .*foo") as caught:
        compile_cuda("__global__ void k(int* y) {\n    *y = foo;\n}\n", path=path)
    assert f"{path}(2)" in caught.value.log


def test_an_error_in_an_include_names_that_file(tmp_path):
    (tmp_path / "deep.cuh").write_text("\n__device__ int f() { return nothing; }\n")
    with pytest.raises(CompileError, match=r"deep\.cuh\(2\)"):
        compile_cuda('#include "deep.cuh"\n' + ONE, path=tmp_path / "k.cu")


def test_other_alphabets_in_paths(tmp_path):
    folder = tmp_path / "黄 é"
    folder.mkdir()
    (folder / "part é.cuh").write_text("__device__ __noinline__ int f(int x) {\n    return x * 3;\n}\n")
    path = folder / "kernel 黄.cu"
    binary = compile_cuda('#include "part é.cuh"\n__global__ void k(int* y) { *y = f(*y); }\n', path=path)
    assert set(ptx_text.files(binary.ptx)) == {str(path), str(folder / "part é.cuh")}
    assert set(binary.sources) == {str(path), str(folder / "part é.cuh")}
    assert "x * 3" in binary.sources[str(folder / "part é.cuh")]


def test_a_text_without_a_file_has_a_steady_name():
    binary = compile_cuda("// no file\n" + ONE)
    assert ptx_text.files(binary.ptx) == ("source.cu",)
    assert binary.sources["source.cu"].endswith(ONE)


def test_a_nested_include_changes_the_key(tmp_path):
    (tmp_path / "outer.cuh").write_text('#include "inner.cuh"\n')
    (tmp_path / "inner.cuh").write_text("#define VALUE 1\n")
    text = '#include "outer.cuh"\nextern "C" __global__ void k(int* y) { *y = VALUE; }\n'
    first = compile_cuda(text, path=tmp_path / "k.cu")
    (tmp_path / "inner.cuh").write_text("#define VALUE 77\n")
    second = compile_cuda(text, path=tmp_path / "k.cu")
    assert first.key != second.key
    assert "77" not in first.ptx
    assert ", 77;" in second.ptx


def test_options_and_arch_change_the_key():
    keys = {
        compile_cuda(ONE).key,
        compile_cuda(ONE, options=["-DA=1"]).key,
        compile_cuda(ONE, arch="sm_80").key,
        compile_cuda(ONE + " ").key,
    }
    assert len(keys) == 4


def test_a_computed_include_is_not_cached(tmp_path):
    path = tmp_path / "value.cuh"
    text = '#include WHERE\nextern "C" __global__ void k(int* y) { *y = VALUE; }\n'
    path.write_text("#define VALUE 1\n")
    compile_cuda(text, options=[f'-DWHERE="{path}"'])
    path.write_text("#define VALUE 88\n")
    assert ", 88;" in compile_cuda(text, options=[f'-DWHERE="{path}"']).ptx


def test_include_dirs_and_options(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "a/a.cuh").write_text("#define A 11\n")
    (tmp_path / "b").mkdir()
    (tmp_path / "b/b.cuh").write_text("#define B 22\n")
    text = '#include <a.cuh>\n#include "b.cuh"\nextern "C" __global__ void k(int* y) { *y = A + B + C; }\n'
    binary = compile_cuda(
        text, include_dirs=[tmp_path / "a"], options=["-I", str(tmp_path / "b"), "-D", "C=33"]
    )
    assert ", 66;" in binary.ptx


def test_user_files_win_over_stand_ins(tmp_path):
    (tmp_path / "vector").write_text("#define FROM_USER 5\n")
    text = '#include "vector"\nextern "C" __global__ void k(int* y) { *y = FROM_USER; }\n'
    assert ", 5;" in compile_cuda(text, path=tmp_path / "k.cu").ptx


def test_an_old_half_header_does_not_get_in(tmp_path):
    (tmp_path / "cuda_fp16.h").write_text("#error an old toolkit\n")
    text = "#include <cuda_fp16.h>\n#include <cuda_bf16.h>\n"
    text += "__global__ void k(__half* y) { y[0] = __hadd(y[1], y[2]); }\n"
    assert compile_cuda(text, include_dirs=[tmp_path]).cubin
    assert compile_cuda(text, path=tmp_path / "k.cu").cubin


def test_a_header_that_no_wheel_here_has_is_unavailable(without):
    without(include_dirs=())
    with pytest.raises(UnavailableError, match=r"mma\.h.*pip install"):
        compile_cuda("#include <mma.h>\n// not there\n" + ONE)


def test_tensor_core_and_half_headers_compile():
    text = """
#include <mma.h>
#include <cuda_fp16.h>
using namespace nvcuda;
__global__ void product(const half* a, const half* b, float* c) {
    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> left;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> right;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> sum;
    wmma::fill_fragment(sum, 0.0f);
    wmma::load_matrix_sync(left, a, 16);
    wmma::load_matrix_sync(right, b, 16);
    wmma::mma_sync(sum, left, right, sum);
    wmma::store_matrix_sync(c, sum, 16, wmma::mem_row_major);
}
"""
    assert "wmma.mma" in compile_cuda(text).ptx


def test_cooperative_groups_cub_and_cuda_std_compile():
    text = """
#include <cooperative_groups.h>
#include <cub/cub.cuh>
#include <cuda/std/cstdint>
#include <type_traits>
namespace cg = cooperative_groups;
__global__ void total(int* y) {
    using Reduce = cub::BlockReduce<int, 128>;
    __shared__ typename Reduce::TempStorage storage;
    int sum = Reduce(storage).Sum(y[threadIdx.x]);
    auto tile = cg::tiled_partition<32>(cg::this_thread_block());
    cuda::std::int32_t value = tile.shfl_down(sum, 1) + std::is_same<int, int32_t>::value;
    if (threadIdx.x == 0) y[0] = value;
}
"""
    assert compile_cuda(text).names["total"] == "_Z5totalPi"


@pytest.mark.parametrize("noise", ["\ufeff", "// 黄 é\n", "\r\n\r\n"])
def test_texts_from_other_systems(noise):
    assert compile_cuda(noise + ONE.replace(" { ", " {\r\n")).names["one"] == "one"


def test_name_expressions():
    text = "namespace a { template <typename T, int N> __global__ void tile(T* y) { y[0] = y[N]; } }\n"
    asked = ["a::tile<float, 32>", "a::tile<float,32>", "a::tile<double, 4>"]
    names = compile_cuda(text, name_expressions=asked).names
    assert names[asked[0]] == names[asked[1]] == "_ZN1a4tileIfLi32EEEvPT_"
    assert names[asked[2]] == "_ZN1a4tileIdLi4EEEvPT_"


def test_a_kernel_without_c_linkage_is_found_by_its_plain_name():
    binary = compile_cuda("__global__ void plain(float* y) { *y = 1; }\n" + ONE)
    assert find_entry(binary, "plain") == "_Z5plainPf"
    assert find_entry(binary, "_Z5plainPf") == "_Z5plainPf"
    assert find_entry(binary, "one") == "one"


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("onne", "did you mean 'one'"),
        (None, "one; name one"),
        ("over", r"not one kernel but 2.*_Z4overPf' for over\(float \*\)"),
        ("tile", "template"),
        ("zzz", ", one"),
    ],
)
def test_a_name_that_is_not_there_lists_those_that_are(name, words):
    text = "__global__ void over(int* y) { *y = 1; }\n__global__ void over(float* y) { *y = 1; }\n"
    text += "template <int N> __global__ void tile(int* y) { *y = N; }\n" + ONE
    with pytest.raises(SpecError, match=words):
        find_entry(compile_cuda(text), name)


def test_a_wrong_name_expression_is_an_error_with_its_log():
    with pytest.raises(CompileError) as caught:
        compile_cuda(ONE, name_expressions=["nothing<float>"])
    assert "nothing" in caught.value.log


@pytest.mark.parametrize(
    "option", ["-arch=sm_80", "--gpu-architecture=sm_80", "-G", "-rdc=true", "-dlto", "-o"]
)
def test_options_that_contradict_are_refused(option):
    with pytest.raises(SpecError, match="options"):
        compile_cuda(ONE, options=[option])


def test_an_option_that_nvrtc_does_not_know():
    with pytest.raises(SpecError, match="--no-such-thing"):
        compile_cuda(ONE, options=["--no-such-thing"])


def test_options_reach_the_code():
    text = 'extern "C" __global__ void k(float* y) { *y = 1.0f / *y + sinf(*y); }\n'
    assert "sin.approx" in compile_cuda(text, options=["--use_fast_math"]).ptx
    assert "sin.approx" not in compile_cuda(text).ptx


def test_a_text_must_be_a_text(tmp_path):
    with pytest.raises(ArgumentError, match="str"):
        compile_cuda(tmp_path)


def test_no_nvrtc_is_one_clear_error(monkeypatch):
    nvrtc.library.cache_clear()
    monkeypatch.setitem(sys.modules, "cuda.bindings", None)
    try:
        with pytest.raises(UnavailableError, match=r"NVRTC is not here.*pip install"):
            compile_cuda("// no nvrtc\n" + ONE)
    finally:
        nvrtc.library.cache_clear()


@pytest.mark.parametrize("visible", ["", "-1"])
def test_no_device_is_needed(visible):
    text = f"// visible: {visible}\n{ONE}"
    code = f"from kernellab.compile import compile_cuda\nassert compile_cuda({text!r}).cubin\n"
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": visible}
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True, env=environment)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_forked_child_compiles_too():
    compile_cuda(ONE)
    child = os.fork()
    if child == 0:
        os._exit(0 if compile_cuda("// in the child\n" + ONE).cubin else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_a_type_without_alignment_is_read_in_two_halves():
    text = """
struct Loose { float x, y; };
struct alignas(8) Tight { float x, y; };
extern "C" __global__ void loose(const Loose* a, Loose* b) { b[threadIdx.x] = a[threadIdx.x]; }
extern "C" __global__ void tight(const Tight* a, Tight* b) { b[threadIdx.x] = a[threadIdx.x]; }
"""
    binary = compile_cuda(text)
    loads = {
        name: [each.opcode for each in code if each.opcode.startswith("LDG")]
        for name, code in sass_of(binary).functions.items()
    }
    assert len(loads["loose"]) == 2
    assert [opcode.split(".")[2] for opcode in loads["tight"]] == ["64"]


def test_resources():
    text = """
extern "C" __global__ void __launch_bounds__(64) used(float* y, int n) {
    __shared__ float tile[64];
    float own[50];
    for (int i = 0; i < 50; i++) own[(i * n) % 50] = y[i];
    tile[threadIdx.x] = own[n];
    __syncthreads();
    y[0] = tile[n];
}
"""
    for arch in ("sm_80", "sm_90"):
        used = resource_usage(compile_cuda(text, arch=arch))["used"]
        assert used.shared_bytes == 256
        assert used.local_bytes >= 200
        assert 8 <= used.registers <= 255
        assert used.barriers == 1
        assert used.constant_bytes > 12


def test_nvcc_says_each_thing_once():
    from kernellab.compile.nvcc import _once

    one = "k.cu(3): error: identifier is undefined\n   x = y;\n       ^\n"
    two = 'k.cu(4): warning #177-D: variable "n" is unused\n'
    assert _once(f"{two}{one}\n{two}{one}1 error detected") == f"{two}{one}1 error detected"


def test_too_much_static_shared_memory_is_said_in_bytes():
    text = """__global__ void wide(int* y) {
        __shared__ int s[12500];
        s[threadIdx.x] = *y; __syncthreads(); y[threadIdx.x] = s[31 - threadIdx.x];
    }"""
    message = r"^wide: its __shared__ arrays have 50000 bytes, the limit is 49152; .* extern __shared__"
    with pytest.raises(CompileError, match=message) as caught:
        compile_cuda(text)
    assert "0x" not in str(caught.value) + caught.value.log


def test_one_text_under_one_relative_name_in_two_folders(tmp_path, monkeypatch):
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        monkeypatch.chdir(tmp_path / name)
        binary = compile_cuda(ONE, path="k.cu")
        assert ptx_text.files(binary.ptx) == (str(tmp_path / name / "k.cu"),)
