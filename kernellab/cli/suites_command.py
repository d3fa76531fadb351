"""``kernellab bench gpu`` and ``kernellab bench SUITE``: what a GPU gives, into results with raw samples."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from kernellab.cli import output
from kernellab.errors import LabError, UnavailableError

if TYPE_CHECKING:
    from kernellab.results import Results
    from kernellab.suites.bench import Bench


def run_suites(names: Sequence[str], folder: Path | None) -> None:
    """Run suites, print each as it ends and write it; fail if one failed or a bar is missed.

    Of several suites those that need what is not here, such as a second GPU, are left out.
    """
    from kernellab import suites
    from kernellab.results import save

    bench = make_bench()
    is_good = True
    for name in names:
        started = time.perf_counter()
        try:
            found = suites.run(name, bench)
        except UnavailableError as error:
            if len(names) == 1:
                raise
            print(f"== {name}: left out: {error}", flush=True)
            continue
        except LabError as error:
            print(f"== {name}: FAILED: {error}", flush=True)
            is_good = False
            continue
        if folder is not None:
            save(found, folder)
        print(summary(found, time.perf_counter() - started), flush=True)
        is_good = is_good and found.is_good
        bench.free()
    output.fail(not is_good)


def make_bench() -> Bench:
    """Return a bench on the GPU.

    Raises
    ------
    UnavailableError
        If there is none.
    """
    from kernellab.devices import device
    from kernellab.suites.bench import Bench

    gpu = device("gpu")

    def progress(what: str) -> None:
        if sys.stderr.isatty():
            print(f"\r\x1b[K{what}", end="", file=sys.stderr, flush=True)

    processes = os.cpu_count() or 1
    return Bench(gpu, gpu.stopwatch(), progress=progress, processes=processes)  # type: ignore[arg-type, attr-defined]


def summary(results: Results, seconds: float) -> str:
    """Return results in few lines: what was found, and each bar."""
    bars = [f"{'ok' if is_reached else 'MISSED'}: {text}" for text, is_reached in results.bars.items()]
    return "\n".join((f"== {results.name} ({seconds:.0f} s)", *results.lines, *bars))
