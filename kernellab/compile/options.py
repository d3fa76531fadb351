"""Compiler options as users write them, in one spelling; what would break the lab's own is refused."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence

from kernellab.errors import SpecError

# What nvcc knows and NVRTC needs not: harmless, so it is dropped.
_DROPPED = {
    "-lineinfo",
    "--generate-line-info",
    "-default-device",
    "--device-as-default-execution-space",
    "-O0",
    "-O1",
}
_DROPPED |= {"-O2", "-O3", "-c", "--expt-relaxed-constexpr", "-expt-relaxed-constexpr", "-ptx", "--ptx", "-w"}
_DROPPED |= {"--expt-extended-lambda", "-expt-extended-lambda"}
_JOINED = {
    "-I": "-I",
    "--include-path": "-I",
    "-D": "-D",
    "--define-macro": "-D",
    "-U": "-U",
    "--undefine-macro": "-U",
}
_JOINED |= {"-std": "-std=", "--std": "-std="}
_REFUSED = {
    "-arch": "pass arch= instead",
    "--gpu-architecture": "pass arch= instead",
    "-gencode": "pass arch= instead",
    "--generate-code": "pass arch= instead",
    "-code": "pass arch= instead",
    "-G": "it excludes the line tables that counts are mapped by; leave it out",
    "--device-debug": "it excludes the line tables that counts are mapped by; leave it out",
    "-rdc": "relocatable code has no machine code of its own; leave it out",
    "--relocatable-device-code": "relocatable code has no machine code of its own; leave it out",
    "-dc": "relocatable code has no machine code of its own; leave it out",
    "--device-c": "relocatable code has no machine code of its own; leave it out",
    "-dlto": "link-time code has no PTX; leave it out",
    "--dlink-time-opt": "link-time code has no PTX; leave it out",
    "-o": "the result is a value, not a file; leave it out",
    "--output-file": "the result is a value, not a file; leave it out",
}


def normalise_options(options: Sequence[str]) -> tuple[str, ...]:
    """Bring `options` to one spelling.

    Parameters
    ----------
    options : sequence of str
        Such as ``("-D", "TILE=32", "-I include", "-O3")``.

    Returns
    -------
    tuple of str

    Raises
    ------
    SpecError
        An option that contradicts what the lab sets itself, or is no string.

    Examples
    --------
    >>> normalise_options(["-D", "TILE=32", "-I /include", "-O3"])
    ('-DTILE=32', '-I/include')
    """
    if isinstance(options, str) or not isinstance(options, Iterable):
        remedy = f"write ({options!r},)" if isinstance(options, str) else "leave it out for none"
        raise SpecError(f"options: a sequence of strings is wanted, not {options!r}; {remedy}")
    result: list[str] = []
    waiting = ""
    for option in _words(options):
        if waiting:
            result.append(_absolute(waiting + option))
            waiting = ""
            continue
        head, equals, value = option.partition("=")
        reason = _REFUSED.get(head)
        if reason is not None and not (head in ("-rdc", "--relocatable-device-code") and value == "false"):
            raise SpecError(f"options: {option} is not for the caller to set: {reason}")
        if option in _JOINED:
            waiting = _JOINED[option]
        elif equals and head in _JOINED and head.startswith("--"):
            result.append(_absolute(_JOINED[head] + value))
        elif option not in _DROPPED and head not in ("-rdc", "--relocatable-device-code"):
            result.append(_absolute(option))
    if waiting:
        raise SpecError(f"options: {waiting} at the end lacks its value")
    return tuple(result)


def _absolute(option: str) -> str:
    return "-I" + os.path.abspath(option[2:]) if option.startswith("-I") else option


def _words(options: Sequence[str]) -> list[str]:
    words: list[str] = []
    for option in options:
        if not isinstance(option, str) or not option.strip():
            raise SpecError(f"options: every option is a string such as '-DTILE=32', not {option!r}")
        head, blank, rest = option.strip().partition(" ")
        words += [head, rest.strip()] if blank and head in _JOINED else [option.strip()]
    return words


def check_name_expression(expression: str) -> str:
    """Refuse what is no name expression."""
    if not isinstance(expression, str) or not expression.strip():
        raise SpecError(f"name_expressions: {expression!r} is no name; write it like 'tile<float, 32>'")
    return expression
