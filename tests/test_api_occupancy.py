"""kl.occupancy: kernels, registers and files; waves; more shared memory than there is."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import kernellab as kl
from kernellab.api_occupancy import needs
from kernellab.catalog import kernel
from kernellab.checks import HOPPER
from kernellab.experiments.launch_points import launched
from kernellab.plan import bind


def test_registers_threads_and_shared_memory() -> None:
    found = kl.occupancy(32, 256)
    assert (found.blocks, found.warps, found.fraction, found.limiter) == (8, 64, 1.0, "warps and registers")
    assert kl.occupancy(np.int64(32), np.int32(256), 115713).blocks == 1
    assert kl.occupancy(32, 256, arch="sm_86").warps == 48


def test_a_kernel_of_the_catalogue_is_compiled() -> None:
    found = needs("transpose/padded")
    assert (found.threads, found.shared_bytes) == (1024, 4224)
    assert found.registers > 8
    assert needs("transpose/padded", threads=256, shared_mem=1000).shared_bytes == 5224
    asked = launched("horner/single", threads=96, shared=HOPPER.shared)
    assert (needs(asked).threads, kl.occupancy(asked).limiter) == (96, "shared memory")


@pytest.mark.parametrize(
    ("blocks", "full", "tail", "efficiency"),
    [(0, 0, 0, 0.0), (1, 0, 1, 1 / 1056), (1056, 1, 0, 1.0), (1057, 1, 1, 1057 / 2112), (2112, 2, 0, 1.0)],
)
def test_waves(blocks: int, full: int, tail: int, efficiency: float) -> None:
    found = kl.occupancy(32, 256).waves(blocks)
    assert (found.capacity, found.full, found.tail) == (8 * 132, full, tail)
    assert found.efficiency == pytest.approx(efficiency)
    assert kl.occupancy(32, 256).waves(blocks, multiprocessors=1).capacity == 8


@pytest.mark.parametrize(
    ("arguments", "kind", "message"),
    [
        ((32,), kl.ArgumentError, "the threads of a block of 32 are not known; pass threads=256"),
        ((3.5, 256), kl.ArgumentError, "kernel is 3.5, it must be registers a thread, a kernel's id or FILE"),
        ((300, 256), kl.SpecError, r"registers is 300, it must lie in \[0, 255\]"),
        (("copy/scalar", 256, -1), kl.SpecError, "shared_mem is -1, it must be at least 0"),
        ((40, 256, -1), kl.SpecError, "shared_mem is -1, it must be at least 0"),
        ((40, 256, 1.5), kl.ArgumentError, "shared_mem is 1.5, it must be an integer"),
        ((40, 256.0), kl.ArgumentError, r"threads is 256.0, it must be one to three integers \(x, y, z\)"),
    ],
)
def test_refused(arguments: tuple[object, ...], kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        kl.occupancy(*arguments)  # type: ignore[arg-type]


def test_waves_refuse_what_never_runs() -> None:
    with pytest.raises(
        kl.SpecError, match="does not fit a multiprocessor, for its registers, so no grid runs"
    ):
        kl.occupancy(255, 1024).waves(1)
    with pytest.raises(kl.SpecError, match="grid is -1, no side may be negative"):
        kl.occupancy(32, 256).waves(-1)
    with pytest.raises(kl.SpecError, match="multiprocessors is 0, it must be at least 1"):
        kl.occupancy(32, 256).waves(1, multiprocessors=0)
    with pytest.raises(kl.ArgumentError, match=r"grid is 1\.5, it must be one to three integers"):
        kl.occupancy(32, 256).waves(1.5)
    with pytest.raises(kl.ArgumentError, match=r"multiprocessors is 1\.5, it must be an integer"):
        kl.occupancy(32, 256).waves(1, multiprocessors=1.5)  # type: ignore[arg-type]
    with pytest.raises(kl.SpecError, match="arch: 90 is not known, it must be one of sm_75"):
        kl.occupancy(32, 256, arch=90)  # type: ignore[arg-type]


def test_blocks_and_grids_have_up_to_three_sides() -> None:
    assert kl.occupancy(40, (16, 16)) == kl.occupancy(40, 256)
    assert kl.occupancy(40, 256).waves((10, 10)) == kl.occupancy(40, 256).waves(100)


def test_no_block_is_larger_than_its_kernel_was_compiled_for(tmp_path: Path) -> None:
    path = tmp_path / "bound.cu"
    path.write_text('extern "C" __global__ void __launch_bounds__(128) k(float* x) { x[threadIdx.x] = 1; }')
    found = kl.occupancy(f"{path}::k", 512)
    assert (found.blocks, found.fraction, found.limiter) == (0, 0, "launch bounds")
    assert kl.occupancy(f"{path}::k", 128).warps == 64
    with pytest.raises(kl.SpecError, match="does not fit a multiprocessor, for its launch bounds"):
        found.waves(1)


def test_too_much_shared_memory_is_refused_before_any_launch() -> None:
    x = {"x": np.zeros(8, np.float32)}
    assert bind(launched("horner/single", shared=HOPPER.shared), x).steps[0].shared_mem == 232448
    with pytest.raises(
        kl.SpecError,
        match=r"^horner/single: block needs 232449 bytes of shared memory, the limit is 232448; ask for fewer bytes$",
    ):
        bind(launched("horner/single", shared=HOPPER.shared + 1), x)
    tile = kernel("transpose/padded")
    large = replace(tile, constants={"TILE": 120}, geometry=replace(tile.geometry, block=(32, 8)))
    with pytest.raises(
        kl.SpecError, match=r"declares 58080 bytes .* limit is 49152; lower TILE \(now 120\)$"
    ):
        bind(large, {"x": np.zeros((8, 8), np.float32)})
    code = 'extern "C" __global__ void k(float* y) { extern __shared__ float s[]; y[0] = threadIdx.x; }'
    y = np.zeros(1, np.float32)
    assert kl.trace(code, "k", 1, 32, (y,), shared_mem=232448).shared_bytes == 232448
    with pytest.raises(
        kl.SpecError, match=r"k: a block has 232449 bytes of shared memory, the limit is 232448"
    ):
        kl.trace(code, "k", 1, 32, (y,), shared_mem=232449)
    with pytest.raises(
        kl.SpecError, match=r"k: a block has 166913 bytes of shared memory, the limit is 166912"
    ):
        kl.trace(code, "k", 1, 32, (y,), shared_mem=166913, arch="sm_80")
