"""Suites: what a GPU is measured with, each a module with ``run(bench) -> Results``."""

from __future__ import annotations

import difflib
import importlib
from typing import TYPE_CHECKING

from kernellab.errors import SpecError

if TYPE_CHECKING:
    from kernellab.results import Results
    from kernellab.suites.bench import Bench

SUITES = (
    "peers", "memory", "rows", "products", "ladder", "blocks", "strides", "counters", "hierarchy", "clock", "compare", "large",
    "streams", "claims", "launches", "optimizer", "backward", "all_reduce",
)  # fmt: skip


def run(name: str, bench: Bench) -> Results:
    """Run a suite by name.

    Raises
    ------
    SpecError
        If there is none of that name.
    """
    if name not in SUITES:
        close = difflib.get_close_matches(name, SUITES, n=1)
        hint = f"did you mean {close[0]!r}?" if close else f"there are {', '.join(SUITES)}"
        raise SpecError(f"{name}: no suite has this name; {hint}")
    found: Results = importlib.import_module(f"kernellab.suites.{name}").run(bench)
    return found


__all__ = ["SUITES", "run"]
