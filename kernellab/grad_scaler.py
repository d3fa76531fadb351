"""GradScaler: loss scaling for training in 16 bits, with the meaning of `torch.amp.GradScaler`, no framework."""

from __future__ import annotations

import functools
import inspect
import operator
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from kernellab import catalog
from kernellab.api_optimizer import multiply
from kernellab.devices import cuda_arrays
from kernellab.devices import device as find_device
from kernellab.errors import ExecutionError, SpecError
from kernellab.kernel import Language
from kernellab.measurement import scope
from kernellab.tensor_calls import beside, call, full
from kernellab.tensor_intake import Tensors, where_of
from kernellab.tensor_lists import is_list

if TYPE_CHECKING:
    from kernellab.devices.program import Device

READY, UNSCALED, STEPPED = "ready", "unscaled", "stepped"


class GradScaler:
    """Keeps small gradients from vanishing in 16 bits: scales the loss, and steps only where nothing overflowed.

    A cycle: gradients of ``scale(loss)``; `unscale_` takes the scale out and looks for inf and NaN in the same
    pass; `step` updates unless there were some; `update` halves the scale after such a step, and doubles it after
    `growth_interval` clean ones. All numbers live where the gradients do: on a GPU the host waits for none.

    Parameters
    ----------
    init_scale : float
        The first scale.
    growth_factor : float
        Above 1.
    backoff_factor : float
        Below 1.
    growth_interval : int
        Clean steps in a row before the scale grows.
    enabled : bool
        False makes every method do nothing but call the step.
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
        self._enabled = enabled
        self._language: Language = language
        self._place = find_device(device)
        self._initial = {"scale": init_scale, "tracker": 0, "skipped": 0}
        self._numbers: dict[str, Any] = {}
        self._found: dict[str, Any] = {}
        self._stages: dict[str, str] = {}
        self._set(growth_factor, backoff_factor, growth_interval)
        _check_scale(init_scale)

    def _set(self, growth_factor: float, backoff_factor: float, growth_interval: int) -> None:
        if not growth_factor > 1:
            raise SpecError(f"GradScaler: growth_factor is {growth_factor}, it must be above 1; raise it")
        if not 0 < backoff_factor < 1:
            raise SpecError(
                f"GradScaler: backoff_factor is {backoff_factor}, it must lie between 0 and 1; correct it"
            )
        if not growth_interval >= 1:
            raise SpecError(
                f"GradScaler: growth_interval is {growth_interval}, it must be at least 1; raise it"
            )
        self.growth_factor = growth_factor
        self.backoff_factor = backoff_factor
        self.growth_interval = growth_interval

    def is_enabled(self) -> bool:
        """Whether it does anything."""
        return self._enabled

    # -- numbers where the gradients live
    def _settle(self, arrays: Any = ()) -> dict[str, Any]:
        """Return the scaler's numbers, made where the first arrays live."""
        if not self._numbers:
            start = self._initial
            kinds = {"scale": "float32", "tracker": "int32", "skipped": "int32"}
            self._numbers = {
                name: full(start[name], arrays, self._place, kind) for name, kind in kinds.items()
            }
            self._numbers["inv_scale"] = full(1 / start["scale"], arrays, self._place)
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
        return float(self._number("scale")) if self._enabled else 1.0

    @property
    def inv_scale(self) -> Any:
        """1 over the scale, one float32 where the gradients live: for `adamw`, in place of `unscale_`."""
        return self._settle()["inv_scale"]

    @property
    def skipped(self) -> Any:
        """How many steps were skipped, one int32 where the gradients live."""
        return self._settle()["skipped"]

    def found_inf(self, name: str = "") -> Any:
        """Return what `unscale_` found since the last `update`: one float32, 0 or 1, where the gradients live."""
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
        taken = Tensors("x", "x", x, is_changed=False).taken(who, self._place)
        with scope(self._place, taken.arrays, who):
            copies = replace(taken, given=tuple(array.copy() for array in taken.arrays), is_changed=True)
        unused = full(0, copies.arrays, self._place)
        factor = self._settle(copies.arrays)["scale"]
        multiply(copies, factor, unused, who, self._place, self._language)
        return list(copies.arrays) if is_list(x) else copies.arrays[0]

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
        if self._enabled:
            self._look(grads, "unscale_", name, is_kept=False)

    def find_inf(self, grads: Any, *, name: str = "") -> None:
        """Look for inf and NaN and leave the scale in, in place of `unscale_`.

        Gradients in 16 bits that would vanish without the scale vanish when it is taken out, too. `adamw` takes them
        as they are, with `inv_scale`.

        Parameters
        ----------
        grads, name
            As for `unscale_`; every element stays what it is.
        """
        if self._enabled:
            self._look(grads, "find_inf", name, is_kept=True)

    def _look(self, grads: Any, method: str, name: str, *, is_kept: bool) -> None:
        stage = self._stages.get(name, READY)
        if stage != READY:
            what = (
                f"{method}() has been called already"
                if stage == UNSCALED
                else f"step() comes after {method}()"
            )
            raise ExecutionError(f"GradScaler: {what}{_of(name)} since update(); call update() first")
        who = f"GradScaler.{method}"
        tensors = Tensors("x", "grads", grads)
        numbers = self._settle(tensors.arrays)
        found = full(0, [numbers["scale"]], self._place)
        factor = None if is_kept else numbers["inv_scale"]
        multiply(tensors, factor, found, who, self._place, self._language)
        self._found[name], self._stages[name] = found, UNSCALED

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
        if self._stages.get(name) == STEPPED:
            raise ExecutionError(f"GradScaler: step() has been called already{_of(name)} since update()")
        if self._stages.get(name) != UNSCALED:
            if grads is None:
                raise ExecutionError(
                    f"GradScaler: step() needs gradients looked at{_of(name)}; call unscale_ or pass grads"
                )
            self.unscale_(grads, name=name)
        found = self._found[name]
        taken = _parameters(function)
        self._stages[name] = STEPPED
        if "found_inf" in taken:
            own = {"found_inf": found, "skipped": self.skipped, "device": self._place}
            keywords = {**{key: value for key, value in own.items() if key in taken}, **keywords}
            return function(*args, **keywords)
        return function(*args, **keywords) if _on_host(found) == 0 else None

    def update(self, new_scale: float | None = None) -> None:
        """Set the scale for the next step, and forget what was found in this one.

        Parameters
        ----------
        new_scale : float, optional
            The scale, in place of what would follow.

        Raises
        ------
        ExecutionError
            If no gradients were looked at since the last time.
        """
        if not self._enabled:
            return
        numbers = self._settle()
        if new_scale is not None:
            _check_scale(new_scale)
            numbers["scale"].fill(new_scale)
            numbers["inv_scale"].fill(1 / new_scale)
        elif not self._found:
            raise ExecutionError("GradScaler: no gradients were looked at since update(); call unscale_")
        else:
            found = functools.reduce(operator.add, self._found.values())
            scalars = {name: numbers[name] for name in ("scale", "tracker", "skipped")}
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
        self._found, self._stages = {}, {}

    # -- checkpoints
    def state_dict(self) -> dict[str, Any]:
        """Return everything as plain numbers, with PyTorch's keys; nothing where it is not enabled."""
        if not self._enabled:
            return {}
        return {
            "scale": self.get_scale(),
            "growth_factor": self.growth_factor,
            "backoff_factor": self.backoff_factor,
            "growth_interval": self.growth_interval,
            "_growth_tracker": int(self._number("tracker")),
            "skipped": int(self._number("skipped")),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take everything from what `state_dict` returned, here or in PyTorch.

        Raises
        ------
        SpecError
            If something is missing in it.
        """
        if not self._enabled:
            return
        wanted = ("scale", "growth_factor", "backoff_factor", "growth_interval", "_growth_tracker")
        missing = [name for name in wanted if name not in state]
        if missing:
            raise SpecError(
                f"GradScaler: the state has no {', '.join(missing)}; take one of an enabled scaler's state_dict()"
            )
        _check_scale(state["scale"])
        self._set(*(state[name] for name in wanted[1:4]))
        kept = {"scale": float(state["scale"]), "tracker": int(state["_growth_tracker"])}
        self._initial = {**kept, "skipped": int(state.get("skipped", 0))}
        if self._numbers:
            like = [self._numbers["scale"]]
            self._numbers = {}
            self._settle(like)


def _on_host(number: Any) -> Any:
    """Return what an array of one element holds, once it is there."""
    return (number if isinstance(number, np.ndarray) else number.get())[0].item()


def _check_scale(scale: Any) -> None:
    if not 0 < scale < float("inf"):
        raise SpecError(f"GradScaler: the scale is {scale}, it must be finite and above 0; correct it")


def _of(name: str) -> str:
    return f" of {name!r}" if name else ""


def _parameters(function: Callable[..., Any]) -> set[str]:
    try:
        return set(inspect.signature(function).parameters)
    except (TypeError, ValueError):  # builtins may have none
        return set()


__all__ = ["GradScaler"]
