"""Race: rungs and peers of one problem at one size, verified and timed side by side; a row of results each."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Protocol, TypeVar

from kernellab.errors import LabError
from kernellab.instruments.clock import Rule
from kernellab.kernel import Kernel, Language
from kernellab.suites.arena import Arena, Own
from kernellab.suites.bench import Bench, plan_fields, timed_row
from kernellab.suites.peer_works import Peer, peer_work
from kernellab.suites.side_by_side import RULE, reason_of, time_side_by_side, too_fast
from kernellab.workload import CallWorkload

HEATS = Rule(minimum=5, maximum=5, queue=5)
"""How long the members of a family are timed against each other."""
Rows = list[dict[str, Any]]


class Labelled(Protocol):
    """One problem at one size, of which a suite times several."""

    @property
    def label(self) -> str:
        """What tells it from the others."""


Heat = TypeVar("Heat", bound=Labelled)


def race(
    arena: Arena,
    rungs: Iterable[tuple[Kernel, Language]],
    peers: Iterable[Peer] = (),
    more: Callable[[Own], Iterable[CallWorkload]] = lambda own: (),
    rule: Rule = RULE,
    name: Callable[[Kernel], str] = lambda kernel: "",
) -> Rows:
    """Time rungs, peers and a copy of as many bytes.

    Parameters
    ----------
    arena : Arena
        Its notes say what was left out.
    rungs : iterable of (Kernel, str)
        Ours, and in which language.
    peers : iterable of Peer
    more : callable
        ``more(own)``: further works that are made of one of ours.
    rule : Rule
    name : callable
        ``name(kernel)``: what a rung's row is called; by default after its id and language.

    Returns
    -------
    list of dict
        A row for each that was right.
    """
    tried = (_own(arena, kernel, language, name(kernel)) for kernel, language in rungs)
    owns = [own for own in tried if own is not None]
    if not owns:
        return []
    about: dict[str, dict[str, Any]] = {}
    works: list[CallWorkload] = []
    for own in owns:
        fields = plan_fields(own.plan, own.language)
        for work in (own.work, *more(own)):
            works.append(work)
            about[work.name] = fields | ({} if work is own.work else {"part": True})
    works += _rivals(arena, owns[0], peers)
    copy: Any = arena.bench.copy(owns[0].work.nbytes)
    timings = time_side_by_side(arena.bench, [*works, copy], arena.notes, rule)
    beside = timings.get(copy.name)
    if beside is None:
        return []
    shared = {
        "problem": arena.problem.name, "element": arena.element, "sizes": dict(arena.sizes),
        "contents": arena.contents,
    }  # fmt: skip
    nobody = {"kernel": "", "language": ""}
    return [
        timed_row(work, timings[work.name], beside) | about.get(work.name, nobody) | shared
        for work in works
        if work.name in timings and not too_fast(arena.bench, work, timings[work.name], beside, arena.notes)
    ]


def race_all(
    bench: Bench,
    heats: Sequence[Heat],
    arena_of: Callable[[Heat], Arena],
    run: Callable[[Heat, Arena], Rows],
    share: float = 1.0,
    notes: Iterable[tuple[str, str]] = (),
) -> tuple[Rows, tuple[str, ...]]:
    """Time one heat after another, for as long as so many times the budget last.

    Parameters
    ----------
    bench : Bench
    heats : sequence
        Each has a ``label``.
    arena_of : callable
        ``arena_of(heat)``: where it takes place; its memory is given back afterwards.
    run : callable
        ``run(heat, arena)``: its rows.
    share : float
    notes : iterable of (str, str)
        Where and what was noted before.

    Returns
    -------
    rows : list of dict
    notes : tuple of str
        What was left out, where, and why.
    """
    rows: Rows = []
    told, late = [*notes], list[str]()
    for heat in bench.within_budget(heats, late, share):
        bench.progress(heat.label)
        arena = arena_of(heat)
        rows += run(heat, arena)
        told += [(heat.label, note) for note in arena.notes]
        del arena
        bench.free()
    return rows, (*gathered(told), *late)


def _own(arena: Arena, kernel: Kernel, language: Language, name: str) -> Own | None:
    about = f"{name}: " if name else ""
    try:
        return arena.own(kernel, language, name)
    except LabError as error:
        arena.notes.append(f"left out: {about}{error}")
    except Exception as error:  # Numba has errors of its own
        arena.notes.append(f"left out: {about}{kernel.id} {language}: {reason_of(error)}")
    return None


def _rivals(arena: Arena, own: Own, peers: Iterable[Peer]) -> list[CallWorkload]:
    """Return the peers that can be made; of each family the fastest."""
    families: dict[str, list[CallWorkload]] = {}
    for peer in (each for each in peers if each.is_for(arena)):
        try:
            work = (peer.work or peer_work)(arena, peer, own.plan)
        except Exception as error:  # a peer's library may raise anything
            arena.notes.append(f"{peer.family or peer.name} was left out: {reason_of(error)}")
            continue
        families.setdefault(peer.family or peer.name, []).append(work)
    return [best for works in families.values() if (best := _fastest(arena, works)) is not None]


def _fastest(arena: Arena, works: Sequence[CallWorkload]) -> CallWorkload | None:
    if len(works) == 1:
        return works[0]
    timings = time_side_by_side(arena.bench, works, arena.notes, HEATS)
    found = [work for work in works if work.name in timings]
    return min(found, key=lambda work: timings[work.name].seconds, default=None)


def compiled(arena: Arena, rungs: Iterable[tuple[Kernel, Language]]) -> list[tuple[Kernel, Language]]:
    """Return rungs with the constants that they will have; one that cannot be bound fails in its race."""
    found: list[tuple[Kernel, Language]] = []
    for kernel, language in rungs:
        with suppress(LabError):
            found.append((arena.plan(kernel).kernel, language))
    return found


# -- reading rows
def ours(rows: Iterable[Mapping[str, Any]], language: str = "cuda-c") -> Mapping[str, Any] | None:
    """Return the row of our fastest rung in a language, if there is one."""
    found = [r for r in rows if r["kernel"] and r["language"] == language and not r.get("part")]
    return min(found, key=lambda row: float(row["seconds"]), default=None)


def best_peer(rows: Iterable[Mapping[str, Any]], name: str = "") -> Mapping[str, Any] | None:
    """Return the row of the fastest peer, or the fastest of a name, if there is one."""
    found = [r for r in rows if not r["kernel"] and str(r["workload"]).startswith(name)]
    return min(found, key=lambda row: float(row["seconds"]), default=None)


def ratio(first: Mapping[str, Any] | None, second: Mapping[str, Any] | None) -> float | None:
    """Return how many times as fast the first is as the second; None where one was not timed."""
    if first is None or second is None:
        return None
    return float(second["seconds"]) / float(first["seconds"])


def beside(first: Mapping[str, Any] | None, peer: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return what tables show of one of our rungs beside a peer; None for what was not timed.

    Examples
    --------
    >>> row = {"kernel": "sum/shuffle", "seconds": 2.0, "gigabytes_per_second": 3.0, "fraction_of_copy": 0.75}
    >>> beside(row, None)
    {'rung': 'shuffle', 'ours': 3.0, 'of_copy': 0.75, 'peer': '', 'theirs': None, 'ratio': None}
    """
    return {
        "rung": first["kernel"].partition("/")[2] if first else "",
        "ours": first["gigabytes_per_second"] if first else None,
        "of_copy": first["fraction_of_copy"] if first else None,
        "peer": peer["workload"] if peer else "",
        "theirs": peer["gigabytes_per_second"] if peer else None,
        "ratio": ratio(first, peer),
    }


