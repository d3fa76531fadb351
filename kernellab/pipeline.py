"""Pipeline: a kernel over host arrays in chunks; copies in, kernel and copies out overlap on several streams."""

from __future__ import annotations

import math
import operator
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from kernellab.api import apply
from kernellab.checks import Limits
from kernellab.devices import cuda_arrays
from kernellab.devices import device as find_device
from kernellab.errors import ArgumentError, SpecError
from kernellab.intake import by_name
from kernellab.kernel import Kernel, Language, covering
from kernellab.measurement import Job, prepare
from kernellab.plan import Plan, bind
from kernellab.problem import Array

if TYPE_CHECKING:
    from kernellab.devices.program import Device

WHOLE = "call kernellab.apply, which takes it as a whole"


@dataclass(frozen=True, eq=False)
class Work:
    """A kernel over host arrays that are cut along one axis; the chunks do not depend on each other.

    Attributes
    ----------
    plan : Plan
        Of the whole.
    axis : str
        The size that is cut; inputs without it go to every chunk.
    parts : tuple of slice
        Chunks along it; as long as each other but for the last.
    limits : Limits
        Of the device.
    """

    plan: Plan
    axis: str
    parts: tuple[slice, ...]
    limits: Limits

    def is_cut(self, name: str) -> bool:
        """Whether an input or output is cut."""
        return self.plan.kernel.problem.operand(name).shape[:1] == (self.axis,)

    def inputs(self, part: slice) -> dict[str, Any]:
        """Return the inputs of a chunk, as views."""
        return {name: array[part] if self.is_cut(name) else array for name, array in self.plan.inputs.items()}

    def leading(self, count: int) -> Plan:
        """Return the plan of the first so many rows: its launches are those of every chunk as long."""
        parameters: dict[str, Any] = dict(self.plan.parameters)
        return bind(self.plan.kernel, self.inputs(slice(0, count)), limits=self.limits, **parameters)


def pipeline(
    kernel: str | Kernel,
    *arrays: Any,
    chunks: int = 16,
    streams: int = 3,
    out: Any = None,
    language: Language = "cuda-c",
    device: str | Device = "auto",
    **parameters: Any,
) -> Any:
    """Run a kernel on host arrays in chunks, so that copying them in and out overlaps with computing.

    Parameters
    ----------
    kernel : str or Kernel
        One whose outputs' rows depend on the same rows of its inputs only, such as element by element, or a
        norm of each row. It is cut along the outputs' first axis.
    *arrays : array
        Its inputs in order, on the host. Those in page-locked memory (``cupyx.empty_pinned``) are copied from
        there; others go chunk by chunk through page-locked buffers of the pipeline's own, which takes the
        host's time.
    chunks : int
        How many; at most as many as there are rows. Only `streams` of them are on the device at a time, so that
        the arrays may be larger than its memory.
    streams : int
        How many chunks are on their way at a time.
    out : array, sequence or mapping of str to array, optional
        Where to put the outputs, on the host. After an error some chunks may have been written.
    language : {"cuda-c", "numba"}
    device : {"auto", "gpu", "emulator"} or Device
        The emulator runs one chunk after the other.
    **parameters : int or float
        Run-time scalars.

    Returns
    -------
    numpy.ndarray or tuple of numpy.ndarray
        The outputs in the kernel's order. All is done by then: the arrays may be overwritten.

    Raises
    ------
    ArgumentError, SpecError
        For bad input, arrays on a GPU, and kernels that cannot be cut; before anything runs.
    ExecutionError
        If a kernel goes wrong while it runs.

    Examples
    --------
    >>> import numpy as np
    >>> import kernellab as kl
    >>> x = np.arange(-500, 500, dtype="float32")
    >>> y = kl.pipeline("relu/branch_free", x, chunks=4, streams=2, device="emulator")
    >>> bool((y == np.maximum(x, 0)).all())
    True
    """
    place = find_device(device)
    job = _prepare(kernel, arrays, out, place, parameters)
    work = cut(job.plan, chunks, place.limits)
    streams = _positive("streams", streams)
    answers = {name: _room(job, name) for name in job.plan.outputs}
    if place.name == "gpu" and work.plan.steps:
        from kernellab.devices.gpu_pipeline import Pipeline, Way

        Pipeline(place, language, work, answers, Way(streams)).run()  # type: ignore[arg-type]
    else:
        _one_after_the_other(work, answers, language, place)
    originals = by_name(job.plan.kernel, out)
    for name, given in job.out.items():
        if given is not answers[name]:
            cuda_arrays.assign(given, answers[name])
    results = tuple(originals.get(name, answer) for name, answer in answers.items())
    return results[0] if len(results) == 1 else results


