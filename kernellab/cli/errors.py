"""Errors on the command line: one sentence on stderr and the right exit status."""

from __future__ import annotations

import functools
import inspect
import os
import re
import sys
import warnings
from collections.abc import Callable
from typing import Any, TextIO, TypeVar

import typer

from kernellab.errors import (
    ArgumentError,
    CompileError,
    LabError,
    SpecError,
    UnavailableError,
    UnsupportedPTXError,
    on_a_gpu,
)

FINE, FAILED, USAGE, MISSING, INTERRUPTED = 0, 1, 2, 3, 130
Function = TypeVar("Function", bound=Callable[..., Any])


def status_of(error: LabError) -> int:
    """Return the exit status of an error.

    Examples
    --------
    >>> status_of(SpecError("x")), status_of(UnavailableError("x")), status_of(LabError("x"))
    (2, 3, 1)
    """
    if isinstance(error, UnavailableError | UnsupportedPTXError):
        return MISSING
    if isinstance(error, SpecError | ArgumentError):
        return USAGE
    return FAILED


def handled(command: Function) -> Function:
    """Turn a command's LabError and Ctrl-C into a sentence and an exit status."""
    takes_device = "device" in inspect.signature(command).parameters

    @functools.wraps(command)
    def wrapped(*args: Any, **options: Any) -> None:
        try:
            with warnings.catch_warnings():
                warnings.showwarning = _show_warning
                command(*args, **options)
        except LabError as error:
            log = error.log.rstrip() if isinstance(error, CompileError) else ""
            if log:
                say(log)
            message = _without_line_of(log, str(error))
            say(f"error: {in_options(message if takes_device else on_a_gpu(message))}")
            raise typer.Exit(status_of(error)) from None
        except MemoryError as error:
            say(f"error: there is not enough memory ({error}); ask for fewer elements")
            raise typer.Exit(FAILED) from None
        except KeyboardInterrupt:
            say("interrupted")
            raise typer.Exit(INTERRUPTED) from None

    return wrapped  # type: ignore[return-value]


def in_options(message: str) -> str:
    """Write a message for the command line: options in place of Python's keywords.

    Examples
    --------
    >>> in_options("pass device='emulator' or a larger budget="), in_options("lower shared_mem= (now 4)")
    ('pass --device emulator or a larger --budget', 'lower --shared-mem (now 4)')
    """
    message = message.replace(": see .trace.diagnostics)", ")")
    keywords = "arch|blocks|budget|case|device|language|sanitize|shared_mem"
    return re.sub(
        rf"(?<![\w.-])({keywords})=(?:'([^']*)'|True)?",
        lambda found: f"--{found[1].replace('_', '-')}" + (f" {found[2]}" if found[2] else ""),
        message,
    )


def _without_line_of(log: str, message: str) -> str:
    """Leave out the line of the log that a message ends with: the log has just been shown."""
    lines = (line.strip() for line in log.splitlines())
    shown = next((line for line in lines if line and message.endswith(f": {line}")), None)
    return message if shown is None else message.removesuffix(f": {shown}")


def guarded(main: Function) -> Function:
    """Leave quietly when the reader of a pipe has gone, or on Ctrl-C before a command began.

    Where standard output takes no more, as on a full disk, say so.
    """

    @functools.wraps(main)
    def wrapped() -> None:
        try:
            main()
            sys.stdout.flush()
        except OSError as error:
            if error.filename is not None:  # it is about a file, which is not standard output
                raise
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            if isinstance(error, BrokenPipeError):
                sys.exit(FINE)
            say(f"error: standard output cannot be written: {error.strerror}; write to another place")
            sys.exit(FAILED)
        except KeyboardInterrupt:
            say("interrupted")
            _leave()
        except SystemExit as end:
            if end.code == INTERRUPTED:
                _leave()
            raise

    return wrapped  # type: ignore[return-value]


def _leave() -> None:
    """End at once: an ordinary exit would wait for compilers in other threads."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(INTERRUPTED)


def say(text: str) -> None:
    """Print to stderr."""
    print(text, file=sys.stderr, flush=True)


def _show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    say(f"warning: {in_options(str(message))}")
