"""Mixed precision: a training run in float32 and in 16 bits; what loss scaling keeps, what overflows, what is saved."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from kernellab.catalog import kernel
from kernellab.devices import device as find_device
from kernellab.experiments.common import WRITE_UP, all_right, bytes_of, needs_gpu, number
from kernellab.experiments.experiment import (
    HELD,
    REFUTED,
    Claim,
    Column,
    Derived,
    Expectation,
    Experiment,
    Found,
    Observed,
    Point,
    Rows,
    Sweep,
)
from kernellab.experiments.picture import Curves, Mark, Picture, Series
from kernellab.experiments.training import BATCH, Recipe, Task, Trained, train
from kernellab.kernel import Language
from kernellab.problem import Case

if TYPE_CHECKING:
    from kernellab.experiments.clocked import GpuClock

SCALE = 65536.0
FLOAT32, MIXED, UNSCALED, BRAIN = "float32", "float16, scaled", "float16, not scaled", "bfloat16, not scaled"
ALIKE = 0.01
"""How far final losses may be apart, in parts of the first loss."""
LEARNT = 0.25
"""Of the first loss, under which a run has learnt its task."""
SAVED = 0.40


@dataclass(frozen=True)
class Plan:
    """What is trained on a device.

    Attributes
    ----------
    task : Task
        The same for all runs.
    recipes : mapping of str to Recipe
        By label.
    """

    task: Task
    recipes: Mapping[str, Recipe]


PLANS = {
    "emulator": Plan(
        Task(rows=64, features=8, hidden=32, classes=8, lr=0.1, growth=2),
        {
            FLOAT32: Recipe("float32", 7),
            MIXED: Recipe("float16", 8, SCALE, inject=3),  # a step more, for the one that is skipped
            UNSCALED: Recipe("float16", 3),
        },
    ),
    "gpu": Plan(
        Task(rows=8192, features=64, hidden=1024, classes=16, lr=0.003, growth=20),
        {
            FLOAT32: Recipe("float32", 80),
            MIXED: Recipe("float16", 81, SCALE, inject=30),
            UNSCALED: Recipe("float16", 80),
            BRAIN: Recipe("bfloat16", 80),
        },
    ),
}

SMALL = {"rows": 64, "columns": 256}
CROSS, FUSED, UNFUSED = "loss and gradient", "GeLU and bias", "GeLU, then bias"


def points(element: str) -> tuple[Point, ...]:
    """Return the kernels of the backward pass for one element."""
    rungs = {
        CROSS: ("softmax_cross_entropy/registers", {**SMALL, "biases": 0}),
        FUSED: ("bias_gelu_backward/fused", SMALL),
        UNFUSED: ("bias_gelu_backward/unfused", SMALL),
    }
    return tuple(
        Point(
            f"{label}, {element}",
            kernel(name).with_element(element),
            Case(f"{SMALL['rows']} x {SMALL['columns']} {element}", sizes, element=element),
        )
        for label, (name, sizes) in rungs.items()
    )


SWEEP = Sweep(
    "The gradients' own kernels",
    (*points("float32"), *points("float16")),
    (
        Column("B per\nelement", "bytes_per_element"),
        Column("launches", "launches"),
        Column("warp\ninstr.", "warp_instructions"),
    ),
)


@cache
def trained(place: str, language: Language) -> dict[str, Trained]:
    """Return every run on a device, in one language, made once."""
    plan = PLANS[place]
    where = find_device(place)
    return {label: train(plan.task, recipe, where, language) for label, recipe in plan.recipes.items()}


def runs_of(rows: Rows) -> dict[str, Trained]:
    """Return the runs where and in which language the records were made."""
    _, record = rows.items()[0]
    return trained(
        "gpu" if record.device == "gpu" else "emulator", "numba" if record.language == "numba" else "cuda-c"
    )


def of_runs(check: Callable[[Mapping[str, Trained]], Found]) -> Callable[[Rows], Found]:
    """Return a check of the runs as one of the records."""
    return lambda rows: check(runs_of(rows))


# -- what must hold
def no_second_pass(rows: Rows) -> Found:
    """The sum of the bias's gradient takes no pass of its own."""
    ratios = [
        rows.value(f"{FUSED}, {element}", "bytes_per_element")
        / rows.value(f"{UNFUSED}, {element}", "bytes_per_element")
        for element in ("float32", "float16")
    ]
    return max(ratios) < 0.8, f"{', '.join(number(ratio) for ratio in ratios)} of the bytes of two kernels"


def half_the_bytes(rows: Rows) -> Found:
    """In 16 bits a kernel moves half."""
    ratios = [
        rows.value(f"{label}, float16", "bytes_per_element")
        / rows.value(f"{label}, float32", "bytes_per_element")
        for label in (CROSS, FUSED, UNFUSED)
    ]
    return all(
        0.5 <= ratio < 0.53 for ratio in ratios
    ), f"{', '.join(number(r, 3) for r in ratios)} of float32's"


