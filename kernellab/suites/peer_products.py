"""Peers of the products of matrices: cuBLAS, cuBLASLt's epilogue, and chains of cuBLAS and kernels after it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from kernellab import catalog
from kernellab.arrays import ArraySpec
from kernellab.kernel import Kernel
from kernellab.plan import bind
from kernellab.problem import dtype_named
from kernellab.suites.arena import Arena
from kernellab.suites.peer_works import Make, Peer, Setting, tensor, tensors
from kernellab.suites.product_arena import is_turned

CUBLAS, EPILOGUE = "cuBLAS", "cuBLASLt epilogue"
CHAINS = {"cuBLAS + one kernel": "vectorised", "cuBLAS + two kernels": "unfused"}
"""Our chains, by the rung of bias_gelu that follows the product."""
LOOSE = 64.0
"""Times our own limit that the epilogue may miss, whose tanh is an approximation."""

Multiply: TypeAlias = Callable[[Setting, bool, Any], Callable[[], Any]]
"""``multiply(setting, is_turned, out) -> call``, which writes the product into `out`."""


def strict_torch(setting: Setting) -> tuple[Any, dict[str, Any], Any]:
    """Return PyTorch, which multiplies float32 as float32, inputs and output as tensors."""
    found = tensors(setting)
    found[0].backends.cuda.matmul.allow_tf32 = False
    return found


def by_torch(setting: Setting, is_turned: bool, out: Any) -> Callable[[], Any]:
    """Multiply by cuBLAS through PyTorch."""
    torch, given, _ = strict_torch(setting)
    a, b = given["a"], given["b"].t() if is_turned else given["b"]
    written = tensor(torch, out, setting.element)

    def call() -> None:
        torch.mm(a, b, out=written)

    return call


def by_cupy(setting: Setting, is_turned: bool, out: Any) -> Callable[[], Any]:
    """Multiply by cuBLAS through CuPy, which has no bfloat16 of its own."""
    a, b, xp = setting.inputs["a"], setting.inputs["b"], setting.xp
    b = b.T if is_turned else b

    def call() -> None:
        xp.matmul(a, b, out=out)

    return call


LIBRARIES: dict[str, Multiply] = {"PyTorch": by_torch, "CuPy": by_cupy}


def peers_of(arena: Arena) -> tuple[Peer, ...]:
    """Return who takes part in an arena of products."""
    turned = is_turned(arena.problem)
    if "bias" not in arena.specs:
        return tuple(
            Peer(f"{CUBLAS} by {name}", _plain(multiply, turned), CUBLAS, is_for=_known_to(name), slack=4.0)
            for name, multiply in LIBRARIES.items()
        )
    ours = tuple(
        Peer(f"{title} by {name}", _chain(arena, kernel, multiply), title, is_for=_known_to(name))
        for title, rung in CHAINS.items()
        for kernel in (catalog.kernel(f"bias_gelu/{rung}"),)
        for name, multiply in LIBRARIES.items()
    )
    return (
        Peer(EPILOGUE, _in_torch(turned, _epilogue), slack=LOOSE),
        Peer("addmm, F.gelu", _in_torch(turned, _addmm)),
        Peer("mm, + bias, F.gelu", _in_torch(turned, _three)),
        *ours,
    )


def _known_to(library: str) -> Callable[[Arena], bool]:
    return lambda arena: library != "CuPy" or arena.element != "bfloat16"


def _plain(multiply: Multiply, turned: bool) -> Make:
    return lambda setting: multiply(setting, turned, setting.out)


def _in_torch(turned: bool, use: Callable[..., Any]) -> Make:
    """Return what makes ``use(torch, a, b, bias)``, with tensors."""

    def make(setting: Setting) -> Callable[[], Any]:
        torch, given, _ = strict_torch(setting)
        a, b, bias = given["a"], given["b"].t() if turned else given["b"], given["bias"]
        return lambda: use(torch, a, b, bias)

    return make


def _epilogue(torch: Any, a: Any, b: Any, bias: Any) -> Any:
    return torch._addmm_activation(bias, a, b, use_gelu=True)


def _addmm(torch: Any, a: Any, b: Any, bias: Any) -> Any:
    return torch.nn.functional.gelu(torch.addmm(bias, a, b), approximate="tanh")


def _three(torch: Any, a: Any, b: Any, bias: Any) -> Any:
    return torch.nn.functional.gelu(torch.mm(a, b) + bias, approximate="tanh")


def _chain(arena: Arena, kernel: Kernel, multiply: Multiply) -> Make:
    """Return what makes the product by a library, then the launches of one of our kernels."""

    def make(setting: Setting) -> Callable[[], Any]:
        device, turned = arena.bench.device, is_turned(arena.problem)
        spec = ArraySpec((setting.sizes["m"], setting.sizes["n"]), dtype_named(setting.element))
        form = int(setting.parameters["form"])
        inputs = {"x": spec, "bias": arena.specs["bias"]}
        plan = bind(kernel, inputs, limits=device.limits, form=form)
        between = device.empty(spec)
        buffers = {"x": between, "bias": setting.inputs["bias"], "y": setting.out}
        buffers |= {name: device.empty(each) for name, each in plan.temporaries.items()}
        product = multiply(setting, turned, between)
        calls = (product, *device.calls(device.build(plan.kernel, "cuda-c"), plan, buffers))

        def call() -> None:
            for each in calls:
                each()

        return call

    return make


__all__ = ["CHAINS", "CUBLAS", "EPILOGUE", "LIBRARIES", "peers_of"]
