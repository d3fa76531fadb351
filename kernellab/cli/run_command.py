"""``kernellab run``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from kernellab.cli import output


def run_experiments(
    names: Sequence[str],
    device: str,
    language: str | None,
    json_file: Path | None,
    html_file: Path | None,
    is_pictured: bool | None,
) -> None:
    """Run experiments, print each as it ends, write files, and fail if an expectation does."""
    from kernellab.experiments import FUNDAMENTALS, load
    from kernellab.experiments.runner import run
    from kernellab.report.document import Document
    from kernellab.report.text import console, print_result, summary

    experiments = [load(name) for name in dict.fromkeys(names or FUNDAMENTALS)]
    output.check_files(json_file, html_file)
    target = console()
    is_silent = output.is_silent(json_file)
    languages = None if language is None else output.languages(language)
    results = []
    for experiment in experiments:
        with output.progress() as progress:
            result = run(experiment, device, languages, progress)
        results.append(result)
        if not is_silent:
            print_result(target, result, is_pictured=is_pictured)
    document = Document("run", experiments=tuple(results), environment=output.environment())
    output.save(document, json_file, html_file)
    if len(results) > 1 and not is_silent:
        for result in results:
            target.print(summary(result))
    output.fail(not all(result.is_right for result in results))
