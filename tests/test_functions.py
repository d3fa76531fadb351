"""The functions with NumPy's names agree with NumPy, on every view, and refuse the rest in one sentence."""

from __future__ import annotations

import functools
import math
import tracemalloc
import types

import ml_dtypes
import numpy as np
import pytest

import kernellab as kl
from kernellab.errors import ArgumentError, SpecError

LANGUAGES = ("cuda-c", "numba")
each_language = pytest.mark.parametrize("language", LANGUAGES)

copy, relu, take, transpose, apply = (
    functools.partial(function, device="emulator")
    for function in (kl.copy, kl.relu, kl.take, kl.transpose, kl.apply)
)


def floats(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape, dtype=np.float32)


def same(actual, expected):
    assert isinstance(actual, np.ndarray)
    assert actual.dtype == expected.dtype
    assert actual.shape == expected.shape
    assert np.array_equal(actual, expected, equal_nan=True)


BASE = floats(12, 14)
VIEWS = {
    "contiguous": BASE,
    "column slice": BASE[:, :4],
    "every other row": BASE[::2],
    "every third element": BASE[::3, 1::3],
    "turned": BASE.T,
    "Fortran order": np.asfortranarray(BASE),
    "backwards": BASE[::-1, ::-2],
    "stride 0": np.broadcast_to(BASE[:1, 3:9], (50, 6)),
    "one element, step -1": BASE[1:0:-1, 5:6],
    "one row": BASE[3:4],
    "unaligned base": BASE[:, 1:],
    "read-only": np.broadcast_to(BASE, BASE.shape),
    "no rows": BASE[:0],
    "no columns": BASE[:, :0],
}
each_view = pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS)


@each_view
@each_language
def test_views(view, language):
    before = view.copy()
    same(transpose(view, language=language), np.transpose(view))
    same(copy(view, language=language), np.copy(view))
    same(relu(view, language=language), np.maximum(view, 0))
    assert np.array_equal(view, before)


@pytest.mark.parametrize("n", [*range(10), 1023, 1024, 1025])
@pytest.mark.parametrize("start", [0, 1, 2, 3])
def test_vector_access_on_any_base_and_length(n, start):
    same(copy(floats(n + start)[start:]), floats(n + start)[start:])


@pytest.mark.parametrize("shape", [(), (5,), (2, 3, 4), (0,), (3, 0, 2)])
def test_element_by_element_on_any_shape(shape):
    x = np.asarray(floats(*shape), dtype=np.float32)
    same(copy(x), np.copy(x))
    same(relu(x), np.asarray(np.maximum(x, np.float32(0))))


def test_answers_own_their_memory():
    x = floats(4, 4)
    for answer in (copy(x), transpose(x), transpose(x, (0, 1)), relu(x), take(x, [0])):
        assert not np.shares_memory(answer, x)
        assert answer.flags.c_contiguous


def test_special_values_survive_a_copy():
    bits = np.array([0x7FC00001, 0xFFC00000, 0x7F800000, 0x80000000, 1], np.uint32)
    assert np.array_equal(copy(bits.view(np.float32)).view(np.uint32), bits)


# -- transpose
@pytest.mark.parametrize("axes", [None, (1, 0), (0, 1), (-1, -2), [-2, -1], np.array([1, 0])])
def test_transpose_axes(axes):
    x = floats(3, 5)
    same(transpose(x, axes), np.transpose(x, axes))


@pytest.mark.parametrize("x", [floats(5), np.float32(3)])
def test_transpose_of_fewer_axes(x):
    same(transpose(x), np.transpose(x))
    same(transpose(x, tuple(range(np.ndim(x)))), np.transpose(x))


@pytest.mark.parametrize(
    ("x", "axes", "error", "message"),
    [
        (
            floats(2, 3, 4),
            None,
            kl.SpecError,
            r"x has shape \(2, 3, 4\), it must have at most two axes; take numpy",
        ),
        (floats(2, 3), (0, 0), kl.SpecError, r"axes is \(0, 0\), it must name each of the 2 axes once"),
        (floats(2, 3), (1,), kl.SpecError, r"axes is \(1,\), it must name each of the 2 axes once"),
        (floats(2, 3), (0, 2), kl.SpecError, r"axis is 2, it must lie in \[-2, 2\)"),
        (floats(2, 3), (0, 1.0), kl.ArgumentError, r"axis is 1.0, it must be an integer"),
        (floats(2, 3), (False, True), kl.ArgumentError, r"axis is False, it must be an integer"),
        (floats(2, 3), 1, kl.ArgumentError, r"axes is 1, it must be a sequence of integers"),
    ],
)
def test_transpose_refuses(x, axes, error, message):
    with pytest.raises(error, match=f"^transpose: {message}"):
        transpose(x, axes)