def converges(runs: Mapping[str, Trained]) -> Found:
    """The mixed run ends where float32 does, and has learnt by then."""
    ours, theirs, first = runs[MIXED].losses[-1], runs[FLOAT32].losses[-1], runs[FLOAT32].losses[0]
    found = f"loss {first:.3f} to {ours:.4f}, in float32 {theirs:.4f}"
    return abs(ours - theirs) <= ALIKE * first and ours < LEARNT * first, found


def error_of(run: Trained, against: Trained) -> float:
    """Return how far the first step's gradients are from those of another run, the scales taken out, relative."""
    off = size = 0.0
    for name, wanted in against.gradients.items():
        got = run.gradients[name].astype(np.float64) / run.scales[0]
        off += float(np.square(got - wanted / against.scales[0]).sum())
        size += float(np.square(wanted / against.scales[0], dtype=np.float64).sum())
    return float(np.sqrt(off / size))


def scaling_keeps(runs: Mapping[str, Trained]) -> Found:
    """Without scaling gradients vanish, with it none does that float32 has."""
    lost = {label: runs[label].vanished[0] for label in (FLOAT32, MIXED, UNSCALED)}
    error = {label: error_of(runs[label], runs[FLOAT32]) for label in (MIXED, UNSCALED)}
    found = (
        f"{100 * lost[UNSCALED]:.1f} % of the first step's gradients are 0 without, {100 * lost[MIXED]:.1f} % with, "
        f"{100 * lost[FLOAT32]:.1f} % in float32; all are off by {100 * error[UNSCALED]:.3g} % without, "
        f"{100 * error[MIXED]:.3g} % with"
    )
    kept = lost[MIXED] <= lost[FLOAT32] + 0.01 and error[MIXED] < 0.01
    return kept and lost[UNSCALED] > 0.05 and error[UNSCALED] > 10 * error[MIXED], found


def skips(runs: Mapping[str, Trained]) -> Found:
    """The infinite gradient is found where it was put, and that step changes nothing."""
    run = runs[MIXED]
    bits = sum(run.changed.values())
    found = f"steps {run.skipped} skipped, {bits} bits of parameters and state changed"
    return run.skipped == [run.recipe.inject] and bits == 0, found


def backs_off(runs: Mapping[str, Trained], plan: Plan | None = None) -> Found:
    """The scale halves after the skipped step, and doubles after as many clean ones as it should."""
    run = runs[MIXED]
    growth = (plan or plan_of(run)).task.growth
    wanted, scale, clean = [], SCALE, 0
    for step in range(1, run.recipe.steps + 1):
        wanted.append(scale)
        clean = 0 if step == run.recipe.inject else clean + 1
        if step == run.recipe.inject:
            scale /= 2
        elif clean == growth:
            scale, clean = 2 * scale, 0
    shown = " ".join(f"2**{np.log2(value):g}" for value in dict.fromkeys(run.scales))
    return run.scales == wanted, f"{shown} in turn; after the inf the loss goes on to {run.losses[-1]:.4f}"


def plan_of(run: Trained) -> Plan:
    """Return the plan that a mixed run belongs to."""
    return next(plan for plan in PLANS.values() if plan.recipes[MIXED] == run.recipe)


STATES = ("parameters", "gradients of parameters", "optimiser")


def saves_activations(runs: Mapping[str, Trained]) -> Found:
    """What is kept for parameters takes the same bytes; activations take half."""
    parts = []
    for run in (runs[FLOAT32], runs[MIXED]):
        state = sum(run.held[name] for name in STATES)
        parts.append((state, run.nbytes - state))
    (state, activations), (mixed_state, mixed_activations) = parts
    found = (
        f"parameters, their gradients and the optimiser {state} B and {mixed_state} B; activations and theirs "
        f"{activations} B and {mixed_activations} B"
    )
    return state == mixed_state and activations == 2 * mixed_activations, found


# -- what others say
def saved(runs: Mapping[str, Trained]) -> tuple[str, str]:
    """Judge what is saved of the memory."""
    ours, theirs = runs[MIXED], runs[FLOAT32]
    share = 1 - ours.nbytes / theirs.nbytes
    each = ", ".join(
        f"{name} {100 * (1 - ours.held[name] / theirs.held[name]):.0f} %" for name in theirs.held
    )
    state = sum(theirs.held[name] for name in STATES)
    verdict = HELD if share >= SAVED else REFUTED
    return verdict, (
        f"{100 * share:.1f} % of {theirs.nbytes} B: {each}; {(theirs.nbytes - state) / state:.1f} times as many bytes "
        f"for activations as for the rest, {SAVED / (0.5 - SAVED):.0f} times are needed for {100 * SAVED:.0f} %"
    )


def stable(runs: Mapping[str, Trained]) -> tuple[str, str]:
    """Judge whether the mixed run stays with float32 at every step."""
    inject = runs[MIXED].recipe.inject
    losses = [loss for step, loss in enumerate(runs[MIXED].losses, 1) if step != inject]
    apart = max(abs(a - b) for a, b in zip(losses, runs[FLOAT32].losses, strict=True))
    found = f"losses {apart:.2g} apart at most, of {losses[0]:.3f}; without scaling {runs[UNSCALED].losses[-1]:.4f}"
    at = len(runs[UNSCALED].losses)
    return (
        HELD if apart <= ALIKE * losses[0] else REFUTED,
        f"{found} after {at} steps, in float32 {runs[FLOAT32].losses[at - 1]:.4f}",
    )


