"""`apply`: run a kernel on arrays and return what it wrote."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from kernellab.devices import cuda_arrays
from kernellab.devices import device as find_device
from kernellab.errors import ExecutionError
from kernellab.intake import by_name, find_kernel
from kernellab.kernel import Kernel, Language
from kernellab.measurement import Job, prepare

if TYPE_CHECKING:
    from kernellab.devices.program import Device


def apply(
    kernel: str | Kernel,
    *arrays: Any,
    language: Language = "cuda-c",
    device: str | Device = "auto",
    out: Any = None,
    constants: Mapping[str, int] | None = None,
    **parameters: Any,
) -> Any:
    """Run a kernel and return what it wrote, right or wrong.

    Parameters
    ----------
    kernel : str or Kernel
        An id such as ``"transpose/padded"``, or a Kernel.
    *arrays : array
        Its inputs in order: NumPy arrays, or objects with ``__dlpack__`` or ``__array__``, of exactly the
        kernel's dtypes. On a GPU also CuPy arrays and objects with ``__cuda_array_interface__``, which are
        used where they are; the current stream is made to wait for the one they were made on, if they name
        it. Views of any strides are copied first.
    language : {"cuda-c", "numba"}
    device : {"auto", "gpu", "emulator"} or Device
    out : array, sequence or mapping of str to array, optional
        Where to put the outputs; any strides, and it may overlap an input. With inputs on a GPU a contiguous
        one there is written by the kernel itself.
    constants : mapping of str to int, optional
        The kernel's launch shape and other constants, such as ``{"VECTORS": 8}``, in place of those chosen
        from the sizes and the device. They make another kernel, which is compiled; see `Kernel.constants`.
        Where the block itself is no constant: ``replace(kernel, geometry=replace(kernel.geometry,
        block=(512,)))``.
    **parameters : int or float
        Run-time scalars such as ``stride=8``.

    Returns
    -------
    numpy.ndarray, cupy.ndarray or tuple of these
        The outputs in the kernel's order; `out` itself where it was given. CuPy arrays if any input is on a
        GPU: the work is then only queued on CuPy's current stream, and nothing waits for it. Index arrays on
        a GPU are therefore not looked at, and what goes wrong shows itself later.

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
    asked = find_kernel(kernel).with_constants(**constants) if constants else kernel
    job = prepare(asked, arrays, device=place, out=out, parameters=parameters, may_make=False)
    originals = by_name(job.plan.kernel, out)
    with job.scope(place):
        outputs = _outputs(job, place, language)
        results = []
        for name, result in outputs.items():
            given = job.out.get(name)
            if given is not None and given is not result:
                cuda_arrays.assign(given, result)
            results.append(result if given is None else originals[name])
    return results[0] if len(results) == 1 else tuple(results)


def _outputs(job: Job, place: Device, language: Language) -> Mapping[str, Any]:
    program = place.build(job.plan.kernel, language, with_ladder=False)
    queue = getattr(place, "apply", None)
    if queue is not None and job.is_on_device:
        on_device = {name: array for name, array in job.out.items() if cuda_arrays.is_on_gpu(array)}
        queued: Mapping[str, Any] = queue(program, job.plan, on_device)
        return queued
    run = place.run(program, job.plan, is_counted=False)
    if run.errors:
        raise ExecutionError(run.failure or run.errors[0])
    return run.outputs
