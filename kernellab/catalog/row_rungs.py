"""Rungs of the problems on rows: a block a row, rows in registers, a chain of two launches, blocks that share a row or stay."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from kernellab.catalog import elements, rows
from kernellab.errors import SpecError
from kernellab.kernel import Geometry, Kernel, Stage, Tuning, Twin, covering
from kernellab.problem import ELEMENTS, Operand, Problem, Sizes

SPLIT = {"THREADS": 128, "VECTORS": 2}
PIPELINED = {"THREADS": 256, "VECTORS": 4, "BLOCKS": 2}

PARTS = Geometry(
    block=("THREADS",), grid=lambda at: (at["rows"] * at["parts"],), static_shared=lambda at: 384
)


def by_blocks(problem: Problem, name: str, arguments: Sequence[str], twin: Twin) -> Kernel:
    """Return a rung that gives a block to a row."""
    return Kernel(problem, name, tuple(arguments), rows.BLOCK, twin, rows.BLOCKED, elements=ELEMENTS)


def in_registers(
    problem: Problem, arguments: Sequence[str], twin: Twin, tuning: Tuning | None = None
) -> Kernel:
    """Return the rung `registers`, which reads and writes a row once."""
    return Kernel(
        problem,
        "registers",
        tuple(arguments),
        rows.GROUPS,
        twin,
        rows.SHAPE,
        constraint=rows.group_shape,
        elements=ELEMENTS,
        tuning=tuning or rows.TUNING,
    )


def unfused(registers: Kernel, twin: Twin, *stages: Stage) -> Kernel:
    """Return the chain of two launches, with an array between them, that `registers` makes one."""
    return replace(registers, name="unfused", twin=twin, stages=stages, temporaries=rows.BETWEEN)


def part_count(at: Sizes) -> int:
    """Return how many blocks share a row."""
    per = elements.lanes(ELEMENTS[at["ELEMENT"]])
    return covering(at["columns"], at["THREADS"] * at["VECTORS"] * per)


def split_shape_for(sizes: Sizes, element: str) -> dict[str, int]:
    """Return the launch shape of rows that several blocks share."""
    return {"THREADS": 256, "VECTORS": rows.ITEMS_HELD // elements.lanes(element)}


def split(
    problem: Problem, arguments: Sequence[str], twin: Twin, names: Sequence[str], write: Sequence[str]
) -> Kernel:
    """Return the rung `split`: blocks that share a row leave numbers of those names, and read them all to write."""
    return Kernel(
        problem,
        "split",
        tuple(arguments),
        PARTS,
        twin,
        SPLIT,
        elements=ELEMENTS,
        stages=(
            Stage("partial", ("x", *names, "columns", "parts"), PARTS),
            Stage("write", tuple(write), PARTS),
        ),
        temporaries=tuple(Operand(name, "float32", ("rows", "parts"), role="scratch") for name in names),
        derived={"parts": part_count},
        tuning=Tuning(SPLIT, split_shape_for),
    )


def stays(at: Sizes) -> tuple[int, ...]:
    """Return the blocks that stay and take row after row, as many as leave none with a row less than it could."""
    per = at["VECTORS"] * elements.lanes(ELEMENTS[at["ELEMENT"]])
    held = at["THREADS"] * per
    if at["columns"] > held:
        rule = f"THREADS times VECTORS vectors hold {held}"
        raise SpecError(f"blocks that stay: rows have {at['columns']} columns, {rule}; raise VECTORS")
    resident = at["BLOCKS"] * at["multiprocessors"]
    return (covering(at["rows"], covering(at["rows"], resident)) if at["rows"] and at["columns"] else 0,)


def staying(inputs: int = 1) -> Geometry:
    """Return the geometry of blocks that keep a row of so many arrays on its way in shared memory."""
    return Geometry(
        block=("THREADS",),
        grid=stays,
        static_shared=lambda at: 1024,
        dynamic_shared=lambda at: inputs * 16 * at["THREADS"] * at["VECTORS"],
    )


def staying_shape(inputs: int = 1) -> rows.Choose:
    """Return the choice of a launch shape for rows of so many arrays on their way.

    128 bytes a thread, which keeps none of them in registers, and 1024 threads on a multiprocessor: the shared
    memory of a block that needs more is not there.
    """

    def choose(sizes: Sizes, element: str) -> dict[str, int]:
        vectors = max(1, covering(sizes["columns"], elements.lanes(element)))
        threads = min(1024, 32 * covering(vectors, 32 * 8 // inputs))
        return {"THREADS": threads, "VECTORS": covering(vectors, threads), "BLOCKS": 1024 // threads}

    return choose


def in_vectors(inputs: int = 1) -> Callable[[Sizes], str]:
    """Return what says why rows of so many arrays cannot be on their way as vectors of 16 bytes, or nothing."""
    most = rows.LONGEST // inputs

    def refusal(sizes: Sizes) -> str:
        columns = sizes["columns"]
        if columns % 8:
            return f"rows have {columns} columns, they must be a multiple of 8; pad them, or take registers"
        if columns > most:
            return f"rows have {columns} columns, a block holds {most}; take split or registers"
        return ""

    return refusal


def pipelined(registers: Kernel, inputs: int = 1) -> Kernel:
    """Return the rung whose blocks stay, from that which keeps rows in registers, its fallback."""
    return replace(
        registers,
        name="pipelined",
        geometry=staying(inputs),
        twin="Numba has no asynchronous copies from global to shared memory",
        constants={**PIPELINED, "ELEMENT": registers.constants["ELEMENT"]},
        constraint=None,
        tuning=Tuning(PIPELINED, staying_shape(inputs)),
        requires=("sm_80",),
        alignment=16,
        refusal=in_vectors(inputs),
        fallback=registers,
    )