def _prepare(
    kernel: str | Kernel, arrays: tuple[Any, ...], out: Any, place: Device, parameters: Mapping[str, Any]
) -> Job:
    for array in arrays:
        if cuda_arrays.is_on_gpu(array):
            raise ArgumentError(
                f"pipeline: an array lives on a GPU already, there is nothing to copy; {WHOLE}"
            )
    job = prepare(kernel, arrays, device=place, out=out, parameters=parameters, may_make=False)
    if any(cuda_arrays.is_on_gpu(array) for array in job.out.values()):
        raise ArgumentError("pipeline: out lives on a GPU, it must be on the host; copy it there afterwards")
    return job


def _room(job: Job, name: str) -> Array:
    """Return where an output is gathered: the caller's own where chunks can be put there at any time."""
    given, spec = job.out.get(name), job.plan.outputs[name]
    if (
        isinstance(given, np.ndarray)
        and given.flags.c_contiguous
        and not any(np.may_share_memory(given, array) for array in job.plan.inputs.values())
    ):
        return given
    return np.empty(spec.shape, spec.dtype)


def _one_after_the_other(work: Work, answers: Mapping[str, Array], language: Language, place: Device) -> None:
    parameters: dict[str, Any] = dict(work.plan.parameters)
    for part in work.parts:
        kernel, inputs = work.plan.kernel, work.inputs(part)
        found = apply(kernel, *inputs.values(), language=language, device=place, **parameters)
        for (_, answer), chunk in zip(
            answers.items(), found if isinstance(found, tuple) else (found,), strict=True
        ):
            answer[part] = chunk


# -- where to cut
def cut(plan: Plan, chunks: int, limits: Limits) -> Work:
    """Cut a plan's arrays into chunks.

    Parameters
    ----------
    plan : Plan
        Of the whole, with host arrays.
    chunks : int
    limits : Limits
        Of the device.

    Raises
    ------
    SpecError
        If the outputs' rows depend on other rows of the inputs, or on which row they are.
    ArgumentError
        If `chunks` is no integer.
    """
    axis = axis_of(plan)
    return Work(plan, axis, parts(plan.sizes[axis], _positive("chunks", chunks)), limits)


def parts(count: int, chunks: int) -> tuple[slice, ...]:
    """Return so many parts of a length, or fewer; as long as each other but for the last.

    Examples
    --------
    >>> parts(10, 4)
    (slice(0, 3, None), slice(3, 6, None), slice(6, 9, None), slice(9, 10, None))
    """
    each = max(covering(count, chunks), 1)
    return tuple(slice(start, min(start + each, count)) for start in range(0, count, each))


def _positive(name: str, value: Any) -> int:
    try:
        number = operator.index(value)
    except TypeError:
        raise ArgumentError(f"pipeline: {name} is {value!r}, it must be an integer; pass one") from None
    if number < 1:
        raise SpecError(f"pipeline: {name} is {number}, it must be at least 1; pass more")
    return number


def axis_of(plan: Plan) -> str:
    """Return the size along which a plan's arrays can be cut.

    Raises
    ------
    SpecError
        If there is none.
    """
    kernel = plan.kernel
    firsts = {item.shape[:1] for item in kernel.outputs}
    axis = firsts.pop()[0] if len(firsts) == 1 and () not in firsts else ""
    held = [item.shape for item in (*kernel.inputs, *kernel.outputs)]
    is_first_only = not any(axis in shape[1:] for shape in held)
    is_read = any(item.shape[:1] == (axis,) for item in kernel.inputs)
    is_indexed = any(item.index_of == axis for item in kernel.inputs)
    if not (
        axis in plan.sizes and is_first_only and is_read and not is_indexed and _stands_alone(plan, axis)
    ):
        rule = "a row of its output depends on other rows of its inputs, or on its own number, so it cannot be cut"
        raise SpecError(f"pipeline: {kernel.id}: {rule}; {WHOLE}")
    return axis


def _stands_alone(plan: Plan, axis: str) -> bool:
    """Say whether each half of an answer is the answer of that half, by NumPy on a small case."""
    kernel = plan.kernel
    problem = kernel.problem
    cases = [case for case in problem.cases if min(case.sizes.values()) > 1]
    if not cases:
        return False
    small = min(cases, key=lambda case: math.prod(case.sizes.values()))
    given = problem.inputs(small)
    count = small.sizes[axis]
    parameters: dict[str, Any] = dict(plan.parameters)

    def answer(part: slice) -> dict[str, Array]:
        inputs = {
            item.name: given[item.name][part] if item.shape[:1] == (axis,) else given[item.name]
            for item in kernel.inputs
        }
        with np.errstate(all="ignore"):
            return problem.reference(**inputs, **parameters)

    whole = answer(slice(0, count))
    for part in parts(count, 2):
        for name, half in answer(part).items():
            if not np.allclose(half, whole[name][part], rtol=1e-9, atol=0, equal_nan=True):
                return False
    return True


__all__ = ["Work", "cut", "parts", "pipeline"]
