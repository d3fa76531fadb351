"""Bank conflicts: how many wavefronts a read of shared memory takes, by stride, width and padding."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from kernellab.catalog import kernel, ladder
from kernellab.experiments.banks import predicted_wavefronts, tile_words, wavefronts_of
from kernellab.experiments.clocked import GpuClock
from kernellab.experiments.common import WAVEFRONTS, WAVEFRONTS_STORE, WRITE_UP, all_right, number
from kernellab.experiments.experiment import (
    HELD,
    NEEDS_GPU,
    REFUTED,
    Claim,
    Column,
    Expectation,
    Experiment,
    Found,
    Point,
    Rows,
    Sweep,
)
from kernellab.experiments.picture import BankMap, Bar, Bars, Picture
from kernellab.problem import Case

STRIDES = (1, 2, 3, 4, 8, 16, 32, 33)
WIDTHS = {"words": 1, "pairs": 2, "quads": 4}
SIDE = 32
UNUSED = "4 B unused pad, s. 32"

WAVES = "wavefronts_per_request_load"
COLUMNS = (Column("wave-\nfronts", WAVES), Column("conflicts", "shared_load_bank_conflicts"))
TRANSPOSE = (
    Column("load", "sectors_per_request_load"),
    Column("store", "sectors_per_request_store"),
    Column("wave-\nfronts", WAVES),
)


def label_of(name: str, stride: int) -> str:
    """Return the label of a point, such as ``4 B padded, stride 32``."""
    width = 4 * WIDTHS[name.removeprefix("padded_")]
    return f"{width} B{' padded' if name.startswith('padded_') else ''}, stride {stride}"


def point(name: str, stride: int) -> Point:
    """Return a read of two tiles."""
    label = UNUSED if name == "padding_unused" else label_of(name, stride)
    return Point(label, kernel(f"shared_stride/{name}"), Case("2 tiles", {"tiles": 2}, {"stride": stride}))


def sweep(name: str) -> Sweep:
    """Return one width, without padding and with it."""
    points = tuple(point(f"{prefix}{name}", stride) for prefix in ("", "padded_") for stride in STRIDES)
    nbytes, least = 4 * WIDTHS[name], WIDTHS[name]
    title = f"{nbytes} bytes a lane (wavefronts a load request; {least} is the least)"
    if name == "words":
        points += (point("padding_unused", 32),)
    return Sweep(title, points, COLUMNS)


LADDER = ("naive", "tiled", "padded", "swizzled")
SWEEPS = (
    *(sweep(name) for name in WIDTHS),
    Sweep(
        "Transpose: sectors a request (global), wavefronts a load request (shared)",
        tuple(
            Point(f"transpose {rung.name}", rung, Case("64 x 64", {"rows": 64, "columns": 64}))
            for rung in ladder("transpose")
            if rung.element in ("", "float32")  # others take nothing as wide
        ),
        TRANSPOSE,
    ),
)


def follows_arithmetic(padding: int) -> Callable[[Rows], Found]:
    """Return a check of every stride and width against bank arithmetic, with so many elements of padding."""

    def check(rows: Rows) -> Found:
        prefix = "padded_" if padding else ""
        compared = 0
        for name, width in WIDTHS.items():
            for stride in STRIDES:
                label = label_of(f"{prefix}{name}", stride)
                wanted, value = predicted_wavefronts(stride, width, SIDE + padding), rows.value(label, WAVES)
                compared += 1
                if abs(value - wanted) > 1e-9:
                    return False, f"{label}: {number(value)} wavefronts a request, {number(wanted)} expected"
        return True, f"{compared} of {compared} as predicted"

    return check


def padding_helps(rows: Rows) -> Found:
    """One column of padding removes the 32-way conflict."""
    before, after = rows.value(label_of("words", 32), WAVES), rows.value(label_of("padded_words", 32), WAVES)
    conflicts = rows.value(label_of("padded_words", 32), "shared_load_bank_conflicts")
    text = f"{number(before)} wavefronts a request without, {number(after)} with"
    return before == 32 and after == 1 and conflicts == 0, text


def width_is_no_conflict(rows: Rows) -> Found:
    """Wide reads of neighbours take more wavefronts and have no conflicts."""
    waves = [rows.value(label_of(name, 1), WAVES) for name in WIDTHS]
    conflicts = sum(rows.value(label_of(name, 1), "shared_load_bank_conflicts") for name in WIDTHS)
    text = f"{', '.join(number(each) for each in waves)} wavefronts at 4, 8, 16 bytes; "
    return waves == [1, 2, 4] and conflicts == 0, text + f"{number(conflicts)} conflicts"


def wide_padding_helps(rows: Rows) -> Found:
    """Padding by one element also frees columns of 8 and 16 bytes."""
    waves = [rows.value(label_of(f"padded_{name}", 32), WAVES) for name in ("pairs", "quads")]
    return waves == [2, 4], f"{number(waves[0])} and {number(waves[1])} wavefronts a request, the least"


def padding_moves_conflicts(rows: Rows) -> Found:
    """A diagonal, free without padding, conflicts with it."""
    without, padded = (rows.value(label_of(name, 33), WAVES) for name in ("words", "padded_words"))
    text = f"stride 33: {number(without)} wavefront without, {number(padded)} with"
    return without == 1 and padded > 1.9, text


def unused_padding(rows: Rows) -> Found:
    """Padding that is declared and not used changes nothing."""
    value, wanted = rows.value(UNUSED, WAVES), rows.value(label_of("words", 32), WAVES)
    return value == wanted == 32, f"{number(value)} wavefronts a request, as without"


def ladder_climbs(rows: Rows) -> Found:
    """Each rung of the transpose removes one cost."""
    loads = [rows.value(f"transpose {rung}", "sectors_per_request_load") for rung in LADDER]
    stores = [rows.value(f"transpose {rung}", "sectors_per_request_store") for rung in LADDER]
    waves = [rows.value(f"transpose {rung}", WAVES) for rung in LADDER[1:]]
    text = f"store {', '.join(map(number, stores))} sectors; tile read "
    text += f"{', '.join(map(number, waves))} wavefronts"
    return loads == [4] * 4 and stores == [32, 4, 4, 4] and waves == [32, 1, 1], text


def stores_are_free(rows: Rows) -> Found:
    """Filling the tile by rows is free of conflicts in every rung."""
    bad = [label for label, record in rows.items() if record.value("shared_store_bank_conflicts")]
    return not bad, f"conflicts in {', '.join(bad[:3])}" if bad else "no conflict in any rung"


def claim_three(rows: Rows) -> tuple[str, str]:
    """One column of padding made a kernel three times faster."""
    before, after = (_shared_wavefronts(rows, f"transpose {rung}") for rung in ("tiled", "padded"))
    text = f"the transpose's shared wavefronts fall {number(before / after, 1)} x ({number(before)} to "
    return NEEDS_GPU, text + f"{number(after)}); how much time that is takes a clock"


LARGE = Case("16384 x 16384", {"rows": 16384, "columns": 16384})
TILES = Case("16 Ki tiles", {"tiles": 2**14}, {"stride": 32})


def time_three(clock: GpuClock) -> tuple[str, str]:
    """Held if either kernel gets three times faster, within 5 %."""
    tiled, padded = (Point(rung, kernel(f"transpose/{rung}"), LARGE) for rung in ("tiled", "padded"))
    words, spaced = (
        Point(rung, kernel(f"shared_stride/{rung}"), TILES) for rung in ("words", "padded_words")
    )
    transposed, read = clock.ratio(tiled, padded), clock.ratio(words, spaced)
    verdict = HELD if max(transposed.value, read.value) >= 0.95 * 3 else REFUTED
    return verdict, f"transpose {LARGE.name}: {transposed}; column reads of {TILES.name}: {read}"


def _shared_wavefronts(rows: Rows, label: str) -> float:
    return rows.value(label, "shared_load_wavefronts") + rows.value(label, "shared_store_wavefronts")


def claim_staging(rows: Rows) -> tuple[str, str]:
    """Staging through shared memory restores coalescing."""
    naive, tiled = (
        rows.value(f"transpose {rung}", "sectors_per_request_store") for rung in ("naive", "tiled")
    )
    verdict = HELD if tiled == 4 < naive else REFUTED
    return verdict, f"stores take {number(naive)} sectors a request without, {number(tiled)} with"


def pictures(rows: Mapping[str, Rows]) -> tuple[Picture, ...]:
    """Return bars of wavefronts by stride, and the map of a column read with and without padding."""
    labels = [label_of(name, stride) for name in ("words", "padded_words") for stride in STRIDES]
    bars = tuple(Bar(label, {each: rows[each].value(label, WAVES) for each in rows}) for label in labels)
    maps = tuple(
        BankMap(title, wavefronts_of(tile_words(stride, width, pitch), width))
        for title, stride, width, pitch in (
            ("A column of a tile with rows of 32 words: one bank", 32, 1, 32),
            ("The same with rows of 33 words: every bank once", 32, 1, 33),
            ("Stride 4 without padding: 4 lanes to a bank, 24 banks idle", 4, 1, 32),
        )
    )
    title = "Wavefronts that one shared load of 32 lanes x 4 bytes takes"
    return (Bars(title, "wavefronts/request", bars, full=32, ideal=1), *maps)


EXPERIMENT = Experiment(
    name="bank-conflicts",
    question="When do the lanes of a warp queue for a bank of shared memory, and what does padding do?",
    sweeps=SWEEPS,
    derived=(WAVEFRONTS, WAVEFRONTS_STORE),
    expectations=(
        Expectation("every answer equals NumPy's", all_right()),
        Expectation(
            "without padding, every stride and width costs what bank arithmetic says", follows_arithmetic(0)
        ),
        Expectation(
            "with padding, every stride and width costs what bank arithmetic says", follows_arithmetic(1)
        ),
        Expectation("one column of padding removes the 32-way conflict", padding_helps),
        Expectation(
            "8 and 16 bytes a lane take 2 and 4 wavefronts, which is no conflict", width_is_no_conflict
        ),
        Expectation("one element of padding frees columns of 8 and 16 bytes too", wide_padding_helps),
        Expectation(
            "padding moves conflicts: the diagonal, free before, then takes 2", padding_moves_conflicts
        ),
        Expectation("padding declared and not used changes nothing", unused_padding),
        Expectation("filling the tile row by row never conflicts", stores_are_free),
        Expectation("the transpose ladder: tile for coalescing, padding or XOR for banks", ladder_climbs),
    ),
    claims=(
        Claim("one column of padding made a conflicted kernel 3x faster", WRITE_UP, claim_three, time_three),
        Claim("staging through shared memory restores coalescing", WRITE_UP, claim_staging),
    ),
    pictures=pictures,
)
