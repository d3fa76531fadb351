"""The suite optimizer on a fake GPU: what is timed, in-place work restored and judged, bars that can be missed."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent.parent))
from timing_fakes import FakeGpu, FakeStopwatch, make_bench

from kernellab import catalog
from kernellab.report.results import markdown_table, shown_rows
from kernellab.suites import optimizer, tensor_arena, tune
from kernellab.suites.bench import Bench
from kernellab.suites.optimizer import Heat
from kernellab.suites.tensor_arena import TensorArena

MANY = {"n": 700, "mixed_tensors": 14}


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Bench:
    monkeypatch.setattr(FakeGpu, "build", lambda self, kernel, language="cuda-c": None)
    return make_bench()


class Tensor:
    """What the peers ask of a tensor, on a NumPy array."""

    def __init__(self, host: np.ndarray) -> None:
        self.host, self.device = host, "cuda"

    def __getitem__(self, place: int) -> float:
        return float(self.host[place])

    def mul_(self, factor: float) -> None:
        self.host *= self.host.dtype.type(factor)


class Torch:
    """PyTorch's functions that the peers call, by the catalogue's own references; some wrong on request."""

    float32 = "float32"

    def __init__(self, stopwatch: FakeStopwatch, scale: float = 1.0) -> None:
        self.stopwatch, self.scale = stopwatch, scale

    def full(self, shape: object, value: float, device: str) -> float:
        return value

    def empty_like(self, one: Tensor) -> Tensor:
        return Tensor(np.empty_like(one.host))

    def _foreach_copy_(self, targets: list[Tensor], sources: list[Tensor]) -> None:
        for target, source in zip(targets, sources, strict=True):
            target.host[...] = source.host

    def _amp_foreach_non_finite_check_and_unscale_(
        self, arrays: list[Tensor], found: Tensor, scale: Tensor
    ) -> None:
        self.stopwatch.pass_time(1e-6)
        for each in arrays:
            each.host *= each.host.dtype.type(scale[0] * self.scale)

    def _fused_adamw_(
        self,
        params: list[Tensor],
        grads: list[Tensor],
        means: list[Tensor],
        squares: list[Tensor],
        most: list[Tensor],
        steps: list[float],
        **options: float,
    ) -> None:
        self.stopwatch.pass_time(1e-6)
        assert not most
        named = {"rate1": 1 - options["beta1"], "rate2": 1 - options["beta2"]}
        for p, g, m, v, step in zip(params, grads, means, squares, steps, strict=True):
            found = catalog.adamw.stepped(
                p.host, g.host, m.host, v.host, self.scale, {**options, **named}, step
            )
            p.host[...], m.host[...], v.host[...] = (
                found[name] for name in ("param", "exp_avg", "exp_avg_sq")
            )


def with_torch(monkeypatch: pytest.MonkeyPatch, torch: Torch) -> None:
    import kernellab.catalog.adamw  # noqa: F401 - the fake's reference

    monkeypatch.setattr(tensor_arena, "torch_on_stream", lambda xp: torch)
    monkeypatch.setattr(tensor_arena, "tensor", lambda torch, array, element: Tensor(array))


CHOSEN = (
    Heat("unscale", "float16", {"n": 700, "tensors": 3}),
    Heat("unscale", "float16", {"n": 700}),
    Heat("adamw", "float32", {"n": 700}),
    Heat("adamw", "bfloat16", MANY, is_mixed=True),
    Heat("global_norm", "float16", MANY),
)


def test_everything_is_timed_and_right(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    with_torch(monkeypatch, Torch(bench.stopwatch))
    found = optimizer.run(bench, CHOSEN)
    ran = [(row["heat"].partition(",")[0], row["workload"]) for row in found.rows if "samples" in row]
    assert ("unscale float16", "unscale/vectorised numba") in ran
    assert ("adamw bfloat16 and 16-bit parameters", "adamw/mixed cuda-c") in ran
    assert ("global_norm float16", "global_norm/multi cuda-c") in ran
    peers = [what for _, what in ran if "torch" in what]
    assert peers.count("torch._amp_foreach_non_finite_check_and_unscale_") == 2
    assert {"torch._fused_adamw_", "casts and torch._fused_adamw_"} <= set(peers)
    assert not [note for note in found.notes if "WRONG" in note]
    assert [row["what"] for row in shown_rows(found)] == [heat.label for heat in CHOSEN]
    assert "700 elements in 14 arrays" in markdown_table(found)


def test_a_peer_that_computes_something_else_has_no_time(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_torch(monkeypatch, Torch(bench.stopwatch, scale=1.02))
    found = optimizer.run(bench, CHOSEN[:3])
    assert not any("torch" in row["workload"] for row in found.rows if "samples" in row)
    assert any("WRONG: torch._fused_adamw_: exp_avg differs in" in note for note in found.notes)


def test_a_kernel_that_stops_writing_has_no_time(bench: Bench) -> None:
    bench.device.breaks_at = 20
    found = optimizer.run(bench, CHOSEN[2:3])
    assert any("WRONG: adamw/multi cuda-c: param differs" in note for note in found.notes)
    assert not all(found.bars.values())


def test_arrays_are_split_as_asked() -> None:
    assert [heat.sizes for heat in optimizer.heats()][:2] == [{"n": 2**26, "tensors": 64}, {"n": 2**26}]
    lengths = tensor_arena.lengths_of({"n": 2**22, "mixed_tensors": 256})
    assert lengths is not None
    assert (len(lengths), sum(lengths)) == (256, 2**22)
    assert max(lengths) > 1000 * min(lengths) > 0


def rows_of(seconds: float, theirs: float) -> list[dict]:
    return [
        {
            "heat": heat.label, "workload": name, "kernel": kernel, "language": "cuda-c" if kernel else "",
            "seconds": time, "fraction_of_copy": 1 / time, "gigabytes_per_second": 4000 / time,
        }
        for heat in optimizer.heats()
        for name, kernel, time in (
            ("ours", f"{heat.problem}/multi", seconds),
            ("torch", "", theirs),
        )
    ]  # fmt: skip


def test_bars_hold_and_can_be_missed() -> None:
    chosen = tuple(optimizer.heats())
    assert all(optimizer.bars(rows_of(1.0, 2.0), chosen).values())
    assert len(optimizer.bars(rows_of(1.0, 2.0), chosen)) == 6
    slow = optimizer.bars(rows_of(1.1, 2.0), chosen)
    assert sorted(slow.values()) == [False] * 3 + [True] * 3
    near = optimizer.bars(rows_of(1.0, 1.14), chosen)
    assert [text for text, is_reached in near.items() if is_reached] == [
        text for text in near if "of copy" in text
    ]


def test_rungs_over_lists_are_tuned(bench: Bench) -> None:
    table = tune.tune(
        bench, catalog.kernel("unscale/multi"), {"n": 700, "tensors": 3}, {"VECTORS": (1, 2)}, "float16"
    )
    assert {row[0] for row in table.rows} == {"as chosen", "VECTORS=1", "VECTORS=2"}


def test_numbers_of_one_element_are_those_of_the_problem(bench: Bench) -> None:
    arena = TensorArena(bench, catalog.problem("adamw"), {"n": 20, "tensors": 2})
    assert arena.inputs["found"].tolist() == [0]
    assert [each.shape for each in arena.inputs["grad"]] == [(10,), (10,)]
    assert not np.array_equal(arena.inputs["grad"][0], arena.inputs["grad"][1])
    assert SimpleNamespace(**arena.inputs).skipped.dtype == np.int32
