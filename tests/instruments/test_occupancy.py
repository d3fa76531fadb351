"""Occupancy against CUDA's own calculator (cuda_occupancy.h of CUDA 13), on twelve architectures, and drivers."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

import kernellab as kl
from kernellab.instruments.occupancy import MULTIPROCESSORS, multiprocessor, occupancy

GOLDEN = tuple((Path(__file__).parent.parent / "golden").glob("*occupancy.csv"))
"""``occupancy.csv``; and what `benchmarks/measure_occupancy.py` wrote of a GPU's driver."""


def rows():
    found = []
    for path in GOLDEN:
        with path.open(encoding="utf-8") as file:
            found += [{name: int(value) for name, value in row.items()} for row in csv.DictReader(file)]
    return found


@pytest.mark.parametrize("arch", MULTIPROCESSORS)
def test_golden(arch):
    mine = [row for row in rows() if row["arch"] == arch]
    assert len(mine) >= 20
    for row in mine:
        asked = {name: row[name] for name in ("threads", "registers", "shared_bytes", "barriers")}
        found = occupancy(f"sm_{arch}", **asked)
        assert found.blocks == row["blocks"], asked
        warps = -(-row["threads"] // 32)
        assert found.warps == found.blocks * warps
        assert found.fraction == found.warps / MULTIPROCESSORS[arch].warps


@pytest.mark.parametrize(
    ("asked", "limited_by"),
    [
        ({"threads": 256, "registers": 32}, ("warps", "registers")),
        ({"threads": 32, "registers": 32}, ("blocks",)),
        ({"threads": 256, "registers": 128}, ("registers",)),
        ({"threads": 256, "registers": 32, "shared_bytes": 100_000}, ("shared memory",)),
        ({"threads": 32, "registers": 16, "barriers": 16}, ("barriers",)),
    ],
)
def test_what_limits(asked, limited_by):
    assert occupancy("sm_90", **asked).limited_by == limited_by


def test_room_says_how_many_each_resource_holds():
    found = occupancy("sm_90", threads=256, registers=40, shared_bytes=48 * 1024)
    assert dict(found.room) == {"warps": 8, "blocks": 32, "registers": 6, "shared memory": 4, "barriers": 64}
    assert (found.blocks, found.limiter) == (4, "shared memory")


def test_a_block_that_does_not_fit():
    assert occupancy("sm_90", 1024, 65) == occupancy("sm_90", 1024, 255)
    assert occupancy("sm_90", 1024, 255).blocks == 0
    assert occupancy("sm_86", 32, 16, 99 * 1024).blocks == 1
    assert occupancy("sm_86", 32, 16, 99 * 1024 + 1).fraction == 0


def test_more_of_anything_never_raises_it():
    for arch in MULTIPROCESSORS:
        for name, values in {
            "registers": range(0, 256, 5),
            "shared_bytes": range(0, 240_000, 3000),
            "barriers": range(17),
        }.items():
            usual = {"threads": 96, "registers": 40, "shared_bytes": 0, "barriers": 1}
            blocks = [occupancy(f"sm_{arch}", **{**usual, name: value}).blocks for value in values]
            assert blocks == sorted(blocks, reverse=True)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"threads": 0}, r"occupancy: threads is 0, it must lie in \[1, 1024\]"),
        ({"threads": 1025}, r"occupancy: threads is 1025, it must lie in \[1, 1024\]"),
        ({"registers": 256}, r"occupancy: registers is 256, it must lie in \[0, 255\]"),
        ({"shared_bytes": -1}, r"occupancy: shared_bytes is -1, it must lie in"),
        ({"barriers": 17}, r"occupancy: barriers is 17, it must lie in \[0, 16\]"),
    ],
)
def test_refused(change, message):
    with pytest.raises(kl.SpecError, match=message):
        occupancy("sm_90", **{"threads": 32, "registers": 32, **change})


def test_the_emulator_compiles_for_an_architecture_whose_limits_are_not_known():
    assert kl.EmulatedDevice("sm_107").limits.shared == kl.EmulatedDevice().limits.shared


def test_suffixes_and_unknown_architectures():
    assert multiprocessor("sm_90a") is multiprocessor("sm_90")
    assert multiprocessor("sm_100f") is multiprocessor("sm_100")
    with pytest.raises(
        kl.SpecError, match=r"^arch: the limits of 'sm_107' are not settled, .* 228 KiB .* 328 KiB "
    ):
        multiprocessor("sm_107")
    for name in ("sm_70", "90", "compute_90", "sm_90x"):
        with pytest.raises(kl.SpecError, match=f"arch: '{name}' is not known, it must be one of sm_75"):
            multiprocessor(name)
