"""What a CUDA text declares: its kernels and macros, read without a compiler."""

from __future__ import annotations

import re

from kernellab.compile.host_code import blank_comments_and_strings

_KERNEL = re.compile(
    r"(?P<template>template\s*<[^;{}]*?>\s*)?(?:(?:static|inline|extern|__host__|__forceinline__)\s+|\"C\"\s+)*"
    r"__global__\s+(?P<rest>[^;{}()]*?(?:__launch_bounds__|__cluster_dims__|__block_size__|__maxnreg__)?)"
    r"(?=\()"
)
_ATTRIBUTE = re.compile(r"__(?:launch_bounds|cluster_dims|block_size|maxnreg)__\s*\((?:[^()]|\([^()]*\))*\)")


def kernel_names(text: str) -> dict[str, bool]:
    """The kernels that a text defines or declares.

    Parameters
    ----------
    text : str
        CUDA C.

    Returns
    -------
    dict of str to bool
        From a kernel's name to whether it is a template.

    Examples
    --------
    >>> kernel_names("template <int N> __global__ void __launch_bounds__(64) tile(int* y) {} // void no()")
    {'tile': True}
    """
    code = _ATTRIBUTE.sub(" ", blank_comments_and_strings(text))
    found: dict[str, bool] = {}
    for match in _KERNEL.finditer(code):
        name = re.search(r"(\w+)\s*$", match["rest"])
        if name and name[1] not in ("void", "static"):
            found[name[1]] = found.get(name[1], False) or bool(match["template"])
    return found


def macro_names(text: str) -> tuple[str, ...]:
    """The macros that a text defines."""
    code = blank_comments_and_strings(text)
    return tuple(dict.fromkeys(re.findall(r"^[ \t]*#[ \t]*define[ \t]+(\w+)", code, re.MULTILINE)))
