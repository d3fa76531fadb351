"""What the driver says of occupancy: kernels that hold many values, in blocks of many kinds, for ours to agree with."""

from __future__ import annotations

import tempfile
from contextlib import suppress
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kernellab.instruments.occupancy import occupancy

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from kernellab.devices.gpu import GpuDevice

HELD = (1, 2, 4, 6, 8, 9, 10, 12, 14, 16, 20, 24, 28, 36, 48, 60)
"""Values that a thread holds at a time, which is what takes registers."""
BARRIERS = (1, 16)
THREADS = (31, 32, 64, 96, 128, 192, 250, 256, 384, 512, 768, 1024)
SHARED = (0, 1, 1024, 16384, 49152, 76 * 1024, 115712, 115713, 232448)
"""Dynamic shared memory in bytes; what is more than the device has is left out."""
FIELDS = ("arch", "threads", "registers", "shared_bytes", "barriers", "blocks")


def source() -> str:
    """Return the kernels: each reads all that it holds before it writes any of it."""
    texts = []
    for held, barriers in product(HELD, BARRIERS):
        texts.append(
            f"""extern "C" __global__ void {entry(held, barriers)}(float* p) {{
    float value[{held}];
#pragma unroll
    for (int i = 0; i < {held}; ++i) value[i] = p[i * blockDim.x + threadIdx.x];
    asm volatile("bar.sync {barriers - 1};" ::: "memory");
#pragma unroll
    for (int i = 0; i < {held}; ++i) p[i * blockDim.x + threadIdx.x] = value[{held} - 1 - i];
}}"""
        )
    return "\n".join(texts)


def entry(held: int, barriers: int) -> str:
    """Return a kernel's name."""
    return f"holding_{held}_{barriers}"


def ask(device: GpuDevice) -> Iterator[Mapping[str, int]]:
    """Yield a row for each launch that the device allows: what a block takes, and the blocks that the driver counts."""
    from kernellab.compile import compile_cuda, resource_usage

    binary = compile_cuda(source(), arch=device.arch)
    used = resource_usage(binary)
    driver: Any = device.cupy.cuda.driver
    for name, function in _functions(device, binary.cubin or b"").items():
        function.max_dynamic_shared_size_bytes = device.limits.shared
        function.preferred_shared_memory_carveout = 100
        for threads, shared in product(THREADS, SHARED):
            if shared <= device.limits.shared:
                pointer = int(function.kernel.ptr)
                blocks = int(driver.occupancyMaxActiveBlocksPerMultiprocessor(pointer, threads, shared))
                taken = (threads, used[name].registers, shared, used[name].barriers)
                yield dict(zip(FIELDS, (int(device.arch[3:].rstrip("af")), *taken, blocks), strict=True))


def _functions(device: GpuDevice, cubin: bytes) -> dict[str, Any]:
    with tempfile.NamedTemporaryFile(suffix=".cubin", delete=False) as file:
        file.write(cubin)
    try:
        module = device.cupy.RawModule(path=file.name)
        names = [entry(held, barriers) for held, barriers in product(HELD, BARRIERS)]
        found = {name: module.get_function(name) for name in names}
        for function in found.values():
            _ = function.kernel  # loaded now, as the file does not stay
        return found
    finally:
        with suppress(OSError):
            Path(file.name).unlink()


def ours(row: Mapping[str, int]) -> int:
    """Return the blocks that our calculator counts for a row.

    Examples
    --------
    >>> ours({"arch": 90, "threads": 256, "registers": 40, "shared_bytes": 0, "barriers": 1})
    6
    """
    asked = {name: row[name] for name in ("threads", "registers", "shared_bytes", "barriers")}
    return occupancy(f"sm_{row['arch']}", **asked).blocks


__all__ = ["FIELDS", "ask", "ours"]
