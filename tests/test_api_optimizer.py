"""adamw, grad_norm, clip_grad_norm on the emulator: values, lists, views, skipped steps, what is refused."""

from __future__ import annotations

import math

import ml_dtypes
import numpy as np
import pytest

import kernellab as kl

BRAIN = ml_dtypes.bfloat16
SHAPES = ((3, 5), (1,), (0,), (1030,), (2, 3, 4))


def normal(shape, dtype="float32", seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def state(shapes=SHAPES, dtypes=("float32",)):
    """Parameters, gradients in these dtypes by turns, and means, as after some steps."""
    params = [normal(shape, seed=k) for k, shape in enumerate(shapes)]
    grads = [normal(shape, dtypes[k % len(dtypes)], 10 + k) for k, shape in enumerate(shapes)]
    means = [normal(shape, seed=20 + k) for k, shape in enumerate(shapes)]
    squares = [np.square(normal(shape, seed=30 + k)) for k, shape in enumerate(shapes)]
    return params, grads, means, squares


def stepped(
    param, grad, mean, square, *, step, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, decay=1e-2, factor=1.0
):
    """One step of AdamW as its authors write it, in float64."""
    p, g, m, v = (np.asarray(each, np.float64) for each in (param, grad, mean, square))
    g = g * factor
    m, v = betas[0] * m + (1 - betas[0]) * g, betas[1] * v + (1 - betas[1]) * g * g
    unbiased = m / (1 - betas[0] ** step), v / (1 - betas[1] ** step)
    return p - lr * decay * p - lr * unbiased[0] / (np.sqrt(unbiased[1]) + eps), m, v


def adamw(*arrays, **options):
    return kl.adamw(*arrays, **{"step": 3, "device": "emulator", **options})


def assert_close(found, expected):
    np.testing.assert_allclose(found, expected, rtol=3e-6, atol=1e-7)


@pytest.mark.parametrize("step", [1, 2, 1000, 10**6])
def test_a_step_is_that_of_the_paper(step):
    params, grads, means, squares = state([(1030,)])
    expected = stepped(params[0], grads[0], means[0], squares[0], step=step)
    assert adamw(params[0], grads[0], means[0], squares[0], step=step) is params[0]
    for found, want in zip((params[0], means[0], squares[0]), expected, strict=True):
        assert_close(found, want)


def test_options():
    arrays = [each[0] for each in state([(100,)])]
    options = {"lr": 0.1, "betas": (0.0, 0.5), "eps": 0.1}
    expected = stepped(*arrays, step=3, decay=0.3, **options)
    adamw(*arrays, weight_decay=0.3, **options)
    assert_close(arrays[0], expected[0])


def test_lists_of_mixed_dtypes_and_16_bit_parameters():
    params, grads, means, squares = state(dtypes=("float16", "bfloat16", "float32"))
    halves = [np.empty(each.shape, (BRAIN, "float16")[k % 2]) for k, each in enumerate(params)]
    given = list(zip(params, grads, means, squares, strict=True))
    expected = [stepped(*each, step=3, factor=0.25) for each in given]
    assert adamw(params, grads, means, squares, inv_scale=0.25, out=halves) is halves
    for k, (p, m, v) in enumerate(expected):
        for found, want in ((params[k], p), (means[k], m), (squares[k], v)):
            assert_close(found, want)
        assert np.array_equal(halves[k], params[k].astype(halves[k].dtype))


def test_views_of_any_strides():
    room = [normal((40, 6), seed=k) for k in range(4)]
    room[3] = np.square(room[3])
    before = [each.copy() for each in room]
    views = [each[::-3, 1::2] for each in room]
    expected = stepped(*views, step=3)
    adamw(*views)
    assert_close(views[0], expected[0])
    inside = np.zeros((40, 6), bool)
    inside[::-3, 1::2] = True
    assert all(np.array_equal(a[~inside], b[~inside]) for a, b in zip(room, before, strict=True))


@pytest.mark.parametrize("start", [1, 2, 3])
def test_arrays_that_do_not_start_at_16_bytes(start):
    arrays = [each[0][start:] for each in state([(2100,)], ("float16",))]
    half = np.empty(2100, "float16")[start:]
    expected = stepped(*arrays, step=3)
    adamw(*arrays, out=half)
    assert_close(arrays[0], expected[0])
    assert np.array_equal(half, arrays[0].astype("float16"))


def test_more_tensors_than_one_table_holds():
    arrays = state([(k % 5,) for k in range(600)], ("float16",))
    expected = [stepped(*each, step=3)[0] for each in zip(*arrays, strict=True)]
    adamw(*arrays)
    for found, want in zip(arrays[0], expected, strict=True):
        assert_close(found, want)


def bits(arrays):
    return [each.tobytes() for each in arrays]


@pytest.mark.parametrize("language", ["cuda-c", "numba"])
def test_a_skipped_step_changes_not_one_bit(language):
    params, grads, means, squares = state(dtypes=("float16",))
    params[0][0, 0] = np.array(0x7FC12345, "uint32").view("float32")  # NaN with a payload
    grads[1][0] = np.inf
    halves = [normal(each.shape, "float16", 7) for each in params] if language == "cuda-c" else None
    changed = (*params, *means, *squares, *(halves or ()))
    before = bits(changed)
    found = np.ones(1, "float32")
    adamw(params, grads, means, squares, found_inf=found, out=halves, language=language)
    assert bits(changed) == before
    found[0] = 0
    adamw(params, grads, means, squares, found_inf=found, out=halves, language=language)
    assert bits(changed) != before


def test_skipped_steps_do_not_count():
    first, second = state([(50,)]), state([(50,)])
    adamw(*first, step=5, skipped=np.array([2], "int32"))
    adamw(*second, step=3)
    assert bits(first[0]) == bits(second[0])


def test_a_first_step_is_the_least():
    first, second = state([(50,)]), state([(50,)])
    adamw(*first, step=2, skipped=np.array([7], "int32"))
    adamw(*second, step=1)
    assert bits(first[0]) == bits(second[0])


def test_zero_gradients_only_decay():
    param = np.ones(5, "float32")
    adamw(param, *(np.zeros(5, "float32") for _ in range(3)), lr=0.1, weight_decay=0.5)
    assert_close(param, 0.95)


def test_nan_in_a_gradient_is_not_hidden():
    params, grads, means, squares = state([(4,)])
    grads[0][2] = np.nan
    adamw(params, grads, means, squares)
    assert np.isnan(params[0]).tolist() == [False, False, True, False]


def test_nothing_to_do():
    assert adamw([], [], [], []) == []
    arrays = [np.zeros(0, "float32") for _ in range(4)]
    assert adamw(*arrays) is arrays[0]


def test_clipping_in_the_same_pass():
    params, grads, means, squares = state(dtypes=("float16", "float32"))
    total = math.sqrt(sum(float(np.square(each.astype(np.float64)).sum()) for each in grads))
    norm = kl.grad_norm(grads, device="emulator")
    np.testing.assert_allclose(norm, [total], rtol=1e-6)
    given = list(zip(params, grads, means, squares, strict=True))
    expected = [stepped(*each, step=3, factor=0.5 * min(1, 2 / (total / 2)))[0] for each in given]
    before = bits(grads)
    adamw(params, grads, means, squares, inv_scale=0.5, norm=norm, max_norm=2.0)
    for found, want in zip(params, expected, strict=True):
        np.testing.assert_allclose(found, want, rtol=1e-5, atol=1e-7)
    assert bits(grads) == before


@pytest.mark.parametrize("language", ["cuda-c", "numba"])
def test_clip_grad_norm(language):
    grads = [normal((40, 3)), normal(17, "float16")][: 1 if language == "numba" else 2]
    total = math.sqrt(sum(float(np.square(each.astype(np.float64)).sum()) for each in grads))
    expected = [each.astype(np.float64) / total for each in grads]
    norm = kl.clip_grad_norm(grads, 1.0, language=language, device="emulator")
    np.testing.assert_allclose(norm, [total], rtol=1e-6)
    np.testing.assert_allclose(grads[0], expected[0], rtol=1e-5)
    np.testing.assert_allclose(grads[-1].astype(np.float64), expected[-1], rtol=1e-3)
    before = bits(grads)
    kl.clip_grad_norm(grads, 1e3, language=language, device="emulator")
    assert bits(grads) == before


@pytest.mark.parametrize(("bad", "left"), [(math.nan, [math.nan] * 2), (math.inf, [0, math.nan])])
def test_the_norm_of_what_is_not_finite(bad, left):
    grads = np.array([1, bad], "float32")
    norm = kl.clip_grad_norm(grads, 1.0, device="emulator")
    np.testing.assert_array_equal(norm, np.array([bad], "float32"))
    np.testing.assert_array_equal(grads, np.array(left, "float32"))


def test_the_norm_of_nothing_is_0():
    for grads in ([], np.zeros(0, "float16"), [np.zeros(3, BRAIN)]):
        assert kl.grad_norm(grads, device="emulator").tolist() == [0]


def arrays_of(n=3, dtype="float32"):
    return [np.ones(n, "float32"), np.ones(n, dtype), np.zeros(n, "float32"), np.zeros(n, "float32")]


SHARED = np.ones(6, "float32")
READ_ONLY = np.ones(3, "float32")
READ_ONLY.flags.writeable = False


@pytest.mark.parametrize(
    ("arrays", "options", "error", "match"),
    [
        (arrays_of(), {"step": 0}, kl.SpecError, "adamw: step is 0, it must be at least 1"),
        (arrays_of(), {"step": 1.0}, kl.ArgumentError, "adamw: step is 1.0, it must be an integer"),
        (arrays_of(), {"betas": (0.9, 1.0)}, kl.SpecError, "each must be at least 0 and below 1"),
        (arrays_of(), {"betas": 0.9}, kl.ArgumentError, "betas is 0.9, it must be two numbers"),
        (arrays_of(), {"eps": -1.0}, kl.SpecError, "eps is -1.0, it must be at least 0"),
        (arrays_of(), {"lr": -0.1}, kl.SpecError, "lr is -0.1, it must be at least 0"),
        (arrays_of(), {"lr": math.inf}, kl.SpecError, "adamw: lr is inf, it must be at most 3.4.*; lower it"),
        (arrays_of(), {"eps": math.nan}, kl.SpecError, "eps is nan, it must be at least 0.0; pass a number"),
        (arrays_of(), {"skipped": -1}, kl.SpecError, "adamw: skipped is -1, it must be at least 0"),
        (arrays_of(), {"skipped": 1.5}, kl.ArgumentError, "adamw: skipped is 1.5, it must be an integer"),
        (arrays_of(), {"skipped": math.nan}, kl.ArgumentError, "adamw: skipped is nan, it must be an integer"),
        (arrays_of(), {"skipped": 2**40}, kl.SpecError, "adamw: skipped is 1099511627776, it must fit int32"),
        (arrays_of(), {"skipped": 3}, kl.SpecError, "adamw: skipped is 3, it must be at most 2; lower it"),
        (arrays_of(), {"inv_scale": 1e-60}, kl.SpecError, "adamw: inv_scale is 1e-60, it must be at least 1.17"),
        (arrays_of(), {"inv_scale": math.nan}, kl.SpecError, "adamw: inv_scale is nan, it must be at least"),
        (arrays_of(), {"inv_scale": math.inf}, kl.SpecError, "adamw: inv_scale is inf, it must be at most"),
        (arrays_of(), {"inv_scale": "2"}, kl.ArgumentError, "inv_scale is a str, it must be a number or an array"),
        (arrays_of(), {"found_inf": [0.0]}, kl.ArgumentError, "found_inf is a list, it must be a number or an array"),
        (arrays_of(), {"norm": 1e39, "max_norm": 1.0}, kl.SpecError, "norm is 1e.39, it must fit float32"),
        ([{"w": READ_ONLY}, *arrays_of()[1:]], {}, kl.ArgumentError, "param is a dict, it must be an array, or a list"),
        (arrays_of(), {"max_norm": 1.0}, kl.ArgumentError, "norm and max_norm go together"),
        (arrays_of(), {"norm": 1.0, "max_norm": math.nan}, kl.SpecError, "max_norm is nan"),
        (arrays_of(dtype="float64"), {}, kl.ArgumentError, "grad has dtype float64, it must be float32, float16 or"),
        (arrays_of(), {"out": np.ones(3, "float32")}, kl.ArgumentError, "out has dtype float32, it must be float16"),
        (arrays_of(), {"out": np.ones(4, "float16")}, kl.SpecError, r"out\[0\] has shape \(4,\) and param\[0\] \(3,\)"),
        ([[each] for each in arrays_of()[:3]] + [[]], {}, kl.SpecError, "exp_avg_sq has 0 arrays and param 1"),
        ([SHARED[:3], np.ones(3, "float16"), SHARED[2:5], np.ones(3, "float32")], {}, kl.SpecError, "share memory"),
        ([READ_ONLY, *arrays_of()[1:]], {}, kl.SpecError, "adamw: param is read-only"),
        ([None, *arrays_of()[1:]], {}, kl.ArgumentError, "param is None, it must be an array"),
        (arrays_of(), {"found_inf": np.zeros(2, "float32")}, kl.SpecError, "found_inf has shape .2,., it must hold one"),
        (arrays_of(), {"skipped": np.zeros(1, "float32")}, kl.ArgumentError, "skipped has dtype float32, it must be int32"),
        (arrays_of(), {"out": np.ones(3, "float16"), "language": "numba"}, kl.SpecError, "it has no Numba twin"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)  # fmt: skip
def test_refused_before_anything_is_changed(arrays, options, error, match):
    with pytest.raises(error, match=match):
        adamw(*arrays, **options)
    if isinstance(arrays[0], np.ndarray):
        assert (arrays[0] == 1).all()


@pytest.mark.parametrize("inv_scale", [1e-60, math.nan, math.inf, 2.0**127])
def test_a_scale_that_float32_has_no_inverse_of_is_refused(inv_scale):
    grads = np.ones(3, "float32")
    with pytest.raises(kl.SpecError, match=r"^clip_grad_norm: inv_scale is .*, it must "):
        kl.clip_grad_norm(grads, 1.0, inv_scale=inv_scale, device="emulator")
    assert (grads == 1).all()


def interleaved(whole):
    """Two views that take turns in memory, and share none."""
    return [whole[:, :3], whole[:, 3:]] if whole.ndim == 2 else [whole[::2], whole[1::2]]


@pytest.mark.parametrize("shape", [(4, 6), (10,)])
def test_views_that_take_turns_share_no_memory(shape):
    arrays = [normal(shape, seed=k) ** 2 for k in range(4)]
    expected = stepped(*arrays, step=3)[0]
    adamw(*map(interleaved, arrays))
    assert_close(arrays[0], expected)
    assert kl.clip_grad_norm(interleaved(arrays[1]), 1.0, device="emulator") > 1
    np.testing.assert_allclose(np.linalg.norm(arrays[1]), 1, rtol=1e-5)


def test_an_overlap_is_found_behind_another_array():
    whole, means = np.ones(12, "float32"), [np.zeros(3, "float32") for _ in range(8)]
    grads = [whole[::4], whole[1:4], np.ones(3, "float32")]
    with pytest.raises(kl.SpecError, match=r"adamw: grad\[0\] and param\[2\] share memory"):
        adamw([*means[:2], whole[8:11]], grads, means[2:5], means[5:8])
    assert (whole == 1).all()


@pytest.mark.parametrize(("name", "owner"), [("found_inf", 0), ("inv_scale", 0), ("norm", 2), ("skipped", 3)])
def test_numbers_that_lie_in_what_is_changed_are_refused(name, owner):
    arrays = arrays_of()
    owned = ("param", "grad", "exp_avg", "exp_avg_sq")[owner]
    number = arrays[owner][1:2].view("int32" if name == "skipped" else "float32")
    options = {name: number, **({"max_norm": 1.0} if name == "norm" else {})}
    with pytest.raises(kl.SpecError, match=rf"adamw: {owned}\[0\] and {name} share memory"):
        adamw(*arrays, **options)
    assert (arrays[0] == 1).all()


def test_lists_may_be_iterators():
    params, grads, means, squares = state()
    expected = [stepped(*each, step=3)[0] for each in zip(params, grads, means, squares, strict=True)]
    halves = [np.empty(each.shape, "float16") for each in params]
    found = adamw(iter(params), (each for each in grads), means, squares, out=iter(halves))
    for param, half, want in zip(params, found, expected, strict=True):
        assert_close(param, want)
        assert np.array_equal(half, param.astype("float16"))
