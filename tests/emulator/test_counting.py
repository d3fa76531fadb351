from __future__ import annotations

import csv
from collections import Counter
from functools import partial
from pathlib import Path
from timeit import repeat

import numpy as np
import pytest

from kernellab.emulator import counting

GOLDEN = Path(__file__).parents[1] / "golden" / "h200_memory_access.csv"
ATOMICS = GOLDEN.with_name("h200_atomics.csv")  # ncu, kernels of one warp and one atomic compiled for sm_90
ALL = np.ones((1, 32), bool)
LANE = np.arange(32, dtype=np.int64)[None, :]


def _golden():
    with GOLDEN.open(newline="") as file:
        return list(csv.DictReader(file))


def _counter(row):
    space, operation, width = row["space"], row["operation"], int(row["bytes_per_lane"])
    if operation.startswith("ldmatrix"):
        return partial(counting.ldmatrix, matrices=int(operation[-1]))
    if space == "global":
        count = counting.global_access if operation in ("load", "store") else counting.global_atomic
        return partial(count, width=width)
    if operation in ("load", "store"):
        return partial(getattr(counting, f"shared_{operation}"), width=width)
    return partial(counting.shared_atomic, width=width, is_float_add=operation.endswith("f32"))


def _warp(row):
    addresses = np.array([row["byte_offsets"].split()], np.int64)
    mask = (int(row["active_mask"], 16) >> LANE & 1).astype(bool)
    return addresses, mask


def _measured(row):
    names = ("sectors", "lines") if row["space"] == "global" else ("wavefronts", "bank_conflicts")
    return tuple(int(row[name]) for name in names)


def _is_the_odd_one(row):
    return row["space"] == "global" and row["operation"] == "red.add.u32" and row["pattern"] == "random1"


@pytest.mark.parametrize("shift", [0, 4096, 7 * 4096, 2**40])
def test_reproduces_what_the_hardware_counted(shift):
    rows = _golden()
    wrong = []
    for row in rows:
        addresses, mask = _warp(row)
        counts = _counter(row)(addresses + shift, mask)
        if tuple(int(count[0]) for count in counts[:2]) != _measured(row):
            wrong.append((row, counts))
    assert len(rows) == 933
    assert [row["pattern"] for row, _ in wrong if not _is_the_odd_one(row)] == []
    assert len(wrong) == 1
    assert abs(int(wrong[0][1].sectors[0]) - int(wrong[0][0]["sectors"])) == 1


def _count_atomic(row, addresses, mask):
    width = int(row["bytes_per_lane"])
    match row["space"], row["operation"].split()[0]:
        case "global", _:
            return {"requests": 1, "sectors": counting.global_atomic(addresses, mask, width).sectors}
        case "local", _:
            counts = counting.local_access(addresses, mask, width)
            return {"requests": counting.local_requests(width), "sectors": counts.sectors}
        case _, "loop":
            loop = counting.shared_cas_loop(addresses, mask, width)
            return {
                "requests": loop.rounds,
                "wavefronts": loop.wavefronts,
                "bank_conflicts": 0,
                "load_requests": loop.rounds,
                "load_wavefronts": loop.load_wavefronts,
                "load_bank_conflicts": loop.load_bank_conflicts,
            }
        case _, "popc.inc":
            counts = counting.shared_load(addresses, mask, width)
        case _, "cas.b32":
            counts = counting.shared_cas(addresses, mask, width)
        case _:
            counts = counting.shared_atomic(addresses, mask, width)
    return {"requests": 1, "wavefronts": counts.wavefronts, "bank_conflicts": counts.bank_conflicts}


@pytest.mark.parametrize("copies", [1, 3])
def test_reproduces_atomics_and_local_memory_as_the_hardware_counted_them(copies):
    with ATOMICS.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 176
    for row in rows:
        addresses = np.array([row["byte_offsets"].split()] * copies, np.int64)
        counts = _count_atomic(row, addresses, np.ones((copies, 32), bool))
        measured = {name: int(row[name]) for name in counts}
        where = row["operation"], row["pattern"]
        assert (where, {name: int(np.max(count)) for name, count in counts.items()}) == (where, measured)


@pytest.mark.parametrize("mix", ["together", "with junk in lanes that are off", "repeated"])
def test_many_rows_count_like_single_ones(mix):
    kinds = {}
    for row in _golden():
        kinds.setdefault((row["space"], row["operation"], row["bytes_per_lane"]), []).append(row)
    random = np.random.default_rng(1)
    for rows in kinds.values():
        if mix == "repeated":
            for row in rows[::5]:
                addresses, mask = _warp(row)
                moved = addresses + 4096 * random.integers(0, 1000, (50, 1))
                many = _counter(row)(moved, mask.repeat(50, 0))
                one = _counter(row)(addresses, mask)
                assert all((a == b).all() for a, b in zip(many, one, strict=True))
            continue
        count = _counter(rows[0])
        addresses, masks = (np.concatenate(part) for part in zip(*map(_warp, rows), strict=True))
        singles = [count(addresses[i : i + 1], masks[i : i + 1]) for i in range(len(rows))]
        if mix != "together":
            addresses = np.where(masks, addresses, random.integers(-(2**50), 2**50, addresses.shape) * 16)
        for column, many in enumerate(count(addresses, masks)):
            assert many.dtype == np.int64
            assert many.tolist() == [int(single[column][0]) for single in singles]


