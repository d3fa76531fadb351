"""What callers give: views, foreign arrays, too few, too many, and what is no array."""

from __future__ import annotations

import time

import numpy as np
import pytest

import kernellab as kl
from kernellab import catalog
from kernellab.intake import take_in

COPY = catalog.kernel("copy/scalar")
WIDE = catalog.kernel("copy/float4")


def floats(*shape):
    return np.arange(np.prod(shape), dtype=np.float32).reshape(shape)


class Exports:
    """An array of another library, with the protocols given."""

    def __init__(self, array, *protocols):
        self.array = array
        self.protocols = protocols

    def __getattr__(self, name):
        if name in self.protocols:
            return getattr(self, f"_{name.strip('_')}")
        raise AttributeError(name)

    def _array(self, dtype=None, copy=None):
        return self.array

    def _dlpack(self, **options):
        return self.array.__dlpack__(**options)

    def _dlpack_device(self):
        return (1, 0)


class OnGpu:
    __cuda_array_interface__ = {"shape": (3,), "typestr": "<f4", "data": (4096, False), "version": 3}  # noqa: RUF012

    def __array__(self, dtype=None, copy=None):
        raise TypeError("Implicit conversion is not allowed")


class DlpackOnGpu:
    def __dlpack__(self, **options):
        raise AssertionError("must not be asked")

    def __dlpack_device__(self):
        return (2, 0)


class Refuses:
    def __array__(self, dtype=None, copy=None):
        raise RuntimeError("needs a gradient")


def test_a_contiguous_array_is_taken_as_it_is():
    x = floats(40)
    intake = take_in(COPY, [x])
    assert np.shares_memory(intake.inputs["x"], x)
    assert intake.notes == ()


@pytest.mark.parametrize("view", [floats(40)[::2], floats(40)[::-1], np.broadcast_to(floats(1), (1000,))])
def test_a_strided_one_is_copied_and_the_note_says_so(view):
    intake = take_in(COPY, [view])
    assert intake.inputs["x"].flags.c_contiguous
    assert np.array_equal(intake.inputs["x"], view)
    (note,) = intake.notes
    assert f"copy/scalar: x was copied ({view.nbytes} bytes): its strides {view.strides}" in note


@pytest.mark.parametrize("view", [floats(9)[1:0:-1], floats(4, 10)[1:2], floats(10, 4)[:, 2:3][3:4]])
def test_strides_of_single_elements_do_not_count(view):
    kernel = COPY if view.ndim == 1 else catalog.kernel("transpose/naive")
    assert take_in(kernel, [view]).notes == ()
    assert np.array_equal(kl.apply(kernel, view, device="emulator"), view.T)


def test_an_unaligned_array_is_copied():
    raw = np.zeros(41, np.uint8)
    raw[1:].view(np.float32)[:] = floats(10)
    intake = take_in(COPY, [raw[1:].view(np.float32)])
    assert intake.notes == ("copy/scalar: x was copied (40 bytes): it is not aligned to 4 bytes",)
    assert np.array_equal(intake.inputs["x"], floats(10))


@pytest.mark.parametrize("start", [1, 2, 3])
@pytest.mark.parametrize("language", ["cuda-c", "numba"])
def test_wide_access_falls_back_to_the_scalar_rung_and_says_so(start, language):
    x = floats(1030)[start:]
    record = kl.measure(WIDE, x, language=language, device="emulator")
    assert (record.kernel, record.is_right) == ("copy/scalar", True)
    (note,) = record.notes
    assert note.startswith(f"copy/float4: x starts {4 * start} bytes past a multiple of 16")
    assert note.endswith("; copy/scalar ran instead")
    assert record.reading("sectors_per_request_load").value < 6


def test_a_whole_vector_further_needs_no_fallback():
    assert kl.measure(WIDE, floats(1028)[4:], device="emulator").kernel == "copy/float4"


