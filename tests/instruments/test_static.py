"""Registers, shared memory, occupancy and instruction mix, read without running."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import kernellab as kl
from kernellab import catalog
from kernellab.compile.binary import Binary
from kernellab.devices.program import Program
from kernellab.instruments import static
from kernellab.plan import bind

DEVICE = kl.EmulatedDevice()


def prepared(name, *arrays, language="cuda-c"):
    kernel = catalog.kernel(name) if isinstance(name, str) else name
    inputs = kernel.problem.inputs(kernel.problem.cases[0])
    return DEVICE.build(kernel, language), bind(kernel, inputs)


def values(readings):
    return {item.name: item.value for item in readings}


@pytest.mark.parametrize("language", ["cuda-c", "numba"])
def test_resources(language):
    found = values(static.resources(*prepared("transpose/padded", language=language)))
    assert found["shared_bytes"] == 4 * 32 * 33
    assert 10 <= found["registers"] <= 40
    assert found["local_bytes"] == 0
    # 32 warps a block: two blocks fit, and fill the 64.
    assert (found["resident_blocks"], found["occupancy"]) == (2, 1.0)


def test_dynamic_shared_memory_counts():
    kernel = catalog.kernel("transpose/padded")
    program, plan = prepared(kernel)
    more = replace(plan, steps=(replace(plan.steps[0], shared_mem=150_000),))
    found = static.resources(program, more)
    assert values(found)["shared_bytes"] == 4224 + 150_000
    (occupancy,) = [item for item in found if item.name == "occupancy"]
    assert (occupancy.value, occupancy.note) == (0.5, "limited by shared memory")


def test_ptx_mix_counts_every_instruction_once():
    program, plan = prepared("copy/float4")
    found = values(static.ptx_mix(program, plan))
    assert found["ptx/ld.global"] == 2
    assert found["ptx/st.global"] == 2
    assert found["ptx_instructions"] == sum(value for name, value in found.items() if "/" in name)


def test_sass_mix_shows_the_wide_access():
    found = values(static.sass_mix(*prepared("copy/float4")))
    assert found["sass/LDG.E.128.CONSTANT"] == 1
    assert found["sass/STG.E.128"] == 1
    assert found["sass_instructions"] == sum(value for name, value in found.items() if "/" in name)
    assert "sass/NOP" not in found


def test_read_gives_all_and_all_are_derived():
    program, plan = prepared("relu/branch")
    found = static.read(program, plan)
    assert found == (
        *static.resources(program, plan), *static.ptx_mix(program, plan), *static.sass_mix(program, plan),
    )  # fmt: skip
    assert {item.source for item in found} == {"derived"}


def test_nothing_launched_gives_nothing():
    kernel = catalog.kernel("copy/scalar")
    plan = bind(kernel, {"x": np.zeros(0, "float32")})
    assert static.read(DEVICE.build(kernel), plan) == ()


def test_without_machine_code():
    program, plan = prepared("copy/scalar")
    (kernel,) = [kernel for kernel, _ in program.parts if kernel.name == "scalar"]
    bare: Binary = replace(program.binary(kernel), cubin=None)
    lame = Program("emulator", "cuda-c", "sm_90", ((kernel, bare),))
    for instrument in (static.resources, static.sass_mix):
        with pytest.raises(kl.UnavailableError, match="has no machine code"):
            instrument(lame, plan)
    assert static.ptx_mix(lame, plan) == static.ptx_mix(program, plan)


@pytest.mark.parametrize(
    ("opcode", "family"),
    [
        ("ld.shared.v4.f32", "ld.shared"),
        ("ld.volatile.global.u32", "ld.global"),
        ("st.local.u32", "st.local"),
        ("atom.global.add.u32", "atom.global"),
        ("cp.async.cg.shared.global", "cp.shared"),
        ("st.shared::cta.u32", "st.shared"),
        ("ld.u32", "ld"),
        ("fma.rn.f32", "fma"),
        ("ret", "ret"),
    ],
)
def test_family(opcode, family):
    assert static.family(opcode) == family
