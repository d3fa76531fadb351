"""Gradients: a whole network against finite differences in float64, and what the functions take and refuse."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from fakes import make_gpu

import kernellab as kl
from kernellab.catalog import gelus
from kernellab.catalog.bias_gelu_backward import gradient
from kernellab.errors import ArgumentError, SpecError
from kernellab.experiments import training

ON = {"device": "emulator"}
F, H = np.float32, np.float16


@pytest.fixture
def rng():
    return np.random.default_rng(5)


def loss_of(at, x, labels):
    """The network's losses, added up, in float64."""
    y = gelus.gelu(x @ at["w1"] + at["b1"], gelus.TANH)
    logits = y @ at["w2"] + at["b2"]
    logits -= logits.max(axis=1, keepdims=True)
    return np.log(np.exp(logits).sum(axis=1)) - logits[np.arange(len(x)), labels]


def finite_differences(at, x, labels, step=1e-6):
    found = {name: np.zeros(array.shape) for name, array in at.items()}
    for name, array in at.items():
        for place in np.ndindex(array.shape):
            sides = []
            for sign in (1, -1):
                moved = {**at, name: array.copy()}
                moved[name][place] += sign * step
                sides.append(loss_of(moved, x, labels).sum())
            found[name][place] = (sides[0] - sides[1]) / (2 * step)
    return found


def test_the_gradients_of_a_network_are_those_of_finite_differences():
    task = training.Task(rows=7, features=5, hidden=9, classes=3, lr=0, growth=1)
    (x, labels), at = task.data(), task.parameters()
    at["b1"] += np.linspace(-1, 1, 9, dtype=F)
    at["b2"] += np.linspace(-1, 1, 3, dtype=F)
    network = training.Network(kl.device("emulator"), "cuda-c", "float32")
    seen = network.forward(at, x)
    turned = np.ascontiguousarray(x.T)
    losses, gradients, _ = network.backward(at, turned, labels, seen, 0.25)
    wide = {name: array.astype(np.float64) for name, array in at.items()}
    np.testing.assert_allclose(losses, loss_of(wide, x.astype(np.float64), labels), rtol=1e-5)
    expected = finite_differences(wide, x.astype(np.float64), labels)
    for name, array in gradients.items():
        assert array.shape == at[name].shape
        np.testing.assert_allclose(array, 0.25 * expected[name], rtol=2e-4, atol=2e-6, err_msg=name)


@pytest.mark.parametrize("form", [gelus.ERF, gelus.TANH])
def test_the_slope_of_gelu_is_its_difference_quotient(form):
    x = np.linspace(-12, 12, 997)
    step = 1e-5
    quotient = (gelus.gelu(x + step, form) - gelus.gelu(x - step, form)) / (2 * step)
    np.testing.assert_allclose(gradient(np.ones(997), x, np.zeros(997), form), quotient, atol=1e-9)


def test_softmax_cross_entropy_of_any_shape_and_strides(rng):
    x = rng.standard_normal((2, 6, 10)).astype(F)[::-1, ::2, ::-2]
    labels = rng.integers(0, 5, (3, 2)).astype(np.uint8).T[:, ::-1]
    loss, dx = kl.softmax_cross_entropy(x, labels, scale=2, **ON)
    powers = np.exp(x.astype(np.float64))
    share = powers / powers.sum(axis=-1, keepdims=True)
    picked = np.take_along_axis(share, labels[..., None].astype(np.int64), -1)
    np.testing.assert_allclose(loss, -np.log(picked[..., 0]), rtol=1e-5)
    np.testing.assert_allclose(dx, 2 * (share - (np.arange(5) == labels[..., None])), atol=1e-6)
    assert loss.dtype == F
    assert dx.shape == x.shape


def test_a_loss_is_finite_where_the_probability_is_0_and_what_overflows_is_infinite():
    x = np.array([[0, -200], [0, 3]], F)
    loss, dx = kl.softmax_cross_entropy(x, [1, 1], **ON)
    assert loss[0] == 200
    assert dx[0].tolist() == [1, -1]
    _, dx = kl.softmax_cross_entropy(x.astype(H), [0, 1], scale=2.0**20, **ON)
    assert dx[1].tolist() == [49728, -49728]
    assert kl.softmax_cross_entropy(x.astype(H), [1, 0], scale=2.0**20, **ON)[1][0].tolist() == [
        np.inf,
        -np.inf,
    ]


def test_nothing_is_nothing():
    loss, dx = kl.softmax_cross_entropy(np.empty((0, 3), H), [], **ON)
    assert (loss.shape, loss.dtype, dx.shape, dx.dtype) == ((0,), F, (0, 3), H)
    dx, dbias = kl.bias_gelu_backward(np.empty((0, 3), F), np.empty((0, 3), F), np.ones(3, F), **ON)
    assert dx.shape == (0, 3)
    assert dbias.tolist() == [0, 0, 0]


def test_bias_gelu_backward_of_any_shape_in_16_bits(rng):
    dy, x = (rng.standard_normal((3, 4, 9)).astype(ml_dtypes.bfloat16)[:, ::-1] for _ in range(2))
    bias = rng.standard_normal(18).astype(ml_dtypes.bfloat16)[::2]
    dx, dbias = kl.bias_gelu_backward(dy, x, bias, approximate="none", **ON)
    wide = gradient(dy, x, bias, gelus.ERF)
    assert dx.dtype == dbias.dtype == ml_dtypes.bfloat16
    np.testing.assert_allclose(dx.astype(F), wide, rtol=2**-7, atol=1e-4)
    # Added up before it is rounded: to half a unit of the sum and not of each term.
    np.testing.assert_allclose(dbias.astype(F), wide.sum(axis=(0, 1)), rtol=2**-8, atol=1e-3)


