"""Precision and its cost: double literals in single precision, division and functions, and what fast math gives away."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

from kernellab.catalog import elementary, kernel, problem
from kernellab.experiments.common import WRONG_ELEMENTS, all_right, number
from kernellab.experiments.experiment import (
    HELD,
    NEEDS_GPU,
    REFUTED,
    Claim,
    Column,
    Derived,
    Expectation,
    Experiment,
    Found,
    Point,
    Rows,
    Sweep,
)
from kernellab.experiments.launch_points import steps
from kernellab.experiments.picture import Bar, Bars, Picture
from kernellab.experiments.pitfalls import Pitfall

if TYPE_CHECKING:
    from kernellab.record import Record

WARP = 32
DOUBLE, SINGLE = "0.5 and 1.0", "0.5f and 1.0f"
LITERALS = {DOUBLE: "double_literals", SINGLE: "single"}
BASE = "multiply"
FUNCTIONS = tuple(name for name in elementary.NAMES if name != BASE)
CALLS = 32
"""Calls of a function in a thread, where they are counted."""
TIMED_CALLS, TIMED_THREADS = 64, 2**18
FLUSHED = "sqrt of subnormal, fast"
GUIDE = 'CUDA C++ Programming Guide, "Mathematical Functions"'


def fast(label: str) -> str:
    """Return the label of the same with fast math."""
    return f"{label}, fast"


def call(name: str, is_fast: bool, n: int, terms: int, label: str = "") -> Point:
    """Return a function called so many times in each of n threads."""
    rung = kernel("elementary/fast_math" if is_fast else "elementary/accurate")
    label = label or name
    return Point(fast(label) if is_fast else label, rung, elementary.case(f"{n} x {terms}", n, name, terms))


def error(name: str) -> str:
    """Return the label of the point where a function's error is looked at."""
    return f"{name}, error"


def timed(name: str, is_fast: bool = False) -> Point:
    """Return a function as a GPU times it."""
    return call(name, is_fast, TIMED_THREADS, TIMED_CALLS)


def is_function(pitfall: Pitfall) -> bool:
    """Say whether a pitfall is about a function, and not about literals."""
    return pitfall.slow.kernel.problem.name == "elementary"


def error_of(point: Point, n: int) -> Point:
    """Return the point where the error of a timed function is looked at: one call an element."""
    name = elementary.NAMES[int(point.case.parameters["function"])]
    return call(name, point.kernel.is_fast_math, n, 1, error(name))


def subnormal(label: str, rung: str) -> Point:
    """Return roots of subnormal numbers."""
    return Point(label, kernel(f"elementary/{rung}"), problem("elementary").case("subnormal"))


def sass_float64(record: Record) -> float:
    """Return the machine instructions that compute in float64, or convert to it and from it, as written."""
    names = {
        item.name.removeprefix("sass/"): item.value
        for item in record.readings
        if item.name.startswith("sass/")
    }
    kinds = ("DADD", "DMUL", "DFMA", "DSETP", "DMNMX")
    return sum(value for name, value in names.items() if name.startswith(kinds) or ".F64" in name)


def per_call(record: Record) -> float:
    """Return the warp instructions of a call: the loop's own 5 with it, and a little of what stands around."""
    warps = record.sizes["n"] / WARP
    return record.value("warp_instructions") / (warps * record.parameters.get("terms", 1))


def largest_error(record: Record) -> float:
    """Return the largest error in ulp, which of fast math on the emulator is a lower bound."""
    return record.verdict.max_ulp if record.verdict else 0.0


def shown(record: Record, ulp: float) -> float:
    """Return an error, or NaN where the emulator rounds what the special function unit does not."""
    return ulp if record.device == "gpu" or not kernel(record.kernel).is_fast_math else math.nan


