"""Operands that a kernel takes as tensor maps: from the plan to the emulator, and to the driver's encoding."""

from __future__ import annotations

import sys
from dataclasses import replace
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

from kernellab.catalog import kernel
from kernellab.devices.emulated import EmulatedDevice
from kernellab.errors import SpecError
from kernellab.kernel import Geometry, Tile, covering
from kernellab.plan import bind
from kernellab.tensor_map import TensorMap
from kernellab.verify import verify

SOURCE = """
struct alignas(64) CUtensorMap { unsigned long long opaque[16]; };
extern "C" __global__ void copy_scalar(const __grid_constant__ CUtensorMap x, const __grid_constant__ CUtensorMap y) {
    __shared__ alignas(128) float tile[SIDE];
    __shared__ unsigned long long bar;
    unsigned to = __cvta_generic_to_shared(tile), at = __cvta_generic_to_shared(&bar), parity = 0;
    int i = blockIdx.x * SIDE;
    asm volatile("mbarrier.init.shared.b64 [%0], 1;\\nfence.mbarrier_init.release.cluster;" :: "r"(at) : "memory");
    asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" :: "r"(at), "r"(SIDE * 4) : "memory");
    asm volatile("cp.async.bulk.tensor.1d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3}], [%2];"
                 :: "r"(to), "l"(&x), "r"(at), "r"(i) : "memory");
    asm volatile("{\\n.reg .pred p;\\nL: mbarrier.try_wait.parity.shared.b64 p, [%0], %1;\\n@!p bra L;\\n}"
                 :: "r"(at), "r"(parity) : "memory");
    asm volatile("cp.async.bulk.tensor.1d.global.shared::cta.bulk_group [%0, {%2}], [%1];"
                 :: "l"(&y), "r"(to), "r"(i) : "memory");
    asm volatile("cp.async.bulk.commit_group;\\ncp.async.bulk.wait_group.read 0;" ::: "memory");
}
"""


@pytest.fixture
def rung(tmp_path):
    path = tmp_path / "tiles.cu"
    path.write_text(SOURCE)
    return replace(
        kernel("copy/scalar"),
        arguments=("x", "y"),
        constants={**kernel("copy/scalar").constants, "SIDE": 64},
        tiles={"x": Tile(("SIDE",)), "y": Tile(("SIDE",))},
        geometry=Geometry((1,), lambda at: (covering(at["n"], at["SIDE"]),)),
        source=path,
        twin="test",
    )


def test_a_kernel_that_takes_tiles(rung):
    x = np.random.default_rng(3).standard_normal(1000).astype(np.float32)
    plan = bind(rung, {"x": x})
    device = EmulatedDevice()
    run = device.run(device.build(rung), plan)
    assert run.errors == ()
    assert verify(plan, run.outputs).is_right
    assert run.traces[0].totals["tma_load_bytes"] == run.traces[0].totals["tma_store_bytes"] == x.nbytes


@pytest.mark.parametrize(
    ("side", "message"),
    [(6, "a row of the box has 24 bytes"), (512, r"box is \(512,\); its entries are 1 to 256")],
)
def test_tiles_that_hardware_does_not_take_are_refused_before_a_launch(rung, side, message):
    with pytest.raises(SpecError, match=f"copy/scalar: x cannot be a tensor map: {message}"):
        bind(rung.with_constants(SIDE=side), {"x": np.zeros(1000, np.float32)})


class _Names:
    """An enumeration of the driver: every member is its own name."""

    def __getattr__(self, name):
        return name


def fake_driver(monkeypatch, status=0):
    calls = []

    def encode(*arguments):
        calls.append(arguments)
        return status, SimpleNamespace(opaque=list(range(16)))

    driver = ModuleType("cuda.bindings.driver")
    driver.cuTensorMapEncodeTiled = encode
    driver.cuuint64_t = driver.cuuint32_t = int
    for name in (
        "CUtensorMapDataType", "CUtensorMapInterleave", "CUtensorMapSwizzle", "CUtensorMapL2promotion",
        "CUtensorMapFloatOOBfill",
    ):  # fmt: skip
        setattr(driver, name, _Names())
    bindings = ModuleType("cuda.bindings")
    bindings.driver = driver
    monkeypatch.setitem(sys.modules, "cuda.bindings", bindings)
    monkeypatch.setitem(sys.modules, "cuda.bindings.driver", driver)
    return calls


class OnGPU:
    """An array of 200 x 64 halves on a GPU, in rows of 80."""

    shape, dtype, strides = (200, 64), np.dtype(np.float16), (160, 2)
    __cuda_array_interface__ = {  # noqa: RUF012
        "shape": (200, 64), "typestr": "<f2", "strides": (160, 2), "data": (1 << 20, False), "version": 3
    }  # fmt: skip


def test_what_the_driver_gets(monkeypatch):
    calls = fake_driver(monkeypatch)
    found = TensorMap(OnGPU(), (128, 64), 128).encode_for_driver()
    assert found.nbytes == 128
    assert found["x"].tolist() == list(range(16))
    assert calls[0] == (
        "CU_TENSOR_MAP_DATA_TYPE_FLOAT16", 2, 1 << 20, [64, 200], [160], [64, 128], [1, 1],
        "CU_TENSOR_MAP_INTERLEAVE_NONE", "CU_TENSOR_MAP_SWIZZLE_128B", "CU_TENSOR_MAP_L2_PROMOTION_L2_256B",
        "CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE",
    )  # fmt: skip


def test_what_the_driver_refuses(monkeypatch):
    fake_driver(monkeypatch, status=1)
    with pytest.raises(SpecError, match="TensorMap: the driver refuses Tiling"):
        TensorMap(OnGPU(), (128, 64), 128).encode_for_driver()
