"""matmul and matmul_bias_gelu as functions: shapes, views, layouts, dtypes, outputs, rungs, bad input."""

from __future__ import annotations

import re

import ml_dtypes
import numpy as np
import pytest
from fakes import make_gpu

import kernellab as kl
from kernellab import api_matmul
from kernellab.api_matmul import rung_for
from kernellab.catalog import gelus
from kernellab.kernel import kernels_folder

F = np.float32
RNG = np.random.default_rng(0)


def normal(*shape, dtype=F):
    return RNG.standard_normal(shape).astype(dtype)


def product(*arrays, **options):
    return kl.matmul(*arrays, device="emulator", **options)


def layer(*arrays, **options):
    return kl.matmul_bias_gelu(*arrays, device="emulator", **options)


@pytest.mark.parametrize(
    ("left", "right"),
    [((3, 5), (5, 4)), ((5,), (5, 4)), ((3, 5), (5,)), ((5,), (5,)), ((2, 3, 5), (5, 4)), ((2, 3, 5), (5,))],
)
def test_shapes_are_those_of_numpy(left, right):
    a, b = normal(*left), normal(*right)
    y = product(a, b)
    assert y.dtype == F
    assert np.shape(y) == np.matmul(a, b).shape
    assert np.allclose(y, np.matmul(a, b), atol=1e-5)


@pytest.mark.parametrize(
    ("left", "right"), [((0, 5), (5, 4)), ((3, 0), (0, 4)), ((3, 5), (5, 0)), ((0,), (0, 2))]
)
def test_empty_operands(left, right):
    y = product(np.zeros(left, F), np.zeros(right, F))
    assert np.array_equal(y, np.matmul(np.zeros(left), np.zeros(right)))


def rungs_taken(monkeypatch, call):
    """Return the answer, and the rungs and the addresses of `b` that were applied for it."""
    taken = []
    real = api_matmul.apply

    def spy(kernel, a, b, *rest, **options):
        taken.append((kernel.id, b.ctypes.data))
        return real(kernel, a, b, *rest, **options)

    monkeypatch.setattr(api_matmul, "apply", spy)
    return call(), taken


def test_a_transposed_view_is_multiplied_as_it_lies(monkeypatch):
    a, weights = normal(3, 5), normal(4, 5)
    y, taken = rungs_taken(monkeypatch, lambda: product(a, weights.T))
    assert taken == [("matmul_nt/buffered", weights.ctypes.data)]
    assert np.allclose(y, a @ weights.T, atol=1e-5)
    y, taken = rungs_taken(monkeypatch, lambda: layer(a, weights.T, normal(4)))
    assert [name for name, _ in taken] == ["matmul_nt_bias_gelu/buffered"]


def test_other_views_are_copied(monkeypatch):
    a, b = normal(5, 6)[:, ::2].T, normal(5, 8)[:, 1::2]
    y, taken = rungs_taken(monkeypatch, lambda: product(a, b))
    assert [name for name, _ in taken] == ["matmul/buffered"]
    assert np.allclose(y, a @ b, atol=1e-5)


def test_a_single_column_is_no_transpose(monkeypatch):
    _, taken = rungs_taken(monkeypatch, lambda: product(normal(3, 5), normal(5, 1)))
    assert [name for name, _ in taken] == ["matmul/buffered"]


@pytest.mark.parametrize("is_turned", [False, True])
@pytest.mark.parametrize("dtype", [F, np.float16, ml_dtypes.bfloat16])
def test_layouts_are_not_mixed_up(dtype, is_turned):
    """Field report F12: numbered elements, and no two sides alike."""
    i, j = np.indices((16, 32))
    a = (100 * i + j).astype(dtype)
    i, j = np.indices((32, 48))
    b = ((3 * i + 5 * j + i * j) % 7 - 3).astype(F) / 8
    expected = a.astype(np.float64) @ b
    given = np.ascontiguousarray(b.T.astype(dtype)).T if is_turned else b.astype(dtype)
    assert np.array_equal(product(a, given), expected.astype(dtype))


