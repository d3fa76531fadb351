"""Operations that need the whole warp (``.sync.aligned``): matrix products, and the transpose in registers."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from kernellab.emulator.batch import Batch
from kernellab.emulator.code import Binder
from kernellab.emulator.fragments import Fragment, fragment
from kernellab.emulator.frame import Frame
from kernellab.emulator.lanes import WARP, Lanes, pack
from kernellab.emulator.memory import UNSIGNED
from kernellab.emulator.syntax import Immediate, Instruction, Operand, Vector
from kernellab.emulator.tensor_arithmetic import multiply
from kernellab.emulator.warp_operations import WarpOperation
from kernellab.errors import UnsupportedPTXError

if TYPE_CHECKING:
    from kernellab.emulator.schedule import Scheduler

Array = npt.NDArray[Any]
EVERY_LANE = Immediate(0xFFFFFFFF)
_SHAPE = re.compile(r"m(\d+)n(\d+)k(\d+)$")
_WARPGROUP = re.compile(
    r"wgmma\.mma_async\.sync\.aligned\.m64n(\d+)k(\d+)\.(?:satfinite\.)?(\w+)\.(\w+)\.(\w+)"
)


class AlignedOperation(WarpOperation):
    """An operation that all 32 lanes of a warp execute together, else nothing is defined."""

    def __init__(self, binder: Binder, instruction: Instruction, number: int) -> None:
        super().__init__(binder, instruction, number, EVERY_LANE)
        self.name = instruction.opcode.split(".aligned")[0]

    def complain_of_missing(self, scheduler: Scheduler, frame: Frame, lanes: Lanes) -> None:
        """Leave it to `execute`."""

    def execute(self, scheduler: Scheduler, frame: Frame, lanes: Lanes) -> None:
        """Complain about lanes that are absent, also those that have ended or never were; compute."""
        if lanes.mask is not None:
            partial = np.flatnonzero(~lanes.mask.all(axis=1))
            first = int(partial[0])
            absent = ~pack(lanes.mask[first : first + 1])[0]
            what = (
                f"{self.name} is executed without the lanes {int(absent):#010x}: it needs all 32 of a warp; "
                "let whole warps branch, leave and be launched"
            )
            row, column = int(lanes.row_indexes()[first]), int(np.flatnonzero(lanes.mask[first])[0])
            scheduler.batch.complain(self.number, "absent lane", what, row, column, partial.size)
        super().execute(scheduler, frame, lanes)


def elements_of(operand: Operand) -> Sequence[Operand]:
    """Return the registers of a vector, or of a single one."""
    return operand.elements if isinstance(operand, Vector) else (operand,)


def gather(frame: Frame, slots: Sequence[int], lanes: Lanes, nbytes: int = 4) -> Array:
    """Return registers of all lanes, unsigned integers of shape (R, registers, 32)."""
    found = np.empty((lanes.row_count, len(slots), WARP), UNSIGNED[nbytes])
    for i, slot in enumerate(slots):
        value = frame.views[slot]
        found[:, i] = value[lanes.rows] if isinstance(value, np.ndarray) and value.ndim else value
    return found


def scatter(frame: Frame, slots: Sequence[int | None], lanes: Lanes, words: Array) -> None:
    """Write registers; those that `words` lacks repeat the first ones."""
    for i, slot in enumerate(slots):
        if slot is not None:
            lanes.put(frame.views[slot], words[:, i % words.shape[1]])


class Registers:
    """The registers in which an instruction has a fragment."""

    def __init__(self, binder: Binder, operand: Operand, held: Fragment, is_target: bool) -> None:
        elements = elements_of(operand)
        if len(elements) % held.registers:
            raise UnsupportedPTXError(
                f"{len(elements)} registers hold no {held.shape[0]} x {held.shape[1]} matrix"
            )
        self.fragment = held
        self.dtype = UNSIGNED[held.register_bytes]
        self.targets: list[int | None] = []
        self.sources: list[int] = []
        if is_target:
            self.targets = [binder.target(each, self.dtype) for each in elements]
        else:
            self.sources = [binder.source(each, self.dtype) for each in elements[: held.registers]]

    def words(self, frame: Frame, lanes: Lanes) -> Array:
        """Return the registers, shape (R, registers, 32)."""
        return gather(frame, self.sources, lanes, self.dtype.itemsize)

    def matrix(self, frame: Frame, lanes: Lanes) -> Array:
        """Return the bits of each warp's matrix, shape (R, rows, columns)."""
        return self.fragment.matrix(self.words(frame, lanes))


