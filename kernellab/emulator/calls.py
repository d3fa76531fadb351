"""``call``: device functions, recursion, function pointers, and what the driver provides (printf, malloc)."""

from __future__ import annotations

import re
import struct
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from kernellab.emulator.batch import Batch
from kernellab.emulator.branches import split
from kernellab.emulator.code import Binder
from kernellab.emulator.flow import Block
from kernellab.emulator.frame import Frame
from kernellab.emulator.lanes import Lanes
from kernellab.emulator.memory import LOCAL_WINDOW, SHARED_WINDOW, UNSIGNED, WINDOW_BITS, Fault
from kernellab.emulator.ptx import Group, Instruction, Operand, Register, Symbol
from kernellab.errors import UnsupportedPTXError

if TYPE_CHECKING:
    from kernellab.emulator.joins import Join
    from kernellab.emulator.launch import Launch
    from kernellab.emulator.schedule import Next, Scheduler

Array = npt.NDArray[Any]


class Call:
    """A call of a function by name or through a pointer; lanes meet again behind it."""

    def __init__(self, binder: Binder, instruction: Instruction, number: int, launch: Launch) -> None:
        self.number = number
        operands = list(instruction.operands)
        returns: tuple[Operand, ...] = ()
        if operands and isinstance(operands[0], Group):
            returns = operands.pop(0).elements  # type: ignore[union-attr]
        callee = operands.pop(0)
        arguments: tuple[Operand, ...] = ()
        if operands and isinstance(operands[0], Group):
            arguments = operands[0].elements
        self.returns = [_parameter_name(each) for each in returns]
        self.arguments = [_parameter_name(each) for each in arguments]
        self.pointer: int | None = None
        self.name = ""
        if isinstance(callee, Register):
            self.pointer = binder.source(callee, UNSIGNED[8])
        elif isinstance(callee, Symbol):
            self.name = callee.name
            if self.name not in launch.codes and self.name not in BUILTINS:
                raise UnsupportedPTXError(
                    f"{binder.code.function.name}: calls {self.name!r}, which this PTX does not define; "
                    "link it first"
                )
        else:
            raise UnsupportedPTXError(f"`{instruction}`: not a function")

    def __call__(
        self, scheduler: Scheduler, frame: Frame, block: Block, stack: Join | None, lanes: Lanes
    ) -> Next | None:
        """Enter the function, or each of those that the lanes' pointers name."""
        following = block.successors[-1]
        if self.pointer is None:
            builtin = BUILTINS.get(self.name)
            if builtin is not None and self.name not in scheduler.batch.launch.codes:
                builtin(scheduler.batch, frame, self, lanes)
                return following, stack, lanes
            self._enter(scheduler, self.name, frame, following, stack, lanes)
            return None
        pointers = frame.views[self.pointer][lanes.rows]
        names = scheduler.batch.launch.functions_by_address
        for pointer in np.unique(lanes.flat(pointers)):
            part, _ = split(lanes, pointers == pointer)
            assert part is not None
            if int(pointer) not in names:
                what = f"call of address {int(pointer):#x}, which is no function"
                scheduler.batch.fail(self.number, "out of bounds", what, part)
            self._enter(scheduler, names[int(pointer)], frame, following, stack, part)
        return None

    def _enter(
        self, scheduler: Scheduler, name: str, frame: Frame, following: int, stack: Join | None, lanes: Lanes
    ) -> None:
        batch = scheduler.batch
        code = batch.launch.codes[name]
        callee = batch.frame(code, frame.depth + 1, frame.local_base + frame.code.local_bytes)
        for argument, parameter in zip(self.arguments, code.function.parameters, strict=False):
            lanes.copy_bytes(frame.parameters[argument], callee.parameters[parameter.name])
        join = scheduler.join(frame, following, stack, tuple(self.returns))
        join.expected[lanes.rows] |= lanes.full_mask()
        scheduler.enqueue((callee, 0, join), lanes.row_indexes(), lanes.mask)


def _parameter_name(operand: Operand) -> str:
    if not isinstance(operand, Symbol):
        raise UnsupportedPTXError(f"call with the argument {operand}: only .param variables are supported")
    return operand.name


# -- what the driver provides
def read_bytes(batch: Batch, address: int, count: int, row: int, column: int) -> bytes:
    """Read bytes at a generic address as one lane sees them."""
    window = address >> WINDOW_BITS
    if window == LOCAL_WINDOW >> WINDOW_BITS:
        start = (row * 32 + column) * batch.local.pitch + address - LOCAL_WINDOW
        return batch.local.data[start : start + count].tobytes()
    if window == SHARED_WINDOW >> WINDOW_BITS:
        start = int(batch.block_of_row[row]) * batch.shared.pitch + address - SHARED_WINDOW
        return batch.shared.data[start : start + count].tobytes()
    faults: list[Fault] = []
    found = batch.launch.memory.load(np.arange(address, address + count), 1, 1, faults)
    return b"" if faults else found[0].tobytes()


