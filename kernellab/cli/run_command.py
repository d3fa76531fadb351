"""``kernellab run``."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from kernellab.cli import output
from kernellab.cli.errors import say
from kernellab.errors import SpecError, UnavailableError, on_a_gpu
from kernellab.instruments.profiler import NEEDS_NVTX, NOBODY, Profiler, can_range, command_lines, missing

if TYPE_CHECKING:
    from kernellab.experiments.experiment import Experiment


@dataclass(frozen=True)
class Watch:
    """What is asked for whoever watches the GPU: ranges, and a capture."""

    nvtx: bool = False
    profile: bool = False

    @property
    def options(self) -> str:
        """As on the command line."""
        return " and ".join(["--nvtx"] * self.nvtx + ["--profile"] * self.profile)


def run_experiments(
    names: Sequence[str],
    device: str,
    language: str | None,
    json_file: Path | None,
    html_file: Path | None,
    is_pictured: bool | None,
    watch: Watch = Watch(),
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
    if watch.options:
        device = _watched_device(watch, device)
        _advise(experiments, list(dict.fromkeys(names or FUNDAMENTALS)), device, language)
    with watched(watch) as profiler:
        for experiment in experiments:
            with output.progress() as progress:
                result = run(experiment, device, languages, progress, profiler)
            results.append(result)
            if not is_silent:
                print_result(target, result, is_pictured=is_pictured)
    document = Document("run", experiments=tuple(results), environment=output.environment())
    output.save(document, json_file, html_file)
    if len(results) > 1 and not is_silent:
        for result in results:
            target.print(summary(result))
    output.fail(not all(result.is_right for result in results))


def _watched_device(watch: Watch, device: str) -> str:
    if device == "emulator":
        rule = "no profiler sees what the emulator runs"
        raise SpecError(f"run: {watch.options}: {rule}; pass --device gpu or both")
    return "gpu" if device == "auto" else device


def _advise(
    experiments: Sequence[Experiment], names: Sequence[str], device: str, language: str | None
) -> None:
    """Say on stderr how this run is watched by Nsight's tools."""
    command = [sys.executable, "-m", "kernellab", "run", *names, "--device", device]
    command += [] if language is None else ["--language", language]
    problems = dict.fromkeys(kernel.problem.name for each in experiments for kernel in each.kernels)
    lines = command_lines([*command, "--nvtx", "--profile"], names, tuple(problems))
    for title, tool, line in zip(("time line", "counters"), ("nsys", "ncu"), lines, strict=True):
        say(f"{title}{missing(tool)}:\n  {line}")


@contextmanager
def watched(watch: Watch) -> Iterator[Profiler]:
    """Have launches on the GPU marked for whoever watches.

    Raises
    ------
    UnavailableError
        If there is no GPU.
    """
    if not watch.options:
        yield NOBODY
        return
    from kernellab.devices import device

    try:
        place = device("gpu")
    except UnavailableError as error:
        reason = on_a_gpu(str(error)).removeprefix("device: ")
        raise UnavailableError(f"run: {watch.options}: there is no GPU to watch: {reason}") from error
    cupy, launcher = place.cupy, place.launcher  # type: ignore[attr-defined]
    if watch.nvtx and not can_range(cupy):
        say(NEEDS_NVTX)
    launcher.profiler = Profiler(cupy, has_ranges=watch.nvtx, is_capturing=watch.profile)
    try:
        yield launcher.profiler
    finally:
        launcher.profiler = NOBODY
