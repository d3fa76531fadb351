"""Automatic fusion: what CuPy's and Numba's own tools make of a chain of operations, beside a kernel by hand."""

from __future__ import annotations

from typing import Any

from kernellab.catalog import kernel
from kernellab.catalog import problem as find_problem
from kernellab.compile import cache
from kernellab.experiments import generated
from kernellab.experiments.common import (
    SECTOR,
    WRITE_UP,
    all_right,
    bytes_of,
    has_time,
    needs_gpu,
    number,
    time_over,
)
from kernellab.experiments.experiment import (
    HELD,
    NEEDS_GPU,
    REFUTED,
    Claim,
    Column,
    Derived,
    Expectation,
    Experiment,
    Found,
    Point,
    Rows,
    Sweep,
)
from kernellab.experiments.tools import TOOLS, keeps_kind
from kernellab.kernel import Geometry, Kernel, Stage, covering
from kernellab.problem import Case, Operand

N = 2**14
SMALL = Case("16 Ki elements", {"n": N})
LARGE = Case("2**25 elements", {"n": 2**25})
JUDGED = 2**20
FOLDER = cache.directory() / "generated"
THREADS = 128
EACH = Geometry((THREADS,), lambda at: (covering(at["n"], THREADS),))
"""A thread an element, 128 a block, as CuPy launches it."""
ONLY_CUDA = "this tool makes CUDA C; Numba's is @vectorize, beside ElementwiseKernel"
ARGUMENTS = ("a", "b", "c", "y", "n")


def vectorized(arguments: str, function: Any) -> Any:
    """Return the kernel that ``@vectorize(target="cuda")`` launches: Numba's own text round the function."""
    from numba import cuda
    from numba.cuda.vectorizers import vectorizer_stager_source

    names = arguments.split()
    items = ", ".join(f"{name}[__tid__]" for name in names)
    text = vectorizer_stager_source.format(name="triad", args=", ".join(names), argitems=items)
    scope: dict[str, Any] = {"__cuda__": cuda, "__core__": cuda.jit(device=True, inline="always")(function)}
    exec(text, scope)  # the text is Numba's
    return scope["__vectorized_triad"]


def whole() -> Any:
    """Make the twin of the fused function."""
    return vectorized("a b c", generated.triad)


def halves() -> Any:
    """Make the twins of the chain: a ufunc for each operation."""
    return vectorized("a b", lambda a, b: a * b), vectorized("a b", lambda a, b: a + b)


def made_by(tool: str, twin: Any = ONLY_CUDA) -> Kernel:
    """Return what a tool generates as a kernel of triad."""
    return Kernel(find_problem("triad"), tool, ARGUMENTS, EACH, twin, source=FOLDER / f"{tool}.cu")


def chain() -> Kernel:
    """Return what is launched where nobody fuses: a product into memory, then a sum from there."""
    return Kernel(
        find_problem("triad"),
        "chain",
        ARGUMENTS,
        EACH,
        halves,
        stages=(Stage("multiply", ("a", "b", "h", "n"), EACH), Stage("add", ("h", "c", "y", "n"), EACH)),
        temporaries=(Operand("h", "float32", ("n",), role="scratch"),),
        source=FOLDER / "chain.cu",
    )


CHAIN, ELEMENTWISE, FUSE, JIT = "operation by operation", "Elementwise, vectorize", "cupy.fuse", "cupyx.jit"
SCALAR, HAND = "by hand, scalar", "by hand, vectorised"
AUTOMATIC = (ELEMENTWISE, FUSE, JIT)
KERNELS = {
    CHAIN: chain(),
    ELEMENTWISE: made_by("elementwise", whole),
    FUSE: made_by("fuse"),
    JIT: made_by("jit"),
    SCALAR: kernel("triad/scalar"),
    HAND: kernel("triad/vectorised"),
}
SHOWN = (
    Column("launches", "launches"),
    Column("bytes/\nelem.", "bytes_per_element"),
    Column("load\nrequests", "global_load_requests"),
    Column("warp\ninstr.", "warp_instructions"),
    Column("regs", "registers"),
)
SWEEP = Sweep(
    "y = a * b + c, fused by whom",
    tuple(Point(label, each, SMALL, large=LARGE, head=JUDGED) for label, each in KERNELS.items()),
    SHOWN,
)


def automatic(rows: Rows) -> list[str]:
    """Return the labels of the automatic tools that exist in this language."""
    there = {label for label, _ in rows.items()}
    return [label for label in AUTOMATIC if label in there]


