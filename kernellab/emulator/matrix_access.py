"""Whole warps move matrices between memory and registers: ``ldmatrix``, ``stmatrix``, ``wmma.load``, ``wmma.store``.

Every lane accesses what the hardware's lane accesses, through the batch, so bounds, races, unwritten bytes
and bytes in flight are seen as with any other load or store.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from kernellab.emulator import counting
from kernellab.emulator.access import addresses_of, aligned, bind_address, parts_of, shape_of
from kernellab.emulator.batch import Batch
from kernellab.emulator.code import Binder
from kernellab.emulator.fragment_requests import Request, fragment_access
from kernellab.emulator.frame import Frame
from kernellab.emulator.lanes import WARP, Lanes, Mask
from kernellab.emulator.memory import UNSIGNED, Fault
from kernellab.emulator.syntax import Instruction
from kernellab.emulator.tensor_operations import (
    AlignedOperation,
    Registers,
    elements_of,
    gather,
    scatter,
    transposed,
)
from kernellab.errors import UnsupportedPTXError

if TYPE_CHECKING:
    from kernellab.emulator.launch import Launch  # noqa: F401

Array = npt.NDArray[Any]
Int64 = npt.NDArray[np.int64]
ROW_BYTES = 16
"""Bytes of a row of an 8 x 8 matrix of 16-bit elements."""


def spread(lanes: Lanes, values: Array) -> Array:
    """Return values of the active lanes as an array of shape (R, 32), 0 elsewhere."""
    if lanes.mask is None:
        return values.reshape(lanes.row_count, WARP)
    found = np.zeros(lanes.mask.shape, values.dtype)
    found[lanes.mask] = values
    return found


def count_matrices(
    batch: Batch, number: int, operation: str, addresses: Int64, lanes: Lanes, matrices: int
) -> None:
    """Count an LDSM or STSM: lane i names row i % 8 of matrix i // 8."""
    if number not in batch.launch.accesses:
        return
    mask = lanes.full_mask()
    cost = counting.ldmatrix(addresses, mask, matrices)
    units, conflicts = int(cost.wavefronts.sum()), int(cost.bank_conflicts.sum())
    key = number, "shared", operation
    requests = int(np.count_nonzero(mask.any(axis=1)))
    batch.counts.add_access(key, (requests, units, conflicts, units - conflicts, lanes.count))


# ldmatrix, stmatrix -----------------------------------------------------------------------------------


