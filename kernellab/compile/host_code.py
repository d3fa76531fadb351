"""Find host code in a CUDA text: ``main``, launches, runtime calls, containers and streams."""

from __future__ import annotations

import re
from dataclasses import dataclass

from kernellab.compile.host_headers import HOST_ONLY

_TOKEN = re.compile(
    r'//[^\n]*(?:\\\n[^\n]*)*|/\*.*?\*/|R"(?P<mark>[^()\s\\]{0,16})\(.*?\)(?P=mark)"|"(?:[^"\\\n]|\\.)*"|\'(?:[^\'\\\n]|\\.)+\'',
    re.DOTALL,
)
_MARKS = (
    (re.compile(r"\b(?:int|void|auto)\s+main\s*\("), "the function main"),
    (re.compile(r"<<<"), "a kernel launch with <<<...>>>"),
    (
        re.compile(
            r"\bcuda(?:Malloc|Free|Memcpy|Memset|DeviceSynchronize|EventCreate|StreamCreate|GetLastError|SetDevice"
            r"|GetDevice|FuncSetAttribute|LaunchKernel|HostAlloc)\w*\s*\("
        ),
        "a call of the CUDA runtime",
    ),
    (re.compile(r"\bcublas\w+\s*\(|\bcudnn\w+\s*\("), "a library call"),
    (
        re.compile(
            r"\bstd::(?:vector|cout|cerr|endl|string|map|unordered_map|unique_ptr|shared_ptr|chrono|thread|ifstream"
            r"|ofstream|mt19937|random_device|default_random_engine|runtime_error|exception)\b"
            r"|\bthrust::(?:host_vector|device_vector)\b"
        ),
        "the C++ library's host part",
    ),
    (
        re.compile(r"(?<![\w.>:])(?:fprintf|rand|srand|atoi|fopen)\s*\("),
        "a call of the C library",
    ),
)


_CERTAIN = (
    "the function main",
    "a kernel launch with <<<...>>>",
    "a call of the CUDA runtime",
    "a library call",
)


@dataclass(frozen=True)
class HostCode:
    """One place in a text that only a host compiler takes; not certain where device code may say the same."""

    line: int
    what: str
    is_certain: bool = False


def blank_comments_and_strings(text: str) -> str:
    """Replace comments and literals by spaces; every line keeps its number."""
    return _TOKEN.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), text)


def find_host_code(text: str) -> HostCode | None:
    r"""The most telling place that holds host code, or None.

    Examples
    --------
    >>> find_host_code("// int main() is not here\n__global__ void k() {}") is None
    True
    >>> find_host_code("__global__ void k() {}\nint main() { return 0; }")
    HostCode(line=2, what='the function main', is_certain=True)
    """
    code = blank_comments_and_strings(text)
    for pattern, what in _MARKS:
        match = pattern.search(code)
        if match:
            return HostCode(code.count("\n", 0, match.start()) + 1, what, what in _CERTAIN)
    return find_host_include(text)


def find_host_include(text: str) -> HostCode | None:
    """The first include of a header that only host code needs, or None."""
    for number, line in enumerate(text.splitlines(), 1):
        match = re.match(r'\s*#\s*include\s*[<"]([^>"]+)[>"]', line)
        if match and match[1] in HOST_ONLY:
            return HostCode(number, f"the host header <{match[1]}>")
    return None
