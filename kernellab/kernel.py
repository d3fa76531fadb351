"""Kernel: one way to compute a problem, as frozen data."""

from __future__ import annotations

import importlib.resources
import inspect
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from types import ModuleType
from typing import Any, Literal, TypeAlias

from kernellab.errors import SpecError
from kernellab.geometry import Dim3, Geometry, covering
from kernellab.header import Header, parse_header
from kernellab.problem import ELEMENT_CODES, ELEMENTS, Arrays, Case, Cost, Operand, Parameter, Problem, Sizes

Language: TypeAlias = Literal["cuda-c", "numba"]
Twin: TypeAlias = Callable[..., Any]

LANGUAGES: tuple[Language, ...] = ("cuda-c", "numba")
TWIN_DTYPES = {"float16": "uint16", "bfloat16": "uint16"}
"""How twins see elements for which Numba has no loads of its own: as their bits."""

TABLE = "tensors"
"""The argument that is a `TensorTable`."""


@dataclass(frozen=True)
class Stage:
    """One launch of a rung that takes several.

    Attributes
    ----------
    name : str
        Its entry is ``<problem>_<rung>_<name>``, in the rung's own ``.cu`` file.
    arguments : tuple of str
        As in Kernel; temporaries and derived sizes too.
    geometry : Geometry
        Its block and grid; no launch is made where the grid is empty.
    """

    name: str
    arguments: tuple[str, ...]
    geometry: Geometry


@dataclass(frozen=True)
class StageTwin:
    """The twin of one stage: one of the functions that the rung's factory returns."""

    factory: Callable[..., Any]
    index: int

    def __call__(self, **constants: Any) -> Any:
        """Make the function for these constants."""
        return self.factory(**constants)[self.index]


@dataclass(frozen=True)
class Tuning:
    """Constants that `bind` chooses from the sizes, as long as the caller has set none of them.

    Attributes
    ----------
    base : mapping of str to int
        What stands in the ``.cu`` file. A kernel whose constants differ from it is taken as it is.
    choose : callable
        ``choose(sizes, element) -> {name: value}``; the device's ``"multiprocessors"`` are among the sizes.
    """

    base: Mapping[str, int]
    choose: Callable[[Sizes, str], Mapping[str, int]]


@dataclass(frozen=True)
class Tile:
    """How a kernel takes an operand: as a tensor map of tiles, for TMA.

    Attributes
    ----------
    box : tuple of int or str
        Elements of a tile along each axis; a name is that of a constant or a size.
    swizzle : int
        As of `kernellab.TensorMap`.
    """

    box: tuple[int | str, ...]
    swizzle: int = 0


