"""AdamW: a step of the optimiser in one pass, with float32 parameters and gradients of 16 or 32 bits."""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"
# ruff: noqa: N803, N806

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from kernellab.catalog import elements, gradient_twins, tensors, unscale
from kernellab.catalog.streams import EACH
from kernellab.kernel import Kernel, Tuning
from kernellab.problem import ELEMENTS, Array, Arrays, Case, Cost, Parameter, Problem, Sizes
from kernellab.tensor_lists import each_of, is_list, mapped

SHAPE = {"THREADS": 128, "VECTORS": 2}
STATE = ("param", "exp_avg", "exp_avg_sq")


def stepped(
    p: Array, g: Array, m: Array, v: Array, factor: float, options: Mapping[str, Any], step: int
) -> dict[str, Array]:
    """Return one array's step in float64, and what the error of each answer is in proportion to."""
    rate1, rate2, lr = float(options["rate1"]), float(options["rate2"]), float(options["lr"])
    p, g, m, v = (array.astype(np.float64) for array in (p, g, m, v))
    g = g * factor
    mean, square = m + rate1 * (g - m), v + rate2 * (g * g - v)
    unbiased = [-math.expm1(step * math.log1p(-rate)) for rate in (rate1, rate2)]
    below = np.sqrt(square / unbiased[1]) + float(options["eps"])
    kept = p - lr * float(options["weight_decay"]) * p
    size = np.abs(m) + rate1 * np.abs(g)
    pace = lr / unbiased[0]
    return {
        "param": kept - pace * mean / below,
        "exp_avg": mean,
        "exp_avg_sq": square,
        "size of param": np.abs(p) + pace * size / below,
        "size of exp_avg": size,
        "size of exp_avg_sq": np.abs(v) + rate2 * g * g,
    }


def _all(
    prefix: str, param: Any, grad: Any, exp_avg: Any, exp_avg_sq: Any, scalars: Any, options: Any
) -> Any:
    factor = unscale.factor_of(scalars["inv_scale"], scalars["norm"], options["max_norm"])
    step = max(int(options["step"]) - int(scalars["skipped"][0]), 1)
    is_skipped = float(scalars["found"][0]) != 0

    def one(p: Array, g: Array, m: Array, v: Array) -> list[Array]:
        if is_skipped:
            return [array.astype(np.float64) for array in (p, m, v)]
        found = stepped(p, g, m, v, factor, options, step)
        return [found[prefix + name] for name in STATE]

    each = [one(*arrays) for arrays in zip(*map(each_of, (param, grad, exp_avg, exp_avg_sq)), strict=True)]
    answers = {name: tuple(found[k] for found in each) for k, name in enumerate(STATE)}
    answers["half"] = answers["param"]
    return answers if is_list(param) else {name: found[0] for name, found in answers.items()}


def reference(
    param: Any,
    grad: Any,
    exp_avg: Any,
    exp_avg_sq: Any,
    found: Array,
    inv_scale: Array,
    norm: Array,
    skipped: Array,
    half: Any = None,
    **options: Any,
) -> dict[str, Any]:
    """Return the step in float64; everything as it was where it is skipped."""
    scalars = {"found": found, "inv_scale": inv_scale, "norm": norm, "skipped": skipped}
    answers: dict[str, Any] = _all("", param, grad, exp_avg, exp_avg_sq, scalars, options)
    if half is not None and float(found[0]) != 0:
        answers["half"] = mapped(lambda array: array.astype(np.float64), half)
    return answers


def magnitude(half: Any = None, **given: Any) -> dict[str, Any]:
    """Return the sums of absolute terms."""
    names = ("param", "grad", "exp_avg", "exp_avg_sq", "found", "inv_scale", "norm", "skipped")
    options = {name: value for name, value in given.items() if name not in names}
    arrays = {name: given[name] for name in names[:4]}
    answers: dict[str, Any] = _all("size of ", **arrays, scalars=given, options=options)
    return answers