class MatrixAccess(AlignedOperation):
    """``ldmatrix`` and ``stmatrix`` of 8 x 8 matrices: lane i gives the address of row i % 8 of matrix i // 8."""

    def __init__(self, binder: Binder, instruction: Instruction, number: int) -> None:
        super().__init__(binder, instruction, number)
        parts = instruction.opcode.replace("::", ".").split(".")
        self.is_store = parts[0] == "stmatrix"
        self.is_transposed = "trans" in parts
        address = instruction.operands[0 if self.is_store else 1]
        registers = elements_of(instruction.operands[1 if self.is_store else 0])
        self.matrices = len(registers)
        if "m8n8" not in parts or f"x{self.matrices}" not in parts or parts[-1] != "b16":
            raise UnsupportedPTXError(f"{instruction.opcode} is not known to the emulator")
        self.space = shape_of(instruction.opcode).space
        self.base, self.offset = bind_address(binder, address)
        self.targets: list[int | None] = []
        self.sources: list[int] = []
        if self.is_store:
            self.sources = [binder.source(each, UNSIGNED[4]) for each in registers]
        else:
            self.targets = [binder.target(each, UNSIGNED[4]) for each in registers]
        self.keep = np.arange(WARP) < 8 * self.matrices

    def compute(self, batch: Batch, frame: Frame, lanes: Lanes, members: Array) -> None:
        """Move rows of 16 bytes, each by the lane that gives its address."""
        batch.current_number = self.number
        addresses = addresses_of(frame.views, self.base, self.offset, lanes)
        naming = lanes.restricted(np.broadcast_to(self.keep, (lanes.row_count, WARP)))
        if not naming.count:
            return
        rows = self._rows(frame, lanes)
        operation = "store" if self.is_store else "load"
        for space, where, part in parts_of(self.space, addresses, naming):
            faults: list[Fault] = []
            flat = aligned(part.flat(where), ROW_BYTES, faults)
            if space != "shared":
                note = f"{self.name} goes to shared memory only"
                faults.append(Fault("out of bounds", np.arange(part.count), note))
            elif self.is_store:
                values = [part.flat(rows[:, :, half]) for half in range(2)]
                batch.store(space, part, flat, 8, values, faults)
            else:
                for half, value in enumerate(batch.load(space, part, flat, 8, 2, faults)):
                    rows[:, :, half] |= spread(part, value)
            if faults:
                batch.report(self.number, operation, space, part, faults)
            count_matrices(batch, self.number, operation, where, part, self.matrices)
        if not self.is_store:
            words = rows[:, : 8 * self.matrices].copy().view(np.uint32)
            words = words.reshape(lanes.row_count, self.matrices, WARP)
            scatter(frame, self.targets, lanes, transposed(words) if self.is_transposed else words)

    def _rows(self, frame: Frame, lanes: Lanes) -> Array:
        """Return 16 bytes for each lane, shape (R, 32, 2): of a store the rows, of a load zeros."""
        rows = np.zeros((lanes.row_count, WARP, 2), np.uint64)
        if self.is_store:
            words = gather(frame, self.sources, lanes)
            words = transposed(words) if self.is_transposed else words
            named = rows[:, : 8 * self.matrices]
            named[...] = np.ascontiguousarray(words).reshape(lanes.row_count, -1).view(np.uint64).reshape(
                named.shape
            )  # fmt: skip
        return rows


# wmma.load, wmma.store --------------------------------------------------------------------------------


