"""`measure`: one kernel run once, verified, and every number that can be read off it, as a Record."""

from __future__ import annotations

import functools
import platform
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from kernellab import timing
from kernellab.devices import cuda_arrays
from kernellab.devices import device as find_device
from kernellab.errors import ArgumentError, SpecError, UnavailableError
from kernellab.instruments import static
from kernellab.instruments import trace as counts
from kernellab.instruments.reading import Reading
from kernellab.intake import check_output, find_kernel, named_outputs, take_in
from kernellab.kernel import Kernel, Language
from kernellab.plan import Plan, bind
from kernellab.problem import Case
from kernellab.record import Record
from kernellab.source_code import source_hash
from kernellab.tensor_lists import flattened
from kernellab.timing import check_mode
from kernellab.verify import Comparison, Verdict, verify

if TYPE_CHECKING:
    from kernellab.devices.program import Device, Program, Run
    from kernellab.instruments.clock import Mode

SEED = 0
COUNTERS = ("ncu", "ncu-lines")


@dataclass(frozen=True, eq=False)
class Job:
    """A plan on its way to a device.

    Attributes
    ----------
    plan : Plan
    case : str
        Name of the case that the arrays come from, or empty.
    notes : tuple of str
        What was done to the caller's arrays.
    out : mapping of str to numpy.ndarray or cupy.ndarray
        The caller's outputs, to be assigned to after the run.
    """

    plan: Plan
    case: str
    notes: tuple[str, ...]
    out: Mapping[str, Any]

    @property
    def is_on_device(self) -> bool:
        """Whether any of its inputs came from a GPU."""
        return any(cuda_arrays.is_on_gpu(array) for array in self.plan.inputs.values())

    def scope(self, device: Device) -> AbstractContextManager[Any]:
        """Make the GPU current on which its arrays live; does nothing on the emulator."""
        return scope(device, (*self.plan.inputs.values(), *self.out.values()), self.plan.kernel.id)


def scope(device: Device, arrays: tuple[Any, ...], who: str) -> AbstractContextManager[Any]:
    """Make the GPU current on which arrays live; does nothing on the emulator.

    Raises
    ------
    SpecError
        If they live on several.
    """
    use = getattr(device, "use", None)
    return nullcontext() if use is None else use(arrays, who)


def prepare(
    kernel: str | Kernel,
    arrays: tuple[Any, ...],
    *,
    device: Device,
    case: str | Case | None = None,
    out: Any = None,
    parameters: Mapping[str, Any],
    may_make: bool = True,
) -> Job:
    """Turn the caller's arguments into a plan; everything that can be refused is refused here.

    Where there are no arrays those of a case are made, if that may be.
    """
    asked = find_kernel(kernel)
    name = ""
    if not arrays and may_make:
        chosen = _case(asked, case)
        name = chosen.name
        given = _inputs(asked, chosen)
        arrays = tuple(given[operand.name] for operand in asked.inputs)
        taken = {item.name for item in asked.parameters}
        own = {key: value for key, value in chosen.parameters.items() if key in taken}
        parameters = {**own, **parameters}
    elif case is not None:
        raise ArgumentError(
            f"{asked.id}: both arrays and case={case!r} are given, one is enough; leave one out"
        )
    outputs = named_outputs(asked, out, device)
    intake = take_in(asked, arrays, device)
    with scope(device, (*flattened(intake.inputs).values(), *outputs.values()), asked.id):
        plan = bind(asked, intake.inputs, limits=device.limits, fall_back=True, **parameters)
    for key, array in outputs.items():
        if key in plan.lists:
            raise SpecError(f"{asked.id}: {key} is a list here, out takes arrays only; leave it out")
        spec = plan.outputs[key]
        check_output(array, f"{asked.id}: {key}", spec.dtype, spec.shape)
    return Job(plan, name, (*intake.notes, *plan.notes), outputs)


def _case(kernel: Kernel, case: str | Case | None) -> Case:
    if case is None:
        return next(iter(kernel.cases), kernel.problem.cases[0])
    return case if isinstance(case, Case) else kernel.problem.case(case)


def _inputs(kernel: Kernel, case: Case) -> dict[str, Any]:
    try:
        return kernel.problem.inputs(case, SEED)
    except KeyError as error:
        names = ", ".join(kernel.problem.cases[0].sizes)
        raise SpecError(
            f"{kernel.id}: case {case.name!r} has no size {error}, it needs {names}; add it"
        ) from None


