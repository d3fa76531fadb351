"""`import kernellab`: light, lazy, without side effects; and every public name is where it says."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import kernellab as kl

ROOT = Path(kl.__file__).parent


def python(code, **environment):
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
        check=True,
    )
    return done.stdout


def test_nothing_heavy_is_loaded():
    code = """
import sys
before = set(sys.modules)
import kernellab
print(sorted({name.partition('.')[0] for name in set(sys.modules) - before}))
"""
    loaded = set(ast.literal_eval(python(code)))
    assert "kernellab" in loaded
    assert not loaded & {"numba", "cupy", "rich", "typer", "cuda", "llvmlite", "ml_dtypes"}


def test_costs_under_50_ms_beyond_numpy():
    code = """
import time, numpy
start = time.perf_counter()
import kernellab
print(time.perf_counter() - start)
"""
    assert min(float(python(code)) for _ in range(3)) < 0.05


def test_touches_no_disk_and_no_device():
    # Reading its own code apart, which every import does.
    code = """
import sys, numpy
seen = []
def hook(event, args):
    if event in ('os.mkdir', 'os.remove', 'os.rename', 'socket.connect', 'subprocess.Popen', 'ctypes.dlopen'):
        seen.append((event, str(args)))
    if event == 'open' and not str(args[0]).endswith(('.py', '.pyc')) and isinstance(args[1], str):
        seen.append((event, str(args)))
sys.dont_write_bytecode = True
sys.addaudithook(hook)
import kernellab
print(seen)
"""
    assert ast.literal_eval(python(code)) == []


def test_every_public_name_is_there():
    assert sorted(kl.__all__) == list(kl.__all__)
    for name in kl.__all__:
        assert getattr(kl, name).__name__ == name
    assert set(kl.__all__) <= set(dir(kl))


def test_type_checkers_see_the_same_names_in_the_same_places():
    tree = ast.parse((ROOT / "__init__.py").read_text(encoding="utf-8"))
    branch = next(node for node in tree.body if isinstance(node, ast.If))
    seen = {alias.name: node.module for node in branch.body for alias in node.names}
    assert seen == {name: f"kernellab.{home}" for name, home in kl._HOMES.items()}
    assert sorted(seen) == list(kl.__all__)


def test_unknown_name():
    with pytest.raises(AttributeError, match="module 'kernellab' has no attribute 'nonsense'"):
        _ = kl.nonsense


@pytest.mark.parametrize("first", ["import kernellab.trace", "from kernellab.trace import Trace", "pass"])
def test_the_module_trace_does_not_hide_the_function(first):
    code = f"import kernellab as kl\n{first}\nprint(type(kl.trace).__name__, kl.trace.__module__)"
    assert python(code).split() == ["function", "kernellab.trace"]


def test_a_warm_cache_needs_no_numba(tmp_path):
    code = """
import json, sys
import kernellab as kl
record = kl.measure('relu/branch', case='33 elements', language='numba', device='emulator')
print(json.dumps([record.is_right, 'numba' in sys.modules, record.value('registers')]))
"""
    cold, warm = (json.loads(python(code, KERNELLAB_CACHE_DIR=str(tmp_path))) for _ in range(2))
    assert cold[:2] == [True, True]
    assert warm == [True, False, cold[2]]
