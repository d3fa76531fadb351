"""Plans of the catalogue's cases, run on the emulator."""

from __future__ import annotations

from dataclasses import replace

from kernellab.plan import bind
from kernellab.trace import run_binary
from kernellab.verify import poisoned


def cases_of(rung):
    """Return the problem's cases for which the rung is made."""
    return [case for case in rung.problem.cases if case.element in (rung.elements or ("float32",))]


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
