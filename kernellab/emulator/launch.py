"""One launch of a kernel on the emulator: arguments in, counts and diagnostics out."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from kernellab.compile.binary import SassInstruction
from kernellab.emulator.attribution import Access, Attribution, attribute
from kernellab.emulator.batch import Batch
from kernellab.emulator.clusters import by_cluster, cluster_of
from kernellab.emulator.code import Code
from kernellab.emulator.counts import Counts, Diagnostic
from kernellab.emulator.lanes import WARP
from kernellab.emulator.memory import GlobalMemory
from kernellab.emulator.program import (
    Layout,
    bound_program,
    find_variable,
    function_addresses,
    is_float_add,
    lay_out_globals,
    lay_out_shared,
    reachable,
)
from kernellab.emulator.ptx import Function, Module
from kernellab.emulator.races import Races
from kernellab.emulator.schedule import Scheduler
from kernellab.errors import SpecError

WARPS_PER_BATCH = 256
RESIDENT_WARPS = 132 * 64
"""Warps that may wait for each other at once: as many as an H200 holds."""
MEMORY_PER_BATCH = 1 << 26
"""Bytes of local and of shared memory that a batch may take."""
STATIC_SHARED = 48 * 1024
"""Bytes of shared memory that a kernel may declare; more must be asked for at the launch."""
MAX_DIAGNOSTICS = 1000
PARAMETER_ALIGNMENT = 64
"""Bytes, as a tensor map asks for."""


class Launch:
    """A kernel bound to its arguments.

    Parameters
    ----------
    module : Module
    entry : str
        PTX name of the kernel.
    grid, block : tuple of int
        In CUDA's order x, y, z.
    parameters : mapping of str to bytes
        Value of each kernel parameter.
    memory : GlobalMemory
        Holds the arrays that the parameters point to.
    dynamic_shared : int
        Bytes of dynamic shared memory.
    variables : mapping
        Values of module variables by name.
    sanitize : bool
        Look for races.
    seed : int or None
        Serve the lanes of an atomic in a random order.
    budget : int or None
        Instructions that a wave of blocks may execute; by default it may take some seconds.
    printer : callable
        Gets what printf prints.
    name : str
        The kernel's name in messages.
    shared_limit : int
        Bytes of shared memory that a block may have.
    sass : sequence of SassInstruction, optional
        The machine code, which says how accesses and instructions count; without it they count as in PTX.
    """

    def __init__(
        self, module: Module, entry: str, grid: tuple[int, int, int], block: tuple[int, int, int],
        parameters: Mapping[str, bytes], memory: GlobalMemory, *, dynamic_shared: int = 0,
        variables: Mapping[str, Any] | None = None, sanitize: bool = False, seed: int | None = None,
        budget: int | None = None, printer: Callable[[str], Any] | None = None, name: str = "",
        shared_limit: int = 232448, sass: Sequence[SassInstruction] | None = None,
    ) -> None:  # fmt: skip
        self.module = module
        self.name = name or entry
        self.grid, self.block = grid, block
        self.cluster = cluster_of(module.functions[entry].performance, grid, self.name)
        self.cluster_size = self.cluster[0] * self.cluster[1] * self.cluster[2]
        self.threads = block[0] * block[1] * block[2]
        self.dynamic_shared = dynamic_shared
        self.memory = memory
        self.sanitize = sanitize
        self.generator = None if seed is None else np.random.default_rng(seed)
        self.budget = budget
        self.print = printer or sys.stdout.write
        self.ticks = 0
        self.diagnostics: list[Diagnostic] = []
        self.seen: dict[tuple[int, str, bool], Diagnostic] = {}
        self.functions, names = reachable(module, entry)
        self.layout = Layout()
        self._lay_out(names, dict(variables or {}), parameters, shared_limit)
        self.codes: dict[str, Code] = {}
        self._positions = [
            (function, instruction) for function in self.functions.values() for instruction in function.body
        ]
        self.codes = bound_program(self.functions, parameters, self)
        self.entry = self.codes[entry]
        self.local_bytes = self.entry.local_bytes
        self.sass = sass
        self.attributions = {name: _attributed(function, sass) for name, function in self.functions.items()}
        self.accesses: dict[int, Access] = {
            self.codes[name].first + index: access
            for name, found in self.attributions.items()
            for index, access in found.accesses.items()
        }
        self.float_adds = {
            number for number, (_, instruction) in enumerate(self._positions) if is_float_add(instruction)
        }
        self.swaps = {
            number for number, (_, instruction) in enumerate(self._positions) if ".cas" in instruction.opcode
        }
        self.counts = self.new_counts()
        self._idle: dict[int, list[Batch]] = {}

    def _lay_out(
        self, names: set[str], values: dict[str, Any], parameters: Mapping[str, bytes], shared_limit: int
    ) -> None:
        module, layout = self.module, self.layout
        found = [variable for name, variable in module.variables.items() if name in names]
        found += [variable for function in self.functions.values() for variable in function.variables]
        by_space: dict[str, Any] = {"shared": [], "global": [], "const": []}
        for variable in found:
            by_space.setdefault(variable.space, []).append(variable)
        lay_out_shared(by_space["shared"], self.dynamic_shared, layout)
        static = sum(variable.nbytes for variable in by_space["shared"] if variable.count)
        if static > STATIC_SHARED:
            raise SpecError(
                f"{self.name}: its arrays in static shared memory have {static} bytes, the limit is "
                f"{STATIC_SHARED}; make them smaller, or take dynamic shared memory and shared_mem="
            )
        if layout.shared_bytes > shared_limit:
            raise SpecError(
                f"{self.name}: a block has {layout.shared_bytes} bytes of shared memory, the limit is "
                f"{shared_limit}; lower the tile or shared_mem= (now {self.dynamic_shared})"
            )
        settable = {n: v for n, v in module.variables.items() if v.space in ("global", "const")}
        chosen = {find_variable(settable, key, self.name).name: value for key, value in values.items()}
        needed = by_space["global"] + by_space["const"]
        needed += [settable[n] for n in chosen if n not in {v.name for v in needed}]
        function_addresses(self.functions, layout)
        lay_out_globals(needed, chosen, self.memory, layout, self.name)
        raw = b"".join(parameters.values())
        if raw:
            start = 0
            data = np.frombuffer(b"".join(map(_padded, parameters.values())), np.uint8)
            base = self.memory.allocate(
                "the kernel's parameters", data, is_writable=False, is_array=False
            ).base
            for name, value in parameters.items():
                layout.addresses[name] = base + start
                start += len(_padded(value))

    def new_counts(self) -> Counts:
        """Return zeroed counters of the right size."""
        blocks = sum(len(code.blocks) for code in self.codes.values())
        return Counts.empty(blocks, len(self._positions))

    def new_races(self, batch: Batch) -> Races | None:
        """Return a race detector if this launch sanitizes."""
        return Races(batch) if self.sanitize and self.layout.shared_bytes else None

    @property
    def shared_bytes(self) -> int:
        """Static and dynamic shared memory of a block."""
        return self.layout.shared_bytes

    @property
    def functions_by_address(self) -> dict[int, str]:
        """What a function pointer points to."""
        return self.layout.functions

    @property
    def block_count(self) -> int:
        """Blocks in the grid."""
        x, y, z = self.grid
        return x * y * z

    # -- running
    def run(self, block_ids: npt.NDArray[np.int64] | None = None, counts: Counts | None = None) -> None:
        """Run blocks in order, in waves.

        Parameters
        ----------
        block_ids : numpy.ndarray of int64, optional
            Numbers of the blocks to run, x fastest; all of the grid by default.
        counts : Counts, optional
            Where to count; the launch's own by default.
        """
        if block_ids is None:
            block_ids = by_cluster(self.grid, self.cluster)
        total = block_ids.size
        per_batch = self._blocks_per_batch()
        counts = self.counts if counts is None else counts
        waiting: list[Scheduler] = []
        with np.errstate(all="ignore"):
            for start in range(0, total, per_batch):
                stop = min(start + per_batch, total)
                batch = self._idle_batch(stop - start)
                batch.start(block_ids[start:stop], counts)
                self._advance(Scheduler(batch, batch.frame(self.entry, 0, 0)), waiting)
                if sum(each.batch.height for each in waiting) > RESIDENT_WARPS:
                    waiting[0].deadlock()
            self._finish(waiting)

    def _blocks_per_batch(self) -> int:
        """Return how many blocks run together, so that their registers and memory stay small."""
        warps = -(-self.threads // WARP)
        nbytes = max(self.local_bytes * warps * WARP, self.shared_bytes, 1)
        blocks = min(WARPS_PER_BATCH // warps, MEMORY_PER_BATCH // nbytes)
        return max(1, blocks // self.cluster_size) * self.cluster_size

    def _idle_batch(self, blocks: int) -> Batch:
        idle = self._idle.get(blocks)
        return idle.pop() if idle else Batch(self, blocks)

    def _advance(self, scheduler: Scheduler, waiting: list[Scheduler]) -> None:
        """Run a batch until it ends, or waits for other blocks."""
        before = scheduler.batch.steps
        if scheduler.run():
            scheduler.batch.bulk.end()
            scheduler.batch.remote.end()
            self._idle.setdefault(scheduler.batch.blocks, []).append(scheduler.batch)
        else:
            waiting.append(scheduler)
        self.ticks += scheduler.batch.steps - before

    def _finish(self, waiting: list[Scheduler]) -> None:
        """Run the batches that wait for each other in turns, until all have ended."""
        while waiting:
            version, count = self.memory.version, len(waiting)
            todo, waiting = waiting, []
            for scheduler in todo:
                self._advance(scheduler, waiting)
            if len(waiting) == count and self.memory.version == version:
                waiting[0].deadlock()

    # -- where things are
    def position(self, number: int) -> tuple[Function, Any]:
        """Return the function and the instruction of a number."""
        return self._positions[number]

    def where(self, number: int) -> str:
        """Say in words where an instruction stands."""
        function, instruction = self._positions[number]
        path = self.module.files.get(instruction.file, "")
        if instruction.source_line:
            return f"{path}:{instruction.source_line}"
        return f"PTX line {instruction.line} of {function.name}"

    def complain(
        self, number: int, kind: str, what: str, block: Sequence[int], thread: Sequence[int], count: int,
        is_error: bool,
    ) -> None:  # fmt: skip
        """Add a diagnostic; a repeated one only raises the count of the first."""
        known = self.seen.get((number, kind, is_error))
        if known is not None:
            known.count += count
            return
        if len(self.diagnostics) >= MAX_DIAGNOSTICS:
            return
        _, instruction = self._positions[number]
        bx, by, bz = block
        tx, ty, tz = thread
        who = f"block ({bx}, {by}, {bz}), thread ({tx}, {ty}, {tz})"
        message = f"{self.name}: {what}; at {self.where(number)}, {who}"
        diagnostic = Diagnostic(
            kind, is_error, message, self.module.files.get(instruction.file, ""), instruction.source_line,
            instruction.line, (bx, by, bz), (tx, ty, tz), count,
        )  # fmt: skip
        self.diagnostics.append(diagnostic)
        self.seen[number, kind, is_error] = diagnostic


def _padded(value: bytes) -> bytes:
    return value.ljust(-(-len(value) // PARAMETER_ALIGNMENT) * PARAMETER_ALIGNMENT, b"\0")


_attributions: dict[tuple[int, int], tuple[Function, Any, Attribution]] = {}
KEPT_ATTRIBUTIONS = 64


def _attributed(function: Function, sass: Sequence[SassInstruction] | None) -> Attribution:
    """Return `attribute` of these very objects, worked out once: it takes longer than many a launch."""
    key = (id(function), id(sass))
    known = _attributions.get(key)
    if known is None:
        while len(_attributions) >= KEPT_ATTRIBUTIONS:
            _attributions.pop(next(iter(_attributions)))
        known = _attributions[key] = (function, sass, attribute(function, sass))  # kept, so ids stay theirs
    return known[2]
