"""The checker: it accepts what is right, and each way of being wrong is seen to fail."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from kernellab import errors
from kernellab.catalog import kernel
from kernellab.plan import bind
from kernellab.verify import compare, is_invalid_configuration, poison, poisoned, ulp, verify

RNG = np.random.default_rng(0)


def test_right_output_is_right():
    x = RNG.standard_normal((7, 5), dtype=np.float32)
    plan = bind(kernel("transpose/naive"), {"x": x})
    verdict = verify(plan, {"y": np.ascontiguousarray(x.T)})
    assert verdict.is_right
    assert verdict.message == ""
    verdict.require()


def test_one_wrong_element_in_a_million():
    x = RNG.standard_normal(10**6, dtype=np.float32)
    y = x.copy()
    y[654321] = np.nextafter(y[654321], np.float32(np.inf))
    verdict = verify(bind(kernel("copy/scalar"), {"x": x}), {"y": y})
    assert not verdict.is_right
    assert verdict.message.startswith("copy/scalar: y differs in 1 of 1000000 elements, first at [654321]")
    with pytest.raises(errors.MismatchError, match=r"first at \[654321\]"):
        verdict.require()
    near = compare(np.full(10**6, 2.0, np.float32), np.full(10**6, 2.0), dtype="float32")
    assert near.wrong == 0


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", ml_dtypes.bfloat16])
def test_all_nan_output_fails(dtype):
    assert compare(np.full(64, np.nan, dtype), np.ones(64), dtype=dtype).wrong == 64


@pytest.mark.parametrize(
    "dtype", ["float16", "float32", "float64", "int32", "uint8", "int64", ml_dtypes.bfloat16]
)
def test_unwritten_output_fails(dtype):
    y = poisoned((64,), dtype)
    result = compare(y, np.ones(64), dtype=dtype)
    assert result.wrong == 64
    assert "which nothing wrote there" in result.message


def test_unwritten_output_fails_where_the_reference_is_nan():
    assert compare(poisoned((4,), "float32"), np.full(4, np.nan), dtype="float32").wrong == 4


def test_one_unwritten_element_fails():
    y = np.ones(33, np.float32)
    poison(y[32:])
    result = compare(y, np.ones(33), dtype="float32")
    assert result.wrong == 1
    assert result.message.startswith("y differs in 1 of 33 elements, first at [32]: expected 1.0, got nan")


def test_transposed_shape_fails():
    result = compare(np.ones((4, 1), np.float32), np.ones((1, 4)), dtype="float32")
    assert result.wrong == 4
    assert result.message == "y has shape (4, 1), the reference has (1, 4)"


def test_scalar_does_not_pass_by_broadcasting():
    assert compare(np.float32(1.0), np.ones((4, 4)), dtype="float32").wrong > 0


def test_wrong_dtype_fails():
    result = compare(np.ones(4), np.ones(4), dtype="float32")
    assert result.wrong == 4
    assert result.message == "y has dtype float64, it must be float32"


def test_low_precision_output_is_compared_in_float64():
    values = RNG.standard_normal(100)
    assert compare(values.astype(np.float16), values, dtype="float16").wrong == 0


def test_missing_output_fails():
    assert not verify(bind(kernel("copy/scalar"), {"x": np.ones(4, np.float32)}), {}).is_right


@pytest.mark.parametrize(
    ("expected", "got", "is_right"),
    [
        (np.nan, 1.0, False),
        (1.0, np.nan, False),
        (np.inf, -np.inf, False),
        (np.inf, np.inf, True),
        (np.inf, 3.4e38, False),
        (1.0, np.inf, False),
        (np.nan, np.nan, True),
        (0.0, -0.0, True),
        (1e39, np.inf, True),
    ],
)
def test_special_values(expected, got, is_right):
    result = compare(np.array([got], np.float32), np.array([expected]), dtype="float32", roundings=1000)
    assert (result.wrong == 0) == is_right


def test_bitwise_keeps_signs_and_payloads():
    x = np.array([0.0, np.nan], np.float32)
    other = np.array([-0.0, -np.nan], np.float32)
    assert compare(x.copy(), x, is_bitwise=True).wrong == 0
    assert compare(other, x, is_bitwise=True).wrong == 2
    assert compare(other, x).wrong == 0


def test_tolerance_counts_roundings():
    up = np.nextafter(np.float32(1), np.float32(2))
    y = np.array([1.0, up], np.float32)
    assert compare(y, np.ones(2), dtype="float32", roundings=1).wrong == 0
    result = compare(y, np.ones(2), dtype="float32", roundings=0)
    assert result.wrong == 1
    assert result.max_ulp == 1.0
    assert result.rms_ulp == pytest.approx(np.sqrt(0.5))


def test_cancellation_is_scaled_by_the_magnitude():
    a = np.array([[1e4, -1e4, 1e-3]], np.float32)
    exact = a.astype(np.float64).sum(axis=1)
    computed = np.array([exact[0] + 5e-4], np.float32)
    sizes = np.abs(a).astype(np.float64).sum(axis=1)
    assert compare(computed, exact, dtype="float32", roundings=3).wrong == 1
    assert compare(computed, exact, dtype="float32", roundings=3, magnitude=sizes).wrong == 0
    corrupted = np.array([exact[0] + 1.0], np.float32)
    assert compare(corrupted, exact, dtype="float32", roundings=3, magnitude=sizes).wrong == 1


def test_integers_are_exact():
    expected = np.array([2**53 + 1, 5], np.int64)
    assert compare(expected.copy(), expected).wrong == 0
    assert compare(expected - np.array([1, 0]), expected).wrong == 1


def test_empty_output_is_right():
    result = compare(np.empty((0, 5), np.float32), np.empty((0, 5)), dtype="float32")
    assert (result.wrong, result.count, result.message) == (0, 0, "")


def test_ulp_of_subnormals_does_not_vanish():
    assert float(ulp(np.array([0.0]), "float32")[0]) == 2.0**-149
    assert float(ulp(np.array([2.0**-130]), "float32")[0]) == 2.0**-149


class CUDADriverError(Exception):
    """Stands for the driver's errors, which cannot be raised here."""


@pytest.mark.parametrize(
    ("error", "is_invalid"),
    [
        (errors.SpecError("block has 2048 threads"), True),
        (errors.UnavailableError("no GPU"), True),
        (MemoryError(), True),
        (CUDADriverError("CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES: too many resources"), True),
        (CUDADriverError("CUDA_ERROR_INVALID_VALUE: invalid argument"), True),
        (CUDADriverError("CUDA_ERROR_NO_BINARY_FOR_GPU"), True),
        (CUDADriverError("CUDA_ERROR_ILLEGAL_ADDRESS: an illegal memory access"), False),
        (CUDADriverError("CUDA_ERROR_MISALIGNED_ADDRESS"), False),
        (errors.ExecutionError("out of bounds, invalid value"), False),
        (errors.MismatchError("y differs"), False),
        (errors.CompileError("syntax"), False),
        (ValueError("INVALID_VALUE"), False),
    ],
)
def test_invalid_configuration_is_told_from_failure(error, is_invalid):
    assert is_invalid_configuration(error) == is_invalid
