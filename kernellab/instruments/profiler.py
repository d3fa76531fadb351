"""What Nsight's tools need of a run: NVTX ranges, a capture between cudaProfilerStart and Stop, command lines."""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

NEEDS_NVTX = "--nvtx: this CuPy was built without NVTX, so no ranges are shown; install a wheel from PyPI"


class Profiler:
    """Marks what runs on a GPU for whoever watches; does nothing as it is.

    Parameters
    ----------
    cupy : module, optional
        Whose NVTX and profiler are called.
    has_ranges : bool
        Whether each experiment, case and launch is a range.
    is_capturing : bool
        Whether the interesting part is what profilers record: each kernel once, and no clock.
    """

    def __init__(self, cupy: Any = None, *, has_ranges: bool = False, is_capturing: bool = False) -> None:
        self.is_capturing = is_capturing
        self._nvtx = cupy.cuda.nvtx if has_ranges and can_range(cupy) else None
        self._profiler = cupy.cuda.profiler if is_capturing else None

    @contextmanager
    def range(self, name: str) -> Iterator[None]:
        """Show what is done inside as one block on the profiler's time line."""
        if self._nvtx is None:
            yield
            return
        self._nvtx.RangePush(name)
        try:
            yield
        finally:
            self._nvtx.RangePop()

    @contextmanager
    def capture(self) -> Iterator[None]:
        """Have what is done inside recorded."""
        if self._profiler is None:
            yield
            return
        self._profiler.start()
        try:
            yield
        finally:
            self._profiler.stop()

    def wrapped(self, name: str, call: Callable[[], None]) -> Callable[[], None]:
        """Return a launch in a range of its own; the same one where there are none, which costs nothing."""
        if self._nvtx is None:
            return call

        def ranged() -> None:
            with self.range(name):
                call()

        return ranged


NOBODY = Profiler()
"""Where nobody watches."""


def can_range(cupy: Any) -> bool:
    """Whether this CuPy can show ranges."""
    return bool(getattr(getattr(cupy.cuda, "nvtx", None), "available", False))


def command_lines(command: Sequence[str], names: Sequence[str], problems: Sequence[str]) -> tuple[str, str]:
    """Return how to run a command under Nsight Systems and under Nsight Compute.

    Parameters
    ----------
    command : sequence of str
        A run with ``--nvtx --profile``, which records once for each experiment.
    names : sequence of str
        Of the experiments.
    problems : sequence of str
        Whose kernels Nsight Compute looks at; CuPy's own, such as fills, are left out.

    Examples
    --------
    >>> for line in command_lines(["kernellab", "run", "graphs"], ["graphs"], ["scale"]):
    ...     print(line)
    nsys profile -t cuda,nvtx --capture-range=cudaProfilerApi --capture-range-end=stop -o kernellab-graphs ...
    ncu --profile-from-start off --nvtx --clock-control none -k 'regex:(^|:)(scale)_' -o kernellab-graphs ...
    """
    file = "-".join(("kernellab", *names)).replace(":", "-")
    end = "stop" if len(names) == 1 else f"repeat:{len(names)}"
    systems = (
        "nsys", "profile", "-t", "cuda,nvtx", "--capture-range=cudaProfilerApi", f"--capture-range-end={end}",
        "-o", file, *command,
    )  # fmt: skip
    compute = (
        "ncu", "--profile-from-start", "off", "--nvtx", "--clock-control", "none",
        "-k", f"regex:(^|:)({'|'.join(problems)})_", "-o", file, *command,
    )  # fmt: skip
    return shlex.join(systems), shlex.join(compute)


def missing(tool: str) -> str:
    """Return what to say of a tool that is not here, or nothing."""
    return "" if shutil.which(tool) else f" ({tool} is not on the PATH here)"
