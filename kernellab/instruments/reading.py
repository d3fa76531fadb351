"""Reading: one number, its unit and where it comes from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

Source: TypeAlias = Literal["measured", "counted", "derived"]


@dataclass(frozen=True)
class Reading:
    """One number about one run.

    Attributes
    ----------
    name : str
        Such as ``"global_load_sectors"``.
    value : float
        NaN where there is none, such as a ratio to zero requests.
    unit : str
        Such as ``"sectors"``; ``"1"`` for a ratio.
    source : {"measured", "counted", "derived"}
        By a clock or a hardware counter; by the emulator; from the compiled code.
    note : str
        How it was counted: ``"SASS"``, ``"PTX"``, ``"approximate"``; or what limits it.
    """

    name: str
    value: float
    unit: str
    source: Source
    note: str = ""
