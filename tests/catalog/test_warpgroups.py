"""Products by warpgroups: clusters, blocks that stay for several tiles, what they refuse, and broken ones."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import kernellab as kl
from kernellab.catalog import kernel
from kernellab.checks import HOPPER
from kernellab.devices.emulated import EmulatedDevice
from kernellab.plan import bind
from kernellab.verify import verify

FEW = replace(HOPPER, multiprocessors=2)


def judged(name, size, constants, *, change=None, folder=None, element="float16"):
    rung = kernel(f"{name}/wgmma").with_element(element).with_constants(**constants)
    if change is not None:
        path, old, new = change
        text = (rung.path.parents[1] / path).read_text(encoding="utf-8")
        assert old in text
        for each in (rung.path.parents[1] / "include").glob("*.cuh"):
            (folder / each.name).write_text(each.read_text(encoding="utf-8"), encoding="utf-8")
        (folder / path.split("/")[-1]).write_text(text.replace(old, new), encoding="utf-8")
        (folder / "wgmma.cu").write_text(rung.text(), encoding="utf-8")
        rung = replace(rung, source=folder / "wgmma.cu")
    m, n, k = size
    rng = np.random.default_rng(5)
    shapes = {"a": (m, k), "b": (n, k) if "_nt" in name else (k, n), "bias": (n,)}
    given = {
        item.name: rng.standard_normal(shapes[item.name]).astype(item.numpy_dtype) for item in rung.inputs
    }
    plan = bind(rung, given, limits=FEW)
    device = EmulatedDevice()
    run = device.run(device.build(plan.kernel), plan, is_counted=False)
    return run.errors, verify(plan, run.outputs).message if not run.errors else ""


@pytest.mark.parametrize("name", ["matmul", "matmul_nt_bias_gelu"])
def test_clusters_that_stay_for_several_tiles(name):
    constants = {"ROWS": 128, "COLUMNS": 128, "STAGES": 3, "CLUSTER": 2, "BAND": 2}
    assert judged(name, (520, 264, 200), constants) == ((), "")


BASE = {"ROWS": 128, "COLUMNS": 256, "STAGES": 2, "CLUSTER": 1, "BAND": 4}
BROKEN = {
    "a swizzle that the product does not know": (
        "include/hopper.cuh",
        "1024ull >> 4 << 32 | 1ull << 62",
        "1024ull >> 4 << 32 | 2ull << 62",
    ),
    "a stage released before its product is done": (
        "include/warpgroups.cuh",
        "wgmma.wait_group.sync.aligned 1;",
        "",
    ),
    "a barrier that expects more than comes": (
        "include/warpgroups.cuh",
        "barrier_expect(barrier, A_BYTES + B_BYTES)",
        "barrier_expect(barrier, A_BYTES + B_BYTES + 16)",
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_what_is_broken_is_found(name, tmp_path):
    errors, message = judged("matmul_nt", (128, 256, 320), BASE, change=BROKEN[name], folder=tmp_path)
    assert errors or message


def test_a_barrier_that_is_never_complete_is_reported_with_its_line(tmp_path):
    change = BROKEN["a barrier that expects more than comes"]
    errors, _ = judged("matmul_nt", (128, 256, 64), BASE, change=change, folder=tmp_path)
    assert "deadlock" in errors[0]
    assert ".cu" in errors[0]


def test_sizes_that_tensor_maps_do_not_take_go_elsewhere():
    rung = kernel("matmul_nt/wgmma")
    given = {"a": np.zeros((5, 12), np.float16), "b": np.zeros((8, 12), np.float16)}
    with pytest.raises(kl.SpecError, match="k is 12, it must be a multiple of 8"):
        bind(rung, given)
    plan = bind(rung, given, fall_back=True)
    assert plan.kernel.name != "wgmma"
    assert "ran instead" in plan.notes[0]


def test_another_device_refuses_it_in_one_sentence():
    rung = kernel("matmul_nt/wgmma")
    with pytest.raises(kl.SpecError, match="needs sm_90a, the device is sm_80"):
        EmulatedDevice("sm_80").build(rung)
