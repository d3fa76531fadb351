"""`measure`: verified numbers, and kernels that are wrong in every way that must be caught."""

from __future__ import annotations

import re
import tomllib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import kernellab as kl
from kernellab import catalog
from kernellab.kernel import Geometry, Kernel
from kernellab.measurement import PACKAGES
from kernellab.problem import Case, Cost, Operand, Problem

each_language = pytest.mark.parametrize("language", ["cuda-c", "numba"])


def measure(kernel, *arrays, **options):
    return kl.measure(kernel, *arrays, **{"device": "emulator", **options})


@pytest.fixture
def mutant(tmp_path):
    """Return the function (kernel id, old text, new text) -> Kernel with a changed source."""

    def change(name, *pairs):
        kernel = catalog.kernel(name)
        text = kernel.text()
        for old, new in pairs:
            assert old in text
            text = text.replace(old, new)
        path = tmp_path / f"{kernel.name}.cu"
        path.write_text(text, encoding="utf-8")
        return replace(kernel, source=path)

    return change


def floats(*shape):
    return np.random.default_rng(1).standard_normal(shape, dtype=np.float32)


# -- right kernels
@each_language
def test_counts_of_a_known_kernel(language):
    record = measure("transpose/tiled", language=language)
    assert record.is_right
    assert record.case == "256 x 256"
    # 2048 warps read a column of the tile: 32 lanes in one bank.
    assert record.value("shared_load_requests") == 2048
    assert record.value("shared_load_bank_conflicts") == 31 * 2048
    assert record.value("sectors_per_request_load") == record.value("sectors_per_request_store") == 4
    assert record.reading("shared_load_bank_conflicts").note == "SASS"
    assert record.reading("warp_instructions").note == "SASS"
    assert record.reading("ptx_warp_instructions").note == "PTX"
    assert record.value("shared_bytes") == 4096
    assert {item.source for item in record.readings} == {"counted", "derived"}
    assert sum(line.bank_conflicts for line in record.lines) == 31 * 2048


def test_the_first_case_with_a_fixed_seed_is_the_default():
    assert measure("uneven_work/unsorted").readings == measure("uneven_work/unsorted").readings


def test_the_default_case_is_of_the_kernel_s_elements():
    of_bytes = replace(catalog.kernel("copy/float4"), elements=("uint8",), constants={}, fallback=None)
    record = measure(of_bytes, language="cuda-c")
    assert record.is_right
    assert record.case == of_bytes.cases[0].name


def test_own_case():
    record = measure("transpose/naive", case=Case("mine", {"rows": 3, "columns": 70}))
    assert (record.case, record.sizes) == ("mine", {"rows": 3, "columns": 70})


def test_nothing_to_do_is_no_launch():
    record = measure("copy/float4", floats(0))
    assert record.is_right
    assert (record.grid, record.block) == ((0, 0, 0), (0, 0, 0))
    assert [(item.name, item.value) for item in record.readings] == [("launches", 0)]
    assert record.notes == ("copy/float4: there is nothing to do, so nothing was launched",)


def test_nothing_launched_still_zeroes():
    out = np.full(1000, 3, np.float32)
    record = measure("masked_rows/compact", case="no row active", out=out)
    assert record.is_right
    assert (record.grid, float(np.abs(out).max())) == ((0, 0, 0), 0.0)


def test_out_is_written_also_through_strides():
    x, room = floats(5, 3), np.zeros((3, 10), np.float32)
    assert measure("transpose/padded", x, out=room[:, ::2]).is_right
    assert np.array_equal(room[:, ::2], x.T)
    assert not room[:, 1::2].any()


def test_a_copied_view_is_noted():
    (note,) = measure("transpose/padded", floats(6, 6)[::2]).notes
    assert note.startswith("transpose/padded: x was copied (72 bytes): its strides (48, 4)")


def test_constants_reach_both_languages():
    kernel = catalog.kernel("transpose/tiled")
    for language in ("cuda-c", "numba"):
        small, usual = (
            measure(replace(kernel, constants={"TILE": tile}), floats(64, 64), language=language)
            for tile in (16, 32)
        )
        assert small.is_right
        assert usual.is_right
        assert (small.value("shared_bytes"), usual.value("shared_bytes")) == (1024, 4096)
        assert small.value("sectors_per_request_store") == 4
        assert small.value("shared_load_bank_conflicts") < usual.value("shared_load_bank_conflicts")


