"""Rungs in the launch shapes that `bind` chooses for users, where the other tests take those of the source."""

from __future__ import annotations

import pytest
from catalog_runs import IS_EXHAUSTIVE, VARIANTS

import kernellab as kl
from kernellab import catalog
from kernellab.errors import SpecError
from kernellab.measurement import judge
from kernellab.plan import bind

MADE_OF_OTHERS = (
    *VARIANTS,
    "axpy",
    "triad",
    "layernorm_gelu",
    "residual_layernorm",
    "softmax_dropout",
    "softmax_cross_entropy",
    "bias_gelu",
)
"""Problems whose shapes come from the same choice as those of a problem that is tested, for the same templates."""
TUNED = [
    rung
    for rung in catalog.kernels()
    if rung.tuning is not None
    and not rung.fault
    and (IS_EXHAUSTIVE or rung.problem.name not in MADE_OF_OTHERS)
]
WITH_TWINS = ("layernorm/registers",)
"""Whose twins are run by default: that in which warps were counted that are not there."""


def has_odd_warps(plan):
    """Say whether a block's warps are no power of two, so that more lanes cover them than there are."""
    threads = max((step.block[0] for step in plan.steps), default=0)
    return bool(threads // 32 & (threads // 32 - 1))


def plans(rung, device):
    """Return a plan for each shape that is chosen for some case: by default for one, of odd warps if there are any."""
    chosen = {}
    for case in rung.cases:
        given = rung.problem.inputs(case)
        taken = {
            item.name: case.parameters[item.name] for item in rung.parameters if item.name in case.parameters
        }
        try:
            plan = bind(
                rung, {item.name: given[item.name] for item in rung.inputs}, limits=device.limits, **taken
            )
        except SpecError:  # of shapes that it does not take
            continue
        if plan.kernel.constants != rung.constants:
            chosen[tuple(plan.kernel.constants.items())] = plan
    found = sorted(chosen.values(), key=lambda plan: (has_odd_warps(plan), plan.cost().nbytes))
    return found if IS_EXHAUSTIVE else found[-1:]


@pytest.mark.parametrize("rung", TUNED, ids=lambda rung: rung.id)
@pytest.mark.parametrize("language", ["cuda-c", "numba"])
def test_chosen_shapes_are_right(rung, language):
    if language == "numba" and not rung.has_twin:
        pytest.skip(rung.twin)
    if language == "numba" and not IS_EXHAUSTIVE and rung.id not in WITH_TWINS:
        pytest.skip("with KERNELLAB_EXHAUSTIVE=1 only")
    device = kl.device("emulator")
    for plan in plans(rung, device):
        run = device.run(device.build(plan.kernel, language), plan, is_counted=False)
        assert judge(plan, run).is_right, (plan.sizes, dict(plan.kernel.constants), judge(plan, run).message)
