"""``kernellab doctor TARGET``: float64 arithmetic in the PTX of kernels that hold none."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from kernellab.api_occupancy import compiled_file, is_file
from kernellab.cli import output
from kernellab.compile import Binary
from kernellab.errors import SpecError
from kernellab.instruments.float64 import MEANT, Float64Line, float64_lines
from kernellab.report.numbers import language_name
from kernellab.report.table import Column, Table

NOTES = {
    "a double": "a literal such as 0.5 is a double in C and in Numba: write 0.5f, or numpy.float32(0.5) outside of "
    "the kernel",
    "declared double": "what is declared double makes all of its expression double: declare it float if single "
    "precision will do",
}
"""What helps, by what a line has."""


@dataclass(frozen=True)
class Examined:
    """A kernel in one language.

    Attributes
    ----------
    kernel, language : str
    lines : tuple of Float64Line
        Where its PTX computes in float64.
    reason : str
        Why all of that is meant; empty where nothing says so, and each line is judged.
    """

    kernel: str
    language: str
    lines: tuple[Float64Line, ...]
    reason: str

    @property
    def count(self) -> int:
        """PTX instructions that compute in float64."""
        return sum(len(line.opcodes) for line in self.lines)

    @property
    def is_meant(self) -> bool:
        """Whether something says why, of all lines or of each."""
        return bool(self.reason) or all(line.cause in MEANT for line in self.lines)

    @property
    def verdict(self) -> str:
        """In a word or two."""
        why = self.reason or ", ".join(dict.fromkeys(line.cause for line in self.lines))
        return "none" if not self.lines else f"meant: {why}" if self.is_meant else "by an oversight?"


def look_at_kernels(targets: Sequence[str], language: str, json_file: Path | None) -> None:
    """Print what was found, and fail if a kernel computes in float64 and nothing says why."""
    from kernellab.report.text import console, print_table

    output.check_files(json_file)
    with output.patience("compiling"):
        found = [each for target in targets for each in examine(target, language)]
    output.save_plain([asdict(each) | {"count": each.count} for each in found], json_file)
    if not output.is_silent(json_file):
        print_table(console(), table(found))
    output.fail(not all(each.is_meant for each in found))


def table(found: Sequence[Examined]) -> Table:
    """Return a row a kernel, and one for each of its lines."""
    rows: list[tuple[str, ...]] = []
    for each in found:
        who = f"{each.kernel} ({language_name(each.language)})"
        rows.append((who, str(each.count), each.verdict))
        rows += [
            ("", str(len(line.opcodes)), str(line) if each.reason else f"{line}; {line.cause}")
            for line in each.lines
        ]
    head = (Column("kernel"), Column("float64\nin PTX"), Column("where, and why"))
    asked = {line.cause.rpartition(" is ")[2] for each in found if not each.is_meant for line in each.lines}
    notes = tuple(note for cause, note in NOTES.items() if cause in asked)
    return Table("Float64 arithmetic", head, tuple(rows), notes)


def examine(target: str, language: str) -> Iterator[Examined]:
    """Yield what is found of every kernel that a target names."""
    if is_file(target):
        binary, entries = compiled_file(target)
        if not entries:
            raise SpecError(f"{target}: it has no kernel; mark one with __global__")
        for name, entry in entries.items():
            yield _examined(binary, entry, name, binary.language, "")
        return
    from kernellab import catalog
    from kernellab.devices import device

    if target not in catalog.PROBLEMS and Path(target).exists():
        raise SpecError(f"{target}: it is no .cu or .ptx file; give one of those, or PROBLEM/RUNG")
    emulator = device("emulator")
    for kernel in catalog.kernels(target):
        for each in output.languages(language):
            if each == "numba" and not kernel.has_twin:
                continue
            program = emulator.build(kernel, each, with_ladder=False)
            for part in kernel.parts:
                yield _examined(program.binary(part), program.entry(part), part.entry, each, kernel.float64)


def _examined(binary: Binary, entry: str, name: str, language: str, reason: str) -> Examined:
    return Examined(name, language, float64_lines(binary, entry), reason)
