"""The rungs as sources: headers, signatures, constants, and the faults that can be seen without running."""

from __future__ import annotations

import dis
import inspect
import re
import types

import numpy as np
import pytest
from catalog_runs import is_tested

from kernellab import catalog
from kernellab.devices.emulated import arch_for
from kernellab.instruments.float64 import float64_lines
from kernellab.kernel import LANGUAGES, TABLE, kernels_folder

RUNGS = catalog.kernels()
each_rung = pytest.mark.parametrize("rung", RUNGS, ids=lambda rung: rung.id)
PARTS = [part for rung in RUNGS for part in rung.parts]
TWINS = [part for part in PARTS if part.has_twin]
each_part = pytest.mark.parametrize("rung", PARTS, ids=lambda rung: rung.entry)
each_twin = pytest.mark.parametrize("rung", TWINS, ids=lambda rung: rung.entry)
each_language = pytest.mark.parametrize("language", LANGUAGES)

C_TYPES = {"float32": "float", "int64": "long long", "int32": "int", "bool": "bool", "uint8": "unsigned char"}
C_TYPES |= {"uint32": "unsigned", "uint64": "unsigned long long"}
VECTORS = {"float2": "float", "float4": "float", "Record": "float", "uint2": "uint64"}


def test_every_file_is_a_rung():
    files = {f"{path.parent.name}/{path.stem}" for path in kernels_folder().glob("*/*.cu")}
    assert files == {rung.id for rung in RUNGS}


@each_rung
def test_header(rung):
    header = rung.header
    assert header.id == rung.id
    assert set(header.sections) == {"computes", "mapping", "teaches", "source"}
    operations = {(count.space, count.operation) for count in header.counts}
    plain = [operand for operand in rung.operands if operand.name not in rung.tiles]
    assert (("global", "load") in operations) == any(operand.is_input for operand in plain)
    writes = bool({("global", "store"), ("global", "atomic")} & operations)
    assert writes == any(operand.role != "in" for operand in plain)
    assert (("shared", "load") in operations) == ("__shared__" in rung.text())
    named = {operand.name for operand in plain if operand.role != "scratch"}
    scratch = {operand.name for operand in rung.temporaries}
    assert {count.array for count in header.counts if count.space == "global"} - scratch == named
    assert bool(rung.fault) == ("on purpose" in rung.text())
    if rung.fails_on:
        assert rung.fault or rung.gives_up
    if rung.fault and not rung.fails_on:
        assert "an exhibit" in header.lesson
    assert rung.text().count("\n") <= 120


def speeds_in(text):
    """Speeds and times, which are measured and stand in files of results."""
    return re.findall(r"\d (?:[GT]B/s|[GT]FLOP/s|[mun]s\b)", text)


def test_no_speed_is_typed_by_hand():
    paths = [path for path in kernels_folder().rglob("*") if path.suffix in (".cu", ".cuh")]
    assert paths
    assert [(path.name, found) for path in paths if (found := speeds_in(path.read_text("utf-8")))] == []
    assert speeds_in("2^28 floats at 4255 GB/s take 505 us.") == ["5 GB/s", "5 us"]


def parameters_of(text, entry):
    (signature,) = re.findall(rf"void {entry}\(([^)]*)\)", text)
    return [
        re.fullmatch(r"(?:const )?(.*?)(\*?)(?: __restrict__)? (\w+)", " ".join(part.split())).groups()
        for part in signature.split(", ")
        if part
    ]


@each_part
def test_signature_is_what_the_kernel_says(rung):
    parameters = parameters_of(" ".join(rung.text().split()), rung.entry)
    assert tuple(name for _, _, name in parameters) == rung.arguments
    operands = {operand.name: operand for operand in rung.operands}
    scalars = {parameter.name: parameter.dtype for parameter in rung.parameters}
    for base, pointer, name in parameters:
        assert bool(pointer) == (name in operands and name not in rung.tiles)
        assert (base == "__grid_constant__ TileMap") == (name in rung.tiles)
        assert (base == f"__grid_constant__ tensors{len(rung.table)}_t") == (name == TABLE)
        dtype = operands[name].dtype if pointer else scalars.get(name, "int64")
        if base == "element_t":
            assert dtype == rung.element
        elif name not in rung.tiles and name != TABLE:
            assert VECTORS.get(base, base) == C_TYPES[dtype]


@each_twin
def test_twin_takes_the_same_arguments(rung):
    function = rung.twin_function()
    assert function.__name__ == rung.entry
    taken = function.__code__.co_varnames[: function.__code__.co_argcount]
    assert len(taken) == len(rung.arguments_for("numba"))
    assert taken == rung.arguments_for("numba") or rung.problem.name == "shared_stride"


@each_rung
def test_defaults_in_the_file_are_the_constants(rung):
    defaults = dict(re.findall(r"#ifndef (\w+)\n#define \1 (\w+)\n#endif", rung.text()))
    own = {name: value for name, value in rung.constants.items() if name != "ELEMENT"}
    assert {name: int(value) for name, value in defaults.items()} == own
    assert bool(rung.elements) == ("element_t" in rung.text())
    for name in own:
        assert re.search(rf'static_assert\([^;]*\b{name}\b[^;]*"{rung.id}: ', rung.text())


def uncast_products(text):
    """Products of block indices whose factors are both 32 bits wide (field report B08)."""
    code = re.sub(r"//.*", "", text)
    return re.findall(r"(?<!\(long long\))(?<!\* )block(?:Idx|Dim)\.\w \* (?!\(long long\))\w+", code)


@each_rung
def test_index_products_are_widened(rung):
    assert uncast_products(rung.text()) == []


