"""Races in shared memory: what lockstep execution hides, epochs show."""

from __future__ import annotations

import numpy as np
import pytest
from launching import Kernels

MEMORY = Kernels.of("memory.cu")
BLOCKS = Kernels.of("blocks.cu")


@pytest.mark.parametrize(
    ("name", "block", "dtype"),
    [
        ("race", 64, np.float32),
        ("warp_race", 32, np.float32),
        ("write_race", 64, np.float32),
        ("lost_update", 64, np.int32),
        ("reused_scratch", 64, np.int32),
    ],
)
def test_races_are_seen(name, block, dtype):
    trace = MEMORY(name, 1, block, np.zeros(128, dtype), sanitize=True)
    assert [d.kind for d in trace.diagnostics[:1]] == ["race"]
    assert "no barrier between them; at source.cu:" in str(trace.diagnostics[0])


@pytest.mark.parametrize(("name", "block"), [("no_race", 64), ("warp_no_race", 32)])
def test_barriers_end_races(name, block):
    assert MEMORY(name, 3, block, np.zeros(64, np.float32), sanitize=True).diagnostics == ()


def test_nothing_is_said_unless_asked():
    assert MEMORY("race", 1, 64, np.zeros(64, np.float32)).diagnostics == ()


def test_the_last_warp_with_volatile_and_no_barrier():
    x, y = np.ones(256, np.int32), np.zeros(1, np.int32)
    trace = BLOCKS("sum_volatile", 1, 128, x, y, sanitize=True)
    assert [d.kind for d in trace.diagnostics[:1]] == ["race"]


@pytest.mark.parametrize(
    ("name", "block", "shared"), [("bitonic", 64, 256), ("scan_hillis", 64, 512), ("sum_shared", 64, 256)]
)
def test_correct_kernels_have_none(name, block, shared):
    x, y = np.arange(64, dtype=np.int32), np.zeros(64, np.int32)
    arguments = {"bitonic": (x,), "scan_hillis": (x, y, 64), "sum_shared": (x, y, 64)}[name]
    assert BLOCKS(name, 1, block, *arguments, shared_mem=shared, sanitize=True).diagnostics == ()
