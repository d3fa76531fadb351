"""The opening comment of a .cu file, as the machine reads it."""

from __future__ import annotations

import pytest

from kernellab.errors import SpecError
from kernellab.header import Count, parse_header

TEXT = """// copy/wide: sixteen bytes a thread.
//
// computes  y[i] = x[i]
// mapping   thread i -> element i
// load x 16 sectors/request
// store y 4.25 sectors/request
// shared load tile 32 wavefronts/request
// teaches   a first line
//           and a second
// source    nowhere

// load z 4 sectors/request
extern "C" __global__ void copy_wide() {}
"""


def test_parts():
    header = parse_header(TEXT, "copy/wide")
    assert (header.id, header.lesson) == ("copy/wide", "sixteen bytes a thread.")
    assert header.sections == {
        "computes": "y[i] = x[i]",
        "mapping": "thread i -> element i",
        "teaches": "a first line and a second",
        "source": "nowhere",
    }


def test_counts_stop_at_the_code():
    assert parse_header(TEXT, "copy/wide").counts == (
        Count("global", "load", "x", 16.0, "sectors/request"),
        Count("global", "store", "y", 4.25, "sectors/request"),
        Count("shared", "load", "tile", 32.0, "wavefronts/request"),
    )


def test_no_title():
    with pytest.raises(SpecError, match=r"^copy/wide: the \.cu file must open with '// copy/wide: <lesson>'"):
        parse_header("int x;\n", "copy/wide")
