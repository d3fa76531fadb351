"""`apply`: what a kernel wrote, outputs in place, and what is refused."""

from __future__ import annotations

import functools

import numpy as np
import pytest

import kernellab as kl

each_language = pytest.mark.parametrize("language", ["cuda-c", "numba"])
apply = functools.partial(kl.apply, device="emulator")


def floats(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape, dtype=np.float32)


def same(actual, expected):
    assert actual.dtype == expected.dtype
    assert np.array_equal(actual, expected, equal_nan=True)


def test_a_failing_kernel_leaves_out_alone():
    out = np.full(8192, 7, np.float32)
    with pytest.raises(kl.ExecutionError, match="copy/float4_faulty: out of bounds global load"):
        apply("copy/float4_faulty", floats(8192), out=out)
    assert (out == 7).all()


@each_language
def test_apply_returns_what_the_kernel_wrote_right_or_wrong(language):
    answer = apply("relu/multiply", np.array([-np.inf, 2, -1], np.float32), language=language)
    assert np.isnan(answer[0])
    assert answer[1] == 2


def test_apply_with_parameters():
    x = floats(100)
    same(apply("copy/offset", x, offset=100), x)
    with pytest.raises(
        kl.ArgumentError, match="copy/offset: there is no parameter 'stride'; it takes offset"
    ):
        apply("copy/offset", x, stride=2)
    with pytest.raises(
        kl.SpecError, match="copy/offset: offset is 101, it must be at most n = 100; lower it"
    ):
        apply("copy/offset", x, offset=101)
    with pytest.raises(kl.SpecError, match="copy/strided: stride is 4294967296, it must fit int32"):
        apply("copy/strided", x, stride=2**32)


def test_apply_out_by_name_and_in_a_tuple():
    x, out = floats(8), np.zeros(8, np.float32)
    assert apply("copy/scalar", x, out=(out,)) is out
    out[:] = 0
    assert apply("copy/scalar", x, out={"y": out}) is out
    same(out, x)
    with pytest.raises(kl.ArgumentError, match="copy/scalar: z is not an output; the outputs are y"):
        apply("copy/scalar", x, out={"z": out})
    with pytest.raises(kl.ArgumentError, match="copy/scalar: out has 2 arrays, the outputs are y"):
        apply("copy/scalar", x, out=(out, out))


def test_apply_refuses_an_unknown_kernel():
    with pytest.raises(
        kl.SpecError, match="transpose/paded: transpose has no rung 'paded'; did you mean 'padded'"
    ):
        apply("transpose/paded", floats(2, 2))
    with pytest.raises(kl.ArgumentError, match="kernel is a int, it must be an id or a Kernel"):
        apply(3, floats(2, 2))


def test_apply_refuses_an_unknown_language():
    with pytest.raises(
        kl.SpecError, match="copy/scalar: language is 'cuda', it must be one of cuda-c, numba"
    ):
        apply("copy/scalar", floats(2), language="cuda")


@each_language
def test_apply_with_other_constants(language):
    x = floats(5000)
    same(apply("scale/unrolled", x, constants={"VECTORS": 8}, language=language), x * 2)
    same(
        apply("transpose/padded", x.reshape(50, 100), constants={"TILE": 8}, language=language),
        x.reshape(50, 100).T,
    )
    with pytest.raises(kl.SpecError, match=r"^scale/unrolled: VECTORS is 17, it must be 1 to 16; take 4$"):
        apply("scale/unrolled", x, constants={"VECTORS": 17})
    for name, known in (("TILE", "VECTORS"), ("ELEMENT", "VECTORS")):
        with pytest.raises(
            kl.SpecError, match=f"^scale/unrolled: there is no constant '{name}', it has {known};"
        ):
            apply("scale/unrolled", x, constants={name: 1})
    with pytest.raises(
        kl.SpecError, match=r"^relu/branch: there is no constant 'TILE', it has none; leave it out$"
    ):
        apply("relu/branch", x, constants={"TILE": 1})
