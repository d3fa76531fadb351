"""Runs of compiled kernels on the emulator: what a `Trace` is made from."""

from __future__ import annotations

import io
import operator
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from kernellab.checks import number
from kernellab.compile.binary import Binary, SassInstruction
from kernellab.errors import ExecutionError
from kernellab.geometry import check_compiled_for, check_geometry, dimensions
from kernellab.trace import Trace

NO_BLOCK = "no block ran: the grid is empty, a GPU refuses such a launch"


@lru_cache(maxsize=64)
def parsed(ptx: str) -> Any:
    """Parse PTX, once for each text."""
    from kernellab.emulator.ptx import parse

    return parse(ptx)


def run_binary(
    binary: Binary,
    entry: str,
    grid: Any,
    block: Any,
    arguments: Sequence[Any],
    *,
    name: str = "",
    shared_mem: int = 0,
    variables: Mapping[str, Any] | None = None,
    blocks: int | None = None,
    sanitize: bool = False,
    seed: int | None = None,
    budget: int | None = None,
    errors: str = "raise",
    names: tuple[str, ...] = (),
    with_sass: bool = True,
) -> Trace:
    """Run an entry of a compiled binary on the emulator; `trace` for what is compiled already.

    Without SASS, which takes a disassembly, counts are approximate.
    """
    from kernellab.emulator.arguments import bind_arguments, parameter_names
    from kernellab.emulator.launch import Launch
    from kernellab.emulator.memory import GlobalMemory
    from kernellab.emulator.sampling import run_sampled
    from kernellab.emulator.summary import Executions, lines_of, totals_of
    from kernellab.instruments.occupancy import shared_limit
    from kernellab.signature import typed_variables

    who = name or entry
    for what, value, least in (
        ("shared_mem", shared_mem, 0), ("blocks", blocks, 1), ("seed", seed, 0), ("budget", budget, 1)
    ):  # fmt: skip
        if value is not None:
            number(f"{who}: {what}", value, "uint64", least)
    grid, block = dimensions(grid, "grid", who), dimensions(block, "block", who)
    check_geometry(grid, block, who)
    module = parsed(binary.ptx)
    check_compiled_for(block, module.functions[entry].performance, who)
    memory = GlobalMemory()
    parameters = bind_arguments(binary, module.functions[entry], arguments, memory, who)
    printed = io.StringIO()
    launch = Launch(
        module, entry, grid, block, parameters, memory, dynamic_shared=operator.index(shared_mem),
        variables=typed_variables(binary.sources, variables or {}, who), sanitize=sanitize, seed=seed,
        budget=budget, shared_limit=shared_limit(binary.arch),
        printer=printed.write, name=who, sass=listing_of(binary) if with_sass else None,
    )  # fmt: skip
    errors_of: Mapping[str, float] = {}
    sampled = 0
    failure: ExecutionError | None = None
    totals: dict[str, float] = {}
    try:
        if blocks is not None and blocks < launch.block_count:
            totals, errors_of, sampled = run_sampled(launch, operator.index(blocks))
        else:
            launch.run()
    except ExecutionError as error:
        failure = error
    executions = Executions.of(launch, launch.counts)
    totals = totals or totals_of(launch, launch.counts, executions)
    mapped, notes = _mapped(launch)
    result = Trace(
        kernel=who, language=binary.language, arch=binary.arch, grid=grid, block=block,
        shared_bytes=launch.shared_bytes, totals=totals,
        lines=lines_of(launch, launch.counts, executions, binary.sources), diagnostics=tuple(launch.diagnostics),
        source="SASS" if mapped == 1.0 and not notes else "approximate", mapped=mapped,
        notes=notes if launch.block_count else (*notes, NO_BLOCK),
        output=printed.getvalue(), sampled_blocks=sampled, standard_errors=errors_of,
        parameters=names or parameter_names(binary, module.functions[entry], who), is_sanitized=sanitize,
    )  # fmt: skip
    if printed.getvalue():
        print(printed.getvalue(), end="")
    wrong = [each for each in result.diagnostics if each.is_error]
    if failure is None and wrong and errors == "raise":
        more = f" (and {len(wrong) - 1} more: see .trace.diagnostics)" if len(wrong) > 1 else ""
        failure = ExecutionError(wrong[0].message + more)
    if failure is not None and errors == "raise":
        failure.trace = result  # type: ignore[attr-defined]
        raise failure
    return result


def listing_of(binary: Binary) -> tuple[SassInstruction, ...] | None:
    """Return a binary's machine code, all functions one after the other; None where nothing can list it.

    The same tuple for the same machine code of the same PTX, by which it is known again: binaries that were
    linked share the one and not the other, whose lines the instructions name.
    """
    from kernellab.compile.sass import sass_of
    from kernellab.errors import UnavailableError

    try:
        sass = sass_of(binary)
    except UnavailableError:
        return None
    key = (binary.cubin, binary.ptx)
    if key in _listings:
        return _listings[key]
    found = tuple(instruction for code in sass.functions.values() for instruction in code)
    while len(_listings) >= KEPT_LISTINGS:
        _listings.pop(next(iter(_listings)))
    _listings[key] = found
    return found


_listings: dict[tuple[bytes | None, str], tuple[SassInstruction, ...]] = {}
KEPT_LISTINGS = 32


def _mapped(launch: Any) -> tuple[float, tuple[str, ...]]:
    found = list(launch.attributions.values())
    weights = [max(len(each.accesses) + len(each.branches), 1) for each in found]
    mapped = sum(each.mapped * w for each, w in zip(found, weights, strict=True)) / sum(weights)
    notes = tuple(note for each in found for note in each.notes)
    return mapped, notes