# -- take
TABLE = floats(40)
INDICES = {
    "list": [3, -1, 0],
    "scalar": 7,
    "negative scalar": -40,
    "int32": np.array([1, 2, -3], np.int32),
    "uint8": np.array([1, 39], np.uint8),
    "two axes": np.arange(-6, 6).reshape(3, 4),
    "strided": np.arange(40)[::-3],
    "bool": np.array([True, False]),
    "none": np.zeros((0, 3), np.int64),
    "empty list": [],
}


@pytest.mark.parametrize("indices", INDICES.values(), ids=INDICES)
@each_language
def test_take_indices(indices, language):
    expected = np.take(TABLE, np.asarray(indices, np.intp) if np.size(indices) == 0 else indices)
    same(take(TABLE, indices, language=language), np.asarray(expected))


@pytest.mark.parametrize("axis", [None, 0, 1, -1, -2])
@pytest.mark.parametrize("indices", [[0, -1, 2, 2], 1, [[0, 1], [-1, -2]]], ids=str)
def test_take_axis(axis, indices):
    x = BASE[::-1, ::2]
    same(take(x, indices, axis), np.take(x, indices, axis))


def test_take_of_three_axes():
    x = floats(2, 3, 4)
    same(take(x, [[2, -1]], axis=1), np.take(x, [[2, -1]], axis=1))


@pytest.mark.parametrize("mode", ["wrap", "clip"])
@pytest.mark.parametrize("axis", [None, 0, 1])
def test_take_modes(mode, axis):
    # NumPy wraps by repeated subtraction: a larger index takes it minutes.
    indices = np.array([-1000, -41, -1, 0, 13, 14, 1000])
    same(take(BASE, indices, axis, mode=mode), np.take(BASE, indices, axis, mode=mode))


def test_take_positional_arguments_are_numpys():
    out = np.empty((12, 2), np.float32)
    assert take(BASE, [0, 20], 1, out, "clip") is out
    same(out, np.take(BASE, [0, 20], 1, mode="clip"))


@pytest.mark.parametrize(
    ("indices", "options", "error", "message"),
    [
        ([0, 40], {}, kl.SpecError, r"an index is 40, it must lie in \[-40, 40\); correct it or pass mode"),
        ([0, -41], {}, kl.SpecError, r"an index is -41, it must lie in \[-40, 40\)"),
        ([2**31], {}, kl.SpecError, r"an index is 2147483648, it must lie in"),
        ([-(2**31) - 1], {}, kl.SpecError, r"an index is -2147483649, it must lie in"),
        ([0.0], {}, kl.ArgumentError, r"indices have dtype float64, they must be integers that fit int64"),
        (np.array([1], np.uint64), {}, kl.ArgumentError, r"indices have dtype uint64, they must be integers"),
        ([0], {"mode": "warp"}, kl.SpecError, r"mode is 'warp', it must be one of raise, wrap, clip"),
        ([0], {"axis": 1}, kl.SpecError, r"axis is 1, it must lie in \[-1, 1\)"),
        ([0], {"axis": 0.5}, kl.ArgumentError, r"axis is 0.5, it must be an integer"),
    ],
)
def test_take_refuses(indices, options, error, message):
    with pytest.raises(error, match=f"^take: {message}"):
        take(TABLE, indices, **options)


def test_take_from_nothing():
    same(take(floats(0), []), floats(0))
    with pytest.raises(kl.SpecError, match="take: there are 1 indices into 0 elements, there must be none"):
        take(floats(0), [0])


# -- dtypes
@pytest.mark.parametrize("dtype", ["float64", "int64", "int32", "float16", "complex64", ">f4", "bool"])
def test_what_computes_refuses_other_dtypes_and_does_not_cast(dtype):
    x = np.ones((2, 2), dtype)
    remedy = "pass an array" if x.dtype.kind == "c" else "convert it with"
    with pytest.raises(
        kl.ArgumentError, match=rf"^relu: x has dtype {x.dtype}, it must be float32; {remedy}"
    ):
        relu(x)


def same_bits(actual, expected):
    assert (actual.dtype, actual.shape) == (expected.dtype, expected.shape)
    assert actual.tobytes() == np.ascontiguousarray(expected).tobytes()


DTYPES = ["?", "u1", "i2", "f2", ml_dtypes.bfloat16, "f4", ">i4", "u4", "f8", "i8", "c8", "M8[s]", "i2,i2"]
each_dtype = pytest.mark.parametrize("dtype", [*DTYPES, "c16", "S16"], ids=str)


