"""Asynchronous accesses: data arrives early or late, touching them before the wait is an error."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from kernellab.emulator.in_flight import InFlight
from kernellab.emulator.lanes import Lanes
from kernellab.emulator.memory import OwnedMemory

ISSUE, TOUCH = 3, 8


class Machine:
    """What `InFlight` asks of a batch: two blocks of one warp with 256 bytes of shared memory each."""

    def __init__(self, generator=None):
        self.launch = SimpleNamespace(generator=generator, where=lambda number: f"line {number}")
        self.shared = OwnedMemory("shared", 2, 256, tracks_writes=True)
        self.block_of_row = np.arange(2)
        self.complaints = []
        self.proxies = SimpleNamespace(read=lambda *_: None)

    def owners(self, lanes, flat):
        return self.block_of_row[lanes.row_indexes()], flat

    def complain(self, number, kind, what, row, column, count=1):
        self.complaints.append((number, kind, what, row, column, count))


def chance(value):
    return SimpleNamespace(random=lambda: value)


def start(machine, nbytes=16):
    """Block 1 asks for four pieces from byte 64 on, lane 0 for all of them."""
    flying = InFlight(machine)
    values = np.arange(4 * nbytes, dtype=np.uint8).reshape(4, nbytes) + 1
    starts = 256 + 64 + np.arange(4) * nbytes
    return flying, flying.write(ISSUE, np.ones(4, int), np.zeros(4, int), starts, values), values


def one_lane(row):
    mask = np.zeros((1, 32), bool)
    mask[0, 5] = True
    return Lanes(np.array([row]), mask, 2)


@pytest.mark.parametrize("nbytes", [4, 8, 16])
@pytest.mark.parametrize("generator", [None, chance(0.9), chance(0.1)])
def test_data_is_there_once_it_is_waited_for(nbytes, generator):
    machine = Machine(generator)
    flying, flight, values = start(machine, nbytes)
    found = machine.shared.data[320 : 320 + 4 * nbytes]
    is_early = generator is not None and generator.random() < 0.5
    assert (found == values.reshape(-1)).all() == is_early
    flying.finish(flight)
    np.testing.assert_array_equal(found, values.reshape(-1))
    assert machine.shared.written[320 : 320 + 4 * nbytes].all()
    flying.check(TOUCH, one_lane(1), np.array([64]), 4, "load")
    assert (flying.count, machine.complaints) == (0, [])


@pytest.mark.parametrize("operation", ["load", "store", "atomic"])
@pytest.mark.parametrize("generator", [None, chance(0.1)])
def test_touching_a_destination_names_both_lines(operation, generator):
    machine = Machine(generator)
    flying, _, _ = start(machine)
    flying.check(TOUCH, one_lane(1), np.array([64 + 18]), 2, operation)
    [(number, kind, what, row, column, count)] = machine.complaints
    assert (number, kind, row, column, count) == (TOUCH, "in flight", 1, 5, 1)
    assert f"this {operation} touches byte 80 of shared memory" in what
    assert "line 3 is still to write; wait for it first" in what


@pytest.mark.parametrize(("row", "byte"), [(1, 60), (1, 128), (0, 64)])
def test_neighbours_and_other_blocks_are_free(row, byte):
    machine = Machine()
    flying, _, _ = start(machine)
    flying.check(TOUCH, one_lane(row), np.array([byte]), 4, "load")
    assert machine.complaints == []


def test_a_wait_may_end_some_pieces():
    machine = Machine()
    flying, flight, values = start(machine)
    part, rest = flying.split(flight, np.array([True, False, True, False]))
    flying.finish(part)
    np.testing.assert_array_equal(rest.starts, [336, 368])
    np.testing.assert_array_equal(machine.shared.data[320:336], values[0])
    assert not machine.shared.data[336:352].any()
    flying.check(TOUCH, one_lane(1), np.array([64]), 16, "load")
    assert machine.complaints == []
    flying.check(TOUCH, one_lane(1), np.array([80]), 4, "load")
    assert len(machine.complaints) == 1
    assert not flight.is_over
    flying.finish(flight)
    assert flight.is_over
    assert flying.count == 0


def test_only_the_first_wait_ends_a_flight():
    machine = Machine()
    flying, flight, values = start(machine)
    flying.finish(flight)
    again = flying.write(ISSUE, flight.rows, flight.columns, flight.starts, values)
    flying.finish(flight)
    flying.check(TOUCH, one_lane(1), np.array([64]), 4, "load")
    assert len(machine.complaints) == 1
    assert not again.is_over


def test_two_writes_of_one_place():
    machine = Machine()
    flying, flight, values = start(machine)
    flying.write(TOUCH, flight.rows[:1], flight.columns[:1], flight.starts[1:2], values[:1])
    assert "asynchronous write touches byte 80" in machine.complaints[0][2]


def test_what_is_being_read_may_be_read_but_not_written():
    machine = Machine()
    flying = InFlight(machine)
    rows, starts = np.zeros(1, int), np.array([32])
    first, second = (flying.read(ISSUE, rows, rows, starts) for _ in range(2))
    flying.check(TOUCH, one_lane(0), np.array([32]), 4, "load")
    flying.finish(first)
    assert machine.complaints == []
    flying.check(TOUCH, one_lane(0), np.array([44]), 4, "store")
    assert "line 3 may still be reading" in machine.complaints[0][2]
    flying.finish(second)
    flying.check(TOUCH, one_lane(0), np.array([44]), 4, "store")
    assert len(machine.complaints) == 1
