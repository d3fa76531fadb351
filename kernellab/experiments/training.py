"""A small training run whose every step is kernels of the catalogue: in float32, and mixed with 16 bits.

Two layers, ``x @ w1 + b1``, GeLU, ``@ w2 + b2``, and softmax cross entropy; forward, backward, and AdamW.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from kernellab.api import apply
from kernellab.api_matmul import matmul
from kernellab.api_optimizer import adamw
from kernellab.functions import transpose
from kernellab.grad_scaler import GradScaler
from kernellab.problem import Array, dtype_named

if TYPE_CHECKING:
    from kernellab.devices.program import Device
    from kernellab.kernel import Language

BATCH = 2**22
"""By which the summed loss's gradient is divided, as in the batch of a large language model that a run's rows are a part of."""
EPS = 1e-12
"""Of AdamW: below gradients so small."""
NAMES = ("w1", "b1", "w2", "b2")

BEST = {
    "bias_gelu": "vectorised",
    "bias_gelu_backward": "fused",
    "column_sum": "split",
    "softmax_cross_entropy": "registers",
}
LEAST = {**BEST, "bias_gelu": "scalar", "bias_gelu_backward": "unfused", "column_sum": "scalar"}
"""Of few instructions: what the emulator takes, whose time they are."""


@dataclass(frozen=True)
class Task:
    """What is learnt: classes that lie around two opposite points each, so that no plane divides them.

    Attributes
    ----------
    rows, features, hidden, classes : int
        Samples, and the widths of the network.
    lr : float
        Of AdamW.
    growth : int
        Clean steps after which the loss scale grows.
    """

    rows: int
    features: int
    hidden: int
    classes: int
    lr: float
    growth: int

    def data(self) -> tuple[Array, Array]:
        """Return samples and labels, the same each time."""
        rng = np.random.default_rng(0)
        centres = rng.standard_normal((self.classes, self.features))
        centres *= 2 / np.linalg.norm(centres, axis=1, keepdims=True)
        labels = rng.integers(0, self.classes, self.rows)
        sides = rng.choice([-1, 1], (self.rows, 1))
        noise = rng.standard_normal((self.rows, self.features)) / 4
        return (centres[labels] * sides + noise).astype(np.float32), labels

    def parameters(self) -> dict[str, Array]:
        """Return weights and biases to begin with, in float32."""
        rng = np.random.default_rng(1)
        first = rng.standard_normal((self.features, self.hidden)) / self.features**0.5
        second = rng.standard_normal((self.hidden, self.classes)) / self.hidden**0.5
        made = first, np.zeros(self.hidden), second, np.zeros(self.classes)
        return {name: np.asarray(array, np.float32) for name, array in zip(NAMES, made, strict=True)}


@dataclass(frozen=True)
class Recipe:
    """How a run is made.

    Attributes
    ----------
    element : {"float32", "float16", "bfloat16"}
        What parameters are used in, and activations and gradients held in.
    steps : int
        How many.
    scale : float
        The loss scale to begin with; 1 and never another where `is_scaled` is False.
    inject : int
        The step, from 1 on, in which a gradient is made infinite; 0 for none.
    """

    element: str
    steps: int
    scale: float = 1.0
    inject: int = 0

    @property
    def is_scaled(self) -> bool:
        """Whether the loss is scaled."""
        return self.scale != 1


@dataclass
class Trained:
    """What a run gave.

    Attributes
    ----------
    recipe : Recipe
    losses, scales : list of float
        Mean loss of the samples and loss scale at each step.
    vanished : list of float
        At each step, which share of the weights' gradients is 0.
    skipped : list of int
        Steps in which inf or NaN was found.
    changed : dict of int to int
        For those, how many bits of parameters and of the optimiser's state changed.
    held : dict of str to int
        Bytes of the arrays that live at the end of a step's backward pass, by what they are.
    gradients : dict of str to array
        Of the first step, with the loss scale in, as they are.
    """

    recipe: Recipe
    losses: list[float] = field(default_factory=list)
    scales: list[float] = field(default_factory=list)
    vanished: list[float] = field(default_factory=list)
    skipped: list[int] = field(default_factory=list)
    changed: dict[int, int] = field(default_factory=dict)
    held: dict[str, int] = field(default_factory=dict)
    gradients: dict[str, Array] = field(default_factory=dict)

    @property
    def nbytes(self) -> int:
        """Bytes of all of them."""
        return sum(self.held.values())


class Network:
    """The network on one device, in one language: its passes, kernel by kernel.

    Parameters
    ----------
    place : Device
    language : {"cuda-c", "numba"}
    element : str
        What it computes in. Arrays stay on the host for the emulator, and where they hold bfloat16, which CuPy
        may lack: a GPU then gets and returns copies.
    """

    def __init__(self, place: Device, language: Language, element: str) -> None:
        self.place, self.element = place, element
        self.is_on_host = place.name == "emulator" or element == "bfloat16"
        self.on: dict[str, Any] = {"device": place, "language": language}
        self.rungs = LEAST if place.name == "emulator" else BEST

    def asarray(self, array: Array, *, is_rounded: bool = False) -> Any:
        """Return an array where the network keeps its own, rounded to its element or as it is."""
        given = array.astype(dtype_named(self.element)) if is_rounded else array.copy()
        return given if self.is_on_host else self.place.cupy.asarray(given)  # type: ignore[attr-defined]

    def run(self, problem: str, *arrays: Any, **parameters: Any) -> Any:
        """Run the rung of a problem."""
        return apply(f"{problem}/{self.rungs[problem]}", *arrays, **self.on, **parameters)

    def product(self, a: Any, b: Any) -> Any:
        """Return ``a @ b``."""
        if self.place.name == "emulator" and a.dtype == np.float32 and b.flags.c_contiguous:
            return apply("matmul/coalesced", a, b, **self.on)
        return matmul(a, b, **self.on)

    def forward(self, at: Mapping[str, Any], x: Any) -> dict[str, Any]:
        """Return the activations: before and after GeLU, and logits without their bias."""
        h = self.product(x, at["w1"])
        y = self.run("bias_gelu", h, at["b1"])
        return {"h": h, "y": y, "logits": self.product(y, at["w2"])}

    def backward(
        self, at: Mapping[str, Any], turned: Any, labels: Any, seen: Mapping[str, Any], scale: float
    ) -> tuple[Any, dict[str, Any], dict[str, Any]]:
        """Return the losses, the gradients of the parameters, and what else was made on the way.

        `turned` holds the samples, transposed.
        """
        dlogits, losses = self.run("softmax_cross_entropy", seen["logits"], labels, at["b2"], scale=scale)
        dy = self.product(dlogits, at["w2"].T)
        dh, db1 = self.run("bias_gelu_backward", dy, seen["h"], at["b1"])
        gradients = {
            "w1": self.product(turned, dh),
            "b1": db1,
            "w2": self.product(transpose(seen["y"], **self.on), dlogits),
            "b2": self.run("column_sum", dlogits),
        }
        return losses, gradients, {"dlogits": dlogits, "dy": dy, "dh": dh}


class State:
    """Parameters as they are used, their float32 masters, and AdamW's means; updated in CUDA C in any language.

    Parameters
    ----------
    network : Network
        Where they live.
    task, recipe
        What they begin with, and in which element they are used: the masters themselves in float32.
    """

    def __init__(self, network: Network, task: Task, recipe: Recipe) -> None:
        made = task.parameters()
        self.network, self.task, self.is_mixed = network, task, recipe.element != "float32"
        self.masters = {name: network.asarray(array) for name, array in made.items()}
        self.used = self.masters
        if self.is_mixed:
            self.used = {name: network.asarray(array, is_rounded=True) for name, array in made.items()}
        self.means, self.squares = ({n: array * 0 for n, array in self.masters.items()} for _ in range(2))
        # One scaler a run; where the loss is not scaled it does nothing but call the step.
        self.scaler = GradScaler(
            recipe.scale, growth_interval=task.growth, enabled=recipe.is_scaled, device=network.place
        )

    @property
    def parameters(self) -> list[Any]:
        """Masters, and copies in 16 bits."""
        return [*self.masters.values(), *(self.used.values() if self.is_mixed else ())]

    @property
    def moments(self) -> list[Any]:
        """What AdamW keeps."""
        return [*self.means.values(), *self.squares.values()]

    def update(self, gradients: Mapping[str, Any], step: int) -> bool:
        """Do a step, and return whether inf or NaN was found: then there was none."""
        scaler, is_scaled = self.scaler, self.scaler.is_enabled()
        params, grads, means, squares = (
            [each[name] for name in NAMES] for each in (self.masters, gradients, self.means, self.squares)
        )
        scaler.find_inf(grads)
        is_found = is_scaled and bool(as_numpy(scaler.found_inf())[0])
        scaler.step(
            adamw,
            params,
            grads,
            means,
            squares,
            step=step,
            lr=self.task.lr,
            eps=EPS,
            weight_decay=0.0,
            inv_scale=scaler.inv_scale if is_scaled else None,
            out=[self.used[name] for name in NAMES] if self.is_mixed else None,
            device=self.network.place,
        )
        scaler.update()
        return is_found


def train(task: Task, recipe: Recipe, place: Device, language: Language = "cuda-c") -> Trained:
    """Train from the same beginning on the same samples.

    Parameters
    ----------
    task, recipe
        What, and how.
    place : Device
        Where: the emulator, or a GPU.
    language : {"cuda-c", "numba"}

    Returns
    -------
    Trained
    """
    network, trained = Network(place, language, recipe.element), Trained(recipe)
    state = State(network, task, recipe)
    samples, classes = task.data()
    x, labels = network.asarray(samples, is_rounded=True), network.asarray(classes)
    turned = transpose(x, **network.on)
    for step in range(1, recipe.steps + 1):
        scale = state.scaler.get_scale()
        seen = network.forward(state.used, x)
        losses, gradients, passing = network.backward(state.used, turned, labels, seen, scale / BATCH)
        if step == 1:
            trained.gradients = {name: as_numpy(array) for name, array in gradients.items()}
            trained.held = held(state, gradients, [x, turned, *seen.values()], passing)
        trained.losses.append(float(as_numpy(losses).mean()))
        trained.scales.append(scale)
        trained.vanished.append(vanished(gradients))
        if step == recipe.inject:
            gradients["w1"][0, 0] = np.inf
        before = [as_numpy(array).copy() for array in (*state.parameters, *state.moments)]
        if state.update(gradients, step):
            after = (as_numpy(array) for array in (*state.parameters, *state.moments))
            trained.skipped.append(step)
            trained.changed[step] = sum(map(changed_bits, before, after))
    return trained


def held(
    state: State, gradients: Mapping[str, Any], activations: list[Any], passing: Mapping[str, Any]
) -> dict[str, int]:
    """Return the bytes of all arrays that live at the end of a backward pass, by what they are."""
    arrays = {
        "parameters": state.parameters,
        "gradients of parameters": list(gradients.values()),
        "optimiser": state.moments,
        "activations": activations,
        "gradients of activations": list(passing.values()),
    }
    return {name: sum(array.nbytes for array in each) for name, each in arrays.items()}


def as_numpy(array: Any) -> Array:
    """Return an array on the host."""
    found: Array = array if isinstance(array, np.ndarray) else array.get()
    return found


def vanished(gradients: Mapping[str, Any]) -> float:
    """Return which share of the elements is 0.

    Examples
    --------
    >>> vanished({"w": np.array([[0, 1], [-0.0, 2]]), "b": np.ones(4)})
    0.25
    """
    arrays = [as_numpy(array) for array in gradients.values()]
    return float(sum(int((array == 0).sum()) for array in arrays) / sum(array.size for array in arrays))


def changed_bits(before: Array, after: Array) -> int:
    """Return how many bits differ.

    Examples
    --------
    >>> changed_bits(np.array([0.0, 1.0]), np.array([-0.0, 1.0]))
    1
    """
    both = np.ascontiguousarray(before).view(np.uint8) ^ np.ascontiguousarray(after).view(np.uint8)
    return int(np.unpackbits(both).sum())
