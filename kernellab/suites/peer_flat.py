"""Peers of the problems on flat arrays and of transpose: PyTorch, CuPy, CUB."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from kernellab.suites.arena import Arena
from kernellab.suites.peer_cub import cub
from kernellab.suites.peer_works import Make, Peer, Setting, tensors


def by_torch(use: Callable[..., Any]) -> Make:
    """Return what makes ``use(torch, given, y, setting)``, with tensors."""

    def make(setting: Setting) -> Callable[[], Any]:
        torch, given, y = tensors(setting)
        return lambda: _none_if(use(torch, given, y, setting), y)

    return make


def by_cupy(use: Callable[..., Any]) -> Make:
    """Return what makes ``use(cupy, inputs, y)``."""

    def make(setting: Setting) -> Callable[[], Any]:
        return lambda: _none_if(use(setting.xp, setting.inputs, setting.out), setting.out)

    return make


def _none_if(found: Any, out: Any) -> Any:
    return None if found is out else found


def _is_random(arena: Arena) -> bool:
    """Say whether the data are random: on equal ones a count by plain atomics takes seconds."""
    return arena.contents == "random"


def elementwise_scale(setting: Setting) -> Callable[[], Any]:
    """CuPy's own kernel for a formula."""
    formula = setting.xp.ElementwiseKernel("float32 x", "float32 y", "y = 2 * x", "peer_scale")
    x, y = setting.inputs["x"], setting.out

    def call() -> None:
        formula(x, y)

    return call


FLAT: Mapping[str, tuple[Peer, ...]] = {
    "scale": (
        Peer("torch.mul(out=)", by_torch(lambda t, a, y, s: t.mul(a["x"], 2.0, out=y))),
        Peer("cupy.ElementwiseKernel", elementwise_scale),
    ),
    "axpy": (Peer("torch.add(alpha=)", by_torch(lambda t, a, y, s: t.add(a["y"], a["x"], alpha=2.0, out=y))),),
    "triad": (Peer("torch.addcmul", by_torch(lambda t, a, y, s: t.addcmul(a["c"], a["a"], a["b"], out=y))),),
    "sum": (
        Peer("CUB", cub("sum")),
        Peer("torch.sum", by_torch(lambda t, a, y, s: t.sum(a["x"]))),
        Peer("cupy.sum", by_cupy(lambda c, a, y: c.sum(a["x"]))),
    ),
    "max": (
        Peer("CUB", cub("max")),
        Peer("torch.max", by_torch(lambda t, a, y, s: t.max(a["x"]))),
        Peer("cupy.max", by_cupy(lambda c, a, y: c.max(a["x"]))),
    ),
    "argmax": (
        Peer("torch.argmax", by_torch(lambda t, a, y, s: t.argmax(a["x"]))),
        Peer("cupy.argmax", by_cupy(lambda c, a, y: c.argmax(a["x"]))),
    ),
    "cumsum": (
        Peer("CUB", cub("cumsum")),
        Peer("torch.cumsum(out=)", by_torch(lambda t, a, y, s: t.cumsum(a["x"], 0, out=y))),
        Peer("cupy.cumsum(out=)", by_cupy(lambda c, a, y: c.cumsum(a["x"], out=y))),
    ),
    "histogram": (
        Peer("CUB", cub("histogram")),
        Peer("torch.bincount", by_torch(lambda t, a, y, s: t.bincount(a["x"], minlength=256)), is_for=_is_random),
        Peer("cupy.bincount", by_cupy(lambda c, a, y: c.bincount(a["x"], minlength=256)), is_for=_is_random),
    ),
    "transpose": (
        Peer("torch copy_(x.t())", by_torch(lambda t, a, y, s: y.copy_(a["x"].t()))),
        Peer("cupy.copyto(y, x.T)", by_cupy(lambda c, a, y: c.copyto(y, a["x"].T))),
    ),
}  # fmt: skip
