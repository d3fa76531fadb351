"""The emulator's own speed, by pytest-benchmark's wall clock: thread-instructions a second in extra_info."""

from __future__ import annotations

import numpy as np
import pytest

from kernellab import catalog
from kernellab.devices import device
from kernellab.kernel import Kernel
from kernellab.plan import bind
from kernellab.suites.bench import right_kernels, scaled


@pytest.mark.parametrize("ladder", catalog.PROBLEMS)
def test_problem(benchmark, ladder: str) -> None:
    """The first right rung of each problem, on a mebibyte."""
    kernel: Kernel = right_kernels(catalog.ladder(ladder))[0]
    emulator = device("emulator")
    inputs = kernel.problem.inputs(scaled(kernel.problem, 2**20))
    plan = bind(kernel, {item.name: np.asarray(inputs[item.name]) for item in kernel.inputs})
    program = emulator.build(kernel)
    run = benchmark.pedantic(emulator.run, (program, plan), rounds=3, warmup_rounds=1)
    executed = sum(trace.totals["thread_instructions"] for trace in run.traces)
    if benchmark.stats is not None:
        benchmark.extra_info["thread_instructions_per_second"] = executed / benchmark.stats.stats.median
    assert executed > 0
