"""Subnormal numbers are kept, as NumPy keeps them; whoever asks for fast math loses them, and sees it."""

from __future__ import annotations

import re

import numpy as np
import pytest

import kernellab as kl
from kernellab.catalog import kernel
from kernellab.compile import compile_cuda, compile_numba
from kernellab.emulation import run_binary

SMALLEST_NORMAL, SMALLEST = np.float32(1.1754944e-38), np.float32(1.4e-45)
X = np.array([SMALLEST_NORMAL, SMALLEST, -SMALLEST], np.float32)
each_language = pytest.mark.parametrize("language", ["cuda-c", "numba"])
F16_SMALLEST = np.float16(6e-8)


@each_language
@pytest.mark.parametrize("rung", ["scalar", "vectorised", "unrolled"])
def test_scale_keeps_them(rung, language):
    def scaled(alpha):
        x = np.tile(X, 3)  # whole vectors, and one element left over
        return kl.apply(f"scale/{rung}", x, alpha=alpha, language=language, device="emulator").reshape(3, 3)

    assert (scaled(0.5)[:, 0] == np.float32(5.877472e-39)).all()
    assert (scaled(2.0) == np.float32([2.3509887e-38, 2.8e-45, -2.8e-45])).all()
    assert (scaled(1.0) == X).all()


@each_language
def test_in_16_bits_too(language):
    x = np.full(9, F16_SMALLEST)
    y = kl.apply("scale/unrolled", x, alpha=3.0, language=language, device="emulator")
    assert (y == 3 * F16_SMALLEST).all()
    assert (y > 0).all()


@each_language
def test_others_keep_them(language):
    options = {"language": language, "device": "emulator"}
    assert (kl.apply("axpy/unrolled", X, X, alpha=0.5, **options) == X * np.float32(1.5)).all()
    half = np.full(3, 0.5, np.float32)
    assert (kl.apply("triad/unrolled", X, half, X, **options) == X * np.float32(1.5)).all()
    assert (kl.relu(X, **options) == np.maximum(X, 0)).all()


def made(rung, language, is_fast):
    if language == "cuda-c":
        return compile_cuda(rung.text(), path=rung.path, options=["-use_fast_math"] if is_fast else [])
    return compile_numba(rung.twin_function(), rung.twin_types(), name=rung.entry, fastmath=is_fast)


@each_language
def test_fast_math_flushes_them_and_the_default_says_that_it_does_not(language):
    rung = kernel("scale/scalar")
    exact, fast = (made(rung, language, is_fast) for is_fast in (False, True))
    assert not re.search(r"\.ftz\b", exact.ptx)
    assert re.search(r"mul\.(rn\.)?ftz\.f32", fast.ptx)
    y = np.full(3, np.nan, np.float32)
    arguments = (X, y, np.float32(0.5), np.int64(3)) if language == "cuda-c" else (X, y, np.float32(0.5))
    run_binary(fast, fast.names[rung.entry], 1, 32, arguments)
    assert (y == 0).all()
