"""All-reduce on two GPUs: right sums on both first, then what overlaps and what does not."""

from __future__ import annotations

import numpy as np
import pytest

from kernellab.catalog import kernel
from kernellab.catalog.all_reduce import middle
from kernellab.devices.gpu_ranks import pair
from kernellab.experiments import ranks
from kernellab.experiments.ranks import Stand
from kernellab.plan import bind

pytestmark = pytest.mark.gpu(count=2)
each_language = pytest.mark.parametrize("language", ["cuda-c", "numba"])


@each_language
@pytest.mark.parametrize("rung", ["scalar", "vectorised"])
@pytest.mark.parametrize("element", ["float32", "float16"])
@pytest.mark.parametrize("n", [1, 33, 1003, 2**20 + 3])
def test_each_rank_adds_up_its_half_in_both_memories(device, language, rung, element, n):
    two = pair(device)
    given = [
        np.random.default_rng(seed).standard_normal(n, dtype=np.float32).astype(element) for seed in (0, 1)
    ]
    arrays = {name: rank.empty((n,), element) for name, rank in zip("xy", two, strict=True)}
    for rank, name, values in zip(two, "xy", given, strict=True):
        with rank.on():
            arrays[name].set(values)
            rank.compute.synchronize()
    total = (given[0].astype(np.float32) + given[1].astype(np.float32)).astype(element)
    between = middle(n, 16 // total.itemsize)
    for number, rank in enumerate(two):
        with rank.on():
            plan = bind(kernel(f"all_reduce/{rung}"), arrays, limits=device.limits, rank=number)
            device.launch(device.build(plan.kernel, language), plan, arrays)
            rank.compute.synchronize()
        done = slice(0, between if number == 0 else n)
        for other, name in zip(two, "xy", strict=True):
            with other.on():
                assert np.array_equal(arrays[name].get()[done], total[done])


@each_language
def test_iterations_give_the_sums_in_every_way_and_the_good_ones_overlap(device, language):
    found = Stand(device, language, tokens=2048, layers=4).measure(rounds=5)
    if language == "cuda-c":  # so little to compute does not hide what it takes the host to launch in Numba
        assert found[ranks.EACH.label].seconds < found[ranks.END.label].seconds
    for variant in (ranks.SAME, ranks.WAITS):
        assert found[variant.label].overlap.hidden < 0.3
    for span in found[ranks.EACH.label].spans:
        assert 0 <= span.start <= span.stop


def test_the_link_is_measured_both_ways(device):
    one_way, both_ways = Stand(device, "cuda-c", tokens=128, layers=2, side=1024).link()
    assert 1e9 < both_ways <= 1.1 * one_way