def test_other_architectures():
    for arch in ("sm_75", "sm_80", "sm_120"):
        record = measure("transpose/padded", floats(33, 33), device=kl.EmulatedDevice(arch))
        assert (record.arch, record.is_right) == (arch, True)
        assert record.reading("global_load_sectors").note == "SASS"


# -- wrong kernels
FAULTS = {
    "off by one store": ("y[i] = value;", "y[i ? i - 1 : 0] = value;", "y differs in"),
    "unwritten output": (
        "y[i] = value;",
        "if (value == 1.5e-30f) y[i] = value;",
        "which nothing wrote there",
    ),
    "every output NaN": (
        "y[i] = value;",
        "y[i] = value * __int_as_float(0x7fc00000);",
        "y differs in 65536 of 65536",
    ),
    "one element in 65536": (
        "y[i] = value;",
        "y[i] = i == 12345 ? value + 1 : value;",
        r"y differs in 1 of 65536 elements, first at \[12345\]",
    ),
    "store past the end": (
        "y[i] = value;",
        "y[i + 1] = value;",
        "out of bounds global store: 0 bytes past the end of y",
    ),
    "load before the start": ("x[i];", "x[i - 1];", "out of bounds global load"),
    "writes its input": ("y[i] = value;", "y[i] = value; const_cast<float*>(x)[i] = 0;", "x"),
}


@pytest.mark.parametrize(("old", "new", "message"), FAULTS.values(), ids=FAULTS)
def test_a_fault_is_caught(mutant, old, new, message):
    kernel = mutant("copy/scalar", (old, new), ("// copy", "// copy"))
    record = measure(kernel)
    assert not record.is_right
    with pytest.raises(kl.MismatchError, match=f"copy/scalar: .*{message}"):
        record.verdict.require()


def test_a_transposed_shape_is_refused_as_out_and_caught_in_a_kernel(mutant):
    wrong = mutant("transpose/naive", ("y[j * rows + i]", "y[i * columns + j]"))
    assert not measure(wrong).is_right


def test_a_barrier_removed_is_caught(mutant):
    kernel = mutant("transpose/tiled", ("__syncthreads();", ""))
    record = measure(kernel, sanitize=True)
    assert not record.is_right
    assert any("race" in text or "unwritten" in text for text in record.diagnostics)


def test_a_wrong_twin_fails_only_the_twin():
    def wrong(element):
        from numba import cuda

        def copy_scalar(x, y):
            i = cuda.grid(1)
            if i < x.size:
                y[i] = x[i] * x[i]

        return copy_scalar

    kernel = replace(catalog.kernel("copy/scalar"), twin=wrong)
    assert measure(kernel, language="cuda-c").is_right
    assert not measure(kernel, language="numba").is_right
    assert measure("copy/scalar", language="numba").is_right


@each_language
def test_an_exhibit_fails_where_it_says_so(language):
    assert measure("relu/multiply", language=language).is_right
    record = measure("relu/multiply", case="special values", language=language)
    assert not record.is_right
    assert not [item for item in record.readings if item.source == "measured"]


def test_out_of_bounds_is_a_diagnostic_and_counts_remain():
    out = np.full(2**16, 5, np.float32)
    record = measure("copy/float4_faulty", out=out)
    assert [text for text in record.diagnostics if "out of bounds global store" in text]
    assert record.value("global_load_requests") > 0
    assert (out == 5).all()


@pytest.mark.timeout(60)
def test_an_endless_loop_ends(mutant):
    kernel = mutant(
        "copy/scalar", ("y[i] = value;", "while (*(volatile float*)&y[i] != value) y[i] = value + 1;")
    )
    record = measure(kernel, floats(32), device=kl.EmulatedDevice(budget=2000))
    assert not record.is_right
    assert any("budget" in text or "deadlock" in text for text in record.diagnostics)


# -- what is refused
def test_arrays_and_a_case():
    with pytest.raises(
        kl.ArgumentError, match="copy/scalar: both arrays and case='1 elements' are given, one is eno"
    ):
        measure("copy/scalar", floats(3), case="1 elements")


def test_unknown_case():
    with pytest.raises(kl.SpecError, match="copy: there is no case '7'; its cases are '64 Ki elements'"):
        measure("copy/scalar", case="7")
    with pytest.raises(kl.SpecError, match="copy/scalar: case 'mine' has no size 'n', it needs n; add it"):
        measure("copy/scalar", case=Case("mine", {}))