def any_bits(shape, dtype):
    count = math.prod(shape) * np.dtype(dtype).itemsize
    return np.frombuffer(np.random.default_rng(1).bytes(count), np.dtype(dtype)).reshape(shape)


@each_dtype
@each_language
def test_what_moves_keeps_the_bits_of_any_dtype(dtype, language):
    x = any_bits((9, 70), dtype)[::-1, 1::2]
    same_bits(copy(x, language=language), x)
    same_bits(take(x, [3, -1], language=language), np.take(x, [3, -1]))
    same_bits(take(x, [8, -9, 8], 0, language=language), x[[8, 0, 8]])
    same_bits(take(x, [3, -1], 1, language=language), x[:, [3, -1]])
    if x.dtype.itemsize <= 8:
        same_bits(transpose(x, language=language), x.T)
        out = np.zeros((35, 18), x.dtype)[:, ::2]
        assert transpose(x, out=out, language=language) is out
        same_bits(out, x.T)


@pytest.mark.parametrize("function", [copy, transpose, lambda x: take(x, [0])])
@pytest.mark.parametrize("dtype", ["O", "U3", "S3", "u1,u2"])
def test_what_is_no_plain_value_of_a_power_of_two_bytes_is_refused(function, dtype):
    with pytest.raises(
        kl.ArgumentError, match=r"^\w+: x has dtype .*, its elements must .* bytes; .*[nN]um[pP]y"
    ):
        function(np.zeros((2, 2), dtype))


def test_transpose_refuses_elements_of_16_bytes():
    with pytest.raises(
        kl.ArgumentError, match=r"^transpose: x has dtype complex128, .*; take numpy.transpose$"
    ):
        transpose(np.zeros((2, 2), complex))


def test_a_list_has_numpys_dtype():
    same(transpose([[1.0, 2.0]]), np.array([[1.0], [2.0]]))
    same(copy([1, 2]), np.array([1, 2]))


# -- out
def test_a_list_that_computes_is_told_how_to_be_an_array():
    for function, x in ((kl.relu, [1.0]), (kl.sum, [1]), (kl.layernorm, [[True]]), (kl.rmsnorm, [[0.5]])):
        with pytest.raises(kl.ArgumentError, match=r"a list with numpy\.asarray\(x, 'float32'\)$"):
            function(x)
    with pytest.raises(kl.ArgumentError, match=r"convert it with \.astype\('float32'\)$"):
        kl.relu(np.ones(1, np.float16))


def test_out_is_written_and_returned():
    x, out = floats(5, 7), np.zeros((7, 5), np.float32)
    assert transpose(x, out=out) is out
    same(out, x.T)


def test_a_strided_out_leaves_its_neighbours_alone():
    room = np.full((3, 4), -1, np.float32)
    x = floats(2, 2)
    out = room[:2, 2:]
    assert transpose(x, out=out) is out
    expected = np.full((3, 4), -1, np.float32)
    expected[:2, 2:] = x.T
    same(room, expected)


@each_language
def test_out_backwards_and_in_fortran_order(language):
    x = floats(3, 4)
    room = np.zeros((4, 3), np.float32)
    relu(x.T, out=room[::-1, ::-1], language=language)
    same(room[::-1, ::-1], np.maximum(x.T, 0))
    room = np.zeros((4, 3), np.float32, order="F")
    transpose(x, out=room, language=language)
    same(room, x.T)


def test_overlapping_out_is_as_if_it_did_not_overlap():
    x = floats(4, 4)
    expected = x.T.copy()
    same(transpose(x, out=x), expected)
    x = floats(10)
    expected = x[:-1].copy()
    copy(x[:-1], out=x[1:])
    same(x[1:], expected)
    x = floats(6)
    expected = np.take(x, [5, 4, 3, 2, 1, 0])
    same(take(x, [5, 4, 3, 2, 1, 0], out=x), expected)


READ_ONLY = np.zeros((3, 2), np.float32)
READ_ONLY.flags.writeable = False
ONE_PLACE = np.lib.stride_tricks.as_strided(np.zeros(1, np.float32), (3, 2), (0, 0))
FOLDED = np.lib.stride_tricks.as_strided(np.zeros(6, np.float32), (3, 2), (4, 4))


