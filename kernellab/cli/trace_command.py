"""``kernellab trace``."""

from __future__ import annotations

import runpy
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from kernellab.cli import output
from kernellab.cli.arguments import describe, files_of, parse_argument, parse_globals, parse_sides
from kernellab.cli.errors import in_options
from kernellab.errors import ExecutionError, LabError, SpecError
from kernellab.report.table import Column, Table


@dataclass(frozen=True)
class Request:
    """What the command line asked for, as text."""

    target: str
    grid: str
    block: str
    arguments: tuple[str, ...]
    shared_mem: int
    sanitize: bool
    blocks: int | None
    variables: tuple[str, ...]
    options: tuple[str, ...]
    arch: str
    budget: int | None


def trace_kernel(request: Request, json_file: Path | None, html_file: Path | None) -> None:
    """Trace a kernel, print its source with counts, its totals and what it did to its arguments."""
    from kernellab.report.document import Document
    from kernellab.report.text import console, print_table, print_trace

    path, entry = split_target(request.target)
    arrays = files_of((*request.arguments, *request.variables))
    output.check_files(json_file, html_file, (path, *map(Path, arrays)))
    arguments = [parse_argument(text, seed) for seed, text in enumerate(request.arguments)]
    before = [value.copy() if isinstance(value, np.ndarray) else value for value in arguments]
    failure = None
    with output.patience(f"running {entry or path} on the emulator"):
        try:
            found = _trace(path, entry, request, arguments)
        except ExecutionError as error:
            found = getattr(error, "trace", None)
            failure = error
            if found is None:
                raise
    document = Document("trace", traces=(found,), environment=output.environment())
    output.save(document, json_file, html_file)
    if not output.is_silent(json_file):
        target = console()
        told = tuple(replace(each, message=in_options(each.message)) for each in found.diagnostics)
        shown = replace(found, diagnostics=told)
        print_trace(target, shown, failure="" if failure is None else in_options(str(failure)))
        if arguments and not found.sampled_blocks:
            print_table(target, arguments_table(request.arguments, before, arguments, found.parameters))
    if failure is not None:
        raise failure
    output.fail(any(each.kind == "race" for each in found.diagnostics))


def split_target(target: str) -> tuple[Path, str]:
    """Return the file and the entry of ``FILE::ENTRY``; the entry may be left out.

    Raises
    ------
    SpecError
        If the file is not there.

    Examples
    --------
    >>> split_target("missing.cu::tile<float>")
    Traceback (most recent call last):
    kernellab.errors.SpecError: missing.cu: there is no such file; write FILE::ENTRY, as in mine.cu::my_kernel
    """
    name, _, entry = target.partition("::")
    path = Path(name)
    if not path.is_file():
        what = "it is a folder" if path.is_dir() else "there is no such file"
        raise SpecError(f"{name}: {what}; write FILE::ENTRY, as in mine.cu::my_kernel")
    return path, entry


def _trace(path: Path, entry: str, request: Request, arguments: list[Any]) -> Any:
    from kernellab.trace import trace

    grid, block = parse_sides(request.grid, "grid"), parse_sides(request.block, "block")
    shared: dict[str, Any] = {
        "shared_mem": request.shared_mem,
        "sanitize": request.sanitize,
        "blocks": request.blocks,
        "budget": request.budget,
        "arch": request.arch,
    }
    if path.suffix == ".py":
        if request.variables or request.options:
            raise SpecError(
                f"{path}: --global and --option are for CUDA C, and this is Python; leave them out"
            )
        return trace(find_function(path, entry, request.arch), grid, block, tuple(arguments), **shared)
    return trace(
        path,
        entry or only_kernel(path),
        grid,
        block,
        tuple(arguments),
        globals=parse_globals(request.variables),
        options=request.options,
        **shared,
    )


def only_kernel(path: Path) -> str:
    """Return the one kernel of a file.

    Raises
    ------
    SpecError
        If it has none or several.
    """
    from kernellab.compile.entry import which_of
    from kernellab.compile.kernel_text import kernel_names
    from kernellab.emulation import parsed
    from kernellab.trace import is_ptx

    text = path.read_text(encoding="utf-8", errors="replace")
    if is_ptx(text):
        names = [str(name) for name, function in parsed(text).functions.items() if function.is_entry]
    else:
        names = list(kernel_names(text))
    if len(names) != 1:
        raise which_of(path, names)
    return names[0]


def find_function(path: Path, entry: str, arch: str = "sm_90") -> Any:
    """Run a Python file and return its kernel: a plain function or a ``@cuda.jit`` dispatcher.

    Raises
    ------
    SpecError
        If there is none of that name, or the file fails.
    UnavailableError
        If numba-cuda is not here.
    """
    from kernellab.compile.entry import which_of
    from kernellab.compile.numba_cuda import without_driver

    try:
        with without_driver(arch):  # kernels declared with signatures compile at once, for a device
            names = runpy.run_path(str(path), run_name="kernellab_traced")
    except (LabError, KeyboardInterrupt):
        raise
    except BaseException as error:
        raise SpecError(
            f"{path}: running it fails with {type(error).__name__}: {error}; mend it first"
        ) from error
    jitted = [name for name, value in names.items() if hasattr(value, "py_func")]
    if not entry and len(jitted) == 1:
        return names[jitted[0]]
    if entry not in names or not (callable(names[entry]) or hasattr(names[entry], "py_func")):
        known = [
            name for name, value in names.items() if getattr(value, "__module__", "") == "kernellab_traced"
        ]
        raise which_of(path, known, "function")
    return names[entry]


def arguments_table(
    texts: Sequence[str], before: Sequence[Any], after: Sequence[Any], names: Sequence[str] = ()
) -> Table:
    """Return what each argument was and became, by the parameter's name where it is known."""
    rows: list[tuple[str, ...]] = []
    for text, old, new in zip(texts, before, after, strict=True):
        kind, values = describe(new)
        changed = "-"
        if isinstance(new, np.ndarray):
            count = int(np.count_nonzero(_bits(old) != _bits(new)))
            changed = "unchanged" if count == 0 else f"{count} of {new.size} changed"
        rows.append((text if len(text) < 32 else kind, changed, values))
    columns = [Column("argument"), Column("elements"), Column("values now")]
    if len(names) == len(rows):
        columns = [Column("argument"), Column("given"), *columns[1:]]
        rows = [(name, *row) for name, row in zip(names, rows, strict=True)]
    return Table("", tuple(columns), tuple(rows))


def _bits(array: Any) -> Any:
    flat = np.ascontiguousarray(array).reshape(-1)
    return flat.view(f"u{flat.itemsize}") if flat.itemsize in (1, 2, 4, 8) else flat
