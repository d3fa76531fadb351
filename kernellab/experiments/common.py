"""What several experiments ask of records."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

from kernellab.experiments.experiment import HELD, NEEDS_GPU, REFUTED, Derived, Found, Rows

if TYPE_CHECKING:
    from kernellab.emulator.summary import Line
    from kernellab.record import Record

WRITE_UP = "the write-up"
INSTRUCTIONS = "warp_instructions"
WAVEFRONTS = Derived(
    "wavefronts_per_request_load",
    "wavefronts/request",
    lambda record: ratio(record, "shared_load_wavefronts", "shared_load_requests"),
)
WAVEFRONTS_STORE = Derived(
    "wavefronts_per_request_store",
    "wavefronts/request",
    lambda record: ratio(record, "shared_store_wavefronts", "shared_store_requests"),
)
LOOP_LANES = Derived(
    "loop_active_lanes", "lanes", lambda record: busiest_line(record).mean_active_lanes, "PTX"
)
WRONG_ELEMENTS = Derived("wrong_elements", "elements", lambda record: float(wrong_elements(record)), "")
SECTOR = 32


def verdict(holds: bool) -> str:
    """Return what is said of a claim."""
    return HELD if holds else REFUTED


def needs_gpu(what: str) -> Callable[[Rows], tuple[str, str]]:
    """Return the judge of what only a GPU can say."""
    return lambda rows: (NEEDS_GPU, what)


def counted(record: Record, name: str) -> float:
    """Return a count; 0 where a kernel has none of the kind.

    Raises
    ------
    SpecError
        If nothing was counted, as on a GPU without counters.
    """
    record.value(INSTRUCTIONS)
    return sum(reading.value for reading in record.readings if reading.name == name)


def bytes_of(*accesses: str) -> Callable[[Record], float]:
    """Return the formula of what these accesses ask global memory for, in bytes."""
    return lambda record: SECTOR * sum(record.value(f"global_{access}_sectors") for access in accesses)


def per_element(access: str) -> Callable[[Record], float]:
    """Return the formula of the bytes that an access moves an element of the largest shape: rows x columns."""
    return lambda record: bytes_of(access)(record) / (record.sizes["rows"] * record.sizes["columns"])


BYTES_REQUESTED = (
    Derived("bytes_requested", "B", bytes_of("load", "store")),
    Derived("bytes_read_per_element", "B", per_element("load")),
    Derived("bytes_written_per_element", "B", per_element("store")),
)


def has_time(rows: Rows, *labels: str) -> bool:
    """Whether points were timed."""
    return all(rows[label].timings for label in labels)


def time_over(rows: Rows, slow: str, fast: str) -> tuple[float, float, float]:
    """Return the time of one point over that of another, timed in turn, and its 95 % confidence interval."""
    from kernellab.instruments.clock import time_ratio

    first, second = (rows[label].timings[-1] for label in (slow, fast))
    return time_ratio(second.samples, first.samples)


def ratio(record: Record, above: str, below: str) -> float:
    """Return a quotient of two readings; NaN where the lower is 0."""
    divisor = record.value(below)
    return record.value(above) / divisor if divisor else math.nan


def busiest_line(record: Record) -> Line:
    """Return the source line that warps executed most often: the body of the loop, where there is one."""
    return max(record.lines, key=lambda line: (line.warp_executions, line.number))


def wrong_elements(record: Record) -> int:
    """Return how many elements of the outputs differ from NumPy's."""
    if record.verdict is None:
        return 0
    return sum(comparison.wrong for comparison in record.verdict.comparisons)


def all_right(faulty: tuple[str, ...] = ()) -> Callable[[Rows], Found]:
    """Return a check that every answer equals NumPy's but those at the labels named."""

    def check(rows: Rows) -> Found:
        judged = [(label, record) for label, record in rows.items() if label not in faulty]
        wrong = [
            f"{label}: {record.verdict.message if record.verdict else 'not verified'}"
            for label, record in judged
            if record.verdict is None or not record.verdict.is_right
        ]
        if wrong:
            return False, f"{len(wrong)} of {len(judged)} are wrong; {wrong[0]}"
        return True, f"{len(judged)} of {len(judged)} right"

    return check


def number(value: float, digits: int = 2) -> str:
    """Return a number as people write it: 32, 12.8, 1 234 567.

    Examples
    --------
    >>> number(32.0), number(12.8), number(1234567), number(math.inf)
    ('32', '12.8', '1234567', 'inf')
    """
    if math.isnan(value):
        return "-"
    if math.isinf(value):
        return str(value)
    if value == int(value):
        return str(int(value))
    return f"{value:.{digits}f}".rstrip("0").rstrip(".")
