"""Products of matrices, with NumPy's meaning: NumPy in, NumPy out; CuPy in, CuPy out."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from kernellab import catalog
from kernellab.api import apply
from kernellab.arrays import cast_remedy, share_memory, spec_of
from kernellab.catalog import gelus
from kernellab.devices import cuda_arrays
from kernellab.devices import device as find_device
from kernellab.devices.emulated import runs_on
from kernellab.errors import ArgumentError, SpecError, speaking_as
from kernellab.functions import as_given
from kernellab.intake import check_output, writable
from kernellab.kernel import Kernel, Language
from kernellab.measurement import scope
from kernellab.problem import ELEMENTS

if TYPE_CHECKING:
    from kernellab.devices.program import Device

FEW, LONG = 32, 1024
"""Rows and columns of a tile of ``matmul/tiled``; from which k on the emulator is spared a larger one."""


def matmul(
    a: Any, b: Any, *, out: Any = None, language: Language = "cuda-c", device: str | Device = "auto"
) -> Any:
    """Return the product of two matrices, as `numpy.matmul` does, added up in float32.

    Parameters
    ----------
    a : array of float32, float16 or bfloat16, shape (..., m, k) or (k,)
        Of any strides; one that is not C-contiguous is copied. Leading axes are more rows.
    b : array of the same dtype, shape (k, n) or (k,)
        The transpose of a C-contiguous (n, k), such as ``weights.T``, is multiplied as it lies, not copied.
    out : numpy.ndarray or cupy.ndarray, optional
        Where to put the result; it must not overlap `a` or `b`.
    language, device
        As for `apply`.

    Returns
    -------
    numpy.ndarray or cupy.ndarray
        Of shape (..., m, n), without the axis of an operand that has one only, and of the dtype of `a`; or
        `out`. Its error is at most `catalog.products.error_bound` times the sum of absolute products, and
        what rounding to the dtype adds.

    Raises
    ------
    ArgumentError
        For another dtype, or two.
    SpecError
        For shapes that do not fit, and an output that overlaps an input.

    Examples
    --------
    >>> import numpy as np
    >>> import kernellab as kl
    >>> a, b = np.ones((2, 3), "float32"), np.arange(6, dtype="float32").reshape(3, 2)
    >>> kl.matmul(a, b, device="emulator")
    array([[6., 9.],
           [6., 9.]], dtype=float32)
    """
    return _product("matmul", ("a", "b"), (a, b), out, language, find_device(device))


def matmul_bias_gelu(
    x: Any,
    w: Any,
    bias: Any,
    *,
    approximate: str = "tanh",
    out: Any = None,
    language: Language = "cuda-c",
    device: str | Device = "auto",
) -> Any:
    """Return GeLU of ``x @ w + bias`` in one kernel: a layer, without the arrays in between.

    Parameters
    ----------
    x, w
        As `a` and `b` of `matmul`; weights that are kept as (n, k) go in as ``weights.T``, without a copy.
    bias : array of the same dtype, shape (n,)
        One value a column.
    approximate : {"tanh", "none"}
        How GeLU is computed: by its approximation with tanh, or by the normal distribution. They differ by up
        to 4.7e-4.
    out, language, device
        As for `matmul`.

    Returns
    -------
    numpy.ndarray or cupy.ndarray
        As of `matmul`.

    Raises
    ------
    ArgumentError, SpecError
        As of `matmul`, and for an unknown `approximate`.

    Examples
    --------
    >>> import numpy as np
    >>> import kernellab as kl
    >>> x, w = np.ones((1, 2), "float32"), np.eye(2, dtype="float32")
    >>> kl.matmul_bias_gelu(x, w, np.zeros(2, "float32"), approximate="none", device="emulator").round(3)
    array([[0.841, 0.841]], dtype=float32)
    """
    form = gelus.form_of("matmul_bias_gelu", approximate)
    names, place = ("x", "w", "bias"), find_device(device)
    return _product("matmul_bias_gelu", names, (x, w, bias), out, language, place, form=form)


def rung_for(problem: str, element: str, arch: str, language: Language = "cuda-c") -> Kernel:
    """Return the best rung of a problem for an element on a device: the ladder's last that runs there.

    Where a shape or an alignment does not suit it, `apply` takes its fallback.

    Examples
    --------
    >>> rung_for("matmul", "float32", "sm_90").id, rung_for("matmul", "float16", "sm_80").id
    ('matmul/buffered', 'matmul/mma')
    """
    return next(
        kernel
        for kernel in reversed(catalog.ladder(problem))
        if element in (kernel.elements or ELEMENTS[:1])
        and not kernel.fault
        and (language == "cuda-c" or kernel.has_twin)
        and runs_on(kernel, arch)
    )


def _product(
    who: str,
    names: tuple[str, ...],
    given: tuple[Any, ...],
    out: Any,
    language: Language,
    place: Device,
    **parameters: Any,
) -> Any:
    arrays = [as_given(item, f"{who}: {name}", place) for item, name in zip(given, names, strict=True)]
    element = _element(who, names, arrays)
    left, right, *bias = arrays
    _check_shapes(who, names, arrays)
    shape = (*left.shape[:-1], *right.shape[1:])
    with scope(place, tuple(arrays), who):
        rows, columns = math.prod(left.shape[:-1]), math.prod(right.shape[1:])
        inner = (
            left if left.ndim == 2 else left.reshape(rows, left.shape[-1]),
            right if right.ndim == 2 else right.reshape(right.size, 1),
        )
        target = None if out is None else _target(who, names, arrays, writable(out, who, place), shape)
    problem = who
    if (who, element, place.name) == ("matmul", "float32", "emulator") and _is_thin(*inner):
        kernel = catalog.kernel("matmul/tiled")
    else:
        if not spec_of(inner[1]).is_contiguous and spec_of(inner[1].T).is_contiguous:
            problem = who.replace("matmul", "matmul_nt")
            inner = inner[0], inner[1].T
        kernel = rung_for(problem, element, place.arch, language)
    within = None
    if target is not None and target.flags.c_contiguous:
        within = target.reshape(rows, columns)
    with speaking_as(who):
        answer = apply(kernel, *inner, *bias, out=within, language=language, device=place, **parameters)
    if target is None:
        return answer.reshape(shape)
    if within is None:
        with scope(place, (target,), who):
            cuda_arrays.assign(target, answer.reshape(shape))
    return out


def _is_thin(left: Any, right: Any) -> bool:
    """Whether a product has few outputs, each a long sum: the best rung's tile would be next to empty."""
    return bool(max(left.shape[0], right.shape[1]) <= FEW and right.shape[0] >= LONG)


