"""Operations of a warp: pure functions, in kernels, under partial masks, with absent lanes."""

from __future__ import annotations

import numpy as np
import pytest
from launching import Kernels, integers

from kernellab.emulator import warp_ops
from kernellab.errors import ExecutionError

MEMORY = Kernels.of("memory.cu")
i32, u32 = np.int32, np.uint32
LANE = np.arange(32)


def row(value):
    return np.broadcast_to(np.asarray(value), (1, 32))


@pytest.mark.parametrize(
    ("mode", "offset", "source", "is_inside"),
    [
        ("down", 1, np.minimum(LANE + 1, 31), LANE < 31),
        ("up", 4, np.where(LANE < 4, LANE, LANE - 4), LANE >= 4),
        ("bfly", 5, LANE ^ 5, LANE >= 0),
        ("idx", 7, LANE * 0 + 7, LANE >= 0),
    ],
)
def test_shuffles_keep_their_own_value_outside_the_segment(mode, offset, source, is_inside):
    clamp = 0 if mode == "up" else 31
    values, inside, sources = warp_ops.shuffle(mode, row(LANE * 10), row(offset), row(clamp))
    np.testing.assert_array_equal(values[0], source * 10)
    np.testing.assert_array_equal(inside[0], is_inside)
    np.testing.assert_array_equal(sources[0], source)


def test_shuffles_in_segments():
    values, inside, _ = warp_ops.shuffle("down", row(LANE), row(3), row(31 | 24 << 8))  # segments of 8
    np.testing.assert_array_equal(values[0], np.where(LANE % 8 < 5, LANE + 3, LANE))
    np.testing.assert_array_equal(inside[0], LANE % 8 < 5)


def test_votes_and_matches_count_members_only():
    members = row(u32(0xFF))
    predicates = row(LANE < 6)
    assert warp_ops.vote("ballot", predicates, members)[0, 0] == 0x3F
    assert [bool(warp_ops.vote(m, predicates, members)[0, 0]) for m in ("all", "any", "uni")] == [
        False,
        True,
        False,
    ]
    masks, _ = warp_ops.match("any", row(LANE // 4), members)
    assert masks[0, :8].tolist() == [0xF] * 4 + [0xF0] * 4
    _, is_all = warp_ops.match("all", row(LANE // 8), members)
    assert is_all[0, 0]


def test_reductions_and_elections():
    values = row(LANE.astype(i32) - 5)
    members = np.where(LANE < 16, 0xFFFF, 0xFFFF0000).astype(u32)[None]
    assert set(warp_ops.reduce("add", values, members)[0, :16]) == {sum(range(-5, 11))}
    assert set(warp_ops.reduce("min", values, members)[0, 16:]) == {11}
    leader, is_leader = warp_ops.elect(members)
    assert (leader[0, 3], leader[0, 20]) == (0, 16)
    np.testing.assert_array_equal(np.flatnonzero(is_leader[0]), [0, 16])


def test_intrinsics(rng):
    x, y, z = integers(rng, 0, 10, 32), np.zeros(224, i32), np.zeros(160, u32)
    MEMORY("warps", 1, 32, x, y, z)
    i = LANE
    expected = [
        x[i * 7 % 32],
        np.where(i % 8 < 3, x, x[i - 3]),
        np.where(i % 16 + 5 > 15, x, x[(i + 5) % 32]),
        x[i ^ 9],
        x[3] + x[i ^ 1],
        np.where(i < 16, x[i ^ 1], x[16:].min()),
        np.ones(32),
    ]
    np.testing.assert_array_equal(y, np.concatenate(expected))
    ballot = sum(1 << k for k in i[x > 4].tolist())
    same = [sum(1 << k for k in i[x == v].tolist()) for v in x]
    sums = x.sum() + x.max() * 1000 + np.bitwise_xor.reduce(x) * 100000
    votes = (x == 7).any() * 2 + 1 + 4
    everyone = 2**32 - 1 + 1  # the mask of all lanes, plus the predicate
    np.testing.assert_array_equal(
        z, np.concatenate([[ballot] * 32, same, [everyone % 2**32] * 32, [sums] * 32, [votes] * 32])
    )


def test_parts_of_a_warp_exchange_values_in_a_branch(rng):
    x, y = integers(rng, 0, 10, 32), np.zeros(32, i32)
    trace = MEMORY("partial_masks", 1, 32, x, y)
    for i in range(32):
        value, first = int(x[i]), int(x[i // 8 * 8])
        for _ in range(i // 8):
            value, first = value + first, first * 2
        assert y[i] == (value if i % 8 < 5 else 0)
    assert trace.diagnostics == ()


def test_a_mask_that_names_absent_lanes_is_noted():
    x, y = np.arange(32, dtype=i32), np.zeros(1, i32)
    trace = MEMORY("sloppy_mask", 1, 32, x, y)
    assert y[0] == 120  # lane 0 sums the 16 lanes that are there
    assert {d.kind for d in trace.diagnostics} == {"absent lane"}
    assert "lane 16, which is absent" in str(trace.diagnostics[0])
    assert not any(d.is_error for d in trace.diagnostics)


def test_members_that_leave_without_coming_are_absent():
    text = """extern "C" __global__ void f(const int* x, int* y) {
        int v = x[threadIdx.x];
        if (threadIdx.x < 16) for (int k = 8; k; k /= 2) v += __shfl_down_sync(0xffffffff, v, k);
        y[threadIdx.x] = v * v;
    }"""
    x, y = np.arange(32, dtype=i32), np.zeros(32, i32)
    trace = Kernels(text)("f", 1, 32, x, y)
    assert y[0] == 120**2
    assert "shuffle reads lane 16, which is absent" in str(trace.diagnostics[0])


def test_a_lane_outside_its_own_mask_is_named_though_its_members_do_not_come():
    text = """extern "C" __global__ void f(int* y) {
        int v = threadIdx.x;
        if (v >= 16) v = __shfl_sync(0x0000ffff, v, 3);
        __syncthreads();
        y[threadIdx.x] = v;
    }"""
    with pytest.raises(
        ExecutionError, match=r"f: lane 16 executes .* member mask 0x0000ffff lacks it"
    ) as caught:
        Kernels(text)("f", 1, 32, np.zeros(32, i32))
    found = [d for d in caught.value.trace.diagnostics if d.kind == "lane outside its mask"]
    assert [(d.is_error, d.count, d.thread) for d in found] == [(True, 16, (16, 0, 0))]


def test_a_lane_outside_its_own_mask_is_an_error():
    with pytest.raises(ExecutionError, match=r"member mask 0x000000ff lacks it.*thread \(8, 0, 0\)"):
        MEMORY("not_in_mask", 1, 32, np.zeros(32, i32))
