"""Every rung on every case, in several processes at once: what compiles for minutes in one."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Collection
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import dataclass, field

from kernellab import catalog
from kernellab.errors import LabError
from kernellab.problem import ELEMENTS

LANGUAGES = ("cuda-c", "numba")
MOST_VARIANTS = 3
"""Sets of constants for which a twin is compiled, of those that its cases ask for: seconds each. One for
elements of 16 bits."""

SECONDS = 300.0
"""To wait for a piece of work."""


@dataclass
class Answers:
    """What became of one rung in one language.

    Attributes
    ----------
    cases : int
        That ran.
    wrong : list of str
        One sentence for each that went wrong.
    """

    cases: int = 0
    wrong: list[str] = field(default_factory=list)

    def __iadd__(self, other: Answers) -> Answers:
        return Answers(self.cases + other.cases, self.wrong + other.wrong)


class Pool:
    """Processes that run rungs; one piece of work is a problem in one language, for one element.

    Parameters
    ----------
    problems : collection of str
        Whose rungs will be asked for.
    device : str
    """

    def __init__(self, problems: Collection[str], device: str = "gpu") -> None:
        workers = min(16, os.cpu_count() or 1)
        self._pool = ProcessPoolExecutor(workers, multiprocessing.get_context("spawn"))
        self._found: dict[str, list[Future[dict[tuple[str, str], Answers]]]] = {}
        asked = [problem for problem in catalog.PROBLEMS if problem in problems]
        for problem in reversed(asked):  # the last have most variants
            for language in reversed(LANGUAGES):
                for element in elements_of(problem):
                    work = self._pool.submit(run_problem, problem, language, element, device)
                    self._found.setdefault(problem, []).append(work)

    def answers(self, kernel_id: str, language: str) -> Answers:
        """Wait for what became of a rung."""
        total = Answers()
        for work in self._found[kernel_id.partition("/")[0]]:
            total += work.result(SECONDS).get((kernel_id, language), Answers())
        return total

    def close(self) -> None:
        self._pool.shutdown(cancel_futures=True)


def elements_of(problem: str) -> tuple[str, ...]:
    """Return the element types that any rung of a problem takes."""
    each = (kernel.elements or ELEMENTS[:1] for kernel in catalog.ladder(problem))
    return tuple(dict.fromkeys(element for elements in each for element in elements))


def run_problem(
    problem: str, language: str, element: str, device_name: str
) -> dict[tuple[str, str], Answers]:
    """Run each rung of a problem on its cases with one type of element, and verify."""
    import kernellab as kl

    device = kl.device(device_name)
    found = {}
    for kernel in catalog.ladder(problem):
        if not kernel.fails_on and (language == "cuda-c" or kernel.has_twin):
            found[kernel.id, language] = run_rung(kernel, language, element, device)
    return found


def run_rung(kernel, language, element, device) -> Answers:
    """Run one rung on its cases with one type of element."""
    from kernellab.measurement import judge, prepare

    found, variants = Answers(), set()
    most = MOST_VARIANTS if element == ELEMENTS[0] else 1
    for case in kernel.cases:
        try:
            plan = prepare(kernel, (), device=device, case=case, parameters={}).plan
            if (plan.kernel.element or ELEMENTS[0]) != element:
                continue
            variant = tuple(sorted(plan.kernel.constants.items()))
            if language == "numba" and len(variants | {variant}) > most:
                continue
            variants.add(variant)
            found.cases += 1
            if not plan.steps:
                continue
            verdict = judge(plan, device.run(device.build(plan.kernel, language), plan))
            if not verdict.is_right:
                found.wrong.append(f"{case.name}: {verdict.message}")
        except LabError as error:
            found.wrong.append(f"{case.name}: {type(error).__name__}: {error}")
    return found
