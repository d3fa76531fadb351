"""CUB as a peer: its device-wide algorithms, built by nvcc when first asked for and called by ctypes."""

from __future__ import annotations

import ctypes
import functools
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from kernellab.errors import CompileError, UnavailableError
from kernellab.suites.peer_works import Make, Setting

SOURCE = Path(__file__).parents[2] / "benchmarks" / "peers" / "cub.cu"
ALGORITHMS = ("sum", "max", "cumsum", "histogram")
SECONDS = 300


@functools.cache
def building(arch: str = "sm_90") -> tuple[str, dict[str, subprocess.Popen[str]]]:
    """Start to build each algorithm as a library of its own, side by side; return their folder too.

    Raises
    ------
    UnavailableError
        Without nvcc, or outside a checkout.
    """
    from kernellab.compile.toolchain import toolchain

    nvcc = toolchain().nvcc
    if nvcc is None:
        raise UnavailableError("CUB needs nvcc, which is not here; install the CUDA toolkit")
    if not SOURCE.is_file():
        raise UnavailableError(f"{SOURCE} is in a checkout of kernellab only; run there")
    folder = tempfile.mkdtemp(prefix="kernellab-cub-")
    options = ("-O3", f"-arch={arch}", "-shared", "-Xcompiler", "-fPIC")
    return folder, {
        name: subprocess.Popen(
            [str(nvcc), *options, f"-DWITH_{name.upper()}", "-o", f"{folder}/{name}.so", str(SOURCE)],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )
        for name in ALGORITHMS
    }  # fmt: skip


@functools.cache
def algorithm(name: str) -> Any:
    """Return ``f(storage, nbytes, x, y, n, stream) -> error`` of one algorithm.

    Raises
    ------
    CompileError
        With nvcc's log.
    """
    folder, jobs = building()
    log, _ = jobs[name].communicate(timeout=SECONDS)
    if jobs[name].returncode:
        raise CompileError(f"CUB's {name} does not build: {log.strip()[-300:]}")
    found = getattr(ctypes.CDLL(f"{folder}/{name}.so"), f"cub_{name}")
    pointer = ctypes.c_void_p
    found.argtypes = [pointer, ctypes.POINTER(ctypes.c_size_t), pointer, pointer, ctypes.c_int64, pointer]
    found.restype = ctypes.c_int
    return found


def cub(name: str) -> Make:
    """Return what makes a call of one algorithm: ``sum``, ``max``, ``cumsum`` or ``histogram``."""

    def make(setting: Setting) -> Callable[[], Any]:
        xp, x = setting.xp, setting.inputs["x"]
        function = algorithm(name)
        y = xp.empty(256, "int32") if name == "histogram" else setting.out
        needed = ctypes.c_size_t(0)

        def launch(storage: int | None) -> None:
            stream = xp.cuda.get_current_stream().ptr
            error = function(storage, ctypes.byref(needed), x.data.ptr, y.data.ptr, x.size, stream)
            if error:
                raise RuntimeError(f"CUB's {name} gives CUDA error {error}")

        launch(None)
        storage = xp.empty(max(1, needed.value), "uint8")

        def call() -> Any:
            launch(storage.data.ptr)
            return y if y is not setting.out else None

        return call

    return make


__all__ = ["algorithm", "building", "cub"]
