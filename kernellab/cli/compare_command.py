"""``kernellab compare``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kernellab.cli import output
from kernellab.cli.arguments import parse_parameters

if TYPE_CHECKING:
    from kernellab.comparison import Comparison


def compare_languages(
    name: str,
    case: str | None,
    parameters: Sequence[str],
    device: str,
    json_file: Path | None,
    html_file: Path | None,
) -> None:
    """Measure a rung in both languages, print them side by side, and fail if one is wrong."""
    from kernellab.comparison import compare
    from kernellab.report.document import Document
    from kernellab.report.records import print_records
    from kernellab.report.text import console

    output.check_files(json_file, html_file)
    given: dict[str, Any] = dict(parse_parameters(parameters))
    with output.patience(f"running {name} in both languages"):
        # Hardware counters are what the emulator's counts are put beside.
        counters = "ncu" if device == "both" else ""
        found = compare(name, case=case, device=device, counters=counters, **given)
    document = Document("compare", records=found.records, environment=output.environment())
    output.save(document, json_file, html_file)
    if not output.is_silent(json_file):
        target = console()
        print_records(target, found.records)
        if not found.has_equal_outputs:
            for item in found.outputs:
                target.print(f"Numba against CUDA C: {item.message}", markup=False)
        for line in speed_lines(found):
            target.print(line, markup=False, highlight=False)
    output.fail(not found.is_right)


def speed_lines(found: Comparison) -> list[str]:
    """Return what the clock says of both languages, in sentences; none where nothing was timed."""
    lines = []
    if found.speed:
        low, high = found.time_interval
        lines.append(f"time: {found.speed}; Numba by CUDA C, 95 % confidence: {low:.3f} to {high:.3f}")
    cuda_c, numba = found.launch_seconds
    if cuda_c == cuda_c or numba == numba:
        lines.append(
            f"launch, on the host and not in that time: CUDA C {1e6 * cuda_c:.1f} us, "
            f"Numba {1e6 * numba:.1f} us"
        )
    return lines
