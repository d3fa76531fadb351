"""GeLU to the digits of its elements where nothing but GeLU rounds: also above 0, where bounds by size are wide."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import kernellab as kl
from kernellab.catalog import gelus

DIGITS = {np.float32: 3e-6, np.float16: 2.0**-10, ml_dtypes.bfloat16: 2.0**-8}
X = np.concatenate([np.linspace(0.25, 9, 61), -np.linspace(0.25, 3, 35)])


@pytest.mark.parametrize("approximate", ["tanh", "none"])
@pytest.mark.parametrize("dtype", DIGITS)
def test_bias_gelu(dtype, approximate):
    x = X.astype(dtype).reshape(2, 48)
    y = kl.bias_gelu(x, np.zeros(48, dtype), approximate=approximate, device="emulator")
    wanted = gelus.gelu(x.astype(np.float64), gelus.form_of("test", approximate))
    assert np.abs(y.astype(np.float64) / wanted - 1).max() <= DIGITS[dtype]


@pytest.mark.parametrize("dtype", DIGITS)
def test_layernorm_gelu_of_what_the_norm_leaves_alone(dtype):
    # Rows of -1 and 1 have the mean 0 and the variance 1: the answer is GeLU of the weights and their negatives.
    x = np.tile(np.array([-1, 1], dtype), (2, 512))
    weight = np.repeat(np.linspace(0.25, 6, 512).astype(dtype), 2)
    y = kl.layernorm_gelu(x, weight, np.zeros(1024, dtype), eps=0.0, device="emulator").astype(np.float64)
    wanted = gelus.gelu(x.astype(np.float64) * weight.astype(np.float64), gelus.TANH)
    above = wanted > 0
    assert np.abs(y[above] / wanted[above] - 1).max() <= DIGITS[dtype]
