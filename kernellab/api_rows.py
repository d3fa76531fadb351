"""Functions on rows: softmax, normalisations and their fusions; NumPy in, NumPy out; CuPy in, CuPy out."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from kernellab import catalog
from kernellab.api import apply
from kernellab.catalog import gelus
from kernellab.catalog.rows import LONGEST
from kernellab.devices import cuda_arrays
from kernellab.devices import device as find_device
from kernellab.errors import ArgumentError, SpecError, speaking_as
from kernellab.functions import as_given, axis_of
from kernellab.intake import check_output, writable
from kernellab.kernel import Language
from kernellab.measurement import scope

if TYPE_CHECKING:
    from kernellab.devices.program import Device


def softmax(
    x: Any,
    axis: int = -1,
    *,
    out: Any = None,
    language: Language = "cuda-c",
    device: str | Device = "auto",
) -> Any:
    """Return exponentials over their sum along an axis, as `scipy.special.softmax` does.

    Parameters
    ----------
    x : array of float32, float16 or bfloat16
        Of any shape and strides. A slice that holds NaN or inf, or nothing but -inf, gives NaN all over.
    axis : int
        Along which the answer sums to 1.
    out : numpy.ndarray or cupy.ndarray, optional
        Where to put the result; it may be `x`.
    language, device
        As for `apply`.

    Returns
    -------
    numpy.ndarray or cupy.ndarray
        Of the shape and dtype of `x`, computed in float32; or `out`.

    Examples
    --------
    >>> import numpy as np
    >>> import kernellab as kl
    >>> kl.softmax(np.array([[0, 0], [-10000, -10000]], dtype="float32"), device="emulator")
    array([[0.5, 0.5],
           [0.5, 0.5]], dtype=float32)
    """
    return _on_rows("softmax", (x,), (), axis, out, language, device)


def layernorm(
    x: Any,
    weight: Any = None,
    bias: Any = None,
    eps: float = 1e-5,
    *,
    out: Any = None,
    language: Language = "cuda-c",
    device: str | Device = "auto",
) -> Any:
    """Return ``(x - mean) / sqrt(variance + eps) * weight + bias`` along the last axis.

    Parameters
    ----------
    x : array of float32, float16 or bfloat16
        Of any shape and strides. Deviations from the mean must stay under 1e19, or their squares overflow.
    weight, bias : array, optional
        One value a column, of the dtype of `x`; by default 1 and 0.
    eps : float
        Added to the variance, which is that of the whole row (divided by its length).
    out, language, device
        As for `softmax`.

    Returns
    -------
    numpy.ndarray or cupy.ndarray
        Of the shape and dtype of `x`, computed in float32; or `out`.

    Examples
    --------
    >>> import numpy as np
    >>> import kernellab as kl
    >>> kl.layernorm(np.array([[1e6, 1e6 + 2]], dtype="float32"), device="emulator").round(3)
    array([[-1.,  1.]], dtype=float32)
    """
    return _on_rows("layernorm", (x,), (weight, bias), -1, out, language, device, eps=eps)


def rmsnorm(
    x: Any,
    weight: Any = None,
    eps: float = 1e-6,
    *,
    out: Any = None,
    language: Language = "cuda-c",
    device: str | Device = "auto",
) -> Any:
    """Return ``x / sqrt(mean(x ** 2) + eps) * weight`` along the last axis.

    Parameters
    ----------
    x : array of float32, float16 or bfloat16
        Of any shape and strides. Values must stay under 1e19, or their squares overflow.
    weight : array, optional
        One value a column, of the dtype of `x`; by default 1.
    eps : float
        Added to the mean square.
    out, language, device
        As for `softmax`.

    Returns
    -------
    numpy.ndarray or cupy.ndarray
        Of the shape and dtype of `x`, computed in float32; or `out`.

    Examples
    --------
    >>> import numpy as np
    >>> import kernellab as kl
    >>> kl.rmsnorm(np.array([[3, 4, 0, 0]], dtype="float32"), device="emulator").round(3)
    array([[1.2, 1.6, 0. , 0. ]], dtype=float32)
    """
    return _on_rows("rmsnorm", (x,), (weight,), -1, out, language, device, eps=eps)


def layernorm_gelu(
    x: Any,
    weight: Any = None,
    bias: Any = None,
    eps: float = 1e-5,
    *,
    approximate: str = "tanh",
    out: Any = None,
    language: Language = "cuda-c",
    device: str | Device = "auto",
) -> Any:
    """Return GeLU of `layernorm` along the last axis, in one kernel.

    Parameters
    ----------
    x, weight, bias, eps
        As for `layernorm`.
    approximate : {"tanh", "none"}
        The form of GeLU: by tanh, or by erf. They differ by up to 4.7e-4.
    out, language, device
        As for `softmax`.

    Returns
    -------
    numpy.ndarray or cupy.ndarray
        Of the shape and dtype of `x`, computed in float32; or `out`.

    Examples
    --------
    >>> import numpy as np
    >>> import kernellab as kl
    >>> kl.layernorm_gelu(np.array([[0, 2]], dtype="float32"), device="emulator").round(3)
    array([[-0.159,  0.841]], dtype=float32)
    """
    form = gelus.form_of("layernorm_gelu", approximate)
    return _on_rows("layernorm_gelu", (x,), (weight, bias), -1, out, language, device, eps=eps, form=form)


def residual_layernorm(
    x: Any,
    residual: Any,
    weight: Any = None,
    bias: Any = None,
    eps: float = 1e-5,
    *,
    out: Any = None,
    language: Language = "cuda-c",
    device: str | Device = "auto",
) -> Any:
    """Return `layernorm` of ``x + residual`` along the last axis, in one kernel.

    Parameters
    ----------
    x, residual : array of float32, float16 or bfloat16
        Of one shape and dtype; the sum is not rounded to 16 bits.
    weight, bias, eps
        As for `layernorm`.
    out, language, device
        As for `softmax`; `out` may be `residual`, too.

    Returns
    -------
    numpy.ndarray or cupy.ndarray
        Of the shape and dtype of `x`, computed in float32; or `out`.

    Examples
    --------
    >>> import numpy as np
    >>> import kernellab as kl
    >>> x = np.array([[1, 2]], dtype="float32")
    >>> kl.residual_layernorm(x, x, device="emulator").round(3)
    array([[-1.,  1.]], dtype=float32)
    """
    return _on_rows("residual_layernorm", (x, residual), (weight, bias), -1, out, language, device, eps=eps)


def bias_gelu(
    x: Any,
    bias: Any,
    *,
    approximate: str = "tanh",
    out: Any = None,
    language: Language = "cuda-c",
    device: str | Device = "auto",
) -> Any:
    """Return GeLU of ``x + bias``, the bias one value for each place of the last axis.

    Parameters
    ----------
    x : array of float32, float16 or bfloat16
        Of any shape and strides.
    bias : array
        One value a column, of the dtype of `x`.
    approximate : {"tanh", "none"}
        The form of GeLU: by tanh, or by erf. They differ by up to 4.7e-4.
    out, language, device
        As for `softmax`.

    Returns
    -------
    numpy.ndarray or cupy.ndarray
        Of the shape and dtype of `x`, computed in float32; or `out`.

    Examples
    --------
    >>> import numpy as np
    >>> import kernellab as kl
    >>> x = np.array([[-np.inf, 0, np.inf]], dtype="float32")
    >>> kl.bias_gelu(x, np.ones(3, "float32"), approximate="none", device="emulator").round(3)
    array([[-0.   ,  0.841,    inf]], dtype=float32)
    """
    form = gelus.form_of("bias_gelu", approximate)
    if bias is None:
        raise ArgumentError("bias_gelu: bias is None, it must be an array; pass one")
    return _on_rows("bias_gelu", (x,), (bias,), -1, out, language, device, form=form)


def softmax_dropout(
    x: Any,
    p: float = 0.1,
    seed: int = 0,
    axis: int = -1,
    *,
    out: Any = None,
    language: Language = "cuda-c",
    device: str | Device = "auto",
) -> Any:
    """Return `softmax`, each element set to 0 with probability `p` and else divided by ``1 - p``.

    Which are dropped is a function of the seed and of the element's place (with `axis` moved last): the same
    on every device and in both languages (Philox 4x32-10, 16 bits an element).

    Parameters
    ----------
    x : array of float32, float16 or bfloat16
        Of any shape and strides.
    p : float
        From 0 to 1. What is dropped is decided by `p` to the nearest 1/65536, and divided is by ``1 - p`` as
        given: near 1 the mean moves, by 0.7 % at 0.999.
    seed : int
        From 0 to ``2**64 - 1``.
    axis : int
        Along which the softmax sums to 1.
    out, language, device
        As for `softmax`.

    Returns
    -------
    numpy.ndarray or cupy.ndarray
        Of the shape and dtype of `x`, computed in float32; or `out`.

    Examples
    --------
    >>> import numpy as np
    >>> import kernellab as kl
    >>> kl.softmax_dropout(np.zeros((1, 8), "float32"), p=0.5, seed=1, device="emulator")
    array([[0.  , 0.25, 0.  , 0.25, 0.  , 0.25, 0.25, 0.25]], dtype=float32)
    """
    return _on_rows("softmax_dropout", (x,), (), axis, out, language, device, p=p, seed=seed)


Table: TypeAlias = tuple[tuple[float, str], ...]
ALWAYS: Table = ((math.inf, "registers"),)
SPLIT: Table = ((LONGEST, "registers"), (math.inf, "split"))
STAYING: Table = ((8192, "registers"), (LONGEST, "pipelined"), *ALWAYS)
STAYING_LATE: Table = ((LONGEST // 2, "registers"), (LONGEST, "pipelined"), (math.inf, "split"))
VECTORISED: Table = ((math.inf, "vectorised"),)
RUNGS: Mapping[str, tuple[Table, Table]] = {
    "softmax": (SPLIT, STAYING_LATE),
    "layernorm": (SPLIT, STAYING_LATE),
    "rmsnorm": (SPLIT, SPLIT),
    "layernorm_gelu": (STAYING, STAYING),
    "residual_layernorm": (ALWAYS, ALWAYS),
    "softmax_dropout": (STAYING, STAYING),
    "bias_gelu": (VECTORISED, VECTORISED),
}
"""By problem, for float32 and for 16-bit elements: up to how many columns which rung is the best."""


def rung_for(problem: str, columns: int, itemsize: int = 4, language: Language = "cuda-c") -> str:
    """Return the id of the rung that suits rows of so many columns, of elements of so many bytes.

    Where it has no Numba twin, Numba takes the next that has one.

    Examples
    --------
    >>> rung_for("softmax", 1024), rung_for("softmax", 32768, 2), rung_for("softmax", 131072)
    ('softmax/registers', 'softmax/pipelined', 'softmax/split')
    """
    fitting = (f"{problem}/{rung}" for most, rung in RUNGS[problem][itemsize == 2] if columns <= most)
    return next(rung for rung in fitting if language == "cuda-c" or catalog.kernel(rung).has_twin)


def _on_rows(
    problem: str,
    arrays: tuple[Any, ...],
    weights: tuple[Any, ...],
    axis: int,
    out: Any,
    language: Language,
    device: str | Device,
    **parameters: Any,
) -> Any:
    """Apply a problem on rows along one axis of arrays of any shape."""
    place = find_device(device)
    x, *others = (
        as_given(item, f"{problem}: {name}", place)
        for item, name in zip(arrays, ("x", "residual"), strict=False)
    )
    along = axis_of(axis, x.ndim, problem)
    order = (*(each for each in range(x.ndim) if each != along), along)
    shape = tuple(x.shape[each] for each in order)
    for other in others:
        if other.shape != x.shape:
            raise SpecError(
                f"{problem}: residual has shape {other.shape}, it must be {x.shape} like x; make them agree"
            )
    columns = shape[-1]
    kernel = rung_for(problem, columns, np.dtype(x.dtype).itemsize, language)
    names = [operand.name for operand in catalog.kernel(kernel).inputs[len(arrays) :]]
    with scope(place, (x,), problem):
        flat = [_flat(item, order, columns) for item in (x, *others)]
        per_column = [
            _default(index, columns, x) if item is None else as_given(item, f"{problem}: {name}", place)
            for index, (item, name) in enumerate(zip(weights, names, strict=True))
        ]
    target = None if out is None else writable(out, problem, place)
    if target is not None:
        check_output(target, problem, np.dtype(x.dtype), x.shape)
    with speaking_as(problem):
        answer = apply(kernel, *flat, *per_column, language=language, device=place, **parameters)
    with scope(place, (x,), problem):
        turned = answer.reshape(shape).transpose(tuple(int(each) for each in np.argsort(order)))
        if target is None:
            return turned if turned.flags.c_contiguous else turned.copy(order="C")
        cuda_arrays.assign(target, turned)
    return out


def _flat(array: Any, order: tuple[int, ...], columns: int) -> Any:
    """Return the array as a matrix whose rows lie along the last axis of `order`."""
    others = math.prod(array.shape[each] for each in order[:-1])
    return array.transpose(order).reshape(others, columns)


def _default(index: int, columns: int, like: Any) -> Any:
    """Return a weight of ones (the first) or a bias of zeros, where `like` lives."""
    made = np.full(columns, 0 if index else 1, dtype=like.dtype)
    if not cuda_arrays.is_on_gpu(like):
        return made
    import cupy

    return cupy.asarray(made)
