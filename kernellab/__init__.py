"""A laboratory for CUDA kernels in Python, without PyTorch."""

from kernellab.trace import Trace, trace
__all__ = ["Trace", "trace"]
