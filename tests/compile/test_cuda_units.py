import pytest

from kernellab.compile import (
    CudaUnit,
    compile_cuda_many,
    memory,
    nvrtc,
    ptx_text,
    resource_usage,
    sass,
    sass_of,
    try_cuda_many,
)
from kernellab.errors import CompileError, SpecError, UnavailableError

SHARED = "#pragma once\n__device__ __noinline__ float twice(float x) { return 2 * x; }\n"
FIRST = """#include "shared.cuh"
#define STEP 3
extern "C" __global__ void first(float* y) {
    y[threadIdx.x] = twice(y[threadIdx.x]) + TILE * STEP;
}
"""
SECOND = """#include "shared.cuh"
#define STEP 5
extern "C" __global__ void __launch_bounds__(128) second(float* y) {
    y[threadIdx.x] = twice(y[threadIdx.x]) * STEP;
}
"""


@pytest.fixture
def units(tmp_path):
    (tmp_path / "shared.cuh").write_text(SHARED)
    return [
        CudaUnit(FIRST, str(tmp_path / "first.cu"), {"TILE": 7}),
        CudaUnit(SECOND, str(tmp_path / "second.cu")),
        CudaUnit(FIRST, str(tmp_path / "first.cu"), {"TILE": 9}),
    ]


def test_units_share_one_cubin_and_one_disassembly(units, monkeypatch):
    calls = []
    original = sass.disassemble
    monkeypatch.setattr(sass, "disassemble", lambda cubin: calls.append(cubin) or original(cubin))
    binaries = compile_cuda_many(units)
    assert len({binary.cubin for binary in binaries}) == 1
    for binary in binaries:
        assert sass_of(binary).functions[next(iter(binary.names.values()))]
    assert len(calls) == 1


def test_constants_and_macros_stay_with_their_unit(units):
    first, second, again = compile_cuda_many(units)
    assert first.names["first"] == "first"
    assert again.names["first"] != "first"
    assert list(second.names) == ["second"]
    assert "0f41A80000" in first.ptx.split("first__unit2")[0]  # 7 * 3
    assert "0f41D80000" in first.ptx  # 9 * 3
    assert "0f40A00000" in first.ptx  # 5


def test_lines_point_into_the_units_own_files(units, tmp_path):
    first, second, _ = compile_cuda_many(units)
    assert {str(tmp_path / "first.cu"), str(tmp_path / "second.cu")} <= set(ptx_text.files(first.ptx))
    assert first.sources[str(tmp_path / "first.cu")] == FIRST
    assert second.sources[str(tmp_path / "shared.cuh")] == SHARED
    number = [name.endswith("second.cu") for name in ptx_text.files(second.ptx)].index(True) + 1
    body = second.ptx[second.ptx.index(".entry second") :]
    assert f".loc\t{number} 4 " in body


def test_resources_are_those_of_the_unit(units):
    assert list(resource_usage(compile_cuda_many(units)[1])) == ["second"]


def test_a_change_in_a_shared_include_is_seen(units, tmp_path):
    before = compile_cuda_many(units)[0]
    (tmp_path / "shared.cuh").write_text(SHARED.replace("2 * x", "4 * x"))
    assert compile_cuda_many(units)[0].key != before.key


def test_the_error_is_that_of_the_unit_at_fault(units, tmp_path):
    bad = CudaUnit('extern "C" __global__ void bad(float* y) {\n    y = ;\n}\n', str(tmp_path / "bad.cu"))
    with pytest.raises(CompileError, match=r"bad\.cu\(2\)"):
        compile_cuda_many([*units, bad])


def test_units_that_clash_are_compiled_apart(tmp_path):
    text = "__device__ int helper(int x) {{ return x + {0}; }}\n"
    text += 'extern "C" __global__ void k{0}(int* y) {{ *y = helper(*y); }}\n'
    units = [CudaUnit(text.format(number), str(tmp_path / f"k{number}.cu")) for number in (1, 2)]
    binaries = compile_cuda_many(units)
    assert [list(binary.names) for binary in binaries] == [["k1"], ["k2"]]
    assert binaries[0].cubin != binaries[1].cubin


def test_units_that_clash_are_not_tried_together_again(tmp_path, fresh_cache, monkeypatch):
    text = "__device__ int helper(int x) {{ return x + {0}; }}\n"
    text += 'extern "C" __global__ void k{0}(int* y) {{ *y = helper(*y); }}\n'
    units = [CudaUnit(text.format(number), str(tmp_path / f"k{number}.cu")) for number in (1, 2)]
    compile_cuda_many(units)
    monkeypatch.setattr(nvrtc, "compile_text", lambda *args, **options: pytest.fail("NVRTC ran again"))
    memory.forget()
    assert len(compile_cuda_many(units)) == 2


def test_a_unit_that_fails_spoils_no_other(units, tmp_path):
    text = '#include <curand_nowhere.h>\nextern "C" __global__ void lacks(int* y) { *y = 1; }\n'
    bad = CudaUnit('extern "C" __global__ void bad(float* y) { y = ; }\n', str(tmp_path / "bad.cu"))
    good, lacking, wrong = try_cuda_many([units[0], CudaUnit(text, str(tmp_path / "lacks.cu")), bad])
    assert good.names["first"] == "first"
    assert isinstance(lacking, UnavailableError)
    assert isinstance(wrong, CompileError)


def test_a_constant_must_be_a_macro(tmp_path):
    with pytest.raises(SpecError, match="TILE"):
        compile_cuda_many([CudaUnit(FIRST, str(tmp_path / "first.cu"), {"2TILE": 1})])