def brain_is_enough(runs: Mapping[str, Trained]) -> tuple[str, str]:
    """Judge whether bfloat16 does without loss scaling."""
    run, theirs = runs[BRAIN], runs[FLOAT32]
    apart = abs(run.losses[-1] - theirs.losses[-1])
    found = (
        f"loss {run.losses[-1]:.4f}, in float32 {theirs.losses[-1]:.4f}; {100 * run.vanished[0]:.1f} % vanish"
    )
    return HELD if apart <= ALIKE * theirs.losses[0] else REFUTED, found


CUTS = "16-bit storage cuts the memory of training by 40 %"
STAYS = "training in mixed precision stays stable"
ENOUGH = "bfloat16 needs no loss scaling"


def pictures_of(runs: Mapping[str, Trained], language: str) -> tuple[Picture, ...]:
    """Return losses and loss scale over the steps."""
    inject = (Mark("inf", runs[MIXED].recipe.inject),)
    losses = tuple(Series(label, tuple(enumerate(run.losses, 1))) for label, run in runs.items())
    scale = (Series("loss scale", tuple(enumerate(runs[MIXED].scales, 1))),)
    return (
        Curves(f"Loss over steps, {language}", "step", "loss", losses, inject, is_x_log=False),
        Curves(f"Loss scale over steps, {language}", "step", "scale", scale, inject, is_x_log=False),
    )


def pictures(rows: Mapping[str, Rows]) -> tuple[Picture, ...]:
    """Return the curves of each language; those of a GPU are observed."""
    found: list[Picture] = []
    for language, each in rows.items():
        _, record = each.items()[0]
        found += pictures_of(runs_of(each), language) if record.device != "gpu" else ()
    return tuple(found)


def observe(clock: GpuClock) -> Observed:
    """Train on the GPU, and judge the claims there."""
    runs = trained("gpu", clock.language)
    claims = {CUTS: saved(runs), STAYS: stable(runs), ENOUGH: brain_is_enough(runs)}
    return Observed(claims, pictures_of(runs, clock.language))


EXPERIMENT = Experiment(
    name="mixed-precision",
    question="What does training in 16 bits save, and what does it take to be as good as in float32?",
    sweeps=(SWEEP,),
    derived=(
        Derived(
            "bytes_per_element",
            "B",
            lambda record: bytes_of("load", "store")(record) / (SMALL["rows"] * SMALL["columns"]),
        ),
    ),
    expectations=(
        Expectation("every answer equals NumPy's", all_right()),
        Expectation("the bias's gradient takes no pass of its own", no_second_pass),
        Expectation("in 16 bits a kernel of the backward pass moves half the bytes", half_the_bytes),
        Expectation(
            f"the mixed run ends within {ALIKE:g} of the first loss of float32's, under {LEARNT:g} of it",
            of_runs(converges),
        ),
        Expectation("small gradients vanish without loss scaling and not with it", of_runs(scaling_keeps)),
        Expectation(
            "an infinite gradient is found, and its step changes no bit of parameters or state",
            of_runs(skips),
        ),
        Expectation("the scale halves then, and doubles after enough clean steps", of_runs(backs_off)),
        Expectation(
            "parameters, their gradients and the optimiser take as many bytes as in float32, activations half",
            of_runs(saves_activations),
        ),
    ),
    claims=(
        Claim(CUTS, WRITE_UP, lambda rows: saved(runs_of(rows))),
        Claim(STAYS, WRITE_UP, lambda rows: stable(runs_of(rows))),
        Claim(
            ENOUGH,
            'Kalamkar et al., "A Study of BFLOAT16 for Deep Learning Training" (2019)',
            needs_gpu("a run of its own, left to a GPU"),
        ),
    ),
    pictures=pictures,
    lessons=(
        f"The loss that is shown is the mean over a run's rows. Its gradient is that of their sum over {BATCH}, as if "
        "they were part of so large a batch: it is then some 1e-7, near the least that float16 has (6e-8). Each run starts from the same parameters and sees the same samples.",
        "What counts as memory is every array that lives at the end of a backward pass: parameters (in mixed "
        "precision the float32 masters and the 16-bit copies), their gradients, AdamW's two means, activations with "
        "the samples, and the gradients of activations. The mixed run's 2 bytes less for a gradient are the 2 bytes "
        "of the copy: 16 bytes a parameter either way.",
        "16-bit gradients keep the scale until AdamW reads them (GradScaler.find_inf, adamw's inv_scale): taking it "
        "out in place would let them vanish after all.",
        "Forward and backward pass run in each language; the optimiser and the scaler, which take tables of arrays in one "
        "launch, in CUDA C.",
    ),
    unasked=("cuda-c",),
    observe=observe,
)
