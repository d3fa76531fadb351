"""Sums, maxima and scans of a size that only a GPU takes: exact counts, and the same bits in fifty runs."""

from __future__ import annotations

import numpy as np
import pytest

import kernellab as kl
from kernellab import catalog

LANGUAGES = ("cuda-c", "numba")
RUNGS = [rung for problem in ("sum", "max", "argmax", "cumsum") for rung in catalog.kernels(problem)]
each_rung = pytest.mark.parametrize("rung", RUNGS, ids=lambda rung: rung.id)
each_language = pytest.mark.parametrize("language", LANGUAGES)


@each_language
@pytest.mark.parametrize("rung", catalog.kernels("sum"), ids=lambda rung: rung.id)
def test_more_ones_than_float32_counts_one_by_one(cupy, rung, language):
    """F06: 2**25 ones are 33554432 by any tree; one accumulator would stall at 16777216."""
    ones = cupy.ones(2**25, np.float32)
    assert float(kl.apply(rung.id, ones, device="gpu", language=language)[0]) == 2**25


@each_language
@each_rung
def test_fifty_runs(cupy, rung, language):
    """D08: the same bits where the kernel is deterministic, else the same within the rounding errors."""
    x = cupy.random.default_rng(1).standard_normal(2**22, dtype=np.float32)

    def answer():
        return kl.apply(rung.id, x, device="gpu", language=language).get()

    first = answer()
    bound = 64 * np.finfo(np.float32).eps * float(cupy.abs(x).sum())
    for _ in range(49):
        again = answer()
        if rung.deterministic:
            assert again.tobytes() == first.tobytes()
        else:
            assert np.abs(again.astype(np.float64) - first).max() <= bound


@each_language
def test_argmax_far_in(cupy, language):
    """F07: the first of equals, and the first NaN, of many elements."""
    x = cupy.zeros(2**26 + 3, np.float32)
    x[[2**25 + 1, 2**25 + 2, 2**26 + 2]] = 1
    assert int(kl.argmax(x, device="gpu", language=language)) == 2**25 + 1
    x[[2**26 + 1, 2**26 + 2]] = np.nan
    assert int(kl.argmax(x, device="gpu", language=language)) == 2**26 + 1
