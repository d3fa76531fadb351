"""Experiment: a question, sweeps, expectations of ours and claims of others; and what running one gave."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeAlias

from kernellab.errors import SpecError
from kernellab.kernel import LANGUAGES, Kernel, Language
from kernellab.problem import Array, Case

if TYPE_CHECKING:
    from kernellab.experiments.clocked import GpuClock
    from kernellab.experiments.picture import Picture
    from kernellab.record import Record

NEEDS_GPU, NEEDS_SASS, NEEDS_COUNTS = "needs a GPU", "needs nvdisasm", "needs counts"
NOT_TIMED = "not timed"
HELD, REFUTED, FAILED = "held", "refuted", "failed"


@dataclass(frozen=True)
class Point:
    """One thing to run.

    Attributes
    ----------
    label : str
        Unique in its experiment.
    kernel : Kernel
        The rung.
    case : Case
        Sizes, contents and parameters.
    arrays : callable, optional
        Gives inputs by name in place of the case's own.
    large : Case, optional
        What a GPU times in place of `case`, which is small enough to be counted: the points of a sweep in turn,
        beside a copy of as many bytes.
    head : int
        How many leading rows of the large answer NumPy judges, where rows do not depend on each other; the
        other rows are compared with those of the sweep's first point. 0 for all of it.
    """

    label: str
    kernel: Kernel
    case: Case
    arrays: Callable[[], Mapping[str, Array]] | None = None
    large: Case | None = None
    head: int = 0


@dataclass(frozen=True)
class Column:
    """A reading to show.

    Attributes
    ----------
    header : str
        A word or two.
    reading : str
        Its name in the Record.
    digits : int
        Digits after the point, where it has a fraction.
    scale : float
        What the reading is multiplied by to be shown.
    """

    header: str
    reading: str
    digits: int = 2
    scale: float = 1.0


@dataclass(frozen=True)
class Sweep:
    """Points shown in one table.

    Attributes
    ----------
    title : str
        What varies.
    points : tuple of Point
        In the order of the rows.
    columns : tuple of Column
        What is shown of each.
    """

    title: str
    points: tuple[Point, ...]
    columns: tuple[Column, ...]


@dataclass(frozen=True)
class Derived:
    """A reading computed from others.

    Attributes
    ----------
    name, unit : str
        As a Reading has them.
    formula : callable
        ``formula(record) -> float``; NaN where it does not apply.
    basis : {"SASS", "PTX", ""}
        What the counts it comes from follow: the machine code, the PTX, or no count at all.
    """

    name: str
    unit: str
    formula: Callable[[Record], float]
    basis: str = "SASS"


class Rows:
    """The records of one language by the label of their point."""

    def __init__(self, records: Mapping[str, Record]) -> None:
        self._records = dict(records)

    def __getitem__(self, label: str) -> Record:
        return self._records[label]

    def items(self) -> tuple[tuple[str, Record], ...]:
        """Return labels and records, in the order they ran."""
        return tuple(self._records.items())

    def value(self, label: str, reading: str) -> float:
        """Return a number of a point."""
        return float(self._records[label].value(reading))


Found: TypeAlias = tuple[bool | None, str]


@dataclass(frozen=True)
class Expectation:
    """Something that must hold; if it does not, the lab or the kernels are broken.

    Attributes
    ----------
    text : str
        What must hold, in one sentence.
    check : callable
        ``check(rows) -> (holds, what was found)``, once for each language; None where it cannot be said
        without the machine code.
    languages : tuple of {"cuda-c", "numba"}
        In which its points run.
    """

    text: str
    check: Callable[[Rows], Found]
    languages: tuple[str, ...] = LANGUAGES


@dataclass(frozen=True)
class Claim:
    """What somebody else said.

    Attributes
    ----------
    text : str
        The claim.
    source : str
        Who said it.
    judge : callable
        ``judge(rows) -> (verdict, our number)``, with the verdict ``held``, ``refuted``, ``needs a GPU`` or
        ``needs nvdisasm``.
    timed : callable, optional
        ``timed(clock) -> (verdict, our number)``, asked instead where there is a GPU.
    """

    text: str
    source: str
    judge: Callable[[Rows], tuple[str, str]]
    timed: Callable[[GpuClock], tuple[str, str]] | None = None


@dataclass(frozen=True)
class Observed:
    """What an experiment saw on a GPU beside its points, in one language.

    Attributes
    ----------
    claims : mapping of str to (str, str)
        By the claim's text, the verdict and our number.
    pictures : tuple of Picture
        To be drawn.
    notes : tuple of str
        What was left out and why.
    """

    claims: Mapping[str, tuple[str, str]]
    pictures: tuple[Picture, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Experiment:
    """One question.

    Attributes
    ----------
    name, question : str
        As on the command line, and what is asked.
    sweeps : tuple of Sweep
        What runs.
    expectations : tuple of Expectation
        What must hold in each language.
    claims : tuple of Claim
        What is held or refuted.
    derived : tuple of Derived
        Readings added to each Record.
    pictures : callable, optional
        ``pictures({language: Rows}) -> tuple of Picture``.
    lessons : tuple of str
        What is learnt, a sentence or two each.
    languages : tuple of {"cuda-c", "numba"}
        In which it can be run.
    unasked : tuple of {"cuda-c", "numba"}
        In which it runs where nobody says: those that do not keep people waiting.
    prepare : callable, optional
        Called before anything is compiled, such as to write sources that are generated.
    observe : callable, optional
        ``observe(clock) -> Observed``, once for each language where there is a GPU: what is no point's, such as
        how several kernels and copies get on beside each other. It judges what it measures of the claims.
    """

    name: str
    question: str
    sweeps: tuple[Sweep, ...]
    expectations: tuple[Expectation, ...]
    claims: tuple[Claim, ...] = ()
    derived: tuple[Derived, ...] = ()
    pictures: Callable[[Mapping[str, Rows]], tuple[Picture, ...]] | None = None
    lessons: tuple[str, ...] = ()
    languages: tuple[Language, ...] = LANGUAGES
    unasked: tuple[Language, ...] = LANGUAGES
    prepare: Callable[[], object] | None = None
    observe: Callable[[GpuClock], Observed] | None = None

    @property
    def points(self) -> tuple[Point, ...]:
        """Every point of every sweep."""
        return tuple(point for sweep in self.sweeps for point in sweep.points)

    @property
    def kernels(self) -> tuple[Kernel, ...]:
        """Every rung, each once, in the order of its first point."""
        found: dict[str, Kernel] = {}
        for point in self.points:
            found.setdefault(point.kernel.id, point.kernel)
        return tuple(found.values())

    def replacing(self, kernel_id: str, kernel: Kernel) -> Experiment:
        """Return the experiment with another kernel in place of a rung: how its expectations are tested.

        Raises
        ------
        SpecError
            If no point runs that rung.
        """
        if kernel_id not in {each.id for each in self.kernels}:
            known = ", ".join(each.id for each in self.kernels)
            raise SpecError(f"{self.name}: no point runs {kernel_id}; it runs {known}")
        sweeps = tuple(
            replace(
                sweep,
                points=tuple(
                    replace(point, kernel=kernel) if point.kernel.id == kernel_id else point
                    for point in sweep.points
                ),
            )
            for sweep in self.sweeps
        )
        return replace(self, sweeps=sweeps)


@dataclass(frozen=True)
class Outcome:
    """An expectation or a claim, judged.

    Attributes
    ----------
    text, source : str
        What was said, and by whom (empty for our own expectations).
    language : str
        On which twin it was judged.
    verdict : str
        ``held``, ``failed`` (ours), ``refuted`` (others'); ``needs a GPU``, ``needs nvdisasm``,
        ``needs counts`` or ``not timed`` where it cannot be said here.
    found : str
        Our number.
    """

    text: str
    source: str
    language: str
    verdict: str
    found: str


@dataclass(frozen=True)
class Panel:
    """A sweep that ran.

    Attributes
    ----------
    title : str
        What varies.
    columns : tuple of Column
        What is shown.
    labels : tuple of str
        The points.
    faults : mapping of str to str
        Label to what is wrong with it on purpose.
    records : mapping of str to mapping of str to Record
        Language to label to record.
    """

    title: str
    columns: tuple[Column, ...]
    labels: tuple[str, ...]
    faults: Mapping[str, str]
    records: Mapping[str, Mapping[str, Record]]


@dataclass(frozen=True)
class Result:
    """What an experiment gave.

    Attributes
    ----------
    name, question, device : str
        Which experiment, and where it ran.
    languages : tuple of str
        In the order of the columns.
    panels : tuple of Panel
        One a sweep.
    expectations, claims : tuple of Outcome
        Judged.
    pictures : tuple of Picture
        To be drawn.
    notes : tuple of str
        What was left out and why.
    seconds : float
        How long it took, compilation included.
    """

    name: str
    question: str
    device: str
    languages: tuple[str, ...]
    panels: tuple[Panel, ...]
    expectations: tuple[Outcome, ...]
    claims: tuple[Outcome, ...]
    pictures: tuple[Picture, ...] = ()
    notes: tuple[str, ...] = ()
    seconds: float = field(default=0.0, compare=False)

    @property
    def is_right(self) -> bool:
        """Whether no expectation failed."""
        return all(outcome.verdict != FAILED for outcome in self.expectations)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        from kernellab.experiments.stored import result_to_dict

        return result_to_dict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Result:
        """Return the result that `to_dict` wrote."""
        from kernellab.experiments.stored import result_from_dict

        return result_from_dict(data)
