"""`compare`: a kernel in CUDA C beside its Numba twin, on the same arrays."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import kernellab.verify as checker
from kernellab.errors import SpecError
from kernellab.hardware import with_counts
from kernellab.instruments.clock import is_slower
from kernellab.instruments.clock import time_ratio as ratio_of
from kernellab.kernel import LANGUAGES, Kernel
from kernellab.measurement import check_options, find_place, observe, prepare, with_times
from kernellab.problem import Case
from kernellab.record import Record

if TYPE_CHECKING:
    from kernellab.devices.program import Device
    from kernellab.instruments.clock import Mode

EQUAL = 0.025
"""Relative difference of times below which two languages are called equally fast."""


@dataclass(frozen=True)
class Row:
    """One reading of both languages.

    Attributes
    ----------
    name, unit, source : str
        As in `Reading`.
    values : tuple of float
        CUDA C, Numba; NaN where one has none.
    notes : tuple of str
        How each was found.
    """

    name: str
    unit: str
    source: str
    values: tuple[float, float]
    notes: tuple[str, str]

    @property
    def is_equal(self) -> bool:
        """Whether both values are the same, or both absent."""
        first, second = self.values
        return first == second or (math.isnan(first) and math.isnan(second))


@dataclass(frozen=True)
class Comparison:
    """Two Records of one kernel, side by side.

    Attributes
    ----------
    kernel : str
        Its id.
    records : tuple of Record
        CUDA C, Numba.
    outputs : tuple of verify.Comparison
        Numba's outputs against those of CUDA C, bit for bit.
    """

    kernel: str
    records: tuple[Record, Record]
    outputs: tuple[checker.Comparison, ...]

    @property
    def is_right(self) -> bool:
        """Whether both are right."""
        return all(record.is_right for record in self.records)

    @property
    def has_equal_outputs(self) -> bool:
        """Whether both wrote the same bits."""
        return all(item.wrong == 0 for item in self.outputs)

    @property
    def time_ratio(self) -> float:
        """Numba's time over that of CUDA C, from samples taken in turn.

        Exactly 1.0 where they differ by less than `EQUAL`, or the 95 % confidence interval of their ratio
        holds 1; not a number where one was not timed.
        """
        first, second = (record.timings for record in self.records)
        if not first or not second:
            return math.nan
        return is_slower(first[0].samples, second[0].samples, EQUAL)

    @property
    def time_interval(self) -> tuple[float, float]:
        """95 % confidence interval of Numba's time over that of CUDA C; NaN where one was not timed."""
        first, second = (record.timings for record in self.records)
        if not first or not second:
            return math.nan, math.nan
        _, low, high = ratio_of(first[0].samples, second[0].samples)
        return low, high

    @property
    def speed(self) -> str:
        """Which language is faster, in words; empty where one was not timed."""
        ratio = self.time_ratio
        if math.isnan(ratio):
            return ""
        if ratio == 1.0:
            return f"equal (within {100 * EQUAL:g} %, or their confidence intervals)"
        slower, share = ("Numba", ratio) if ratio > 1 else ("CUDA C", 1 / ratio)
        return f"{slower} is slower by {100 * (share - 1):.1f} %"

    @property
    def launch_seconds(self) -> tuple[float, float]:
        """Host time of one launch in each language, without the device's; NaN where not measured."""
        found = [
            next((item.value for item in record.readings if item.name == "seconds_launch"), math.nan)
            for record in self.records
        ]
        return found[0], found[1]

    @property
    def rows(self) -> tuple[Row, ...]:
        """Every reading that either has: counts, registers, occupancy, totals of PTX and SASS."""
        return tuple(row for row in self._rows() if "/" not in row.name)

    def mix(self, kind: str) -> tuple[Row, ...]:
        """Return the instruction mix, the most frequent first.

        Parameters
        ----------
        kind : {"ptx", "sass"}

        Raises
        ------
        SpecError
            For any other kind.
        """
        if kind not in ("ptx", "sass"):
            raise SpecError(f"{self.kernel}: mix is {kind!r}, it must be 'ptx' or 'sass'; correct it")
        rows = [row for row in self._rows() if row.name.startswith(f"{kind}/")]
        rows.sort(key=lambda row: (-max(0.0 if math.isnan(v) else v for v in row.values), row.name))
        return tuple(rows)

    def _rows(self) -> list[Row]:
        first, second = (
            {(item.name, item.source): item for item in record.readings} for record in self.records
        )
        rows = []
        for key in dict.fromkeys((*first, *second)):
            known = first.get(key) or second[key]
            name = known.name
            # A kind of instruction that one side lacks occurs there 0 times.
            absent = 0.0 if "/" in name else math.nan
            both = [side.get(key) for side in (first, second)]
            values = [absent if item is None else item.value for item in both]
            notes = ["" if item is None else item.note for item in both]
            rows.append(Row(name, known.unit, known.source, (values[0], values[1]), (notes[0], notes[1])))
        return rows

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON, without NaN."""
        from kernellab.record import plain

        return {
            "kernel": self.kernel,
            "records": [record.to_dict() for record in self.records],
            "outputs": plain(self.outputs),
            "time_ratio": plain(self.time_ratio),
            "time_interval": plain(self.time_interval),
            "launch_seconds": plain(self.launch_seconds),
        }


def compare(
    kernel: str | Kernel,
    *arrays: Any,
    case: str | Case | None = None,
    device: str | Device = "auto",
    sanitize: bool = False,
    mode: Mode | None = "cold",
    counters: str = "",
    **parameters: Any,
) -> Comparison:
    """Measure a kernel in CUDA C and its Numba twin on the same arrays; a GPU times them interleaved.

    Parameters
    ----------
    kernel, *arrays, case, device, sanitize, mode, counters, **parameters
        As for `measure`.

    Returns
    -------
    Comparison

    Raises
    ------
    SpecError
        If the kernel has no twin; and whatever `measure` raises.

    Examples
    --------
    >>> import kernellab as kl
    >>> both = kl.compare("transpose/tiled", device="emulator")
    >>> both.is_right, both.has_equal_outputs
    (True, True)
    >>> [row.values for row in both.rows if row.name == "shared_load_bank_conflicts"]
    [(63488.0, 63488.0)]
    """
    check_options("compare", mode, counters)
    place, is_both = find_place(device)
    job = prepare(kernel, arrays, device=place, case=case, parameters=parameters)
    if not job.plan.kernel.has_twin:
        raise SpecError(f"{job.plan.kernel.id}: it has no Numba twin: {job.plan.kernel.twin}")
    with job.scope(place):
        (first, run), (second, other) = (
            observe(job, place, language, sanitize=sanitize) for language in LANGUAGES
        )
        records: tuple[Record, ...] = (first, second)
        if mode is not None:
            records = with_times(records, (run, other), job, place, mode)
        first, second = (with_counts(record, job, place, counters, is_both) for record in records)
    outputs = tuple(
        checker.compare(other.outputs[name], run.outputs[name], name=name, is_bitwise=True)
        for name in run.outputs
    )
    return Comparison(job.plan.kernel.id, (first, second), outputs)