def bar(text: str, value: float | None, least: float, digits: int = 3) -> dict[str, bool]:
    """Return a bar with what was found; one that nothing was found for is missed.

    Examples
    --------
    >>> bar("sum at least 0.99 of CUB", 0.98, 0.99), bar("sum at least 0.99 of CUB", None, 0.99)
    ({'sum at least 0.99 of CUB (is 0.980)': False}, {'sum at least 0.99 of CUB (not measured)': False})
    """
    found = "not measured" if value is None else f"is {value:.{digits}f}"
    return {f"{text} ({found})": value is not None and value >= least}


def worst(found: Iterable[tuple[float | None, str]]) -> tuple[float | None, str]:
    """Return the least value and where it is; nothing where one was not measured.

    Examples
    --------
    >>> worst([(1.0, "here"), (0.5, "there")]), worst([(1.0, "here"), (None, "there")])
    ((0.5, ', worst there'), (None, ', there'))
    """
    known: list[tuple[float, str]] = []
    for number, place in found:
        if number is None:
            return None, f", {place}"
        known.append((number, place))
    number, place = min(known)
    return number, f", worst {place}"


def gathered(notes: Iterable[tuple[str, str]]) -> tuple[str, ...]:
    """Return notes once each, with where they were made.

    Examples
    --------
    >>> gathered([("sum", "CUB is not here"), ("max", "CUB is not here"), ("max", "slow")])
    ('CUB is not here (2 times, first at sum)', 'max: slow')
    """
    places: dict[str, list[str]] = {}
    for place, note in notes:
        places.setdefault(note, []).append(place)
    return tuple(
        f"{found[0]}: {note}" if len(found) == 1 else f"{note} ({len(found)} times, first at {found[0]})"
        for note, found in places.items()
    )


__all__ = [
    "Rows",
    "bar",
    "beside",
    "best_peer",
    "compiled",
    "gathered",
    "ours",
    "race",
    "race_all",
    "ratio",
    "worst",
]