def tools_fuse(rows: Rows) -> Found:
    """Every tool makes one launch that moves four arrays; the chain makes two that move six."""
    found = {
        label: (rows.value(label, "launches"), rows.value(label, "bytes_per_element"))
        for label in (CHAIN, *automatic(rows))
    }
    text = f"{number(found[CHAIN][1])} bytes an element in {number(found[CHAIN][0])} launches, fused "
    text += ", ".join(
        f"{number(nbytes)} in {number(launches)}" for launches, nbytes in list(found.values())[1:]
    )
    return found.pop(CHAIN) == (2, 24) and set(found.values()) == {(1, 16)}, text


def tools_are_scalar(rows: Rows) -> Found:
    """What no tool does: each of them reads one element a thread, in four times the requests."""
    hand = rows.value(HAND, "global_load_requests")
    found = [rows.value(label, "global_load_requests") / hand for label in automatic(rows)]
    return set(found) == {4.0}, f"{' '.join(map(number, found))} x the requests of {HAND}"


def tools_waste_nothing(rows: Rows) -> Found:
    """No tool fetches a sector in vain, or spills."""
    wanted = 3 * 4 * N / SECTOR
    for label in automatic(rows):
        loads = rows.value(label, "global_load_sectors")
        if loads != wanted or rows.value(label, "local_load_requests"):
            return False, f"{label}: {number(loads)} sectors loaded, {number(wanted)} needed"
    return True, f"{number(wanted)} sectors loaded, the least, and no spill"


def claim_fuse(rows: Rows) -> tuple[str, str]:
    """Compilers are said to fuse."""
    holds, text = tools_fuse(rows)
    return HELD if holds else REFUTED, text


def claim_last(rows: Rows) -> tuple[str, str]:
    """The last factor is said to be won by hand."""
    labels = automatic(rows)
    if not has_time(rows, HAND, *labels):
        more = rows.value(labels[0], "global_load_requests") / rows.value(HAND, "global_load_requests")
        return NEEDS_GPU, f"same bytes; {number(more)} x the load requests of {HAND}"
    best = min(labels, key=lambda label: rows.value(label, "seconds_cold"))
    value, low, high = time_over(rows, best, HAND)
    text = f"{HAND} is {value:.3g} x (95 % {low:.3g} to {high:.3g}) as fast as {best}"
    return HELD if low > 1 and value > 1.01 else REFUTED, text


EXPERIMENT = Experiment(
    name="auto-fusion",
    question="How far do CuPy's and Numba's own fusing tools come, and what is left to do by hand?",
    sweeps=(SWEEP,),
    derived=(
        Derived(
            "bytes_per_element", "B", lambda record: bytes_of("load", "store")(record) / record.sizes["n"]
        ),
    ),
    expectations=(
        Expectation("every answer equals NumPy's", all_right()),
        Expectation("each tool makes one launch of two, and 16 bytes an element of 24", tools_fuse),
        Expectation("each tool reads an element a thread: 4 x the requests of 16 bytes", tools_are_scalar),
        Expectation("no tool fetches a sector in vain, or spills", tools_waste_nothing),
    ),
    claims=(
        Claim("compilers fuse a chain of operations by themselves", WRITE_UP, claim_fuse),
        Claim("the last factor is won by tuning by hand", WRITE_UP, claim_last),
        *(
            Claim(
                f"{tool.name}: a kernel by hand is faster",
                WRITE_UP,
                needs_gpu("CuPy or Numba must launch it; answer, shape and dtype come first"),
                tool.timed,
            )
            for tool in TOOLS
        ),
        Claim(
            "cupy.fuse gives each output the shape and dtype that the chain gives",
            "CuPy's documentation",
            lambda rows: (
                NEEDS_GPU,
                "it must be launched: (2, 2, 2) with (2, 2), float32 with a Python number",
            ),
            keeps_kind,
        ),
    ),
    lessons=(
        "Counted: the text that CuPy generates for ElementwiseKernel, fuse and jit, caught without a driver, and "
        "the kernel that Numba's @vectorize puts round a function. ReductionKernel chooses between its own "
        "text and CUB's while it launches: it needs a GPU.",
        "Fusing is what the tools do well: one launch, and no array in between. Width is what they leave: 4 "
        "bytes a lane where 16 keep memory busy.",
    ),
    prepare=lambda: generated.write(FOLDER),
)
