"""Every problem of the catalogue compiled once for each language."""

from __future__ import annotations

from functools import cache

import pytest

from kernellab import catalog
from kernellab.compile import CudaUnit, NumbaJob, compile_cuda_many, compile_numba_many


@cache
def binaries(problem, language):
    rungs = catalog.kernels(problem)
    if language == "cuda-c":
        units = [CudaUnit(rung.text(), str(rung.path), rung.constants) for rung in rungs]
        made = compile_cuda_many(units)
    else:
        jobs = [NumbaJob(rung.twin_function, rung.twin_types(), rung.entry) for rung in rungs]
        made = compile_numba_many(jobs)
    return dict(zip([rung.id for rung in rungs], made, strict=True))


@pytest.fixture
def binary_of():
    """Return the function (kernel, language) -> Binary."""
    return lambda rung, language: binaries(rung.problem.name, language)[rung.id]
