"""The emulator's own speed: thread-instructions a second with counting on, and against Numba's simulator."""

from __future__ import annotations

import math
import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from kernellab.errors import SpecError
from kernellab.problem import Case

FMA_LOOP = """
extern "C" __global__ void fma_loop(const float* __restrict__ x, float* __restrict__ y, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        float value = x[i];
#pragma unroll 1
        for (int step = 0; step < 64; ++step) {
            value = fmaf(value, 0.999f, 0.001f);
        }
        y[i] = value;
    }
}
"""
THREADS = 2**20
SMALL_SIDE = 64
SECONDS_EACH = 2.0
MOST_RUNS = 5
MEAN_OF = ("copy/float4", "transpose/padded", "FMA loop", "shared_stride/words")
MEAN_BAR = 100e6
Progress = Callable[[str, int, int], None]


@dataclass(frozen=True)
class Timing:
    """One kernel on the emulator.

    Attributes
    ----------
    name : str
        What ran.
    threads, instructions : int
        Of the launch; thread-instructions by the emulator's count.
    seconds : float
        Median of `runs`.
    runs : int
        Timed runs, after one to warm up.
    bar : float
        Thread-instructions a second it has to reach; 0 for none of its own.
    most_seconds : float
        Seconds it may take; 0 for no limit.
    """

    name: str
    threads: int
    instructions: int
    seconds: float
    runs: int
    bar: float = 0.0
    most_seconds: float = 0.0

    @property
    def rate(self) -> float:
        """Thread-instructions a second."""
        return self.instructions / self.seconds

    @property
    def is_fast(self) -> bool:
        """Whether it reaches its bar."""
        return self.rate >= self.bar and (not self.most_seconds or self.seconds <= self.most_seconds)


@dataclass(frozen=True)
class Speeds:
    """All timings, and Numba's own simulator on a small kernel.

    Attributes
    ----------
    timings : tuple of Timing
    simulator_seconds, emulator_seconds : float
        The same twin, arrays and launch on both; NaN where the simulator could not run.
    simulator_note : str
        What ran there, or why nothing did.
    """

    timings: tuple[Timing, ...]
    simulator_seconds: float
    emulator_seconds: float
    simulator_note: str

    @property
    def mean_rate(self) -> float:
        """Geometric mean over the four kernels of the bar."""
        rates = [timing.rate for timing in self.timings if timing.name in MEAN_OF]
        return math.exp(sum(map(math.log, rates)) / len(rates)) if rates else math.nan

    @property
    def is_fast(self) -> bool:
        """Whether every bar is reached."""
        return self.mean_rate >= MEAN_BAR and all(timing.is_fast for timing in self.timings)


@dataclass(frozen=True)
class Job:
    """A launch of a catalogue kernel, or of the FMA loop."""

    name: str
    kernel: str
    sizes: dict[str, int]
    parameters: dict[str, int]
    bar: float = 0.0
    most_seconds: float = 0.0


