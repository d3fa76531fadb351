"""Record: what ran, on what, whether it was right, and every number read off it. Strict JSON both ways."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from kernellab.errors import SpecError
from kernellab.geometry import Dim3
from kernellab.instruments.reading import Reading as Reading

if TYPE_CHECKING:
    from kernellab.emulator.summary import Line
    from kernellab.instruments.clock import Timing
    from kernellab.verify import Verdict

Number: TypeAlias = "int | float"

FORMAT = 1


@dataclass(frozen=True)
class Record:
    """One run of one kernel, copied from what was executed.

    Attributes
    ----------
    kernel : str
        Id of the kernel that ran; a note says so where it is not the one asked for.
    language : {"cuda-c", "numba"}
    device : {"emulator", "gpu"}
    device_name : str
        In words.
    arch : str
        What the code was compiled for.
    case : str
        Name of the problem's case, or empty for the caller's own arrays.
    sizes, parameters, constants : mapping of str to number
        Sizes found from the arrays, run-time scalars, compile-time constants.
    dtypes : mapping of str to str
        Of each array.
    grid, block : tuple of int
        Of the first launch along x, y, z; zeros if nothing was launched.
    shared_mem : int
        Dynamic shared memory of the first launch, in bytes.
    source_hash : str
        SHA-256 of the kernel's own source text.
    verdict : Verdict or None
        None if the outputs were not compared.
    readings : tuple of Reading
        Counts also for a failed verdict; speeds never.
    lines : tuple of Line
        Counts by source line, from the emulator.
    diagnostics : tuple of str
        What the kernel did wrong, and what looks wrong.
    notes : tuple of str
        What was copied, replaced, or could not be read, and why.
    environment : mapping of str to str
        Versions and machine.
    timings : tuple of Timing
        Raw samples behind the speeds, with quartiles and confidence interval.
    """

    kernel: str
    language: str
    device: str
    device_name: str
    arch: str
    case: str
    sizes: Mapping[str, int]
    parameters: Mapping[str, Number]
    dtypes: Mapping[str, str]
    grid: Dim3
    block: Dim3
    shared_mem: int
    constants: Mapping[str, int]
    source_hash: str
    verdict: Verdict | None
    readings: tuple[Reading, ...] = ()
    lines: tuple[Line, ...] = ()
    diagnostics: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    timings: tuple[Timing, ...] = ()

    def __post_init__(self) -> None:
        speeds = [item.name for item in self.readings if is_speed(item.name)]
        if speeds and self.verdict is not None and not self.verdict.is_right:
            raise SpecError(
                f"{self.kernel}: a wrong kernel has no speed, it carries {speeds[0]}; leave it out"
            )

    @property
    def is_right(self) -> bool:
        """Whether the outputs were compared and found right, and the kernel did nothing wrong."""
        return self.verdict is not None and self.verdict.is_right

    def reading(self, name: str, source: str = "") -> Reading:
        """Return a reading by name.

        Parameters
        ----------
        name : str
        source : {"", "measured", "counted", "derived"}
            For a Record that has it counted and measured; by default the first there is.

        Raises
        ------
        SpecError
            If there is none of that name.
        """
        for item in self.readings:
            if item.name == name and source in ("", item.source):
                return item
        known = ", ".join(item.name for item in self.readings if "/" not in item.name) or "none"
        raise SpecError(f"{self.kernel}: there is no reading {name!r}; there are {known}")

    def value(self, name: str, source: str = "") -> float:
        """Return a reading's value, as `reading` does; NaN where the reading has none.

        Raises
        ------
        SpecError
            If there is no reading of that name.
        """
        return self.reading(name, source).value

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON: no NaN and no infinity, which become None.

        Examples
        --------
        >>> import json
        >>> import kernellab as kl
        >>> record = kl.measure("copy/scalar", case="33 elements", device="emulator")
        >>> text = json.dumps(record.to_dict(), allow_nan=False)
        >>> Record.from_dict(json.loads(text)).sizes
        {'n': 33}
        """
        return {"format": FORMAT, **plain(self)}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Record:
        """Return the Record that `to_dict` was called on.

        Raises
        ------
        SpecError
            For anything else.
        """
        from kernellab.emulator.summary import Line

        if not isinstance(data, Mapping) or data.get("format") != FORMAT:
            found = data.get("format") if isinstance(data, Mapping) else type(data).__name__
            raise SpecError(f"record: its format is {found!r}, this version reads {FORMAT}; measure again")
        try:
            values = {item.name: data[item.name] for item in fields(cls) if item.name != "timings"}
            values["timings"] = tuple(_timing(item) for item in data.get("timings", ()))
            values["grid"], values["block"] = _dim3(values["grid"]), _dim3(values["block"])
            values["readings"] = tuple(Reading(**with_nan(item, "value")) for item in values["readings"])
            values["lines"] = tuple(Line(**with_nan(item, "mean_active_lanes")) for item in values["lines"])
            for name in ("diagnostics", "notes"):
                values[name] = tuple(values[name])
            values["verdict"] = _verdict(values["verdict"])
        except (KeyError, TypeError, ValueError) as error:
            raise SpecError(
                f"record: it is damaged ({error}), it must be what to_dict gave; measure again"
            ) from error
        return cls(**values)


def is_speed(name: str) -> bool:
    """Whether a reading is a time or a rate, which only a right kernel has.

    Examples
    --------
    >>> is_speed("seconds_cold"), is_speed("bytes_per_second"), is_speed("sectors_per_request_load")
    (True, True, False)
    """
    return name.startswith("seconds") or name.endswith("_per_second") or name == "fraction_of_copy"


def _verdict(data: Mapping[str, Any] | None) -> Verdict | None:
    from kernellab.verify import Comparison, Verdict

    if data is None:
        return None
    comparisons = (Comparison(**with_nan(item, "max_ulp", "rms_ulp")) for item in data["comparisons"])
    return Verdict(data["who"], tuple(comparisons))


def _timing(data: Mapping[str, Any]) -> Timing:
    from kernellab.instruments.clock import Timing

    lists = {name: tuple(data[name]) for name in ("samples", "clock_hz", "notes")}
    return Timing(**{**data, **lists})


def _dim3(sides: Any) -> Dim3:
    x, y, z = sides
    return x, y, z


def with_nan(data: Mapping[str, Any], *names: str) -> dict[str, Any]:
    """Return what JSON held with NaN for None under these names."""
    return {key: math.nan if key in names and value is None else value for key, value in data.items()}


def plain(value: Any) -> Any:
    """Return a value as JSON knows it: dataclasses as objects, NaN and infinity as None."""
    if is_dataclass(value):
        return {item.name: plain(getattr(value, item.name)) for item in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return [plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