def test_wide_access_without_a_fallback_copies():
    kernel = catalog.kernel("shared_stride/quads")
    x = np.zeros(2 * 32 * 128 + 1, np.float32)
    x[1:] = floats(2 * 32 * 128)
    record = kl.measure(kernel, x[1:].reshape(2, 32, 128), device="emulator")
    assert (record.kernel, record.is_right) == ("shared_stride/quads", True)
    (note,) = record.notes
    assert note.startswith("shared_stride/quads: quads starts 4 bytes past a multiple of 16")
    assert note.endswith("; it was copied (32768 bytes)")


def test_a_faulty_rung_has_no_fallback():
    record = kl.measure("copy/float4_faulty", floats(1025)[1:], device="emulator")
    assert record.kernel == "copy/float4_faulty"
    assert "copied" in record.notes[0]


@pytest.mark.parametrize("protocols", [("__array__",), ("__dlpack__", "__dlpack_device__")])
def test_arrays_of_other_libraries(protocols):
    given = Exports(floats(3, 5), *protocols)
    answer = kl.transpose(given, device="emulator")
    assert type(answer) is np.ndarray
    assert np.array_equal(answer, floats(3, 5).T)


def test_subclasses_become_plain_arrays():
    class Named(np.ndarray):
        pass

    answer = kl.transpose(floats(2, 3).view(Named), device="emulator")
    assert type(answer) is np.ndarray


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        (
            OnGpu(),
            kl.UnavailableError,
            "x lives on a GPU, where the emulator cannot read it; copy it to the host",
        ),
        (DlpackOnGpu(), kl.UnavailableError, "x lives on a GPU, where the emulator cannot read it"),
        (
            Refuses(),
            kl.ArgumentError,
            "x is a Refuses, it must give a NumPy array, and refuses: needs a gradient",
        ),
        (None, kl.ArgumentError, "x is None, it must be an array; pass one"),
        ([1.0], kl.ArgumentError, "x is a list, it must be an array; make one with numpy.asarray"),
        (3.0, kl.ArgumentError, "x is a float, it must be an array; make one with numpy.asarray"),
        ("abc", kl.ArgumentError, "x is a str, it must be an array"),
        (
            np.ma.masked_array(floats(3)),
            kl.ArgumentError,
            "x is a masked array, a kernel cannot see the mask",
        ),
        (
            np.zeros(8, np.int64),
            kl.ArgumentError,
            "x has dtype int64, it must be float32, .* or .*; only its bits are moved, so view it with .view",
        ),
        (np.zeros(3, object), kl.ArgumentError, "x has dtype object, it must be float32"),
        (floats(2, 2), kl.SpecError, r"x has shape \(2, 2\), it must be \(n,\), 1-dimensional; reshape it"),
    ],
)
def test_refused(given, error, message):
    with pytest.raises(error, match=f"^copy/scalar: {message}"):
        kl.apply("copy/scalar", given, device="emulator")


@pytest.mark.parametrize(
    ("kernel", "count", "message"),
    [
        ("copy/take", 1, r"copy/take: takes 2 arrays \(table, index\), got 1"),
        ("copy/take", 3, r"copy/take: takes 2 arrays \(table, index\), got 3"),
        ("copy/scalar", 2, r"copy/scalar: takes 1 array \(x\), got 2"),
    ],
)
def test_count(kernel, count, message):
    with pytest.raises(kl.ArgumentError, match=message):
        kl.apply(kernel, *[floats(4)] * count, device="emulator")


def test_swapped_arrays():
    with pytest.raises(kl.ArgumentError, match="copy/take: table has dtype int64, it must be float32"):
        kl.apply("copy/take", np.arange(4), floats(4), device="emulator")


def test_a_list_of_arrays_in_place_of_arrays_is_refused_at_once():
    x = floats(1_000_000)
    start = time.perf_counter()
    with pytest.raises(kl.ArgumentError, match=r"copy/take: takes 2 arrays \(table, index\), got 1"):
        kl.apply("copy/take", [x, np.zeros(1_000_000, np.int64)], device="emulator")
    assert time.perf_counter() - start < 1


def test_an_index_outside_is_refused_before_the_launch():
    with pytest.raises(kl.SpecError, match=r"copy/take: index holds 4, an index must lie in \[-4, 4\)"):
        kl.apply("copy/take", floats(4), np.array([0, 4]), device="emulator")
