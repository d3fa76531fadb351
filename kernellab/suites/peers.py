"""Peers: what people would take instead, under the same clock in the same run, verified too."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from kernellab import catalog
from kernellab.errors import UnavailableError
from kernellab.kernel import Kernel
from kernellab.problem import Case
from kernellab.results import Results, Shown
from kernellab.suites.bench import TIMED, Bench, languages_of, plan_fields, right_kernels, timed_row
from kernellab.suites.peer_works import tensor, torch_on_stream
from kernellab.verify import Verdict, compare
from kernellab.workload import CallWorkload, Workload

COLUMNS = (Shown("problem", "problem"), Shown("workload", "what"), Shown("language", "language"), *TIMED)
Make = Callable[[Any, Mapping[str, Any], Any], Callable[[], object]]
"""``make(cupy, inputs, out) -> call``: raises ImportError where its library is not here."""


@dataclass(frozen=True)
class Peer:
    """What people would take instead of our kernels for one problem.

    Attributes
    ----------
    name : str
    make : callable
        See `Make`.
    """

    name: str
    make: Make


def memcpy(cupy: Any, inputs: Mapping[str, Any], out: Any) -> Callable[[], object]:
    """The driver's copy."""
    runtime = cupy.cuda.runtime

    def call() -> None:
        stream = cupy.cuda.get_current_stream().ptr
        kind = runtime.memcpyDeviceToDevice
        runtime.memcpyAsync(out.data.ptr, inputs["x"].data.ptr, out.nbytes, kind, stream)

    return call


def _torch(cupy: Any, *arrays: Any) -> Any:
    """Return PyTorch, on CuPy's stream, with views of arrays."""
    torch = torch_on_stream(cupy)
    return (torch, *(tensor(torch, array) for array in arrays))


def torch_copy(cupy: Any, inputs: Mapping[str, Any], out: Any) -> Callable[[], object]:
    """PyTorch's copy."""
    _, x, y = _torch(cupy, inputs["x"], out)
    return lambda: y.copy_(x)


def torch_transpose(cupy: Any, inputs: Mapping[str, Any], out: Any) -> Callable[[], object]:
    """PyTorch's copy of a transposed view."""
    _, x, y = _torch(cupy, inputs["x"], out)
    return lambda: y.copy_(x.t())


def torch_relu(cupy: Any, inputs: Mapping[str, Any], out: Any) -> Callable[[], object]:
    """PyTorch's clamp, which writes where it is told."""
    torch, x, y = _torch(cupy, inputs["x"], out)
    return lambda: torch.clamp(x, min=0, out=y)


PEERS: Mapping[str, tuple[Peer, ...]] = {
    "copy": (
        Peer("cudaMemcpy", memcpy),
        Peer("cupy.copyto", lambda cupy, inputs, out: lambda: cupy.copyto(out, inputs["x"])),
        Peer("torch copy_", torch_copy),
    ),
    "transpose": (
        Peer("cupy.copyto(y, x.T)", lambda cupy, inputs, out: lambda: cupy.copyto(out, inputs["x"].T)),
        Peer("torch copy_(x.t())", torch_transpose),
    ),
    "relu": (
        Peer("cupy.maximum", lambda cupy, inputs, out: lambda: cupy.maximum(inputs["x"], 0, out=out)),
        Peer("torch clamp", torch_relu),
    ),
}
SIZES = {"copy": {"n": 2**26}, "transpose": {"rows": 2**13, "columns": 2**13}, "relu": {"n": 2**26}}


def run(bench: Bench, sizes: Mapping[str, Mapping[str, int]] = SIZES) -> Results:
    """Time the rungs of each problem that has peers, beside them and beside cudaMemcpy."""
    rows: list[dict[str, Any]] = []
    notes: list[str] = []
    used: list[Kernel] = []
    for problem in PEERS:
        kernels = [each for each in right_kernels(catalog.ladder(problem)) if is_comparable(each)]
        used += kernels
        rows += _time(bench, problem, kernels, Case("peers", dict(sizes[problem])), notes)
    bars = _bars(rows)
    return bench.results(
        "peers",
        "What people would take instead, interleaved with ours",
        rows,
        used,
        columns=COLUMNS,
        bars=bars,
        notes=(
            "cold L2, median; all of a problem interleaved, every answer verified before and after",
            *notes,
        ),
        lines=(*_lines(rows), *notes),
    )


