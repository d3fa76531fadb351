"""Special registers: who a thread is, and in what launch it runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from kernellab.emulator.lanes import WARP

if TYPE_CHECKING:
    from kernellab.emulator.batch import Batch

GRID_BARRIER = "the barrier of the grid"


def special_values(batch: Batch, name: str) -> Any:
    """Return what a special register holds, in a shape that spreads over (warps, 32)."""
    launch = batch.launch
    base, _, axis = name.partition(".")
    k = "xyz".find(axis) if axis else 0
    if base == "%tid":
        x, y, _ = launch.block
        return (batch.linear, batch.linear // x, batch.linear // (x * y))[k] % launch.block[k]
    if base in ("%ctaid", "%clusterid"):
        x, y, _ = launch.grid
        ids = batch.block_ids
        where = ((ids, ids // x, ids // (x * y))[k] % launch.grid[k])[batch.block_of_row][:, None]
        return where // launch.cluster[k] if base == "%clusterid" else where
    lane = np.arange(WARP, dtype=np.uint32)
    one = np.uint32(1)
    rank = (batch.block_of_row % launch.cluster_size)[:, None]
    wide, high, _ = launch.cluster
    values: dict[str, Any] = {
        "%ntid": launch.block[k],
        "%nctaid": launch.grid[k],
        "%laneid": lane,
        "%warpid": batch.warp_of_row[:, None],
        "%nwarpid": batch.warps_per_block,
        "%smid": (batch.block_ids % 132)[batch.block_of_row][:, None],
        "%nsmid": 132,
        "%lanemask_eq": one << lane,
        "%lanemask_lt": (one << lane) - one,
        "%lanemask_le": (one << lane) | ((one << lane) - one),
        "%lanemask_gt": ~((one << lane) | ((one << lane) - one)),
        "%lanemask_ge": ~((one << lane) - one),
        "%dynamic_smem_size": launch.dynamic_shared,
        "%total_smem_size": launch.shared_bytes,
        "%nclusterid": launch.grid[k] // launch.cluster[k],
        "%cluster_nctaid": launch.cluster[k],
        "%cluster_nctarank": launch.cluster_size,
        "%cluster_ctarank": rank,
        "%cluster_ctaid": (rank, rank // wide, rank // (wide * high))[k] % launch.cluster[k],
        "%is_explicit_cluster": int(launch.cluster_size > 1),
    }
    if base in ("%envreg1", "%envreg2"):  # where cooperative groups find the barrier of the grid
        address = _grid_barrier(batch)
        return address >> 32 if base == "%envreg1" else address & 0xFFFFFFFF
    return values.get(base, 0)


def _grid_barrier(batch: Batch) -> int:
    memory = batch.launch.memory
    known = next((each for each in memory.allocations if each.name == GRID_BARRIER), None)
    if known is None:
        known = memory.allocate(GRID_BARRIER, np.zeros(64, np.uint8), is_array=False)
    return known.base