def _element(who: str, names: tuple[str, ...], arrays: list[Any]) -> str:
    """Return the dtype that all arrays have; refuse two, and those that no rung takes."""
    first = arrays[0].dtype
    for name, array in zip(names, arrays, strict=True):
        if array.dtype.name not in ELEMENTS:
            remedy = cast_remedy(array.dtype, ELEMENTS[0])
            rule = f"it must be {', '.join(ELEMENTS[:-1])} or {ELEMENTS[-1]}"
            raise ArgumentError(f"{who}: {name} has dtype {array.dtype}, {rule}; {remedy}")
        if array.dtype != first:
            rule = f"it must be {first} like {names[0]}"
            remedy = cast_remedy(array.dtype, first)
            raise ArgumentError(f"{who}: {name} has dtype {array.dtype}, {rule}; {remedy}")
    return str(first.name)


def _check_shapes(who: str, names: tuple[str, ...], arrays: list[Any]) -> None:
    left, right, *bias = arrays
    for name, array in zip(names, arrays, strict=True):
        if not array.ndim:
            raise SpecError(
                f"{who}: {name} is a single number, it must have an axis at least; use * for those"
            )
    if right.ndim > 2:
        rule = "it must have one axis or two"
        raise SpecError(f"{who}: {names[1]} has shape {right.shape}, {rule}; loop over the leading ones")
    if left.shape[-1] != right.shape[0]:
        rule = f"its first axis must be as long as the last of {names[0]}, {left.shape[-1]}"
        raise SpecError(f"{who}: {names[1]} has shape {right.shape}, {rule}; transpose or cut one of them")
    columns = math.prod(right.shape[1:])
    if bias and bias[0].shape != (columns,):
        rule = f"it must be {(columns,)}, one value a column of {names[1]}"
        raise SpecError(f"{who}: bias has shape {bias[0].shape}, {rule}; make them agree")


def _target(who: str, names: tuple[str, ...], arrays: list[Any], target: Any, shape: tuple[int, ...]) -> Any:
    """Return the caller's output; refuse one of another kind, and one that shares memory with an input."""
    check_output(target, who, arrays[0].dtype, shape)
    place = spec_of(target, who)
    for name, array in zip(names, arrays, strict=True):
        if share_memory(place, spec_of(array, who)):
            rule = "it is read long after the first of it is written"
            raise SpecError(f"{who}: out overlaps {name}, {rule}; give another output")
    return target
