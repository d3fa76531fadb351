"""Every opcode against what an H200 gave: golden/h200_opcodes.csv, made by one small PTX kernel an opcode.

A row is an opcode, its number of destinations, and the bits of its sources and results in hexadecimal.
"""

from __future__ import annotations

import csv
from collections import defaultdict
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from kernellab.emulator.opcodes import semantics

GOLDEN = Path(__file__).parent.parent / "golden" / "h200_opcodes.csv"
#: How far the hardware's approximations may lie from the correctly rounded value, relative and absolute.
APPROXIMATE = {
    "sin": (0, 2.0**-20.5),
    "cos": (0, 2.0**-20.5),
    "lg2": (2.0**-22, 2.0**-22),
    "tanh": (2.0**-10.9, 2.0**-14),
    "rcp": (2.0**-18, 0),
    "rsqrt": (2.0**-18, 0),
}


def rows() -> dict[tuple[str, int, int], list[tuple[list[int], list[int]]]]:
    """The lanes of each opcode; the truth table of lop3 is an immediate, so each has its own."""
    found = defaultdict(list)
    with GOLDEN.open() as file:
        for row in csv.DictReader(file):
            words = tuple([int(word, 16) for word in row[key].split()] for key in ("sources", "results"))
            table = words[0][3] if row["opcode"].startswith("lop3") else 0
            found[row["opcode"], int(row["destinations"]), table].append(words)
    return found


def column(values, dtype: np.dtype) -> np.ndarray:
    if dtype == np.bool_:
        return np.array(values, bool)
    return np.array(values, np.uint64).astype(f"u{dtype.itemsize}").view(dtype)


def numbers(array: np.ndarray, opcode: str) -> np.ndarray:
    """What to compare as numbers: floats, and the halves of a packed result."""
    if array.dtype == np.uint32 and opcode.split(".")[0] != "set":
        for type_, dtype in (("bf16x2", ml_dtypes.bfloat16), ("f16x2", np.float16)):
            if type_ in opcode:
                return array.view(dtype)
    return array


def is_same(got: np.ndarray, want: np.ndarray, opcode: str) -> bool:
    got, want = numbers(got, opcode), numbers(want, opcode)
    if got.dtype.kind not in "fV":
        return np.array_equal(got, want)
    x, y = got.astype(np.float64), want.astype(np.float64)
    same = (np.isnan(x) & np.isnan(y)) | ((x == y) & (np.signbit(x) == np.signbit(y)))
    if "approx" in opcode or "full" in opcode:
        # two units in the last place, unless the instruction is coarser by its definition
        relative, absolute = (2 * float(ml_dtypes.finfo(got.dtype).eps), 0.0)
        coarse = APPROXIMATE.get(opcode.split(".")[0], (0, 0)) if got.dtype.itemsize > 2 else (0, 2.0**-10)
        same |= np.abs(x - y) <= max(relative, coarse[0]) * np.abs(y) + max(absolute, coarse[1])
    return bool(np.all(same))


def test_every_opcode_gives_what_the_hardware_gave():
    table = rows()
    assert len(table) > 1000
    wrong = []
    for (opcode, destinations, _), lanes in table.items():
        found = semantics(opcode, destinations)
        sources = [*found.sources, *([np.dtype(bool)] if found.reads_carry else [])]
        dtypes = [*found.results, *([np.dtype(bool)] if found.writes_carry else [])]
        operands = [
            column(c, d) for c, d in zip(zip(*(s for s, _ in lanes), strict=True), sources, strict=True)
        ]
        with np.errstate(all="ignore"):
            got = found.compute(*operands)
            got = got if isinstance(got, tuple) else (got,)
            expected = zip(*(r for _, r in lanes), strict=True)
            for result, words, dtype in zip(got, expected, dtypes, strict=True):
                if not is_same(result, column(words, dtype), opcode):
                    wrong.append(f"{opcode}: {result.tolist()} and not {column(words, dtype).tolist()}")
    assert not wrong, "\n".join(wrong)


def test_the_comparison_sees_a_wrong_bit():
    one = np.ones(4, np.float32)
    assert is_same(one, one.copy(), "add.f32")
    assert not is_same(one, np.nextafter(one, np.float32(2)), "add.f32")
    assert not is_same(np.zeros(1, np.float32), -np.zeros(1, np.float32), "add.f32")
    assert not is_same(one * np.float32(1.0001), one, "rcp.approx.f32")


@pytest.mark.parametrize("opcode", ["add.s32", "fma.rn.f32", "cvt.rzi.s32.f32", "setp.lt.f16", "prmt.b32"])
def test_the_table_has(opcode):
    assert len(rows()[opcode, 1, 0]) == 10
