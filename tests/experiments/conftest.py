"""Tests of one experiment run in one process: what it counted is kept there."""

from __future__ import annotations

from pathlib import Path

import pytest

FUNDAMENTALS = ("test_experiments", "test_expectations")


@pytest.hookimpl(tryfirst=True)  # before xdist reads the groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Group by file; what experiments count is kept for all tests of the three that run unasked."""
    here = Path(__file__).parent
    for item in items:
        if item.path.parent == here:
            group = "fundamentals" if item.path.stem in FUNDAMENTALS else item.path.stem
            item.add_marker(pytest.mark.xdist_group(f"experiments {group}"))
