"""Two fake GPUs that reach each other's memory: on each, products and what adds up run beside each other."""

from __future__ import annotations

import ctypes

import numpy as np
from fakes import FakeRuntimeError, Function, make_gpu
from lazy_fakes import LazyStream, LazyWorld

from kernellab.catalog.all_reduce import middle
from kernellab.devices.gpu import GpuDevice
from kernellab.devices.gpu_launch import Launcher
from kernellab.devices.program import Program

PRODUCT_SECONDS, LINK_SECONDS, LAUNCH_SECONDS = 1e-3, 2e-7, 5e-6
"""Of a product; of an element that a kernel or a copy moves; the least that either takes."""


class RankWorld(LazyWorld):
    """Whether memory is reached can be turned off; what was asked stands in the log."""

    def __init__(self, devices=2, **options):
        super().__init__(devices=devices, **options)
        self.is_reached, self.has_access = True, set()
        runtime = self.cupy.cuda.runtime
        runtime.deviceCanAccessPeer = lambda one, other: int(self.is_reached)
        runtime.deviceEnablePeerAccess = self._enable
        runtime.memcpyPeerAsync = self._copy_peer
        self.cupy.cuda.Stream = self._ranked

    def _enable(self, peer):
        if (self.number, peer) in self.has_access:
            raise FakeRuntimeError("cudaErrorPeerAccessAlreadyEnabled: peer access is already enabled")
        self.has_access.add((self.number, peer))

    def _ranked(self, non_blocking=False, priority=0):
        made = LazyStream(self, 100 + len(self.made), not non_blocking)
        made.number, made.priority = self.number, priority
        self.made.append(made)
        return made

    def perform(self, work):
        _, entry, _ = self.log[-1]
        assert getattr(self.stream, "number", self.number) == self.number, "the stream of another device"
        kind = "product" if entry.startswith("matmul") else "sum"
        seconds = PRODUCT_SECONDS if kind == "product" else max(LAUNCH_SECONDS, LINK_SECONDS * self.moved)
        self._queue(self.stream, (kind, self.number), seconds, work)

    def _copy_peer(self, target, to, source, of, nbytes, pointer):
        stream = next(each for each in self.made if each.ptr == pointer)
        assert stream.number in (to, of)
        assert {(to, of), (of, to)} <= self.has_access
        self.log.append(("peer", of, to, nbytes))
        seconds = max(LAUNCH_SECONDS, LINK_SECONDS * nbytes / 2)
        self._queue(stream, ("link", of, to), seconds, lambda: ctypes.memmove(target, source, nbytes))


class RankFunction(Function):
    """Knows how much the all-reduce moves before it is carried out."""

    def __call__(self, grid, block, arguments, shared_mem=0):
        self.world.moved = (
            int(getattr(arguments[0], "size", 0)) if self.kernel.startswith("all_reduce") else 0
        )
        super().__call__(grid, block, arguments, shared_mem)


def half(values):
    return values.astype(np.float16)


def wide(values):
    return values.astype(np.float32)


def all_reduce(x, y, rank, n):
    assert x.size == y.size == n
    between = middle(int(n), 8)
    owned = slice(between, n) if rank == 1 else slice(0, between)
    total = half(wide(x[owned]) + wide(y[owned]))
    x[owned], y[owned] = total, total


KERNELS = {
    "matmul_mma": lambda a, b, y, m, n, k: y.__setitem__(..., half(wide(a) @ wide(b))),
    "matmul_nt_mma": lambda a, b, y, m, n, k: y.__setitem__(..., half(wide(a) @ wide(b).T)),
    "all_reduce_vectorised": all_reduce,
    "axpy_unrolled": lambda x, y, z, alpha, n: z.__setitem__(..., half(alpha * wide(x) + wide(y))),
}


def make_ranks(monkeypatch, **options):
    """Return a world and its device; nothing is compiled."""
    world, device = make_gpu(monkeypatch, RankWorld, capability="80", **options)
    world.kernels = dict(KERNELS)
    monkeypatch.setattr(
        GpuDevice,
        "build",
        lambda self, kernels, language="cuda-c", with_ladder=True: Program("gpu", language, "", ()),
    )
    loaded = {}

    def function(self, program, kernel):
        key = world.number, kernel.entry
        return loaded[key] if key in loaded else loaded.setdefault(key, RankFunction(world, kernel.entry))

    monkeypatch.setattr(Launcher, "function", function)
    return world, device
