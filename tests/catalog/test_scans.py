"""Single-pass scans with tiles so small that they wait for many others; and what the scans promise."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import kernellab as kl
from kernellab.catalog import kernel
from kernellab.plan import bind
from kernellab.problem import Case
from kernellab.verify import verify

LOOKBACK, GROUPED = kernel("cumsum/lookback"), kernel("cumsum/grouped")
SMALL = {
    "lookback": replace(LOOKBACK, constants={"THREADS": 32, "VECTORS": 1}),
    "grouped": replace(GROUPED, constants={"THREADS": 32, "VECTORS": 1, "GROUP": 32}),
    "wider group": replace(GROUPED, constants={"THREADS": 32, "VECTORS": 1, "GROUP": 160}),
}


def judged(rung, case, language):
    device = kl.EmulatedDevice()
    plan = bind(rung, rung.problem.inputs(case), **case.parameters)
    program = device.build(plan.kernel, language, with_ladder=False)
    run = device.run(program, plan, is_counted=False)
    assert run.errors == ()
    return verify(plan, run.outputs), run.outputs["y"], plan


@pytest.mark.parametrize("language", ["cuda-c", "numba"])
@pytest.mark.parametrize("name", SMALL)
def test_many_small_tiles(name, language):
    case = Case("many tiles", {"n": 128 * 75 + 5})
    verdict, _, plan = judged(SMALL[name], case, language)
    assert plan.steps[0].grid == (76, 1, 1)
    assert verdict.message == ""


def test_a_group_without_its_carry_is_found(tmp_path):
    include = GROUPED.text().replace('"scan.cuh"', '"broken.cuh"')
    scan = (GROUPED.path.parents[1] / "include" / "scan.cuh").read_text(encoding="utf-8")
    broken = scan.replace("return value_of(carry) + before;", "return before;")
    assert broken != scan
    (tmp_path / "broken.cuh").write_text(broken, encoding="utf-8")
    (tmp_path / "grouped.cu").write_text(include, encoding="utf-8")
    rung = replace(SMALL["grouped"], source=tmp_path / "grouped.cu")
    verdict, _, _ = judged(rung, Case("many tiles", {"n": 128 * 40}), "cuda-c")
    assert "first at [4096]" in verdict.message


def test_grouped_gives_the_same_bits_as_its_own_order_of_additions():
    case = Case("many tiles", {"n": 128 * 75})
    _, first, _ = judged(SMALL["grouped"], case, "cuda-c")
    _, again, _ = judged(SMALL["grouped"], case, "numba")
    assert first.tobytes() == again.tobytes()


@pytest.mark.parametrize("rung", ["hillis_steele", "blelloch", "lookback", "grouped"])
def test_exclusive_carries_at_the_block_edge(rung):
    x = np.zeros(1024, np.float32)
    x[[511, 599]] = 1
    y = kl.apply(f"cumsum/{rung}", x, exclusive=1, device="emulator")
    assert y[[510, 511, 512, 599, 600]].tolist() == [0, 0, 1, 1, 2]


def test_only_the_scan_that_adds_what_it_finds_is_not_deterministic():
    assert not LOOKBACK.deterministic
    assert GROUPED.deterministic