@pytest.mark.parametrize("form", ["tanh", "erf"])
@pytest.mark.parametrize("dtype", [F, np.float16])
def test_the_layer_beside_its_reference(dtype, form):
    x, w, bias = normal(9, 16, dtype=dtype), normal(16, 24, dtype=dtype), normal(24, dtype=dtype)
    between = x.astype(np.float64) @ w.astype(np.float64) + bias
    expected = gelus.gelu(between, {"erf": gelus.ERF, "tanh": gelus.TANH}[form])
    y = layer(x, w, bias, approximate={"erf": "none"}.get(form, form))
    assert y.dtype == dtype
    assert np.allclose(y, expected, atol=1e-5 if dtype == F else 2e-2)
    other = gelus.gelu(between, {"erf": gelus.TANH, "tanh": gelus.ERF}[form])
    if dtype == F:
        assert np.abs(y - other).max() > 1e-4


def test_into_the_callers_array():
    a, b = normal(2, 3, 5), normal(5, 4)
    whole = np.zeros((2, 3, 4), F)
    assert product(a, b, out=whole) is whole
    assert np.allclose(whole, a @ b, atol=1e-5)
    every_other = np.zeros((2, 3, 8), F)[..., ::2]
    assert product(a, b, out=every_other) is every_other
    assert np.allclose(every_other, a @ b, atol=1e-5)


def test_on_a_gpu_nothing_is_copied(monkeypatch):
    world, _ = make_gpu(monkeypatch)

    def multiply(a, b, y, *sizes):
        y[...] = a @ b.T

    world.kernels["matmul_nt_buffered"] = multiply
    host, kept = normal(3, 5), normal(4, 5)
    a, weights, out = world.array(host), world.array(kept), world.array(np.zeros((3, 4), F))
    kl.matmul(a, weights.T)
    world.log.clear()
    assert kl.matmul(a, weights.T, out=out) is out
    assert [item[0] for item in world.log] == ["launch"]
    assert np.array_equal(out.host, host @ kept.T)
    with pytest.raises(kl.SpecError, match="out overlaps a"):
        kl.matmul(a, world.array(normal(5, 5)), out=a)


def test_numba():
    a, b = normal(3, 5), normal(5, 4)
    assert np.allclose(product(a, b, language="numba"), a @ b, atol=1e-5)


@pytest.mark.parametrize(
    ("shapes", "is_turned", "rung"),
    [
        (((3, 1024), (1024, 2)), False, "matmul/tiled"),
        (((32, 1030), (1030, 32)), True, "matmul/tiled"),
        (((33, 1024), (1024, 2)), False, "matmul/buffered"),
        (((3, 1023), (1023, 2)), True, "matmul_nt/buffered"),
    ],
)
def test_the_emulator_is_given_no_large_tile_for_few_outputs(shapes, is_turned, rung, monkeypatch):
    ran = []

    def noted(kernel, *arrays, **options):
        ran.append(kernel.id)
        return apply(kernel, *arrays, **options)

    apply = api_matmul.apply
    monkeypatch.setattr(api_matmul, "apply", noted)
    a, b = normal(*shapes[0]), normal(*shapes[1])
    assert np.allclose(product(a, b.T.copy().T if is_turned else b), a @ b, atol=1e-3)
    assert ran == [rung]


def test_an_output_between_the_columns_of_an_input():
    room = normal(8, 32)
    a, b = room[:, :16].copy(), normal(16, 16)
    product(room[:, :16], b, out=room[:, 16:])
    assert np.array_equal(room[:, :16], a)
    assert np.allclose(room[:, 16:], a @ b, atol=1e-4)
    with pytest.raises(kl.SpecError, match="matmul: out overlaps a"):
        product(room[:, :16], b, out=room[:, 15:31])


@pytest.mark.parametrize("problem", ["matmul", "matmul_nt", "matmul_bias_gelu", "matmul_nt_bias_gelu"])
def test_the_best_rung_of_a_device(problem):
    found = [
        rung_for(problem, element, arch).name
        for element in ("float32", "bfloat16")
        for arch in ("sm_75", "sm_80", "sm_90", "sm_100")
    ]
    assert found == [*4 * ["buffered"], "blocked", "mma", "wgmma", "mma"]
    assert rung_for(problem, "float16", "sm_90", "numba").name == "blocked"
    assert rung_for("matmul", "float32", "sm_90", "numba").name == "vectorised"


