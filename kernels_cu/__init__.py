"""CUDA C kernels, one folder a problem; this file makes the folder a package."""