@pytest.mark.parametrize(
    ("out", "error", "message"),
    [
        (np.zeros((2, 3), np.float32), kl.SpecError, r"out has shape \(2, 3\), it must be \(3, 2\)"),
        (np.zeros((3, 2)), kl.ArgumentError, "out has dtype float64, it must be float32"),
        (READ_ONLY, kl.SpecError, "out is read-only, an output must be writeable"),
        (
            ONE_PLACE,
            kl.SpecError,
            r"out has strides \(0, 0\) for shape \(3, 2\), an output must have a place of its",
        ),
        (
            FOLDED,
            kl.SpecError,
            r"out has strides \(4, 4\) for shape \(3, 2\), an output must have a place of its own",
        ),
        ([[0.0]], kl.ArgumentError, "out is a list, it must be a NumPy array"),
        (
            np.ma.zeros((3, 2), np.float32),
            kl.ArgumentError,
            "out is a masked array, a kernel cannot see the mask",
        ),
    ],
    ids=["shape", "dtype", "read-only", "stride 0", "folded", "list", "masked"],
)
def test_out_refused(out, error, message):
    with pytest.raises(error, match=f"^transpose: {message}"):
        transpose(floats(2, 3), out=out)
    expected = "transpose/vectorised: y: " + message
    with pytest.raises(error, match=f"^{expected}"):
        apply("transpose/vectorised", floats(2, 3), out=out if isinstance(out, np.ndarray) else {"y": out})


HUGE = np.broadcast_to(np.float32(1), (2**31 + 5,))


@pytest.mark.parametrize(
    "call",
    [
        lambda: kl.copy(HUGE, device="emulator"),
        lambda: kl.relu(HUGE[None], device="emulator"),
        lambda: kl.transpose(HUGE[None], device="emulator"),
        lambda: kl.take(HUGE[None], [0], device="emulator"),
        lambda: kl.apply("copy/scalar", HUGE, device="emulator"),
    ],
)
def test_a_call_of_many_gigabytes_is_refused_before_anything_is_copied(call):
    tracemalloc.start()
    try:
        with pytest.raises(SpecError, match=r"x is 8589934612 bytes once copied, .* the limit is 2147483648"):
            call()
        assert tracemalloc.get_traced_memory()[1] < 2**24
    finally:
        tracemalloc.stop()


def test_outputs_of_many_gigabytes_are_refused():
    x = np.empty(2**29 + 1, np.float32)  # never touched, so it takes no memory
    with pytest.raises(
        SpecError, match=r"^copy: its outputs are 2147483652 bytes .* the limit is 2147483648"
    ):
        kl.copy(x, device="emulator")


def test_no_memory_is_one_sentence(monkeypatch):
    def full(*_):
        raise MemoryError("Unable to allocate 7 GiB")

    monkeypatch.setattr("kernellab.devices.emulated.poisoned", full)
    with pytest.raises(
        kl.UnavailableError, match=r"copy/\w+: there is not enough memory .*Unable to allocate"
    ):
        kl.copy(np.ones(4, np.float32), device="emulator")


@pytest.mark.parametrize("function", [kl.copy, kl.sum, kl.softmax, kl.relu, kl.histogram])
def test_a_ragged_list_is_one_sentence(function):
    name = function.__name__
    with pytest.raises(ArgumentError, match=f"^{name}: x is a list that NumPy makes no array of .*; "):
        function([[1, 2], [3]], device="emulator")


def test_a_dtype_that_is_none_is_one_sentence():
    with pytest.raises(ArgumentError, match=r"^sum: dtype is 'foo', it must be a dtype; "):
        kl.sum(np.ones(3, "float32"), dtype="foo", device="emulator")


MATRIX = np.ones((2, 4), np.float32)
SECOND = {
    "take": [[0, 1]],
    "residual_layernorm": [MATRIX],
    "bias_gelu": [MATRIX[0]],
    "matmul": [MATRIX.T],
    "matmul_bias_gelu": [MATRIX.T, MATRIX[0, :2]],
    "clip_grad_norm": [1.0],
    "adamw": [MATRIX + k for k in range(3)],
    "bias_gelu_backward": [MATRIX, MATRIX[0]],
    "softmax_cross_entropy": [np.zeros(2, np.int32)],
}
NAMED = {"adamw": {"step": 1}}
OTHERS = {"apply", "measure", "compare", "trace", "benchmark", "device", "occupancy", "pipeline"}
FUNCTIONS = [name for name in kl.__all__ if isinstance(getattr(kl, name), types.FunctionType)]


@pytest.mark.parametrize("name", sorted({*FUNCTIONS} - OTHERS))
def test_what_is_refused_is_told_in_the_name_of_the_function(name):
    with pytest.raises(kl.SpecError, match=rf"^{name}: language is 'c', "):
        getattr(kl, name)(
            MATRIX, *SECOND.get(name, ()), **NAMED.get(name, {}), language="c", device="emulator"
        )


def test_indices_of_several_lengths_are_one_sentence():
    with pytest.raises(kl.ArgumentError, match=r"^take: indices is a list that NumPy makes no array of"):
        take(floats(4), [[0, 1], [2]])
    same(take(floats(4), range(2)), floats(4)[:2])
