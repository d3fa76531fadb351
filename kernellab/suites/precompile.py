"""Precompile: many kernels at once, each in a process, into the disk cache; the suites then find them there."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from dataclasses import replace
from typing import Any, TypeAlias

from kernellab.errors import LabError
from kernellab.kernel import Kernel, Language
from kernellab.suites.bench import Bench

Job: TypeAlias = tuple[str, tuple[tuple[str, int], ...], Language, str, bool]


def precompile(bench: Bench, kernels: Iterable[tuple[Kernel, Language]], *, with_sass: bool = False) -> int:
    """Compile kernels side by side; what does not compile fails later, where it is used.

    Parameters
    ----------
    bench : Bench
        Does nothing where its ``processes`` are 0.
    kernels : iterable of (Kernel, str)
        With the constants that they are to be run with.
    with_sass : bool
        Whether to disassemble too.

    Returns
    -------
    int
        How many were compiled.
    """
    arch = bench.device.arch
    jobs: list[Job] = list(
        dict.fromkeys(
            (kernel.id, tuple(sorted(kernel.constants.items())), language, arch, with_sass)
            for kernel, language in kernels
        )
    )
    return spread(bench, build, jobs)


def spread(bench: Bench, work: Callable[[Any], bool], jobs: Sequence[Any]) -> int:
    """Do work in the bench's processes, if it has any; return how often it went well."""
    if not bench.processes or not jobs:
        return 0
    # A fork of a process with a CUDA context is broken, so each starts afresh.
    context = multiprocessing.get_context("spawn")
    workers = min(bench.processes, len(jobs))
    with suppress(OSError, RuntimeError), ProcessPoolExecutor(workers, context) as pool:
        return sum(pool.map(work, jobs, chunksize=max(1, len(jobs) // (4 * workers))))
    return 0


def build(job: Job) -> bool:
    """Compile one kernel; say whether it went well."""
    from kernellab import catalog
    from kernellab.compile.sass import sass_of
    from kernellab.devices.emulated import EmulatedDevice

    name, constants, language, arch, with_sass = job
    try:
        stock = catalog.kernel(name)
        same = tuple(sorted(stock.constants.items())) == constants
        kernel = stock if same else replace(stock, constants=dict(constants))
        program = EmulatedDevice(arch).build(kernel, language)
        if with_sass:
            for part in kernel.parts:
                sass_of(program.binary(part))
    except LabError:
        return False
    return True


__all__ = ["build", "precompile", "spread"]
