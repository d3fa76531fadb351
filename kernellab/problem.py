"""Problem, Cost, Case: what is computed, its NumPy answer, its inputs, its compulsory traffic."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from kernellab.errors import SpecError
from kernellab.tensor_lists import mapped

Array: TypeAlias = npt.NDArray[Any]
Sizes: TypeAlias = Mapping[str, int]
Arrays: TypeAlias = Mapping[str, Any]

ELEMENTS = ("float32", "float16", "bfloat16")
"""What an operand of dtype ``"element"`` may hold in kernels that compute."""

MOVED = ("float32", "uint8", "float16", "float64")
"""What it may hold in kernels that only move bits: one dtype for each item size."""

ELEMENT_CODES = tuple(dict.fromkeys((*ELEMENTS, *MOVED)))
"""Each of them once; the place here is the value of the constant ELEMENT."""


def dtype_named(name: str) -> np.dtype[Any]:
    """Return a NumPy dtype by name, ``"bfloat16"`` included.

    Examples
    --------
    >>> dtype_named("bfloat16").itemsize, dtype_named("float32").itemsize
    (2, 4)
    """
    if name == "bfloat16":
        import ml_dtypes

        brain: np.dtype[Any] = np.dtype(ml_dtypes.bfloat16)
        return brain
    return np.dtype(name)


@dataclass(frozen=True)
class Cost:
    """The least that must be moved and computed, whatever the kernel.

    Attributes
    ----------
    bytes_read, bytes_written : int
        Compulsory traffic: every byte that the answer depends on, and every byte of the answer, once.
    flops : int
        Floating-point operations; a fused multiply-add counts as two.

    Examples
    --------
    >>> Cost(bytes_read=4096, bytes_written=4096).nbytes
    8192
    """

    bytes_read: int
    bytes_written: int
    flops: int = 0

    @property
    def nbytes(self) -> int:
        """Bytes read plus bytes written."""
        return self.bytes_read + self.bytes_written


@dataclass(frozen=True)
class Operand:
    """An array that a problem reads or writes.

    Attributes
    ----------
    name : str
        Its name in the ``.cu`` signature, in the twin and in the reference.
    dtype : str
        The one dtype accepted, such as ``"float32"``; or ``"element"``, which stands for one of the kernel's
        ``elements``, the same for all such operands of a call.
    shape : tuple of str
        One name an axis. A lower-case name is a size, found from the arrays given and equal wherever it
        stands; a capital name is a constant of the kernel (``"MEMBERS"``); digits are a length (``"1"``).
    role : {"in", "out", "inout", "scratch"}
        An ``"out"`` is allocated and poisoned by whoever runs; an ``"inout"`` is copied afresh for each run;
        a ``"scratch"`` belongs to one kernel (``Kernel.temporaries``) and is allocated by whoever runs.
    index_of : str, optional
        For integer arrays: the size that its values index.
    is_wrapping : bool
        Whether a negative index counts from the end, as in NumPy.
    is_list : bool
        Whether it may also be a list of arrays, whose lengths differ: the k-th arrays of all such operands of
        a problem belong together.
    """

    name: str
    dtype: str
    shape: tuple[str, ...]
    role: Literal["in", "out", "inout", "scratch"] = "in"
    index_of: str | None = None
    is_wrapping: bool = False
    is_list: bool = False

    @property
    def is_input(self) -> bool:
        """Whether the caller provides it."""
        return self.role in ("in", "inout")

    @property
    def numpy_dtype(self) -> np.dtype[Any]:
        """Its dtype; that of an ``"element"`` is known only `at` one."""
        return dtype_named(self.dtype)

    def at(self, element: str) -> Operand:
        """Return the operand with the dtype ``"element"`` replaced by one of `ELEMENT_CODES`."""
        return replace(self, dtype=element) if self.dtype == "element" else self


@dataclass(frozen=True)
class Parameter:
    """A run-time scalar of a kernel, such as a stride.

    Attributes
    ----------
    name, dtype : str
        Its name and the dtype it travels as.
    default : int or float
        Used when the caller gives none.
    minimum, maximum : int, float or str, optional
        Inclusive bounds; a string names a size.
    """

    name: str
    dtype: str
    default: int | float
    minimum: int | float | None = None
    maximum: int | float | str | None = None


@dataclass(frozen=True)
class Case:
    """One set of sizes and contents on which every rung is checked.

    Attributes
    ----------
    name : str
        A few words; unique in its problem.
    sizes : mapping of str to int
        Sizes by name, such as ``{"n": 1000}``.
    parameters : mapping of str to int or float
        Run-time scalars that differ from their defaults.
    contents : str
        What the arrays hold: ``"random"``, or a word that the problem's ``inputs`` understands.
    element : str
        The dtype of the operands whose dtype is ``"element"``, one of `ELEMENT_CODES`.
    """

    name: str
    sizes: Sizes
    parameters: Mapping[str, int | float] = field(default_factory=dict)
    contents: str = "random"
    element: str = ELEMENTS[0]


@dataclass(frozen=True)
class Problem:
    """The mathematics that all rungs of one ladder share.

    Attributes
    ----------
    name : str
        The folder in ``kernels_cu`` and the first half of every kernel's id.
    summary : str
        One line.
    operands : tuple of Operand
        Every array that any rung takes; a rung names those it takes.
    make_inputs : callable
        ``make_inputs(case, rng) -> {name: array}`` for every operand that is an input; those of dtype
        ``"element"`` are rounded to the case's element afterwards.
    reference : callable
        ``reference(**arrays, **parameters) -> {name: array}``, NumPy, in float64 or exact integers (or, where
        ``is_bitwise``, in the output's own dtype). It gets those inputs and parameters that the rung takes.
    cost : callable
        ``cost(sizes, arrays) -> Cost`` with the sizes and inputs of one plan.
    cases : tuple of Case
        The first fills whole warps and is the one whose counts stand in the ``.cu`` headers; the rest are
        edges.
    parameters : tuple of Parameter
        Run-time scalars of any rung.
    is_bitwise : bool
        Whether outputs must equal the reference bit for bit.
    roundings : int or callable
        How many roundings of the output's dtype a right answer may carry, or ``f(sizes)`` that says so.
    magnitude : callable, optional
        Called as `reference` is: what the error of each output is in proportion to where terms may cancel,
        such as the sum of absolute products. By default the answer itself.
    refusal : callable, optional
        ``refusal(sizes) -> str`` with what has no answer, such as the largest of none, or an empty string.
    """

    name: str
    summary: str
    operands: tuple[Operand, ...]
    make_inputs: Callable[[Case, np.random.Generator], dict[str, Array]]
    reference: Callable[..., dict[str, Array]]
    cost: Callable[[Sizes, Arrays], Cost]
    cases: tuple[Case, ...]
    parameters: tuple[Parameter, ...] = ()
    is_bitwise: bool = False
    roundings: int | Callable[[Sizes], int] = 1
    magnitude: Callable[..., dict[str, Array]] | None = None
    refusal: Callable[[Sizes], str] | None = None

    def inputs(self, case: Case, rng: np.random.Generator | int = 0) -> dict[str, Array]:
        """Return the input arrays of a case.

        Parameters
        ----------
        case : Case
            One of ``cases``, or any other with the same size names.
        rng : numpy.random.Generator or int
            A generator, or a seed; the same seed gives the same arrays.

        Returns
        -------
        dict of str to numpy.ndarray
            Every input that any rung of the problem takes, C-contiguous.
        """
        generator = np.random.default_rng(rng) if isinstance(rng, int) else rng
        arrays = self.make_inputs(case, generator)
        for operand in self.operands:
            if operand.dtype == "element" and operand.name in arrays:
                with np.errstate(over="ignore"):
                    dtype = dtype_named(case.element)
                    arrays[operand.name] = mapped(
                        lambda array, to=dtype: array.astype(to, copy=False), arrays[operand.name]
                    )
        return arrays

    def operand(self, name: str) -> Operand:
        """Return the operand of that name.

        Raises
        ------
        KeyError
            If the problem has none.
        """
        return {item.name: item for item in self.operands}[name]

    def parameter(self, name: str) -> Parameter:
        """Return the parameter of that name.

        Raises
        ------
        KeyError
            If the problem has none.
        """
        return {item.name: item for item in self.parameters}[name]

    def case(self, name: str) -> Case:
        """Return the case of that name.

        Raises
        ------
        SpecError
            If the problem has none.
        """
        try:
            return {item.name: item for item in self.cases}[name]
        except KeyError:
            known = ", ".join(repr(case.name) for case in self.cases)
            raise SpecError(f"{self.name}: there is no case {name!r}; its cases are {known}") from None
