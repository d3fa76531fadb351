"""Intake: the caller's arrays as a kernel can take them, with a note for everything that was done to them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from kernellab import catalog
from kernellab.arrays import spec_of
from kernellab.checks import misalignment
from kernellab.devices import cuda_arrays
from kernellab.errors import ArgumentError, SpecError, UnavailableError
from kernellab.kernel import Kernel
from kernellab.problem import Array
from kernellab.tensor_lists import is_list

if TYPE_CHECKING:
    from kernellab.devices.program import Device

MOST_BYTES = 2**31
"""What a call on the emulator may copy at most."""


@dataclass(frozen=True)
class Intake:
    """Arrays to bind to a kernel.

    Attributes
    ----------
    inputs : mapping of str to numpy.ndarray or cupy.ndarray, or a tuple of such
        C-contiguous; aligned as the kernel needs them, unless it has a fallback for those that are not.
    notes : tuple of str
        What was copied, one sentence each.
    """

    inputs: Mapping[str, Any]
    notes: tuple[str, ...] = field(default=())


def find_kernel(kernel: str | Kernel) -> Kernel:
    """Return the kernel that an id stands for; a Kernel comes back as it is.

    Raises
    ------
    ArgumentError
        For anything else.
    SpecError
        For an id that the catalogue does not have.
    """
    if isinstance(kernel, Kernel):
        return kernel
    if not isinstance(kernel, str):
        kind = type(kernel).__name__
        raise ArgumentError(
            f"kernel is a {kind}, it must be an id or a Kernel; write it like 'transpose/padded'"
        )
    return catalog.kernel(kernel)


def take_in(kernel: Kernel, arrays: Sequence[Any], device: Device | None = None) -> Intake:
    """Prepare the caller's arrays.

    Parameters
    ----------
    kernel : Kernel
        What they are for.
    arrays : sequence of array
        One for each of ``kernel.inputs``, in that order: NumPy arrays, or objects with ``__dlpack__`` or
        ``__array__``. Views of any strides are copied.
    device : Device, optional
        Where they are to be used. The GPU also takes CuPy arrays and objects with
        ``__cuda_array_interface__``, which stay where they are.

    Returns
    -------
    Intake

    Raises
    ------
    ArgumentError
        For a wrong number of arrays, or what is no array.
    UnavailableError
        For arrays on a GPU, where this runs on the emulator.
    """
    operands = {operand.name: operand for operand in kernel.inputs}
    names = list(operands)
    if len(arrays) != len(names):
        count = f"{len(names)} array{'s' if len(names) != 1 else ''}"
        raise ArgumentError(f"{kernel.id}: takes {count} ({', '.join(names)}), got {len(arrays)}")
    inputs: dict[str, Any] = {}
    notes: list[str] = []

    def taken(given: Any, who: str) -> Any:
        array = as_array(given, who, device)
        array, note = contiguous(array, who, device)
        notes.append(note)
        if kernel.fallback is None:
            array, note = aligned(kernel, array, who, device)
            notes.append(note)
        return array

    for name, given in zip(names, arrays, strict=True):
        who = f"{kernel.id}: {name}"
        if operands[name].is_list and is_list(given):
            inputs[name] = tuple(taken(each, f"{who}[{k}]") for k, each in enumerate(given))
        else:
            inputs[name] = taken(given, who)
    return Intake(inputs, tuple(note for note in notes if note))


def as_array(given: Any, who: str, device: Device | None = None) -> Any:
    """Return an array object as a NumPy array, or as a CuPy array if it lives on the GPU that is to use it.

    Raises
    ------
    ArgumentError, UnavailableError
        See `take_in`.
    """
    if device is not None and device.name == "gpu" and cuda_arrays.is_on_gpu(given):
        return cuda_arrays.take(device.cupy, given, who)  # type: ignore[attr-defined]
    return as_numpy(given, who)


def as_numpy(given: Any, who: str) -> Array:
    """Return an array object as a NumPy array, without a copy where its protocol allows.

    Raises
    ------
    ArgumentError, UnavailableError
        See `take_in`.
    """
    if isinstance(given, np.ma.MaskedArray):
        raise ArgumentError(f"{who} is a masked array, a kernel cannot see the mask; fill it with .filled()")
    if isinstance(given, np.ndarray):
        return np.asarray(given)
    if given is None:
        raise ArgumentError(f"{who} is None, it must be an array; pass one")
    if cuda_arrays.is_on_gpu(given):
        raise UnavailableError(
            f"{who} lives on a GPU, where the emulator cannot read it; copy it to the host, say with "
            "cupy.asnumpy"
        )
    if hasattr(given, "__dlpack__") and hasattr(given, "__dlpack_device__"):
        return _exported(np.from_dlpack, given, who)
    if hasattr(given, "__array__"):
        return _exported(np.asarray, given, who)
    kind = type(given).__name__
    raise ArgumentError(f"{who} is a {kind}, it must be an array; make one with numpy.asarray")


def _exported(protocol: Callable[[Any], Array], given: Any, who: str) -> Array:
    try:
        return protocol(given)
    except Exception as error:  # whatever a foreign library raises
        kind = type(given).__name__
        rule = f"it must give a NumPy array, and refuses: {error}"
        raise ArgumentError(f"{who} is a {kind}, {rule}; convert it first") from error


def check_copy(nbytes: int, what: str, device: Device | None) -> None:
    """Refuse to copy for the emulator what would take hours there, and memory that may not be here.

    Raises
    ------
    SpecError
    """
    if device is not None and device.name == "emulator" and nbytes > MOST_BYTES:
        raise SpecError(
            f"{what} {nbytes} bytes once copied, and for a call on the emulator the limit is {MOST_BYTES}; "
            "pass fewer elements"
        )


def flat(array: Any, who: str, device: Device | None) -> Any:
    """Return the elements of an array along one axis, a copy where a view cannot do.

    Raises
    ------
    SpecError
        See `check_copy`.
    """
    if array.ndim == 1:
        return array
    if not spec_of(array, who).is_contiguous:
        check_copy(array.nbytes, f"{who} is", device)
    return _copied(lambda: array.reshape(-1), who)


def _copied(copy: Callable[[], Any], who: str) -> Any:
    try:
        return copy()
    except MemoryError as error:
        raise UnavailableError(
            f"{who}: there is not enough memory to copy it ({error}); pass fewer elements"
        ) from error


def contiguous(array: Any, who: str, device: Device | None = None) -> tuple[Any, str]:
    """Return the array itself if a kernel can walk it, else a C-contiguous copy and a note."""
    spec = spec_of(array, who)
    if spec.size and not spec.is_contiguous:
        reason = f"its strides {spec.strides} are not those of a C-contiguous {spec.shape}"
    elif spec.size and spec.pointer % spec.dtype.alignment:
        reason = f"it is not aligned to {spec.dtype.alignment} bytes"
    else:
        return array, ""
    check_copy(spec.nbytes, f"{who} is", device)
    copy = _copied(
        lambda: np.array(array, order="C") if isinstance(array, np.ndarray) else array.copy(order="C"), who
    )
    return copy, f"{who} was copied ({spec.nbytes} bytes): {reason}"


def aligned(kernel: Kernel, array: Any, who: str, device: Device | None = None) -> tuple[Any, str]:
    """Return the array itself if the kernel's vector access can take it, else an aligned copy and a note."""
    why = misalignment(kernel, who, spec_of(array, who))
    if not why:
        return array, ""
    check_copy(array.nbytes, f"{who} is", device)
    # Device memory of its own is aligned to 512 bytes.
    copy = _copied(
        lambda: (
            _aligned_copy(array, kernel.alignment) if isinstance(array, np.ndarray) else array.copy(order="C")
        ),
        who,
    )
    return copy, f"{why}; it was copied ({array.nbytes} bytes)"


