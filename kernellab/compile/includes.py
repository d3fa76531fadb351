"""Which files a CUDA text includes: for the cache key, for `Binary.sources`, and for what users provide."""

from __future__ import annotations

import functools
import importlib.util
import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

_DIRECTIVE = re.compile(
    r'^[ \t]*#[ \t]*include(?:_next)?[ \t]*(?:"([^"\n]+)"|<([^>\n]+)>|(\w))', re.MULTILINE
)
_PROBE = re.compile(r'__has_include\s*\(\s*(?:"([^"\n]+)"|<([^>\n]+)>)')


@dataclass(frozen=True)
class Includes:
    """What a text includes, itself not counted.

    Attributes
    ----------
    files : dict of str to str
        Path to text of every file of the user's that may be included, nested ones too.
    names : frozenset of str
        All names that are included.
    provided : frozenset of str
        The names among them that the user's files provide.
    has_computed : bool
        Whether some name comes from a macro, so that `files` may lack it.
    """

    files: dict[str, str]
    names: frozenset[str]
    provided: frozenset[str]
    has_computed: bool


@functools.cache
def shared_include_dir() -> str | None:
    """The folder ``kernels_cu/include``."""
    spec = importlib.util.find_spec("kernels_cu")
    for place in (spec.submodule_search_locations or ()) if spec else ():
        folder = os.path.join(place, "include")
        if os.path.isdir(folder):
            return folder
    return None


def scan(text: str, directory: str | None, search: Sequence[str], known: Iterable[str] = ()) -> Includes:
    """Find what `text` includes, conditional directives counted as taken.

    Parameters
    ----------
    text : str
        The CUDA text.
    directory : str or None
        Where the text's own file lies.
    search : sequence of str
        Directories for both forms of include; toolkit directories do not belong here.
    known : iterable of str
        Names that come from elsewhere, from memory.

    Returns
    -------
    Includes
    """
    files: dict[str, str] = {}
    names: set[str] = set()
    provided: set[str] = set(known)
    computed = False
    queue: list[tuple[str, str | None]] = [(text, directory)]
    while queue:
        content, folder = queue.pop()
        for quoted, angled, macro in [
            *_DIRECTIVE.findall(content),
            *((q, a, "") for q, a in _PROBE.findall(content)),
        ]:
            if macro:
                computed = True
                continue
            name = quoted or angled
            names.add(name)
            path = _resolve(name, [folder, directory] if quoted else [], search)
            if path is None:
                continue
            provided.add(name)
            if path not in files:
                files[path] = Path(path).read_text(encoding="utf-8", errors="replace")
                queue.append((files[path], os.path.dirname(path)))
    return Includes(files, frozenset(names), frozenset(provided & names), computed)


def _resolve(name: str, beside: Sequence[str | None], search: Sequence[str]) -> str | None:
    for folder in (*beside, *search):
        if folder is not None:
            path = os.path.normpath(os.path.join(folder, name))
            if os.path.isfile(path):
                return path
    return None
