"""Every problem of the catalogue compiled once for each language, for all its elements together."""

from __future__ import annotations

from functools import cache

import pytest

from kernellab import catalog
from kernellab.devices.emulated import compile_kernels, compiled_parts


@cache
def binaries(problem, language):
    rungs = [rung for rung in catalog.kernels(problem) if language == "cuda-c" or rung.has_twin]
    kernels = [
        rung.with_element(element) if element else rung
        for rung in rungs
        for element in rung.elements or ("",)
    ]
    made = compile_kernels(kernels, language, "sm_90")
    parts = compiled_parts(kernels)
    return {(part.entry, part.element): binary for part, binary in zip(parts, made, strict=True)}


@pytest.fixture
def binary_of():
    """Return the function (kernel, language) -> Binary."""
    return lambda rung, language: binaries(rung.problem.name, language)[rung.entry, rung.element]
