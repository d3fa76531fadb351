import os
import re
import subprocess
import sys
import warnings
from collections import namedtuple

import numpy as np
import pytest

from kernellab.compile import (
    NumbaJob,
    compile_numba,
    compile_numba_many,
    f64_arithmetic,
    flatten_numba_arguments,
    memory,
    numba_types,
    ptx_text,
    resource_usage,
    sass,
    sass_of,
)
from kernellab.errors import ArgumentError, CompileError, SpecError, UnavailableError

HERE = os.path.dirname(os.path.abspath(__file__))
Pair = namedtuple("Pair", "values scale")
RECORD = np.dtype([("a", "f4"), ("b", "i4")])
f32 = np.zeros(64, np.float32)
f16 = np.zeros(64, np.float16)
f32_2d = np.zeros((8, 8), np.float32)


@pytest.fixture(scope="module")
def samples():
    """The module of kernels: importing numba is slow, so only these tests do it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.MonkeyPatch.context() as patch:
            patch.syspath_prepend(HERE)
            import numba_samples
    return numba_samples


CASES = {
    "plain": (f32, f32),
    "callees": (f32, f32),
    "half": (f16, f16),
    "atomics": (f32, np.zeros(8, np.int32)),
    "shuffles": (f32,),
    "memories": (f32,),
    "mathematics": (f32,),
    "grid_sync": (f32,),
    "records": (np.zeros(4, RECORD), np.zeros(1, RECORD)[0]),
    "complexes": (np.zeros(4, np.complex64), np.complex64(1), np.zeros(4, np.complex128)),
    "mixture": (f32_2d.T, f32_2d[::2, ::2], (f32, 2.0), True, np.float16(1), 3, 1.5),
    "integers": tuple(np.zeros(8, each) for each in ("i1", "u1", "i2", "u2", "u4", "i8")),
    "reshaped": (f32_2d,),
    "pairs": (Pair(f32, 2.0),),
    "host_compiled": (f32,),
    "random_numbers": (np.zeros(4, [("s0", "u8"), ("s1", "u8")]), f32),
}


@pytest.mark.parametrize("name", CASES)
def test_kernels_compile_and_their_parameters_are_what_a_launch_passes(samples, name):
    arguments = CASES[name]
    binary = compile_numba(getattr(samples, name), numba_types(arguments))
    assert binary.cubin, binary.log
    head = binary.ptx[binary.ptx.index(f".entry {binary.names[name]}(") :].split(")")[0]
    widths = [int(bits) // 8 for bits in re.findall(r"\.param\s+(?:\.align \d+\s+)?\.[a-z](\d+)", head)]
    assert widths == [each.dtype.itemsize for each in flatten_numba_arguments(arguments, lambda array: 4096)]
    runtime = {"memories": {"vprintf"}, "grid_sync": {"cudaCGSynchronize", "cudaCGGetIntrinsicHandle"}}
    assert {*ptx_text.undefined_functions(binary.ptx)} == runtime.get(name, set())


def test_the_entry_has_a_short_name_and_is_a_kernel(samples):
    binary = compile_numba(samples.plain, numba_types([f32, f32]), name="copy/plain")
    assert re.fullmatch(r"copy_plain_[0-9a-f]{8}", binary.names["copy/plain"])
    assert ptx_text.entries(binary.ptx) == (binary.names["copy/plain"],)
    assert "_param_0" in binary.ptx


def test_lines_point_into_python_also_for_device_functions(samples):
    binary = compile_numba(samples.callees, numba_types([f32, f32]))
    file = os.path.join(HERE, "numba_samples.py")
    assert file in ptx_text.files(binary.ptx)
    text = binary.sources[file].split("\n")
    used = {text[int(line) - 1].strip() for line in re.findall(r"\.loc\s+\d+ (\d+)", binary.ptx)}
    assert {"y[i] = plus(x[i], SCALE)", "y = x * 2"} <= used


def test_machine_code_carries_lines_of_the_text(samples):
    binary = compile_numba(samples.plain, numba_types([f32, f32]))
    lines = binary.ptx.split("\n")
    code = sass_of(binary).functions[binary.names["plain"]]
    loads = [each for each in code if each.opcode.startswith("LDG")]
    assert len(loads) == 1
    assert "ld.global.f32" in lines[loads[0].ptx_line - 1]


def test_float16_helpers_are_in_the_text_and_keep_the_kernel_s_lines(samples):
    binary = compile_numba(samples.half, numba_types([f16, f16]))
    assert ptx_text.defined_functions(binary.ptx)
    lines = binary.ptx.split("\n")
    code = sass_of(binary).functions[binary.names["half"]]
    assert all(
        "global" in lines[each.ptx_line - 1] for each in code if each.opcode.startswith(("LDG", "STG"))
    )


def test_dispatchers_are_left_as_they_were(samples):
    from numba.cuda import dispatcher

    before = dispatcher.get_current_device, dispatcher.CUDADispatcher.compile_device
    options = dict(samples.double_it.targetoptions)
    compile_numba(samples.callees, ["float64[::1]", "float64[::1]"])
    assert (dispatcher.get_current_device, dispatcher.CUDADispatcher.compile_device) == before
    assert not samples.double_it.overloads
    assert samples.double_it.targetoptions == options


@pytest.mark.parametrize("arch", ["sm_75", "sm_80", "sm_89", "sm_90", "sm_90a", "sm_100", "sm_120"])
def test_a_float_atomic_on_every_architecture(samples, arch):
    binary = compile_numba(samples.atomics, numba_types([f32, np.zeros(8, np.int32)]), arch=arch)
    assert f".target {arch}" in binary.ptx
    assert binary.cubin
    assert re.search(r"(atom|red)\S*\.add\.f32", binary.ptx)


def test_an_unknown_architecture(samples):
    with pytest.raises(SpecError, match="sm_30"):
        compile_numba(samples.plain, numba_types([f32, f32]), arch="sm_30")


def test_types_may_be_spelt_or_numba_s_own(samples):
    from numba.cuda import types

    spelt = compile_numba(samples.plain, ["float32[::1]", "float32[::1]"])
    assert spelt.ptx == compile_numba(samples.plain, numba_types([f32, f32])).ptx
    own = compile_numba(samples.plain, [types.Array(types.float32, 1, "C")] * 2)
    assert ptx_text.entries(own.ptx)


def test_an_undefined_name_names_its_line(samples):
    with pytest.raises(
        CompileError, match=r"undefined_name: .*nowhere.*line 118 of numba_samples\.py"
    ) as caught:
        compile_numba(samples.undefined_name, numba_types([f32]))
    assert "nowhere" in caught.value.log


def test_a_typing_error_names_its_line(samples):
    with pytest.raises(CompileError, match=r"wrong_attribute: .*nothing.*line 123 of numba_samples\.py"):
        compile_numba(samples.wrong_attribute, numba_types([f32]))


@pytest.mark.parametrize("given", [(f32,), (f32, f32, f32)])
def test_a_wrong_number_of_arguments(samples, given):
    with pytest.raises(ArgumentError, match="takes 2 arguments"):
        compile_numba(samples.plain, numba_types(given))


def test_what_is_no_kernel(samples):
    with pytest.raises(ArgumentError, match="device function"):
        compile_numba(samples.double_it, ["float32"])
    with pytest.raises(ArgumentError, match="not str"):
        compile_numba("plain", [])
    with pytest.raises(SpecError, match="fast"):
        compile_numba(samples.plain, numba_types([f32, f32]), fast=True)


def test_options(samples):
    fast = compile_numba(samples.mathematics, numba_types([f32]), fastmath=True)
    assert "sin.approx" in fast.ptx
    assert ".maxntid" in compile_numba(samples.plain, numba_types([f32, f32]), launch_bounds=128).ptx
    few = compile_numba(samples.plain, numba_types([f32, f32]), max_registers=16)
    assert "register count of 16" in few.log


def test_a_double_literal_is_seen(samples):
    binary = compile_numba(samples.promoted, numba_types([f32]))
    assert "mul.f64" in [opcode for _, opcode in f64_arithmetic(binary.ptx, binary.names["promoted"])]
    clean = compile_numba(samples.plain, numba_types([f32, f32]))
    assert f64_arithmetic(clean.ptx) == ()


def test_closures_and_globals_are_in_the_key(samples, monkeypatch):
    keys = {compile_numba(samples.scaled(factor), numba_types([f32])).key for factor in (16, 32, 16)}
    assert len(keys) == 2
    before = compile_numba(samples.callees, numba_types([f32, f32]))
    monkeypatch.setattr(samples, "SCALE", 77)
    after = compile_numba(samples.callees, numba_types([f32, f32]))
    assert before.key != after.key
    assert before.ptx.count("0f429A0000") + before.ptx.count("4053400000000000") == 0
    assert re.search(r"0f429A0000|4053400000000000|\b77\b", after.ptx)


def jobs(samples, calls=None):
    with open(os.path.join(HERE, "numba_samples.py"), encoding="utf-8") as file:
        text = file.read()

    def make(name):
        def build():
            if calls is not None:
                calls.append(name)
            return getattr(samples, name)

        return build

    shapes = {"plain": 2, "half": 2, "shuffles": 1}
    types = {"plain": "float32[::1]", "half": "float16[::1]", "shuffles": "float32[::1]"}
    return [NumbaJob(make(name), (types[name],) * count, name, (text,)) for name, count in shapes.items()]


def test_many_kernels_share_one_cubin_and_one_disassembly(fresh_cache, samples, monkeypatch):
    counted = []
    original = sass.disassemble
    monkeypatch.setattr(sass, "disassemble", lambda cubin: counted.append(1) or original(cubin))
    sass._disassemble.cache_clear()
    binaries = compile_numba_many(jobs(samples))
    assert len({binary.cubin for binary in binaries}) == 1
    for binary in binaries:
        lines = binary.ptx.split("\n")
        entry = next(iter(binary.names.values()))
        functions = sass_of(binary).functions
        assert [name for name in functions if name in ptx_text.entries(binary.ptx)] == [entry]
        stores = [each for each in functions[entry] if each.opcode.startswith("STG")]
        assert stores
        assert all("st.global" in lines[each.ptx_line - 1] for each in stores)
        assert list(resource_usage(binary)) == [entry]
    assert len(counted) == 1


def test_a_known_job_is_not_made(fresh_cache, samples):
    calls = []
    first = compile_numba_many(jobs(samples, calls))
    assert sorted(calls) == ["half", "plain", "shuffles"]
    memory.forget()
    second = compile_numba_many(jobs(samples, calls))
    assert len(calls) == 3
    assert [binary.ptx for binary in first] == [binary.ptx for binary in second]
    assert first[0].cubin == second[0].cubin


def test_a_known_job_costs_no_import_of_numba(fresh_cache, samples):
    compile_numba_many(jobs(samples))
    code = (
        "import sys\n"
        "from kernellab.compile import NumbaJob, compile_numba_many\n"
        f"text = open({os.path.join(HERE, 'numba_samples.py')!r}).read()\n"
        "job = lambda name, kind, count: NumbaJob(lambda: 1 / 0, (kind,) * count, name, (text,))\n"
        "many = [job('plain', 'float32[::1]', 2), job('half', 'float16[::1]', 2)]\n"
        "many += [job('shuffles', 'float32[::1]', 1)]\n"
        "assert all(binary.cubin for binary in compile_numba_many(many))\n"
        "assert not {'numba', 'llvmlite', 'cuda'} & {name.split('.')[0] for name in sys.modules}\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_texts_of_two_processes_do_not_get_mixed_up(samples):
    first = compile_numba(samples.half, numba_types([f16, f16]))
    second = compile_numba(samples.half, numba_types([f16, f16]), name="another")
    shared = set(ptx_text.defined_functions(first.ptx)) & set(ptx_text.defined_functions(second.ptx))
    assert not shared


def test_the_simulator_is_refused(monkeypatch):
    from kernellab.compile import numba_cuda

    monkeypatch.setenv("NUMBA_ENABLE_CUDASIM", "1")
    numba_cuda.cuda_module.cache_clear()
    try:
        with pytest.raises(UnavailableError, match="NUMBA_ENABLE_CUDASIM"):
            numba_cuda.cuda_module()
    finally:
        numba_cuda.cuda_module.cache_clear()


def test_no_numba_is_explained(monkeypatch):
    from kernellab.compile import numba_cuda

    monkeypatch.setitem(sys.modules, "numba", None)
    numba_cuda.cuda_module.cache_clear()
    try:
        with pytest.raises(UnavailableError, match="pip install"):
            numba_cuda.cuda_module()
    finally:
        numba_cuda.cuda_module.cache_clear()


def test_signatures_are_honoured_with_no_driver(samples):
    from numba import cuda

    from kernellab.compile import numba_cuda

    with numba_cuda.without_driver():

        @cuda.jit("float32(float32)", device=True)
        def twice(x):
            return x * 2

        @cuda.jit("void(float32[:], int32, float64)")
        def declared(x, n, f):
            x[n] = twice(x[0]) + f

    arguments = (f32, 3, 2)
    types = numba_types(arguments, declared)
    assert [str(each) for each in types] == ["float32[:]", "int32", "float64"]
    binary = compile_numba(declared, types)
    assert binary.cubin, binary.log
    flat = flatten_numba_arguments(arguments, lambda array: 4096, types)
    assert [each.dtype.name for each in flat[-2:]] == ["int32", "float64"]


def test_a_linked_cuda_function(samples, tmp_path):
    from numba import cuda

    source = tmp_path / "triple.cu"
    source.write_text(
        'extern "C" __device__ int triple(float* result, float x) { *result = 3 * x; return 0; }\n'
    )
    triple = cuda.declare_device("triple", "float32(float32)", link=str(source))

    @cuda.jit
    def kernel(x):
        x[0] = triple(x[1])

    binary = compile_numba(kernel, numba_types([f32]))
    assert binary.cubin, binary.log
    assert any(name.startswith("triple") for name in ptx_text.defined_functions(binary.ptx))