def read_string(batch: Batch, address: int, row: int, column: int, limit: int = 65536) -> str:
    """Read a zero-terminated string."""
    text = bytearray()
    while len(text) < limit:
        byte = read_bytes(batch, address + len(text), 1, row, column)
        if byte in (b"\0", b""):
            break
        text += byte
    return text.decode("utf-8", "replace")


_CONVERSION = re.compile(r"%([-+ #0]*)(\*|\d+)?(?:\.(\*|\d+))?(hh|h|ll|l|j|z|t|L)?([diouxXeEfFgGaAcspn%])")


def format_text(batch: Batch, text: str, arguments: int, row: int, column: int) -> str:
    """Format like C's printf; arguments lie behind an address, each aligned to its size."""
    offset = 0

    def take(width: int) -> bytes:
        nonlocal offset
        offset = -(-offset // width) * width
        raw = read_bytes(batch, arguments + offset, width, row, column)
        offset += width
        return raw.ljust(width, b"\0")

    def integer(width: int, is_signed: bool) -> int:
        return int.from_bytes(take(width), "little", signed=is_signed)

    def convert(match: re.Match[str]) -> str:
        flags, width, precision, length, kind = match.groups()
        if kind == "%":
            return "%"
        width = str(integer(4, True)) if width == "*" else width or ""
        precision = str(integer(4, True)) if precision == "*" else precision
        head = f"%{flags}{width}" + (f".{precision}" if precision is not None else "")
        nbytes = 8 if length in ("l", "ll", "j", "z", "t") else 4
        if kind in "di":
            return (head + "d") % integer(nbytes, True)
        if kind in "ouxX":
            return (head + ("d" if kind == "u" else kind)) % integer(nbytes, False)
        if kind in "eEfFgG":
            return str((head + kind) % struct.unpack("<d", take(8))[0])
        if kind in "aA":
            return float(struct.unpack("<d", take(8))[0]).hex()
        if kind == "c":
            return (head + "c") % (integer(4, False) & 0xFF)
        if kind == "s":
            return (head + "s") % read_string(batch, integer(8, False), row, column)
        if kind == "p":
            return f"{integer(8, False):#x}"
        return ""

    return _CONVERSION.sub(convert, text)


def _argument(frame: Frame, name: str, dtype: Any) -> Array:
    values: Array = frame.parameters[name][:, :, : np.dtype(dtype).itemsize].view(dtype)[:, :, 0]
    return values


def _print(batch: Batch, frame: Frame, call: Call, lanes: Lanes) -> None:
    """``vprintf(format, arguments)``: lanes print in order."""
    formats = _argument(frame, call.arguments[0], np.int64)
    arguments = _argument(frame, call.arguments[1], np.int64)
    which, columns = np.nonzero(lanes.full_mask())
    rows = lanes.row_indexes()[which]
    texts: dict[int, str] = {}
    for row, column in zip(rows.tolist(), columns.tolist(), strict=True):
        address = int(formats[row, column])
        if address not in texts:
            texts[address] = read_string(batch, address, row, column)
        text = format_text(batch, texts[address], int(arguments[row, column]), row, column)
        batch.launch.print(text)
    _return(frame, call, lanes, 0, np.int32)


def _return(frame: Frame, call: Call, lanes: Lanes, value: Any, dtype: Any) -> None:
    if call.returns:
        lanes.put(_argument(frame, call.returns[0], dtype), value)


def _assert_fail(batch: Batch, frame: Frame, call: Call, lanes: Lanes) -> None:
    """``__assertfail(message, file, line, function, size)``."""
    which, columns = np.nonzero(lanes.full_mask())
    row, column = int(lanes.row_indexes()[which[0]]), int(columns[0])
    message, file, function = (
        read_string(batch, int(_argument(frame, call.arguments[i], np.int64)[row, column]), row, column)
        for i in (0, 1, 3)
    )
    line = int(_argument(frame, call.arguments[2], np.uint32)[row, column])
    what = f"assertion failed: `{message}` ({file}:{line}, in {function})"
    batch.fail(call.number, "assertion", what, lanes)


def _allocate(batch: Batch, frame: Frame, call: Call, lanes: Lanes) -> None:
    """``malloc(size)``: every lane gets an allocation of its own."""
    sizes = _argument(frame, call.arguments[0], np.uint64)[lanes.rows]
    addresses = np.zeros(sizes.shape, np.uint64)
    for row, column in zip(*np.nonzero(lanes.full_mask()), strict=True):
        data = np.zeros(int(sizes[row, column]), np.uint8)
        addresses[row, column] = batch.launch.memory.allocate("device malloc", data, guard=256).base
    _return(frame, call, lanes, addresses, np.uint64)


def _free(batch: Batch, frame: Frame, call: Call, lanes: Lanes) -> None:
    """``free(pointer)``: the bytes stay mapped until the launch ends."""


BUILTINS = {"vprintf": _print, "__assertfail": _assert_fail, "malloc": _allocate, "free": _free}
