import ml_dtypes
import numpy as np
import pytest

from kernellab.compile import ArgumentType, flatten_numba_arguments, numba_types
from kernellab.errors import ArgumentError

RECORD = np.dtype([("a", "f4"), ("b", "i4")])


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (np.zeros((2, 3), np.float32), "float32[:,::1]"),
        (np.zeros((2, 3), np.float32).T, "float32[::1,:]"),
        (np.zeros((4, 4))[::2, ::2], "float64[:,:]"),
        (np.zeros((), np.int8), "int8[]"),
        (np.zeros(2, np.complex64), "complex64[::1]"),
        (np.zeros(2, ml_dtypes.bfloat16), "bfloat16[::1]"),
        (np.float16(1), "float16"),
        (np.bool_(True), "bool"),
        (True, "bool"),
        (3, "int64"),
        (2**63, "uint64"),
        (2.5, "float64"),
        (1j, "complex128"),
        ((1, np.float32(2)), "(int64, float32)"),
    ],
)
def test_types(value, text):
    assert str(numba_types([value])[0]) == text


@pytest.mark.parametrize(
    "text", ["float32[:,::1]", "int32", "float64[:,:]", "float16[::1,:]", "bool", "bfloat16[::1]"]
)
def test_spellings_come_back(text):
    assert str(ArgumentType.parse(text)) == text


def test_numba_s_long_spelling():
    assert str(ArgumentType.parse("array(float32, 2d, F)")) == "float32[::1,:]"


@pytest.mark.parametrize("text", ["float33", "float32[::2]", "array"])
def test_other_spellings_are_refused(text):
    with pytest.raises(ArgumentError):
        ArgumentType.parse(text)


@pytest.mark.parametrize("value", ["text", None, [1, 2], {}])
def test_values_that_no_kernel_takes(value):
    with pytest.raises(ArgumentError, match=type(value).__name__):
        numba_types([value])


def test_an_array_becomes_its_parameters():
    flat = flatten_numba_arguments([np.zeros((2, 3), np.float32)], lambda array: 4096)
    assert [int(each) for each in flat] == [0, 0, 6, 4, 4096, 2, 3, 12, 4]
    assert all(each.dtype.itemsize == 8 for each in flat)


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        (np.int8(-3), [np.int8(-3)]),
        (7, [np.int64(7)]),
        (True, [np.bool_(True)]),
        (np.complex64(1 + 2j), [np.float32(1), np.float32(2)]),
        (3j, [np.float64(0), np.float64(3)]),
        ((1, np.float32(2)), [np.int64(1), np.float32(2)]),
        (np.datetime64(5, "s"), [np.int64(5)]),
        (np.zeros(1, RECORD)[0], [np.uint64(4096)]),
        (np.zeros((), np.float32), [np.uint64(0), np.uint64(0), np.int64(1), np.int64(4), np.uint64(4096)]),
    ],
)
def test_values_become_their_parameters(value, wanted):
    flat = flatten_numba_arguments([value], lambda array: 4096)
    assert [(each.dtype, each) for each in flat] == [(each.dtype, each) for each in wanted]


class Device:
    def __init__(self, **interface):
        self.__cuda_array_interface__ = {"version": 3, "data": (4096, False), **interface}


def test_arrays_of_a_device():
    dense = Device(shape=(2, 3), typestr="<f4", strides=None)
    strided = Device(shape=(2, 3), typestr="<f4", strides=(4, 8))
    assert [str(each) for each in numba_types([dense, strided])] == ["float32[:,::1]", "float32[::1,:]"]
    flat = flatten_numba_arguments([dense], lambda array: array.__cuda_array_interface__["data"][0])
    assert [int(each) for each in flat] == [0, 0, 6, 4, 4096, 2, 3, 12, 4]
    assert [int(each) for each in flatten_numba_arguments([strided], lambda array: 1)][-2:] == [4, 8]
