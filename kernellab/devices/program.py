"""What passes between a device and its callers: Program in, Run out; and what every device can do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from kernellab.checks import Limits
from kernellab.errors import SpecError
from kernellab.kernel import Kernel, Language
from kernellab.plan import Plan
from kernellab.problem import Array

if TYPE_CHECKING:
    from kernellab.compile.binary import Binary
    from kernellab.trace import Trace

Kernels: TypeAlias = "Kernel | Sequence[Kernel]"


@dataclass(frozen=True, eq=False)
class Program:
    """Kernels compiled for one device and language.

    Attributes
    ----------
    device : str
        Name of the device that built it.
    language : {"cuda-c", "numba"}
    arch : str
        Such as ``"sm_90"``.
    parts : tuple of (Kernel, Binary)
        Every kernel in it, with what it was compiled to.
    """

    device: str
    language: Language
    arch: str
    parts: tuple[tuple[Kernel, Binary], ...]

    def binary(self, kernel: Kernel) -> Binary:
        """Return what a kernel was compiled to.

        Raises
        ------
        SpecError
            If the program does not hold it, with these constants and this source.
        """
        for known, binary in self.parts:
            if known is kernel or known == kernel:
                return binary
        held = ", ".join(dict.fromkeys(known.id for known, _ in self.parts)) or "nothing"
        raise SpecError(f"{kernel.id}: the program holds {held}, not this kernel; build it")

    def entry(self, kernel: Kernel) -> str:
        """Return a kernel's PTX entry.

        Raises
        ------
        SpecError
            If the source defines no kernel of the name that the catalogue gives it.
        """
        names = self.binary(kernel).names
        if kernel.entry not in names:
            found = ", ".join(names) or "none"
            raise SpecError(
                f"{kernel.id}: its source must define {kernel.entry}, it defines {found}; rename it"
            )
        return names[kernel.entry]


@dataclass(frozen=True, eq=False)
class Run:
    """What one run of a plan gave.

    Attributes
    ----------
    outputs : mapping of str to numpy.ndarray
        Arrays of their own, by name; poison where nothing wrote.
    traces : tuple of Trace
        On the emulator: one a launch.
    failure : str
        Why a launch came to its end before time (a deadlock, the instruction budget); empty if none did.
    """

    outputs: Mapping[str, Array]
    traces: tuple[Trace, ...] = field(default=())
    failure: str = ""

    @property
    def errors(self) -> tuple[str, ...]:
        """What the kernel did wrong, one sentence each; a race is wrong also where the answer is right."""
        found = [
            item.message
            for trace in self.traces
            for item in trace.diagnostics
            if item.is_error or item.kind == "race"
        ]
        return tuple(found) or ((self.failure,) if self.failure else ())


class Device(Protocol):
    """Where kernels run."""

    @property
    def name(self) -> str:
        """``"emulator"`` or ``"gpu"``."""

    @property
    def arch(self) -> str:
        """What it compiles for, such as ``"sm_90"``."""

    @property
    def limits(self) -> Limits:
        """What it allows a block."""

    def build(self, kernels: Kernels, language: Language = "cuda-c", *, with_ladder: bool = True) -> Program:
        """Compile kernels; what was compiled before is kept."""

    def run(self, program: Program, plan: Plan, *, sanitize: bool = False, is_counted: bool = True) -> Run:
        """Run a plan once, on poisoned outputs."""

    def describe(self) -> Mapping[str, Any]:
        """Say what it is, for a Record's environment."""
