"""Which object ends a basic block: a branch, a return, a call, a barrier, a warp-wide operation.

A terminator is called as ``terminator(scheduler, frame, block, stack, lanes)`` and says where the lanes go
on (block, stack, lanes), or returns None when it has handed them to the scheduler.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kernellab.emulator.barriers import BlockBarrier
from kernellab.emulator.branches import Branch, Guarded, IndexedBranch, Leave, Return, Trap
from kernellab.emulator.calls import Call
from kernellab.emulator.clusters import ClusterArrive, ClusterWait
from kernellab.emulator.code import Binder
from kernellab.emulator.flow import Block, family
from kernellab.emulator.matrix_access import FragmentMove, MatrixAccess
from kernellab.emulator.ptx import Immediate, Instruction
from kernellab.emulator.tensor_operations import MoveMatrix, Product
from kernellab.emulator.warp_operations import WarpBarrier, bind_warp_operation
from kernellab.emulator.warpgroup_waits import WarpgroupWait

if TYPE_CHECKING:
    from kernellab.emulator.launch import Launch


def bind_terminator(binder: Binder, block: Block, launch: Launch) -> Any:
    """Make the terminator of a block; None where it only falls through."""
    instruction = block.terminator
    if instruction is None:
        return None
    number = binder.code.first + instruction.index
    name = family(instruction.opcode)
    if name == "bra":
        return Branch(binder, instruction, number)
    inner = _unguarded(binder, instruction, name, number, launch)
    return inner if instruction.guard is None else Guarded(binder, instruction, inner)


def _unguarded(binder: Binder, instruction: Instruction, name: str, number: int, launch: Launch) -> Any:
    match name:
        case "brx":
            return IndexedBranch(binder, instruction, number)
        case "ret":
            return Return()
        case "exit":
            return Leave()
        case "trap":
            return Trap(number)
        case "call":
            return Call(binder, instruction, number, launch)
        case "bar" | "barrier":
            return _barrier(binder, instruction, number)
        case "mma":
            return Product(binder, instruction, number)
        case "wmma":
            is_product = instruction.opcode.startswith("wmma.mma.")
            return (Product if is_product else FragmentMove)(binder, instruction, number)
        case "ldmatrix" | "stmatrix":
            return MatrixAccess(binder, instruction, number)
        case "wgmma":
            allowed = instruction.operands[0]
            assert isinstance(allowed, Immediate)
            return WarpgroupWait(number, allowed.value)
        case "movmatrix":
            return MoveMatrix(binder, instruction, number)
    return bind_warp_operation(binder, instruction, number)


def _barrier(binder: Binder, instruction: Instruction, number: int) -> Any:
    parts = instruction.opcode.replace("::", ".").split(".")
    if "warp" in parts:
        return WarpBarrier(binder, instruction, number)
    if "cluster" in parts:
        return (ClusterWait if "wait" in parts else ClusterArrive)(number)
    return BlockBarrier(binder, instruction, number, parts)
