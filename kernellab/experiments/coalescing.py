"""Coalescing: what a request to global memory costs, by stride, offset, width and layout."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from kernellab.catalog import kernel
from kernellab.experiments.clocked import GpuClock
from kernellab.experiments.common import WRITE_UP, WRONG_ELEMENTS, all_right, number, ratio
from kernellab.experiments.experiment import (
    HELD,
    NEEDS_GPU,
    REFUTED,
    Claim,
    Column,
    Derived,
    Expectation,
    Experiment,
    Found,
    Point,
    Rows,
    Sweep,
)
from kernellab.experiments.picture import Bar, Bars, Picture
from kernellab.problem import Array, Case

N = 2**14
STRIDES = (1, 2, 3, 4, 8, 16, 32)
OFFSETS = (0, 1, 2, 4, 8, 16, 32)
FLOATS_A_SECTOR = 8
EXHIBIT = "float4_faulty"

LOAD, STORE = "sectors_per_request_load", "sectors_per_request_store"
SECTORS = (
    Column("load", LOAD),
    Column("store", STORE),
    Column("useful\n%", "useful_percent", 1),
)
REQUESTS = (
    Column("loads", "global_load_requests"),
    Column("load\nsectors", "global_load_sectors"),
    Column("load", LOAD),
    Column("store", STORE),
)
FAULT = (
    Column("load", LOAD),
    Column("wrong", "wrong_elements"),
)


def case(**parameters: int) -> Case:
    """Return the one size that is enough to count: 16 Ki elements."""
    return Case("16 Ki elements", {"n": N}, parameters)


def gather(order: str) -> Mapping[str, Array]:
    """Return a table and an index into it, in order or shuffled."""
    rng = np.random.default_rng(1)
    index = np.arange(N, dtype=np.int64)
    if order == "shuffled":
        rng.shuffle(index)
    return {"table": rng.standard_normal(N, dtype=np.float32), "index": index}


def useful_percent(record: Any) -> float:
    """Return how much of what was fetched and written back was asked for, in percent."""
    sectors = record.value("global_load_sectors") + record.value("global_store_sectors")
    ideal = record.value("global_load_ideal_sectors") + record.value("global_store_ideal_sectors")
    return float(100 * ideal / sectors) if sectors else float("nan")


SWEEPS = (
    Sweep(
        "Stride: neighbouring threads are s floats apart (sectors a request, 4 ideal)",
        tuple(Point(f"stride {s}", kernel("copy/strided"), case(stride=s)) for s in STRIDES),
        SECTORS,
    ),
    Sweep(
        "Offset: every warp shifted by this many floats (sectors a request)",
        tuple(Point(f"offset {s}", kernel("copy/offset"), case(offset=s)) for s in OFFSETS),
        SECTORS,
    ),
    Sweep(
        "Width, gathers and layouts: the same bytes by other instructions",
        (
            Point("scalar", kernel("copy/scalar"), case()),
            Point("float4", kernel("copy/float4"), case()),
            Point("take, in order", kernel("copy/take"), case(), lambda: gather("in order")),
            Point("take, shuffled", kernel("copy/take"), case(), lambda: gather("shuffled")),
            Point("array of structs", kernel("copy/aos"), case()),
            Point("struct of arrays", kernel("copy/soa"), case()),
        ),
        REQUESTS,
    ),
    Sweep(
        f"Exhibit: a float4 kernel whose blocks step four times too far (wrong elements of {N})",
        (Point(EXHIBIT, kernel("copy/float4_faulty"), case()),),
        FAULT,
    ),
)


def sectors_of_stride(stride: int) -> float:
    """Return the sectors that 32 lanes touch, `stride` floats apart, averaged over the warps of a row.

    Examples
    --------
    >>> [sectors_of_stride(s) for s in (1, 2, 8, 32)]
    [4.0, 8.0, 32.0, 32.0]
    """
    requests = sectors = 0
    for residue in range(stride):
        elements = np.arange(residue, N, stride)
        for first in range(0, elements.size, 32):
            requests += 1
            sectors += np.unique(elements[first : first + 32] // FLOATS_A_SECTOR).size
    return sectors / requests


def strides_cost(rows: Rows) -> Found:
    """Each stride costs the sectors that arithmetic says, loads and stores alike."""
    found = []
    for stride in STRIDES:
        wanted = sectors_of_stride(stride)
        for reading in (LOAD, STORE):
            value = rows.value(f"stride {stride}", reading)
            if abs(value - wanted) > 1e-9:
                return False, f"stride {stride}: {number(value)} sectors a request, {number(wanted)} expected"
        found.append(number(wanted))
    return True, " ".join(found) + " sectors a request"


def offsets_cost(rows: Rows) -> Found:
    """A shift within a sector costs one sector; one by whole sectors costs nothing."""
    for offset in OFFSETS:
        wanted = 4 if offset % FLOATS_A_SECTOR == 0 else 5
        value = rows.value(f"offset {offset}", LOAD)
        if abs(value - wanted) > 0.01:
            return False, f"offset {offset}: {number(value)} sectors a request, {wanted} expected"
    return True, f"4 at offsets 0, 8, 16, 32 and {number(rows.value('offset 1', LOAD))} at 1, 2, 4"


def width_saves_requests(rows: Rows) -> Found:
    """float4 moves the sectors of the scalar copy in a quarter of the requests."""
    sectors = rows.value("float4", "global_load_sectors") / rows.value("scalar", "global_load_sectors")
    requests = rows.value("float4", "global_load_requests") / rows.value("scalar", "global_load_requests")
    text = f"{number(sectors)} x the sectors in {number(requests)} x the requests"
    return sectors == 1 and requests == 0.25, text


def index_decides(rows: Rows) -> Found:
    """A gather through an index in order coalesces; through a shuffled one it takes a sector a lane."""
    index_sectors = 8
    ordered = 2 * rows.value("take, in order", LOAD) - index_sectors
    shuffled = 2 * rows.value("take, shuffled", LOAD) - index_sectors
    text = f"values: {number(ordered)} sectors a request in order, {number(shuffled)} shuffled"
    return ordered == 4 and 31 <= shuffled <= 32, text


def layout_decides(rows: Rows) -> Found:
    """Reading one member of four costs four times the sectors from an array of structs."""
    aos, soa = rows.value("array of structs", LOAD), rows.value("struct of arrays", LOAD)
    return aos == 16 and soa == 4, f"{number(aos)} sectors a request, {number(soa)} from a struct of arrays"


def fault_shows(rows: Rows) -> Found:
    """The faulty float4 copy leaves three quarters unwritten and runs past the end, though coalesced."""
    record = rows[EXHIBIT]
    wrong = rows.value(EXHIBIT, "wrong_elements") / N
    outside = any("out of bounds" in text for text in record.diagnostics)
    text = f"{number(100 * wrong)} % of the elements are wrong; " + (
        "out of bounds reported" if outside else "nothing out of bounds"
    )
    return abs(wrong - 0.75) < 0.01 and outside and rows.value(EXHIBIT, LOAD) > 15, text


def claim_bandwidth(rows: Rows) -> tuple[str, str]:
    """Bandwidth needs a clock; the counts say what can be said."""
    requests = ratio(rows["scalar"], "global_load_requests", "global_store_requests")
    scalar, wide = rows.value("scalar", LOAD), rows.value("float4", LOAD)
    text = f"scalar {number(scalar)} and float4 {number(wide)} sectors a request: neither wastes any"
    return NEEDS_GPU, text if requests == 1 else text + ", loads and stores differ"


def time_bandwidth(clock: GpuClock) -> tuple[str, str]:
    """Held if float4 has at least 95 % of the speed of the driver's own copy of 1 GiB."""
    large = Case("2**28 elements", {"n": 2**28})
    points = (Point(name, kernel(f"copy/{name}"), large) for name in ("float4", "scalar"))
    wide, scalar = clock.fractions_of_copy(*points)
    text = f"{wide:.3f} of cudaMemcpy's speed for {large.name}, {scalar:.3f} with one float a thread"
    return HELD if wide >= 0.95 else REFUTED, text


