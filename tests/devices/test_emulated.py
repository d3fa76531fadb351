"""The emulator as a device: how often it compiles, and how it runs a plan."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import kernellab as kl
from kernellab import catalog
from kernellab.compile import cuda_c, memory, numba_cuda, sass
from kernellab.devices.emulated import is_stock
from kernellab.instruments.trace import readings
from kernellab.kernel import Kernel
from kernellab.plan import bind

NAIVE, TILED, PADDED, SWIZZLED = catalog.ladder("transpose")[:4]


def floats(*shape):
    return np.arange(np.prod(shape), dtype=np.float32).reshape(shape)


@pytest.fixture
def cold(tmp_path, monkeypatch):
    """Empty caches; count compiles and disassemblies."""
    monkeypatch.setenv("KERNELLAB_CACHE_DIR", str(tmp_path))
    memory.forget()
    sass._disassemble.cache_clear()
    counts = {"cuda": 0, "numba": 0, "sass": 0}

    def counting(module, name, key):
        real = getattr(module, name)

        def counted(*args, **options):
            counts[key] += 1
            return real(*args, **options)

        monkeypatch.setattr(module, name, counted)

    counting(cuda_c.nvrtc, "compile_text", "cuda")
    counting(numba_cuda, "compile_ptx", "numba")
    counting(sass, "disassemble", "sass")
    yield counts
    memory.forget()


@pytest.mark.parametrize("language", ["cuda-c", "numba"])
def test_a_ladder_is_one_compile_and_one_disassembly(cold, language):
    device = kl.EmulatedDevice()
    rungs = [rung for rung in catalog.ladder("transpose") if "float32" in (rung.elements or ("float32",))]
    for rung in rungs:
        if rung.tuning is None:  # others have constants of their own for each call
            assert kl.measure(rung, floats(5, 7), language=language, device=device).is_right
    assert cold["sass"] == 1
    assert cold["cuda"] == (language == "cuda-c")
    assert cold["numba"] == (len(rungs) if language == "numba" else 0)
    program = device.build(PADDED, language)
    assert [kernel for kernel, _ in program.parts] == list(rungs)
    assert len({binary.cubin for _, binary in program.parts}) == 1


def test_a_call_compiles_its_own_rung_only(cold):
    device = kl.EmulatedDevice()
    kl.apply(PADDED, floats(5, 7), device=device)
    assert [kernel for kernel, _ in device.build(PADDED, with_ladder=False).parts] == [PADDED]
    assert (cold["cuda"], cold["sass"]) == (1, 0)
    device.build(PADDED)
    assert cold["cuda"] == 2
    kl.apply(NAIVE, floats(5, 7), device=device)  # which is here with the ladder
    assert cold["cuda"] == 2


def test_swept_kernels_are_compiled_together_apart_from_the_ladder(cold):
    swept = [replace(TILED, constants={"TILE": tile}) for tile in (8, 16, 24)]
    device = kl.EmulatedDevice()
    program = device.build([TILED, *swept])
    assert cold["cuda"] == 2
    for kernel in (TILED, *swept):
        plan = bind(kernel, {"x": floats(30, 50)})
        assert np.array_equal(device.run(program, plan).outputs["y"], floats(30, 50).T)
    assert len({program.binary(kernel).cubin for kernel in swept}) == 1


def test_what_was_built_is_kept_until_the_source_changes(cold, tmp_path):
    source = tmp_path / "mine.cu"
    source.write_text(NAIVE.text())
    kernel = replace(NAIVE, source=source)
    device = kl.EmulatedDevice()
    first = device.build(kernel).binary(kernel)
    assert device.build(kernel).binary(kernel) is first
    source.write_text(NAIVE.text().replace("= value;", "= value + 1;"))
    assert device.build(kernel).binary(kernel) is not first
    assert kl.apply(kernel, floats(1, 1), device=device)[0, 0] == 1


def test_a_sibling_that_does_not_compile_takes_nothing_down(cold, monkeypatch):
    real = Kernel.text
    monkeypatch.setattr(Kernel, "text", lambda self: "nonsense" if self.name == "naive" else real(self))
    device = kl.EmulatedDevice()
    assert kl.measure("transpose/padded", floats(3, 3), device=device).is_right
    with pytest.raises(kl.CompileError, match=r"naive\.cu"):
        kl.measure("transpose/naive", floats(3, 3), device=device)


def test_what_is_stock():
    assert is_stock(PADDED)
    assert is_stock(replace(PADDED))
    assert not is_stock(replace(PADDED, constants={"TILE": 16}))
    assert not is_stock(replace(PADDED, name="other"))
    assert not is_stock(replace(PADDED, problem=replace(PADDED.problem, name="other")))


def test_two_twins_of_one_name_are_two_programs():
    def make(factor):
        def twin(element):
            from numba import cuda

            def copy_scalar(x, y):
                i = cuda.grid(1)
                if i < x.size:
                    y[i] = x[i] * factor

            return copy_scalar

        return replace(catalog.kernel("copy/scalar"), twin=twin)

    x = floats(5)
    for factor in (np.float32(2), np.float32(3)):
        assert np.array_equal(kl.apply(make(factor), x, language="numba", device="emulator"), x * factor)


def test_a_program_refuses_a_kernel_that_it_does_not_hold():
    device = kl.EmulatedDevice()
    program = device.build(catalog.kernel("relu/branch"))
    with pytest.raises(
        kl.SpecError, match=r"transpose/padded: the program holds relu/branch, .*, not this kernel; build"
    ):
        device.run(program, bind(PADDED, {"x": floats(2, 2)}))


def test_outputs_are_poison_where_nothing_wrote(tmp_path):
    source = tmp_path / "nothing.cu"
    source.write_text('extern "C" __global__ void copy_scalar(const float* x, float* y, long long n) {}\n')
    kernel = replace(catalog.kernel("copy/scalar"), source=source)
    device = kl.EmulatedDevice()
    run = device.run(device.build(kernel), bind(kernel, {"x": floats(40)}))
    assert np.isnan(run.outputs["y"]).all()
    assert (run.outputs["y"].view(np.uint32) == 0xFFFFFFFF).all()


def test_an_input_cannot_be_written(tmp_path):
    kernel = catalog.kernel("copy/scalar")
    source = tmp_path / "writes.cu"
    source.write_text(kernel.text().replace("y[i] = value;", "y[i] = value; ((float*)x)[i] = 3;"))
    changed = replace(kernel, source=source)
    device = kl.EmulatedDevice()
    x = floats(40)
    run = device.run(device.build(changed), bind(changed, {"x": x}))
    assert np.array_equal(x, floats(40))
    assert x.flags.writeable
    assert "x" in run.errors[0]


def test_a_plan_of_two_launches_adds_up():
    device = kl.EmulatedDevice()
    kernel = catalog.kernel("copy/offset")
    plan = bind(kernel, {"x": floats(4096)})
    once = device.run(device.build(kernel), plan)
    twice = device.run(device.build(kernel), replace(plan, steps=plan.steps * 2))
    assert np.array_equal(twice.outputs["y"], floats(4096))
    assert len(twice.traces) == 2
    first, second = ({item.name: item.value for item in readings(run.traces)} for run in (once, twice))
    for name, value in first.items():
        is_ratio = name == "warp_efficiency" or "_per_" in name
        assert second[name] == (value if is_ratio else 2 * value)


def test_limits_and_description():
    assert kl.EmulatedDevice("sm_86").limits.shared == 99 * 1024
    assert kl.EmulatedDevice("sm_90").limits.shared == 227 * 1024
    assert dict(kl.EmulatedDevice("sm_75").describe())["arch"] == "sm_75"
    with pytest.raises(kl.SpecError, match="arch: 'sm_35' is not known, it must be one of sm_75, sm_80"):
        kl.EmulatedDevice("sm_35")


def test_binaries_that_were_linked_have_listings_of_their_own():
    from kernellab.emulation import listing_of

    program = kl.EmulatedDevice().build(
        (catalog.kernel("relu/branch"), catalog.kernel("relu/branch_free")), "numba"
    )
    first, second = (program.binary(catalog.kernel(f"relu/{name}")) for name in ("branch", "branch_free"))
    assert first.cubin == second.cubin
    assert listing_of(first) is listing_of(first)
    assert listing_of(first) != listing_of(second)
