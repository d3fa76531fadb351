"""``kernellab compare``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kernellab.cli import output
from kernellab.cli.arguments import parse_parameters


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
        found = compare(name, case=case, device=device, **given)
    document = Document("compare", records=found.records, environment=output.environment())
    output.save(document, json_file, html_file)
    if not output.is_silent(json_file):
        target = console()
        print_records(target, found.records)
        if not found.has_equal_outputs:
            for item in found.outputs:
                target.print(f"Numba against CUDA C: {item.message}", markup=False)
    output.fail(not found.is_right)
