"""Plans of the catalogue's cases, run on the emulator."""

from __future__ import annotations

import os
from dataclasses import replace

from kernellab import catalog
from kernellab.emulation import run_binary
from kernellab.plan import bind
from kernellab.problem import MOVED
from kernellab.verify import poisoned

IS_EXHAUSTIVE = bool(os.environ.get("KERNELLAB_EXHAUSTIVE"))
"""Test every twin, element and case, which takes half an hour with a cold cache; else what fits in minutes."""


PROBES = ("chase", "reread", "tally")
"""Problems of few lines whose emulated loops are long."""
LISTS = ("unscale", "global_norm", "adamw")
"""Problems over lists of arrays, which tests of the functions run in every element and in both languages."""
VARIANTS = ("matmul_nt", "matmul_bias_gelu", "matmul_nt_bias_gelu", "bias_gelu_backward")
"""Made of the same templates as matmul, and as column_sum."""


def is_tested(rung, language):
    """Say whether a rung is compiled and run: where there are elements, of the twins only the best one."""
    if IS_EXHAUSTIVE:
        return True
    if rung.problem.name in VARIANTS:
        return language == "cuda-c" and rung.name in ("mma", "wgmma", "wmma_faulty", "fused")
    if language == "cuda-c":
        return True
    if rung.problem.name in LISTS:
        return False
    twins = [each for each in catalog.ladder(rung.problem.name) if each.has_twin]
    return is_small(rung) or rung.name == twins[-1].name


def is_small(rung):
    """Say whether a problem is one of those that compute with one dtype at most, whose twins compile at once."""
    ladder = catalog.ladder(rung.problem.name)
    is_plain = all(set(each.elements) <= set(MOVED) and not each.stages for each in ladder)
    return (
        is_plain and "histogram" not in rung.problem.name and rung.problem.name not in (*PROBES, "elementary")
    )


def elements_of(rung, language):
    """Return the elements that are tested in a language."""
    elements = rung.elements or ("",)
    if IS_EXHAUSTIVE or is_small(rung):
        return elements
    if language == "numba" or rung.problem.name in (*VARIANTS, *LISTS):
        return elements[:1]
    return elements[::2] if len(elements) == 3 else elements  # float32 and bfloat16


def cases_of(rung, language="cuda-c"):
    """Return the problem's cases for which the rung is made."""
    tested = elements_of(rung, language)
    cases = [case for case in rung.cases if not rung.elements or case.element in tested]
    return (
        cases
        if IS_EXHAUSTIVE or is_small(rung) or rung.fails_on
        else [cases[0], *cases[1 :: 8 if language == "cuda-c" else 12]]
    )


def plan_of(rung, case):
    taken = {parameter.name for parameter in rung.parameters}
    parameters = {name: value for name, value in case.parameters.items() if name in taken}
    return bind(replace(rung, tuning=None), rung.problem.inputs(case), **parameters)


def run(plan, binary, language, **options):
    """Run a plan; return its outputs and its traces. `binary` may be a function of the kernel launched."""
    specs = {**plan.outputs, **plan.temporaries}
    buffers = {name: poisoned(spec.shape, spec.dtype) for name, spec in specs.items()}
    for name in plan.zeroed:
        buffers[name][...] = 0
    buffers |= plan.fresh_inputs()
    traces = []
    for step in plan.steps:
        made = binary(step.kernel) if callable(binary) else binary
        trace = run_binary(
            made,
            made.names[step.kernel.entry],
            step.grid,
            step.block,
            step.values(buffers, language),
            name=step.kernel.id,
            shared_mem=step.shared_mem,
            **options,
        )
        traces.append(trace)
    return {name: buffers[name] for name in plan.outputs}, traces
