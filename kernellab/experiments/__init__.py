"""Experiments: a question, what is swept, what must hold, and what others claimed."""

from __future__ import annotations

import difflib
import importlib
from typing import TYPE_CHECKING

from kernellab.errors import SpecError

if TYPE_CHECKING:
    from kernellab.experiments.experiment import Experiment

EXPERIMENTS = ("coalescing", "bank-conflicts", "divergence")


def load(name: str) -> Experiment:
    """Return an experiment by name.

    Raises
    ------
    SpecError
        If there is none of that name.

    Examples
    --------
    >>> load("coalescing").name
    'coalescing'
    """
    if name not in EXPERIMENTS:
        close = difflib.get_close_matches(name, EXPERIMENTS, n=1)
        hint = f"did you mean {close[0]!r}?" if close else f"there are {', '.join(EXPERIMENTS)}"
        raise SpecError(f"{name}: no experiment has this name; {hint}")
    found: Experiment = importlib.import_module(f"kernellab.experiments.{name.replace('-', '_')}").EXPERIMENT
    return found


__all__ = ["EXPERIMENTS", "load"]