def test_a_block_too_large_is_refused_before_compiling(monkeypatch):
    monkeypatch.setattr(kl.EmulatedDevice, "build", None)
    kernel = replace(catalog.kernel("transpose/naive"), constants={"TILE": 33})
    with pytest.raises(
        kl.SpecError, match=r"transpose/naive: block has 1089 threads, the limit is 1024; lower TILE"
    ):
        measure(kernel, floats(4, 4))


def test_shared_memory_follows_the_architecture():
    kernel = catalog.kernel("shared_stride/quads")
    static = replace(kernel.geometry, static_shared=None, dynamic_shared=lambda at: 120 * 1024)
    with pytest.raises(kl.SpecError, match="block needs 122880 bytes of shared memory, the limit is 101376"):
        measure(replace(kernel, geometry=static), device=kl.EmulatedDevice("sm_86"))


def test_a_source_that_does_not_compile(mutant):
    kernel = mutant("copy/scalar", ("y[i] = value;", "y[i] = valu;"))
    with pytest.raises(kl.CompileError, match=r"scalar\.cu") as caught:
        measure(kernel)
    assert 'identifier "valu" is undefined' in caught.value.log
    assert "scalar.cu(" in caught.value.log


def test_a_source_without_the_entry(mutant):
    kernel = mutant("copy/scalar", ("void copy_scalar(", "void something_else("))
    with pytest.raises(
        kl.SpecError, match="copy/scalar: its source must define copy_scalar, it defines something_el"
    ):
        measure(kernel)


def test_no_twin():
    kernel = replace(catalog.kernel("copy/scalar"), twin="Numba has no bulk copies")
    with pytest.raises(
        kl.SpecError, match="copy/scalar: it has no Numba twin: Numba has no bulk copies; pass langua"
    ):
        measure(kernel, language="numba")
    with pytest.raises(kl.SpecError, match="copy/scalar: it has no Numba twin: Numba has no bulk copies"):
        kl.compare(kernel, device="emulator")


# -- without tools
def test_without_nvdisasm_everything_is_approximate(monkeypatch):
    def absent(binary):
        raise kl.UnavailableError("nvdisasm is not here; pip install it")

    monkeypatch.setattr("kernellab.compile.sass.sass_of", absent)
    record = measure("transpose/padded")
    assert record.is_right
    counted = [item for item in record.readings if item.source == "counted"]
    assert {item.note for item in counted} == {"approximate", "PTX"}
    assert "nvdisasm is not here; pip install it" in record.notes
    assert not [item for item in record.readings if item.name.startswith("sass")]
    assert record.value("registers") > 0


# -- in place
NEGATE = Problem(
    name="negate",
    summary="x = -x",
    operands=(Operand("x", "float32", ("n",), role="inout"),),
    make_inputs=lambda case, rng: {"x": rng.standard_normal(case.sizes["n"], dtype=np.float32)},
    reference=lambda x: {"x": -x},
    cost=lambda sizes, arrays: Cost(4 * sizes["n"], 4 * sizes["n"]),
    cases=(Case("64", {"n": 64}),),
)


def negate_twin():
    from numba import cuda

    def negate_plain(x):
        i = cuda.grid(1)
        if i < x.size:
            x[i] = -x[i]

    return negate_plain


@each_language
def test_in_place_kernels_get_a_fresh_copy_each_time(tmp_path, language):
    source = tmp_path / "plain.cu"
    source.write_text(
        "// negate/plain: in place\n"
        'extern "C" __global__ void negate_plain(float* x, long long n) {\n'
        "    long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;\n"
        "    if (i < n) x[i] = -x[i];\n}\n"
    )
    geometry = Geometry((64,), lambda at: (1,))
    kernel = Kernel(NEGATE, "plain", ("x", "n"), geometry, negate_twin, source=source)
    x = floats(64)
    before = x.copy()
    for _ in range(2):
        assert measure(kernel, x, language=language).is_right
        assert np.array_equal(kl.apply(kernel, x, language=language, device="emulator"), -before)
        assert np.array_equal(x, before)
    kl.apply(kernel, x, out=x, language=language, device="emulator")
    assert np.array_equal(x, -before)


def test_the_packages_that_decide_are_named_for_every_cuda():
    project = tomllib.loads((Path(__file__).parent.parent / "pyproject.toml").read_text(encoding="utf-8"))
    extras = project["project"]["optional-dependencies"]
    wanted = {re.split("[<>=]", each)[0] for extra in ("cuda13", "cuda12") for each in extras[extra]}
    decide = {each for each in wanted if re.search("cupy|numba|nvrtc|nvdisasm", each)}
    assert len(decide) == 6
    assert decide <= set(PACKAGES)