JOBS = (
    Job("copy/float4", "copy/float4", {"n": 4 * THREADS}, {}),
    Job("transpose/padded", "transpose/padded", {"rows": 1024, "columns": 1024}, {}, most_seconds=2.0),
    Job("FMA loop", "", {"n": THREADS}, {}),
    Job("shared_stride/words", "shared_stride/words", {"tiles": THREADS // 1024}, {"stride": 32}),
    Job("uneven_work/unsorted", "uneven_work/unsorted", {"n": THREADS}, {}, bar=20e6),
    Job("FMA loop, one block of 256", "", {"n": 256}, {}, bar=4e6),
)


def measure_speeds(progress: Progress | None = None) -> Speeds:
    """Time the emulator.

    Parameters
    ----------
    progress : callable, optional
        ``progress(what, done, total)``.

    Returns
    -------
    Speeds
        Outputs are verified once before they are timed.
    """
    report = progress or (lambda what, done, total: None)
    timings = []
    for index, job in enumerate(JOBS):
        report(job.name, index, len(JOBS) + 1)
        timings.append(time_job(job))
    report("Numba's simulator", len(JOBS), len(JOBS) + 1)
    simulated, emulated, note = against_simulator()
    return Speeds(tuple(timings), simulated, emulated, note)


def time_job(job: Job) -> Timing:
    """Compile, verify and time one launch.

    Raises
    ------
    SpecError
        If the answer is wrong.
    """
    launch, is_right, threads = _fma_launch(job) if not job.kernel else _catalogue_launch(job)
    trace = launch()
    if not is_right():
        raise SpecError(f"bench: {job.name} gives a wrong answer, so it is not timed; run kernellab check")
    samples: list[float] = []
    while len(samples) < MOST_RUNS and (not samples or sum(samples) < SECONDS_EACH):
        started = time.perf_counter()
        trace = launch()
        samples.append(time.perf_counter() - started)
    instructions = int(trace.totals["ptx_thread_instructions"])
    seconds = float(np.median(samples))
    return Timing(job.name, threads, instructions, seconds, len(samples), job.bar, job.most_seconds)


def _fma_launch(job: Job) -> tuple[Callable[[], Any], Callable[[], bool], int]:
    from kernellab.compile.cuda_c import compile_cuda
    from kernellab.emulation import run_binary

    n = job.sizes["n"]
    binary = compile_cuda(FMA_LOOP)
    x = np.random.default_rng(0).standard_normal(n, dtype=np.float32)
    y = np.full(n, np.nan, np.float32)
    expected = x.astype(np.float64)
    for _ in range(64):
        expected = expected * np.float64(np.float32(0.999)) + np.float64(np.float32(0.001))

    def launch() -> Any:
        return run_binary(
            binary, binary.names["fma_loop"], (-(-n // 256),), (256,), (x, y, n), name="fma_loop"
        )

    return launch, lambda: bool(np.allclose(y, expected, rtol=1e-5, atol=1e-6)), n


def _catalogue_launch(job: Job) -> tuple[Callable[[], Any], Callable[[], bool], int]:
    from kernellab import catalog
    from kernellab.devices import device
    from kernellab.emulation import run_binary
    from kernellab.plan import bind
    from kernellab.verify import poisoned, verify

    kernel = catalog.kernel(job.kernel)
    where = device("emulator")
    given: dict[str, Any] = dict(job.parameters)
    inputs = kernel.problem.inputs(Case(job.name, job.sizes, job.parameters))
    plan = bind(
        kernel,
        {item.name: inputs[item.name] for item in kernel.inputs},
        limits=where.limits,
        **given,
    )
    program = where.build(kernel, "cuda-c")
    outputs = {name: poisoned(spec.shape, spec.dtype) for name, spec in plan.outputs.items()}
    step = plan.steps[0]
    arguments = step.values({**plan.inputs, **outputs}, "cuda-c")

    def launch() -> Any:
        return run_binary(
            program.binary(kernel), program.entry(kernel), step.grid, step.block, arguments,
            name=kernel.id, shared_mem=step.shared_mem,
        )  # fmt: skip

    return launch, lambda: verify(plan, outputs).is_right, math.prod(step.grid) * math.prod(step.block)


TWIN = """
def transpose(x, y):
    tile = cuda.shared.array((32, 33), float32)
    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
    i, j = cuda.blockIdx.y * 32, cuda.blockIdx.x * 32
    tile[ty, tx] = x[i + ty, j + tx]
    cuda.syncthreads()
    y[j + ty, i + tx] = tile[tx, ty]
"""
SIMULATED = """
import sys, time, warnings
warnings.simplefilter("ignore")
import numpy as np
from numba import cuda, float32
side = int(sys.argv[1])
exec(sys.argv[2], globals())
twin = cuda.jit(transpose)
x = np.random.default_rng(0).standard_normal((side, side), dtype=np.float32)
y = np.zeros_like(x)
started = time.perf_counter()
twin[(side // 32, side // 32), (32, 32)](x, y)
seconds = time.perf_counter() - started
assert (y == x.T).all()
print(seconds)
"""


def against_simulator(side: int = SMALL_SIDE) -> tuple[float, float, str]:
    """Run one twin on Numba's simulator, in a process of its own, and on the emulator.

    Returns
    -------
    tuple
        Seconds there, seconds here, and what ran or why it did not.
    """
    from numba import cuda, float32

    from kernellab.compile.numba_arguments import numba_types
    from kernellab.compile.numba_kernels import compile_numba
    from kernellab.emulation import run_binary

    x = np.random.default_rng(0).standard_normal((side, side), dtype=np.float32)
    y = np.zeros_like(x)
    names: dict[str, Any] = {"cuda": cuda, "float32": float32}
    exec(TWIN, names)
    binary = compile_numba(names["transpose"], numba_types((x, y)))
    samples = []
    for _ in range(3):
        started = time.perf_counter()
        run_binary(binary, binary.names["transpose"], (side // 32, side // 32), (32, 32), (x, y))
        samples.append(time.perf_counter() - started)
    if not (y == x.T).all():
        raise SpecError("bench: the twin gives a wrong answer, so it is not timed; run kernellab check")
    here = min(samples)
    environment = {**os.environ, "NUMBA_ENABLE_CUDASIM": "1"}
    paths = [entry for entry in sys.path if entry]
    environment["PYTHONPATH"] = os.pathsep.join(paths)
    try:
        done = subprocess.run(
            [sys.executable, "-c", SIMULATED, str(side), TWIN],
            env=environment, capture_output=True, text=True, timeout=120, check=True,
        )  # fmt: skip
        there = float(done.stdout.split()[-1])
    except (subprocess.SubprocessError, ValueError, IndexError, OSError) as error:
        tail = (getattr(error, "stderr", None) or str(error)).strip().splitlines()[-1:]
        return math.nan, here, f"Numba's simulator did not run: {' '.join(tail)}"
    return there, here, f"a padded transpose in Numba, {side} x {side}"
