"""Points of the experiment ``launch-config``: stock kernels in other blocks and grids, with other shared memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from kernellab.catalog import kernel
from kernellab.checks import HOPPER
from kernellab.experiments.experiment import Point
from kernellab.kernel import Geometry, Kernel
from kernellab.problem import Case

KIB = 1024
BLOCKS = (32, 33, 48, 64, 65, 96, 100, 128, 250, 256)
"""Threads a block."""
FULL_WAVE = 8 * HOPPER.multiprocessors
"""Blocks of 256 threads and up to 32 registers that an H200 holds at a time."""
HALF = 113 * KIB
"""Shared memory of which an H200 has room for two blocks: 228 KiB, of which 1 KiB is reserved for each."""
SHARED = (0, 48 * KIB, 75 * KIB, 75 * KIB + 1, 99 * KIB)
"""Shared memory a block, which every device from sm_80 on gives."""
VECTORS = (1, 16)
"""Vectors a thread."""
DEGREE = 2048
"""Steps of Horner's rule where time is that of arithmetic."""


def launched(
    name: str,
    threads: int | None = None,
    shared: int = 0,
    grid: Callable[[Mapping[str, int]], tuple[int, ...]] | None = None,
) -> Kernel:
    """Return a rung with another block, with dynamic shared memory that it does not use, or another grid."""
    stock = kernel(name)
    geometry: Geometry = stock.geometry
    if threads is not None:
        geometry = replace(geometry, block=(threads,))
    if shared:
        geometry = replace(geometry, dynamic_shared=lambda at: shared)
    if grid is not None:
        geometry = replace(geometry, grid=grid)
    return stock if geometry is stock.geometry else replace(stock, geometry=geometry)


def steps(n: int, degree: int, name: str = "") -> Case:
    """Return a case of horner."""
    return Case(name or f"{n} elements, degree {degree}", {"n": n}, {"degree": degree})


LONG = steps(2**22, 16), steps(2**22, DEGREE // 4)
"""Elements to stream, and to compute on, on a GPU."""


def block(threads: int) -> Point:
    """Return blocks of so many threads, all of them full."""
    return Point(
        f"{threads} threads",
        launched("horner/single", threads),
        steps(64 * threads, 4),
        large=LONG[0],
        head=2**16,
    )


def grid(blocks: int) -> Point:
    """Return a grid of so many full blocks."""
    n = 256 * blocks
    return Point(
        f"{blocks} blocks",
        kernel("horner/single"),
        steps(n, 4),
        large=steps(n, DEGREE, f"as many, degree {DEGREE}"),
    )


def shared(nbytes: int) -> Point:
    """Return a stream, of one step an element, whose blocks ask for shared memory that they do not use."""
    return Point(
        f"{nbytes} B shared",
        launched("horner/single", shared=nbytes),
        steps(2**14, 1),
        large=steps(2**25, 1),
        head=2**20,
    )


def vectors(count: int) -> Point:
    """Return a scaling by so many vectors a thread: work in flight, paid for with registers."""
    rung = replace(kernel("scale/unrolled").with_constants(VECTORS=count), twin="swept in CUDA C only")
    return Point(
        f"{count} vectors", rung, Case("16 Ki", {"n": 2**14}), large=Case("2**25", {"n": 2**25}), head=2**20
    )


def arithmetic(threads: int) -> Point:
    """Return blocks of so many threads on numbers enough to keep the device busy."""
    return Point(f"blocks of {threads}", launched("horner/single", threads), LONG[1])


def alone(blocks: int) -> Point:
    """Return a grid of blocks that each have a multiprocessor for themselves."""
    return Point(
        f"{blocks} blocks, one each", launched("horner/single", shared=HALF + 1), steps(256 * blocks, DEGREE)
    )


def timed(point: Point, label: str = "") -> Point:
    """Return a point of a sweep at its large sizes, as one of two."""
    assert point.large is not None
    return replace(point, label=label or point.label, case=point.large, large=None, head=0)
