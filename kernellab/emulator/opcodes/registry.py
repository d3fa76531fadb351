"""The registry: from the text of an opcode, with all its modifiers, to what it computes.

A builder is a small function decorated with `opcode`. It receives the modifiers of one opcode, takes those it
understands and returns a `Semantics`; a modifier that nobody took makes the opcode unsupported, so that an
unknown `.foo` is never ignored silently.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import ml_dtypes
import numpy as np

from kernellab.errors import UnsupportedPTXError

#: An array of any shape, or a NumPy scalar: NumPy's stubs have no common type for the two.
Array = Any
Compute = Callable[..., Any]

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
BOOL = np.dtype(np.bool_)

#: PTX type -> the dtype its register is read as. Untyped bits and packed pairs are unsigned integers.
DTYPES: dict[str, np.dtype[Any]] = {
    **{f"u{n}": np.dtype(f"u{n // 8}") for n in (8, 16, 32, 64)},
    **{f"b{n}": np.dtype(f"u{n // 8}") for n in (8, 16, 32, 64)},
    **{f"s{n}": np.dtype(f"i{n // 8}") for n in (8, 16, 32, 64)},
    "f16": np.dtype(np.float16),
    "bf16": BFLOAT16,
    "f32": np.dtype(np.float32),
    "tf32": np.dtype(np.uint32),
    "f64": np.dtype(np.float64),
    "pred": BOOL,
    **dict.fromkeys(("f16x2", "bf16x2", "u16x2", "s16x2"), np.dtype(np.uint32)),
    "f32x2": np.dtype(np.uint64),
    **dict.fromkeys(("e4m3x2", "e5m2x2"), np.dtype(np.uint16)),
}


@dataclass(frozen=True)
class Semantics:
    """What an opcode computes, element by element.

    Attributes
    ----------
    sources : tuple of numpy.dtype
        The dtype that each source operand is read as.
    results : tuple of numpy.dtype
        The dtype of each destination.
    compute : callable
        Takes one array (or NumPy scalar) a source, returns one array, or a tuple with more than one result.
        Where it is a `numpy.ufunc`, it may be called with ``out=``.
    reads_carry, writes_carry : bool
        The carry flag is one more bool source (the last), or one more bool result (the last).
    """

    sources: tuple[np.dtype[Any], ...]
    results: tuple[np.dtype[Any], ...]
    compute: Compute
    reads_carry: bool = False
    writes_carry: bool = False


class Modifiers:
    """The parts of one opcode behind its name; a builder takes what it understands.

    Parameters
    ----------
    name : str
        The opcode's first part, with ``.cc`` where the carry flag is written.
    parts : list of str
        The other parts, in order.
    destinations : int
        How many destinations the instruction names (``p|q`` is two).
    """

    def __init__(self, name: str, parts: list[str], destinations: int) -> None:
        self.name = name
        self.destinations = destinations
        self.types = [part for part in parts if part in DTYPES]
        self.left = [part for part in parts if part not in DTYPES]

    @property
    def type(self) -> str:
        """The last PTX type named, or an empty string."""
        return self.types[-1] if self.types else ""

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype of the last type."""
        return DTYPES[self.type]

    @property
    def unsigned(self) -> np.dtype[Any]:
        """The unsigned integer of the last type's width."""
        return np.dtype(f"u{self.dtype.itemsize}")

    def has(self, word: str) -> bool:
        """Take `word`; False where it is not there."""
        if word not in self.left:
            return False
        self.left.remove(word)
        return True

    def one_of(self, words: str, default: str = "") -> str:
        """Take the first of the space-separated `words` that is there."""
        for word in words.split():
            if self.has(word):
                return word
        return default

    def need(self, words: str) -> str:
        """Take the first of `words` that is there; the opcode is not known without one."""
        word = self.one_of(words)
        if not word:
            raise KeyError(words)
        return word


Builder = Callable[[Modifiers], Semantics]
_BUILDERS: dict[tuple[str, str], Builder] = {}


def opcode(names: str, types: str = "*") -> Callable[[Builder], Builder]:
    """Register a builder for `names` with a last type in `types` (both space-separated; ``*`` is any)."""

    def register(builder: Builder) -> Builder:
        for name in names.split():
            for type_ in types.split():
                _BUILDERS[name, type_] = builder
        return builder

    return register


def unary(dtype: np.dtype[Any], compute: Compute) -> Semantics:
    """One source and one result of one dtype."""
    return Semantics((dtype,), (dtype,), compute)


def binary(dtype: np.dtype[Any], compute: Compute) -> Semantics:
    """Two sources and one result of one dtype."""
    return Semantics((dtype, dtype), (dtype,), compute)


def ternary(dtype: np.dtype[Any], compute: Compute) -> Semantics:
    """Three sources and one result of one dtype."""
    return Semantics((dtype, dtype, dtype), (dtype,), compute)


@cache
def semantics(opcode: str, destinations: int = 1) -> Semantics:
    """Look up what a data operation of PTX computes.

    Parameters
    ----------
    opcode : str
        The opcode with all its modifiers and without its guard, such as ``"fma.rn.ftz.f32"``.
    destinations : int, optional
        How many destinations the instruction names; 2 for ``setp ... p|q``.

    Returns
    -------
    Semantics
        The dtypes of its operands and the element-wise function. Cached.

    Raises
    ------
    UnsupportedPTXError
        For an opcode, a type or a modifier that is not known.

    Examples
    --------
    >>> import numpy as np
    >>> shift = semantics("shl.b32")
    >>> shift.compute(np.uint32([1, 1]), np.uint32([4, 40]))
    array([16,  0], dtype=uint32)
    """
    name, *parts = opcode.split(".")
    if "cc" in parts:
        parts.remove("cc")
        name += ".cc"
    modifiers = Modifiers(name, parts, destinations)
    builder = _BUILDERS.get((name, modifiers.type)) or _BUILDERS.get((name, "*"))
    if builder is None:
        kind = f"with type .{modifiers.type}" if modifiers.type else "under this name"
        raise UnsupportedPTXError(f"{opcode}: the emulator knows no data operation {name} {kind}")
    try:
        found = builder(modifiers)
    except (KeyError, IndexError):
        raise UnsupportedPTXError(f"{opcode}: the emulator does not know this form of {name}") from None
    if modifiers.left:
        raise UnsupportedPTXError(
            f"{opcode}: the emulator does not know the modifier .{modifiers.left[0]} here"
        )
    return found