def is_comparable(kernel: Kernel) -> bool:
    """Whether a rung does what its peers do: takes just x, in float32, with no order or offset of its own."""
    takes = [(item.name, item.dtype) for item in kernel.inputs]
    return takes == [("x", "float32")] and not kernel.parameters


def _time(
    bench: Bench, problem: str, kernels: list[Kernel], case: Case, notes: list[str]
) -> list[dict[str, Any]]:
    plans = {kernel.id: bench.plan(kernel, case) for kernel in kernels}
    works: dict[str, Workload] = {}
    about: dict[str, dict[str, Any]] = {}
    for kernel in kernels:
        for language in languages_of(kernel):
            bench.progress(f"{kernel.id} {language}")
            work = bench.workload(plans[kernel.id], language)
            works[work.name] = work
            about[work.name] = plan_fields(plans[kernel.id], language) | {"workload": kernel.id}
    plan = plans[kernels[0].id]
    expected = plan.reference()["y"]
    inputs = {key: bench.device.on_device(array) for key, array in plan.inputs.items()}
    for peer in PEERS[problem]:
        bench.progress(f"{problem}: {peer.name}")
        try:
            works[peer.name] = peer_workload(bench, peer, inputs, expected, plan.cost().nbytes)
        except (ImportError, UnavailableError) as error:
            notes.append(f"{peer.name} was left out: {error}")
    copy = works.get("cudaMemcpy")
    if copy is None:
        copy = works["copy of as many bytes"] = bench.copy(plan.cost().nbytes, "copy of as many bytes")
    timings = bench.time(list(works.values()))
    for name in [name for name, timing in timings.items() if not timing.seconds > 0]:
        notes.append(f"{name} was left out: no time passed between the clock's events, it ran elsewhere")
        works.pop(name)
    return [
        timed_row(work, timings[name], timings[copy.name])
        | about.get(name, {"kernel": "", "language": "", "workload": name})
        | {"problem": problem}
        for name, work in works.items()
    ]


def peer_workload(
    bench: Bench, peer: Peer, inputs: Mapping[str, Any], expected: Any, nbytes: int
) -> CallWorkload:
    """Return a peer as a workload whose answer is verified bit for bit with NumPy's."""
    cupy = bench.device.cupy
    out = bench.device.allocate(lambda: cupy.empty(expected.shape, expected.dtype))
    reference = bench.device.on_device(expected)

    def check() -> Verdict:
        if bool(cupy.array_equal(out.view("uint32"), reference.view("uint32"))):
            return Verdict(peer.name, ())
        return Verdict(peer.name, (compare(cupy.asnumpy(out), expected, is_bitwise=True),))

    call = peer.make(cupy, inputs, out)
    return CallWorkload(peer.name, call, nbytes, check=check, spoil=lambda: out.view("uint8").fill(0xFF))


def _bars(rows: list[dict[str, Any]]) -> dict[str, bool]:
    speeds = {(r["workload"], r["language"]): r for r in rows}
    copy, memcpy_row = speeds[("copy/float4", "cuda-c")], speeds[("cudaMemcpy", "")]
    ours = max(
        (r for r in rows if r["problem"] == "transpose" and r["kernel"]),
        key=lambda r: float(r["gigabytes_per_second"]),
    )
    cupys = speeds[("cupy.copyto(y, x.T)", "")]
    ratio = ours["gigabytes_per_second"] / cupys["gigabytes_per_second"]
    return {
        f"copy/float4 is at least 0.98 of cudaMemcpy (is {copy['fraction_of_copy']:.3f})": (
            copy["gigabytes_per_second"] >= 0.98 * memcpy_row["gigabytes_per_second"]
        ),
        f"the best transpose ({ours['workload']}) is at least 0.90 of a copy (is "
        f"{ours['fraction_of_copy']:.3f})": ours["fraction_of_copy"] >= 0.90,
        f"the best transpose is at least 3 times CuPy's (is {ratio:.2f})": ratio >= 3,
    }


def _lines(rows: list[dict[str, Any]]) -> tuple[str, ...]:
    texts = []
    for problem in dict.fromkeys(row["problem"] for row in rows):
        chosen = [row for row in rows if row["problem"] == problem]
        parts = (f"{r['workload']} {r['language']} {r['gigabytes_per_second']:.0f}" for r in chosen)
        texts.append(f"{problem} GB/s: " + ", ".join(" ".join(part.split()) for part in parts))
    return tuple(texts)


__all__ = ["PEERS", "Peer", "is_comparable", "peer_workload", "run"]