@pytest.mark.parametrize(
    ("width", "stride", "offset", "sectors", "ideal"),
    [
        (4, 4, 0, 4, 4),
        (4, 0, 0, 1, 1),
        (4, 4, 4, 5, 4),
        (4, 8, 0, 8, 4),
        (4, 128, 0, 32, 4),
        (8, 8, 0, 8, 8),
        (2, 2, 0, 2, 2),
        (1, 1, 0, 1, 1),
        (16, 16, 0, 16, 16),
        (8, 24, 8, 24, 8),  # the member y of a struct of three doubles
    ],
)
def test_global_patterns_that_people_ask_about(width, stride, offset, sectors, ideal):
    counts = counting.global_access(stride * LANE + offset, ALL, width)
    assert (counts.sectors[0], counts.ideal_sectors[0]) == (sectors, ideal)


@pytest.mark.parametrize(
    ("width", "stride", "wavefronts", "conflicts"),
    [
        (4, 4, 1, 0),
        (4, 8, 2, 1),
        (4, 12, 1, 0),
        (4, 32, 8, 7),
        (4, 128, 32, 31),
        (4, 132, 1, 0),
        (4, 0, 1, 0),
        (1, 1, 1, 0),  # four lanes read one word: no conflict
        (8, 8, 2, 0),
        (16, 16, 4, 0),
    ],
)
def test_shared_patterns_that_people_ask_about(width, stride, wavefronts, conflicts):
    counts = counting.shared_load(stride * LANE, ALL, width)
    assert (counts.wavefronts[0], counts.bank_conflicts[0]) == (wavefronts, conflicts)