@dataclass(frozen=True, slots=True)
class ProductShape:
    """What one warp multiplies by an instruction.

    Attributes
    ----------
    m, n, k : int
    kinds : tuple of str
        PTX types of D, A, B and C.
    instructions : int
        Instructions of the tensor core: one for 16 x 8, two for that in ``wmma`` of tf32, one for a warp's part
        of ``wgmma``. An ``mma`` of 8-bit floats is one here; on sm_90, which has it in ``wgmma`` only, it is two
        of f16.
    is_saturated : bool
    """

    m: int
    n: int
    k: int
    kinds: tuple[str, str, str, str]
    instructions: int = 1
    is_saturated: bool = False

    @property
    def flops(self) -> int:
        """Multiplications and additions of one warp."""
        return 2 * self.m * self.n * self.k


@lru_cache(maxsize=256)
def product_shape(opcode: str) -> ProductShape | None:
    """Read what a matrix product multiplies; None for another opcode.

    Examples
    --------
    >>> shape = product_shape("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32")
    >>> shape.kinds, shape.flops, shape.instructions
    (('f32', 'bf16', 'bf16', 'f32'), 4096, 1)
    """
    if match := _WARPGROUP.match(opcode):
        n, k, d, a, b = match.groups()
        return ProductShape(16, int(n), int(k), (d, a, b, d))
    head, _, tail = opcode.partition(".sync.aligned.")
    if head not in ("mma", "wmma.mma") or not tail:
        return None
    shape: tuple[int, ...] = ()
    kinds: list[str] = []
    layouts: list[str] = []
    is_saturated = False
    for word in tail.split("."):
        if match := _SHAPE.match(word):
            shape = tuple(map(int, match.groups()))
        elif word in ("row", "col"):
            layouts.append(word)
        elif word == "satfinite":
            is_saturated = True
        elif word in _KINDS:
            kinds.append(word)
        elif word != "rn":
            raise UnsupportedPTXError(f"{opcode}: the emulator does not know the modifier .{word} here")
    if head == "mma" and layouts != ["row", "col"]:
        raise UnsupportedPTXError(f"{opcode}: the emulator knows mma with .row.col only")
    if len(kinds) == 2:  # the old form: D and C, for .f16
        kinds = [kinds[0], "f16", "f16", kinds[1]]
    if len(shape) != 3 or len(kinds) != 4:
        raise UnsupportedPTXError(f"{opcode}: no shape with four types")
    m, n, k = shape
    d, a, b, c = kinds
    tiles = -(-m * n // 128) * (2 if head == "wmma.mma" and a == "tf32" else 1)
    return ProductShape(m, n, k, (d, a, b, c), tiles, is_saturated)


_KINDS = ("f16", "bf16", "tf32", "f32", "f64", "s8", "u8", "s32", "e4m3", "e5m2")


class Product(AlignedOperation):
    """``mma.sync`` and ``wmma.mma``."""

    def __init__(self, binder: Binder, instruction: Instruction, number: int) -> None:
        super().__init__(binder, instruction, number)
        found = product_shape(instruction.opcode)
        if found is None:
            raise UnsupportedPTXError(f"{instruction.opcode} is not known to the emulator")
        self.shape = found
        size = found.m, found.n, found.k
        d, a, b, c = instruction.operands[:4]
        kinds = found.kinds
        self.d = Registers(binder, d, fragment("c", *size, kinds[0]), is_target=True)
        self.a = Registers(binder, a, fragment("a", *size, kinds[1]), is_target=False)
        self.b = Registers(binder, b, fragment("b", *size, kinds[2]), is_target=False)
        self.c = Registers(binder, c, fragment("c", *size, kinds[3]), is_target=False)

    def compute(self, batch: Batch, frame: Frame, lanes: Lanes, members: Array) -> None:
        """Multiply and add."""
        a, b, c = (each.matrix(frame, lanes) for each in (self.a, self.b, self.c))
        product = multiply(a, b, c, self.shape.kinds, self.shape.is_saturated)
        scatter(frame, self.d.targets, lanes, self.d.fragment.words(product))


def transposed(words: Array) -> Array:
    """Transpose 8 x 8 matrices of 16-bit elements in registers of shape (..., 32)."""
    rows = np.ascontiguousarray(words, np.uint32).view(np.uint16).reshape(*words.shape[:-1], 8, 8)
    found: Array = np.ascontiguousarray(rows.swapaxes(-1, -2)).reshape(*words.shape[:-1], 64).view(np.uint32)
    return found


class MoveMatrix(AlignedOperation):
    """``movmatrix``: the transpose of an 8 x 8 matrix in registers."""

    def __init__(self, binder: Binder, instruction: Instruction, number: int) -> None:
        super().__init__(binder, instruction, number)
        if not instruction.opcode.endswith(".m8n8.trans.b16"):
            raise UnsupportedPTXError(f"{instruction.opcode} is not known to the emulator")
        self.target = binder.target(instruction.operands[0], UNSIGNED[4])
        self.source = binder.source(instruction.operands[1], UNSIGNED[4])

    def compute(self, batch: Batch, frame: Frame, lanes: Lanes, members: Array) -> None:
        """Transpose."""
        scatter(frame, [self.target], lanes, transposed(gather(frame, [self.source], lanes)))
