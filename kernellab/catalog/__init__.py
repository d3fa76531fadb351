"""The catalogue: every problem and every rung, loaded when first asked for."""

from __future__ import annotations

import difflib
import importlib

from kernellab.errors import SpecError
from kernellab.kernel import Kernel
from kernellab.problem import Problem

PROBLEMS = (
    *("copy", "transpose", "shared_stride", "relu", "uneven_work", "masked_rows"),
    *("scale", "axpy", "triad", "take", "take_rows"),
    *("horner", "elementary"),
    *("sum", "max", "argmax", "row_sum", "row_max", "row_argmax"),
    "column_sum",
    *("chase", "reread", "tally"),
    *("cumsum", "row_cumsum", "histogram", "float_histogram"),
    *("softmax", "layernorm", "rmsnorm"),
    *("layernorm_gelu", "residual_layernorm", "bias_gelu", "softmax_dropout"),
    *("bias_gelu_backward", "softmax_cross_entropy"),
    *("matmul", "matmul_nt", "matmul_bias_gelu", "matmul_nt_bias_gelu"),
    *("unscale", "global_norm", "adamw", "update_scale"),
    "all_reduce",
)


def problem(name: str) -> Problem:
    """Return a problem by name.

    Raises
    ------
    SpecError
        If the catalogue has none of that name.
    """
    return ladder(name)[0].problem


def ladder(name: str) -> tuple[Kernel, ...]:
    """Return the rungs of a problem, the first the simplest.

    Raises
    ------
    SpecError
        If the catalogue has no problem of that name.

    Examples
    --------
    >>> [kernel.name for kernel in ladder("transpose")]
    ['naive', 'tiled', 'padded', 'swizzled', 'matrices', 'vectorised']
    """
    if name not in PROBLEMS:
        raise SpecError(f"{name}: no problem has this name; {_suggestion(name, PROBLEMS)}")
    rungs: tuple[Kernel, ...] = importlib.import_module(f"kernellab.catalog.{name}").LADDER
    return rungs


def kernel(name: str) -> Kernel:
    """Return a rung by its id.

    Parameters
    ----------
    name : str
        ``<problem>/<rung>``.

    Raises
    ------
    SpecError
        If the catalogue has none of that id; the message lists or suggests some.

    Examples
    --------
    >>> kernel("copy/float4").alignment
    16
    """
    folder, _, rung = name.partition("/")
    rungs = {item.name: item for item in ladder(folder or name)}
    if rung not in rungs:
        raise SpecError(f"{name}: {folder} has no rung {rung!r}; {_suggestion(rung, tuple(rungs))}")
    return rungs[rung]


def kernels(name: str = "") -> tuple[Kernel, ...]:
    """Return the rungs that a name stands for.

    Parameters
    ----------
    name : str
        Nothing for the whole catalogue, a problem, or ``<problem>/<rung>``.

    Returns
    -------
    tuple of Kernel
        In the catalogue's order.
    """
    if "/" in name:
        return (kernel(name),)
    return tuple(item for folder in ((name,) if name else PROBLEMS) for item in ladder(folder))


def _suggestion(name: str, known: tuple[str, ...]) -> str:
    close = difflib.get_close_matches(name, known, n=1)
    return f"did you mean {close[0]!r}?" if close else f"there are {', '.join(known)}"
