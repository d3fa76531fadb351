"""Blocks: how many threads a block should have, for kernels whose block is one free number."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from kernellab import catalog
from kernellab.kernel import Kernel
from kernellab.results import Results, Shown
from kernellab.suites.bench import TIMED, Bench, plan_fields, right_kernels, scaled, timed_row

THREADS = (32, 64, 128, 256, 512, 1024)
COLUMNS = (Shown("kernel", "kernel"), Shown("threads", "threads a block", digits=0), *TIMED)


def run(bench: Bench) -> Results:
    """Time each such kernel with every block size, interleaved."""
    rows = []
    notes: list[str] = []
    chosen = tuple(free_kernels())
    for kernel in bench.within_budget(chosen, notes):
        bench.progress(f"{kernel.id}: block sizes")
        case = scaled(kernel.problem, bench.nbytes)
        plans = {
            threads: bench.plan(replace(kernel, geometry=replace(kernel.geometry, block=(threads,))), case)
            for threads in THREADS
        }
        works = {threads: bench.workload(plan, "cuda-c", str(threads)) for threads, plan in plans.items()}
        copy = bench.copy(works[256].nbytes)
        timings = bench.time([*works.values(), copy])
        for threads, work in works.items():
            row = timed_row(work, timings[work.name], timings[copy.name], threads=threads)
            rows.append(row | plan_fields(plans[threads], "cuda-c"))
    lines = (
        f"{kernel.id}: "
        + "  ".join(f"{r['threads']} {r['fraction_of_copy']:.3f}" for r in rows if r["kernel"] == kernel.id)
        for kernel in chosen
    )
    return bench.results(
        "blocks",
        "Threads a block",
        rows,
        chosen,
        columns=COLUMNS,
        notes=(
            "cold L2, median, CUDA C; the sizes of a kernel interleaved with cudaMemcpy of as many bytes",
            *notes,
        ),
        lines=(*lines, *notes),
    )


def free_kernels() -> Iterator[Kernel]:
    """Yield kernels whose block is one number that the source leaves free: no shared memory, one input."""
    for kernel in right_kernels(catalog.kernels()):
        block, geometry = kernel.geometry.block, kernel.geometry
        is_free = len(block) == 1 and isinstance(block[0], int)
        has_shared = geometry.static_shared is not None or geometry.dynamic_shared is not None
        takes_one = len(kernel.inputs) == 1 and not kernel.parameters and not kernel.stages
        if is_free and takes_one and not has_shared:
            yield kernel
