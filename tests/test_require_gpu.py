"""Where the tests of a GPU run, are skipped, or fail: by how many there are and ``--require-gpu``."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

import kernellab as kl
from kernellab.devices import gpu  # loaded now: a run of pytest in this process forgets what it loads

pytest_plugins = ["pytester"]
HERE = Path(__file__).parent


@pytest.fixture
def outcomes(pytester, monkeypatch):
    """Return a function (GPUs there are, GPUs a test needs, options) -> what becomes of the test."""
    pytester.makeconftest((HERE / "conftest.py").read_text(encoding="utf-8"))

    def run(present, needed, *options):
        def import_cupy():
            if not present:
                raise kl.UnavailableError("device: 'gpu' is not here")
            runtime = SimpleNamespace(getDeviceCount=lambda: present)
            return SimpleNamespace(cuda=SimpleNamespace(runtime=runtime))

        monkeypatch.setattr(gpu, "import_cupy", import_cupy)
        pytester.makepyfile(
            f"import pytest\n\n@pytest.mark.gpu(count={needed})\ndef test_it():\n    assert True\n"
        )
        result = pytester.runpytest_inprocess("-rs", "-p", "no:cacheprovider", *options)
        return result.parseoutcomes(), result.stdout.str()

    return run


@pytest.mark.parametrize(
    ("present", "needed", "options", "becomes"),
    [
        (1, 1, (), "passed"),
        (2, 2, ("--require-gpu",), "passed"),
        (0, 1, (), "skipped"),
        (1, 2, (), "skipped"),
        (0, 1, ("--require-gpu",), "error"),
        (0, 2, ("--require-gpu",), "error"),
        (1, 2, ("--require-gpu",), "skipped"),  # one GPU was asked for, not two
    ],
)
def test_with_so_many_gpus(outcomes, present, needed, options, becomes):
    found, printed = outcomes(present, needed, *options)
    assert {name.removesuffix("s") for name in found} == {becomes.removesuffix("s")}
    if becomes != "passed":
        assert ("needs 2 GPUs, there is 1" if present else "'gpu' is not here") in printed
