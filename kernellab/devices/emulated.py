"""The emulator as a device: compiles a problem's whole ladder at once, runs plans, counts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from kernellab import catalog
from kernellab.checks import Limits
from kernellab.devices.program import Kernels, Program, Run
from kernellab.errors import CompileError, ExecutionError, SpecError, UnavailableError
from kernellab.instruments.occupancy import multiprocessor
from kernellab.kernel import LANGUAGES, Kernel, Language
from kernellab.plan import Launch, Plan
from kernellab.problem import Array
from kernellab.verify import poisoned

if TYPE_CHECKING:
    from kernellab.compile.binary import Binary
    from kernellab.trace import Trace

KEPT_GROUPS = 256


class EmulatedDevice:
    """The emulator: runs PTX on the CPU, counts what the hardware would count, measures no time.

    Parameters
    ----------
    arch : str
        What to compile for, ``sm_75`` to ``sm_120``; decides the machine code that counts follow.
    budget : int, optional
        Instructions that one wave of blocks may execute, as in `kernellab.trace`.

    Examples
    --------
    >>> EmulatedDevice("sm_80").limits.shared
    166912
    """

    name = "emulator"

    def __init__(self, arch: str = "sm_90", budget: int | None = None) -> None:
        self.arch = arch
        self.budget = budget
        self.limits = Limits(shared=multiprocessor(arch).shared_bytes_per_block)
        self._binaries: dict[tuple[Any, ...], tuple[Binary, ...]] = {}

    def describe(self) -> Mapping[str, Any]:
        """Return what stands in a Record's environment."""
        return {"device": "kernellab's PTX emulator", "arch": self.arch}

    def build(self, kernels: Kernels, language: Language = "cuda-c") -> Program:
        """Compile kernels.

        A rung of the catalogue brings its whole ladder along: one compile and one disassembly for each
        problem and language. Kernels with replaced constants, sources or twins are compiled apart, together.

        Parameters
        ----------
        kernels : Kernel or sequence of Kernel
            What is to be run.
        language : {"cuda-c", "numba"}

        Returns
        -------
        Program
            Kept in this process while no source changes; its binaries are in the disk cache too.

        Raises
        ------
        CompileError
            If a source does not compile.
        SpecError
            For a kernel that the language cannot express, or an unknown language.
        """
        asked = (kernels,) if isinstance(kernels, Kernel) else tuple(kernels)
        if language not in LANGUAGES:
            known = ", ".join(LANGUAGES)
            who = asked[0].id if asked else "build"
            raise SpecError(f"{who}: language is {language!r}, it must be one of {known}; correct it")
        if language == "numba":
            for kernel in asked:
                require_twin(kernel)
        stock = [kernel for kernel in asked if is_stock(kernel)]
        groups = [_ladder(name, language) for name in dict.fromkeys(kernel.problem.name for kernel in stock)]
        changed = tuple(kernel for kernel in asked if not is_stock(kernel))
        parts: list[tuple[Kernel, Binary]] = []
        for group in (*groups, *((changed,) if changed else ())):
            try:
                parts += self._group(group, language)
            except (CompileError, UnavailableError):
                # A sibling that does not compile must not take the ladder down with it.
                wanted = [kernel for kernel in group if kernel in asked]
                if len(wanted) == len(group):
                    raise
                parts += self._group(wanted, language)
        return Program(self.name, language, self.arch, tuple(parts))

    def _group(self, group: Sequence[Kernel], language: Language) -> list[tuple[Kernel, Binary]]:
        key = (language, *(_identity(kernel, language) for kernel in group))
        binaries = self._binaries.get(key)
        if binaries is None:
            binaries = compile_kernels(group, language, self.arch)
            while len(self._binaries) >= KEPT_GROUPS:
                self._binaries.pop(next(iter(self._binaries)))
            self._binaries[key] = binaries
        return list(zip(group, binaries, strict=True))

    def run(self, program: Program, plan: Plan, *, sanitize: bool = False) -> Run:
        """Run a plan once: fresh inputs, poisoned outputs.

        Parameters
        ----------
        program : Program
            Holds the plan's kernels.
        plan : Plan
            With NumPy arrays.
        sanitize : bool
            Also look for races in shared memory.

        Returns
        -------
        Run
            Also when the kernel went wrong: see its ``errors``. Nothing of the caller's is written.
        """
        buffers = {name: _sealed(array) for name, array in plan.inputs.items()}
        buffers |= {name: np.array(plan.inputs[name], order="C") for name in plan.in_place}
        specs = {**plan.outputs, **plan.temporaries}
        buffers |= {n: poisoned(s.shape, s.dtype) for n, s in specs.items() if n not in plan.in_place}
        for name in plan.zeroed:
            buffers[name][...] = 0
        traces: list[Trace] = []
        failure = ""
        for launch in plan.steps:
            trace, failure = self._launch(program, launch, buffers, sanitize)
            if trace is not None:
                traces.append(trace)
            if failure:
                break
        return Run({name: buffers[name] for name in plan.outputs}, tuple(traces), failure)

    def _launch(
        self, program: Program, launch: Launch, buffers: Mapping[str, Array], sanitize: bool
    ) -> tuple[Trace | None, str]:
        from kernellab.trace import run_binary

        kernel = launch.kernel
        try:
            trace = run_binary(
                program.binary(kernel),
                program.entry(kernel),
                launch.grid,
                launch.block,
                launch.values(buffers, program.language),
                name=kernel.id,
                shared_mem=launch.shared_mem,
                sanitize=sanitize,
                budget=self.budget,
            )
        except ExecutionError as error:
            return getattr(error, "trace", None), str(error)
        return trace, ""


