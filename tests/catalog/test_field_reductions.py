"""What goes wrong for real users of sums, maxima and scans: field reports D08, F05, F06, F07, F08, F17."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
from catalog_runs import plan_of, run

import kernellab as kl
from kernellab import catalog
from kernellab.problem import Case

each_language = pytest.mark.parametrize("language", ["cuda-c", "numba"])
SEEDS = range(6)
NAIVE = """
extern "C" __global__ void naive_sum(const float* x, float* y, long long n) {
    const long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (i < n) {
        atomicAdd(y, x[i]);
    }
}
"""


@pytest.fixture
def naive_sum(tmp_path):
    """Return the function (x, start, seed) -> sum by one atomic: `start` is what stands in y before."""
    path = tmp_path / "naive.cu"
    path.write_text(NAIVE, encoding="utf-8")

    def add(x, start=0, seed=None):
        y = np.full(1, start, np.float32)
        kl.trace(str(path), "naive_sum", -(-x.size // 256), 256, [x, y, x.size], seed=seed)
        return y[0]

    return add


def bits_of(rung, binary_of, seed):
    plan = plan_of(rung, Case("bits", {"n": 3000}))
    outputs, _ = run(plan, lambda part: binary_of(part, "cuda-c"), "cuda-c", seed=seed)
    return outputs["y"].tobytes()


@pytest.mark.parametrize("rung", catalog.kernels("sum"), ids=lambda rung: rung.id)
def test_a_sum_has_the_same_bits_in_every_order(rung, binary_of):
    """D08: what is declared deterministic gives the same bits whatever order atomics are served in."""
    assert rung.deterministic
    assert len({bits_of(rung, binary_of, seed) for seed in SEEDS}) == 1


def test_an_atomic_sum_depends_on_the_order(naive_sum):
    """D08: float atomics give other bits in another order, all within the bound of the rounding errors."""
    x = np.random.default_rng(5).standard_normal(3000, dtype=np.float32)
    sums = [naive_sum(x, seed=seed) for seed in SEEDS]
    assert len({value.tobytes() for value in sums}) > 1
    assert naive_sum(x, seed=1) == naive_sum(x, seed=1)
    bound = x.size * np.finfo(np.float32).eps * np.abs(x, dtype=np.float64).sum()
    assert all(abs(value - x.sum(dtype=np.float64)) <= bound for value in sums)


@each_language
@pytest.mark.parametrize(("count", "expected"), [(2049, 2048), (4096, 4096), (65519, 65504), (65520, np.inf)])
def test_16_bit_sums_overflow_only_at_the_end(count, expected, language):
    """F05: the accumulator is float32, the answer is rounded once, and a float32 answer is there for asking."""
    on = {"language": language, "device": "emulator"}
    x = np.ones(count, np.float16)
    y = kl.sum(x, **on)
    assert (y.dtype, float(y)) == (np.float16, expected)
    if language == "cuda-c":
        assert kl.sum(x, dtype=np.float32, **on) == count
        assert kl.cumsum(x, dtype=np.float32, **on)[-1] == count


@pytest.mark.parametrize("value", [500, 40000])
def test_means_of_large_16_bit_values(value):
    """F05: 300 times 500 and 3 times 40000 have means, by way of a sum in float32."""
    x = np.full(300 if value == 500 else 3, value, np.float16)
    assert kl.sum(x, dtype=np.float32, device="emulator") / x.size == value


def test_one_atomic_stalls_at_two_to_the_24(naive_sum):
    """F06: float32 has no 16777217; a reference in float32 would be wrong along with the kernel."""
    ones = np.ones(300, np.float32)
    assert naive_sum(ones, start=2**24) == 2**24
    assert np.float32(26862209) == 26862208
    reference = catalog.kernel("sum/vectorised").problem.reference(np.ones(2**25, np.float32))["y"]
    assert (reference.dtype, reference[0]) == (np.float64, 2**25)
    x = np.full(2**12, 2**13 + 1, np.float32)
    assert kl.sum(x, device="emulator") == 2**25 + 2**12


@each_language
@pytest.mark.parametrize("size", [1, 1000, 1003])
def test_nan_wins(size, language):
    """F07: NaN first, in the middle, last or alone is the largest, as in NumPy; other rows stay clean."""
    on = {"language": language, "device": "emulator"}
    for place in {0, size // 2, size - 1}:
        x = np.random.default_rng(size).standard_normal(size, dtype=np.float32)
        x[[place, size - 1]] = np.nan
        assert np.isnan(kl.max(x, **on))
        assert kl.argmax(x, **on) == np.argmax(x) == place
        rows = np.stack([np.nan_to_num(x), x])
        assert np.isnan(kl.max(rows, axis=1, **on)).tolist() == [False, True]
        assert kl.argmax(rows, axis=1, **on).tolist() == np.argmax(rows, axis=1).tolist()


@each_language
@pytest.mark.parametrize("values", [*permutations([-0.0, 0.0, -1.0]), (-0.0, -1.0), (-np.inf, -np.inf)])
def test_zeros_of_either_sign_are_equal(values, language):
    """F08: the largest is zero of either sign, never -1; argmax finds the first zero."""
    on = {"language": language, "device": "emulator"}
    x = np.array(values, np.float32)
    assert kl.max(x, **on) == np.max(x)
    assert kl.argmax(x, **on) == np.argmax(x)
    assert kl.argmax(np.stack([x, x]), axis=1, **on).tolist() == 2 * [np.argmax(x)]


@each_language
def test_the_first_of_equals_wherever_it_stands(language):
    """F08's kin: ties within a vector, between vectors, threads and blocks; the place is that of NumPy."""
    on = {"language": language, "device": "emulator"}
    for places in ([7, 6, 5], [4099, 4096], [2, 8000], [12001, 12002], [0, 3]):
        x = np.full(12003, -np.inf, np.float32)
        x[places] = 5
        assert kl.argmax(x, **on) == min(places)
    assert kl.argmax(np.full(12003, -np.inf, np.float32), **on) == 0


@each_language
@pytest.mark.parametrize("rung", ["lookback", "grouped"])
def test_an_exclusive_scan_carries_at_the_block_edge(rung, language):
    """F17: 15 ones give 0 to 14; ones at 511 and 599 show right after them, not at them."""
    on = {"exclusive": 1, "language": language, "device": "emulator"}
    assert kl.apply(f"cumsum/{rung}", np.ones(15, np.float32), **on).tolist() == list(range(15))
    x = np.zeros(1024, np.float32)
    x[[511, 599]] = 1
    assert kl.apply(f"cumsum/{rung}", x, **on)[[510, 511, 512, 599, 600]].tolist() == [0, 0, 1, 1, 2]