SWEEPS = (
    Sweep(
        "Literals in y = 1 + x/2 + (x/2)**2 + ..., float32 throughout otherwise",
        tuple(
            Point(label, kernel(f"horner/{rung}"), steps(2**12, 16), large=steps(2**22, 16))
            for label, rung in LITERALS.items()
        ),
        (
            Column("float64\nin PTX", "ptx_float64_instructions"),
            Column("float64\nin SASS", "sass_float64"),
            Column("warp\ninstr.", "warp_instructions"),
            Column("max\nulp", "max_ulp"),
        ),
    ),
    Sweep(
        f"Cost of a call, {CALLS} a thread",
        tuple(call(name, is_fast, 256, CALLS) for name in (BASE, *FUNCTIONS) for is_fast in (False, True)),
        (Column("warp instr.\n/ call", "instructions_per_call", 1),),
    ),
    Sweep(
        f"Error against float64, arguments from {elementary.LOW} to {elementary.HIGH}",
        tuple(call(name, is_fast, 2**13, 1, error(name)) for name in FUNCTIONS for is_fast in (False, True)),
        (Column("max\nulp", "max_ulp"), Column("RMS\nulp", "rms_ulp")),
    ),
    Sweep(
        "Roots of subnormal numbers",
        (subnormal("sqrt of subnormal", "accurate"), subnormal(FLUSHED, "fast_math")),
        (Column("wrong", "wrong_elements"),),
    ),
)
DERIVED = (
    WRONG_ELEMENTS,
    Derived("sass_float64", "instructions", sass_float64),
    Derived("instructions_per_call", "instructions", per_call),
    Derived("max_ulp", "ulp", lambda record: shown(record, largest_error(record)), ""),
    Derived(
        "rms_ulp",
        "ulp",
        lambda record: shown(
            record,
            max((each.rms_ulp for each in record.verdict.comparisons), default=0.0)
            if record.verdict
            else 0.0,
        ),
        "",
    ),
)


def literals_promote(rows: Rows) -> Found:
    """The PTX computes in float64 in the line with the literals, and nowhere where they have an f."""
    readings = {label: rows[label].reading("ptx_float64_instructions") for label in LITERALS}
    where = readings[DOUBLE].note
    right = (
        readings[DOUBLE].value > 0 and "0.5 * x_value * value + 1.0" in where and not readings[SINGLE].value
    )
    return right, where or "no float64 in the PTX"


def literals_reach_sass(rows: Rows) -> Found:
    """The machine code computes in float64 where the PTX does."""
    found = {label: rows.value(label, "sass_float64") for label in LITERALS}
    if not rows.value(SINGLE, "sass_instructions"):
        return None, "the machine code would say"
    return found[DOUBLE] > 0 and not found[
        SINGLE
    ], f"{number(found[DOUBLE])} instructions, {number(found[SINGLE])} with an f"


def nobody_notices(rows: Rows) -> Found:
    """Double literals make no answer worse."""
    wide, narrow = (rows.value(label, "max_ulp") for label in (DOUBLE, SINGLE))
    return wide <= narrow, f"{number(wide)} ulp in double, {number(narrow)} in single"


def extra(rows: Rows, name: str, is_fast: bool = False) -> float:
    """Return the instructions that a call takes over those of a multiplication."""
    labels = [fast(each) if is_fast else each for each in (name, BASE)]
    one, other = (rows.value(label, "instructions_per_call") for label in labels)
    return one - other


def functions_cost(rows: Rows) -> Found:
    """A division or a function of the library is many instructions."""
    found = {name: extra(rows, name) for name in FUNCTIONS}
    text = ", ".join(f"{name} {count:+.0f}" for name, count in found.items())
    return all(count > 4 for count in found.values()), f"{text} instructions to a multiplication's"


def fast_saves(rows: Rows) -> Found:
    """With fast math a function is a few instructions around the special function unit."""
    found = {name: extra(rows, name, is_fast=True) for name in FUNCTIONS}
    text = ", ".join(f"{name} {count:+.0f}" for name, count in found.items())
    return all(count < 5 for count in found.values()), f"{text} instructions to a multiplication's"


def fast_errs(rows: Rows) -> Found:
    """What fast math saves it gives away in accuracy: exp and power carry the error of their argument."""
    found = {
        name: [largest_error(rows[label]) for label in (error(name), fast(error(name)))]
        for name in ("exp", "power")
    }
    text = ", ".join(f"{name} {slow:.2g} -> at least {quick:.2g}" for name, (slow, quick) in found.items())
    return all(quick > 1.5 * slow for slow, quick in found.values()), f"{text} ulp"


def fast_flushes(rows: Rows) -> Found:
    """Fast math flushes subnormal numbers to zero."""
    count = rows[FLUSHED].sizes["n"]
    kept, flushed = (rows.value(label, "wrong_elements") for label in ("sqrt of subnormal", FLUSHED))
    return (
        kept == 0 and flushed == count,
        f"{number(flushed)} of {count} wrong with fast math, {number(kept)} without",
    )


def claim_default(rows: Rows) -> tuple[str, str]:
    """The library's own functions are said to be good to 4 ulp, division and root to half of one."""
    limits = dict.fromkeys(FUNCTIONS, 4.0) | dict.fromkeys(("divide", "reciprocal", "sqrt"), 0.5)
    found = {name: rows.value(error(name), "max_ulp") for name in FUNCTIONS}
    nearest = max(found, key=lambda name: found[name] / limits[name])
    largest = max(found, key=lambda name: found[name])
    held = all(found[name] <= limits[name] for name in FUNCTIONS)
    near, large = (f"{name} {found[name]:.3g} of {limits[name]:g} ulp" for name in (nearest, largest))
    return HELD if held else REFUTED, f"nearest to its own limit: {near}; largest error: {large}"


