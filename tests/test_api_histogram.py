"""Histograms at the edges of what NumPy's rule says: nothing, equal ends, huge ranges, NaN, weights."""

from __future__ import annotations

import re
from contextlib import nullcontext

import numpy as np
import pytest

import kernellab as kl

ON = {"device": "emulator"}
BYTES = np.array([0, 1, 2, 3, 4, 4, 255], np.uint8)
SAMPLE = np.array([0, 1, 2, 3, 4, 4], np.float32)
OUTSIDE = np.array([*SAMPLE, -1, np.finfo(np.float32).max, 2**31 + 1000, np.nan, np.inf, -np.inf], np.float32)


def both(x, *options):
    """Return ours beside NumPy's, or what each raises."""
    found = []
    for function, more in ((kl.histogram, ON), (np.histogram, {})):
        try:
            with np.errstate(all="ignore") if function is np.histogram else nullcontext():
                counts, edges = function(x, *options, **more)
            found.append((counts.tolist(), counts.dtype, edges.tolist()))
        except Exception as error:
            found.append((type(error), str(error)))
    return found


@pytest.mark.parametrize("language", ["cuda-c", "numba"])
def test_the_last_bin_is_closed_and_what_lies_outside_is_ignored(language):
    assert kl.histogram(SAMPLE, 4, (0, 4), language=language, **ON)[0].tolist() == [1, 1, 1, 3]
    assert kl.histogram(OUTSIDE, 4, (0, 4), language=language, **ON)[0].tolist() == [1, 1, 1, 3]
    assert kl.histogram(OUTSIDE, 2000, (0, 4), language=language, **ON)[0].sum() == 6
    assert kl.histogram(BYTES, 4, (0, 4), language=language, **ON)[0].tolist() == [1, 1, 1, 3]


@pytest.mark.parametrize(
    "options",
    [
        (4, (2, 2)),
        (3, (-1e30, 3e38)),
        (7, (-3.4e38, 3.4e38)),
        (3, (0, 1e300)),
        (3, (-1e300, 1e300)),
        (5, (0, 1e-40)),
        (5, (0, 1e-300)),
        (5, (-0.0, 0.0)),
        (3, (4, 0)),
        (3, (0, np.nan)),
        (3, (0, np.inf)),
        (-1, (0, 1)),
        (0, (0, 1)),
        (2.5, (0, 1)),
        ([3, 1],),
        ([2],),
        ([[0, 1], [2, 3]],),
        ([-np.inf, 0, np.inf],),
        ([-1e300, 1, 1e300],),
        (np.int64(3), (0, 4)),
    ],
    ids=str,
)
@pytest.mark.parametrize("x", [SAMPLE, OUTSIDE, SAMPLE[:0], BYTES], ids=["plain", "outside", "none", "bytes"])
def test_as_numpy_or_its_refusal(x, options):
    ours, numpys = both(x, *options)
    assert ours == numpys


@pytest.mark.parametrize(
    "x", [OUTSIDE, SAMPLE[:0], SAMPLE[:1], BYTES[:0]], ids=["nan", "none", "one", "no bytes"]
)
def test_the_range_of_the_elements_is_numpys(x):
    ours, numpys = both(x, 3)
    assert ours == numpys


@pytest.mark.parametrize("x", [SAMPLE, BYTES], ids=["float32", "uint8"])
def test_weights_are_refused(x):
    message = f"^{re.escape('histogram: weights have shape (2,), they must have the shape of x, ')}"
    with pytest.raises(kl.SpecError, match=message):
        kl.histogram(x, weights=np.ones(2), **ON)
    with pytest.raises(
        kl.ArgumentError, match=r"^histogram: weights are given, it only counts; take numpy\.h"
    ):
        kl.histogram(x, 4, (0, 4), False, np.ones(x.shape), **ON)


def test_no_edges_are_no_bins():
    counts, edges = kl.histogram(np.ones(3, "float32"), bins=[], device="emulator")
    expected = np.histogram(np.ones(3, "float32"), bins=[])
    assert counts.dtype == expected[0].dtype
    assert counts.size == edges.size == expected[1].size == 0


def test_densities_are_numpys_to_the_last_bit():
    x = np.random.default_rng(0).standard_normal(2000).astype("float32")
    expected = np.histogram(x, 7, density=True)[0]
    assert kl.histogram(x, 7, density=True, device="emulator")[0].tobytes() == expected.tobytes()
