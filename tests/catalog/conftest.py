"""Every problem of the catalogue compiled once for each language, and its tests kept in one process."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest
from catalog_runs import elements_of, is_tested

from kernellab import catalog
from kernellab.devices.emulated import compile_kernels, compiled_parts


@cache
def binaries(problem, language):
    rungs = [rung for rung in catalog.kernels(problem) if language == "cuda-c" or rung.has_twin]
    return compiled(tuple(rung for rung in rungs if is_tested(rung, language)), language)


def compiled(rungs, language):
    kernels = [
        rung.with_element(element) if element else rung
        for rung in rungs
        for element in elements_of(rung, language)
    ]
    made = compile_kernels(kernels, language, "sm_90")
    parts = compiled_parts(kernels)
    return {(part.entry, part.element): binary for part, binary in zip(parts, made, strict=True)}


@pytest.fixture
def binary_of():
    """Return the function (kernel, language) -> Binary."""

    def find(rung, language):
        key = rung.entry, rung.element
        return binaries(rung.problem.name, language)[key]

    return find


@pytest.hookimpl(tryfirst=True)  # before xdist reads the groups
def pytest_collection_modifyitems(items):
    """Let one worker have all tests of a problem, so that none is compiled twice."""
    here = Path(__file__).parent
    for item in items:
        if item.path.parent != here:
            continue
        values = getattr(item, "callspec", None)
        rung = values.params.get("rung") if values else None
        problem = getattr(rung, "problem", None)
        name = problem.name if problem is not None else values.params.get("problem") if values else None
        if isinstance(name, str) and name in catalog.PROBLEMS:
            item.add_marker(pytest.mark.xdist_group(name))
