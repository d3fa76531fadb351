"""The device: right answers in both languages, limits, shared memory opted in, devices."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
from rungs import LANGUAGES, Pool

import kernellab as kl
from kernellab import catalog

EXHIBITS = [kernel for kernel in catalog.kernels() if kernel.fails_on]
RUNGS = [kernel for kernel in catalog.kernels() if not kernel.fails_on]


def floats(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape, dtype=np.float32)


@pytest.fixture(scope="module")
def pool(request):
    chosen = [item for item in request.session.items if item.originalname.startswith("test_every_rung")]
    pool = Pool({item.callspec.params["kernel"].problem.name for item in chosen})
    yield pool
    pool.close()


@pytest.fixture(scope="module")
def failures(pool):
    """What the exhibits' runs end with; a process for each, as one that faults breaks its context."""

    def attempt(kernel):
        case = kernel.fails_on[0]
        kl.measure(kernel, case=case, device="gpu", mode=None, isolated=True).verdict.require()

    with ThreadPoolExecutor(len(EXHIBITS)) as threads:
        work = {kernel.id: threads.submit(attempt, kernel) for kernel in EXHIBITS}
        return {name: future.exception() for name, future in work.items()}


@pytest.mark.parametrize("kernel", EXHIBITS, ids=lambda kernel: kernel.id)
def test_exhibits_fail_where_they_say_so(failures, kernel):
    error = failures[kernel.id]
    assert isinstance(error, kl.ExecutionError | kl.MismatchError)
    assert str(error).startswith(f"{kernel.id}: ")


@pytest.mark.parametrize("kernel", RUNGS, ids=lambda kernel: kernel.id)
def test_every_rung_is_right_on_every_case_in_both_languages(pool, kernel):
    for language in LANGUAGES[: 1 + kernel.has_twin]:
        found = pool.answers(kernel.id, language)
        assert not found.wrong, f"{language}: {found.wrong[0]} ({len(found.wrong)} cases)"
        every = len(kernel.cases)
        assert found.cases == every if language == "cuda-c" else 0 < found.cases <= every


def test_describes_itself(device):
    about = device.describe()
    assert about["l2_bytes"] > 0
    assert about["arch"].startswith("sm_")
    assert about["multiprocessors"] == device.limits.multiprocessors


def test_kernels_are_loaded_once(device):
    x = floats(64)
    kl.measure("copy/scalar", x, device="gpu", mode=None)
    before = len(device.launcher._functions)
    kl.measure("copy/scalar", x, device="gpu", mode=None)
    assert len(device.launcher._functions) == before


@pytest.mark.parametrize("static", [0, 1])
def test_shared_memory_up_to_the_limit(device, tmp_path, static):
    kernel = catalog.kernel("copy/scalar")
    path = tmp_path / "scalar.cu"
    declared = "__shared__ char one[1];" if static else ""
    used = "one[0] = 1;" if static else ""
    path.write_text(
        'extern "C" __global__ void copy_scalar(const float* x, float* y, long long n) {\n'
        f"    extern __shared__ char room[]; {declared}\n"
        "    long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;\n"
        f"    room[threadIdx.x] = 1; {used} __syncthreads();\n"
        f"    if (i < n) y[i] = x[i] * room[threadIdx.x ^ 1] {'* one[0]' if static else ''};\n}}\n",
        encoding="utf-8",
    )
    for total in (49151, 49152, 49153, device.limits.shared):
        # The compiler may round what is declared up, so the dynamic part is what remains of it.
        dynamic = total - (16 if static else 0)
        geometry = replace(
            kernel.geometry, static_shared=lambda at: static, dynamic_shared=lambda at, room=dynamic: room
        )
        record = kl.measure(
            replace(kernel, source=path, geometry=geometry), floats(1000), device="gpu", mode=None
        )
        assert record.is_right
        assert record.shared_mem == dynamic


def test_one_byte_more_than_the_limit_is_refused(device):
    kernel = catalog.kernel("copy/scalar")
    limit = device.limits.shared
    geometry = replace(kernel.geometry, dynamic_shared=lambda at: limit + 1)
    with pytest.raises(kl.SpecError, match=f"needs {limit + 1} bytes of shared memory, the limit is {limit}"):
        kl.measure(replace(kernel, geometry=geometry), floats(64), device="gpu")


def test_shared_memory_of_a_twin_up_to_the_limit(device):
    def factory(element):
        from numba import cuda

        def copy_scalar(x, y):
            room = cuda.shared.array(0, "float32")
            i = cuda.grid(1)
            room[cuda.threadIdx.x] = 1.0
            cuda.syncthreads()
            if i < x.size:
                y[i] = x[i] * room[cuda.threadIdx.x ^ 1]

        return copy_scalar

    kernel = catalog.kernel("copy/scalar")
    limit = device.limits.shared
    for total in (49152, 49153, limit):
        geometry = replace(kernel.geometry, dynamic_shared=lambda at, total=total: total)
        record = kl.measure(
            replace(kernel, geometry=geometry, twin=factory), floats(1000), device="gpu", language="numba",
            mode=None,
        )  # fmt: skip
        assert record.is_right


def test_a_block_with_too_many_threads_or_registers_is_refused(device, tmp_path):
    naive = catalog.kernel("transpose/naive")
    with pytest.raises(kl.SpecError, match="block has 1089 threads, the limit is 1024"):
        kl.measure(replace(naive, constants={**naive.constants, "TILE": 33}), floats(4, 4), device="gpu")
    kernel = catalog.kernel("copy/scalar")
    path = tmp_path / "scalar.cu"
    sums = "\n".join(f"    float v{i} = x[(i + {i}) % n];" for i in range(160))
    used = " + ".join(f"v{i} * v{(i * 7 + 3) % 160}" for i in range(160))
    path.write_text(
        'extern "C" __global__ void __launch_bounds__(128)\n'
        "copy_scalar(const float* x, float* y, long long n) {\n"
        "    long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;\n"
        f"    if (i >= n) return;\n{sums}\n    __syncwarp();\n    y[i] = {used};\n}}\n",
        encoding="utf-8",
    )
    geometry = replace(kernel.geometry, block=(1024,))
    with pytest.raises(
        kl.SpecError, match=r"block has 1024 threads, but \d+ registers a thread allow \d+ on"
    ):
        kl.measure(replace(kernel, source=path, geometry=geometry), floats(2048), device="gpu")


@pytest.mark.gpu(count=2)
def test_arrays_of_two_devices(cupy):
    arrays = []
    for number in (0, 1):
        with cupy.cuda.Device(number):
            arrays.append(cupy.asarray(floats(1000, seed=number)))
    for x in arrays:
        for language in LANGUAGES:
            y = kl.copy(x, language=language)
            assert y.device.id == x.device.id
            assert np.array_equal(y.get(), x.get())
    with cupy.cuda.Device(1):
        index = cupy.arange(10)
    with pytest.raises(kl.SpecError, match="on devices 0 and 1, they must be on one"):
        kl.apply("copy/take", arrays[0], index)
