"""apply and the functions on a GPU: what goes in comes out, on the current stream, without waiting."""

from __future__ import annotations

import time

import numpy as np
import pytest

import kernellab as kl

LANGUAGES = ("cuda-c", "numba")
each_language = pytest.mark.parametrize("language", LANGUAGES)


def floats(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape, dtype=np.float32)


@each_language
def test_cupy_in_cupy_out(cupy, language):
    host = floats(123, 45)
    x = cupy.asarray(host)
    options = {"device": "gpu", "language": language}
    for answer, expected in (
        (kl.copy(x, **options), host),
        (kl.transpose(x, **options), host.T),
        (kl.relu(x, **options), np.maximum(host, 0)),
        (kl.take(x, [0, -1, 77], **options), np.take(host, [0, -1, 77])),
        (kl.take(x, cupy.asarray([3, -2]), axis=1, **options), np.take(host, [3, -2], axis=1)),
        (kl.copy(x[::3, ::-1], **options), host[::3, ::-1]),
        (kl.transpose(x[1:, 1:], **options), host[1:, 1:].T),
    ):
        assert isinstance(answer, cupy.ndarray)
        assert np.array_equal(answer.get(), expected)


@each_language
def test_numpy_in_numpy_out(device, language):
    x = floats(33, 65)
    answer = kl.transpose(x, device="gpu", language=language)
    assert isinstance(answer, np.ndarray)
    assert np.array_equal(answer, x.T)


@pytest.mark.parametrize("shape", [(0,), (1,), (3, 0), (1, 1), (1025,)])
def test_edges(cupy, shape):
    x = cupy.asarray(floats(*shape))
    assert np.array_equal(kl.copy(x).get(), x.get())


def test_out(cupy):
    host = floats(40, 30)
    x, out = cupy.asarray(host), cupy.zeros((30, 40), np.float32)
    assert kl.transpose(x, out=out) is out
    assert np.array_equal(out.get(), host.T)
    room = cupy.zeros((30, 80), np.float32)
    kl.transpose(x, out=room[:, ::2])
    assert np.array_equal(room[:, ::2].get(), host.T)
    assert not room[:, 1::2].any()
    flat = cupy.asarray(floats(1001))
    before = flat[:1000].get()
    kl.copy(flat[:1000], out=flat[1:])
    assert np.array_equal(flat[1:].get(), before)
    on_host = np.zeros((30, 40), np.float32)
    assert kl.transpose(x, out=on_host) is on_host
    assert np.array_equal(on_host, host.T)


@each_language
def test_nothing_waits(cupy, spin, language):
    x = cupy.asarray(floats(1000))
    out = cupy.empty_like(x)
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        kl.copy(x, out=out, language=language)
        stream.synchronize()
        spin(1e-6)
        stream.synchronize()
        spin(0.5)
        start = time.perf_counter()
        kl.copy(x, out=out, language=language)
        taken = time.perf_counter() - start
        assert not stream.done
        stream.synchronize()
    assert taken < 0.25
    assert np.array_equal(out.get(), x.get())


@each_language
def test_a_slow_producer_on_another_stream(cupy, spin, language):
    """200 times: an array whose library names its stream is read only when it is ready."""
    from types import SimpleNamespace

    producer, consumer = (cupy.cuda.Stream(non_blocking=True) for _ in range(2))
    room = cupy.zeros(4096, np.float32)
    with consumer:
        kl.copy(room, language=language)
    with producer:
        spin(1e-6)
    cupy.cuda.Device().synchronize()
    for i in range(1, 201):
        with producer:
            spin(1e-4)
            room.fill(i)
            interface = {**room.__cuda_array_interface__, "stream": producer.ptr}
        with consumer:
            answer = kl.copy(
                SimpleNamespace(__cuda_array_interface__=interface, keep=room), language=language
            )
            assert (answer.get() == i).all()
        producer.synchronize()


def test_an_array_freed_while_a_kernel_on_another_stream_uses_it(cupy, spin):
    count = 2**20
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        kl.copy(cupy.zeros(count, np.float32))
        spin(1e-6)
        stream.synchronize()
    for i in range(20):
        x = cupy.full(count, i, np.float32)
        cupy.cuda.Stream.null.synchronize()
        with stream:
            spin(5e-3)
            answer = kl.copy(x)
        del x
        spoiler = cupy.full(count, np.nan, np.float32)
        with stream:
            assert (answer.get() == i).all()
        del spoiler


def test_a_pinned_buffer_overwritten_after_the_call(cupy, spin):
    memory = cupy.cuda.alloc_pinned_memory(4 * 2**20)
    host = np.frombuffer(memory, np.float32, 2**20)
    host[:] = 1
    spin(5e-3)
    device_copy = kl.device("gpu").on_device(host)
    host[:] = 2
    assert (device_copy.get() == 1).all()


def test_dlpack_of_another_library(cupy):
    class Other:
        def __init__(self, array):
            self.array = array

        def __dlpack__(self, **options):
            return self.array.__dlpack__(**options)

        def __dlpack_device__(self):
            return self.array.__dlpack_device__()

    host = floats(77)
    answer = kl.copy(Other(cupy.asarray(host)))
    assert isinstance(answer, cupy.ndarray)
    assert np.array_equal(answer.get(), host)


def test_numba_arrays(cupy):
    from kernellab.compile.numba_cuda import cuda_module

    cuda = cuda_module()
    host = floats(50)
    assert np.array_equal(kl.copy(cuda.to_device(host)).get(), host)


def test_the_emulator_refuses(cupy):
    with pytest.raises(kl.UnavailableError, match="lives on a GPU, where the emulator cannot read it"):
        kl.copy(cupy.zeros(3, np.float32), device="emulator")
