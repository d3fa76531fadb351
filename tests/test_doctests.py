"""The examples of every module run, with no GPU."""

from __future__ import annotations

import doctest
import importlib
import pkgutil

import numpy as np
import pytest

import kernellab

# A module that needs a GPU, or runs when imported.
SKIPPED = ("kernellab.instruments.profiled",)
FLAGS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
MODULES = sorted(
    found.name
    for found in pkgutil.walk_packages(kernellab.__path__, "kernellab.")
    if found.name not in SKIPPED and not found.name.endswith("__main__")
)


@pytest.mark.parametrize("name", MODULES)
def test_examples(name):
    module = importlib.import_module(name)
    globals_ = {**vars(module), "np": np}
    result = doctest.testmod(module, globs=globals_, optionflags=FLAGS, report=True)
    assert result.failed == 0


@pytest.mark.parametrize("name", [name for name in kernellab.__all__ if name.islower()])
def test_every_public_function_has_an_example(name):
    examples = doctest.DocTestParser().get_examples(getattr(kernellab, name).__doc__)
    assert examples
