"""Arrays on a GPU, from whatever library: taken in without a copy and without waiting, assigned to."""

from __future__ import annotations

from typing import Any

import numpy as np

from kernellab.errors import ArgumentError, UnavailableError

DLPACK_CPU = (1, 3)
DLPACK_CUDA = (2, 13)
LEGACY_STREAM = 1
"""How ``__cuda_array_interface__`` spells CUDA's default stream, which CuPy spells 0."""


def is_on_gpu(given: Any) -> bool:
    """Whether an array lives on a GPU; touches no device.

    Examples
    --------
    >>> is_on_gpu(np.zeros(3)), is_on_gpu([1.0])
    (False, False)
    """
    if isinstance(given, np.ndarray):
        return False
    if hasattr(given, "__cuda_array_interface__"):
        return True
    if not (hasattr(given, "__dlpack__") and hasattr(given, "__dlpack_device__")):
        return False
    return bool(given.__dlpack_device__()[0] not in DLPACK_CPU)


def is_cupy(given: Any) -> bool:
    """Whether it is a CuPy array; imports nothing."""
    return type(given).__module__.partition(".")[0] == "cupy" and hasattr(given, "__cuda_array_interface__")


def take(cupy: Any, given: Any, who: str) -> Any:
    """Return an array on a GPU as a CuPy array, without a copy.

    Where its library says on which stream it was made, the current stream is made to wait for that one; the
    host does not wait.

    Parameters
    ----------
    cupy : module
    given : cupy.ndarray, or an object with ``__cuda_array_interface__`` or DLPack
    who : str
        Its name, for messages.

    Raises
    ------
    ArgumentError
        If its library refuses to give it.
    UnavailableError
        If it lives on another kind of device.
    """
    if isinstance(given, cupy.ndarray):
        return given
    if hasattr(given, "__cuda_array_interface__"):
        return _take_interface(cupy, given, who)
    kind = given.__dlpack_device__()[0]
    if kind not in DLPACK_CUDA:
        raise UnavailableError(
            f"{who} lives on a device of DLPack's kind {int(kind)}, not on a CUDA GPU; copy it"
        )
    try:
        return cupy.from_dlpack(given)  # its library makes the current stream wait
    except Exception as error:  # whatever a foreign library raises
        name = type(given).__name__
        raise ArgumentError(
            f"{who} is a {name}, its DLPack export fails: {error}; convert it first"
        ) from error


def _take_interface(cupy: Any, given: Any, who: str) -> Any:
    interface = given.__cuda_array_interface__
    if interface.get("mask") is not None:
        raise ArgumentError(f"{who} is a masked array, a kernel cannot see the mask; fill it")
    shape = tuple(int(length) for length in interface["shape"])
    dtype = np.dtype(interface["typestr"])
    strides = interface.get("strides")
    pointer = int(interface["data"][0] or 0)
    if not pointer or 0 in shape:
        return cupy.empty(shape, dtype)
    reach = zip(shape, strides or (), strict=False)
    # The memory starts at the lowest address that an element has.
    low = sum((length - 1) * step for length, step in reach if step < 0)
    high = sum((length - 1) * step for length, step in zip(shape, strides or (), strict=False) if step > 0)
    nbytes = (
        high - low if strides else int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
    ) + dtype.itemsize
    memory = cupy.cuda.UnownedMemory(pointer + low, nbytes, given)
    array = cupy.ndarray(
        shape,
        dtype,
        memptr=cupy.cuda.MemoryPointer(memory, -low),
        strides=tuple(strides) if strides else None,
    )
    stream = interface.get("stream")
    if stream is not None:
        wait_for(cupy, int(stream), int(memory.device_id))
    return array


def wait_for(cupy: Any, stream: int, device: int) -> None:
    """Make a device's current stream wait for what is on another stream by now; the host goes on.

    Parameters
    ----------
    cupy : module
    stream : int
        A handle as in ``__cuda_array_interface__``: 1 is the default stream.
    device : int
        Where the stream lives.
    """
    with cupy.cuda.Device(device):
        current = int(cupy.cuda.get_current_stream().ptr)
        if (current or LEGACY_STREAM) == (stream or LEGACY_STREAM):
            return
        event = cupy.cuda.Event(disable_timing=True)
        cupy.cuda.runtime.eventRecord(event.ptr, stream)
        cupy.cuda.runtime.streamWaitEvent(current, event.ptr, 0)


def assign(given: Any, result: Any) -> None:
    """Write a result into the caller's array; either may be on the GPU. It waits only towards the host."""
    if isinstance(given, np.ndarray):
        given[...] = result if isinstance(result, np.ndarray) else result.get()
    elif not isinstance(result, np.ndarray):
        given[...] = result
    elif given.flags.c_contiguous:
        given.set(np.asarray(result, order="C"))
    else:
        copy = type(given)(result.shape, result.dtype)
        copy.set(np.asarray(result, order="C"))
        given[...] = copy