def make_inputs(case: Case, rng: np.random.Generator) -> dict[str, Any]:
    """Return parameters, gradients and their means, of a step that is skipped in the case of that name."""

    def square(n: int) -> Array:
        return np.square(rng.standard_normal(n, np.float32)) * np.float32(1e-3)

    return {
        "param": tensors.made(case, lambda n: rng.standard_normal(n, np.float32)),
        "grad": tensors.gradients(case, rng),
        "exp_avg": tensors.made(case, lambda n: rng.standard_normal(n, np.float32) * np.float32(0.1)),
        "exp_avg_sq": tensors.made(case, square),
        "half": tensors.made(case, lambda n: rng.standard_normal(n, np.float32)),
        "found": np.full(1, case.contents == "skipped", np.float32),
        "inv_scale": np.full(1, 0.25, np.float32),
        "norm": np.full(1, 10.0, np.float32),
        "skipped": np.full(1, 2, np.int32),
    }


def cost(sizes: Sizes, arrays: Arrays) -> Cost:
    """Return four arrays read and three written, the gradients in their own size, and 16-bit parameters written."""
    state = sum(tensors.nbytes(arrays[name]) for name in STATE)
    half = tensors.nbytes(arrays["half"]) if "half" in arrays else 0
    return Cost(state + tensors.nbytes(arrays["grad"]), state + half, 16 * sizes["n"])


PROBLEM = Problem(
    name="adamw",
    summary="a step of AdamW for each of many tensors, unless it is to be skipped",
    operands=(
        tensors.listed("param", "float32"),
        tensors.listed("grad", role="in"),
        tensors.listed("exp_avg", "float32"),
        tensors.listed("exp_avg_sq", "float32"),
        tensors.listed("half"),
        *tensors.scalars("found", "inv_scale", "norm"),
        *tensors.scalars("skipped", dtype="int32"),
    ),
    parameters=(
        Parameter("max_norm", "float32", default=unscale.LARGEST, minimum=0.0),
        Parameter("lr", "float32", default=1e-3, minimum=0.0),
        Parameter("rate1", "float32", default=0.1, minimum=0.0, maximum=1.0),
        Parameter("rate2", "float32", default=1e-3, minimum=0.0, maximum=1.0),
        Parameter("eps", "float32", default=1e-8, minimum=0.0),
        Parameter("weight_decay", "float32", default=1e-2, minimum=0.0),
        Parameter("step", "int32", default=3, minimum=1),
    ),
    make_inputs=make_inputs,
    reference=reference,
    magnitude=magnitude,
    cost=cost,
    cases=(
        *tensors.cases(),
        Case("skipped", {"n": 1025}, contents="skipped"),
        Case("skipped, float16", {"n": 1025}, contents="skipped", element="float16"),
    ),
    roundings=16,
)


def scalar(element: str) -> Any:
    """Make the twin of adamw/scalar."""
    from numba import cuda, float32

    to_float, _ = elements.conversions(element)
    factor_of, _ = gradient_twins.scaling()
    prepare, update = gradient_twins.stepping()

    def adamw_scalar(
        param, grad, exp_avg, exp_avg_sq, found, inv_scale, norm, skipped, max_norm,
        lr, rate1, rate2, eps, weight_decay, step,
    ):  # fmt: skip
        i = cuda.grid(1)
        if i < param.size and found[0] == float32(0):
            factor = factor_of(inv_scale[0], norm[0], max_norm)
            shared = prepare(factor, lr, rate1, rate2, eps, weight_decay, step, skipped[0])
            p, m, s = update(shared, param[i], to_float(grad[i]), exp_avg[i], exp_avg_sq[i])
            param[i], exp_avg[i], exp_avg_sq[i] = p, m, s

    return adamw_scalar


