"""What ``cuda_trace`` does: run on the emulator, verify, and return what was counted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from kernellab.devices import device as find_device
from kernellab.errors import ExecutionError, SpecError
from kernellab.kernel import Kernel, Language
from kernellab.measurement import Job, judge, prepare

if TYPE_CHECKING:
    from kernellab.trace import Trace

SUMMARY = ("global_load_sectors", "global_store_sectors", "shared_load_bank_conflicts", "divergent_branches")


def count(kernel: Any, *args: Any, language: Language = "cuda-c", **kwargs: Any) -> Trace:
    """Run a kernel on the emulator: one of the catalogue, verified, or anybody's as `kernellab.trace`.

    Raises
    ------
    MismatchError
        If a kernel of the catalogue gives a wrong answer.
    SpecError
        If it has several launches.
    """
    from kernellab import catalog
    from kernellab.trace import trace

    is_listed = isinstance(kernel, str) and kernel.partition("/")[0] in catalog.PROBLEMS
    if not is_listed and not isinstance(kernel, Kernel):
        return trace(kernel, *args, **kwargs)
    place = find_device("emulator")
    case = kwargs.pop("case", None)
    found = counted(prepare(kernel, args, device=place, case=case, parameters=kwargs), language)
    if len(found) != 1:
        raise SpecError(f"cuda_trace: {kernel} has {len(found)} launches, it must have one; trace each alone")
    return found[0]


def counted(job: Job, language: Language) -> tuple[Trace, ...]:
    """Run a job on the emulator, verify it, and return a trace for each launch."""
    place = find_device("emulator")
    run = place.run(place.build(job.plan.kernel, language), job.plan)
    judge(job.plan, run).require()
    if not run.traces:
        raise ExecutionError(f"{job.plan.kernel.id}: there is nothing to do, so nothing was counted")
    return run.traces


def summary(totals: Mapping[str, float]) -> str:
    """Return a run's counts in one line.

    Examples
    --------
    >>> summary({"warp_instructions": 8, "global_load_sectors": 4, "shared_load_bank_conflicts": 0})
    'global_load_sectors 4, shared_load_bank_conflicts 0'
    """
    found = (f"{name} {int(totals[name])}" for name in SUMMARY if name in totals)
    return ", ".join(found) or "nothing was launched"