def measure(
    kernel: str | Kernel,
    *arrays: Any,
    case: str | Case | None = None,
    language: Language = "cuda-c",
    device: str | Device = "auto",
    sanitize: bool = False,
    out: Any = None,
    mode: Mode | None = "cold",
    counters: str = "",
    isolated: bool = False,
    **parameters: Any,
) -> Record:
    """Run a kernel, verify it, and return everything that can be read off it.

    Parameters
    ----------
    kernel : str or Kernel
        An id such as ``"transpose/padded"``, or a Kernel, for one with constants replaced.
    *arrays : array
        Its inputs in order. None given: those of `case`, with a fixed seed.
    case : str or Case, optional
        One of the problem's cases; by default its first.
    language : {"cuda-c", "numba"}
    device : {"auto", "gpu", "emulator", "both"} or Device
        ``"auto"`` is the GPU if there is one, else the emulator. ``"both"`` is the GPU with the emulator's
        counts beside its own (``record.reading(name, "counted")`` and ``"measured"``); notes name those that
        differ.
    sanitize : bool
        Also look for races in shared memory; on the emulator.
    out : array or mapping of str to array, optional
        Where to put the outputs, as for `apply`; left alone if the kernel went wrong while it ran.
    mode : {"cold", "hot", "graph"} or None
        How a GPU times it: each sample on data that the L2 does not hold, on data that it may hold, or
        replayed from a CUDA graph. None does not time. The emulator never does.
    counters : {"", "ncu", "ncu-lines"}
        Also read the GPU's hardware counters, by Nsight Compute in a child process; those of each source
        line too. Where they cannot be read a note says why, and the emulator counts if the grid is small.
    isolated : bool
        Run in a process of its own, for kernels that may break the CUDA context.
    **parameters : int or float
        Run-time scalars such as ``stride=8``.

    Returns
    -------
    Record
        Also for a wrong kernel: then ``verdict`` says what is wrong, and there is no speed.

    Raises
    ------
    ArgumentError, SpecError
        For bad input; before anything runs.
    CompileError
        If a source does not compile.
    UnavailableError
        If the device or a compiler is not here.
    ExecutionError
        If a CUDA call fails, or a speed is faster than memory.

    Examples
    --------
    >>> import kernellab as kl
    >>> record = kl.measure("copy/strided", device="emulator", stride=4)
    >>> record.is_right, record.value("sectors_per_request_load")
    (True, 16.0)
    >>> record.reading("global_load_sectors")
    Reading(name='global_load_sectors', value=32768.0, unit='sectors', source='counted', note='SASS')
    """
    check_options("measure", mode, counters)
    if isolated:
        from kernellab.isolation import measure_apart

        options: dict[str, Any] = {"case": case, "language": language, "device": device, "sanitize": sanitize}
        options |= {"mode": mode, "counters": counters}
        return measure_apart(kernel, arrays, options, out, parameters)
    from kernellab.hardware import with_counts

    place, is_both = find_place(device)
    job = prepare(kernel, arrays, device=place, case=case, out=out, parameters=parameters)
    with job.scope(place):
        record, run = observe(job, place, language, sanitize=sanitize)
        if mode is not None:
            (record,) = with_times((record,), (run,), job, place, mode)
        record = with_counts(record, job, place, counters, is_both)
        if not run.errors:
            for name, array in job.out.items():
                cuda_arrays.assign(array, run.outputs[name])
    return record


def check_options(who: str, mode: str | None, counters: str) -> None:
    """Refuse an unknown mode, or counters that nobody has."""
    if mode is not None:
        check_mode(mode, who)
    if counters not in ("", *COUNTERS):
        known = " or ".join(map(repr, COUNTERS))
        raise SpecError(f"{who}: counters is {counters!r}, it must be {known} or empty; correct it")


def find_place(device: str | Device) -> tuple[Device, bool]:
    """Return the device, and whether the emulator is to count beside it."""
    return (find_device("gpu"), True) if device == "both" else (find_device(device), False)


