"""Tune: one rung at one size with constants swept, verified and timed; the fastest first."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import replace

from kernellab.errors import SpecError
from kernellab.instruments.clock import Rule
from kernellab.kernel import Kernel, Language
from kernellab.report.table import Column, Table
from kernellab.suites.bench import Bench
from kernellab.suites.precompile import precompile
from kernellab.suites.product_arena import arena_of
from kernellab.suites.race import race
from kernellab.suites.tensor_arena import SPLITS, over_lists

RULE = Rule(budget=2.0, maximum=60)
"""All combinations together, in turn."""


def variants(kernel: Kernel, sweeps: Mapping[str, Sequence[int]]) -> dict[str, Kernel]:
    """Return a rung with every combination of constants, by what was set.

    Raises
    ------
    SpecError
        For a constant that it does not have.

    Examples
    --------
    >>> from kernellab.catalog import kernel
    >>> list(variants(kernel("sum/vectorised"), {"THREADS": (128, 256), "VECTORS": (4,)}))
    ['THREADS=128 VECTORS=4', 'THREADS=256 VECTORS=4']
    """
    unknown = [name for name in sweeps if name not in kernel.constants or name == "ELEMENT"]
    if unknown:
        known = ", ".join(name for name in kernel.constants if name != "ELEMENT") or "none"
        raise SpecError(f"{kernel.id}: there is no constant {unknown[0]!r} to sweep; it has {known}")
    chosen = [dict(zip(sweeps, values, strict=True)) for values in itertools.product(*sweeps.values())]
    # Without the tuning: a combination that equals what the source has would be replaced by it.
    return {
        " ".join(f"{name}={value}" for name, value in each.items()): replace(
            kernel, constants={**kernel.constants, **each}, tuning=None
        )
        for each in chosen
    }


def tune(
    bench: Bench,
    kernel: Kernel,
    sizes: Mapping[str, int],
    sweeps: Mapping[str, Sequence[int]],
    element: str = "",
    language: Language = "cuda-c",
) -> Table:
    """Time a rung with its constants swept.

    Parameters
    ----------
    bench : Bench
    kernel : Kernel
    sizes : mapping of str to int
        Those of its inputs.
    sweeps : mapping of str to sequence of int
        Constants, and what each is set to; all combinations are tried.
    element : str
        Of operands of dtype ``"element"``; by default the kernel's first.
    language : {"cuda-c", "numba"}

    Returns
    -------
    Table
        Sorted by time; its notes say which combinations are not valid, and why. The row "as chosen" is what
        `bind` takes by itself.

    Raises
    ------
    SpecError
        For a constant that the kernel does not have, or a size that is missing.
    """
    wanted = {name for item in kernel.inputs for name in item.shape if not name.isdigit()}
    optional = set(SPLITS) if over_lists(kernel.problem) else set()
    if not wanted <= set(sizes) <= wanted | optional:
        told = ", ".join(sorted(wanted))
        raise SpecError(f"{kernel.id}: sizes are {', '.join(sizes) or 'none'}, it takes {told}; give each")
    arena = arena_of(bench, kernel.problem, dict(sizes), element or kernel.element or "float32")
    tried = {"as chosen": kernel, **variants(kernel, sweeps)}
    notes: list[str] = []
    ready = {}
    for label, each in tried.items():
        try:
            ready[label] = arena.plan(each).kernel
        except SpecError as error:
            notes.append(f"{label}: {error}")
    precompile(bench, [(each, language) for each in ready.values()])
    bench.progress(f"{kernel.id}: {len(ready)} of {len(tried)} combinations")
    labels = {id(tried[label]): label for label in ready}
    entries = [(tried[label], language) for label in ready]
    rows = race(arena, entries, rule=RULE, name=lambda each: labels[id(each)])
    notes += arena.notes
    found = sorted(
        ((float(row["seconds"]), row["workload"], row) for row in rows if row["kernel"]),
        key=lambda each: each[0],
    )
    rows_shown = tuple(
        (
            label,
            " ".join(f"{name}={value}" for name, value in row["constants"].items() if name != "ELEMENT"),
            f"{1e6 * seconds:.2f}",
            f"{row['gigabytes_per_second']:.0f}",
            f"{row['fraction_of_copy']:.3f}",
            f"{row['flops'] / seconds / 1e12:.4g}" if row["flops"] else "-",
        )
        for seconds, label, row in found
    )
    columns = (
        Column("set"),
        Column("ran with"),
        *(Column(x, "measured", True) for x in ("us", "GB/s", "of copy", "TFLOP/s")),
    )
    words = " ".join(f"{name}={value}" for name, value in sizes.items())
    return Table(f"{kernel.id} {arena.element} {language}, {words}", columns, rows_shown, tuple(notes))


__all__ = ["tune", "variants"]