ROWS, ONES = np.zeros((2, 3), F), np.ones(3, F)


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: kl.softmax_cross_entropy(ROWS, [0, 3], **ON), SpecError, r"labels holds 3, .* \[0, 3\)"),
        (lambda: kl.softmax_cross_entropy(ROWS, [0, -1], **ON), SpecError, r"labels holds -1, .* \[0, 3\)"),
        (
            lambda: kl.softmax_cross_entropy(ROWS, [0.0, 1.0], **ON),
            ArgumentError,
            "labels have dtype float64",
        ),
        (
            lambda: kl.softmax_cross_entropy(ROWS, [True, False], **ON),
            ArgumentError,
            "labels have dtype bool",
        ),
        (lambda: kl.bias_gelu_backward(np.zeros(()), F(1), ONES, **ON), SpecError, "x is a single number"),
        (lambda: kl.softmax_cross_entropy(ROWS, [0], **ON), SpecError, r"labels has shape \(1,\).* \(2,\)"),
        (lambda: kl.softmax_cross_entropy(ROWS[:, :0], [0, 0], **ON), SpecError, "x has no columns"),
        (lambda: kl.softmax_cross_entropy(1.0, 0, **ON), SpecError, "x is a single number"),
        (lambda: kl.softmax_cross_entropy(ROWS, [0, 0], ONES[:2], **ON), SpecError, r"bias has shape \(2,\)"),
        (
            lambda: kl.softmax_cross_entropy(ROWS, [0, 0], ONES.astype(H), **ON),
            ArgumentError,
            "bias has dtype",
        ),
        (
            lambda: kl.softmax_cross_entropy(ROWS.astype(int), [0, 0], **ON),
            ArgumentError,
            "x has dtype int64",
        ),
        (lambda: kl.bias_gelu_backward(ROWS, ROWS.T, ONES, **ON), SpecError, r"dy has shape \(2, 3\)"),
        (lambda: kl.bias_gelu_backward(ROWS, ROWS, ONES[:2], **ON), SpecError, r"bias has shape \(2,\)"),
        (lambda: kl.bias_gelu_backward(ROWS, ROWS, None, **ON), ArgumentError, "bias is None"),
        (
            lambda: kl.bias_gelu_backward(ROWS, ROWS.astype(H), ONES, **ON),
            ArgumentError,
            "x has dtype float16",
        ),
        (
            lambda: kl.bias_gelu_backward(ROWS, ROWS, ONES, approximate="erf", **ON),
            SpecError,
            "approximate is",
        ),
    ],
)
def test_bad_input_is_refused_in_one_sentence(call, error, words):
    with pytest.raises(error, match=f"^(softmax_cross_entropy|bias_gelu_backward): {words}"):
        call()


def test_sums_over_leading_axes_copy_nothing_turned(rng, monkeypatch):
    from kernellab import api_reduce

    ran = []
    apply = api_reduce.apply
    monkeypatch.setattr(
        api_reduce, "apply", lambda kernel, *a, **k: ran.append(kernel) or apply(kernel, *a, **k)
    )
    x = rng.integers(-9, 9, (3, 4, 5)).astype(F)
    for axis in (0, (0, 1), 1, -1):
        assert np.array_equal(kl.sum(x, axis=axis, **ON), x.sum(axis=axis))
    assert ran == ["column_sum/split"] * 2 + ["row_sum/warp"] * 2


def test_arrays_on_a_gpu_stay_there(monkeypatch):
    def cross_entropy(x, labels, bias, dx, loss, *rest):
        dx[...], loss[...] = x + labels[:, None] + (bias if bias.size else 0), rest[-1]

    def backward(dy, x, bias, dx, dbias, *rest):
        dx[...], dbias[...] = dy * x + bias, bias

    world, _ = make_gpu(monkeypatch)
    world.kernels |= {"softmax_cross_entropy_registers": cross_entropy, "bias_gelu_backward_fused": backward}
    x, labels = np.arange(6, dtype=F).reshape(2, 3), np.array([0, 2])
    loss, dx = kl.softmax_cross_entropy(world.array(x), world.array(labels), scale=3, device="gpu")
    assert np.array_equal(dx.get(), x + labels[:, None])
    assert loss.get().tolist() == [3, 3]
    added = world.array(np.ones(3, F))
    _, dx = kl.softmax_cross_entropy(world.array(x), world.array(labels), added, device="gpu")
    assert np.array_equal(dx.get(), x + labels[:, None] + 1)
    dx, dbias = kl.bias_gelu_backward(world.array(x), world.array(x), added, device="gpu")
    assert np.array_equal(dx.get(), x * x + 1)
    assert dbias.get().tolist() == [1, 1, 1]


def test_find_inf_leaves_the_scale_in_where_unscaling_loses_a_gradient():
    scaler = kl.GradScaler(device="emulator")
    kept = [np.array([1e-3, -0.0, 6e-8], H), np.ones((2, 2), F)]
    before = [array.tobytes() for array in kept]
    scaler.find_inf(kept)
    assert [array.tobytes() for array in kept] == before
    assert scaler.found_inf()[0] == 0
    with pytest.raises(kl.ExecutionError, match=r"find_inf\(\) has been called already"):
        scaler.find_inf(kept)
    params, means, squares = ([np.zeros(array.shape, F) for array in kept] for _ in range(3))
    scaler.step(kl.adamw, params, kept, means, squares, step=1, eps=1e-12, inv_scale=scaler.inv_scale)
    scaler.update()
    assert params[0][0] < 0
    scaler.unscale_(kept)
    assert kept[0][0] == 0  # what find_inf is for
    scaler.update()
    kept[1][1, 1] = np.nan
    scaler.find_inf(kept)
    assert scaler.found_inf()[0] == 1
