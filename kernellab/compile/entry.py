"""From the name that a user gives to the entry of the PTX."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence

from kernellab.c_types import mangled_types
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
        if not present:
            raise SpecError(f"the {binary.language} text has no kernel; give one that has")
        raise SpecError(f"which kernel? The {binary.language} text has {_listing(present)}; name one")
    if name in binary.names:
        return binary.names[name]
    templates = {
        each for text in binary.sources.values() for each, generic in kernel_names(text).items() if generic
    }
    same = [entry for entry, each in present.items() if _base(each) == _base(name)]
    if name in templates:
        instances = [present[entry] for entry in same if "<" in present[entry]]
        example = instances[0] if instances else f"{name}<float>"
        raise SpecError(f"{name}: it is a template; ask for an instance, such as '{example}'")
    if len(same) > 1:
        choices = ", ".join(_choice(entry, present) for entry in same)
        raise SpecError(f"{name}: it is not one kernel but {len(same)}; write {choices}")
    close = difflib.get_close_matches(name, present.values(), 1)
    hint = f"; did you mean {close[0]!r}?" if close else ""
    raise SpecError(f"{name}: there is no such kernel in the source; it has {_listing(present)}{hint}")


def which_of(path: object, known: Sequence[str], kind: str = "kernel") -> SpecError:
    """Return the error for a file of which it is not clear which kernel is meant.

    Examples
    --------
    >>> print(which_of("a.cu", ["f", "g"]))
    a.cu: which kernel? it has f, g; write a.cu::NAME
    """
    if not known:
        return SpecError(f"{path}: it has no {kind}; give a file that has one")
    return SpecError(f"{path}: which {kind}? it has {', '.join(known)}; write {path}::NAME")


def _base(name: str) -> str:
    """The last part of a name: ``tile`` of ``lab::tile<float>``."""
    return re.split("[<(]", name)[0].strip().split("::")[-1]


def _choice(entry: str, present: Mapping[str, str]) -> str:
    """What to write for one of several kernels of a name."""
    name = present[entry]
    if list(present.values()).count(name) == 1:
        return repr(name)
    types = mangled_types(entry)
    return f"{entry!r}" + (f" for {name}({', '.join(types)})" if types is not None else "")


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


def _readable(binary: Binary) -> dict[str, str]:
    """The kernels as a user would write them, by PTX entry."""
    return {entry: demangle(entry) or entry for entry in ptx_text.entries(binary.ptx)}


def _listing(present: Mapping[str, str]) -> str:
    return ", ".join(dict.fromkeys(present.values())) or "none"