class FragmentMove(AlignedOperation):
    """``wmma.load`` and ``wmma.store``: all lanes give the address of the first element, and the stride."""

    def __init__(self, binder: Binder, instruction: Instruction, number: int) -> None:
        super().__init__(binder, instruction, number)
        found = fragment_access(instruction.opcode)
        if found is None:
            raise UnsupportedPTXError(f"{instruction.opcode} is not known to the emulator")
        self.access = found
        operands = instruction.operands
        address, registers = (operands[0], operands[1]) if found.is_store else (operands[1], operands[0])
        self.registers = Registers(binder, registers, found.fragment, is_target=not found.is_store)
        self.base, self.offset = bind_address(binder, address)
        self.stride = binder.source(operands[2], UNSIGNED[4]) if len(operands) > 2 else None

    def compute(self, batch: Batch, frame: Frame, lanes: Lanes, members: Array) -> None:
        """Move a fragment, one request after the other."""
        batch.current_number = self.number
        access, held = self.access, self.access.fragment
        base = addresses_of(frame.views, self.base, self.offset, lanes)
        stride = self._strides(frame, lanes) * held.size
        self._check(batch, lanes, base, stride)
        if access.is_store:
            words = self.registers.words(frame, lanes)
        else:
            words = np.zeros((lanes.row_count, held.registers, WARP), UNSIGNED[held.register_bytes])
        for request in access.requests:
            addresses = base + request.across * stride + request.along * held.size
            for space, where, part in parts_of(access.space, addresses, lanes):
                self._move(batch, request, words, space, where, part)
        for registers in access.matrices:
            addresses = _row_addresses(base, stride, held.size, [access.requests[r] for r in registers])
            count_matrices(batch, self.number, "load", addresses, lanes, len(registers))
        if not access.is_store:
            scatter(frame, self.registers.targets, lanes, words)

    def _strides(self, frame: Frame, lanes: Lanes) -> Int64:
        if self.stride is None:
            return np.full((1, 1), self.access.stride, np.int64)
        return gather(frame, [self.stride], lanes)[:, 0].view(np.int32).astype(np.int64)

    def _check(self, batch: Batch, lanes: Lanes, base: Int64, stride: Int64) -> None:
        """Complain about rows that are misaligned, and about lanes that do not agree."""
        mask, size, alignment = lanes.full_mask(), self.access.fragment.size, self.access.alignment
        operation, space = ("store" if self.access.is_store else "load"), self.access.space
        for bad, note in (
            (base % alignment != 0, "address {0:#x} is no multiple of {1}"),
            (stride % alignment != 0, "the leading dimension is {2} elements of {3} bytes, so not every row "
             "is at a multiple of {1}"),
        ):  # fmt: skip
            wrong = np.broadcast_to(bad, mask.shape) & mask
            if wrong.any():
                row, column = (int(v[0]) for v in np.nonzero(wrong))
                leading = int(np.broadcast_to(stride, mask.shape)[row, column]) // size
                words = note.format(int(base[row, column]), alignment, leading, size)
                what = f"misaligned {space} {operation} by {self.name}: {words}"
                where = int(lanes.row_indexes()[row])
                batch.complain(self.number, "misaligned", what, where, column, int(wrong.sum()))
        for name, values in (("address", base), ("leading dimension", np.broadcast_to(stride, mask.shape))):
            first = np.take_along_axis(values, mask.argmax(axis=1)[:, None], axis=1)
            self._complain_of_difference(batch, lanes, (values != first) & mask, name)

    def _complain_of_difference(self, batch: Batch, lanes: Lanes, differs: Mask, name: str) -> None:
        if differs.any():
            row, column = (int(v[0]) for v in np.nonzero(differs))
            what = (
                f"{self.name}: lane {column} gives another {name} than the lanes before it; all give the same"
            )
            where = int(lanes.row_indexes()[row])
            batch.complain(self.number, "lanes disagree", what, where, column, int(differs.sum()))

    def _move(
        self, batch: Batch, request: Request, words: Array, space: str, where: Int64, part: Lanes
    ) -> None:
        faults: list[Fault] = []
        held, registers = self.access.fragment, request.registers
        nbytes = request.width // len(registers)
        flat = part.flat(where) & -request.width  # what is misaligned has been reported
        if self.access.is_store:
            values = [part.flat(value) for value in _taken(words, request, nbytes)]
            batch.store(space, part, flat, nbytes, values, faults)
        else:
            loaded = batch.load(space, part, flat, nbytes, len(registers), faults)
            for register, value in zip(registers, loaded, strict=True):
                target = words[:, register]
                found = spread(part, value)
                if request.part is not None:
                    target.view(UNSIGNED[held.size])[:, request.part :: held.per_register] |= found
                else:
                    target |= transposed(found) if request.is_transposed else found
        operation = "store" if self.access.is_store else "load"
        if faults:
            batch.report(self.number, operation, space, part, faults)
        if not self.access.matrices:
            batch.count(self.number, space, operation, where, part)


def _taken(words: Array, request: Request, nbytes: int) -> Iterator[Array]:
    """Take what each lane stores: one array a register."""
    for register in request.registers:
        value = words[:, register]
        if request.part is not None:
            per = value.itemsize // nbytes
            yield np.ascontiguousarray(value).view(UNSIGNED[nbytes])[:, request.part :: per]
        else:
            yield transposed(value) if request.is_transposed else value


def _row_addresses(base: Int64, stride: Int64, size: int, requests: list[Request]) -> Int64:
    """Return the row addresses of an LDSM: row j of a matrix begins where lane 4 j reads."""
    across = np.concatenate([request.across[::4] for request in requests])
    along = np.concatenate([request.along[::4] for request in requests])
    lanes = np.arange(WARP) % len(across)
    addresses: Int64 = base + across[lanes] * stride + along[lanes] * size
    return addresses
