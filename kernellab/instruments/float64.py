"""Float64 arithmetic that a kernel computes without holding any: by a literal, or by Numba's promotion."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kernellab.compile.binary import Binary
from kernellab.compile.ptx_text import f64_arithmetic

if TYPE_CHECKING:
    from kernellab.emulator.ptx import Function
    from kernellab.emulator.syntax import Instruction

_LITERAL = re.compile(r"(?<![\w.])(?:\d+\.\d*|\.\d+|\d+(?=[eE]))(?:[eE][+-]?\d+)?(?![\w.])")
_DECLARED = re.compile(r"\b(?:double|float64)\b[\s*&(]*(\w+)")
_ELSE = re.compile(r"\b(?:float|int|unsigned|long|short|char|bool|size_t|__half)\b[\s*&(]*(\w+)")
_COMMENT = re.compile(r"//.*|/\*.*?\*/|#.*")
_NARROWED = re.compile(r"\bfloat32\([^()]*\)|\(float\)\s*[\d.]+")
_REGISTER = re.compile(r"%[\w$]+")
MOVES, PRINTS = "it moves float64", "printf takes doubles"
MEANT = MOVES, PRINTS


@dataclass(frozen=True)
class Float64Line:
    """A source line whose PTX computes in float64.

    Attributes
    ----------
    file, number, text : str, int, str
        Where it stands; `text` is empty when the source is not at hand.
    opcodes : tuple of str
        Of the PTX instructions, conversions included, as written.
    cause : str
        What makes it compute so, in words; `MEANT` has those that are no oversight.
    """

    file: str
    number: int
    text: str
    opcodes: tuple[str, ...]
    cause: str = ""

    def __str__(self) -> str:
        name = self.file.replace("\\", "/").rpartition("/")[2]
        kinds = Counter(self.opcodes).items()
        opcodes = ", ".join(opcode if count == 1 else f"{count} {opcode}" for opcode, count in kinds)
        return f"{name}:{self.number} `{self.text}`: {opcodes}"


def float64_lines(binary: Binary, entry: str) -> tuple[Float64Line, ...]:
    """Return the source lines of an entry, and of what it calls, that compute in float64.

    Parameters
    ----------
    binary : Binary
    entry : str
        One of its PTX entries.

    Returns
    -------
    tuple of Float64Line
        In the order of the source. What is inlined counts for the line that it stands in.

    Examples
    --------
    >>> from kernellab.compile import compile_cuda
    >>> binary = compile_cuda('extern "C" __global__ void k(float* x) { x[0] = 0.1 * x[0] + 1; }')
    >>> print(float64_lines(binary, "k")[0].opcodes)
    ('cvt.f64.f32', 'fma.rn.f64', 'cvt.rn.f32.f64')
    """
    from kernellab.emulation import parsed

    opcodes = dict(f64_arithmetic(binary.ptx))
    if not opcodes:
        return ()  # parsing takes longer
    files = parsed(binary.ptx).files
    found: dict[tuple[str, int], list[int]] = {}
    kept: set[int] = set()
    is_held = holds_float64(binary, entry)
    for function in _functions(binary, entry):
        kept |= _kept(function) if is_held else set()
        for each in function.body:
            if each.line in opcodes:
                place = files.get(each.file, ""), each.source_line
                found.setdefault(place, []).append(each.line)
    texts = {path: text.splitlines() for path, text in binary.sources.items()}
    lines = []
    for (file, number), where in sorted(found.items()):
        text, names = _text(texts.get(file, []), number), tuple(opcodes[each] for each in where)
        cause = MOVES if kept.issuperset(where) else _cause(text, names, binary.sources.get(file, ""))
        lines.append(Float64Line(file, number, text, names, cause))
    return tuple(lines)


def _cause(text: str, opcodes: Sequence[str], source: str) -> str:
    """Say what a line has that makes it compute in float64."""
    code = _NARROWED.sub("", _COMMENT.sub("", text))
    if literals := _LITERAL.findall(code):
        return f"{literals[0]} is a double"
    if "printf" in code and all(opcode.startswith("cvt") for opcode in opcodes):
        return PRINTS
    source = _COMMENT.sub("", source)
    here, anywhere, otherwise = (
        set(pattern.findall(where))
        for pattern, where in ((_DECLARED, code), (_DECLARED, source), (_ELSE, source))
    )
    # What one kernel of a file declares double may be a float in another.
    for declared in (here, anywhere - otherwise, anywhere):
        if names := [name for name in re.findall(r"\w+", code) if name in declared]:
            return f"{names[0]} is declared double"
    return "no double is written here: it is another line's, or an integer met a float32 in Numba"


def _kept(function: Function) -> set[int]:
    """Return the PTX lines whose float64 goes to or comes from memory, or leaves what is followed.

    Registers of float64 that meet in an instruction belong together; a conversion to another type ends that.
    """
    doubles = {name: name for name, kind in function.registers.items() if kind == "f64"}

    def first(name: str) -> str:
        while doubles[name] != name:
            name = doubles[name]
        return name

    used = [
        (each, [name for name in _REGISTER.findall(str(each)) if name in doubles]) for each in function.body
    ]
    for _, names in used:
        for name in names[1:]:
            doubles[first(name)] = first(names[0])
    kept = {first(name) for each, names in used for name in names if _keeps(each, function.is_entry)}
    return {each.line for each, names in used if names and first(names[0]) in kept}


def _keeps(each: Instruction, is_entry: bool) -> bool:
    name, *modifiers = each.opcode.split(".")
    is_own = is_entry and name == "ld" and "param" in modifiers
    return (name in ("ld", "st", "atom", "red") and not is_own) or each.opcode.startswith("mov.b64")


def holds_float64(binary: Binary, entry: str) -> bool:
    """Say whether an entry moves float64 to or from memory: then computing in it is no oversight.

    Examples
    --------
    >>> from kernellab.compile import compile_cuda
    >>> text = 'extern "C" __global__ void k(double* y, float x) { y[0] = x; }'
    >>> holds_float64(compile_cuda(text), "k"), holds_float64(compile_cuda(text.replace("double", "float")), "k")
    (True, False)
    """
    return any(
        name in ("ld", "st", "atom", "red") and "f64" in modifiers and not {"param", "local"} & set(modifiers)
        for function in _functions(binary, entry)
        for name, *modifiers in (each.opcode.split(".") for each in function.body)
    )


def _functions(binary: Binary, entry: str) -> Iterable[Function]:
    from kernellab.emulation import parsed
    from kernellab.emulator.program import reachable

    return reachable(parsed(binary.ptx), entry)[0].values()


def _text(lines: Sequence[str], number: int) -> str:
    return lines[number - 1].strip() if 0 < number <= len(lines) else ""