def test_the_lint_sees_an_uncast_product():
    assert uncast_products("int i = blockIdx.x * blockDim.x + threadIdx.x;")
    assert not uncast_products("long long i = (long long)blockIdx.x * blockDim.x;")


@each_rung
def test_no_return_before_a_barrier_and_no_host_code(rung):
    code = re.sub(r"//.*", "", rung.text())
    assert "<<<" not in code
    assert "#include <" not in code
    assert "main(" not in code
    assert not any("return" in body for body in kernel_bodies(code))


def kernel_bodies(code):
    """The text of each __global__ function, from its opening brace to the closing one, without small lambdas."""
    code = re.sub(r"\[[=&]?\]\([^)]*\) {[^{}]*}", "", code)
    for after in code.split("__global__")[1:]:
        start = after.index("{")
        depth = 0
        for place, letter in enumerate(after[start:], start):
            depth += (letter == "{") - (letter == "}")
            if depth == 0:
                yield after[start:place]
                break


def test_the_lint_sees_a_return_in_a_kernel_only():
    helper = "int f() { return 1; } __global__ void k() { if (f()) { g(); } } int h() { return 2; }"
    assert not any("return" in body for body in kernel_bodies(helper))
    assert not any(
        "return" in body for body in kernel_bodies("__global__ void k() { g([=](int) { return 1; }); }")
    )
    assert any("return" in body for body in kernel_bodies("__global__ void k() { if (a) { return; } }"))


def is_fixed(value):
    """Whether nobody can change a value, or it belongs to Numba."""
    if isinstance(value, tuple):
        return all(map(is_fixed, value))
    if isinstance(value, np.ndarray):
        return not value.flags.writeable
    simple = int | float | np.generic | types.ModuleType | types.FunctionType | type
    return isinstance(value, simple) or type(value).__module__.startswith("numba")


@each_twin
def test_twin_reads_no_mutable_global(rung):
    function = rung.twin_function()
    names = {step.argval for step in dis.get_instructions(function) if step.opname == "LOAD_GLOBAL"}
    assert names <= {"range"}
    assert all(is_fixed(cell.cell_contents) for cell in function.__closure__ or ())


@each_part
@each_language
def test_compiles_with_its_entry_and_no_float64_but_for_a_reason(rung, language, binary_of):
    if language == "numba" and not rung.has_twin:
        pytest.skip(rung.twin)
    if not is_tested(rung, language):
        pytest.skip("with KERNELLAB_EXHAUSTIVE=1 only")
    binary = binary_of(rung, language)
    entry = binary.names[rung.entry]
    assert binary.cubin
    found = float64_lines(binary, entry)
    assert bool(found) == bool(rung.float64), found


def narrow_products(ptx):
    """32-bit products of the block index in PTX: what wraps at 2**32 elements."""
    narrow, found = {"%ctaid.x", "%ctaid.y", "%ctaid.z"}, []
    for line in ptx.splitlines():
        opcode, _, operands = line.strip().rstrip(";").partition(" ")
        target, *sources = [operand.strip() for operand in operands.split(",")]
        if not narrow & set(sources):
            continue
        if re.match(r"(mul|mad)\.lo\.[su]32$", opcode):
            found.append(line.strip())
        if re.match(r"(mov|add|sub|shl)\.[bsu]32$", opcode):
            narrow.add(target)
    return found


@each_part
@each_language
def test_index_products_are_wide_in_ptx(rung, language, binary_of):
    if language == "numba" and not rung.has_twin:
        pytest.skip(rung.twin)
    if not is_tested(rung, language):
        pytest.skip("with KERNELLAB_EXHAUSTIVE=1 only")
    binary = binary_of(rung, language)
    body = binary.ptx.partition(f".entry {binary.names[rung.entry]}(")[2].partition("\n}")[0]
    assert "%ctaid" in body or rung.stage
    assert narrow_products(body) == []


def test_the_lint_sees_a_narrow_product():
    assert narrow_products("mov.u32 %r1, %ctaid.x;\nmad.lo.s32 %r4, %r1, %r2, %r3;")
    assert not narrow_products("mov.u32 %r1, %ctaid.x;\nmul.wide.u32 %rd1, %r1, %r2;")


@pytest.mark.parametrize("problem", catalog.PROBLEMS)
@each_language
def test_a_problem_is_one_cubin(problem, language, binary_of):
    rungs = [rung for rung in catalog.kernels(problem) if language == "cuda-c" or rung.has_twin]
    rungs = [rung for rung in rungs if is_tested(rung, language)]
    cubins = {binary_of(rung, language).cubin for rung in rungs}
    apart = {(arch_for(rung, "sm_90"), rung.is_fast_math and language == "cuda-c") for rung in rungs}
    assert len(cubins) == len(apart)


@pytest.mark.parametrize(
    "rung", [rung for rung in catalog.kernels("transpose") if rung.has_twin], ids=lambda rung: rung.id
)
def test_twins_follow_their_constants(rung):
    from dataclasses import replace

    from kernellab.compile import compile_numba

    (name, size), *_ = rung.constants.items()
    changed = [replace(rung, constants={**rung.constants, name: each}) for each in (size, 2 * size)]
    ptx = [compile_numba(each.twin_function(), each.twin_types()).ptx for each in changed]
    assert ptx[0] != ptx[1]


@each_twin
def test_numba_finds_the_source_of_a_twin(rung):
    """Debug lines come from there: where it finds none it warns, and they may be wrong."""
    twin = rung.twin_function()
    assert f"def {twin.__code__.co_name}(" in inspect.getsource(twin)
