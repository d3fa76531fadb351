import subprocess
import sys

import numpy as np
import pytest

from kernellab.compile.fingerprint import UnstableError, fingerprint

CODE = """
import math
TILE = {tile}
ARRAY = __import__("numpy").arange({tile})
def helper(x):
    return x * TILE + math.sin(x)
def kernel(x, n=3):
    return helper(x) + n + ARRAY[0]
"""


def make(tile=16, code=CODE):
    space = {"__name__": "made"}
    exec(compile(code.format(tile=tile), "made.py", "exec"), space)
    return space["kernel"]


def test_the_same_code_has_the_same_print():
    assert fingerprint(make()) == fingerprint(make())


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("x * TILE", "x + TILE"),
        ("n=3", "n=4"),
        ("return helper", "return 1 + helper"),
        ("def kernel", "\ndef kernel"),
    ],
)
def test_a_change_of_code_changes_it(old, new):
    assert fingerprint(make()) != fingerprint(make(code=CODE.replace(old, new)))


def test_a_change_of_a_global_that_a_callee_reads_changes_it():
    assert fingerprint(make(16)) != fingerprint(make(32))


def test_closures_count():
    def outer(factor):
        return lambda x: x * factor

    assert fingerprint(outer(1)) != fingerprint(outer(2))
    assert fingerprint(outer(np.zeros(3))) != fingerprint(outer(np.ones(3)))


def test_a_value_without_a_steady_text_is_refused():
    thing = object()
    with pytest.raises(UnstableError):
        fingerprint(lambda x: thing)


def test_recursion_ends():
    def again(x):
        return again(x - 1)

    assert fingerprint(again)


def test_another_process_finds_the_same_print():
    code = (
        f"code = {CODE!r}\nspace = {{'__name__': 'made'}}\n"
        "exec(compile(code.format(tile=16), 'made.py', 'exec'), space)\n"
        "from kernellab.compile.fingerprint import fingerprint\nprint(fingerprint(space['kernel']))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == fingerprint(make())


def test_intrinsics_differ_by_what_they_capture():
    from kernellab.catalog.elements import conversions

    prints = {fingerprint(conversions(element)) for element in ("float32", "float16", "bfloat16")}
    assert len(prints) == 3
