"""The emulator as a device: compiles a problem's whole ladder at once, runs plans, counts."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import chain, islice
from typing import TYPE_CHECKING, Any

import numpy as np

from kernellab import catalog
from kernellab.checks import Limits
from kernellab.devices.program import Kernels, Program, Run
from kernellab.errors import CompileError, ExecutionError, SpecError, UnavailableError
from kernellab.instruments.occupancy import check_architecture, shared_limit
from kernellab.intake import check_copy
from kernellab.kernel import LANGUAGES, Kernel, Language, StageTwin
from kernellab.plan import Launch, Plan
from kernellab.problem import ELEMENTS, Array
from kernellab.verify import poisoned

if TYPE_CHECKING:
    from kernellab.compile.binary import Binary
    from kernellab.trace import Trace

KEPT_KERNELS = 1024
UNBOUNDED_THREADS = 256
"""Threads of a block for which the registers of a multiprocessor always suffice."""


class EmulatedDevice:
    """The emulator: runs PTX on the CPU, counts what the hardware would count, measures no time.

    Parameters
    ----------
    arch : str
        What to compile for, of what the NVRTC here knows; decides the machine code that counts follow.
    budget : int, optional
        Instructions that one wave of blocks may execute, as in `kernellab.trace`.

    Examples
    --------
    >>> EmulatedDevice("sm_80").limits.shared
    166912
    """

    name = "emulator"

    def __init__(self, arch: str = "sm_90", budget: int | None = None) -> None:
        check_architecture(arch)
        self.arch = arch
        self.budget = budget
        self.limits = Limits(shared=shared_limit(arch))
        self._binaries: dict[tuple[Any, ...], tuple[Binary, ...]] = {}

    def describe(self) -> Mapping[str, Any]:
        """Return what stands in a Record's environment."""
        return {"device": "kernellab's PTX emulator", "arch": self.arch}

    def build(self, kernels: Kernels, language: Language = "cuda-c", *, with_ladder: bool = True) -> Program:
        """Compile kernels.

        A rung of the catalogue brings its whole ladder along: one compile and one disassembly for each
        problem and language. Kernels with replaced constants, sources or twins are compiled apart, together.

        Parameters
        ----------
        kernels : Kernel or sequence of Kernel
            What is to be run.
        language : {"cuda-c", "numba"}
        with_ladder : bool
            False for a kernel that is compared with no other: its ladder is then not compiled.

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
        for kernel in asked:
            arch_for(kernel, self.arch)
        stock = [kernel for kernel in asked if is_stock(kernel)]
        ladders = dict.fromkeys((kernel.problem.name, kernel.element or ELEMENTS[0]) for kernel in stock)
        groups = [_ladder(name, element, language, self.arch) for name, element in ladders]
        changed = tuple(kernel for kernel in asked if not is_stock(kernel))
        if not with_ladder:
            groups = [tuple(kernel for kernel in group if kernel in stock) for group in groups]
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
        """Return what a group was compiled to: together, unless each was compiled before, with whatever."""
        keys = [(language, *_identity(kernel, language)) for kernel in group]
        known = [self._binaries[key] for key in keys if key in self._binaries]
        if len(known) < len(keys):
            made = iter(compile_kernels(group, language, self.arch))
            known = [tuple(islice(made, len(compiled_parts((kernel,))))) for kernel in group]
            self._binaries |= zip(keys, known, strict=True)
            while len(self._binaries) > max(KEPT_KERNELS, len(group)):
                self._binaries.pop(next(iter(self._binaries)), None)
        return list(zip(compiled_parts(group), chain(*known), strict=True))

    def run(self, program: Program, plan: Plan, *, sanitize: bool = False, is_counted: bool = True) -> Run:
        """Run a plan once: fresh inputs, poisoned outputs.

        Parameters
        ----------
        program : Program
            Holds the plan's kernels.
        plan : Plan
            With NumPy arrays.
        sanitize : bool
            Also look for races in shared memory.
        is_counted : bool
            False where nobody looks at the counts: they are approximate then, and nothing is disassembled.

        Returns
        -------
        Run
            Also when the kernel went wrong: see its ``errors``. Nothing of the caller's is written.

        Raises
        ------
        SpecError, UnavailableError
            For outputs larger than the emulator takes, or than the memory that is here.
        """
        nbytes = sum(spec.nbytes for spec in (*plan.outputs.values(), *plan.temporaries.values()))
        check_copy(nbytes, f"{plan.kernel.id}: its outputs are", self)
        try:
            return self._run(program, plan, sanitize, is_counted)
        except MemoryError as error:
            raise UnavailableError(
                f"{plan.kernel.id}: there is not enough memory for this call ({error}); pass fewer elements"
            ) from error

    def _run(self, program: Program, plan: Plan, sanitize: bool, is_counted: bool) -> Run:
        buffers = {name: _sealed(array) for name, array in plan.inputs.items()}
        buffers |= {name: np.array(plan.inputs[name], order="C") for name in plan.in_place}
        specs = {**plan.outputs, **plan.temporaries}
        buffers |= {n: poisoned(s.shape, s.dtype) for n, s in specs.items() if n not in plan.in_place}
        for name in plan.zeroed:
            buffers[name][...] = 0
        traces: list[Trace] = []
        failure = ""
        for launch in plan.steps:
            trace, failure = self._launch(program, launch, buffers, sanitize, is_counted)
            if trace is not None:
                traces.append(trace)
            if failure:
                break
        return Run({name: buffers[name] for name in plan.outputs}, tuple(traces), failure)

    def _launch(
        self,
        program: Program,
        launch: Launch,
        buffers: Mapping[str, Array],
        sanitize: bool,
        is_counted: bool,
    ) -> tuple[Trace | None, str]:
        from kernellab.emulation import run_binary

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
                with_sass=is_counted,
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
    stock = rungs.get(kernel.name)
    if stock is not None and kernel.element in stock.elements:
        return stock.with_element(kernel.element)
    return stock


def _ladder(problem: str, element: str, language: Language, arch: str) -> tuple[Kernel, ...]:
    """Return the rungs of a problem that a language can express and a device run, for one element."""
    rungs = [item for item in catalog.ladder(problem) if language == "cuda-c" or item.has_twin]
    known = [item for item in rungs if element in (item.elements or ELEMENTS[:1]) and runs_on(item, arch)]
    return tuple(item.with_element(element) if item.elements else item for item in known)


def compiled_parts(kernels: Sequence[Kernel]) -> tuple[Kernel, ...]:
    """Return everything that a program of these kernels holds: each kernel, then its stages."""
    return tuple(
        part for kernel in kernels for part in ((kernel, *kernel.parts) if kernel.stages else (kernel,))
    )


def _identity(kernel: Kernel, language: Language) -> tuple[Any, ...]:
    constants = tuple(sorted(kernel.constants.items()))
    if language == "cuda-c":
        return kernel.id, kernel.path, kernel.text(), constants, kernel.is_fast_math
    return kernel.id, kernel.twin, kernel.twin_source(), constants, tuple(twin_options(kernel).items())


def compile_kernels(kernels: Sequence[Kernel], language: Language, arch: str) -> tuple[Binary, ...]:
    """Compile kernels together, in one language, through the disk cache.

    Returns
    -------
    tuple of Binary
        One for each of `compiled_parts`: the stages of a kernel stand in one ``.cu`` file, and are functions
        of their own in Numba, where the kernel itself has the binary of its first stage.
    """
    from kernellab.compile.cuda_units import CudaUnit, compile_cuda_many
    from kernellab.compile.numba_kernels import NumbaJob, compile_numba_many

    if language == "cuda-c":
        apart = [(arch_for(kernel, arch), kernel.is_fast_math) for kernel in kernels]
        made: dict[int, Binary] = {}
        for each in dict.fromkeys(apart):
            chosen = [i for i, other in enumerate(apart) if other == each]
            units = [CudaUnit(kernels[i].text(), str(kernels[i].path), kernels[i].constants) for i in chosen]
            options = ("--use_fast_math",) if each[1] else ()
            made |= zip(chosen, compile_cuda_many(units, arch=each[0], options=options), strict=True)
        return tuple(made[i] for i, kernel in enumerate(kernels) for _ in range(1 + len(kernel.stages)))
    jobs = [
        NumbaJob(part.twin_function, part.twin_types(), part.entry, _twin_key(part), twin_options(part))
        for kernel in kernels
        for part in kernel.parts
    ]
    linked = iter(compile_numba_many(jobs, arch=arch))
    return tuple(
        binary for kernel in kernels for binary in _spread([next(linked) for _ in kernel.parts], kernel)
    )


def arch_for(kernel: Kernel, arch: str) -> str:
    """Return what a kernel is compiled for on a device: ``sm_90a`` where it needs that and the device is one.

    Raises
    ------
    SpecError
        If the device cannot run it.

    Examples
    --------
    >>> from kernellab.catalog import kernel
    >>> arch_for(kernel("copy/float4"), "sm_80")
    'sm_80'
    """
    for needed in kernel.requires:
        number, own = _capability(arch), needed.endswith("a")
        if number < _capability(needed) or (own and number != _capability(needed)):
            only = "only a device of its kind has that" if own else "that or a later one will do"
            raise SpecError(
                f"{kernel.id}: it needs {needed}, the device is {arch}; {only}, take another rung"
            )
        if own:
            return needed
    return arch


def runs_on(kernel: Kernel, arch: str) -> bool:
    """Whether a device of that architecture can run a kernel."""
    try:
        arch_for(kernel, arch)
    except SpecError:
        return False
    return True


def _capability(arch: str) -> int:
    return int(arch.removeprefix("sm_").rstrip("af"))


def _spread(binaries: list[Binary], kernel: Kernel) -> list[Binary]:
    return [binaries[0], *binaries] if kernel.stages else binaries


def _twin_key(kernel: Kernel) -> tuple[str, ...] | None:
    """Return what decides the catalogue's own twin, which need not be made; None for any other twin."""
    stock = _stock(kernel)
    made_by = kernel.twin.factory if isinstance(kernel.twin, StageTwin) else kernel.twin
    if stock is None or stock.twin is not made_by:
        return None
    return kernel.twin_source(), kernel.entry, repr(sorted(kernel.constants.items()))


def twin_options(kernel: Kernel) -> Mapping[str, Any]:
    """Say to the compiler how many threads a large block has: it must leave registers for all of them."""
    threads = math.prod(kernel.geometry.block_at(kernel.constants))
    options: dict[str, Any] = {"launch_bounds": threads} if threads > UNBOUNDED_THREADS else {}
    return options | ({"fastmath": True} if kernel.is_fast_math else {})


def _sealed(array: Any) -> Array:
    view: Array = np.asarray(array).view()
    view.flags.writeable = False
    return view
