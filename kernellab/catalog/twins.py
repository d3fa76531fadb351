"""Twins: what any twin may need: another name, an instruction of PTX, a power, a sum of a thread's values."""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"

from __future__ import annotations

import math
from functools import cache
from typing import Any

ALL_LANES = 0xFFFFFFFF


def renamed(function: Any, name: str, **arguments: str) -> Any:
    """Return a twin under the name that its entry has, and its arguments under others where some are given."""
    code = function.__code__
    names = tuple(arguments.get(each, each) for each in code.co_varnames)
    function.__code__ = code.replace(co_varnames=names)
    function.__name__ = function.__qualname__ = name
    return function


@cache
def approximation(operation: str) -> Any:
    """Return the float32 function that is one PTX instruction, such as ``ex2.approx.ftz.f32``."""
    from llvmlite import ir
    from numba.cuda import types
    from numba.cuda.extending import intrinsic

    @intrinsic
    def apply(typing, value):
        def emit(context, builder, signature, arguments):
            kind = ir.FunctionType(ir.FloatType(), [ir.FloatType()])
            return builder.call(ir.InlineAsm(kind, f"{operation} $0, $1;", "=f,f"), arguments)

        return types.float32(types.float32), emit

    return apply


@cache
def exponential(element: str) -> Any:
    """Return e to the power of a float32, as ``rows.cuh`` has it for one element."""
    from numba import cuda, float32

    if element == "float32":
        return cuda.libdevice.expf
    power_of_two, LOG2_E = approximation("ex2.approx.ftz.f32"), float32(math.log2(math.e))  # noqa: N806

    @cuda.jit(device=True, forceinline=True)
    def exponential_16(value):
        return power_of_two(value * LOG2_E)

    return exponential_16


@cache
def sum_of(count: int) -> Any:
    """Return ``(value, base) -> float32``: the sum of so many values, in four chains."""
    from numba import cuda, float32

    ZERO = float32(0)  # noqa: N806

    @cuda.jit(device=True, forceinline=True)
    def add_up(value, base):
        a, b, c, d = ZERO, ZERO, ZERO, ZERO
        for i in range(base, base + count, 4):
            a += value[i]
            b += value[i + 1]
            c += value[i + 2]
            d += value[i + 3]
        return (a + b) + (c + d)

    return add_up
