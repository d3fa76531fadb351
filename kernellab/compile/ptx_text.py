"""What can be read off a PTX text without parsing it: entries, files, doubles; and how two become one."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

_NAME = r"[a-zA-Z_$%][\w$]*"
_ENTRY = re.compile(rf"^\s*(?:\.(?:visible|weak|extern)\s+)?\.entry\s+({_NAME})", re.MULTILINE)
_FUNCTION = re.compile(rf"^[ \t]*(?:\.\w+[ \t]+)*\.func\s*(?:\(.*?\)\s*)?({_NAME})", re.MULTILINE | re.DOTALL)
_FILE = re.compile(r'^(\s*\.file\s+)(\d+)(\s+)"((?:[^"\\]|\\.)*)"', re.MULTILINE)
_F64 = re.compile(
    r"^\s*(?:@!?%\w+\s+)?((?:add|sub|mul|fma|mad|div|rcp|sqrt|rsqrt|abs|neg|min|max|ex2|set|setp|selp|copysign|testp)"
    r"(?:\.\w+)*\.f64|cvt(?:\.\w+)*\.f64(?:\.\w+)?)\b"
)


def entries(ptx: str) -> tuple[str, ...]:
    """The kernels of a PTX text, in its order."""
    return tuple(_ENTRY.findall(ptx))


def functions(ptx: str) -> tuple[str, ...]:
    """The device functions that a PTX text defines or declares, in its order."""
    return tuple(dict.fromkeys(_FUNCTION.findall(_blank_comments(ptx))))


def files(ptx: str) -> tuple[str, ...]:
    """The file names of the ``.file`` lines, unescaped."""
    return tuple(dict.fromkeys(unescape(match[3]) for match in _FILE.findall(ptx)))


def unescape(name: str) -> str:
    r"""Turn the octal escapes of a ``.file`` line back into the name.

    Examples
    --------
    >>> unescape(r"/tmp/\351\273\204/k.cu")
    '/tmp/黄/k.cu'
    """
    if "\\" not in name:
        return name
    data = re.sub(
        rb"\\([0-7]{1,3}|.)",
        lambda match: bytes([int(match[1], 8) & 255]) if match[1].isdigit() else match[1],
        name.encode(),
    )
    return data.decode("utf-8", "replace")


def rename_files(ptx: str, rename: Callable[[str], str]) -> str:
    """Rewrite the ``.file`` names, unescaped, through `rename`; no line moves."""
    return _FILE.sub(lambda match: f'{match[1]}{match[2]}{match[3]}"{rename(unescape(match[4]))}"', ptx)


def f64_arithmetic(ptx: str, entry: str | None = None) -> tuple[tuple[int, str], ...]:
    r"""List the double precision arithmetic of a PTX text, conversions included.

    A float32 kernel that shows any was promoted by a literal such as ``0.5`` (about 2x to 64x slower).

    Parameters
    ----------
    ptx : str
        The PTX text.
    entry : str, optional
        Only this entry (its callees are functions of their own); all of the text when left out.

    Returns
    -------
    tuple of (int, str)
        1-based PTX line and opcode.

    Examples
    --------
    >>> f64_arithmetic(".entry k()\n{\nmul.f64 %fd1, %fd2, %fd3;\n}")
    ((3, 'mul.f64'),)
    """
    found = []
    current = None
    for number, line in enumerate(ptx.split("\n"), 1):
        head = _ENTRY.match(line) or _FUNCTION.match(line)
        if head:
            current = head.group(1)
        match = _F64.match(line)
        if match and (entry is None or current == entry):
            found.append((number, match.group(1)))
    return tuple(found)


def merge(main: str, helper: str) -> str:
    """Append the module `helper`, which defines functions that `main` declares extern, to `main`.

    Line numbers of `main` stay. Source positions of `helper` are dropped: it is library code.
    """
    body = re.sub(r"^\s*\.(?:version|target|address_size)\b.*$", "", helper, flags=re.MULTILINE)
    body = re.sub(r"^\s*\.(?:file|loc)\b.*$", "", body, flags=re.MULTILINE)
    body = re.sub(r"^\s*\.section[^{]*\{[^}]*\}", "", body, flags=re.MULTILINE)
    for linkage, name in _definitions(helper):
        declaration = _extern_declaration(name).search(main)
        if declaration:
            visible = declaration[0].replace(".extern", linkage, 1)
            main = main[: declaration.start()] + visible + main[declaration.end() :]
    # Before the line tables, which stay at the end.
    tables = re.search(r"^[ \t]*\.(?:file|section)\b", main, re.MULTILINE)
    end = tables.start() if tables and tables.start() > main.rfind(".entry") else len(main)
    return f"{main[:end].rstrip()}\n\n{body.strip()}\n\n{main[end:]}"


def undefined_functions(ptx: str) -> tuple[str, ...]:
    """The functions that a PTX text declares ``.extern`` and does not define."""
    declared = re.findall(rf"\.extern\s+\.func\s*(?:\([^)]*\)\s*)?({_NAME})", ptx)
    return tuple(dict.fromkeys(declared))


def defined_functions(ptx: str) -> tuple[str, ...]:
    """The functions that a PTX text defines with a body."""
    return tuple(dict.fromkeys(name for _, name in _definitions(ptx)))


def linker_variables(ptx: str) -> tuple[str, ...]:
    """The module's variables that a linker sees."""
    pattern = rf"^\s*\.(?:visible|weak)\s+\.(?:global|const|shared)\b[^;=\[]*?({_NAME})\s*(?:\[|=|;)"
    return tuple(dict.fromkeys(re.findall(pattern, ptx, re.MULTILINE)))


def variables(ptx: str) -> tuple[str, ...]:
    """The module's global and constant variables."""
    pattern = rf"^(?:\.(?:visible|weak|common|extern)\s+)?\.(?:global|const)\b[^;=\[]*?({_NAME})\s*(?:\[|=|;)"
    return tuple(dict.fromkeys(re.findall(pattern, ptx, re.MULTILINE)))


def _definitions(ptx: str) -> list[tuple[str, str]]:
    pattern = rf"^[ \t]*(\.(?:visible|weak))?\s*\.func\s*(?:\([^)]*\)\s*)?({_NAME})[^;{{]*\{{"
    return re.findall(pattern, _blank_comments(ptx), re.MULTILINE)


def _extern_declaration(name: str) -> re.Pattern[str]:
    return re.compile(rf"\.extern\s+\.func\s*(?:\([^)]*\)\s*)?{re.escape(name)}\s*(?:\([^)]*\))?\s*;")


def _blank_comments(ptx: str) -> str:
    return re.sub(r"//[^\n]*", "", ptx)


def plain_names(ptx: str, demangle: Callable[[str], str | None]) -> Mapping[str, str]:
    """Map each entry, and each demangled name that belongs to one entry only, to the entry."""
    found: dict[str, str] = {}
    ambiguous: set[str] = set()
    for entry in entries(ptx):
        readable = demangle(entry)
        short = re.sub(r"<.*", "", readable).split("::")[-1] if readable else None
        for name in dict.fromkeys(each for each in (readable, short) if each and each != entry):
            if name in found:
                ambiguous.add(name)
            found[name] = entry
    for name in ambiguous:
        del found[name]
    return found | {entry: entry for entry in entries(ptx)}
