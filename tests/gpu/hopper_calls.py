"""The kernels of the emulator's tests, launched on a GPU: the hardware has to give what the emulator gives."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace

import numpy as np

from kernellab.devices.gpu_launch import image_of
from kernellab.geometry import dimensions
from kernellab.tensor_map import TensorMap

EMULATOR_TESTS = str(Path(__file__).parents[1] / "emulator")
if EMULATOR_TESTS not in sys.path:
    sys.path.insert(0, EMULATOR_TESTS)


def call(cupy, binary, entry, grid, block, arguments, shared_mem=0):
    """Launch like `kernellab.trace`: NumPy in, results written back."""
    moved = {}

    def on_gpu(array):
        key = array.__array_interface__["data"][0], array.shape, array.strides
        if key not in moved:
            moved[key] = (array, cupy.array(array))
        return moved[key][1]

    def convert(value):
        if isinstance(value, TensorMap):
            there = TensorMap(on_gpu(value.array), value.box, value.swizzle, value.element_strides)
            return there.encode_for_driver()
        if isinstance(value, np.ndarray) and value.ndim:
            return on_gpu(value)
        return np.int32(value) if isinstance(value, int) else value

    passed = tuple(convert(value) for value in arguments)
    image, suffix = image_of(binary, cupy.cuda.Device().compute_capability, entry)
    with tempfile.NamedTemporaryFile(suffix=suffix, delete=False) as file:
        file.write(image)
    try:
        function = cupy.RawModule(path=file.name).get_function(entry)
        if shared_mem > 48 * 1024 - int(function.shared_size_bytes):
            function.max_dynamic_shared_size_bytes = shared_mem
        function(
            dimensions(grid, "grid", entry), dimensions(block, "block", entry), passed, shared_mem=shared_mem
        )
        cupy.cuda.Device().synchronize()
    finally:
        os.unlink(file.name)
    for host, there in moved.values():
        if host.flags.writeable:
            host[...] = there.get()


def install(monkeypatch, cupy):
    """Let the tests of the emulator launch on the GPU."""
    from launching import Kernels

    def launch(self, name, grid, block, *arguments, shared_mem=0, **of_the_emulator):
        call(cupy, self.binary, self.binary.names[name], grid, block, arguments, shared_mem)
        return SimpleNamespace(diagnostics=(), totals={})

    monkeypatch.setattr(Kernels, "__call__", launch)
