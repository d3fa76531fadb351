"""The GPU device on a fake CuPy: devices, streams, limits, memory, errors."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from fakes import KERNELS, OPTIN, FakeArray, FaultError, Foreign, Stream, make_gpu

import kernellab as kl
from kernellab import catalog
from kernellab.cli import doctor_command
from kernellab.devices import gpu as gpu_module
from kernellab.devices.gpu_health import Health
from kernellab.devices.gpu_launch import architecture, check_threads, image_of, most_threads
from kernellab.errors import OutOfMemoryError
from kernellab.plan import bind
from kernellab.sweeps import ascending

COPY = catalog.kernel("copy/scalar")


@pytest.fixture
def fake(monkeypatch):
    return make_gpu(monkeypatch)


@pytest.fixture
def world(fake):
    return fake[0]


@pytest.fixture
def device(fake):
    return fake[1]


def floats(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape, dtype=np.float32)


# -- is there one (E08)
@pytest.mark.parametrize("hidden", ["", "-1", " ", "-1,0"])
def test_hidden_devices_are_said_to_be_hidden(monkeypatch, hidden):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", hidden)
    with pytest.raises(kl.UnavailableError, match=f"CUDA_VISIBLE_DEVICES is '{hidden}', which hides every"):
        gpu_module.import_cupy()


@pytest.mark.parametrize("hidden", ["", "-1"])
def test_hidden_devices_leave_the_emulator(monkeypatch, hidden):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", hidden)
    monkeypatch.setattr("kernellab.devices.has_driver", lambda: True)
    assert kl.device("auto").name == "emulator"
    assert kl.copy(floats(3)).shape == (3,)


def test_a_driver_with_no_device_is_no_gpu(monkeypatch, world):
    monkeypatch.undo()
    world.devices = 0
    monkeypatch.setitem(sys.modules, "cupy", world.cupy)
    with pytest.raises(kl.UnavailableError, match="CUDA sees no device"):
        gpu_module.import_cupy()


def test_no_driver_is_no_gpu(monkeypatch, world):
    monkeypatch.undo()

    def absent():
        raise RuntimeError("cudaErrorInsufficientDriver")

    world.cupy.cuda.runtime.getDeviceCount = absent
    monkeypatch.setitem(sys.modules, "cupy", world.cupy)
    with pytest.raises(
        kl.UnavailableError, match="CUDA says cudaErrorInsufficientDriver; pass device='emulator'"
    ):
        gpu_module.import_cupy()


@pytest.mark.parametrize(
    "error",
    [
        FileNotFoundError(2, "No such file or directory", "/proc/.cupy"),
        PermissionError(13, "Permission denied", "/home/x/.cupy"),
        AttributeError("partially initialized module 'cupy'"),  # the second attempt of the process
    ],
)
def test_cupy_without_a_folder_for_its_cache_is_no_gpu(monkeypatch, error):
    class Finder:
        def find_spec(self, name, path=None, target=None):
            if name == "cupy":
                raise error

    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.delitem(sys.modules, "cupy", raising=False)
    monkeypatch.setattr(sys, "meta_path", [Finder(), *sys.meta_path])
    with pytest.raises(
        kl.UnavailableError,
        match="with CUPY_CACHE_DIR set to a folder that can be written, or pass device='emulator'",
    ):
        gpu_module.import_cupy()
    monkeypatch.setattr("kernellab.devices.has_driver", lambda: True)
    monkeypatch.setattr("kernellab.devices._gpu", gpu_module.GpuDevice)
    with pytest.warns(UserWarning, match="'auto' is the emulator; .* CUPY_CACHE_DIR"):
        assert kl.device("auto").name == "emulator"
    gpu = next(part for part in doctor_command.parts() if part.name == "GPU")
    assert gpu.value is None
    assert "CUPY_CACHE_DIR" in gpu.remedy


def test_auto_takes_the_gpu(device):
    assert kl.device("auto") is device


# -- too old, too new (C07)
@pytest.mark.parametrize(
    ("capability", "known", "expected"),
    [
        ("90", (75, 80, 86, 90, 100, 120), "sm_90"),
        ("86", (75, 80, 86, 90), "sm_86"),
        ("89", (75, 80, 86, 90), "sm_86"),  # machine code of the family runs
        ("130", (75, 80, 90, 120), "sm_120"),  # its driver compiles the PTX
        ("61", (50, 60, 61, 75), "sm_61"),
    ],
)
def test_what_is_compiled_for_a_gpu(capability, known, expected):
    assert architecture(capability, known) == expected


@pytest.mark.parametrize("capability", ["21", "61"])
def test_a_gpu_older_than_the_compiler(capability):
    text = f"{capability[0]}.{capability[1]}"
    with pytest.raises(
        kl.UnavailableError, match=rf"capability {text}, the NVRTC here compiles for 7.5 and newer; CUDA 12"
    ):
        architecture(capability, (75, 80, 90))


def test_machine_code_or_ptx():
    binary = SimpleNamespace(arch="sm_90", cubin=b"code", ptx="text", log="")
    assert image_of(binary, "90", "k") == (b"code", ".cubin")
    assert image_of(binary, "103", "k") == (b"text", ".ptx")
    for capability, cubin in (("80", b"code"), ("90", None)):
        with pytest.raises(kl.UnavailableError, match="k: there is no machine code"):
            image_of(SimpleNamespace(arch="sm_90", cubin=cubin, ptx="text", log=""), capability, "k")


def test_a_changed_source_is_built_again(world, device, tmp_path):
    path = tmp_path / "scalar.cu"
    path.write_text(COPY.text(), encoding="utf-8")
    kernel = replace(COPY, source=path)
    first = device.build(kernel)
    assert device.build(kernel) is first
    path.write_text(COPY.text() + "// changed\n", encoding="utf-8")
    second = device.build(kernel)
    assert second.binary(kernel).key != first.binary(kernel).key
    assert device.build(replace(kernel, constants={"MORE": 1})) is not second
    assert device.build(kernel) is second  # two sets of constants by turns


# -- what a block may have (C01, C02)
@pytest.mark.parametrize("static", [0, 1, 1024])
@pytest.mark.parametrize("total", [49151, 49152, 49153, OPTIN])
def test_shared_memory_is_opted_in(world, device, static, total):
    geometry = replace(
        COPY.geometry, static_shared=lambda at: static, dynamic_shared=lambda at: total - static
    )
    world.resources = (32, 1024, static)
    record = kl.measure(replace(COPY, geometry=geometry), floats(64), device="gpu", mode=None)
    assert record.is_right


def test_more_shared_memory_than_there_is():
    geometry = replace(COPY.geometry, dynamic_shared=lambda at: OPTIN + 1)
    with pytest.raises(
        kl.SpecError, match=f"block needs {OPTIN + 1} bytes of shared memory, the limit is {OPTIN}"
    ):
        kl.measure(replace(COPY, geometry=geometry), floats(64), device="emulator")


def test_a_smaller_launch_takes_nothing_from_a_larger_one(world, device):
    def plan(nbytes):
        geometry = replace(COPY.geometry, dynamic_shared=lambda at: nbytes)
        return bind(replace(COPY, geometry=geometry), {"x": floats(64)})

    large, small = plan(100_000), plan(60_000)
    program = device.build((large.kernel, small.kernel))
    buffers = {"x": world.array(floats(64)), "y": world.array(floats(64))}
    calls = [device.calls(program, each, buffers)[0] for each in (large, small)]
    calls[0]()
    assert len(world.launches()) == 1


def test_registers_limit_the_block(world, device):
    world.resources = (128, 512, 0)
    kernel = catalog.kernel("transpose/naive")
    with pytest.raises(
        kl.SpecError, match="transpose/naive: block has 1024 threads, but 128 registers a thread allow 512 on"
    ):
        kl.measure(kernel, floats(4, 4), device="gpu")


def test_registers_of_a_twin_limit_the_block():
    launch = bind(catalog.kernel("transpose/naive"), {"x": floats(4, 4)}).steps[0]
    check_threads(launch, 64, most_threads(64))
    with pytest.raises(kl.SpecError, match="80 registers a thread allow 768"):
        check_threads(launch, 80, most_threads(80))


# -- arrays of a GPU
def test_device_in_device_out_with_no_copy_and_no_wait(world, device):
    x = world.array(floats(100))
    kl.copy(x)  # compiles and loads
    world.log.clear()
    y = kl.copy(x)
    assert isinstance(y, FakeArray)
    assert np.array_equal(y.host, x.host)
    assert [item[0] for item in world.log] == ["launch"]


def test_numpy_in_numpy_out(device):
    x = floats(5, 7)
    y = kl.transpose(x, device="gpu")
    assert isinstance(y, np.ndarray)
    assert np.array_equal(y, x.T)


def test_a_pinned_buffer_overwritten_after_the_call(world, device):
    memory = world.cupy.cuda.alloc_pinned_memory(64)
    host = np.frombuffer(memory, np.float32)
    host[:] = 1
    moved = device.on_device(host)
    host[:] = 2
    assert (moved.get() == 1).all()
    assert ("synchronize", 0) not in world.log


def test_every_function_takes_device_arrays(world, device):
    x = world.array(floats(6, 4))
    for answer, expected in (
        (kl.copy(x), x.host),
        (kl.relu(x), np.maximum(x.host, 0)),
        (kl.transpose(x), x.host.T),
        (kl.take(x, [0, -1, 3]), x.host.reshape(-1)[[0, -1, 3]]),
        (kl.take(x, [5, 7], mode="wrap"), np.take(x.host, [5, 7], mode="wrap")),
        (kl.take(x, world.array(np.array([2, 1])), mode="clip"), np.take(x.host, [2, 1])),
    ):
        assert isinstance(answer, FakeArray)
        assert answer.shape == expected.shape
        assert np.array_equal(answer.host, expected)
    with pytest.raises(kl.SpecError, match=r"take: an index is 24, it must lie in \[-24, 24\)"):
        kl.take(x, world.array(np.array([24])))


def test_a_contiguous_output_is_written_by_the_kernel_itself(world, device):
    x, out = world.array(floats(8)), world.array(np.zeros(8, np.float32))
    kl.copy(x)
    world.log.clear()
    assert kl.copy(x, out=out) is out
    assert np.array_equal(out.host, x.host)
    assert [item[0] for item in world.log] == ["launch"]


def test_an_output_that_overlaps_or_is_strided_is_assigned_to(world, device):
    room = world.array(np.zeros(20, np.float32))
    x = world.array(floats(10))
    out = room[::2]
    assert kl.apply(COPY, x, out=out) is out
    assert np.array_equal(room.host[::2], x.host)
    both = world.array(floats(11))
    before = both.host[:10].copy()
    kl.apply(COPY, both[:10], out=both[1:])
    assert np.array_equal(both.host[1:], before)


@pytest.mark.parametrize("is_device_in", [True, False])
def test_outputs_of_the_other_kind(world, device, is_device_in):
    x = floats(8)
    given, out = (world.array(x), np.zeros(8, np.float32)) if is_device_in else (x, world.array(x * 0))
    assert kl.copy(given, out=out, device="gpu") is out
    assert np.array_equal(getattr(out, "host", out), x)


def test_a_strided_view_is_copied_and_noted(world, device):
    x = world.array(floats(20))
    record = kl.measure(COPY, x[::2], device="gpu", mode=None)
    assert record.is_right
    assert record.notes[0].startswith("copy/scalar: x was copied (40 bytes): its strides (8,)")


def test_an_unaligned_view_takes_the_fallback(world, device):
    record = kl.measure("copy/float4", world.array(floats(21))[1:], device="gpu", mode=None)
    assert record.kernel == "copy/scalar"


def test_the_emulator_refuses_device_arrays(world, device):
    with pytest.raises(kl.UnavailableError, match="x lives on a GPU, where the emulator cannot read it"):
        kl.copy(world.array(floats(3)), device="emulator")


def test_a_readonly_output_of_another_library(world, device):
    out = Foreign(floats(4), is_readonly=True)
    with pytest.raises(kl.SpecError, match="out is read-only"):
        kl.apply(COPY, world.array(floats(4)), out=out)


# -- streams (E01, E02)
@pytest.mark.parametrize(("stream", "waits"), [(None, 0), (1, 0), (555, 1), (2, 1)])
def test_the_stream_of_another_library_is_waited_for_on_the_device(world, device, stream, waits):
    x = Foreign(floats(16), stream)
    kl.copy(Foreign(floats(16)))
    world.log.clear()
    y = kl.copy(x)
    assert np.array_equal(y.host, x.host)
    kinds = [item[0] for item in world.log]
    assert kinds == ["record", "wait"] * waits + ["launch"]
    if waits:
        (_, event, recorded), (_, waiting, waited) = world.log[:2]
        assert (recorded, waiting, event) == (stream, 0, waited)


def test_a_foreign_array_made_on_the_current_stream_needs_no_wait(world, device):
    kl.copy(Foreign(floats(4)))
    with Stream(world, 77):
        world.log.clear()
        kl.copy(Foreign(floats(4), 77))
    assert [item[0] for item in world.log] == ["launch"]
    assert world.log[-1][2] == 77


def test_work_goes_to_the_current_stream_in_both_languages(world, device):
    x = world.array(floats(4))
    with Stream(world, 4321):
        for language in ("cuda-c", "numba"):
            kl.copy(x, language=language)
    assert {item[2] for item in world.launches()} == {4321}


def test_a_foreign_view_with_negative_strides(world, device):
    host = floats(6, 8)
    answer = kl.copy(Foreign(host[::-1, ::2]))
    assert np.array_equal(answer.host, host[::-1, ::2])


def test_what_queued_work_uses_is_kept_until_it_is_done(world, device):
    x = world.array(floats(8))
    world.is_idle = False
    kl.copy(x)
    held = device.health._queued[0][2]
    assert any(array is x for array in held[0].values())
    assert device.health.held == 1
    for event in world.events:
        event.is_done = True
    device.health.prune()
    assert device.health.held == 0


def test_a_very_long_queue_is_waited_for(world, monkeypatch):
    monkeypatch.setattr("kernellab.devices.gpu_health.KEPT", 3)
    health = Health(world.cupy)
    world.is_idle = False
    for _ in range(6):
        health.hold("k", None)
    assert health.held == 3


# -- several devices (E07, H15)
def test_arrays_on_two_devices_are_refused(monkeypatch):
    world, _ = make_gpu(monkeypatch, devices=2)
    kernel = catalog.kernel("copy/take")
    with world.on(1):
        table = world.array(floats(4))
    index = world.array(np.array([0, 1]))
    with pytest.raises(
        kl.SpecError, match="copy/take: its arrays are on devices 0 and 1, they must be on one"
    ):
        kl.apply(kernel, table, index)


def test_the_device_of_the_arrays_is_made_current_and_loads_its_own_code(monkeypatch):
    world, _ = make_gpu(monkeypatch, devices=2)
    answers = []
    for number in (0, 1):
        with world.on(number):
            x = world.array(floats(4))
        answers.append(kl.copy(x))
    assert [answer.device.id for answer in answers] == [0, 1]
    assert [item[1] for item in world.log if item[0] == "load"] == [0, 1]
    assert world.number == 0


def test_outputs_on_another_device_are_refused(monkeypatch):
    world, _ = make_gpu(monkeypatch, devices=2)
    with world.on(1):
        out = world.array(np.zeros(4, np.float32))
    with pytest.raises(kl.SpecError, match="on devices 0 and 1"):
        kl.apply(COPY, world.array(floats(4)), out=out)


def test_a_clock_of_another_device_refuses_to_time():
    from kernellab.instruments.cuda_clock import CudaStopwatch

    clock = CudaStopwatch.__new__(CudaStopwatch)
    clock.number = 0
    clock.cupy = SimpleNamespace(cuda=SimpleNamespace(runtime=SimpleNamespace(getDevice=lambda: 1)))
    with pytest.raises(kl.SpecError, match="made for device 0, the current one is 1"):
        clock.mark()


# -- memory (E04, E10)
def test_short_of_memory_the_pools_are_freed_once(world, device):
    world.memory, world.used = 2000, 1990
    device.allocate(lambda: world.cupy.empty((100,), np.uint8))
    assert world.frees == 2  # device and pinned


def test_still_short_it_says_who_holds_what(world, device):
    world.memory = 50
    with pytest.raises(
        OutOfMemoryError,
        match=r"out of memory .*CuPy's pool holds 0 bytes in use and 0 free of 0; .* Numba has 0 bytes to give "
        r"back; the device has 50 of 50 bytes free, 0 used; free arrays or take a smaller size",
    ):
        device.allocate(lambda: world.cupy.empty((100,), np.uint8))
    assert world.frees == 2


def test_the_larger_sizes_of_a_sweep_are_skipped_once_memory_is_short(world, device):
    world.memory, notes, tried = 1000, [], []

    def attempt(nbytes):
        tried.append(nbytes)
        return device.allocate(lambda: world.cupy.empty((nbytes,), np.uint8)).nbytes

    assert ascending((4096, 512, 2048, 768), int, attempt, notes) == {512: 512, 768: 768}
    assert tried == [512, 768, 2048]
    assert notes[0].startswith("left out: 2 of 4 sizes, from 2048 on: gpu: out of memory")


def test_a_sweep_ends_for_no_other_error(device):
    with pytest.raises(kl.ExecutionError, match="broken"):
        ascending((1, 2), int, lambda n: (_ for _ in ()).throw(kl.ExecutionError("broken")), [])


def poke(array, offset):
    """Write a byte so far from an array's start, as a kernel's pointer can."""
    ctypes.c_uint8.from_address(array.ctypes.data + offset).value ^= 0x55


@pytest.mark.parametrize(
    ("reach", "message"),
    [
        (lambda x, y: poke(y, y.nbytes), "1 bytes past the end of y were overwritten"),
        (lambda x, y: poke(y, -1), "1 bytes before y were overwritten"),
        (lambda x, y: poke(x, x.nbytes + 4000), "1 bytes past the end of x were overwritten"),
        (lambda x, y: poke(x, 3), "it wrote into its input x"),
    ],
)
@pytest.mark.parametrize("is_device_in", [True, False])
def test_writing_beside_an_array_fails_the_verdict(world, device, reach, message, is_device_in):
    def kernel(x, y, n):
        y[...] = x
        reach(x, y)

    world.kernels["copy_scalar"] = kernel
    x = floats(9)
    record = kl.measure(COPY, world.array(x) if is_device_in else x, device="gpu")
    assert not record.is_right
    assert message in record.verdict.message
    assert not record.timings


def test_reading_past_the_end_of_an_input_spoils_the_answer(world, device):
    def kernel(x, y, n):
        past = (ctypes.c_float * int(n + 1)).from_address(x.ctypes.data)
        y[...] = np.array(past[1:], np.float32)

    world.kernels["copy_scalar"] = kernel
    x = np.ones(9, np.float32)
    assert not kl.measure(COPY, x, device="gpu").is_right


def test_an_output_that_nothing_wrote_fails(world, device):
    world.kernels["copy_scalar"] = lambda x, y, n: None
    record = kl.measure(COPY, floats(9), device="gpu")
    assert "which nothing wrote there" in record.verdict.message


# -- errors (E05, E06)
def test_a_sticky_error_names_the_first_failing_kernel_and_ends_the_run(world, device):
    def fault(*arguments):
        raise FaultError

    world.kernels["copy_scalar"] = fault
    x = world.array(floats(8))
    kl.apply("transpose/naive", world.array(floats(2, 2)))
    kl.apply(COPY, x)  # only queued: nothing is known yet
    world.surface()
    with pytest.raises(kl.ExecutionError, match=r"^copy/scalar: CUDA says cudaErrorIllegalAddress"):
        kl.apply("transpose/naive", world.array(floats(2, 2)))
    world.kernels.update(KERNELS)
    for _ in range(2):
        with pytest.raises(kl.ExecutionError, match="the CUDA context is dead since copy/scalar failed"):
            kl.apply("transpose/naive", world.array(floats(2, 2)))


def test_measuring_a_faulty_kernel_names_it(world, device):
    def fault(*arguments):
        raise FaultError

    world.kernels["copy_scalar"] = fault
    with pytest.raises(kl.ExecutionError, match=r"^copy/scalar: CUDA says cudaErrorIllegalAddress"):
        kl.measure(COPY, floats(8), device="gpu")
    with pytest.raises(kl.ExecutionError, match="dead since copy/scalar failed"):
        kl.measure("transpose/naive", floats(2, 2), device="gpu")


def test_a_refused_launch_breaks_nothing(world, device):
    def refuse(*arguments):
        raise world.cupy.cuda.driver.CUDADriverError("CUDA_ERROR_INVALID_VALUE: invalid argument")

    world.kernels["copy_scalar"] = refuse
    with pytest.raises(kl.ExecutionError, match=r"^copy/scalar: CUDA says CUDA_ERROR_INVALID_VALUE"):
        kl.measure(COPY, floats(8), device="gpu")
    assert kl.measure("transpose/naive", floats(2, 2), device="gpu", mode=None).is_right


def test_a_forked_child_is_told_to_spawn(device, monkeypatch):
    process = os.getpid()
    monkeypatch.setattr("kernellab.devices.gpu_health.os.getpid", lambda: process + 1)
    with pytest.raises(kl.UnavailableError, match=r"forked after CUDA had started.*get_context\('spawn'\)"):
        kl.measure(COPY, floats(8), device="gpu")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_fork_after_the_import_is_fine():
    code = (
        "import os, sys, numpy as np, kernellab as kl\n"
        "child = os.fork()\n"
        "if child == 0:\n"
        "    answer = kl.copy(np.ones(3, 'float32'), device='emulator')\n"
        "    os._exit(0 if answer.sum() == 3 and 'cupy' not in sys.modules else 1)\n"
        "print(os.waitpid(child, 0)[1])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "0"
