"""Peers of the problems on rows: PyTorch's functions, what it compiles, and kernels in Triton."""

from __future__ import annotations

import functools
import importlib.util
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from kernellab.errors import UnavailableError
from kernellab.suites.arena import Arena
from kernellab.suites.peer_flat import by_torch
from kernellab.suites.peer_works import Make, Peer, Setting, tensors

SOURCE = Path(__file__).parents[2] / "benchmarks" / "peers" / "triton_rows.py"
WARPS = (4, 8, 16, 32)
SHORT = 1024
"""The row length up to which the fewest warps are the fastest."""
MOST_VALUES = 64
"""Values of a row that a thread may hold: with more, Triton's compiler takes minutes and spills."""
COMPILED = 8192
"""The one row length for which torch.compile is asked, as it takes seconds for each."""


@functools.cache
def triton_rows() -> Any:
    """Return the module with kernels in Triton.

    Raises
    ------
    ImportError
        Without Triton.
    UnavailableError
        Outside a checkout.
    """
    if not SOURCE.is_file():
        raise UnavailableError(f"{SOURCE} is in a checkout of kernellab only; run there")
    spec = importlib.util.spec_from_file_location("kernellab_triton_rows", SOURCE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # where Triton looks for a kernel's source
    spec.loader.exec_module(module)
    return module


def warps_for(columns: int) -> tuple[int, ...]:
    """Return which numbers of warps a row's length is swept over: those that may be the fastest.

    Examples
    --------
    >>> warps_for(64), warps_for(8192), warps_for(32768), warps_for(131072)
    ((4,), (8, 16, 32), (16, 32), (32,))
    """
    held = 1 << (columns - 1).bit_length()
    if held <= SHORT:
        return WARPS[:1]
    return tuple(each for each in WARPS[1:] if held <= 32 * each * MOST_VALUES) or WARPS[-1:]


def triton(problem: str, warps: int) -> Make:
    """Return what makes a launch of a kernel in Triton, with so many warps a row."""

    def make(setting: Setting) -> Callable[[], Any]:
        _, given, y = tensors(setting)
        rows, columns = setting.sizes["rows"], setting.sizes["columns"]
        eps = float(setting.parameters.get("eps", 0.0))
        kernel, values, constants = triton_rows().arguments(problem, given, y, columns, eps)

        def call() -> None:
            kernel[(rows,)](*values, num_warps=warps, **constants)

        return call

    return make


def warm_triton(job: tuple[str, str, int, int]) -> bool:
    """Compile a kernel in Triton into its cache, for a problem, element, row length and number of warps.

    What fails, fails later: say whether it went well.
    """
    problem, element, columns, warps = job
    try:
        import torch

        rows, dtype = triton_rows(), getattr(torch, element)
        given = dict.fromkeys(("x", "residual", "weight", "bias"), dtype)
        kernel, values, constants = rows.arguments(problem, given, dtype, columns, 1e-5)
        kernel.warmup(*values, num_warps=warps, grid=(1,), **constants)
    except Exception:  # Triton may raise anything
        return False
    return True


def _norm(torch: Any, a: Mapping[str, Any], x: Any, setting: Setting) -> Any:
    shape, eps = (setting.sizes["columns"],), float(setting.parameters["eps"])
    return torch.nn.functional.layer_norm(x, shape, a["weight"], a["bias"], eps)


def _rms(torch: Any, a: Mapping[str, Any], y: Any, setting: Setting) -> Any:
    shape, eps = (setting.sizes["columns"],), float(setting.parameters["eps"])
    return torch.nn.functional.rms_norm(a["x"], shape, a["weight"], eps)


def _gelu(torch: Any, x: Any) -> Any:
    return torch.nn.functional.gelu(x, approximate="tanh")


def compiled(setting: Setting) -> Callable[[], Any]:
    """Layernorm and GeLU as torch.compile fuses them."""
    torch, given, _ = tensors(setting)
    shape, eps = (setting.sizes["columns"],), float(setting.parameters["eps"])
    weight, bias, functional = given["weight"], given["bias"], torch.nn.functional

    def norm_gelu(x: Any) -> Any:
        return functional.gelu(functional.layer_norm(x, shape, weight, bias, eps), approximate="tanh")

    fused = torch.compile(norm_gelu, dynamic=False)
    return lambda: fused(given["x"])


def _dropout(torch: Any, a: Mapping[str, Any], y: Any, setting: Setting) -> Any:
    kept = torch.softmax(a["x"], -1)
    return torch.nn.functional.dropout(kept, float(setting.parameters["p"]))


TORCH: Mapping[str, tuple[Peer, ...]] = {
    "softmax": (Peer("torch.softmax", by_torch(lambda t, a, y, s: t.softmax(a["x"], -1))),),
    "layernorm": (Peer("F.layer_norm", by_torch(lambda t, a, y, s: _norm(t, a, a["x"], s))),),
    "rmsnorm": (Peer("F.rms_norm", by_torch(_rms)),),
    "residual_layernorm": (
        Peer("x + r, F.layer_norm", by_torch(lambda t, a, y, s: _norm(t, a, a["x"] + a["residual"], s))),
    ),
    "layernorm_gelu": (
        Peer("F.layer_norm, F.gelu", by_torch(lambda t, a, y, s: _gelu(t, _norm(t, a, a["x"], s)))),
        Peer("torch.compile", compiled, is_for=lambda arena: arena.sizes["columns"] == COMPILED),
    ),
    "bias_gelu": (Peer("x + b, F.gelu", by_torch(lambda t, a, y, s: _gelu(t, a["x"] + a["bias"]))),),
    "softmax_dropout": (Peer("softmax, F.dropout", by_torch(_dropout), is_random=True),),
}
IN_TRITON = ("softmax", "layernorm", "layernorm_gelu", "rmsnorm", "residual_layernorm")


def peers_of(arena: Arena) -> tuple[Peer, ...]:
    """Return who takes part in an arena of rows."""
    problem = arena.problem.name
    if problem not in IN_TRITON:
        return TORCH[problem]
    warps = warps_for(arena.sizes["columns"])
    return (
        *TORCH[problem],
        *(Peer(f"Triton, {each} warps", triton(problem, each), "Triton") for each in warps),
    )


__all__ = ["IN_TRITON", "TORCH", "peers_of", "triton", "triton_rows", "warm_triton", "warps_for"]
