"""What decides a kernel's code: by its hash a result that was measured before a change is known."""

from __future__ import annotations

import ast
import functools
import importlib
import inspect
import io
import os
import re
import tokenize
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kernellab.c_types import without_comments
from kernellab.compile import includes
from kernellab.compile.cache import digest
from kernellab.kernel import Kernel, Language, StageTwin

CATALOG = "kernellab.catalog"


def source_hash(kernel: Kernel, language: Language) -> str:
    """Return the SHA-256 of what decides a kernel's code, in CUDA C or as its twin."""
    return digest(code_of(kernel) if language == "cuda-c" else twin_code(kernel))


def code_of(kernel: Kernel) -> str:
    """Return a kernel's ``.cu`` text and every header that it includes, comments left out.

    Examples
    --------
    >>> from kernellab import catalog
    >>> code = code_of(catalog.kernel("softmax/registers"))
    >>> "__shfl_xor_sync" in code, "teaches" in code
    (True, False)
    """
    text, shared = kernel.text(), includes.shared_include_dir()
    found = includes.scan(text, str(kernel.path.parent), [shared] if shared else []).files
    texts = (text, *(found[path] for path in sorted(found, key=os.path.basename)))
    return "\n".join(" ".join(without_comments(each).split()) for each in texts)


def twin_code(kernel: Kernel) -> str:
    """Return the text of a kernel's twin and of all that it uses in the catalogue, without white space.

    Where a function stands, its comments and docstring are not part of it, and neither is what stands beside it;
    Numba is not imported.

    Examples
    --------
    >>> from kernellab import catalog
    >>> code = twin_code(catalog.kernel("softmax/registers"))
    >>> "defthrough_registers" in code, "defreference" in code
    (True, False)
    """
    if not callable(kernel.twin):
        return ""
    factory = kernel.twin.factory if isinstance(kernel.twin, StageTwin) else kernel.twin
    found: dict[tuple[str, str], str] = {}
    _collect(factory, found)
    if not found:  # of a module that says nothing by this name
        return inspect.getsource(factory)
    return "\n".join(sorted(found.values()))


def _collect(function: Any, found: dict[tuple[str, str], str]) -> None:
    """Add a function's definition at the top of its module, and of what it closes over, and all that these name."""
    _add(function.__module__, function.__qualname__.partition(".")[0], found)
    code = getattr(function, "__code__", None)
    for name, cell in zip(code.co_freevars if code else (), function.__closure__ or (), strict=True):
        value = cell.cell_contents
        if inspect.isfunction(value):
            _collect(value, found)
        else:
            found[function.__qualname__, name] = f"{name} = {value!r}"


def _add(module: str, name: str, found: dict[tuple[str, str], str]) -> None:
    part = _module(module)
    if name in part.imported:
        _add(*part.imported[name], found)
    elif name in part.definitions and (module, name) not in found:
        node = part.definitions[name]
        found[module, name] = part.text_of(node)
        for other, used in part.uses(node):
            _add(other, used, found)


@dataclass(frozen=True)
class _Module:
    """A module, as text: nothing depends on how a version of Python would write it."""

    name: str
    lines: Sequence[str]
    definitions: Mapping[str, ast.stmt]
    imported: Mapping[str, tuple[str, str]]

    def text_of(self, node: ast.stmt) -> str:
        """Return a definition without docstrings, white space and the modules before names."""
        first = min((each.lineno for each in getattr(node, "decorator_list", ())), default=node.lineno)
        skipped = {line for each in ast.walk(node) for line in _docstring_lines(each)}
        text = "".join(
            self.lines[line - 1] for line in range(first, (node.end_lineno or 0) + 1) if line not in skipped
        )
        modules = "|".join(re.escape(name) for name in self.imported if self.is_module(name))
        return "".join((re.sub(rf"\b(?:{modules})\.", "", text) if modules else text).split())

    def uses(self, node: ast.stmt) -> Iterator[tuple[str, str]]:
        """Yield (module, name) of whatever a definition may mean of this module or of one that it knows by name."""
        for each in ast.walk(node):
            if isinstance(each, ast.Name):
                yield self.name, each.id
            elif isinstance(each, ast.Attribute) and self.is_module(getattr(each.value, "id", "")):
                yield f"{CATALOG}.{ast.unparse(each.value)}", each.attr

    def is_module(self, name: str) -> bool:
        return self.imported.get(name) == (CATALOG, name)


def _docstring_lines(node: ast.AST) -> range:
    if not isinstance(node, ast.FunctionDef | ast.ClassDef) or ast.get_docstring(node) is None:
        return range(0)
    return range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1)


@functools.cache
def _module(name: str) -> _Module:
    definitions: dict[str, ast.stmt] = {}
    imported: dict[str, tuple[str, str]] = {}
    text = inspect.getsource(importlib.import_module(name))
    for node in ast.parse(text).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            definitions[node.name] = node
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            named = [each.id for target in targets for each in ast.walk(target) if isinstance(each, ast.Name)]
            definitions |= dict.fromkeys(named, node)
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith(CATALOG):
            imported |= {each.asname or each.name: (str(node.module), each.name) for each in node.names}
    return _Module(name, _without_comments(text), definitions, imported)


def _without_comments(text: str) -> list[str]:
    lines = text.splitlines(keepends=True)
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            line, column = token.start
            lines[line - 1] = lines[line - 1][:column]
    return lines


__all__ = ["code_of", "source_hash", "twin_code"]
