"""What an optimiser does to parameters and gradients: norms, clipping, AdamW; in place, NumPy and CuPy alike."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from kernellab import catalog, checks
from kernellab.catalog import update_scale
from kernellab.catalog.unscale import LARGEST
from kernellab.devices import device as find_device
from kernellab.errors import ArgumentError, SpecError
from kernellab.kernel import Kernel, Language
from kernellab.problem import ELEMENT_CODES, ELEMENTS
from kernellab.tensor_calls import full, over_lists, rung, scalar_of
from kernellab.tensor_intake import Tensors, check_together

if TYPE_CHECKING:
    from kernellab.devices.program import Device

STATE = ("float32",)
"""What parameters and means hold."""


def adamw(
    param: Any,
    grad: Any,
    exp_avg: Any,
    exp_avg_sq: Any,
    *,
    step: int,
    lr: float = 1e-3,
    betas: tuple[float, float] = (0.9, 0.999),
    eps: float = 1e-8,
    weight_decay: float = 1e-2,
    inv_scale: Any = None,
    found_inf: Any = None,
    skipped: Any = None,
    norm: Any = None,
    max_norm: float | None = None,
    out: Any = None,
    language: Language = "cuda-c",
    device: str | Device = "auto",
) -> Any:
    """Do a step of AdamW in one pass, in place; as `torch.optim.AdamW` with ``fused=True``.

    Parameters
    ----------
    param, exp_avg, exp_avg_sq : array of float32, or list of such
        Parameters and the means of gradients and of their squares; changed in place. Of any shapes and strides.
    grad : array of float32, float16 or bfloat16, or list of such
        Gradients. A list may mix dtypes; there is one launch for each.
    step : int
        Which step this is, from 1 on, skipped ones counted.
    lr, eps, weight_decay : float
        At least 0, and finite.
    betas : tuple of float
        In [0, 1).
    inv_scale : float or array of float32, optional
        What gradients are multiplied by: 1 over the loss scale, if they still carry it. A float must be within
        2**-126 and 2**126, as loss scales are.
    found_inf : array of float32, optional
        One number; if it is not 0 the step is skipped: no bit changes. Read on the device, so the host never
        waits for it; see `GradScaler.found_inf`.
    skipped : int or array of int32, optional
        How many of the steps before this one were skipped, which do not count for the means' bias; see
        `GradScaler.skipped`.
    norm : array of float32, optional
        The global norm of the gradients as they are (see `grad_norm`), for clipping to `max_norm`.
    max_norm : float, optional
        The most that the norm may be, after `inv_scale`; at least 0.
    out : array of float16 or bfloat16, or list of such, optional
        Where to put the new parameters in 16 bits.
    language, device
        As for `apply`.

    Returns
    -------
    array or list
        `out` where it is given, else `param`.

    Raises
    ------
    ArgumentError, SpecError
        For arrays that do not fit together, share memory, or have a wrong dtype; for step 0. Before anything
        is changed.

    Examples
    --------
    >>> import numpy as np
    >>> import kernellab as kl
    >>> p, g = np.ones(3, "float32"), np.full(3, 64, "float16")
    >>> m, v, h = np.zeros(3, "float32"), np.zeros(3, "float32"), np.ones(3, "float16")
    >>> kl.adamw(p, g, m, v, step=1, lr=0.5, weight_decay=0, inv_scale=1 / 64, out=h, device="emulator")
    array([0.5, 0.5, 0.5], dtype=float16)
    >>> p.round(6)
    array([0.5, 0.5, 0.5], dtype=float32)
    """
    place, who = find_device(device), "adamw"
    if (norm is None) != (max_norm is None):
        raise ArgumentError(f"{who}: norm and max_norm go together, one is missing; pass both or none")
    rates = _rates(betas)
    checks.number(f"{who}: step", step, "int32", 1)
    for name, value in {"lr": lr, "eps": eps, "weight_decay": weight_decay}.items():
        checks.number(f"{who}: {name}", value, "float32", 0.0, LARGEST)
    if _is_number(skipped):
        checks.number(f"{who}: skipped", skipped, "int32", 0, step - 1)
    lists = [
        Tensors("param", "param", param, STATE),
        Tensors("grad", "grad", grad, is_changed=False),
        Tensors("exp_avg", "exp_avg", exp_avg, STATE),
        Tensors("exp_avg_sq", "exp_avg_sq", exp_avg_sq, STATE),
    ]
    if out is not None:
        lists.append(Tensors("half", "out", out, ELEMENTS[1:]))
    like = lists[0].arrays
    scalars = {
        "found": scalar_of(0 if found_inf is None else found_inf, f"{who}: found_inf", like, place),
        "inv_scale": _inv_scale(inv_scale, who, like, place),
        "norm": scalar_of(0 if norm is None else norm, f"{who}: norm", like, place),
        "skipped": scalar_of(0 if skipped is None else skipped, f"{who}: skipped", like, place, "int32"),
    }
    options = {
        "lr": lr,
        "rate1": rates[0],
        "rate2": rates[1],
        "eps": eps,
        "weight_decay": weight_decay,
        "step": step,
        "max_norm": LARGEST if max_norm is None else max_norm,
    }
    over_lists(
        who, "step", lists, scalars, place, language, lambda found: _step_kernel(found, language), **options
    )
    return lists[0 if out is None else -1].given


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | np.number)


def _inv_scale(value: Any, who: str, like: Sequence[Any], place: Device) -> Any:
    """Return what gradients are multiplied by as an array; refuse a number that is 1 over no loss scale."""
    if _is_number(value):
        checks.number(f"{who}: inv_scale", value, "float32", update_scale.LEAST, update_scale.MOST)
    return scalar_of(1 if value is None else value, f"{who}: inv_scale", like, place)


def _rates(betas: Any) -> list[float]:
    try:
        first, second = (float(beta) for beta in betas)
    except (TypeError, ValueError):
        raise ArgumentError(f"adamw: betas is {betas!r}, it must be two numbers; pass (0.9, 0.999)") from None
    for beta in (first, second):
        if not 0 <= beta < 1:
            raise SpecError(f"adamw: betas is {betas!r}, each must be at least 0 and below 1; correct it")
    return [1 - first, 1 - second]


def _step_kernel(lists: Mapping[str, Tensors], language: Language) -> Kernel:
    """Return the rung for such lists; that with 16-bit parameters also where the gradients have another dtype."""
    if "half" not in lists:
        return rung("adamw", language)
    kernel = catalog.kernel("adamw/mixed")
    arrays = lists["half"].arrays
    if not arrays or lists["grad"].arrays[0].dtype == arrays[0].dtype:
        return kernel
    (element,) = {str(array.dtype) for array in arrays}
    problem = replace(
        kernel.problem,
        operands=tuple(item.at(element) if item.name == "half" else item for item in kernel.problem.operands),
    )
    constants = {**kernel.constants, "HALF": ELEMENT_CODES.index(element)}
    return replace(kernel, problem=problem, elements=ELEMENTS, constants=constants)


def grad_norm(grads: Any, *, language: Language = "cuda-c", device: str | Device = "auto") -> Any:
    """Return the root of the sum of squares over many arrays, as `torch.nn.utils.get_total_norm` does.

    Parameters
    ----------
    grads : array of float32, float16 or bfloat16, or list of such
        A list may mix dtypes. Squares are added in float32: they overflow above 1.8e19.
    language, device
        As for `apply`.

    Returns
    -------
    numpy.ndarray or cupy.ndarray
        One float32, of the same bits in every run; inf or NaN where a gradient is. The host does not wait for
        one on a GPU.

    Examples
    --------
    >>> import numpy as np
    >>> import kernellab as kl
    >>> kl.grad_norm([np.full(3, 2, "float16"), np.full((2, 2), 1, "float32")], device="emulator")
    array([4.], dtype=float32)
    """
    tensors = Tensors("x", "grads", grads, is_changed=False)
    return _norm("grad_norm", tensors, find_device(device), language)


def _norm(who: str, tensors: Tensors, place: Device, language: Language) -> Any:
    def kernel_for(_: Any) -> Kernel:
        return rung("global_norm", language)

    runs = over_lists(who, "norm", [tensors], {}, place, language, kernel_for)
    norms = [found["norm"] for found in runs]
    if len(norms) == 1:
        return norms[0]
    return _norm(who, Tensors("x", "norms", norms, is_changed=False), place, language)


def clip_grad_norm(
    grads: Any,
    max_norm: float,
    *,
    inv_scale: Any = None,
    language: Language = "cuda-c",
    device: str | Device = "auto",
) -> Any:
    """Scale gradients in place so that their global norm is `max_norm` at most, as `torch.nn.utils.clip_grad_norm_`.

    Parameters
    ----------
    grads : array of float32, float16 or bfloat16, or list of such
        Changed in place. A list may mix dtypes.
    max_norm : float
        At least 0.
    inv_scale : float or array of float32, optional
        What they are multiplied by before, such as 1 over a loss scale; a float as in `adamw`.
    language, device
        As for `apply`.

    Returns
    -------
    numpy.ndarray or cupy.ndarray
        Their norm as they were, one float32; see `grad_norm`. Where it is NaN all gradients are NaN after; where
        it is infinite, if only because squares overflowed, the finite ones are 0 and the infinite ones NaN.

    Notes
    -----
    `adamw` takes `norm` and `max_norm` and clips in its own pass: gradients are then not written at all.

    Examples
    --------
    >>> import numpy as np
    >>> import kernellab as kl
    >>> g = [np.full(3, 2, "float32"), np.full(4, 1, "float32")]
    >>> kl.clip_grad_norm(g, 2.0, device="emulator"), g[0].round(4)
    (array([4.], dtype=float32), array([1., 1., 1.], dtype=float32))
    """
    place, who = find_device(device), "clip_grad_norm"
    tensors = Tensors("x", "grads", grads)
    check_together(who, [tensors.taken(who, place)])
    scale = _inv_scale(inv_scale, who, tensors.arrays, place)
    norm = _norm(who, tensors, place, language)
    multiply(
        tensors, scale, full(0, tensors.arrays, place), who, place, language, norm=norm, max_norm=max_norm
    )
    return norm


def multiply(
    tensors: Tensors,
    factor: Any,
    found: Any,
    who: str,
    place: Device,
    language: Language,
    norm: Any = None,
    max_norm: float = LARGEST,
) -> None:
    """Multiply arrays in place by a number on the device; set `found` to 1 if any element is not finite.

    Without a factor they are only looked at.
    """
    numbers = {"inv_scale": 1 if factor is None else factor, "norm": 0 if norm is None else norm}
    scalars = {name: scalar_of(value, f"{who}: {name}", [found], place) for name, value in numbers.items()}
    scalars["found"] = found

    def kernel_for(_: Any) -> Kernel:
        kernel = rung("unscale", language)
        return replace(kernel, constants={**kernel.constants, "KEEPS": 1}) if factor is None else kernel

    task = "look" if factor is None else "multiply"
    over_lists(who, task, [tensors], scalars, place, language, kernel_for, max_norm=max_norm)


__all__ = ["adamw", "clip_grad_norm", "grad_norm", "multiply"]
