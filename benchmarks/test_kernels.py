"""Every kernel of the catalogue in both languages: ``pytest benchmarks/test_kernels.py``.

On a GPU its time, beside a copy of as many bytes; without one its counts.
"""

from __future__ import annotations

import numpy as np
import pytest

from kernellab.kernel import Kernel, Language


@pytest.mark.benchmark(group="kernels")
def test_kernel(cuda_benchmark, kernel: Kernel, language: Language, arrays: list[np.ndarray]) -> None:
    cuda_benchmark.language = language
    cuda_benchmark(kernel, *arrays)
    if cuda_benchmark.is_counted_only:
        assert cuda_benchmark.extra_info["counts"]["warp_instructions"] > 0
    else:
        assert 0 < cuda_benchmark.extra_info["fraction_of_copy"] < 1.05