def _aligned_copy(array: Array, alignment: int) -> Array:
    room = np.empty(array.nbytes + alignment, np.uint8)
    start = -room.ctypes.data % alignment
    copy: Array = room[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    copy[...] = array
    return copy


def named_outputs(kernel: Kernel, out: Any, device: Device | None = None) -> dict[str, Any]:
    """Return the caller's outputs by name, checked as far as can be told without the inputs.

    Parameters
    ----------
    kernel : Kernel
        What writes them.
    out : None, array, sequence of array, or mapping of str to array
    device : Device, optional
        On the GPU an output may live there.

    Returns
    -------
    dict of str to numpy.ndarray or cupy.ndarray
        Of those, arrays of other libraries as CuPy's views.

    Raises
    ------
    ArgumentError, SpecError
        For what cannot be an output.
    """
    names = [operand.name for operand in kernel.outputs]
    named = by_name(kernel, out)
    for name, array in named.items():
        if name not in names:
            raise ArgumentError(f"{kernel.id}: {name} is not an output; the outputs are {', '.join(names)}")
        who = f"{kernel.id}: {name}"
        named[name] = writable(array, who, device)
        # What holds elements of several dtypes is looked at once the inputs are known.
        dtype = kernel.problem.operand(name).dtype
        check_output(named[name], who, None if dtype == "element" else np.dtype(dtype))
    return named


def by_name(kernel: Kernel, out: Any) -> dict[str, Any]:
    """Return the caller's outputs by name, as they were given.

    Raises
    ------
    ArgumentError
        For a wrong number.
    """
    names = [operand.name for operand in kernel.outputs]
    if out is None:
        return {}
    if isinstance(out, Mapping):
        return dict(out)
    given = tuple(out) if isinstance(out, tuple | list) else (out,)
    if len(given) != len(names):
        raise ArgumentError(f"{kernel.id}: out has {len(given)} arrays, the outputs are {', '.join(names)}")
    return dict(zip(names, given, strict=True))


def writable(array: Any, who: str, device: Device | None, name: str = "out") -> Any:
    """Return an output on the GPU as a CuPy array; anything else as it is."""
    if device is None or device.name != "gpu" or not cuda_arrays.is_on_gpu(array):
        return array
    interface = getattr(array, "__cuda_array_interface__", None)
    if interface is not None and interface["data"][1]:
        raise SpecError(f"{who}: {name} is read-only, an output must be writeable; give another output")
    return cuda_arrays.take(device.cupy, array, who)  # type: ignore[attr-defined]


def check_output(
    array: Any,
    who: str,
    dtype: np.dtype[Any] | None,
    shape: tuple[int, ...] | None = None,
    name: str = "out",
) -> None:
    """Refuse what cannot be assigned to: no array, wrong dtype or shape, read-only, stride 0."""
    who = f"{who}: {name}"
    is_host = isinstance(array, np.ndarray)
    if not is_host and not cuda_arrays.is_cupy(array):
        kind = type(array).__name__
        raise ArgumentError(f"{who} is a {kind}, it must be a NumPy array; make one with numpy.empty")
    if isinstance(array, np.ma.MaskedArray):
        raise ArgumentError(f"{who} is a masked array, a kernel cannot see the mask; give its .data")
    if dtype is not None and array.dtype != dtype:
        raise ArgumentError(f"{who} has dtype {array.dtype}, it must be {dtype}; give another output")
    if shape is not None and array.shape != shape:
        raise SpecError(f"{who} has shape {array.shape}, it must be {shape}; give another output")
    if is_host and not array.flags.writeable:
        raise SpecError(f"{who} is read-only, an output must be writeable; give another output")
    low, high = spec_of(array, who).extent
    if high - low < array.nbytes:
        rule = "an output must have a place of its own for each element"
        raise SpecError(f"{who} has strides {array.strides} for shape {array.shape}, {rule}; give another")
