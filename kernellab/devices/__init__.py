"""Devices: where programs are built and run. Importing this loads no compiler and touches no device."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from kernellab.errors import SpecError, UnavailableError

if TYPE_CHECKING:
    from kernellab.devices.program import Device

DEVICES = ("auto", "gpu", "emulator")


def device(name: str | Device = "auto") -> Device:
    """Return a device by name.

    Parameters
    ----------
    name : {"auto", "gpu", "emulator"} or Device
        ``"auto"`` is the GPU if there is one, else the emulator. A device comes back as it is.

    Returns
    -------
    Device
        The same object each time, so that what it built is kept.

    Raises
    ------
    UnavailableError
        If it is not here.
    SpecError
        For any other name.

    Examples
    --------
    >>> device("emulator").name
    'emulator'
    """
    if not isinstance(name, str):
        return name
    if name not in DEVICES:
        raise SpecError(f"device: {name!r} is no device, it must be one of {', '.join(DEVICES)}; correct it")
    if name == "emulator":
        return _emulator()
    try:
        return _gpu()
    except UnavailableError:
        if name == "gpu":
            raise
        return _emulator()


@functools.cache
def _emulator() -> Device:
    from kernellab.devices.emulated import EmulatedDevice

    return EmulatedDevice()


def _gpu() -> Device:
    # The place of devices/gpu.py.
    raise UnavailableError(
        "device: 'gpu' is not here, this version runs kernels on the emulator only; pass device='emulator'"
    )


__all__ = ["DEVICES", "device"]
