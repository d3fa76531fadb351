"""Reductions, running sums and histograms with NumPy's names: NumPy's answers, dtypes and refusals."""

from __future__ import annotations

import re

import ml_dtypes
import numpy as np
import pytest

import kernellab as kl
from kernellab import api_reduce
from kernellab.errors import ArgumentError, SpecError

BF16 = ml_dtypes.bfloat16
ON = {"device": "emulator"}


def floats(*shape, dtype=np.float32):
    return np.random.default_rng(3).standard_normal(shape).astype(dtype)


@pytest.mark.parametrize("name", ["sum", "max", "argmax"])
@pytest.mark.parametrize("axis", [None, 0, -1, 1])
@pytest.mark.parametrize("keepdims", [False, True])
def test_axes(name, axis, keepdims):
    x = floats(3, 5, 4)
    y = getattr(kl, name)(x, axis, keepdims=keepdims, **ON)
    expected = getattr(np, name)(x, axis, keepdims=keepdims)
    assert type(y) is type(expected)
    assert (y.dtype, y.shape) == (expected.dtype, expected.shape)
    np.testing.assert_allclose(y, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", ["sum", "max"])
def test_several_axes(name):
    x = floats(3, 5, 4)
    y = getattr(kl, name)(x, (0, -1), **ON)
    np.testing.assert_allclose(y, getattr(np, name)(x, (0, -1)), rtol=1e-5)


@pytest.mark.parametrize("language", ["cuda-c", "numba"])
def test_long_rows_and_views(language):
    x = floats(2, 6000)[:, ::2]
    for name in ("sum", "max", "argmax"):
        y = getattr(kl, name)(x, axis=1, language=language, **ON)
        np.testing.assert_allclose(y, getattr(np, name)(x, axis=1), rtol=1e-4)


def test_bfloat16():
    x = floats(3, 100, dtype=BF16)
    y = kl.sum(x, axis=1, **ON)
    assert y.dtype == BF16
    np.testing.assert_allclose(
        y.astype(np.float32), x.astype(np.float64).sum(1).astype(BF16).astype(np.float32), rtol=0.01
    )
    assert kl.argmax(x, **ON) == np.argmax(x.astype(np.float32))


@pytest.mark.parametrize("shape", [(0,), (0, 5), (5, 0)])
def test_no_element(shape):
    x = np.zeros(shape, np.float32)
    assert kl.sum(x, **ON) == 0
    for axis in range(x.ndim):
        assert kl.sum(x, axis, **ON).tolist() == np.sum(x, axis).tolist()
        for name in ("max", "argmax"):
            try:
                expected = getattr(np, name)(x, axis)
            except ValueError:
                with pytest.raises(SpecError, match=f"^{name}: x has shape .* no largest of no element"):
                    getattr(kl, name)(x, axis, **ON)
            else:
                assert getattr(kl, name)(x, axis, **ON).shape == expected.shape
    with pytest.raises(SpecError, match="no largest of no element"):
        kl.max(x, **ON)


def test_what_is_refused():
    with pytest.raises(ArgumentError, match=r"^sum: x has dtype int64, it must be float32, float16 or bf"):
        kl.sum(np.arange(3), **ON)
    with pytest.raises(SpecError, match=r"^max: axis is 2, it must lie in \[-2, 2\)"):
        kl.max(floats(2, 2), axis=2, **ON)
    with pytest.raises(SpecError, match=r"^sum: axis is \(0, -2\), it must name each axis once"):
        kl.sum(floats(2, 2), axis=(0, -2), **ON)
    with pytest.raises(ArgumentError, match=r"^argmax: axis is 'x', it must be an integer"):
        kl.argmax(floats(2, 2), axis="x", **ON)
    with pytest.raises(ArgumentError, match=r"^sum: dtype is float64, it must be float32 or that of x"):
        kl.sum(floats(2), dtype=np.float64, **ON)
    with pytest.raises(SpecError, match=r"^sum: out has shape \(3,\), it must be \(2,\)"):
        kl.sum(floats(2, 2), axis=0, out=np.empty(3, np.float32), **ON)


def test_what_would_be_copied_for_hours():
    x = np.broadcast_to(np.ones((1, 2**15), np.float32), (2**15, 2**15))
    for name in ("sum", "max", "argmax", "cumsum"):
        for axis in (None, 1):
            with pytest.raises(SpecError, match=rf"^{name}: x is {2**32} bytes once copied"):
                getattr(kl, name)(x, axis, **ON)
    half = np.broadcast_to(np.ones((), np.float16), (2**30,))
    with pytest.raises(SpecError, match=rf"^sum: x is {2**32} bytes once copied"):
        kl.sum(half, dtype=np.float32, **ON)


def test_a_complex_array_is_not_cast():
    with pytest.raises(ArgumentError, match=r"^sum: x has dtype complex64.*; pass an array of float32$"):
        kl.sum(np.ones(3, np.complex64), **ON)


@pytest.mark.parametrize("axis", [None, 1])
@pytest.mark.parametrize("name", ["sum", "max", "argmax", "cumsum"])
def test_an_output_is_refused_before_anything_runs(name, axis, monkeypatch):
    monkeypatch.setattr(api_reduce, "apply", lambda *arrays, **options: pytest.fail("it ran"))
    x, wrong = floats(4, 8), np.zeros((3, 3), np.float32)
    with pytest.raises((SpecError, ArgumentError), match=rf"^{name}: out has "):
        getattr(kl, name)(x, axis=axis, out=wrong, **ON)


def test_out():
    x, y = floats(4, 3), np.empty((4, 2), np.float32)[:, 0]
    assert kl.sum(x, axis=1, out=y, **ON) is y
    np.testing.assert_allclose(y, x.sum(1), rtol=1e-6)


@pytest.mark.parametrize("axis", [None, 0, 1])
@pytest.mark.parametrize("deterministic", [False, True])
def test_cumsum(axis, deterministic):
    x = floats(5, 7)
    y = kl.cumsum(x, axis, deterministic=deterministic, **ON)
    np.testing.assert_allclose(y, np.cumsum(x, axis), rtol=1e-5, atol=1e-6)
    assert y.shape == np.cumsum(x, axis).shape


def test_sums_start_at_zero_and_not_at_minus_zero():
    x = np.full((2, 3), -0.0, np.float32)
    for axis in (None, 0, 1):
        assert np.array_equal(np.signbit(kl.sum(x, axis, **ON)), np.signbit(np.sum(x, axis)))
        assert not np.signbit(kl.cumsum(x, axis, **ON)).any()


def test_cumsum_exclusive_and_dtypes():
    ones = np.ones(15, np.float32)
    assert kl.cumsum(ones, exclusive=True, **ON).tolist() == list(range(15))
    assert kl.cumsum(np.ones(5, np.float16), **ON).dtype == np.float16
    assert kl.cumsum(np.ones(3000, np.float16), dtype=np.float32, **ON)[-1] == 3000
    assert kl.cumsum(np.zeros((0, 3), np.float32), **ON).shape == (0,)
    assert kl.cumsum(np.zeros((0, 3), np.float32), axis=1, **ON).shape == (0, 3)


@pytest.mark.parametrize("bins", [1, 4, 10, 2000, [0, 0.5, 2, 2, 3], np.array([-1.5, 0.1])])
@pytest.mark.parametrize("limits", [None, (-1, 1), (0.1, 0.7)])
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_histogram_is_numpys(bins, limits, dtype):
    x = floats(500).astype(dtype)
    x[:20] = np.linspace(-1, 1, 20).astype(dtype)
    try:
        expected, expected_edges = np.histogram(x, bins, limits)
    except ValueError as error:
        with pytest.raises(ValueError, match=re.escape(str(error))):
            kl.histogram(x, bins, limits, **ON)
        return
    counts, edges = kl.histogram(x, bins, limits, **ON)
    assert counts.tolist() == expected.tolist()
    assert edges.tolist() == expected_edges.tolist()
    assert counts.dtype == expected.dtype


def test_histogram_edges_nan_and_outside():
    x = np.array([0, 1, 2, 3, 4, 4, -1, 5, np.nan, np.inf, 2**31 + 1000], np.float32)
    assert kl.histogram(x, 4, (0, 4), **ON)[0].tolist() == [1, 1, 1, 3]
    with pytest.raises(ValueError, match=r"not finite"):
        kl.histogram(x, 4, **ON)
    with pytest.raises(ValueError, match=r"must be positive"):
        kl.histogram(x, -1, (0, 1), **ON)
    with pytest.raises(ArgumentError, match=r"^histogram: bins is 'auto', it must be a number or edges"):
        kl.histogram(x, "auto", **ON)
    density, _ = kl.histogram(x[:6], 4, (0, 4), density=True, **ON)
    np.testing.assert_allclose(density, np.histogram(x[:6], 4, (0, 4), density=True)[0])


@pytest.mark.parametrize(
    ("bins", "limits"), [(256, (0, 256)), (10, None), (7, (3, 99)), ([0, 5, 100, 300], None)]
)
def test_histogram_of_bytes(bins, limits):
    x = np.random.default_rng(0).integers(0, 200, 3000, dtype=np.uint8)
    counts, edges = kl.histogram(x, bins, limits, **ON)
    expected, expected_edges = np.histogram(x, bins, limits)
    assert counts.tolist() == expected.tolist()
    assert edges.tolist() == expected_edges.tolist()