@dataclass(frozen=True)
class Kernel:
    """One rung: a ``.cu`` file, its Numba twin, and how to launch them.

    Attributes
    ----------
    problem : Problem
        What it computes.
    name : str
        The rung: ``kernels_cu/<problem>/<name>.cu`` with the entry ``<problem>_<name>``.
    arguments : tuple of str
        The parameters of the ``.cu`` entry in order: operands (pointers), sizes (``long long``) and
        parameters. The twin takes the same without the sizes, which its arrays carry as shapes.
    geometry : Geometry
        Block and grid.
    twin : callable or str
        ``twin(**constants) -> function``, a factory that imports numba inside (with `stages`: a tuple of
        functions, one a stage); or why Numba cannot express it.
    constants : mapping of str to int
        Reach the ``.cu`` as ``-DNAME=value`` and the twin as arguments of its factory.
    elements : tuple of str
        Which of `ELEMENT_CODES` the operands of dtype ``"element"`` may hold: `ELEMENTS` or `MOVED`, the
        first is the default; without any they hold float32. The choice
        stands in ``constants["ELEMENT"]``: the ``.cu`` includes ``element.cuh`` for its ``element_t``, and
        the factory gets ``element="float16"``. Twins see 16-bit elements as uint16: ``catalog/elements.py``.
    stages : tuple of Stage
        The launches of a rung that takes several, in order. ``arguments`` then names what all of them take
        from the caller, and ``geometry`` is that of the stage that does the bulk of the work.
    temporaries : tuple of Operand
        Arrays of role ``"scratch"``, whose axes are sizes, constants or `derived`.
    derived : mapping of str to callable
        Further sizes, ``f(at) -> int``, each with those before it in ``at``: for grids, the shapes of
        temporaries and ``long long`` arguments.
    stage : str
        The stage's name, for the kernels in `parts`.
    tuning : Tuning, optional
        Which constants `bind` chooses from the sizes.
    tiles : mapping of str to Tile
        Operands that the ``.cu`` takes as ``const __grid_constant__ CUtensorMap`` and not as pointers.
    table : tuple of str
        Lists of arrays that the ``.cu`` takes side by side in one `TensorTable`, its argument ``tensors``; its
        constant TENSORS says how many at most.
    chunk : callable, optional
        ``chunk(at) -> int``: elements of a list's array that one block works on, for a kernel with a table.
    requires : tuple of str
        What the device must be: at least ``"sm_80"``; exactly ``"sm_90a"``, for which it is then compiled.
    refusal : callable, optional
        ``refusal(sizes) -> str`` with why it does not take such sizes, or an empty string.
    deterministic : bool
        Whether two runs give the same bits.
    alignment : int
        Bytes to which every operand's pointer must be aligned, 0 for its own item size.
    fallback : Kernel, optional
        The rung that `bind` may take instead where an array is not aligned so.
    zeroed : tuple of str
        Outputs and temporaries that whoever runs fills with zero before each run, outside the timed span.
    constraint : callable, optional
        ``constraint(constants) -> str`` with the rule broken, or an empty string.
    cost : callable, optional
        As in Problem, for a rung whose inputs differ from the problem's usual ones.
    fault : str
        For an exhibit: one sentence on what is wrong. Empty for a kernel that is meant to be right.
    gives_up : str
        For a rung that gives right answers up for speed: one sentence on which. It is timed as any other.
    fails_on : tuple of str
        Names of the cases on which the fault, or what is given up, shows.
    source : Path, optional
        Another ``.cu`` file in place of the catalogue's own.
    is_fast_math : bool
        Whether it is compiled with ``-use_fast_math``, the twin with ``fastmath=True``.
    roundings : int, optional
        As in Problem, for a rung that gives accuracy away.
    float64 : str
        Why it computes in float64 though its arrays hold none; empty for a kernel that must not.

    Examples
    --------
    >>> from dataclasses import replace
    >>> from kernellab.catalog import kernel
    >>> padded = kernel("transpose/padded")
    >>> padded.id, padded.entry, replace(padded, constants={"TILE": 16}).constants
    ('transpose/padded', 'transpose_padded', {'TILE': 16})
    """

    problem: Problem
    name: str
    arguments: tuple[str, ...]
    geometry: Geometry
    twin: Twin | str
    constants: Mapping[str, int] = field(default_factory=dict)
    requires: tuple[str, ...] = ()
    deterministic: bool = True
    refusal: Callable[[Sizes], str] | None = None
    alignment: int = 0
    fallback: Kernel | None = None
    zeroed: tuple[str, ...] = ()
    constraint: Callable[[Mapping[str, int]], str] | None = None
    cost: Callable[[Sizes, Arrays], Cost] | None = None
    fault: str = ""
    gives_up: str = ""
    fails_on: tuple[str, ...] = ()
    source: Path | None = None
    elements: tuple[str, ...] = ()
    stages: tuple[Stage, ...] = ()
    temporaries: tuple[Operand, ...] = ()
    derived: Mapping[str, Callable[[Sizes], int]] = field(default_factory=dict)
    stage: str = ""
    tuning: Tuning | None = None
    tiles: Mapping[str, Tile] = field(default_factory=dict)
    is_fast_math: bool = False
    roundings: int | None = None
    float64: str = ""
    table: tuple[str, ...] = ()
    chunk: Callable[[Sizes], int] | None = None

    def __post_init__(self) -> None:
        if self.source is not None:
            object.__setattr__(self, "source", Path(self.source))
        if self.elements and "ELEMENT" not in self.constants:
            chosen = {**self.constants, "ELEMENT": ELEMENT_CODES.index(self.elements[0])}
            object.__setattr__(self, "constants", chosen)

    @property
    def id(self) -> str:
        """``<problem>/<rung>``."""
        return f"{self.problem.name}/{self.name}"

    @property
    def entry(self) -> str:
        """Name of the ``extern "C"`` function, and of the twin."""
        return "_".join(part for part in (self.problem.name, self.name, self.stage) if part)

    @property
    def element(self) -> str:
        """What operands of dtype ``"element"`` hold; empty for a kernel without such."""
        return ELEMENT_CODES[self.constants["ELEMENT"]] if self.elements else ""

    @property
    def cases(self) -> tuple[Case, ...]:
        """The problem's cases, of the elements and sizes that it is made for."""
        known = self.elements or ELEMENTS[:1]
        refused = self.refusal or (lambda sizes: "")
        return tuple(case for case in self.problem.cases if case.element in known and not refused(case.sizes))

    def with_element(self, element: str) -> Kernel:
        """Return the kernel for another of its elements; itself if it is for that one.

        Raises
        ------
        SpecError
            If it is not made for it.
        """
        if element not in self.elements:
            known = ", ".join(self.elements) or "one dtype only"
            raise SpecError(f"{self.id}: it is not made for elements of {element!r}, it takes {known}")
        if element == self.element:
            return self
        return replace(self, constants={**self.constants, "ELEMENT": ELEMENT_CODES.index(element)})

    def with_constants(self, **constants: int) -> Kernel:
        """Return the kernel with other constants; `bind` then chooses none.

        Raises
        ------
        SpecError
            For one that it does not have. Values are looked at by `bind`.

        Examples
        --------
        >>> from kernellab.catalog import kernel
        >>> kernel("scale/unrolled").with_constants(VECTORS=8).constants["VECTORS"]
        8
        """
        known = [name for name in self.constants if name != "ELEMENT"]
        for name in constants:
            if name not in known:
                rule = (
                    f"it has {', '.join(known)}; take one of those" if known else "it has none; leave it out"
                )
                raise SpecError(f"{self.id}: there is no constant {name!r}, {rule}")
        return replace(self, constants={**self.constants, **constants}, tuning=None)

    def tuned(self, sizes: Sizes, multiprocessors: int) -> Kernel:
        """Return the kernel with the constants for these sizes; those of the caller where it has set some.

        Constants that it left out are those of the ``.cu`` file.
        """
        if self.tuning is None:
            return self
        left_out = {name: to for name, to in self.tuning.base.items() if name not in self.constants}
        constants = {**self.constants, **left_out}
        if all(constants[name] == to for name, to in self.tuning.base.items()):
            constants |= self.tuning.choose({**sizes, "multiprocessors": multiprocessors}, self.element)
        return self if constants == self.constants else replace(self, constants=constants)

    @property
    def parts(self) -> tuple[Kernel, ...]:
        """The kernels that are launched: one a stage, or the kernel itself."""
        if not self.stages:
            return (self,)
        return tuple(self._part(index, stage) for index, stage in enumerate(self.stages))

    def _part(self, index: int, stage: Stage) -> Kernel:
        twin = StageTwin(self.twin, index) if callable(self.twin) else self.twin
        return replace(
            self,
            stage=stage.name,
            arguments=stage.arguments,
            geometry=stage.geometry,
            twin=twin,
            stages=(),
            fallback=None,
        )

    @property
    def operands(self) -> tuple[Operand, ...]:
        """The arrays it takes, in the order of its arguments."""
        known = {operand.name: operand for operand in (*self.problem.operands, *self.temporaries)}
        names = (each for name in self.arguments for each in (self.table if name == TABLE else (name,)))
        return tuple(known[name].at(self.element or ELEMENTS[0]) for name in names if name in known)

    @property
    def inputs(self) -> tuple[Operand, ...]:
        """The arrays that the caller gives."""
        return tuple(operand for operand in self.operands if operand.is_input)

    @property
    def outputs(self) -> tuple[Operand, ...]:
        """The arrays that it writes for the caller."""
        return tuple(operand for operand in self.operands if operand.role in ("out", "inout"))

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """The run-time scalars it takes, sizes aside."""
        return tuple(parameter for parameter in self.problem.parameters if parameter.name in self.arguments)

    @property
    def has_twin(self) -> bool:
        """Whether Numba can express it; if not, ``twin`` says why."""
        return callable(self.twin)

    def arguments_for(self, language: Language) -> tuple[str, ...]:
        """Return the names passed in that language, in order: the twin takes no sizes."""
        if language == "cuda-c":
            return self.arguments
        passed = {item.name for item in self.operands} | {item.name for item in self.parameters}
        return tuple(name for name in self.arguments if name in passed)

    def twin_function(self) -> Any:
        """Return the twin as a plain Python function, made for this kernel's constants.

        Raises
        ------
        SpecError
            If Numba cannot express the kernel; the message carries the reason.
        """
        if not callable(self.twin):
            raise SpecError(f"{self.id}: it has no Numba twin: {self.twin}")
        constants: dict[str, Any] = dict(self.constants)
        if self.elements:
            constants["element"] = ELEMENT_CODES[constants.pop("ELEMENT")]
        return self.twin(**constants)

    def twin_types(self) -> tuple[str, ...]:
        """Return the types that the twin is compiled for, in Numba's spelling.

        Examples
        --------
        >>> from kernellab.catalog import kernel
        >>> kernel("copy/strided").twin_types()
        ('float32[::1]', 'float32[::1]', 'int32')
        """
        arrays = {
            item.name: f"{TWIN_DTYPES.get(item.dtype, item.dtype)}[{':,' * (len(item.shape) - 1)}::1]"
            for item in self.operands
        }
        types = arrays | {item.name: item.dtype for item in self.parameters}
        return tuple(types[name] for name in self.arguments_for("numba"))

    def twin_source(self) -> str:
        """Return the text that defines the twin: its whole module, read without importing numba."""
        if not callable(self.twin):
            return ""
        factory = self.twin.factory if isinstance(self.twin, StageTwin) else self.twin
        module = inspect.getmodule(factory)
        if module is None:
            return inspect.getsource(factory)
        return "".join(inspect.getsource(item) for item in _with_helpers(module, []))

    @property
    def path(self) -> Path:
        """The ``.cu`` file."""
        return self.source or kernels_folder() / self.problem.name / f"{self.name}.cu"

    def text(self) -> str:
        """Return the ``.cu`` text."""
        try:
            return self.path.read_text(encoding="utf-8")
        except OSError as error:
            raise SpecError(f"{self.id}: its source {self.path} cannot be read: {error.strerror}") from error

    @cached_property
    def header(self) -> Header:
        """What the ``.cu`` file says of itself."""
        return parse_header(self.text(), self.id)


def _with_helpers(module: ModuleType, seen: list[ModuleType]) -> list[ModuleType]:
    """Return a module, those of the catalogue that it imports or imports names from, and what these import."""
    seen.append(module)
    by_name = re.findall(r"^from (kernellab\.catalog\.\w+) import", inspect.getsource(module), re.MULTILINE)
    for item in (*vars(module).values(), *(sys.modules[name] for name in by_name)):
        if inspect.ismodule(item) and item.__name__.startswith("kernellab.catalog.") and item not in seen:
            _with_helpers(item, seen)
    return seen


def kernels_folder() -> Path:
    """Return the folder ``kernels_cu``, in a checkout and in an installed wheel."""
    return Path(str(importlib.resources.files("kernels_cu")))


__all__ = [
    "LANGUAGES",
    "TABLE",
    "TWIN_DTYPES",
    "Dim3",
    "Geometry",
    "Kernel",
    "Language",
    "Stage",
    "StageTwin",
    "Tile",
    "Tuning",
    "Twin",
    "covering",
    "kernels_folder",
]
