"""Tests of one experiment run in one process: what it counted is kept there."""

from __future__ import annotations

from pathlib import Path

import pytest

from kernellab.experiments import EXPERIMENTS


@pytest.hookimpl(tryfirst=True)  # before xdist reads the groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Group by the experiment that a test is given, or else by its file."""
    here = Path(__file__).parent
    for item in items:
        if item.path.parent == here:
            given = getattr(item, "callspec", None)
            name = given.params.get("name") if given else None
            group = name if name in EXPERIMENTS else item.path.stem
            item.add_marker(pytest.mark.xdist_group(f"experiments {group}"))
