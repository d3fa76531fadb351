"""Optimizer: unscaling, norms and AdamW over few large and many small arrays, beside PyTorch, under one clock."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from kernellab import catalog
from kernellab.kernel import Kernel, Language
from kernellab.results import Results, Shown
from kernellab.suites.arena import Arena
from kernellab.suites.bench import Bench
from kernellab.suites.peer_works import Peer, Setting, tensor, torch_on_stream
from kernellab.suites.precompile import precompile
from kernellab.suites.race import Rows, bar, beside, best_peer, compiled, ours, race, race_all, ratio
from kernellab.suites.side_by_side import RULE
from kernellab.suites.tensor_arena import TensorArena, in_place
from kernellab.tensor_lists import each_of

ONE = replace(RULE, queue=1)
"""Where one sample may be hundreds of launches: more of them than the driver queues must not wait behind one gate."""
N = 2**26
MANY = {"n": 2**22, "mixed_tensors": 256}
COLUMNS = (
    Shown("what", "problem"),
    Shown("rung", "our rung"),
    Shown("ours", "GB/s", digits=0),
    Shown("of_copy", "of copy", digits=3),
    Shown("peer", "best peer"),
    Shown("theirs", "GB/s", digits=0),
    Shown("ratio", "ours / peer", digits=3),
    Shown("each", "ours / a launch each", digits=2),
    Shown("twin_of_copy", "Numba, of copy", digits=3),
)


@dataclass(frozen=True)
class Heat:
    """One problem in one element, its arrays split so or so."""

    problem: str
    element: str
    sizes: Mapping[str, int]
    is_mixed: bool = False

    @property
    def label(self) -> str:
        """What tells it from the others."""
        count = self.sizes.get("tensors") or self.sizes.get("mixed_tensors")
        arrays = f" in {count} arrays" if count else ""
        kind = " and 16-bit parameters" if self.is_mixed else ""
        return f"{self.problem} {self.element}{kind}, {self.sizes['n']} elements{arrays}"

    def rungs(self) -> list[tuple[Kernel, Language]]:
        """Return what of ours is timed: by a table, by a launch for each array, and that in Numba."""
        ladder = {kernel.name: kernel for kernel in catalog.ladder(self.problem)}
        if self.is_mixed:
            return [(ladder["mixed"], "cuda-c")]
        found: list[tuple[Kernel, Language]] = [(ladder["multi"], "cuda-c"), (ladder["vectorised"], "cuda-c")]
        return found + ([] if self.is_split else [(ladder["vectorised"], "numba")])

    @property
    def is_split(self) -> bool:
        """Whether there are many arrays."""
        return len(self.sizes) > 1


def heats(n: int = N, many: Mapping[str, int] = MANY) -> Iterator[Heat]:
    """Return what is timed."""
    for sizes in ({"n": n, "tensors": 64}, {"n": n}, many):
        yield Heat("unscale", "float16", sizes)
    for sizes in ({"n": n}, many):
        yield Heat("adamw", "float32", sizes)
        yield Heat("adamw", "float16", sizes, is_mixed=True)
        yield Heat("global_norm", "float16", sizes)


# -- peers
def _nothing() -> None:
    pass


def _unscale(torch: Any, tensors: dict[str, Any], setting: Setting) -> Any:
    arrays = list(each_of(tensors["x"]))
    found, scale = tensors["found"], tensors["inv_scale"]
    return lambda: torch._amp_foreach_non_finite_check_and_unscale_(arrays, found, scale), _nothing


def _prepared(torch: Any, tensors: dict[str, Any], setting: Setting) -> tuple[list[Any], ...]:
    """Return the lists of a step, gradients times what ours multiplies them by in its pass; and the count of steps."""
    params, grads, means, squares = (
        list(each_of(tensors[name])) for name in ("param", "grad", "exp_avg", "exp_avg_sq")
    )
    scale = float(tensors["inv_scale"][0])
    for each in grads:
        each.mul_(scale)
    step = float(setting.parameters["step"]) - float(tensors["skipped"][0])
    return params, grads, means, squares, [torch.full((), step, device=each.device) for each in params]


def _options(setting: Setting) -> dict[str, Any]:
    given = {name: float(value) for name, value in setting.parameters.items()}
    return {
        **{name: given[name] for name in ("lr", "weight_decay", "eps")},
        "beta1": 1 - given["rate1"],
        "beta2": 1 - given["rate2"],
        "amsgrad": False,
        "maximize": False,
    }


def _fused(torch: Any, tensors: dict[str, Any], setting: Setting) -> Any:
    params, grads, means, squares, steps = _prepared(torch, tensors, setting)
    options = _options(setting)
    return lambda: torch._fused_adamw_(params, grads, means, squares, [], steps, **options), _nothing


def _stepped(torch: Any, tensors: dict[str, Any], setting: Setting) -> Any:
    arrays, grads, means, squares, steps = _prepared(torch, tensors, setting)
    params = [torch.nn.Parameter(each) for each in arrays]
    options = _options(setting)
    betas = options["beta1"], options["beta2"]
    kept = {name: options[name] for name in ("lr", "weight_decay", "eps")}
    optimizer = torch.optim.AdamW(params, betas=betas, fused=True, **kept)
    for k, param in enumerate(params):
        param.grad = grads[k]
        optimizer.state[param] = {"step": steps[k], "exp_avg": means[k], "exp_avg_sq": squares[k]}
    before = float(steps[0]) - 1 if steps else 0.0

    def reset() -> None:
        torch._foreach_zero_(steps)
        torch._foreach_add_(steps, before)

    return optimizer.step, reset


def _with_casts(torch: Any, tensors: dict[str, Any], setting: Setting) -> Any:
    params, grads, means, squares, steps = _prepared(torch, tensors, setting)
    halves, options = list(each_of(tensors["half"])), _options(setting)
    wide = [torch.empty_like(each) for each in params]

    def call() -> None:
        torch._foreach_copy_(wide, grads)
        torch._fused_adamw_(params, wide, means, squares, [], steps, **options)
        torch._foreach_copy_(halves, params)

    return call, _nothing


def _norm(setting: Setting) -> Any:
    torch = torch_on_stream(setting.xp)
    arrays = [array for name, array in setting.inputs.items() if name.startswith("x")]
    given = [tensor(torch, array, setting.element) for array in arrays]

    def call() -> Any:
        norms = torch._foreach_norm(given, 2, dtype=torch.float32)
        return torch.linalg.vector_norm(torch.stack(norms)).reshape(1)

    return call


PEERS: Mapping[str, Sequence[Peer]] = {
    "unscale": (in_place("torch._amp_foreach_non_finite_check_and_unscale_", _unscale),),
    "adamw": (in_place("torch._fused_adamw_", _fused), in_place("torch.optim.AdamW(fused=True)", _stepped)),
    "mixed": (in_place("casts and torch._fused_adamw_", _with_casts),),
    "global_norm": (Peer("torch._foreach_norm and vector_norm", _norm),),
}


# -- the suite
def run(bench: Bench, chosen: Sequence[Heat] = ()) -> Results:
    """Time every heat."""
    chosen = chosen or tuple(heats())
    ready = [entry for heat in chosen for entry in compiled(_arena(bench, heat), heat.rungs())]
    precompile(bench, ready)

    def timed(heat: Heat, arena: Arena) -> Rows:
        peers = PEERS["mixed" if heat.is_mixed else heat.problem]
        rule = ONE if heat.is_split else RULE
        return [{"heat": heat.label, **row} for row in race(arena, heat.rungs(), peers, rule=rule)]

    rows, told = race_all(bench, chosen, lambda heat: _arena(bench, heat), timed)
    shown = [summary(heat, found) for heat in chosen if (found := of(rows, heat))]
    used = {kernel.id: kernel for heat in chosen for kernel, _ in heat.rungs()}
    return bench.results(
        "optimizer",
        "Unscaling, norms and AdamW, in place, beside PyTorch",
        (*shown, *rows),
        used.values(),
        columns=COLUMNS,
        bars=bars(rows, chosen),
        notes=(
            f"arrays of {N} elements in all, or 256 arrays of 2 to 3 orders of magnitude; cold L2, medians, all of a "
            "row interleaved with cudaMemcpy of as many bytes; what is changed in place is restored before each "
            "sample; every answer checked in full on the device before and after",
            *told,
        ),
        lines=(*(_line(row) for row in shown), *told),
    )


def _arena(bench: Bench, heat: Heat) -> TensorArena:
    return TensorArena(bench, catalog.problem(heat.problem), heat.sizes, heat.element)


def of(rows: Rows, heat: Heat) -> Rows:
    """Return the rows of one heat."""
    return [row for row in rows if row["heat"] == heat.label]


def summary(heat: Heat, rows: Rows) -> dict[str, Any]:
    """Return a row of the table."""
    tables = [row for row in rows if not row["kernel"].endswith("/vectorised")]
    each = [row for row in rows if row["kernel"].endswith("/vectorised")]
    first, twin = ours(tables), ours(rows, "numba")
    return {
        "what": heat.label,
        **beside(first, best_peer(rows)),
        "each": ratio(first, ours(each)),
        "twin_of_copy": twin["fraction_of_copy"] if twin else None,
    }


def _line(row: Mapping[str, Any]) -> str:
    parts = [f"{row['what']}:"]
    for key, unit in (("ours", " GB/s"), ("of_copy", " of copy"), ("ratio", f" of {row['peer']}")):
        if row[key] is not None:
            parts.append(f"{row[key]:.4g}{unit}")
    return " ".join(parts)


LEAST = {"unscale": 1.5, "adamw": 1.15}
"""Times PyTorch's speed that ours must have."""


def bars(rows: Rows, chosen: Sequence[Heat]) -> dict[str, bool]:
    """Return what large arrays have to reach, each with what was found."""
    found: dict[str, bool] = {}
    for heat in chosen:
        if heat.problem not in LEAST or heat.is_mixed or "mixed_tensors" in heat.sizes:
            continue
        row = summary(heat, of(rows, heat))
        found |= bar(f"{heat.label}: at least 0.95 of copy", row["of_copy"], 0.95)
        least = LEAST[heat.problem]
        found |= bar(f"{heat.label}: at least {least} times PyTorch", row["ratio"], least)
    return found


__all__ = ["Heat", "bars", "heats", "run", "summary"]
