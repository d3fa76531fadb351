"""Options and markers of the whole suite; helpers beside this file can be imported from every test."""

from __future__ import annotations

import gc

import pytest


def pytest_addoption(parser):
    parser.addoption(
        "--require-gpu", action="store_true", help="fail the tests that need a GPU where there is none"
    )


def pytest_configure(config):
    # A tenth of the whole run went into looking for cycles among the objects of 7000 collected tests.
    gc.set_threshold(50_000, 20, 50)
    config.addinivalue_line(
        "markers",
        "gpu(count=1): needs so many GPUs; skipped without, failed with --require-gpu where there is none",
    )
    config.addinivalue_line(
        "markers", "xdist_group(name): one worker has them; pytest-xdist's own, if it is here"
    )


@pytest.hookimpl(tryfirst=True)  # before xdist reads the groups, and after the folders that make their own
def pytest_collection_modifyitems(items):
    """Let one worker have all tests of a file: what they share is then compiled, read and counted once."""
    for item in items:
        if item.get_closest_marker("xdist_group") is None:
            item.add_marker(pytest.mark.xdist_group(item.path.stem))


def missing_gpu(count):
    """Say why a test cannot run here, or nothing; and whether there is a GPU at all."""
    from kernellab.devices.gpu import import_cupy
    from kernellab.errors import UnavailableError

    try:
        found = int(import_cupy().cuda.runtime.getDeviceCount())
    except UnavailableError as error:
        return str(error), False
    return ("" if found >= count else f"needs {count} GPUs, there is {found}"), True


def pytest_runtest_setup(item):
    marker = item.get_closest_marker("gpu")
    if marker is None:
        return
    reason, has_one = missing_gpu(marker.kwargs.get("count", 1))
    if reason and not has_one and item.config.getoption("--require-gpu"):
        pytest.fail(f"--require-gpu: {reason}", pytrace=False)
    if reason:
        pytest.skip(reason)
