"""Gradients of layers, without autograd: NumPy in, NumPy out; CuPy in, CuPy out."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from kernellab.api import apply
from kernellab.catalog import gelus
from kernellab.devices import cuda_arrays
from kernellab.devices import device as find_device
from kernellab.errors import ArgumentError, SpecError, speaking_as
from kernellab.functions import as_given
from kernellab.intake import contiguous, flat
from kernellab.kernel import Language
from kernellab.measurement import scope

if TYPE_CHECKING:
    from kernellab.devices.program import Device


def softmax_cross_entropy(
    x: Any,
    labels: Any,
    bias: Any = None,
    *,
    scale: float = 1.0,
    language: Language = "cuda-c",
    device: str | Device = "auto",
) -> tuple[Any, Any]:
    """Return the cross entropy of each row of logits, and its gradient, in one kernel.

    Parameters
    ----------
    x : array of float32, float16 or bfloat16, shape (..., classes)
        Logits, of any strides.
    labels : array of integers, shape (...)
        Which class each row is of. NumPy arrays are looked at; on a GPU a label that is no class gives NaN.
    bias : array of the dtype of `x`, shape (classes,), optional
        Added to each row of logits.
    scale : float
        What the gradient is multiplied by: 1 over the number of rows for that of a mean, times the loss scale
        where gradients would vanish in 16 bits.
    language, device
        As for `apply`.

    Returns
    -------
    loss : numpy.ndarray or cupy.ndarray of float32, shape (...)
        ``-log(softmax(x + bias)[label])``, not scaled; finite where the probability would be 0.
    dx : numpy.ndarray or cupy.ndarray
        ``scale * (softmax(x + bias) - one_hot(label))``, of the shape and dtype of `x`: the gradient of the
        loss by `x`; that by `bias` is its sum over rows.

    Raises
    ------
    ArgumentError, SpecError
        For labels that are no integers or no classes, and shapes that do not fit.

    Examples
    --------
    >>> import numpy as np
    >>> import kernellab as kl
    >>> loss, dx = kl.softmax_cross_entropy(np.zeros((2, 4), "float32"), [1, 3], device="emulator")
    >>> loss.round(4), dx[0]
    (array([1.3863, 1.3863], dtype=float32), array([ 0.25, -0.75,  0.25,  0.25], dtype=float32))
    """
    place, who = find_device(device), "softmax_cross_entropy"
    array = as_given(x, f"{who}: x", place)
    if not array.ndim:
        raise SpecError(f"{who}: x is a single number, it must have an axis of classes; give an array")
    classes = array.shape[-1]
    with scope(place, (array,), who):
        matrix = flat(array, f"{who}: x", place).reshape(math.prod(array.shape[:-1]), classes)
        picked = _labels(labels, array.shape[:-1], who, place)
        added = _empty(array, place) if bias is None else _per_column(bias, classes, f"{who}: bias", place)
    with speaking_as(who):
        kernel = "softmax_cross_entropy/registers"
        dx, loss = apply(kernel, matrix, picked, added, scale=scale, language=language, device=place)
    return loss.reshape(array.shape[:-1]), dx.reshape(array.shape)


def bias_gelu_backward(
    dy: Any,
    x: Any,
    bias: Any,
    *,
    approximate: str = "tanh",
    language: Language = "cuda-c",
    device: str | Device = "auto",
) -> tuple[Any, Any]:
    """Return the gradients of `bias_gelu` by `x` and by the bias, in one kernel.

    Parameters
    ----------
    dy : array of float32, float16 or bfloat16
        The gradient by what `bias_gelu` returned, of the shape and dtype of `x`.
    x, bias, approximate
        What `bias_gelu` was given.
    language, device
        As for `apply`.

    Returns
    -------
    dx : numpy.ndarray or cupy.ndarray
        ``dy * gelu'(x + bias)``, of the shape and dtype of `x`.
    dbias : numpy.ndarray or cupy.ndarray
        Its sum over all axes but the last, added up in float32 before anything is rounded; the same bits in every
        run on one kind of device.

    Raises
    ------
    ArgumentError, SpecError
        For dtypes and shapes that do not fit.

    Examples
    --------
    >>> import numpy as np
    >>> import kernellab as kl
    >>> x, ones = np.array([[0, -np.inf], [0, np.inf]], "float32"), np.ones((2, 2), "float32")
    >>> dx, dbias = kl.bias_gelu_backward(ones, x, np.zeros(2, "float32"), device="emulator")
    >>> dx, dbias
    (array([[0.5, 0. ],
           [0.5, 1. ]], dtype=float32), array([1., 1.], dtype=float32))
    """
    place, who = find_device(device), "bias_gelu_backward"
    form = gelus.form_of(who, approximate)
    if bias is None:
        raise ArgumentError(f"{who}: bias is None, it must be an array; pass one")
    array, passed = (as_given(item, f"{who}: {name}", place) for item, name in ((x, "x"), (dy, "dy")))
    if not array.ndim:
        raise SpecError(f"{who}: x is a single number, it must have an axis of columns; give an array")
    if passed.shape != array.shape:
        raise SpecError(
            f"{who}: dy has shape {passed.shape}, it must be {array.shape} like x; make them agree"
        )
    columns = array.shape[-1]
    with scope(place, (array,), who):
        rows = math.prod(array.shape[:-1])
        matrices = [flat(item, f"{who}: {name}", place) for item, name in ((passed, "dy"), (array, "x"))]
        flattened = [matrix.reshape(rows, columns) for matrix in matrices]
        added = _per_column(bias, columns, f"{who}: bias", place)
    with speaking_as(who):
        kernel = "bias_gelu_backward/fused"
        dx, dbias = apply(kernel, *flattened, added, form=form, language=language, device=place)
    return dx.reshape(array.shape), dbias


def _per_column(given: Any, columns: int, who: str, place: Device) -> Any:
    array = as_given(given, who, place)
    if array.shape != (columns,):
        rule = f"it must be {(columns,)}, one value a column of x"
        raise SpecError(f"{who} has shape {array.shape}, {rule}; make them agree")
    return contiguous(array, who, place)[0]


def _labels(given: Any, shape: tuple[int, ...], who: str, place: Device) -> Any:
    """Return labels as int64, a flat array."""
    labels = as_given(given, f"{who}: labels", place)
    is_whole = labels.dtype != np.bool_ and np.can_cast(labels.dtype, np.int64, "safe")
    if not is_whole and labels.size:
        raise ArgumentError(
            f"{who}: labels have dtype {labels.dtype}, they must be integers that fit int64; convert them"
        )
    if labels.shape != shape:
        rule = f"it must be {shape}, one for each row of x"
        raise SpecError(f"{who}: labels has shape {labels.shape}, {rule}; make them agree")
    return flat(labels, f"{who}: labels", place).reshape(-1).astype(np.int64, copy=False)


def _empty(like: Any, place: Any) -> Any:
    """Return an array of no elements of the dtype of `like`, where that lives."""
    return (place.cupy if cuda_arrays.is_on_gpu(like) else np).empty(0, like.dtype)


__all__ = ["bias_gelu_backward", "softmax_cross_entropy"]