def require_twin(kernel: Kernel) -> None:
    """Refuse a kernel that Numba cannot express."""
    if not kernel.has_twin:
        raise SpecError(f"{kernel.id}: it has no Numba twin: {kernel.twin}; pass language='cuda-c'")


def is_stock(kernel: Kernel) -> bool:
    """Whether a kernel is exactly as the catalogue has it."""
    stock = _stock(kernel)
    return stock is kernel or (stock is not None and stock == kernel)


def _stock(kernel: Kernel) -> Kernel | None:
    if kernel.problem.name not in catalog.PROBLEMS:
        return None
    rungs = {item.name: item for item in catalog.ladder(kernel.problem.name)}
    return rungs.get(kernel.name)


def _ladder(problem: str, language: Language) -> tuple[Kernel, ...]:
    return tuple(item for item in catalog.ladder(problem) if language == "cuda-c" or item.has_twin)


def _identity(kernel: Kernel, language: Language) -> tuple[Any, ...]:
    constants = tuple(sorted(kernel.constants.items()))
    if language == "cuda-c":
        return kernel.id, kernel.path, kernel.text(), constants
    return kernel.id, kernel.twin, kernel.twin_source(), constants


def compile_kernels(kernels: Sequence[Kernel], language: Language, arch: str) -> tuple[Binary, ...]:
    """Compile kernels together, in one language, through the disk cache."""
    from kernellab.compile.cuda_units import CudaUnit, compile_cuda_many
    from kernellab.compile.numba_kernels import NumbaJob, compile_numba_many

    if language == "cuda-c":
        units = [CudaUnit(kernel.text(), str(kernel.path), kernel.constants) for kernel in kernels]
        return compile_cuda_many(units, arch=arch)
    jobs = [
        NumbaJob(kernel.twin_function, kernel.twin_types(), kernel.entry, _twin_key(kernel))
        for kernel in kernels
    ]
    return compile_numba_many(jobs, arch=arch)


def _twin_key(kernel: Kernel) -> tuple[str, ...] | None:
    """Return what decides the catalogue's own twin, which need not be made; None for any other twin."""
    stock = _stock(kernel)
    if stock is None or stock.twin is not kernel.twin:
        return None
    return kernel.twin_source(), kernel.id, repr(sorted(kernel.constants.items()))


def _sealed(array: Any) -> Array:
    view: Array = np.asarray(array).view()
    view.flags.writeable = False
    return view
