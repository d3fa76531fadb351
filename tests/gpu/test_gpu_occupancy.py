"""kl.occupancy beside the driver's own answer."""

from __future__ import annotations

from kernellab.suites.driver_occupancy import ask, ours


def test_the_driver_counts_as_many_blocks(device):
    rows = list(ask(device))
    assert len(rows) >= 1000
    assert [row for row in rows if ours(row) != row["blocks"]] == []
