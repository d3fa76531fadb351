"""Elementary functions: division, roots, exp, log, sin, tanh and power, as the library has them and with fast math."""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"
# ruff: noqa: SIM108

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from kernellab.catalog import twins
from kernellab.catalog.copy import special_values
from kernellab.catalog.streams import EACH, cost_of
from kernellab.kernel import Kernel
from kernellab.problem import Array, Case, Operand, Parameter, Problem

FUNCTIONS: dict[str, Callable[[Array, Array], Array]] = {
    "multiply": lambda a, b: a * b,
    "divide": lambda a, b: 7 / a,
    "reciprocal": lambda a, b: 1 / a,
    "sqrt": lambda a, b: np.sqrt(a),
    "exp": lambda a, b: np.exp(a),
    "log": lambda a, b: np.log(a),
    "sin": lambda a, b: np.sin(a),
    "tanh": lambda a, b: np.tanh(a),
    "power": lambda a, b: np.power(a, b),
}
"""In the order of the parameter ``function``: of the argument, and the element as it was read."""
NAMES = tuple(FUNCTIONS)
STEP = np.float32(1 / 64)
LOW, HIGH = 1.25, 3.0
"""Where arguments lie: no function is 0 or turns there, so that errors in ulp say something."""
FAST = 2**13
"""Roundings allowed with fast math: tanh is right to 2**-11 of itself."""


@lru_cache(maxsize=len(NAMES))
def _sums(data: bytes, function: int, terms: int) -> tuple[Array, Array]:
    """Return the sum of the terms and of their sizes; kept, as rungs and languages share what takes seconds."""
    compute, a = FUNCTIONS[NAMES[function]], np.frombuffer(data, np.float32)
    b, total = a.astype(np.float64), np.zeros(a.shape)
    absolute = total.copy()
    with np.errstate(all="ignore"):
        for _ in range(terms):
            value = compute(a.astype(np.float64), b)
            total += value
            absolute += np.abs(value)
            a = a + STEP  # in float32, as the kernels do it
    return total, absolute


def reference(x: Array, function: int, terms: int) -> dict[str, Array]:
    """Return the sum in float64, of arguments as float32 has them."""
    return {"y": _sums(x.tobytes(), int(function), int(terms))[0]}


def magnitude(x: Array, function: int, terms: int) -> dict[str, Array]:
    """Return the sum of absolute terms, for each addition."""
    return {"y": max(int(terms), 1) * _sums(x.tobytes(), int(function), int(terms))[1]}


def make_inputs(case: Case, rng: np.random.Generator) -> dict[str, Array]:
    """Return n floats from 1.25 to 3."""
    x = rng.uniform(LOW, HIGH, case.sizes["n"]).astype(np.float32)
    if case.contents == "special values":
        x[: special_values().size] = special_values()
    if case.contents == "subnormal":
        x = rng.choice(np.array([1.4e-45, -1.1754942e-38, 3e-39], np.float32), x.size)
    if case.contents == "large":
        x *= np.float32(2**20)
    return {"x": x}


def case(name: str, n: int, function: str, terms: int = 1, contents: str = "random") -> Case:
    """Return a case of a function by its name."""
    return Case(name, {"n": n}, {"function": NAMES.index(function), "terms": terms}, contents)


PROBLEM = Problem(
    name="elementary",
    summary=f"y = f(x), or the sum of f(x + k / 64); f is {', '.join(NAMES)}",
    operands=(Operand("x", "float32", ("n",)), Operand("y", "float32", ("n",), role="out")),
    parameters=(
        Parameter("function", "int32", default=0, minimum=0, maximum=len(NAMES) - 1),
        Parameter("terms", "int32", default=1, minimum=0),
    ),
    make_inputs=make_inputs,
    reference=reference,
    magnitude=magnitude,
    cost=cost_of(flops=0),
    cases=(
        case("16 Ki elements", 2**14, "exp"),
        *(case(f"{n} elements", n, "divide") for n in (0, 1, 33, 1025)),
        *(case(name, 1000, name, terms=3) for name in NAMES),
        case("no terms", 33, "log", terms=0),
        *(case(f"{name}, special values", 33, name, contents="special values") for name in NAMES),
        case("subnormal", 33, "sqrt", contents="subnormal"),
        *(case(f"{name}, large", 100, name, contents="large") for name in ("sin", "exp", "tanh")),
    ),
    roundings=4,
)


def twin_of(entry: str, is_fast: bool) -> Any:
    """Make the twin of a rung: of one text, with and without fast math, which each device function is told."""
    import math

    from numba import cuda, float32

    device = cuda.jit(device=True, forceinline=True, fastmath=is_fast)
    ONE, SEVEN, ZERO, EVERY = float32(1), float32(7), float32(0), float32(STEP)  # noqa: N806

    def summed(function):
        call = device(function)

        @device
        def run(b, terms):
            a, total = b, ZERO
            for _ in range(terms):
                total += call(a, b)
                a += EVERY
            return total

        return run

    multiply, divide = summed(lambda a, b: a * b), summed(lambda a, b: SEVEN / a)
    reciprocal, sqrt = summed(lambda a, b: ONE / a), summed(lambda a, b: math.sqrt(a))
    exp, log = summed(lambda a, b: math.exp(a)), summed(lambda a, b: math.log(a))
    sin, tanh = summed(lambda a, b: math.sin(a)), summed(lambda a, b: math.tanh(a))
    power = summed(lambda a, b: math.pow(a, b))

    def elementary(x, y, function, terms):
        i = cuda.grid(1)
        if i < x.size:
            b, total = x[i], ZERO
            if function < 4:
                if function < 2:
                    if function < 1:
                        total = multiply(b, terms)
                    else:
                        total = divide(b, terms)
                else:
                    if function < 3:
                        total = reciprocal(b, terms)
                    else:
                        total = sqrt(b, terms)
            else:
                if function < 6:
                    if function < 5:
                        total = exp(b, terms)
                    else:
                        total = log(b, terms)
                else:
                    if function < 7:
                        total = sin(b, terms)
                    else:
                        if function < 8:
                            total = tanh(b, terms)
                        else:
                            total = power(b, terms)
            y[i] = total

    return twins.renamed(elementary, entry)


def accurate() -> Any:
    """Make the twin of elementary/accurate."""
    return twin_of("elementary_accurate", is_fast=False)


def fast_math() -> Any:
    """Make the twin of elementary/fast_math."""
    return twin_of("elementary_fast_math", is_fast=True)


ARGUMENTS = ("x", "y", "function", "terms", "n")

LADDER = (
    Kernel(
        PROBLEM,
        "accurate",
        ARGUMENTS,
        EACH,
        accurate,
        float64="sinf reduces arguments beyond 105615 in float64",
    ),
    Kernel(
        PROBLEM,
        "fast_math",
        ARGUMENTS,
        EACH,
        fast_math,
        is_fast_math=True,
        roundings=FAST,
        gives_up="subnormal numbers are flushed to zero, and a power of 0 or less is NaN",
        fails_on=(
            "subnormal",
            *(f"{name}, special values" for name in ("divide", "reciprocal", "sqrt", "log", "power")),
        ),
    ),
)
