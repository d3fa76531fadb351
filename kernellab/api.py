"""`apply`: run a kernel on arrays and return what it wrote."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kernellab.devices import device as find_device
from kernellab.errors import ExecutionError
from kernellab.kernel import Kernel, Language
from kernellab.measurement import prepare

if TYPE_CHECKING:
    from kernellab.devices.program import Device


def apply(
    kernel: str | Kernel,
    *arrays: Any,
    language: Language = "cuda-c",
    device: str | Device = "auto",
    out: Any = None,
    **parameters: Any,
) -> Any:
    """Run a kernel and return what it wrote, right or wrong.

    Parameters
    ----------
    kernel : str or Kernel
        An id such as ``"transpose/padded"``, or a Kernel.
    *arrays : array
        Its inputs in order: NumPy arrays, or objects with ``__dlpack__`` or ``__array__``, of exactly the
        kernel's dtypes. Views of any strides are copied first.
    language : {"cuda-c", "numba"}
    device : {"auto", "gpu", "emulator"} or Device
    out : array, sequence or mapping of str to array, optional
        Where to put the outputs; any strides, and it may overlap an input.
    **parameters : int or float
        Run-time scalars such as ``stride=8``.

    Returns
    -------
    numpy.ndarray or tuple of numpy.ndarray
        The outputs in the kernel's order; `out` itself where it was given.

    Raises
    ------
    ArgumentError, SpecError
        For bad input; before anything runs.
    ExecutionError
        If the kernel goes wrong while it runs; `out` is then as it was.
    CompileError, UnavailableError
        If a source does not compile, or something is not here.

    Examples
    --------
    >>> import numpy as np
    >>> import kernellab as kl
    >>> kl.apply("copy/strided", np.arange(4, dtype="float32"), stride=2, device="emulator")
    array([0., 1., 2., 3.], dtype=float32)
    """
    place = find_device(device)
    job = prepare(kernel, arrays, device=place, out=out, parameters=parameters)
    run = place.run(place.build(job.plan.kernel, language), job.plan)
    if run.errors:
        raise ExecutionError(run.failure or run.errors[0])
    results = []
    for name, result in run.outputs.items():
        given = job.out.get(name)
        if given is not None:
            given[...] = result
        results.append(result if given is None else given)
    return results[0] if len(results) == 1 else tuple(results)
