"""What the tests of the machine share: a file of kernels, compiled once, launched like a CuPy kernel."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from kernellab.compile.binary import Binary
from kernellab.compile.cuda_c import compile_cuda
from kernellab.emulation import run_binary
from kernellab.trace import Trace

KERNELS = Path(__file__).parent / "kernels"


@lru_cache(maxsize=32)
def compiled(
    text: str, arch: str = "sm_90", options: tuple[str, ...] = (), names: tuple[str, ...] = ()
) -> Binary:
    return compile_cuda(text, arch=arch, options=options, name_expressions=names)


class Kernels:
    """CUDA C text, compiled at the first launch."""

    def __init__(
        self, text: str, arch: str = "sm_90", options: tuple[str, ...] = (), names: tuple[str, ...] = ()
    ):
        self.text, self.arch, self.options, self.names = text, arch, options, names

    @classmethod
    def of(cls, file: str, **settings: Any) -> Kernels:
        return cls((KERNELS / file).read_text(), **settings)

    @property
    def binary(self) -> Binary:
        return compiled(self.text, self.arch, self.options, self.names)

    def __call__(self, name: str, grid: Any, block: Any, *args: Any, **settings: Any) -> Trace:
        binary = self.binary
        return run_binary(binary, binary.names[name], grid, block, args, name=name, **settings)


def integers(rng: np.random.Generator, low: int, high: int, shape: Any, dtype: Any = np.int32) -> Any:
    return rng.integers(low, high, shape).astype(dtype)