def claim_strides(rows: Rows) -> tuple[str, str]:
    """Strides waste sectors."""
    one, eight = rows.value("stride 1", LOAD), rows.value("stride 8", LOAD)
    verdict = HELD if eight > one else REFUTED
    return (
        verdict,
        f"{number(eight / one)} x the sectors at stride 8, {number(100 * one / eight)} % of them used",
    )


def claim_naive(rows: Rows) -> tuple[str, str]:
    """The naive kernel is called uncoalesced."""
    value = rows.value("scalar", LOAD)
    return (
        REFUTED if value == 4 else HELD,
        f"{number(value)} sectors a request, the ideal; what it lacks is width",
    )


def claim_float4(rows: Rows) -> tuple[str, str]:
    """The float4 kernel is said to copy the array."""
    wrong = rows.value(EXHIBIT, "wrong_elements")
    text = f"{number(100 * wrong / N)} % of the elements are never written, and it runs past the end"
    return (REFUTED, text) if wrong else (HELD, "every element is copied")


def pictures(rows: Mapping[str, Rows]) -> tuple[Picture, ...]:
    """Return the sectors of a load request as bars."""

    def bars(labels: list[str]) -> tuple[Bar, ...]:
        return tuple(Bar(label, {each: rows[each].value(label, LOAD) for each in rows}) for label in labels)

    labels = [f"stride {s}" for s in STRIDES] + ["offset 1", "offset 8", "scalar", "array of structs"]
    title = "Sectors of 32 bytes that one load request of 32 lanes x 4 bytes fetches"
    return (Bars(title, "sectors/request", bars(labels), full=32, ideal=4),)


EXPERIMENT = Experiment(
    name="coalescing",
    question="What does a warp's request to global memory cost, and what wastes it?",
    sweeps=SWEEPS,
    derived=(
        WRONG_ELEMENTS,
        Derived("useful_percent", "%", useful_percent),
    ),
    expectations=(
        Expectation("every answer equals NumPy's, but that of the exhibit", all_right((EXHIBIT,))),
        Expectation("a stride of s floats costs the sectors that its addresses touch", strides_cost),
        Expectation("an offset costs one more sector, unless it is whole sectors", offsets_cost),
        Expectation("float4 moves the same sectors in a quarter of the requests", width_saves_requests),
        Expectation("the index decides whether a gather coalesces", index_decides),
        Expectation("a member of an array of structs costs four times the sectors", layout_decides),
        Expectation("the faulty float4 copy is coalesced, wrong and out of bounds", fault_shows),
    ),
    claims=(
        Claim("wide, coalesced access reaches memory bandwidth", WRITE_UP, claim_bandwidth, time_bandwidth),
        Claim("strides waste sectors", WRITE_UP, claim_strides),
        Claim("its naive copy, one float a thread, is uncoalesced", WRITE_UP, claim_naive),
        Claim("its float4 copy copies the array", WRITE_UP, claim_float4),
    ),
    pictures=pictures,
)
