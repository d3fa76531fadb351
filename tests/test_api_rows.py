"""softmax, layernorm, rmsnorm and the fusions as functions: axes, views, outputs, defaults, bad input."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import kernellab as kl
from kernellab import catalog
from kernellab.api_rows import RUNGS, rung_for
from kernellab.catalog import gelus, norms, philox, softmax

F = np.float32
RNG = np.random.default_rng(0)


def on_emulator(function, *arrays, **options):
    return function(*arrays, device="emulator", **options)


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_softmax_along_any_axis_of_a_view(axis):
    x = RNG.standard_normal((4, 6, 10)).astype(F)[::-1, ::2]
    y = on_emulator(kl.softmax, x, axis=axis)
    turned = np.moveaxis(x, axis, -1)
    expected = softmax.reference(turned.reshape(-1, turned.shape[-1]))["y"].reshape(turned.shape)
    assert y.flags.c_contiguous
    assert y.shape == x.shape
    assert np.allclose(y, np.moveaxis(expected, -1, axis), atol=1e-6)


def test_softmax_into_its_own_input():
    x = RNG.standard_normal((3, 5)).astype(F)
    expected = softmax.reference(x)["y"]
    assert on_emulator(kl.softmax, x, out=x) is x
    assert np.allclose(x, expected, atol=1e-6)


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_halves_stay_halves(dtype):
    x = RNG.standard_normal((2, 3, 8)).astype(dtype)
    assert on_emulator(kl.softmax, x).dtype == dtype
    assert on_emulator(kl.layernorm, x).dtype == dtype


def test_norms_and_fusions_beside_their_references():
    x, residual = RNG.standard_normal((2, 4, 40)).astype(F)
    weight, bias = RNG.standard_normal((2, 40)).astype(F)
    normal = norms.normalised(x, weight, bias, 1e-5)
    assert np.allclose(on_emulator(kl.layernorm, x, weight, bias), normal, atol=1e-5)
    assert np.allclose(
        on_emulator(kl.layernorm, x, bias=bias), norms.normalised(x, np.ones(40), bias, 1e-5), atol=1e-5
    )
    fused = on_emulator(kl.layernorm_gelu, x, weight, bias, approximate="none")
    assert np.allclose(fused, gelus.gelu(normal, gelus.ERF), atol=1e-5)
    summed = on_emulator(kl.residual_layernorm, x, residual, weight, bias)
    assert np.allclose(summed, norms.normalised(x + residual, weight, bias, 1e-5), atol=1e-5)
    assert np.allclose(on_emulator(kl.bias_gelu, x, bias), gelus.gelu(x + bias, gelus.TANH), atol=1e-5)
    scale = 1 / np.sqrt(np.square(x).mean(axis=1, keepdims=True))
    assert np.allclose(on_emulator(kl.rmsnorm, x, weight), x * scale * weight, atol=1e-5)
    dropped = on_emulator(kl.softmax_dropout, x, p=0.25, seed=9)
    assert np.allclose(dropped, philox.dropped(softmax.reference(x)["y"], 0.25, 9), atol=1e-6)


@pytest.mark.parametrize("shape", [(0, 5), (5, 0), (0,), (2, 0, 3)])
def test_nothing_in_nothing_out(shape):
    x = np.zeros(shape, F)
    assert on_emulator(kl.softmax, x).shape == shape
    assert on_emulator(kl.layernorm, x).shape == shape


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda x: kl.softmax(x, axis=2), kl.SpecError, r"axis is 2, it must lie in \[-2, 2\)"),
        (lambda x: kl.softmax(x, axis=0.5), kl.ArgumentError, "axis is 0.5, it must be an integer"),
        (lambda x: kl.softmax(F(1)), kl.SpecError, r"axis is -1, an array of shape \(\) has none; reshape"),
        (
            lambda x: kl.softmax(x.astype("float64")),
            kl.ArgumentError,
            "float64.*float32, float16 or bfloat16",
        ),
        (lambda x: kl.layernorm(x, np.ones(3, F)), kl.SpecError, r"weight has shape \(3,\).*columns = 4"),
        (lambda x: kl.layernorm(x, np.ones(4)), kl.ArgumentError, "weight has dtype float64"),
        (lambda x: kl.layernorm(x, eps=-1.0), kl.SpecError, "eps is -1.0, it must be at least 0"),
        (lambda x: kl.residual_layernorm(x, x[:1]), kl.SpecError, r"residual has shape \(1, 4\)"),
        (lambda x: kl.bias_gelu(x, np.ones(4, F), approximate="erf"), kl.SpecError, "'none' or 'tanh'"),
        (lambda x: kl.softmax_dropout(x, p=1.5), kl.SpecError, "p is 1.5, it must be at most 1"),
        (lambda x: kl.softmax_dropout(x, seed=-1), kl.SpecError, "seed is -1"),
        (lambda x: kl.softmax(x, out=np.zeros((2, 4))), kl.ArgumentError, "float64"),
    ],
)
def test_bad_input_is_one_sentence(call, error, words):
    with pytest.raises(error, match=words) as caught:
        call(np.zeros((2, 4), F))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("problem", "columns", "wide", "narrow"),
    [
        ("layernorm", 16384, "registers", "registers"),
        ("layernorm", 32768, "registers", "pipelined"),
        ("layernorm", 32769, "split", "split"),
        ("layernorm_gelu", 8192, "registers", "registers"),
        ("layernorm_gelu", 8193, "pipelined", "pipelined"),
        ("softmax_dropout", 32769, "registers", "registers"),
        ("residual_layernorm", 32768, "registers", "registers"),
        ("bias_gelu", 10**6, "vectorised", "vectorised"),
    ],
)
def test_the_length_of_a_row_decides_which_rung_it_takes(problem, columns, wide, narrow):
    assert rung_for(problem, columns) == f"{problem}/{wide}"
    assert rung_for(problem, columns, 2) == f"{problem}/{narrow}"


@pytest.mark.parametrize("problem", RUNGS)
@pytest.mark.parametrize("itemsize", [2, 4])
def test_numba_takes_a_rung_that_has_a_twin(problem, itemsize):
    for columns in (1, 8193, 16385, 32768, 10**6):
        assert catalog.kernel(rung_for(problem, columns, itemsize, "numba")).has_twin


def test_every_rung_of_the_table_is_in_the_catalogue():
    for problem, tables in RUNGS.items():
        names = {kernel.name for kernel in catalog.ladder(problem)}
        assert {rung for table in tables for _, rung in table} <= names


def test_gelu_asks_for_its_bias():
    with pytest.raises(kl.ArgumentError, match="bias_gelu: bias is None, it must be an array"):
        on_emulator(kl.bias_gelu, np.ones((2, 4), F), None)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda x: on_emulator(kl.softmax_dropout, x, p=np.nan), "p is nan, it must be at least 0"),
        (lambda x: on_emulator(kl.layernorm, x, eps=np.nan), "eps is nan, it must be at least 0"),
        (lambda x: on_emulator(kl.layernorm_gelu, x, approximate=["tanh"]), "approximate is .'tanh'., it"),
    ],
)
def test_parameters_that_are_no_value(call, words):
    with pytest.raises(kl.SpecError, match=words):
        call(np.ones((2, 4), F))


def test_weights_may_be_lists_as_x_may():
    x, weight = np.arange(8, dtype=F).reshape(2, 4), np.arange(4, dtype=F)
    found = on_emulator(kl.layernorm, list(x), list(weight), tuple(weight))
    assert np.array_equal(found, on_emulator(kl.layernorm, x, weight, weight))
    with pytest.raises(kl.ArgumentError, match=r"^rmsnorm: weight is a list that NumPy makes no array of "):
        on_emulator(kl.rmsnorm, x, [1, [2]])
    with pytest.raises(kl.ArgumentError, match=r"^layernorm: bias is a dict, it must be an array"):
        on_emulator(kl.layernorm, x, None, {})


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda x: on_emulator(kl.softmax, x.astype("i4")), "^softmax: x has dtype int32"),
        (lambda x: on_emulator(kl.layernorm, x, np.ones(3, F)), r"^layernorm: weight has shape \(3,\)"),
        (lambda x: on_emulator(kl.rmsnorm, x, eps=-1), "^rmsnorm: eps is -1"),
    ],
)
def test_errors_name_the_function_and_not_its_rung(call, words):
    with pytest.raises((kl.ArgumentError, kl.SpecError), match=words):
        call(np.ones((2, 4), F))
