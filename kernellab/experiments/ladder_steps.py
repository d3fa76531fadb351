"""Steps of ladders: what each rung has less of than the one before it, and on which cases that shows."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from kernellab.checks import HOPPER
from kernellab.problem import Case


@dataclass(frozen=True)
class Step:
    """What a rung has less of than the one before it (or more, for blocks).

    Attributes
    ----------
    before, after : str
        Two rungs.
    reading : str
        What is compared.
    low, high : float
        Bounds of the later rung's number over the earlier one's.
    text : str
        What the step does, in a few words.
    contents : str
        On which extra case, empty for the ladder's first.
    """

    before: str
    after: str
    reading: str
    low: float
    high: float
    text: str
    contents: str = ""


def exactly(before: str, after: str, reading: str, share: float, text: str, contents: str = "") -> Step:
    """Return a step whose share is known to the last digit."""
    return Step(before, after, reading, share, share, text, contents)


def under(before: str, after: str, reading: str, share: float, text: str, contents: str = "") -> Step:
    """Return a step that leaves less than this share."""
    return Step(before, after, reading, 0.0, share, text, contents)


LOADS, LOADED = "global_load_requests", "global_load_sectors"
STORES, STORED = "global_store_requests", "global_store_sectors"
READS, WAVES = "shared_load_requests", "shared_load_wavefronts"
FEWER = 0.95

STREAM = (
    exactly("scalar", "vectorised", LOADS, 1 / 4, "16 bytes a lane: a quarter of the requests"),
    under(
        "vectorised", "unrolled", "warp_instructions", FEWER, "several vectors a thread: fewer instructions"
    ),
)
TREE = (
    under("sequential", "shuffle", READS, 1 / 20, "lanes ask each other: next to no shared memory"),
    Step("shuffle", "vectorised", LOADS, 0.25, 0.26, "16 bytes a lane: a quarter of the requests"),
    exactly("shuffle", "vectorised", "launches", 1 / 2, "the last block adds up: one launch"),
)
LONG = "one long row"
SPREAD = (Step("warp", "split", "blocks", 2, math.inf, "several blocks share a row", LONG),)
SPLIT = Step("registers", "split", "blocks", 2, math.inf, "several blocks share a long row", LONG)
STAY = "two rows a multiprocessor"
STAYS = exactly(
    "registers",
    "pipelined",
    "blocks",
    1 / 2,
    "blocks stay: the second row is on its way during the first",
    STAY,
)
FUSED = exactly("unfused", "registers", STORED, 1 / 2, "one kernel: the array between is not written")

HALVES = "float16"
GRADIENTS = "16-bit gradients"
MANY = "ten tensors"
BY_TABLE = exactly("vectorised", "multi", "launches", 1 / 10, "a table: one launch for all tensors", MANY)
STEPS: Mapping[str, tuple[Step, ...]] = {
    "copy": (exactly("scalar", "float4", LOADS, 1 / 4, "16 bytes a lane: a quarter of the requests"),),
    "transpose": (
        exactly("naive", "tiled", STORED, 1 / 8, "through a tile: stores coalesce"),
        exactly("tiled", "padded", WAVES, 1 / 32, "a column of padding: no bank conflict"),
        under(
            "padded", "swizzled", "shared_bytes", 0.999, "an XOR in place of the padding: less shared memory"
        ),
        exactly("swizzled", "vectorised", LOADS, 1 / 4, "16 bytes a lane: a quarter of the requests"),
        under(
            "vectorised", "matrices", "warp_instructions", 0.8, "ldmatrix turns: no byte is permuted", HALVES
        ),
    ),
    "shared_stride": (
        exactly("words", "padded_words", WAVES, 1 / 32, "padding: 32 banks for a column of 4 bytes"),
        exactly("pairs", "padded_pairs", WAVES, 1 / 16, "padding: 16 pairs of banks for one of 8"),
        exactly("quads", "padded_quads", WAVES, 1 / 8, "padding: 8 fours of banks for one of 16"),
    ),
    "take": (exactly("scalar", "unrolled", LOADS, 3 / 4, "indices in twos: half the requests for them"),),
    "take_rows": (
        exactly("scalar", "vectorised", LOADS, 1 / 4, "16 bytes a lane: a quarter of the requests"),
    ),
    "uneven_work": (
        under(
            "unsorted", "sorted", "warp_instructions", 0.6, "lanes that end together: half the instructions"
        ),
    ),
    "masked_rows": (
        under("branch", "compact", "warp_instructions", 0.42, "only rows with work: two passes in five"),
    ),
    "scale": STREAM,
    "axpy": STREAM,
    "triad": STREAM,
    "sum": (
        under("interleaved", "sequential", READS, 0.3, "whole warps drop out of the tree"),
        *TREE,
    ),
    "max": TREE,
    "argmax": TREE,
    "row_sum": SPREAD,
    "row_max": SPREAD,
    "row_argmax": SPREAD,
    "cumsum": (
        under("hillis_steele", "blelloch", READS, 0.5, "fewest additions: half the shared reads"),
        under("blelloch", "lookback", LOADED, 0.5, "looking back: x is read once and not twice"),
        exactly("blelloch", "lookback", "launches", 1 / 3, "looking back: one launch"),
    ),
    "histogram": (
        under("global", "shared", "global_atomic_sectors", 0.6, "a copy a block: fewer global atomics"),
        under("global", "aggregated", "global_atomic_sectors", 0.01, "equal values go as one", "equal"),
        exactly("shared", "warps", LOADS, 1 / 16, "16 bytes a lane: a sixteenth of the requests"),
        under("warps", "lanes", "shared_atomic_wavefronts", 0.4, "copies by lane: lanes seldom meet"),
    ),
    "float_histogram": (
        under("global", "shared", "global_atomic_requests", 0.05, "a copy a block: fewer global atomics"),
    ),
    "softmax": (
        exactly("three_pass", "online", LOADED, 2 / 3, "maximum and sum in one pass"),
        exactly("online", "registers", LOADED, 1 / 2, "the row stays in registers: read once"),
        SPLIT,
        STAYS,
    ),
    "layernorm": (
        exactly("three_pass", "welford", LOADED, 4 / 5, "mean and variance in one pass"),
        exactly("welford", "registers", LOADED, 3 / 4, "the row stays in registers: read once"),
        SPLIT,
        STAYS,
    ),
    "rmsnorm": (
        exactly("two_pass", "registers", LOADED, 2 / 3, "the row stays in registers: read once"),
        SPLIT,
        STAYS,
    ),
    "layernorm_gelu": (FUSED, STAYS),
    "residual_layernorm": (FUSED, STAYS),
    "bias_gelu": (
        under("scalar", "vectorised", LOADS, 0.25, "16 bytes a lane, the bias kept for several rows"),
        exactly("unfused", "vectorised", STORED, 1 / 2, "one kernel: the array between is not written"),
    ),
    "softmax_dropout": (FUSED, STAYS),
    "column_sum": (
        Step("scalar", "split", LOADS, 0.25, 0.3, "16 bytes a lane: a quarter of the requests for x"),
    ),
    "bias_gelu_backward": (
        exactly("unfused", "fused", "launches", 1 / 2, "one kernel: dx and its sums at once"),
        under("unfused", "fused", LOADED, 0.65, "one kernel: dx is not read again"),
    ),
    "softmax_cross_entropy": (
        Step("online", "registers", LOADED, 0.49, 0.51, "the row stays in registers: read once"),
    ),
    "unscale": (
        Step("scalar", "vectorised", STORES, 0.25, 0.26, "16 bytes a lane: a quarter of the requests"),
        BY_TABLE,
    ),
    "global_norm": (
        Step("atomic", "vectorised", LOADS, 0.25, 0.35, "16 bytes a lane: a quarter of the requests for x"),
        exactly("vectorised", "multi", "launches", 2 / 11, "a table: two launches for all tensors", MANY),
    ),
    "adamw": (
        exactly("scalar", "vectorised", STORES, 1 / 4, "16 bytes a lane: a quarter of the requests"),
        BY_TABLE,
        exactly(
            "multi", "mixed", STORED, 7 / 6, "16-bit parameters: 2 bytes more written, none read", GRADIENTS
        ),
    ),
    "all_reduce": (
        exactly("scalar", "vectorised", LOADS, 1 / 4, "16 bytes a lane: a quarter of the requests"),
    ),
}
"""By problem; strides, layouts and branches are what other experiments are about."""

EXTRA = {
    "equal": Case("4 Ki equal", {"n": 4096}, contents="equal"),
    LONG: Case("1 x 65536", {"rows": 1, "columns": 65536}),
    STAY: Case("two rows a multiprocessor", {"rows": 2 * HOPPER.multiprocessors, "columns": 256}),
    MANY: Case("10 tensors", {"n": 80, "tensors": 10}, contents="equal"),
    GRADIENTS: Case("16 Ki elements, float16", {"n": 2**14}, element="float16"),
    HALVES: Case("256 x 256, float16", {"rows": 256, "columns": 256}, element="float16"),
}
SMALL = {STAY: {"THREADS": 64, "GROUP": 64, "VECTORS": 1, "BLOCKS": 1}}
"""Constants with which few elements already show a step."""
FIRST = {"cumsum": Case("128 Ki elements", {"n": 2**17}), "histogram": Case("64 Ki bytes", {"n": 2**16})}
"""Where the problem's own first case is too small to show a step: a few tiles, more values than counts."""
