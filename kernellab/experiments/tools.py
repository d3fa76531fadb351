"""Fusing tools as users call them, on a GPU: answer, shape and dtype compared with the chain, then timed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kernellab.catalog import kernel
from kernellab.errors import MismatchError
from kernellab.experiments import generated
from kernellab.experiments.experiment import HELD, REFUTED, Point
from kernellab.problem import Case

if TYPE_CHECKING:
    from kernellab.experiments.clocked import GpuClock

Make = Callable[[Any, Mapping[str, Any]], Callable[[], Any]]
"""``make(cupy, arrays) -> call`` of the inputs by name; the call returns its answer."""
VECTORS = Point("by hand", kernel("triad/vectorised"), Case("2**25 elements", {"n": 2**25}), head=2**20)
MATRIX = Point(
    "by hand",
    kernel("bias_gelu/vectorised"),
    Case("16384 x 8192", {"rows": 16384, "columns": 8192}),
    head=256,
)
SUM = Point("by hand", kernel("sum/vectorised"), Case("2**26 ones", {"n": 2**26}, contents="ones"))
SLOPE, CUBIC = 1.5957691216057308, 0.044715


@dataclass(frozen=True)
class Tool:
    """A tool, and the kernel by hand that does the same.

    Attributes
    ----------
    name : str
        As its users call it.
    point : Point
        The kernel by hand and its sizes.
    chain, make : callable
        Operation by operation, and by the tool: see `Make`.
    """

    name: str
    point: Point
    chain: Make
    make: Make

    def timed(self, clock: GpuClock) -> tuple[str, str]:
        """Compare kind and answer with the chain's, then time beside the kernel by hand."""
        found = clock.beside(self.point, self.name, self.make, self.chain)
        verdict = HELD if found.low > 1 and found.value > 1.01 else REFUTED
        return verdict, f"{self.point.case.name}: {found}"


def alike(name: str, got: Any, wanted: Any) -> None:
    """Refuse an answer of another kind: a fused function may broadcast its outputs, or widen them.

    Raises
    ------
    MismatchError
        If the number of outputs, a shape or a dtype differs.

    Examples
    --------
    >>> import numpy as np
    >>> alike("fused", np.zeros(3, "float64"), np.zeros(3, "float32"))
    Traceback (most recent call last):
    kernellab.errors.MismatchError: fused: output 0 is float64 of shape (3,), the chain's is float32 of ...
    """
    one, other = (each if isinstance(each, tuple) else (each,) for each in (got, wanted))
    if len(one) != len(other):
        raise MismatchError(f"{name}: it has {len(one)} outputs, the chain has {len(other)}")
    for index, (a, b) in enumerate(zip(one, other, strict=True)):
        if a.shape != b.shape or a.dtype != b.dtype:
            text = (
                f"output {index} is {a.dtype} of shape {a.shape}, the chain's is {b.dtype} of shape {b.shape}"
            )
            raise MismatchError(f"{name}: {text}; it is not timed")


def _unfused(cupy: Any, at: Mapping[str, Any]) -> Callable[[], Any]:
    return lambda: generated.triad(at["a"], at["b"], at["c"])


def _elementwise(cupy: Any, at: Mapping[str, Any]) -> Callable[[], Any]:
    run = cupy.ElementwiseKernel("T a, T b, T c", "T y", "y = a * b + c", "kernellab_elementwise")
    return lambda: run(at["a"], at["b"], at["c"])


def _fuse(cupy: Any, at: Mapping[str, Any]) -> Callable[[], Any]:
    run = cupy.fuse(generated.triad)
    return lambda: run(at["a"], at["b"], at["c"])


def _jit(cupy: Any, at: Mapping[str, Any]) -> Callable[[], Any]:
    import warnings

    from cupyx import jit

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # it is marked experimental
        run = jit.rawkernel()(generated.jit_function())
    a, y = at["a"], cupy.empty_like(at["a"])
    blocks = -(-a.size // 128)

    def call() -> Any:
        run[blocks, 128](a, at["b"], at["c"], y, cupy.int32(a.size))
        return y

    return call


def _vectorize(cupy: Any, at: Mapping[str, Any]) -> Callable[[], Any]:
    from numba import cuda, vectorize

    run = vectorize(["float32(float32, float32, float32)"], target="cuda")(generated.triad)
    y = cupy.empty_like(at["a"])
    out = cuda.as_cuda_array(y, sync=False)
    arrays = [cuda.as_cuda_array(at[name], sync=False) for name in "abc"]
    pointer = cupy.cuda.get_current_stream().ptr
    stream = cuda.external_stream(pointer) if pointer else 0

    def call() -> Any:
        run(*arrays, out=out, stream=stream)
        return y

    return call


def gelu_of_sum(x: Any, bias: Any) -> Any:
    """Return GeLU of x + bias in the form with tanh, operation by operation."""
    h = x + bias
    return h / (1 + _exp(h * (-SLOPE * (1 + CUBIC * h * h))))


def _exp(value: Any) -> Any:
    import cupy

    return cupy.exp(value)


def _gelu_unfused(cupy: Any, at: Mapping[str, Any]) -> Callable[[], Any]:
    return lambda: gelu_of_sum(at["x"], at["bias"])


def _gelu_fused(cupy: Any, at: Mapping[str, Any]) -> Callable[[], Any]:
    run = cupy.fuse(gelu_of_sum)
    return lambda: run(at["x"], at["bias"])


def _sum_unfused(cupy: Any, at: Mapping[str, Any]) -> Callable[[], Any]:
    return lambda: cupy.sum(at["x"])


def _reduction(cupy: Any, at: Mapping[str, Any]) -> Callable[[], Any]:
    run = cupy.ReductionKernel("T x", "T y", "x", "a + b", "y = a", "0", "kernellab_reduction")
    return lambda: run(at["x"])


TOOLS = (
    Tool("cupy.ElementwiseKernel, a * b + c", VECTORS, _unfused, _elementwise),
    Tool("cupy.fuse, a * b + c", VECTORS, _unfused, _fuse),
    Tool("cupyx.jit.rawkernel, a * b + c", VECTORS, _unfused, _jit),
    Tool("numba.vectorize, a * b + c", VECTORS, _unfused, _vectorize),
    Tool("CuPy operation by operation, a * b + c", VECTORS, _unfused, _unfused),
    Tool("cupy.fuse, GeLU of x + bias", MATRIX, _gelu_unfused, _gelu_fused),
    Tool("CuPy operation by operation, GeLU of x + bias", MATRIX, _gelu_unfused, _gelu_unfused),
    Tool("cupy.ReductionKernel, sum", SUM, _sum_unfused, _reduction),
)


def two_answers(x: Any, y: Any) -> Any:
    """Return two outputs of different shapes, one of them of a product with a Python number."""
    return x + y, y * 2.5


def keeps_kind(clock: GpuClock) -> tuple[str, str]:
    """Held if the fused function's outputs are of the chain's shapes and dtypes."""
    cupy = clock.device.cupy
    x, y = cupy.ones((2, 2, 2), "float32"), cupy.ones((2, 2), "float32")
    wanted = two_answers(x, y)
    try:
        alike("cupy.fuse", cupy.fuse(two_answers)(x, y), wanted)
    except MismatchError as error:
        return REFUTED, str(error)
    return HELD, ", ".join(f"{each.dtype} {each.shape}" for each in wanted)
