"""CUDA C that CuPy's own fusing tools generate, caught without a driver, and made a kernel of the catalogue's kind.

CuPy writes this text while it launches. The functions that do it are its private ones: where a release moves
them, `sources` says so and nothing else breaks.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from kernellab.errors import UnavailableError

NDARRAY, INDEXER = 1, 2
"""Kinds of argument, as CuPy numbers them."""
_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*["<](cupy/[^">]+)[">].*$', re.MULTILINE)
_ENTRY = re.compile(r'extern "C" __global__ void (\w+)\(')


def triad(a: Any, b: Any, c: Any) -> Any:
    """Return what is fused, as a user of NumPy or CuPy writes it: two operations, with an array between them."""
    return a * b + c


@cache
def sources() -> Mapping[str, str]:
    """Return CUDA C by entry, all of them on float32 vectors.

    `triad` by each tool: ``elementwise`` (ElementwiseKernel), ``fuse`` and ``jit``; and ``chain_multiply`` and
    ``chain_add``, what is launched where nobody fuses.

    Raises
    ------
    UnavailableError
        If CuPy is not here, finds no folder for its cache, or keeps what generates it elsewhere.
    """
    try:
        return {
            "chain_multiply": _elementwise("chain_multiply", "ab", "y = a * b"),
            "chain_add": _elementwise("chain_add", "ab", "y = a + b"),
            "elementwise": _elementwise("elementwise", "abc", "y = a * b + c"),
            "fuse": _fused(),
            "jit": _transpiled(),
        }
    except OSError as error:  # CuPy makes its cache's folder when it is imported
        raise UnavailableError(
            f"auto-fusion: CuPy cannot be imported ({error}); set CUPY_CACHE_DIR to a folder that can be written"
        ) from error
    except (ImportError, AttributeError, TypeError, ValueError, RuntimeError) as error:
        raise UnavailableError(
            f"auto-fusion: CuPy's generated source is not to be had here ({error!r}); "
            "install the extra cuda13 or cuda12 with CuPy 14"
        ) from error


def _elementwise(name: str, inputs: str, operation: str) -> str:
    import cupy

    parameters = ", ".join(f"float32 {each}" for each in inputs)
    return _code(cupy.ElementwiseKernel(parameters, "float32 y", operation, name))


def _fused() -> str:
    """Trace the function as ``cupy.fuse`` does, on arrays that own no memory."""
    import cupy
    from cupy._core import _fusion_thread_local, fusion

    nowhere = cupy.cuda.MemoryPointer(cupy.cuda.UnownedMemory(4096, 4096, None, 0), 0)
    arrays = tuple(cupy.ndarray((32,), "float32", memptr=nowhere) for _ in range(3))
    state = _fusion_thread_local.thread_local
    state.history, state.is_old_fusing = fusion._FusionHistory(), True
    try:
        kernel, _ = state.history.get_fusion(triad, arrays, "fuse")
    finally:
        state.history, state.is_old_fusing = None, False
    dtype = kernel.out_params[0].dtype
    if dtype != "float32":
        raise ValueError(f"the fused answer is {dtype}, the chain's is float32")
    return _code(kernel)


def _code(kernel: Any) -> str:
    """Return the source of an ElementwiseKernel for contiguous vectors with indices of 32 bits."""
    import cupy
    from cupy._core import _carray, _kernel

    infos = tuple(
        _kernel._ArgInfo(INDEXER, _carray.Indexer, None, 1, True, True)
        if item.name == "_ind"
        else _kernel._ArgInfo(NDARRAY, cupy.ndarray, item.dtype.type, 1, True, True)
        for item in kernel.params
    )
    types = _kernel._TypeMap(())
    code: str = _kernel._get_elementwise_kernel_code(
        infos, types, kernel.params, kernel.operation, kernel.name, kernel.preamble
    )
    return code


def _transpiled() -> str:
    """Transpile a function as ``cupyx.jit.rawkernel`` does."""
    import numpy as np
    from cupyx.jit import _compile, _cuda_types

    vector = _cuda_types.CArray(np.dtype("float32"), 1, True, True)
    count = _cuda_types.Scalar(np.dtype("int32"))
    types = (vector, vector, vector, vector, count)
    found = _compile.transpile(jit_function(), ['extern "C"', "__global__"], "cuda", types, _cuda_types.void)
    code: str = found.code
    return code


def jit_function() -> Callable[..., None]:
    """Return the function that ``cupyx.jit.rawkernel`` is given: a thread an element."""
    from cupyx import jit

    def triad_jit(a, b, c, y, n):  # type: ignore[no-untyped-def]
        i = jit.blockIdx.x * jit.blockDim.x + jit.threadIdx.x
        if i < n:
            y[i] = a[i] * b[i] + c[i]

    return triad_jit


def write(folder: Path) -> None:
    """Write ``chain.cu``, ``elementwise.cu``, ``fuse.cu`` and ``jit.cu``: generated text whole, entries added.

    CuPy passes its arrays by value, as a pointer with sizes and strides; an entry makes them from pointers and
    a length, which moves nothing in memory.
    """
    made = sources()
    files: dict[str, dict[str, tuple[str, ...]]] = {
        "chain": {"chain_multiply": ("a", "b", "h"), "chain_add": ("h", "c", "y")},
        **{tool: {tool: ("a", "b", "c", "y")} for tool in ("elementwise", "fuse", "jit")},
    }
    for name, entries in files.items():
        parts = [wrapped(entry, made[entry], arguments) for entry, arguments in entries.items()]
        title = f"// triad/{name}: what CuPy generates for a * b + c, with entries that take pointers.\n"
        text = title + flattened('#include "cupy/carray.cuh"\n' + "".join(parts))
        try:
            _write(folder / f"{name}.cu", text)
        except OSError as error:
            raise UnavailableError(
                f"auto-fusion: {folder} cannot be written: {error.strerror}; set KERNELLAB_CACHE_DIR"
            ) from error


def _write(path: Path, text: str) -> None:
    if path.exists() and path.read_text(encoding="utf-8") == text:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_suffix(f".{os.getpid()}")  # another process may be reading
    fresh.write_text(text, encoding="utf-8")
    os.replace(fresh, path)


def wrapped(entry: str, code: str, arguments: tuple[str, ...]) -> str:
    """Return generated code as a device function, and a kernel ``triad_<entry>(*arguments, n)`` round it.

    Examples
    --------
    >>> text = wrapped("jit", 'extern "C" __global__ void f(A x, A y, int n) {}', ("x", "y"))
    >>> [line for line in text.splitlines() if "void" in line]  # doctest: +NORMALIZE_WHITESPACE
    ['__device__ __forceinline__ void f(A x, A y, int n) {}',
     'extern "C" __global__ void triad_jit(float* __restrict__ x, float* __restrict__ y, long long n) {']
    """
    body = _ENTRY.sub(r"__device__ __forceinline__ void \1(", code)
    (name,) = _ENTRY.findall(code)
    last = "static_cast<int>(n)" if entry == "jit" else "CIndexer<1, true>(shape)"
    pointers = "".join(f"float* __restrict__ {each}, " for each in arguments)
    arrays = "".join(f"    CArray<float, 1, true, true> {each}_array({each}, shape);\n" for each in arguments)
    given = "".join(f"{each}_array, " for each in arguments)
    return f"""{body}
extern "C" __global__ void triad_{entry}({pointers}long long n) {{
    const ptrdiff_t shape[1] = {{static_cast<ptrdiff_t>(n)}};
{arrays}    {name}({given}{last});
}}
"""


def flattened(text: str) -> str:
    """Return a text with CuPy's own headers in place of their includes, each once."""
    from importlib import util

    spec = util.find_spec("cupy")
    folder = Path(spec.origin if spec is not None and spec.origin else "cupy").parent / "_core" / "include"
    seen: set[str] = set()

    def paste(match: re.Match[str]) -> str:
        name = match[1]
        if name in seen:
            return ""
        seen.add(name)
        return _INCLUDE.sub(paste, (folder / name).read_text(encoding="utf-8"))

    return _INCLUDE.sub(paste, text)
