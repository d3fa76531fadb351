"""Document: what a command found, as one JSON file; written whole or not at all, read back for reports."""

from __future__ import annotations

import contextlib
import json
import os
import stat
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kernellab.errors import SpecError
from kernellab.record import plain, with_nan
from kernellab.report.declared import misfit
from kernellab.report.table import Column, Table

if TYPE_CHECKING:
    from kernellab.experiments.check import Check
    from kernellab.experiments.experiment import Result
    from kernellab.record import Record
    from kernellab.trace import Trace

FORMAT = "kernellab-1"
KINDS = ("run", "check", "compare", "trace", "bench")


def now() -> str:
    """Return the time in UTC, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")


@dataclass(frozen=True)
class Document:
    """What one command found.

    Attributes
    ----------
    kind : str
        The command: ``run``, ``check``, ``compare``, ``trace`` or ``bench``.
    experiments, records, traces, checks, tables : tuple
        What it found; empty where it does not apply.
    values : mapping of str to float
        The numbers of `tables`, to be read by programs; SI units.
    environment : mapping of str to str
        Versions and machine.
    made : str
        When, in UTC.
    """

    kind: str
    experiments: tuple[Result, ...] = ()
    records: tuple[Record, ...] = ()
    traces: tuple[Trace, ...] = ()
    checks: tuple[Check, ...] = ()
    tables: tuple[Table, ...] = ()
    values: Mapping[str, float] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    made: str = field(default_factory=now)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON; NaN becomes None."""
        return {
            "format": FORMAT,
            "kind": self.kind,
            "made": self.made,
            "environment": dict(self.environment),
            "experiments": [each.to_dict() for each in self.experiments],
            "records": [each.to_dict() for each in self.records],
            "traces": [plain(each) for each in self.traces],
            "checks": [plain(each) for each in self.checks],
            "tables": [plain(each) for each in self.tables],
            "values": plain(self.values),
        }

    @classmethod
    def from_dict(cls, data: Any, who: str = "report") -> Document:
        """Return the document that `to_dict` wrote.

        Raises
        ------
        SpecError
            For anything else.
        """
        if not isinstance(data, Mapping) or data.get("format") != FORMAT:
            remedy = f"make one with --json FILE of {', '.join(KINDS[:-1])} or {KINDS[-1]}"
            raise SpecError(f"{who}: this is not a kernellab report ({FORMAT}); {remedy}")
        from kernellab.experiments.check import Check
        from kernellab.experiments.experiment import Result
        from kernellab.record import Record

        try:
            found = cls(
                kind=data["kind"],
                experiments=tuple(Result.from_dict(each) for each in data["experiments"]),
                records=tuple(Record.from_dict(each) for each in data["records"]),
                traces=tuple(_trace(each) for each in data["traces"]),
                checks=tuple(Check(**each) for each in data["checks"]),
                tables=tuple(_table(each) for each in data["tables"]),
                values=with_nan(data["values"], *data["values"]),
                environment=data["environment"],
                made=data["made"],
            )
            reason = misfit(found)
        except SpecError as error:
            raise SpecError(f"{who}: {error}") from error
        except KeyError as error:
            reason = f"it lacks {error}"
        except (AttributeError, TypeError, ValueError) as error:
            reason = str(error)
        if reason:
            raise SpecError(f"{who}: the report is damaged, {reason}; make it again with --json FILE")
        return found


def _trace(data: Mapping[str, Any]) -> Trace:
    from kernellab.emulator.counts import Diagnostic
    from kernellab.emulator.summary import Line
    from kernellab.trace import Trace

    values = dict(data)
    values["grid"], values["block"] = tuple(data["grid"]), tuple(data["block"])
    for name in ("totals", "standard_errors"):
        values[name] = with_nan(data[name], *data[name])
    values["lines"] = tuple(Line(**with_nan(each, "mean_active_lanes")) for each in data["lines"])
    values["diagnostics"] = tuple(
        Diagnostic(**{**each, "block": tuple(each["block"]), "thread": tuple(each["thread"])})
        for each in data["diagnostics"]
    )
    values["notes"] = tuple(data["notes"])
    values["parameters"] = tuple(data.get("parameters", ()))
    return Trace(**values)


def _table(data: Mapping[str, Any]) -> Table:
    columns = tuple(Column(**each) for each in data["columns"])
    rows = tuple(tuple(row) for row in data["rows"])
    if any(len(row) != len(columns) for row in rows):
        raise ValueError(f"the table {data['title']!r} has rows that are not of {len(columns)} cells")
    return Table(data["title"], columns, rows, tuple(data["notes"]))


def to_json(document: Document) -> str:
    """Return a document as JSON text."""
    return json.dumps(document.to_dict(), indent=1, allow_nan=False) + "\n"


def load(path: str | Path) -> Document:
    """Read a document.

    Raises
    ------
    SpecError
        If it cannot be read or is no report of kernellab.
    """
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise SpecError(f"{path}: it cannot be read: {reason}; name a file that --json wrote") from error
    try:
        data = json.loads(text)
    except json.JSONDecodeError as error:
        raise SpecError(f"{path}: it is not JSON ({error}); name a file that --json wrote") from error
    return Document.from_dict(data, str(path))


def write(path: str | Path, text: str) -> None:
    """Write a text file whole: a reader, or a crash half-way, sees the old file or the new one.

    A link stays one, and the file that it leads to is written; a device or a pipe is written to, not replaced.

    Raises
    ------
    SpecError
        If it cannot be written.
    """
    target = _followed(Path(path))
    temporary = ""
    try:
        if _is_stream(target):
            target.write_text(text, encoding="utf-8", newline="\n")
            return
        mode = stat.S_IMODE(target.stat().st_mode) if target.exists() else 0o666 & ~_umask()
        handle, temporary = tempfile.mkstemp(prefix=f".{target.name}-", dir=target.parent)
        with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as file:
            file.write(text)
        os.chmod(temporary, mode)
        os.replace(temporary, target)
    except OSError as error:
        raise SpecError(f"{path}: it cannot be written: {error.strerror}; choose another place") from error
    finally:
        if temporary:
            with contextlib.suppress(OSError):
                os.unlink(temporary)


def check_writable(path: str | Path) -> None:
    """Refuse a place that cannot be written, before the work is done.

    Raises
    ------
    SpecError
        If its folder is missing or cannot be written, or it is a folder itself.
    """
    target = _followed(Path(path))
    if target.is_dir():
        raise SpecError(f"{path}: it is a folder; name a file")
    if _is_stream(target):
        if not os.access(target, os.W_OK):
            raise SpecError(f"{path}: it cannot be written; choose another place")
        return
    if not target.parent.is_dir():
        raise SpecError(f"{path}: the folder {target.parent} does not exist; make it or choose another place")
    if not os.access(target.parent, os.W_OK):
        raise SpecError(f"{path}: the folder {target.parent} cannot be written; choose another place")


def _followed(path: Path) -> Path:
    """Return what a link leads to, if that has a name in a folder: /dev/stdout may be a pipe, which has none."""
    return path if _is_stream(path) or not path.is_symlink() else Path(os.path.realpath(path))


def _is_stream(path: Path) -> bool:
    """Whether it is a device, a pipe or a socket: nothing that another file may take the place of."""
    return path.exists() and not path.is_file() and not path.is_dir()


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


__all__ = ["Document", "check_writable", "load", "now", "plain", "to_json", "write"]
