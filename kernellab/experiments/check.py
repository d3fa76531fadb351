"""Check: every rung on every case, in both languages, with races looked for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kernellab.errors import ExecutionError, LabError, UnavailableError
from kernellab.kernel import LANGUAGES, Kernel, Language

if TYPE_CHECKING:
    from kernellab.devices.program import Device
    from kernellab.record import Record


@dataclass(frozen=True)
class Check:
    """One rung on one case in one language.

    Attributes
    ----------
    kernel, language, case : str
        What ran on what.
    is_right : bool
        Whether it gave NumPy's answer and did nothing wrong.
    is_expected : bool
        Whether that is as it should be: an exhibit must fail where its fault shows.
    message : str
        What is wrong, or why it was not run.
    """

    kernel: str
    language: str
    case: str
    is_right: bool
    is_expected: bool
    message: str = ""


Progress = Callable[[str, int, int], None]


def check(
    kernels: Sequence[Kernel],
    device: str | Device = "auto",
    languages: Sequence[Language] = LANGUAGES,
    progress: Progress | None = None,
) -> tuple[Check, ...]:
    """Run every kernel on every case of its problem, and verify.

    Parameters
    ----------
    kernels : sequence of Kernel
        The rungs.
    device : {"auto", "gpu", "emulator"} or Device
        The GPU looks for no races, and nothing is timed.
    languages : sequence of {"cuda-c", "numba"}
    progress : callable, optional
        ``progress(what, done, total)``.

    Returns
    -------
    tuple of Check
        One a kernel, language and case.

    Raises
    ------
    UnavailableError
        If the device or a compiler is not here.
    """
    from kernellab.devices import device as find_device

    where = find_device(device)
    report = progress or (lambda what, done, total: None)
    jobs = [
        (kernel, language)
        for kernel in kernels
        for language in languages
        if language == "cuda-c" or kernel.has_twin
    ]
    total = sum(len(kernel.cases) for kernel, _ in jobs)
    found: list[Check] = []
    for kernel, language in jobs:
        for item in _check_kernel(kernel, language, where):
            report(f"{kernel.id} ({language})", len(found), total)
            found.append(item)
    report("done", total, total)
    return tuple(found)


def _check_kernel(kernel: Kernel, language: Language, where: Device) -> Iterator[Check]:
    from kernellab.measurement import measure

    for case in kernel.cases:
        should_fail = case.name in kernel.fails_on
        # What is wrong on purpose may break a GPU's context: there it gets a process of its own.
        is_risky = should_fail and where.name == "gpu"
        try:
            record = measure(
                kernel,
                case=case,
                language=language,
                device="gpu" if is_risky else where,
                sanitize=True,
                mode=None,
                isolated=is_risky,
            )
        except UnavailableError:
            raise
        except LabError as error:
            is_fault = is_risky and isinstance(error, ExecutionError)
            yield Check(kernel.id, language, case.name, False, is_fault, str(error))
            continue
        is_right = record.is_right and not record.diagnostics
        message = "" if is_right else _message(record)
        if should_fail and is_right:
            message = "it should show its fault here and gives the right answer"
        yield Check(kernel.id, language, case.name, is_right, is_right != should_fail, message)


def _message(record: Record) -> str:
    text = "" if record.verdict is None else record.verdict.message
    return text or "; ".join(record.diagnostics[:1]) or "it was not verified"
