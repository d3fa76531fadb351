"""Results: what a suite of benchmarks measured on one machine, as a JSON file with its sources' hashes."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kernellab.errors import SpecError
from kernellab.experiments.picture import Picture, picture_from_dict, picture_to_dict
from kernellab.kernel import LANGUAGES, Kernel, Language
from kernellab.record import plain
from kernellab.report.declared import misfit
from kernellab.report.document import write

FORMAT = "kernellab-results-1"


@dataclass(frozen=True)
class Shown:
    """A column that tables show.

    Attributes
    ----------
    key : str
        Which value of a row.
    header : str
        With its unit.
    scale : float
        What a value is multiplied with.
    digits : int
        After the point.
    """

    key: str
    header: str
    scale: float = 1.0
    digits: int = 2


@dataclass(frozen=True)
class Results:
    """What one suite measured.

    Attributes
    ----------
    name, title : str
        The suite, which is the file's name, and what stands above its table.
    columns : tuple of Shown
        What a table shows of each row.
    rows : tuple of mapping
        Everything measured, raw samples too (``samples``, in seconds).
    bars : mapping of str to bool
        What had to hold, in words, and whether it did.
    notes : tuple of str
        How it was measured, what was left out and why.
    environment : mapping of str to str
        Versions and machine.
    sources : mapping of str to str
        ``"copy/float4 cuda-c"`` -> SHA-256 of its source as it ran.
    made : str
        When, in UTC.
    lines : tuple of str
        The same in few words, for a terminal.
    pictures : tuple of Picture
        What is seen at a glance.
    """

    name: str
    title: str
    columns: tuple[Shown, ...] = ()
    rows: tuple[Mapping[str, Any], ...] = ()
    bars: Mapping[str, bool] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    sources: Mapping[str, str] = field(default_factory=dict)
    made: str = ""
    lines: tuple[str, ...] = ()
    pictures: tuple[Picture, ...] = ()

    @property
    def is_good(self) -> bool:
        """Whether every bar is reached."""
        return all(self.bars.values())

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON: no NaN and no infinity, which become None."""
        found = {"format": FORMAT, **plain(self)}
        return {**found, "pictures": [plain(picture_to_dict(each)) for each in self.pictures]}

    @classmethod
    def from_dict(cls, data: Any, who: str = "results") -> Results:
        """Return the results that `to_dict` was called on.

        Raises
        ------
        SpecError
            For anything else.
        """
        if not isinstance(data, Mapping) or data.get("format") != FORMAT:
            raise SpecError(f"{who}: this is no result of a suite ({FORMAT}); make one with kernellab bench")
        values = {key: value for key, value in data.items() if key != "format"}
        try:
            for key in ("rows", "notes", "lines"):
                values[key] = tuple(values[key])
            values["columns"] = tuple(Shown(**column) for column in values["columns"])
            values["pictures"] = tuple(picture_from_dict(each) for each in values.get("pictures", ()))
            found = cls(**values)
            reason = misfit(found)
        except KeyError as error:
            reason = f"it lacks {error}"
        except (AttributeError, TypeError, ValueError) as error:
            reason = str(error)
        if reason:
            raise SpecError(f"{who}: the result is damaged, {reason}; make it again")
        return found


def save(results: Results, folder: Path) -> Path:
    """Write results to ``<folder>/<name>.json``, a line a row; return the path."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{results.name}.json"
    data = results.to_dict()
    rows = data.pop("rows")
    head = json.dumps(data, indent=1, allow_nan=False).removesuffix("\n}")
    lines = ",\n".join(f"  {json.dumps(row, allow_nan=False)}" for row in rows)
    write(path, f'{head},\n "rows": [\n{lines}\n ]\n}}\n')
    return path


def load(path: Path) -> Results:
    """Read results.

    Raises
    ------
    SpecError
        For a file that is not there or holds anything else.
    """
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise SpecError(
            f"{path}: it cannot be read as results ({error}); make it with kernellab bench"
        ) from error
    return Results.from_dict(data, str(path))


def load_folder(folder: Path) -> tuple[Results, ...]:
    """Read every result in a folder, by name."""
    return tuple(load(path) for path in sorted(folder.glob("*.json")))


def sources_of(kernels: Sequence[Kernel], languages: Sequence[Language] = LANGUAGES) -> dict[str, str]:
    """Return the hashes of kernels' sources as they are now, by ``"<id> <language>"``."""
    from kernellab.source_code import source_hash

    return {
        f"{kernel.id} {language}": source_hash(kernel, language)
        for kernel in kernels
        for language in languages
        if language == "cuda-c" or kernel.has_twin
    }


def stale(results: Results) -> tuple[str, ...]:
    """Return the sources that are not what they were when the results were measured.

    Returns
    -------
    tuple of str
        ``"<id> <language>"``, of kernels that changed or are gone; empty for results that still hold.
    """
    from kernellab import catalog
    from kernellab.source_code import source_hash

    changed = []
    for name, known in results.sources.items():
        identifier, _, language = name.rpartition(" ")
        try:
            kernel = catalog.kernel(identifier)
            now = source_hash(kernel, language)  # type: ignore[arg-type]
        except SpecError:
            now = ""
        if now != known:
            changed.append(name)
    return tuple(changed)
