"""Every error that kernellab raises: one sentence that says who, which rule, which value, and the remedy."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator


class LabError(Exception):
    """The parent of all errors of kernellab."""


class SpecError(LabError, ValueError):
    """A value that breaks a rule: a shape, a size, a name, a limit."""


class ArgumentError(LabError, TypeError):
    """An argument of the wrong kind, dtype, layout or count."""


class CompileError(LabError, RuntimeError):
    """A source that does not compile.

    Attributes
    ----------
    log : str
        The compiler's own words, with file and line.
    """

    def __init__(self, message: str, log: str = "") -> None:
        super().__init__(message)
        self.log = log


class MismatchError(LabError, AssertionError):
    """An output that differs from its reference."""


class UnavailableError(LabError, RuntimeError):
    """A device, library or tool that is not here; the message says how to get it."""


class UnsupportedPTXError(LabError, NotImplementedError):
    """A PTX instruction that the emulator does not execute; names the instruction and the source line."""


def on_a_gpu(message: str) -> str:
    """Return the message of a GPU that is not here with the remedy of what runs on a GPU only.

    Examples
    --------
    >>> on_a_gpu("device: 'gpu' is not here; pass device='emulator'")
    "device: 'gpu' is not here; run this where a GPU is"
    """
    return message.replace("; pass device='emulator'", "; run this where a GPU is").replace(
        ", or pass device='emulator'", ""
    )


class ExecutionError(LabError, RuntimeError):
    """A kernel that went wrong while it ran: out of bounds, misaligned, a deadlock, the instruction budget."""


class OutOfMemoryError(ExecutionError, MemoryError):
    """Device memory that does not suffice, also after the pools were freed; says who holds what."""


@contextlib.contextmanager
def speaking_as(who: str) -> Iterator[None]:
    """Tell what is refused in the name of the function that was called, and not of the rung that it took.

    Examples
    --------
    >>> with speaking_as("sum"):
    ...     raise SpecError("row_sum/warp: language is 'c'")
    Traceback (most recent call last):
    kernellab.errors.SpecError: sum: language is 'c'
    """
    try:
        yield
    except (SpecError, ArgumentError) as error:
        error.args = (re.sub(r"^\w+/\w+: ", f"{who}: ", str(error)),)
        raise