def with_times(
    records: tuple[Record, ...], runs: tuple[Run, ...], job: Job, device: Device, mode: Mode
) -> tuple[Record, ...]:
    """Return Records with what a GPU's clock says of them, interleaved; as they are without a GPU.

    A wrong kernel is not timed, and one that is wrong after the timed loop loses its verdict and has no
    speed.
    """
    if device.name != "gpu" or not job.plan.steps:
        return records
    right = [record.language for record in records if record.is_right]
    programs: dict[str, Program] = {
        language: device.build(job.plan.kernel, language)  # type: ignore[arg-type]
        for language in right
    }
    if not programs:
        return records
    answers = {record.language: run.outputs for record, run in zip(records, runs, strict=True)}
    timed = timing.time_programs(device, programs, job.plan, answers, mode=mode)  # type: ignore[arg-type]
    cost = timing.host_plan(device, job.plan).cost()
    return tuple(
        _timed(record, timed[record.language], cost.nbytes, cost.flops)
        if record.language in timed
        else record
        for record in records
    )


def _timed(record: Record, timed: timing.Timed, nbytes: int, flops: int) -> Record:
    notes = tuple(dict.fromkeys((*record.notes, *timed.notes)))
    if timed.verdict is not None:
        return replace(record, verdict=timed.verdict, notes=notes)
    found = timing.readings(timed, nbytes, flops)
    return replace(
        record, readings=(*record.readings, *found), notes=notes, timings=(*record.timings, timed.timing)
    )


def observe(job: Job, device: Device, language: Language, *, sanitize: bool = False) -> tuple[Record, Run]:
    """Build, run and verify a job; return its Record, and the run for its outputs. Nothing is timed."""
    plan = job.plan
    program = device.build(plan.kernel, language)
    run = device.run(program, plan, sanitize=sanitize)
    verdict = judge(timing.host_plan(device, plan), run)
    readings, reasons = _read(program, plan, run)
    launch = plan.steps[0] if plan.steps else None
    notes = [*job.notes, *reasons, *(note for trace in run.traces for note in trace.notes)]
    if launch is None:
        notes.append(f"{plan.kernel.id}: there is nothing to do, so nothing was launched")
    arrays = {operand.name: operand.dtype for operand in plan.kernel.operands}
    texts = [item.message for trace in run.traces for item in trace.diagnostics]
    about = {key: str(value) for key, value in device.describe().items()}
    record = Record(
        kernel=plan.kernel.id,
        language=language,
        device=device.name,
        device_name=about.get("device", device.name),
        arch=program.arch,
        case=job.case,
        sizes=dict(plan.sizes),
        parameters={key: value.item() for key, value in plan.parameters.items()},
        dtypes=arrays,
        grid=launch.grid if launch else (0, 0, 0),
        block=launch.block if launch else (0, 0, 0),
        shared_mem=launch.shared_mem if launch else 0,
        constants=dict(launch.constants if launch else plan.kernel.constants),
        source_hash=source_hash(plan.kernel, language),
        verdict=verdict,
        readings=readings,
        lines=counts.lines(run.traces),
        diagnostics=tuple(texts) or run.errors,
        notes=tuple(dict.fromkeys(notes)),
        environment={**environment(), **about},
    )
    return record, run


def judge(plan: Plan, run: Run) -> Verdict:
    """Compare a run's outputs with the reference; what the kernel did wrong fails it too."""
    verdict = verify(plan, run.outputs)
    if not run.errors:
        return verdict
    message = run.errors[0].removeprefix(f"{plan.kernel.id}: ")
    return Verdict(verdict.who, (*verdict.comparisons, Comparison("run", len(run.errors), 1, message)))


def _read(program: Program, plan: Plan, run: Run) -> tuple[tuple[Reading, ...], list[str]]:
    launches = Reading("launches", float(len(plan.steps)), "launches", "derived", "of the plan")
    readings = (*counts.readings(run.traces), launches)
    instruments: tuple[Callable[[Program, Plan], tuple[Reading, ...]], ...]
    instruments = (static.resources, static.ptx_mix, static.sass_mix)
    reasons = []
    for instrument in instruments:
        try:
            readings += instrument(program, plan)
        except UnavailableError as error:
            reasons.append(str(error))
    return readings, reasons


PACKAGES = (
    "kernellab",
    "numpy",
    "cupy-cuda13x",
    "cupy-cuda12x",
    "numba-cuda",
    "nvidia-cuda-nvrtc",
    "nvidia-cuda-nvrtc-cu12",
    "nvidia-cuda-nvdisasm",
)
"""Those whose versions decide what is found; of CUDA 13 and 12 one is installed."""


@functools.cache
def _versions() -> Mapping[str, str]:
    from importlib import metadata

    found = {"python": platform.python_version(), "system": platform.platform()}
    for name in PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def environment() -> dict[str, str]:
    """Return the versions and the machine that a Record carries."""
    return dict(_versions())
