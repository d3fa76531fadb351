"""Compilers: CUDA C, Numba and foreign PTX to `Binary`; the machine code's listing; one disk cache."""
