"""ArraySpec: what two arrays have in common."""

from __future__ import annotations

import numpy as np
import pytest

from kernellab import arrays
from kernellab.arrays import ArraySpec, share_memory, spec_of

ROOM = np.zeros((12, 18), np.float32)


@pytest.mark.parametrize(
    ("one", "other", "shared"),
    [
        (ROOM[:, :9], ROOM[:, 9:], False),
        (ROOM[:, :9], ROOM[:, 8:], True),
        (ROOM[::2], ROOM[1::2, ::-1], False),
        (ROOM[::2, ::3], ROOM[::3, ::2], True),
        (ROOM.view(np.float16)[:, ::2], ROOM.view(np.float16)[:, 1::2], False),
        (ROOM[:0], ROOM, False),
        (ROOM, ROOM.copy(), False),
    ],
)
def test_memory_is_shared_where_an_element_is(one, other, shared):
    assert share_memory(spec_of(one), spec_of(other)) is shared
    assert share_memory(spec_of(other), spec_of(one)) is shared


def test_what_takes_too_long_to_tell_counts_as_shared(monkeypatch):
    one = ArraySpec((5, 5, 5), np.dtype(np.int8), (886, 872, 60), 1000)
    other = ArraySpec((5, 5, 5), np.dtype(np.int8), (96, 89, 372), 1501)
    assert not share_memory(one, other)
    monkeypatch.setattr(arrays, "MOST_WORK", 1)
    assert share_memory(one, other)
