"""A laboratory for CUDA kernels in Python, without PyTorch.

Public names are loaded when first used: importing this loads no compiler, touches no device and no disk.
"""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kernellab.api import apply
    from kernellab.api_backward import bias_gelu_backward, softmax_cross_entropy
    from kernellab.api_histogram import histogram
    from kernellab.api_matmul import matmul, matmul_bias_gelu
    from kernellab.api_occupancy import occupancy
    from kernellab.api_optimizer import adamw, clip_grad_norm, grad_norm
    from kernellab.api_reduce import argmax, cumsum, max, sum
    from kernellab.api_rows import (
        bias_gelu,
        layernorm,
        layernorm_gelu,
        residual_layernorm,
        rmsnorm,
        softmax,
        softmax_dropout,
    )
    from kernellab.api_take import take
    from kernellab.benchmark import Benchmark, benchmark
    from kernellab.comparison import Comparison, compare
    from kernellab.devices import device
    from kernellab.devices.emulated import EmulatedDevice
    from kernellab.errors import (
        ArgumentError,
        CompileError,
        ExecutionError,
        LabError,
        MismatchError,
        SpecError,
        UnavailableError,
        UnsupportedPTXError,
    )
    from kernellab.functions import copy, relu, transpose
    from kernellab.grad_scaler import GradScaler
    from kernellab.instruments.reading import Reading
    from kernellab.kernel import Kernel
    from kernellab.measurement import measure
    from kernellab.pipeline import pipeline
    from kernellab.problem import Case, Problem
    from kernellab.record import Record
    from kernellab.tensor_map import TensorMap
    from kernellab.trace import Trace, trace

_HOMES = {
    "ArgumentError": "errors",
    "Benchmark": "benchmark",
    "Case": "problem",
    "Comparison": "comparison",
    "CompileError": "errors",
    "EmulatedDevice": "devices.emulated",
    "ExecutionError": "errors",
    "GradScaler": "grad_scaler",
    "Kernel": "kernel",
    "LabError": "errors",
    "MismatchError": "errors",
    "Problem": "problem",
    "Reading": "instruments.reading",
    "Record": "record",
    "SpecError": "errors",
    "TensorMap": "tensor_map",
    "Trace": "trace",
    "UnavailableError": "errors",
    "UnsupportedPTXError": "errors",
    "adamw": "api_optimizer",
    "apply": "api",
    "argmax": "api_reduce",
    "benchmark": "benchmark",
    "bias_gelu": "api_rows",
    "bias_gelu_backward": "api_backward",
    "clip_grad_norm": "api_optimizer",
    "compare": "comparison",
    "copy": "functions",
    "cumsum": "api_reduce",
    "device": "devices",
    "grad_norm": "api_optimizer",
    "histogram": "api_histogram",
    "layernorm": "api_rows",
    "layernorm_gelu": "api_rows",
    "matmul": "api_matmul",
    "matmul_bias_gelu": "api_matmul",
    "max": "api_reduce",
    "measure": "measurement",
    "pipeline": "pipeline",
    "occupancy": "api_occupancy",
    "relu": "functions",
    "residual_layernorm": "api_rows",
    "rmsnorm": "api_rows",
    "softmax": "api_rows",
    "softmax_cross_entropy": "api_backward",
    "softmax_dropout": "api_rows",
    "sum": "api_reduce",
    "take": "api_take",
    "trace": "trace",
    "transpose": "functions",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*_HOMES, *(name for name in globals() if name.startswith("__"))})


class _Package(ModuleType):
    """Importing the module `kernellab.trace` must not hide the function `trace`."""

    def __setattr__(self, name: str, value: Any) -> None:
        if name in _HOMES and isinstance(value, ModuleType):
            value = getattr(value, name)
        super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package

__all__ = [
    "ArgumentError",
    "Benchmark",
    "Case",
    "Comparison",
    "CompileError",
    "EmulatedDevice",
    "ExecutionError",
    "GradScaler",
    "Kernel",
    "LabError",
    "MismatchError",
    "Problem",
    "Reading",
    "Record",
    "SpecError",
    "TensorMap",
    "Trace",
    "UnavailableError",
    "UnsupportedPTXError",
    "adamw",
    "apply",
    "argmax",
    "benchmark",
    "bias_gelu",
    "bias_gelu_backward",
    "clip_grad_norm",
    "compare",
    "copy",
    "cumsum",
    "device",
    "grad_norm",
    "histogram",
    "layernorm",
    "layernorm_gelu",
    "matmul",
    "matmul_bias_gelu",
    "max",
    "measure",
    "occupancy",
    "pipeline",
    "relu",
    "residual_layernorm",
    "rmsnorm",
    "softmax",
    "softmax_cross_entropy",
    "softmax_dropout",
    "sum",
    "take",
    "trace",
    "transpose",
]