def vectorised(THREADS: int, VECTORS: int, element: str) -> Any:
    """Make the twin of adamw/vectorised."""
    from numba import cuda, float32

    fill, drain = elements.register_access("float32")
    fill_grad, _ = elements.register_access(element, 16 if element == "float32" else 8)
    to_float, _ = elements.conversions(element)
    factor_of, _ = gradient_twins.scaling()
    prepare, update = gradient_twins.stepping()
    KEPT = 4 * VECTORS

    def adamw_vectorised(
        param, grad, exp_avg, exp_avg_sq, found, inv_scale, norm, skipped, max_norm,
        lr, rate1, rate2, eps, weight_decay, step,
    ):  # fmt: skip
        whole = param.size // 4
        first = cuda.blockIdx.x * (THREADS * VECTORS) + cuda.threadIdx.x
        params, grads = cuda.local.array(KEPT, float32), cuda.local.array(KEPT, float32)
        means, squares = cuda.local.array(KEPT, float32), cuda.local.array(KEPT, float32)
        for v in range(VECTORS):
            i = first + v * THREADS
            if i < whole:
                fill_grad(grads, 4 * v, grad, 4 * i)
                fill(params, 4 * v, param, 4 * i)
                fill(means, 4 * v, exp_avg, 4 * i)
                fill(squares, 4 * v, exp_avg_sq, 4 * i)
        factor = factor_of(inv_scale[0], norm[0], max_norm)
        shared = prepare(factor, lr, rate1, rate2, eps, weight_decay, step, skipped[0])
        is_taken = found[0] == float32(0)

        for v in range(VECTORS):
            i = first + v * THREADS
            if i < whole and is_taken:
                for k in range(4 * v, 4 * v + 4):
                    p, m, s = update(shared, params[k], grads[k], means[k], squares[k])
                    params[k], means[k], squares[k] = p, m, s
                drain(param, 4 * i, params, 4 * v)
                drain(exp_avg, 4 * i, means, 4 * v)
                drain(exp_avg_sq, 4 * i, squares, 4 * v)

        last = 4 * whole + cuda.grid(1)
        if last < param.size and is_taken:
            p, m, s = update(shared, param[last], to_float(grad[last]), exp_avg[last], exp_avg_sq[last])
            param[last], exp_avg[last], exp_avg_sq[last] = p, m, s

    return adamw_vectorised


SCALARS = (
    *("found", "inv_scale", "norm", "skipped"),
    *("max_norm", "lr", "rate1", "rate2", "eps", "weight_decay", "step"),
)
ARRAYS = ("param", "grad", "exp_avg", "exp_avg_sq")


def _share(at: Sizes) -> int:
    return at["THREADS"] * at["VECTORS"] * 4


SCALAR = Kernel(PROBLEM, "scalar", (*ARRAYS, *SCALARS, "n"), EACH, scalar, elements=ELEMENTS)
MULTI = Kernel(
    PROBLEM,
    "multi",
    ("tensors", *SCALARS),
    tensors.TABLE,
    tensors.NO_TWIN,
    {**SHAPE, "TENSORS": 64},
    elements=ELEMENTS,
    table=ARRAYS,
    chunk=_share,
    constraint=tensors.in_limits,
    tuning=Tuning({**SHAPE, "TENSORS": 64}, tensors.chosen_for),
)

LADDER = (
    SCALAR,
    Kernel(
        PROBLEM,
        "vectorised",
        (*ARRAYS, *SCALARS, "n"),
        tensors.in_shares(_share),
        vectorised,
        SHAPE,
        elements=ELEMENTS,
        alignment=16,
        fallback=SCALAR,
        constraint=tensors.in_limits,
    ),
    MULTI,
    replace(
        MULTI,
        name="mixed",
        constants={**SHAPE, "TENSORS": 64, "HALF": 0},
        elements=ELEMENTS[1:],
        table=(*ARRAYS, "half"),
    ),
)
