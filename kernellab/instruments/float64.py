"""Float64 arithmetic that a kernel computes without holding any: by a literal, or by Numba's promotion."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kernellab.compile.binary import Binary
from kernellab.compile.ptx_text import f64_arithmetic

if TYPE_CHECKING:
    from kernellab.emulator.ptx import Function


@dataclass(frozen=True)
class Float64Line:
    """A source line whose PTX computes in float64.

    Attributes
    ----------
    file, number, text : str, int, str
        Where it stands; `text` is empty when the source is not at hand.
    opcodes : tuple of str
        Of the PTX instructions, conversions included, as written.
    """

    file: str
    number: int
    text: str
    opcodes: tuple[str, ...]

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
    from kernellab.trace import parsed

    opcodes = dict(f64_arithmetic(binary.ptx))
    if not opcodes:
        return ()  # parsing takes longer
    files = parsed(binary.ptx).files
    found: dict[tuple[str, int], list[str]] = {}
    for function in _functions(binary, entry):
        for each in function.body:
            if each.line in opcodes:
                place = files.get(each.file, ""), each.source_line
                found.setdefault(place, []).append(opcodes[each.line])
    texts = {path: text.splitlines() for path, text in binary.sources.items()}
    return tuple(
        Float64Line(file, number, _text(texts.get(file, []), number), tuple(names))
        for (file, number), names in sorted(found.items())
    )


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
    from kernellab.emulator.program import reachable
    from kernellab.trace import parsed

    return reachable(parsed(binary.ptx), entry)[0].values()


def _text(lines: Sequence[str], number: int) -> str:
    return lines[number - 1].strip() if 0 < number <= len(lines) else ""
