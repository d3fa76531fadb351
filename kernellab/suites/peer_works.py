"""Peers as works: what a peer gets, PyTorch on CuPy's stream, and how what a peer wrote is judged."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from kernellab import catalog
from kernellab.plan import Plan
from kernellab.suites.arena import Arena
from kernellab.tensor_lists import flattened
from kernellab.verify import Comparison, Verdict, poison_byte
from kernellab.workload import CallWorkload

SLACK = {"float32": 1024.0}
"""Times our own limit that a peer may miss in an element; elsewhere 4: one of several kernels rounds between them.
In float32 PyTorch's GeLU subtracts from 1, which loses most digits of small answers."""
ABSOLUTE = {"float32": 2.0**-21}
"""How far a peer may be off beyond that: PyTorch's float32 GeLU loses all digits of -5e-9, which becomes -0."""
DROPPED_WITHIN = 0.02
"""How far the share that another generator drops may lie from what was asked for."""


@dataclass(frozen=True)
class Setting:
    """What a peer works on.

    Attributes
    ----------
    xp : module
        CuPy.
    inputs : mapping of str to cupy.ndarray
        bfloat16 as uint16.
    out : cupy.ndarray
        What it may write.
    element : str
        What operands hold.
    sizes, parameters : mapping
        Sizes, and run-time scalars with their defaults.
    """

    xp: Any
    inputs: Mapping[str, Any]
    out: Any
    element: str
    sizes: Mapping[str, int]
    parameters: Mapping[str, Any]


Make: TypeAlias = Callable[[Setting], Callable[[], Any]]
"""``make(setting) -> call``: the call returns its output, or None where it wrote ``setting.out``."""


@dataclass(frozen=True)
class Peer:
    """What people would take instead of our kernels for one problem.

    Attributes
    ----------
    name : str
    make : callable
        See `Make`; raises where its library is not here.
    family : str
        Of peers of one family only the fastest is timed beside the others.
    is_random : bool
        Whether it drops elements of its own choice: then the share and the values of those kept are judged.
    is_for : callable
        ``is_for(arena)``: whether it takes part.
    slack : float
        Times our own limit that it may miss; 0 for what is usual in the element.
    work : callable, optional
        ``work(arena, peer, plan)`` in place of `peer_work`.
    """

    name: str
    make: Make
    family: str = ""
    is_random: bool = False
    is_for: Callable[[Arena], bool] = lambda arena: True
    slack: float = 0.0
    work: Callable[[Arena, Peer, Plan], CallWorkload] | None = None


def torch_on_stream(xp: Any) -> Any:
    """Import PyTorch and put it on CuPy's current stream."""
    import torch

    pointer = xp.cuda.get_current_stream().ptr
    # 0 is the default stream of both; ExternalStream(0) is one from PyTorch's pool, on which no clock looks.
    torch.cuda.set_stream(torch.cuda.ExternalStream(pointer) if pointer else torch.cuda.default_stream())
    return torch


def tensor(torch: Any, array: Any, element: str = "") -> Any:
    """Return a CuPy array as a tensor on the same memory; `element` tells bfloat16 from its bits."""
    if element == "bfloat16" and array.dtype == "uint16":
        return torch.from_dlpack(array.view("int16")).view(torch.bfloat16)
    return torch.from_dlpack(array)


def tensors(setting: Setting) -> tuple[Any, dict[str, Any], Any]:
    """Return PyTorch on CuPy's stream, the inputs by name and the output as tensors."""
    torch = torch_on_stream(setting.xp)
    given = {name: tensor(torch, array, setting.element) for name, array in setting.inputs.items()}
    return torch, given, tensor(torch, setting.out, setting.element)


def as_array(xp: Any, found: Any) -> Any:
    """Return what a peer gave as an array of CuPy's; tensors of bfloat16 as their bits."""
    if type(found).__module__.partition(".")[0] != "torch":
        return found
    import torch

    found = found.detach().contiguous()
    return xp.from_dlpack(found.view(torch.int16) if found.dtype == torch.bfloat16 else found)


def peer_work(arena: Arena, peer: Peer, plan: Plan) -> CallWorkload:
    """Return a peer as a work judged by the same answer as ours; `plan` is of any rung."""
    xp, (name, spec) = arena.xp, next(iter(plan.outputs.items()))
    out = arena.bench.device.empty(spec)
    known = flattened(arena.inputs)
    given = {key: known[key] for key in plan.inputs}
    call = peer.make(Setting(xp, given, out, arena.element, arena.sizes, plan.parameters))
    held: dict[str, Any] = {}  # not the work's own: a cycle would keep its arrays

    def run() -> None:
        held["found"] = call()

    def check() -> Verdict:
        given_back = held.get("found")
        found = out if given_back is None else as_array(xp, given_back)
        if peer.is_random:
            return _dropped(arena, peer, plan, found)
        slack = peer.slack or SLACK.get(arena.element, 4.0)
        return arena.answers(plan)[name].judge(
            xp, peer.name, name, found, slack, ABSOLUTE.get(arena.element, 0.0)
        )

    def spoil() -> None:
        held.clear()
        out.reshape(-1).view("uint8").fill(poison_byte(spec.dtype))

    cost = plan.cost()
    return CallWorkload(peer.name, run, cost.nbytes, cost.flops, check, spoil, written=cost.bytes_written)


def _dropped(arena: Arena, peer: Peer, plan: Plan, found: Any) -> Verdict:
    """Judge softmax with dropout of another generator: what is kept is right, and about as much as asked."""
    name, p = "y", float(plan.parameters["p"])
    kernel = catalog.ladder("softmax")[0]
    whole = arena.reference_of(kernel)["y"]
    kept = found != 0
    share = float(kept.mean())
    if abs(share - (1 - p)) > DROPPED_WITHIN:
        message = f"{name} keeps {share:.3f} of its elements, it must be about {1 - p:.3f}"
        return Verdict(peer.name, (Comparison(name, found.size, found.size, message),))
    answer = type(whole)(whole.expected * kept / (1 - p), whole.limit * (1 / (1 - p)), whole.dtype)
    return answer.judge(arena.xp, peer.name, name, found, SLACK.get(arena.element, 4.0))


__all__ = ["Make", "Peer", "Setting", "as_array", "peer_work", "tensor", "tensors", "torch_on_stream"]
