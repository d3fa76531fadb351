"""From the name that a user gives to the entry of the PTX."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping

from kernellab.compile import ptx_text
from kernellab.compile.binary import Binary
from kernellab.compile.itanium import demangle
from kernellab.compile.kernel_text import kernel_names
from kernellab.errors import SpecError


def find_entry(binary: Binary, name: str | None = None) -> str:
    """The PTX entry of the kernel `name`.

    Parameters
    ----------
    binary : Binary
        Where to look.
    name : str, optional
        A plain name, a name expression that was compiled, or a PTX entry; left out where there is one kernel.

    Returns
    -------
    str

    Raises
    ------
    SpecError
        There is no such kernel, or several; the message lists the names.
    """
    present = _readable(binary)
    if name is None:
        if len(set(binary.names.values())) == 1:
            return next(iter(binary.names.values()))
        raise SpecError(f"which kernel? The {binary.language} text has {_listing(present)}; name one")
    if name in binary.names:
        return binary.names[name]
    templates = {
        each for text in binary.sources.values() for each, generic in kernel_names(text).items() if generic
    }
    if name in templates:
        raise SpecError(f"kernel {name!r} is a template; ask for an instance such as '{name}<float>'")
    if sum(re.split("[<(]", each)[0].strip().split("::")[-1] == name for each in present) > 1:
        raise SpecError(
            f"kernel {name!r} is not one but several: {_listing(present)}; name one by its PTX entry"
        )
    close = difflib.get_close_matches(name, present, 1)
    hint = f"; did you mean {close[0]!r}?" if close else ""
    raise SpecError(f"there is no kernel {name!r}: the {binary.language} text has {_listing(present)}{hint}")


def global_symbols(binary: Binary) -> Mapping[str, str]:
    """The ``__constant__`` and ``__device__`` variables of `binary`.

    Parameters
    ----------
    binary : Binary
        Where to look; variables that no kernel uses may be gone.

    Returns
    -------
    mapping of str to str
        From plain name (also with its scope, and the PTX name itself) to PTX name.
    """
    found: dict[str, str] = {}
    for symbol in ptx_text.variables(binary.ptx):
        readable = demangle(symbol) or symbol
        found.setdefault(readable.split("::")[-1], symbol)
        found[readable] = found[symbol] = symbol
    return found


def _readable(binary: Binary) -> list[str]:
    """The kernels as a user would write them; overloads by their PTX entry as well."""
    entries = ptx_text.entries(binary.ptx)
    names = [demangle(entry) or entry for entry in entries]
    return [
        name if names.count(name) == 1 else f"{name} ({entry})"
        for name, entry in zip(names, entries, strict=True)
    ]


def _listing(names: list[str]) -> str:
    return ", ".join(names) if names else "none"
