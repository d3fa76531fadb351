"""GradScaler: loss scaling for training in 16 bits, with the meaning of `torch.amp.GradScaler`, no framework."""

from __future__ import annotations

import functools
import inspect
import math
import operator
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from kernellab import catalog, checks
from kernellab.api_optimizer import multiply
from kernellab.catalog.update_scale import LEAST, MOST
from kernellab.devices import cuda_arrays
from kernellab.devices import device as find_device
from kernellab.errors import ArgumentError, ExecutionError, SpecError
from kernellab.kernel import LANGUAGES, Language
from kernellab.measurement import scope
from kernellab.tensor_calls import beside, call, full, scalar_of
from kernellab.tensor_intake import Tensors, where_of
from kernellab.tensor_lists import is_list

if TYPE_CHECKING:
    from kernellab.devices.program import Device


class GradScaler:
    """Keeps small gradients from vanishing in 16 bits: scales the loss, and steps only where nothing overflowed.

    A cycle: gradients of ``scale(loss)``; `unscale_` takes the scale out and looks for inf and NaN in the same
    pass; `step` updates unless there were some; `update` halves the scale after such a step, and doubles it after
    `growth_interval` clean ones. All numbers live where the gradients do: on a GPU the host waits for none.

    The scale stays within 2**-126 and 2**126, where 1 over it is finite too, and no denormal: PyTorch's halves
    down to 0. Each optimiser has a name, and skips only what it found itself.

    Parameters
    ----------
    init_scale : float
        The first scale, within 2**-126 and 2**126.
    growth_factor : float
        Above 1.
    backoff_factor : float
        Above 0, and below 1.
    growth_interval : int
        Clean steps in a row before the scale grows; at least 1.
    enabled : bool
        False makes every method do nothing but call the step: the scale is 1, and nothing is found.
    language, device
        As for `apply`.

    Examples
    --------
    >>> import numpy as np
    >>> import kernellab as kl
    >>> scaler = kl.GradScaler(init_scale=4.0, device="emulator")
    >>> grads = [np.full(3, 8, "float16"), np.array([np.inf], "float16")]
    >>> scaler.unscale_(grads)
    >>> scaler.step(lambda: print("never"))
    >>> scaler.update()
    >>> grads[0], scaler.get_scale()
    (array([2., 2., 2.], dtype=float16), 2.0)
    """

    def __init__(
        self,
        init_scale: float = 65536.0,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        *,
        enabled: bool = True,
        language: Language = "cuda-c",
        device: str | Device = "auto",
    ) -> None:
        if language not in LANGUAGES:
            known = ", ".join(LANGUAGES)
            raise SpecError(f"GradScaler: language is {language!r}, it must be one of {known}; correct it")
        self._enabled = enabled
        self._language: Language = language
        self._place = find_device(device)
        self._initial = {"scale": _checked_scale(init_scale) if enabled else 1.0, "tracker": 0}
        self._numbers: dict[str, Any] = {}
        self._skipped: dict[str, Any] = {}
        self._found: dict[str, Any] = {}
        self._called: dict[str, str] = {}
        self.growth_factor, self.backoff_factor, self.growth_interval = _checked_rules(
            growth_factor, backoff_factor, growth_interval
        )

    def is_enabled(self) -> bool:
        """Whether it does anything."""
        return self._enabled

    # -- numbers where the gradients live
    def _settle(self, arrays: Any = ()) -> dict[str, Any]:
        """Return the scaler's numbers, made where the first arrays live."""
        if not self._numbers:
            start = self._initial
            self._numbers = {
                "scale": full(start["scale"], arrays, self._place),
                "inv_scale": full(1 / start["scale"], arrays, self._place),
                "tracker": full(start["tracker"], arrays, self._place, "int32"),
            }
        elif arrays and where_of("GradScaler", arrays) != cuda_arrays.is_on_gpu(self._numbers["scale"]):
            if cuda_arrays.is_on_gpu(self._numbers["scale"]):
                raise SpecError(
                    "GradScaler: its numbers are on a GPU by now; take another one for NumPy arrays"
                )
            self._numbers = {
                name: beside(number, arrays, self._place) for name, number in self._numbers.items()
            }
        return self._numbers

    def _number(self, name: str) -> Any:
        return _on_host(self._numbers[name]) if self._numbers else self._initial[name]

    def get_scale(self) -> float:
        """Return the scale; waits for what is queued on a GPU."""
        return float(self._number("scale"))

    @property
    def inv_scale(self) -> Any:
        """1 over the scale, one float32 where the gradients live: for `adamw`, in place of `unscale_`."""
        return self._settle()["inv_scale"]

    def _beside(self, number: Any, dtype: str = "float32") -> Any:
        """Return a number as an array where the scale lives; nobody changes it."""
        return scalar_of(number, "GradScaler", [self._settle()["scale"]], self._place, dtype)

    def skipped(self, name: str = "") -> Any:
        """Return how many steps an optimiser skipped: one int32 where the gradients live."""
        return self._beside(self._skipped.get(name, 0), "int32")

    def found_inf(self, name: str = "") -> Any:
        """Return what `unscale_` or `find_inf` found since the last `update`: one float32, 0 or 1, as for `skipped`."""
        if not self._enabled:
            return self._beside(0)
        if name not in self._found:
            raise ExecutionError(
                f"GradScaler: nothing was looked at{_of(name)} since update(); call unscale_"
            )
        return self._found[name]

    # -- the cycle
    def scale(self, x: Any) -> Any:
        """Return `x` times the scale, in its own dtype: a number, an array of floats, or a list of arrays."""
        if not self._enabled:
            return x
        if isinstance(x, float | int | np.number):
            scaled = x * self.get_scale()
            return x.dtype.type(scaled) if isinstance(x, np.floating) else scaled
        who = "GradScaler.scale"
        given = Tensors("x", "x", x, is_changed=False)
        taken = given.taken(who, self._place)
        with scope(self._place, taken.arrays, who):
            copies = replace(taken, given=tuple(array.copy() for array in taken.arrays), is_changed=True)
        unused = full(0, copies.arrays, self._place)
        factor = self._settle(copies.arrays)["scale"]
        multiply(copies, factor, unused, who, self._place, self._language)
        return list(copies.arrays) if is_list(given.given) else copies.arrays[0]

    def unscale_(self, grads: Any, *, name: str = "") -> None:
        """Divide gradients by the scale in place, and look for inf and NaN in the same pass.

        Parameters
        ----------
        grads : array of float32, float16 or bfloat16, or list of such
            A list may mix dtypes; there is one launch for each. Of any shapes and strides.
        name : str
            Whose they are, where several optimisers share the scaler.

        Raises
        ------
        ExecutionError
            If that was done already since the last `update`.
        """
        self._look(grads, "unscale_", name, is_kept=False)

    def find_inf(self, grads: Any, *, name: str = "") -> None:
        """Look for inf and NaN and leave the scale in, in place of `unscale_`.

        Gradients in 16 bits that would vanish without the scale vanish when it is taken out, too. `adamw` takes them
        as they are, with `inv_scale`.

        Parameters
        ----------
        grads, name
            As for `unscale_`; every element stays what it is, so they may be read-only.
        """
        self._look(grads, "find_inf", name, is_kept=True)

    def _look(self, grads: Any, method: str, name: str, *, is_kept: bool) -> None:
        tensors = Tensors("x", "grads", grads, is_changed=not is_kept)
        if not self._enabled:
            if not self._numbers:
                self._settle(tensors.arrays)
            return
        if name in self._called:
            raise ExecutionError(
                f"GradScaler: {self._called[name]}() has been called already{_of(name)} since update(); "
                f"call update() before {method}()"
            )
        who = f"GradScaler.{method}"
        numbers = self._settle(tensors.arrays)
        found = full(0, [numbers["scale"]], self._place)
        factor = None if is_kept else numbers["inv_scale"]
        multiply(tensors, factor, found, who, self._place, self._language)
        self._found[name], self._called[name] = found, method

    def step(
        self, function: Callable[..., Any], *args: Any, grads: Any = None, name: str = "", **keywords: Any
    ) -> Any:
        """Call an optimiser's step, unless its gradients are not all finite.

        Parameters
        ----------
        function : callable
            If it takes `found_inf` (and `skipped`), as `adamw` does, it is called with them and decides on the
            device; else the host waits, and calls it or not.
        *args, **keywords
            For the function.
        grads : array or list, optional
            What to `unscale_` first, where that was not done.
        name : str
            As for `unscale_`.

        Returns
        -------
        object
            What the function returns; None where it was not called.
        """
        if not self._enabled:
            return function(*args, **keywords)
        if self._called.get(name) == "step":
            raise ExecutionError(
                f"GradScaler: step() has been called already{_of(name)} since update(); call update() first"
            )
        if name not in self._called:
            if grads is None:
                raise ExecutionError(
                    f"GradScaler: step() needs gradients looked at{_of(name)}; call unscale_ or pass grads"
                )
            self.unscale_(grads, name=name)
        found = self._found[name]
        taken = _parameters(function)
        if "found_inf" in taken:
            own = {"found_inf": found, "skipped": self.skipped(name), "device": self._place}
            keywords = {**{key: value for key, value in own.items() if key in taken}, **keywords}
            result = function(*args, **keywords)
        else:
            result = function(*args, **keywords) if _on_host(found) == 0 else None
        self._called[name] = "step"  # and not where it was refused: what is put right may be tried again
        return result

    def update(self, new_scale: float | None = None) -> None:
        """Set the scale for the next step, and forget what was found in this one.

        Parameters
        ----------
        new_scale : float, optional
            The scale, in place of what would follow; what was skipped counts all the same.

        Raises
        ------
        ExecutionError
            If no gradients were looked at since the last time.
        """
        if not self._enabled:
            return
        numbers = self._settle()
        if new_scale is not None:
            new_scale = _checked_scale(new_scale)
        elif not self._found:
            raise ExecutionError("GradScaler: no gradients were looked at since update(); call unscale_")
        with scope(self._place, (numbers["scale"],), "GradScaler.update"):
            each = {name: self._beside(found) for name, found in self._found.items()}
            self._skipped |= {name: self.skipped(name) + (found != 0) for name, found in each.items()}
            if new_scale is not None:
                numbers["scale"].fill(new_scale)
                numbers["inv_scale"].fill(1 / new_scale)
        if new_scale is None:
            found = functools.reduce(operator.add, each.values())
            scalars = {name: numbers[name] for name in ("scale", "tracker")}
            _, written = call(
                catalog.kernel("update_scale/scalar"),
                "GradScaler.update",
                {},
                {**scalars, "found": found},
                self._place,
                self._language,
                growth=self.growth_factor,
                backoff=self.backoff_factor,
                interval=self.growth_interval,
            )
            numbers["inv_scale"] = written["inv_scale"]
        self._found, self._called = {}, {}

    # -- checkpoints
    def state_dict(self) -> dict[str, Any]:
        """Return everything as plain numbers, with PyTorch's keys; nothing where it is not enabled.

        What was skipped is there by optimisers' names.
        """
        if not self._enabled:
            return {}
        return {
            "scale": self.get_scale(),
            "growth_factor": self.growth_factor,
            "backoff_factor": self.backoff_factor,
            "growth_interval": self.growth_interval,
            "_growth_tracker": int(self._number("tracker")),
            "skipped": {name: int(_on_host(self.skipped(name))) for name in self._skipped},
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take everything from what `state_dict` returned, here or in PyTorch.

        Raises
        ------
        ArgumentError, SpecError
            If something is missing in it, or is no number that could be there; nothing is taken then.
        """
        if not self._enabled:
            return
        wanted = ("scale", "growth_factor", "backoff_factor", "growth_interval", "_growth_tracker")
        if not isinstance(state, Mapping):
            kind = type(state).__name__
            raise ArgumentError(
                f"GradScaler: the state is a {kind}, it must be a dict; take one of state_dict()"
            )
        missing = [name for name in wanted if name not in state]
        if missing:
            raise SpecError(
                f"GradScaler: the state has no {', '.join(missing)}; take one of an enabled scaler's state_dict()"
            )
        scale = _checked_scale(state["scale"])
        rules = _checked_rules(*(state[name] for name in wanted[1:4]))
        tracker = _checked_count("_growth_tracker", state["_growth_tracker"], rules[2] - 1)
        skipped = state.get("skipped", {})
        if not isinstance(skipped, Mapping):
            skipped = {"": skipped}
        self._skipped = {name: _checked_count("skipped", count) for name, count in skipped.items()}
        self._initial = {"scale": scale, "tracker": tracker}
        self.growth_factor, self.backoff_factor, self.growth_interval = rules
        if self._numbers:
            like = [self._numbers["scale"]]
            self._numbers = {}
            self._settle(like)


def _on_host(number: Any) -> Any:
    """Return what an array of one element holds, once it is there."""
    return (number if isinstance(number, np.ndarray) else number.get())[0].item()


def _checked_scale(scale: Any) -> float:
    return float(checks.number("GradScaler: the scale", scale, "float32", LEAST, MOST))


def _checked_count(name: str, count: Any, most: int | None = None) -> int:
    return int(checks.number(f"GradScaler: {name}", count, "int32", 0, most))


def _checked_rules(growth_factor: Any, backoff_factor: Any, growth_interval: Any) -> tuple[float, float, int]:
    """Return by what the scale grows and is backed off, and after how many steps it grows."""
    who = "GradScaler: growth_factor"
    if not 1 < float(checks.number(who, growth_factor, "float32")) < math.inf:
        raise SpecError(f"{who} is {growth_factor}, it must be above 1, and finite, in float32; correct it")
    who = "GradScaler: backoff_factor"
    if not 0 < float(checks.number(who, backoff_factor, "float32")) < 1:
        raise SpecError(f"{who} is {backoff_factor}, it must lie between 0 and 1 in float32; correct it")
    interval = checks.number("GradScaler: growth_interval", growth_interval, "int32", 1)
    return float(growth_factor), float(backoff_factor), int(interval)


def _of(name: str) -> str:
    return f" of {name!r}" if name else ""


def _parameters(function: Callable[..., Any]) -> set[str]:
    try:
        return set(inspect.signature(function).parameters)
    except (TypeError, ValueError):  # builtins may have none
        return set()


__all__ = ["GradScaler"]
