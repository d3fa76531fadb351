"""Row problems in Triton, a program a row held whole: what a user of Triton writes first, and keeps."""

# ruff: noqa: N803

import triton
import triton.language as tl


@triton.jit
def softmax(x, y, columns, BLOCK: tl.constexpr):
    start = tl.program_id(0).to(tl.int64) * columns
    place = tl.arange(0, BLOCK)
    is_inside = place < columns
    value = tl.load(x + start + place, mask=is_inside, other=float("-inf")).to(tl.float32)
    power = tl.exp(value - tl.max(value, axis=0))
    power = power / tl.sum(power, axis=0)
    tl.store(y + start + place, power.to(y.dtype.element_ty), mask=is_inside)


@triton.jit
def layernorm(x, weight, bias, y, columns, eps, BLOCK: tl.constexpr, WITH_GELU: tl.constexpr):
    start = tl.program_id(0).to(tl.int64) * columns
    place = tl.arange(0, BLOCK)
    is_inside = place < columns
    value = tl.load(x + start + place, mask=is_inside, other=0.0).to(tl.float32)
    mean = tl.sum(value, axis=0) / columns
    deviation = tl.where(is_inside, value - mean, 0.0)
    scale = 1 / tl.sqrt(tl.sum(deviation * deviation, axis=0) / columns + eps)
    w = tl.load(weight + place, mask=is_inside, other=0.0).to(tl.float32)
    b = tl.load(bias + place, mask=is_inside, other=0.0).to(tl.float32)
    value = deviation * scale * w + b
    if WITH_GELU:
        value = value * tl.sigmoid(1.5957691216057308 * (value + 0.044715 * value * value * value))
    tl.store(y + start + place, value.to(y.dtype.element_ty), mask=is_inside)


@triton.jit
def residual_layernorm(x, residual, weight, bias, y, columns, eps, BLOCK: tl.constexpr):
    start = tl.program_id(0).to(tl.int64) * columns
    place = tl.arange(0, BLOCK)
    is_inside = place < columns
    value = tl.load(x + start + place, mask=is_inside, other=0.0).to(tl.float32)
    value += tl.load(residual + start + place, mask=is_inside, other=0.0).to(tl.float32)
    mean = tl.sum(value, axis=0) / columns
    deviation = tl.where(is_inside, value - mean, 0.0)
    scale = 1 / tl.sqrt(tl.sum(deviation * deviation, axis=0) / columns + eps)
    w = tl.load(weight + place, mask=is_inside, other=0.0).to(tl.float32)
    b = tl.load(bias + place, mask=is_inside, other=0.0).to(tl.float32)
    tl.store(y + start + place, (deviation * scale * w + b).to(y.dtype.element_ty), mask=is_inside)


@triton.jit
def rmsnorm(x, weight, y, columns, eps, BLOCK: tl.constexpr):
    start = tl.program_id(0).to(tl.int64) * columns
    place = tl.arange(0, BLOCK)
    is_inside = place < columns
    value = tl.load(x + start + place, mask=is_inside, other=0.0).to(tl.float32)
    scale = 1 / tl.sqrt(tl.sum(value * value, axis=0) / columns + eps)
    w = tl.load(weight + place, mask=is_inside, other=0.0).to(tl.float32)
    tl.store(y + start + place, (value * scale * w).to(y.dtype.element_ty), mask=is_inside)


# By problem: the kernel, its arrays before y in order, whether it takes eps, further constants.
KERNELS = {
    "softmax": (softmax, ("x",), False, {}),
    "layernorm": (layernorm, ("x", "weight", "bias"), True, {"WITH_GELU": False}),
    "layernorm_gelu": (layernorm, ("x", "weight", "bias"), True, {"WITH_GELU": True}),
    "residual_layernorm": (residual_layernorm, ("x", "residual", "weight", "bias"), True, {}),
    "rmsnorm": (rmsnorm, ("x", "weight"), True, {}),
}


def arguments(problem, given, y, columns, eps):
    """Return the kernel, its arguments in order, and its constants; `given` maps names to tensors or dtypes."""
    kernel, names, takes_eps, constants = KERNELS[problem]
    values = (*(given[name] for name in names), y, columns, *((eps,) if takes_eps else ()))
    return kernel, values, {"BLOCK": triton.next_power_of_2(columns), **constants}
