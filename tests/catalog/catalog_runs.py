"""Plans of the catalogue's cases, run on the emulator."""

from __future__ import annotations

from kernellab.plan import bind
from kernellab.trace import run_binary
from kernellab.verify import poisoned


def plan_of(rung, case):
    taken = {parameter.name for parameter in rung.parameters}
    parameters = {name: value for name, value in case.parameters.items() if name in taken}
    return bind(rung, rung.problem.inputs(case), **parameters)


def run(plan, binary, language, **options):
    """Run a plan; return its outputs and its traces."""
    outputs = {name: poisoned(spec.shape, spec.dtype) for name, spec in plan.outputs.items()}
    for name in plan.zeroed:
        outputs[name][...] = 0
    buffers = {**plan.fresh_inputs(), **outputs}
    traces = [
        run_binary(
            binary,
            binary.names[step.kernel.entry],
            step.grid,
            step.block,
            step.values(buffers, language),
            name=step.kernel.id,
            shared_mem=step.shared_mem,
            **options,
        )
        for step in plan.steps
    ]
    return outputs, traces
