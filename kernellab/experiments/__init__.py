"""Experiments: a question, what is swept, what must hold, and what others claimed."""

from __future__ import annotations

import difflib
import importlib
from typing import TYPE_CHECKING

from kernellab.errors import SpecError

if TYPE_CHECKING:
    from kernellab.experiments.experiment import Experiment

FUNDAMENTALS = ("coalescing", "bank-conflicts", "divergence")
"""What ``kernellab run`` runs when no name is given."""
EXPERIMENTS = (
    *FUNDAMENTALS,
    "fusion",
    "auto-fusion",
    "ladders",
    "matmul-ladder",
    "tensor-cores",
    "fused-epilogue",
    "hierarchy",
    "atomics",
    "launch-config",
    "precision-cost",
    "streams",
    "graphs",
    "all-reduce",
    "mixed-precision",
)


def load(name: str) -> Experiment:
    """Return an experiment by name.

    Parameters
    ----------
    name : str
        One of `EXPERIMENTS`; or one of them, a colon and the problem that it is to be restricted to, such as
        ``"ladders:sum"``.

    Raises
    ------
    SpecError
        If there is none of that name.

    Examples
    --------
    >>> load("coalescing").name
    'coalescing'
    """
    name, _, problem = name.partition(":")
    if name not in EXPERIMENTS:
        close = difflib.get_close_matches(name, EXPERIMENTS, n=1)
        hint = f"did you mean {close[0]!r}?" if close else f"there are {', '.join(EXPERIMENTS)}"
        raise SpecError(f"{name}: no experiment has this name; {hint}")
    module = importlib.import_module(f"kernellab.experiments.{name.replace('-', '_')}")
    if problem and not hasattr(module, "restricted"):
        raise SpecError(f"{name}:{problem}: this experiment has no parts; write {name}")
    found: Experiment = module.restricted(problem) if problem else module.EXPERIMENT
    return found


__all__ = ["EXPERIMENTS", "FUNDAMENTALS", "load"]