def claim_fast_exp(rows: Rows) -> tuple[str, str]:
    """__expf is said to be good to 2 + 1.173 x ulp."""
    record, limit = rows[fast(error("exp"))], 2 + int(1.173 * elementary.HIGH)
    found = largest_error(record)
    if record.device != "gpu":
        return NEEDS_GPU, f"{found:.3g} ulp of {limit} with a special function unit that rounds correctly"
    return HELD if found <= limit else REFUTED, f"{found:.3g} ulp of {limit} up to x = {elementary.HIGH:g}"


def literal(label: str, degree: int) -> Point:
    """Return a rung of horner as a GPU times it."""
    return Point(f"{label}, degree {degree}", kernel(f"horner/{LITERALS[label]}"), steps(2**22, degree))


PITFALLS = (
    Pitfall(
        "double literals in single precision, in arithmetic",
        literal(DOUBLE, 512),
        literal(SINGLE, 512),
        "a conversion each way and an fma in float64 for each fma",
    ),
    Pitfall(
        "double literals in single precision, 16 steps an element",
        literal(DOUBLE, 16),
        literal(SINGLE, 16),
        "memory may hide it",
    ),
    *(
        Pitfall(
            f"{name} where a multiplication would do",
            timed(name),
            timed(BASE),
            "more instructions a call",
            source=GUIDE,
        )
        for name in FUNCTIONS
    ),
    *(
        Pitfall(
            f"{name} as the library has it, against fast math",
            timed(name),
            timed(name, is_fast=True),
            "fewer instructions a call",
            source=GUIDE,
        )
        for name in FUNCTIONS
    ),
)
CLAIMED = ("double", "divide where", "sin as", "power as")
"""The pitfalls that are claims too; the suite ``launches`` times all of them."""


def pictures(rows: Mapping[str, Rows]) -> tuple[Picture, ...]:
    """Return the instructions of a call, as the library has it and with fast math."""
    labels = [label for name in (BASE, *FUNCTIONS) for label in (name, fast(name))]
    bars = tuple(
        Bar(label, {language: each.value(label, "instructions_per_call") for language, each in rows.items()})
        for label in labels
    )
    most = max(value for bar in bars for value in bar.values.values())
    return (Bars("Warp instructions of a call, the loop round it counted", "instructions", bars, most),)


EXPERIMENT = Experiment(
    name="precision-cost",
    question="What do double literals, division, functions and their accuracy cost in single precision?",
    sweeps=SWEEPS,
    derived=DERIVED,
    pictures=pictures,
    expectations=(
        Expectation("every answer equals NumPy's, but that of flushed numbers", all_right((FLUSHED,))),
        Expectation(
            "literals without an f make their expression compute in float64; the PTX says in which line",
            literals_promote,
        ),
        Expectation("no compiler takes the promotion back: it is in the machine code", literals_reach_sass),
        Expectation("the answer with double literals is as good, so that nobody notices", nobody_notices),
        Expectation(
            "a division or a function of the library is at least 5 instructions more", functions_cost
        ),
        Expectation("with fast math each is at most 4 instructions more than a multiplication", fast_saves),
        Expectation("with fast math exp and power err by more than half again as much", fast_errs),
        Expectation("fast math flushes subnormal numbers to zero", fast_flushes),
    ),
    claims=(
        Claim(
            "the library's functions are good to 4 ulp, division and root to half of one",
            GUIDE,
            claim_default,
        ),
        Claim("exp with fast math is good to 2 + 1.173 x ulp", GUIDE, claim_fast_exp),
        *(pitfall.claim() for pitfall in PITFALLS if pitfall.text.startswith(CLAIMED)),
    ),
    lessons=(
        "`0.5` is a double in C, and every Python float is one in Numba, where the variable that it is given to "
        "becomes a double too. Write 0.5f; in Numba make constants float32 outside of the kernel. `kernellab doctor "
        "FILE` or `PROBLEM/RUNG` shows the lines whose PTX computes in float64.",
        "Errors of fast math come from the special function unit, which the emulator takes to be correctly "
        "rounded: the emulator's are a lower bound, which the table leaves out; --device both shows a GPU's.",
        "Tensor cores that are not used: `kernellab run tensor-cores`; atomics that meet in one address: "
        "`kernellab run atomics`.",
    ),
)
