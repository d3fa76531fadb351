"""What the suites share: the catalogue's kernels as parameters. Nothing here lists kernels."""

from __future__ import annotations

import numpy as np
import pytest

from kernellab import catalog
from kernellab.kernel import Kernel, Language
from kernellab.suites.bench import languages_of, right_kernels, scaled

ON_GPU, ON_EMULATOR = 2**28, 2**20


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Give a test that asks for `kernel` every right one; with `language`, in each of its languages."""
    if "kernel" not in metafunc.fixturenames:
        return
    kernels = right_kernels(catalog.kernels())
    if "language" in metafunc.fixturenames:
        pairs = [(kernel, language) for kernel in kernels for language in languages_of(kernel)]
        metafunc.parametrize(("kernel", "language"), pairs, ids=[f"{k.id}-{each}" for k, each in pairs])
    else:
        metafunc.parametrize("kernel", kernels, ids=[kernel.id for kernel in kernels])


@pytest.fixture
def arrays(kernel: Kernel, cuda_device: object) -> list[np.ndarray]:
    """The kernel's inputs: large on a GPU, small where they are only counted."""
    nbytes = ON_GPU if cuda_device.name == "gpu" else ON_EMULATOR
    given = kernel.problem.inputs(scaled(kernel.problem, nbytes))
    return [given[operand.name] for operand in kernel.inputs]


__all__ = ["Language"]
