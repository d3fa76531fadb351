"""What a twin's code is: the functions that it uses, wherever they stand, and nothing beside them."""

from __future__ import annotations

import importlib
import sys
from dataclasses import replace

import pytest

from kernellab import catalog
from kernellab.source_code import source_hash, twin_code

MODULE = '''
from functools import cache

from kernellab.catalog import elements

WIDTH = 4
UNUSED = 5


@cache
def helper():
    """Say something."""
    return WIDTH  # a number


def beside():
    return 1


def made(element: str):
    from numba import cuda

    lanes, width = elements.lanes(element), helper()

    @cuda.jit
    def entry(x):
        """Do it."""
        x[0] = lanes * width

    return entry
'''


def code(folder, text):
    """Return the code of the twin `made` of a module with this text."""
    (folder / "twin_module.py").write_text(text, encoding="utf-8")
    sys.modules.pop("twin_module", None)
    importlib.invalidate_caches()
    module = importlib.import_module("twin_module")
    from kernellab import source_code

    source_code._module.cache_clear()
    return twin_code(replace(catalog.kernel("copy/scalar"), twin=module.made))


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    yield tmp_path
    sys.modules.pop("twin_module", None)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("  # a number", ""),
        ('    """Say something."""\n', '    """Say something else,\n    at length."""\n'),
        ('        """Do it."""\n', ""),
        ("UNUSED = 5", "UNUSED = 6"),
        ("    return 1", "    return 2"),
        ("WIDTH = 4\n", ""),
    ],
)
def test_what_people_read_and_what_stands_beside_is_no_part(folder, old, new):
    text = MODULE.replace(old, new)
    assert text != MODULE
    if old.startswith("WIDTH"):  # it may stand elsewhere in the module
        text += "\n\nWIDTH = 4\n"
    assert code(folder, text) == code(folder, MODULE)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("WIDTH = 4", "WIDTH = 8"),
        ("    return WIDTH", "    return WIDTH + 1"),
        ("@cache\n", ""),
        ("x[0] = lanes * width", "x[0] = lanes + width"),
        ("elements.lanes(element)", "elements.lanes(element, 8)"),
    ],
)
def test_what_it_uses_is_a_part(folder, old, new):
    assert MODULE.replace(old, new) != MODULE
    assert code(folder, MODULE.replace(old, new)) != code(folder, MODULE)


def test_a_function_of_another_module_of_the_catalogue_is_a_part(folder):
    assert "deflanes(element" in code(folder, MODULE)


def test_a_function_may_move_to_another_module_of_the_catalogue(folder):
    moved = MODULE.replace(
        "import elements\n", "import elements\nfrom kernellab.catalog.elements import lanes\n"
    )
    moved = moved.replace("elements.lanes(element)", "lanes(element)")
    assert code(folder, moved) == code(folder, MODULE)


def test_no_two_rungs_of_the_catalogue_have_one_code():
    hashes = {}
    for kernel in catalog.kernels():
        if kernel.has_twin:
            hashes.setdefault(source_hash(kernel, "numba"), []).append(kernel.id)
    assert [names for names in hashes.values() if len(names) > 1] == []