def test_pairs_of_lanes_merge_only_when_they_load():
    pairs = 16 * (LANE // 2)
    assert counting.shared_load(pairs, ALL, 16).wavefronts[0] == 2
    assert counting.shared_store(pairs, ALL, 16).wavefronts[0] == 4


@pytest.mark.parametrize(("width", "sectors", "lines"), [(1, 4, 1), (4, 4, 1), (8, 8, 2), (16, 16, 4)])
def test_local_memory_interleaves_lanes_by_words(width, sectors, lines):
    counts = counting.local_access(np.full((3, 32), 48), np.ones((3, 32), bool), width)
    assert counts.sectors.tolist() == [sectors] * 3
    assert counts.lines.tolist() == [lines] * 3


def test_local_memory_with_an_index_for_each_lane():
    counts = counting.local_access(4 * LANE, ALL, 4)
    assert (counts.sectors[0], counts.lines[0], counts.ideal_sectors[0]) == (32, 32, 4)


@pytest.mark.parametrize("rows", [1, 2, 5])
@pytest.mark.parametrize("emptied", [slice(None), slice(-1, None)])
def test_a_request_without_lanes_counts_nothing(rows, emptied):
    addresses = np.repeat(4 * LANE, rows, axis=0)
    mask = np.ones((rows, 32), bool)
    mask[emptied] = False
    for count in (
        *(
            partial(getattr(counting, name), width=4)
            for name in ("global_access", "global_atomic", "local_access")
        ),
        *(partial(getattr(counting, f"shared_{name}"), width=8) for name in ("load", "store", "atomic")),
        partial(counting.shared_atomic, width=4, is_float_add=True),
        partial(counting.ldmatrix, matrices=4),
        partial(counting.shared_cas_loop, width=8),
        partial(counting.shared_cas, width=4),
    ):
        for counts in count(addresses, mask):
            assert counts.shape == (rows,)
            assert not counts[emptied].any()


def test_no_rows_at_all():
    nothing = np.empty((0, 32), np.int64)
    assert counting.global_access(nothing, nothing.astype(bool), 4).sectors.shape == (0,)
    assert counting.global_atomic(nothing, nothing.astype(bool), 4).sectors.shape == (0,)
    assert counting.shared_load(nothing, nothing.astype(bool), 16).wavefronts.shape == (0,)


def _by_hand(addresses, mask, width):
    """Count sectors, lines, distinct bytes, busiest sums and bank loads lane by lane, in plain Python."""
    lanes = [int(a) for a, on in zip(addresses, mask, strict=True) if on]
    touched = {byte for a in lanes for byte in range(a, a + width)}
    most = Counter()
    for address, times in Counter(lanes).items():
        most[address // 32] = max(most[address // 32], times)
    return (
        (len({b // 32 for b in touched}), len({b // 128 for b in touched}), -(-len(touched) // 32)),
        sum(most.values()),
    )


@pytest.mark.parametrize("width", [1, 2, 4, 8, 16])
@pytest.mark.parametrize("spread", [8, 64, 4096])
def test_random_rows_against_plain_loops(width, spread):
    random = np.random.default_rng(width * spread)
    addresses = width * random.integers(0, spread, (40, 32))
    mask = random.random((40, 32)) < random.random((40, 1))
    access, atomic = (
        count(addresses, mask, width) for count in (counting.global_access, counting.global_atomic)
    )
    for row in range(40):
        counts, busy = _by_hand(addresses[row], mask[row], width)
        assert tuple(int(count[row]) for count in access) == counts
        assert int(atomic.sectors[row]) == busy


def _wavefronts_by_hand(addresses, lanes, width, phases):
    """Sum over phases the most different words in one bank."""
    total = 0
    for phase in phases:
        words = {(int(addresses[i]) + k) // 4 for i in phase if i in lanes for k in range(width)}
        total += max(Counter(word % 32 for word in words).values(), default=0)
    return total


def _phases_by_hand(addresses, lanes, width, is_load):
    size = min(32, 128 // width)
    phases = [range(start, start + size) for start in range(0, 32, size)]

    def fits(distance):
        pairs = ((i, i ^ distance) for i in lanes if i ^ distance in lanes)
        return all(addresses[i] == addresses[j] for i, j in pairs)

    if is_load and width > 4 and (fits(1) or fits(2)):
        phases = [range(start, start + 2 * size) for start in range(0, 32, 2 * size)]
    return phases


@pytest.mark.parametrize("width", [1, 2, 4, 8, 16])
@pytest.mark.parametrize("spread", [8, 64, 1024])
def test_random_shared_rows_against_plain_loops(width, spread):
    random = np.random.default_rng(width * spread)
    addresses = width * random.integers(0, spread, (40, 32))
    addresses[::3] = addresses[::3, np.arange(32) & ~1]
    addresses[1::3] = addresses[1::3, np.arange(32) & ~2]
    mask = random.random((40, 32)) < random.random((40, 1))
    mask[20:] = True
    for name, is_load in (("shared_load", True), ("shared_store", False)):
        counts = getattr(counting, name)(addresses, mask, width)
        for row in range(40):
            lanes = set(np.flatnonzero(mask[row]).tolist())
            phases = _phases_by_hand(addresses[row], lanes, width, is_load)
            expected = _wavefronts_by_hand(addresses[row], lanes, width, phases)
            needed = sum(any(i in lanes for i in phase) for phase in phases)
            assert (counts.wavefronts[row], counts.bank_conflicts[row]) == (expected, expected - needed)


def _loop_by_hand(addresses, waiting, width):
    """Run a compare-and-swap loop lane by lane: rounds, wavefronts of its loads, of its swaps."""
    rounds = loads = swaps = 0
    halves = [range(32)] if width <= 4 else [range(16), range(16, 32)]
    while waiting:
        rounds += 1
        loads += _wavefronts_by_hand(
            addresses, waiting, width, _phases_by_hand(addresses, waiting, width, is_load=True)
        )
        winners = {}
        for half in halves:
            lowest = {}
            for i in half:
                if i in waiting:
                    lowest.setdefault(int(addresses[i]) // width % (128 // width), i)
            swaps += 2 * bool(lowest)
            winners |= {int(addresses[i]): i for i in lowest.values() if int(addresses[i]) not in winners}
        waiting = waiting - set(winners.values())
    return rounds, loads, swaps


@pytest.mark.parametrize("width", [4, 8])
@pytest.mark.parametrize("spread", [4, 64, 1024])
def test_random_atomic_loops_against_plain_loops(width, spread):
    random = np.random.default_rng(width * spread)
    addresses = width * random.integers(0, spread, (20, 32))
    mask = random.random((20, 32)) < random.random((20, 1))
    mask[10:] = True
    loop = counting.shared_cas_loop(addresses, mask, width)
    for row in range(20):
        lanes = set(np.flatnonzero(mask[row]).tolist())
        counted = loop.rounds[row], loop.load_wavefronts[row], loop.wavefronts[row]
        assert counted == _loop_by_hand(addresses[row], lanes, width)


def test_one_pattern_shifted_by_any_amount_is_counted_per_row():
    shift = 4 * np.arange(100)[:, None]
    counts = counting.global_access(4 * LANE + shift, np.ones((100, 32), bool), 4)
    assert counts.sectors.tolist() == [4 if i % 8 == 0 else 5 for i in range(100)]
    columns = counting.shared_load(128 * LANE + shift, np.ones((100, 32), bool), 4)
    assert columns.wavefronts.tolist() == [32] * 100


def test_repeated_patterns_are_much_cheaper_than_different_ones():
    random = np.random.default_rng(0)
    mask = np.ones((256, 32), bool)
    same = 4 * LANE + 4096 * np.arange(256)[:, None]
    other = 4 * random.integers(0, 10_000, (256, 32))
    fast = min(repeat(lambda: counting.global_access(same, mask, 4), number=20, repeat=5)) / 20
    slow = min(repeat(lambda: counting.global_access(other, mask, 4), number=5, repeat=5)) / 5
    assert fast < slow
    assert fast < 500e-6
    assert slow < 10e-3
