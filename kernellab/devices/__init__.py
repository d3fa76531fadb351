"""Devices: where programs are built and run. Importing this loads no compiler and touches no device."""

from __future__ import annotations

import functools
import os
import warnings
from typing import TYPE_CHECKING

from kernellab.errors import ArgumentError, SpecError, UnavailableError

if TYPE_CHECKING:
    from kernellab.devices.program import Device

DEVICES = ("auto", "gpu", "emulator")


def device(name: str | Device = "auto") -> Device:
    """Return a device by name.

    Parameters
    ----------
    name : {"auto", "gpu", "emulator"} or Device
        ``"auto"`` is the GPU if there is one, else the emulator; with a warning where CUDA's driver is here and
        a CuPy that can be imported is not. A device comes back as it is.

    Returns
    -------
    Device
        The same object each time, so that what it built is kept.

    Raises
    ------
    UnavailableError
        If it is not here.
    SpecError, ArgumentError
        For any other name, or what is neither.

    Examples
    --------
    >>> device("emulator").name
    'emulator'
    """
    if not isinstance(name, str):
        if not hasattr(name, "build"):
            kind = type(name).__name__
            raise ArgumentError(f"device is a {kind}, it must be a name or a device; pass device='auto'")
        return name
    if name not in DEVICES:
        raise SpecError(f"device: {name!r} is no device, it must be one of {', '.join(DEVICES)}; correct it")
    if name == "gpu":
        return _gpu()
    if name == "auto" and has_driver():
        try:
            return _gpu()
        except UnavailableError as error:
            if isinstance(error.__cause__, ImportError | OSError | AttributeError):
                warnings.warn(f"device: 'auto' is the emulator; {error}", stacklevel=2)
    return _emulator()


@functools.cache
def _emulator() -> Device:
    from kernellab.devices.emulated import EmulatedDevice

    return EmulatedDevice()


@functools.cache
def _gpu() -> Device:
    from kernellab.devices.gpu import GpuDevice

    return GpuDevice()


@functools.cache
def has_driver() -> bool:
    """Whether CUDA's driver is here: asked before CuPy, which takes long to import."""
    import ctypes

    try:
        ctypes.CDLL("nvcuda.dll" if os.name == "nt" else "libcuda.so.1")
    except OSError:
        return False
    return True


__all__ = ["DEVICES", "device", "has_driver"]
