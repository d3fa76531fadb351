"""Steps of ``wgmma``: matrix products of a warpgroup, of which each warp makes 16 rows."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from kernellab.emulator.attribution_ptx import registers
from kernellab.emulator.code import Binder, Step, Views
from kernellab.emulator.fragments import Fragment, fragment
from kernellab.emulator.in_flight import PIECE
from kernellab.emulator.lanes import WARP, Lanes
from kernellab.emulator.matrix_descriptors import K_BYTES, decode, matrix_of
from kernellab.emulator.memory import UNSIGNED
from kernellab.emulator.places import one_lane
from kernellab.emulator.ptx import TYPE_BYTES, Immediate, Instruction, Operand, Register, Vector
from kernellab.emulator.releases import GROUP
from kernellab.emulator.tensor_arithmetic import decode as values_of
from kernellab.emulator.tensor_arithmetic import encode
from kernellab.emulator.warpgroups import check_aligned
from kernellab.errors import UnsupportedPTXError

if TYPE_CHECKING:
    from kernellab.emulator.batch import Batch

Array = npt.NDArray[Any]
ROWS = 16
_SHAPE = re.compile(r"m64n(\d+)k(\d+)$")


def bind_wgmma(binder: Binder, instruction: Instruction) -> Step:
    """Make the step of a ``wgmma`` instruction."""
    number = binder.code.first + instruction.index
    match instruction.opcode.split(".")[1]:
        case "mma_async" if ".sp." not in instruction.opcode:
            return _Product(binder, instruction, number)
        case "fence":
            return _aligned(number, _fence)
        case "commit_group":
            return _aligned(number, lambda batch, lanes: batch.warpgroups.commit(lanes))
    raise UnsupportedPTXError(f"{instruction.opcode} is not known to the emulator")


def _fence(batch: Batch, lanes: Lanes) -> None:
    batch.warpgroups.has_fence[lanes.rows] = True


def _aligned(number: int, act: Any) -> Step:
    def step(views: Views, lanes: Lanes, batch: Batch) -> None:
        check_aligned(batch, number, lanes)
        act(batch, lanes)

    return step


class _Product:
    """``wgmma.mma_async``."""

    def __init__(self, binder: Binder, instruction: Instruction, number: int) -> None:
        parts = instruction.opcode.split(".")
        shape = next((match for match in map(_SHAPE.match, parts) if match), None)
        kinds = [part for part in parts if part in TYPE_BYTES or part == "tf32"]
        if shape is None or len(kinds) != 3:
            raise UnsupportedPTXError(f"{instruction.opcode} is not known to the emulator")
        self.number = number
        self.kinds = kinds
        self.n, self.itemsize = int(shape[1]), TYPE_BYTES[kinds[1]]
        if int(shape[2]) * self.itemsize != K_BYTES or self.n % 8 or not 8 <= self.n <= 256:
            raise UnsupportedPTXError(f"{instruction.opcode}: there is no such shape")
        self.is_saturated = "satfinite" in parts
        target, a, b, *rest = instruction.operands
        assert isinstance(target, Vector)
        self.names = list(registers(target))
        self.accumulators = [binder.source(each, UNSIGNED[4]) for each in target.elements]
        self.left: Fragment | None = None
        self.right_of_a: list[int] = []
        if isinstance(a, Vector):
            self.left = fragment("a", ROWS, 8, K_BYTES // self.itemsize, kinds[1])
            self.a = [binder.source(each, UNSIGNED[4]) for each in a.elements]
        else:
            self.a = [binder.source(a, UNSIGNED[8])]
        self.b = binder.source(b, UNSIGNED[8])
        self.result = fragment("c", ROWS, self.n, K_BYTES // self.itemsize, kinds[0])
        if len(self.names) != self.result.registers:
            raise UnsupportedPTXError(
                f"{instruction.opcode} takes {self.result.registers} accumulators, got {len(self.names)}"
            )
        self._modifiers(binder, rest)

    def _modifiers(self, binder: Binder, rest: list[Operand]) -> None:
        scale = rest.pop(0) if rest else Immediate(1)
        self.is_negated = isinstance(scale, Register) and scale.is_negated
        if isinstance(scale, Register):
            scale = Register(scale.name)
        self.keeps = binder.source(scale, np.dtype(np.bool_))
        numbers = [each.value for each in rest if isinstance(each, Immediate)]
        self.sign = numbers[0] * numbers[1] if len(numbers) > 1 else 1
        turned = [bool(each) for each in numbers[2:]]
        self.turned_b = turned[-1] if turned else False
        self.turned_a = turned[0] if len(turned) > 1 else False

    def __call__(self, views: Views, lanes: Lanes, batch: Batch) -> None:
        """Compute, and leave accumulators and operands in flight."""
        check_aligned(batch, self.number, lanes)
        batch.current_number = self.number
        self._check_fence(batch, lanes)
        rows = lanes.row_indexes()
        product = np.zeros((rows.size, ROWS, self.n))
        left = self._left(views, lanes)
        a_bits = None if left is not None else self._uniform(views, self.a[0], lanes, batch)
        b_bits = self._uniform(views, self.b, lanes, batch)
        groups = batch.block_of_row[rows] * (1 << 16) + batch.warp_of_row[rows] // GROUP
        for group in np.unique(groups):
            chosen = np.flatnonzero(groups == group)
            b = self._operand(
                batch, rows[chosen], int(b_bits[chosen[0]]), self.n, self.turned_b, self.kinds[2]
            )
            if a_bits is None:
                assert left is not None
                a = left[chosen]
            else:
                whole = self._operand(
                    batch, rows[chosen], int(a_bits[chosen[0]]), GROUP * ROWS, self.turned_a, self.kinds[1]
                )
                a = whole.reshape(GROUP, ROWS, -1)[batch.warp_of_row[rows[chosen]] % GROUP]
            self._check_same(batch, rows[chosen], a_bits, b_bits, chosen)
            product[chosen] = a @ b.T
        self._accumulate(views, lanes, product)
        batch.warpgroups.start(self.number, self.names, lanes)

    def _left(self, views: Views, lanes: Lanes) -> Array | None:
        """Return A of each warp, when it comes in registers."""
        if self.left is None:
            return None
        words = np.stack([_rows(views[slot], lanes) for slot in self.a], axis=1)
        return values_of(self.left.matrix(words), self.kinds[1])

    def _uniform(self, views: Views, slot: int, lanes: Lanes, batch: Batch) -> Array:
        """Return the descriptor of each warp; it must be the same in all lanes."""
        bits = _rows(views[slot], lanes)
        differs = (bits != bits[:, :1]).any(axis=1)
        if differs.any():
            row = int(lanes.row_indexes()[np.flatnonzero(differs)[0]])
            what = "the lanes of a warp have different matrix descriptors"
            batch.fail(self.number, "matrix descriptor", what, one_lane(lanes, row, 0))
        first: Array = bits[:, 0]
        return first

    def _check_same(
        self, batch: Batch, rows: Array, a_bits: Array | None, b_bits: Array, chosen: Array
    ) -> None:
        for bits in (a_bits, b_bits):
            if bits is not None and (bits[chosen] != bits[chosen[0]]).any():
                what = "the warps of a warpgroup have different matrix descriptors"
                row = int(rows[0])
                lane = Lanes(np.array([row]), None, batch.height)
                batch.fail(self.number, "matrix descriptor", what, lane)

    def _check_fence(self, batch: Batch, lanes: Lanes) -> None:
        missing = ~batch.warpgroups.has_fence[lanes.rows]
        if missing.any():
            row = int(lanes.row_indexes()[np.flatnonzero(missing)[0]])
            what = (
                "missing fence: this is the warp's first wgmma, and its registers are not fenced; call "
                "wgmma.fence first"
            )
            batch.complain(self.number, "missing fence", what, row, 0, int(missing.sum()))

    def _operand(self, batch: Batch, rows: Array, bits: int, count: int, is_turned: bool, kind: str) -> Array:
        """Read a matrix of `count` rows from the shared memory of a warpgroup, and mark it as being read."""
        row = int(rows[0])
        descriptor = decode(bits)
        lane = Lanes(np.array([row]), None, batch.height)
        if descriptor is None:
            what = f"the matrix descriptor {bits:#x} has bits set that must be 0; shift and mask its fields"
            batch.fail(self.number, "matrix descriptor", what, lane)
            raise AssertionError
        pieces = descriptor.pieces(count, self.itemsize, is_turned)
        shared = batch.shared
        last = int(pieces.max())
        if last + PIECE > shared.size:
            what = (
                f"out of bounds: a matrix descriptor that starts at byte {descriptor.start} reaches byte "
                f"{last + PIECE} of shared memory, which has {shared.size}"
            )
            batch.fail(self.number, "out of bounds", what, lane)
        starts = int(batch.block_of_row[row]) * shared.pitch + pieces.reshape(-1)
        index = starts[:, None] + np.arange(PIECE)
        if shared.written is not None and not shared.written[index].all():
            byte = int(pieces.reshape(-1)[~shared.written[index].all(axis=1)][0])
            what = f"read of unwritten shared memory, byte {byte} of shared memory"
            batch.complain(self.number, "unwritten shared memory", what, row, 0, 1, False)
        batch.landings.check(self.number, rows[:, None], np.zeros(1, np.intp), starts, "asynchronous read")
        where = np.zeros(starts.size, np.intp)
        flight = batch.in_flight.read(self.number, where + row, where, starts)
        batch.warpgroups.hold(row, flight)
        return values_of(matrix_of(shared.data[index], count, self.itemsize, is_turned), kind)

    def _accumulate(self, views: Views, lanes: Lanes, product: Array) -> None:
        """Add to the accumulators, or replace them."""
        total = product * self.sign if self.sign != 1 else product
        keeps = _rows(views[self.keeps], lanes)[:, 0] != self.is_negated
        if keeps.any():
            words = np.stack([_rows(views[slot], lanes) for slot in self.accumulators], axis=1)
            before = values_of(self.result.matrix(words), self.kinds[0])
            total = total + np.where(keeps[:, None, None], before, 0)
        words = self.result.words(encode(total, self.kinds[0], self.is_saturated))
        for k, slot in enumerate(self.accumulators):
            views[slot][lanes.rows] = words[:, k]


def _rows(value: Any, lanes: Lanes) -> Array:
    """Return an operand of some warps, shape (R, 32)."""
    found: Array = np.broadcast_to(value, (lanes.height, WARP))[lanes.rows]
    return found