def test_shapes_that_do_not_suit_the_best_rung_are_taken_by_another():
    a, b = normal(3, 5, dtype=np.float16), normal(5, 7, dtype=np.float16)
    expected = a.astype(F) @ b.astype(F)
    assert np.allclose(product(a, b), expected, atol=2e-2)


A, B = np.zeros((2, 3), F), np.zeros((3, 4), F)


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (
            lambda: product(A, A),
            kl.SpecError,
            r"b has shape \(2, 3\), its first axis must be as long as .* a, 3",
        ),
        (
            lambda: product(A, np.zeros((2, 3, 4), F)),
            kl.SpecError,
            r"b has shape \(2, 3, 4\).*one axis or two",
        ),
        (lambda: product(F(2), B), kl.SpecError, "a is a single number"),
        (lambda: product(A.astype("f8"), B), kl.ArgumentError, r"a has dtype float64.*astype\('float32'\)"),
        (
            lambda: product(A, B.astype("f2")),
            kl.ArgumentError,
            "b has dtype float16, it must be float32 like a",
        ),
        (lambda: product(A.astype("i4"), B), kl.ArgumentError, "a has dtype int32"),
        (lambda: product(A, B, out=np.zeros((2, 3), F)), kl.SpecError, r"out has shape \(2, 3\)"),
        (lambda: product(A, B, out=np.zeros((2, 4))), kl.ArgumentError, "out has dtype float64"),
        (lambda: product(B.T[:3], B[:, :3], out=B[:, :3]), kl.SpecError, "out overlaps"),
        (lambda: product(A, B, language="c"), kl.SpecError, "language is 'c'"),
        (lambda: product(A, None), kl.ArgumentError, "b is None"),
        (lambda: layer(A, B, np.zeros(3, F)), kl.SpecError, r"bias has shape \(3,\), it must be \(4,\)"),
        (lambda: layer(A, B, np.zeros(4, "f2")), kl.ArgumentError, "bias has dtype float16"),
        (
            lambda: layer(A, B, np.zeros(4, F), approximate="erf"),
            kl.SpecError,
            "approximate is 'erf'.*'none' or 'tanh'",
        ),
    ],
)
def test_bad_input_is_one_sentence(call, error, words):
    with pytest.raises(error, match=words) as caught:
        call()
    assert "\n" not in str(caught.value)


OPERATORS = """
#include "element.cuh"
extern "C" __global__ void operators(const element_t* x, element_t* y) {
    const element_t a = x[0], b = x[1];
    element_t c[4] = {a, a, a, a};
    c[0] += b, c[1] -= b, c[2] *= b, c[3] /= b;
    y[0] = a + b, y[1] = a - b, y[2] = a * b, y[3] = a / b;
    y[4] = c[0], y[5] = c[1], y[6] = c[2], y[7] = c[3];
    y[8] = from_float<element_t>(to_float(a) + to_float(b));
}
"""


@pytest.mark.parametrize(("code", "dtype"), [(0, F), (1, np.float16), (2, ml_dtypes.bfloat16)])
def test_the_operators_of_every_element_type(code, dtype, tmp_path):
    """Field report F20: a hand-written half whose /= added."""
    path = tmp_path / "operators.cu"
    path.write_text(OPERATORS, encoding="utf-8")
    y = np.zeros(9, dtype)
    options = (f"-DELEMENT={code}", f"-I{kernels_folder() / 'include'}")
    kl.trace(path, "operators", 1, 1, (np.array([6, 3], dtype), y), options=options)
    assert y.tolist() == [9, 3, 18, 2, 9, 3, 18, 2, 9]


def test_no_helper_type_brings_arithmetic_of_its_own():
    """Whoever adds one has to put it into the table above."""
    texts = [path.read_text(encoding="utf-8") for path in kernels_folder().rglob("*.cu*")]
    assert any("operator()" in text for text in texts)
    assert not [found for text in texts for found in re.findall(r"operator\s*(?:[-+*/%]=?)[^\n]*", text)]
