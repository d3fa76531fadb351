"""The experiment all-reduce: what it counts, what two fake GPUs make of it, and that all of it can fail."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from experiment_runs import check_that_each_is_broken_once, mutant_of, quick_result_of
from rank_fakes import KERNELS, LINK_SECONDS, all_reduce, make_ranks, wide

from kernellab.errors import MismatchError, UnavailableError
from kernellab.experiments import all_reduce as experiment
from kernellab.experiments import load, ranks
from kernellab.experiments.clocked import GpuClock
from kernellab.experiments.picture import Timeline
from kernellab.experiments.ranks import ALL, BROKEN, EACHS, Measured, Stand
from kernellab.experiments.runner import run
from kernellab.report.pictures import ASCII, draw
from kernellab.timeline import Overlap

LAYERS, SIDE = 4, 64
MUTANTS = {
    "every answer": ("    sum[k] += other[k];", "    sum[k] += other[k] + 1.0f;"),
    "each way of the link": (
        "y_wide[v] = reinterpret_cast<const wide16_t*>(y)[i];",
        "const unsigned* w = reinterpret_cast<const unsigned*>(y) + 4 * i; "
        "y_wide[v] = make_uint4(w[0], w[1], w[2], w[3]);",
    ),
    "the two ranks together": (
        "const Share share(rank, n, EACH);",
        "const Share share(rank, n, EACH);\n"
        "if (rank == 0 && n > 2000 && threadIdx.x == 0) {\n"
        "volatile unsigned short* far = reinterpret_cast<volatile unsigned short*>(x) + n - 1; *far = *far; }",
    ),
}
BITS = "both ranks end with the same bits"


# -- without a GPU
def test_without_a_gpu_everything_holds_that_can_be_said() -> None:
    result = quick_result_of("all-reduce")
    assert {outcome.verdict for outcome in result.expectations} == {"held"}
    assert {(claim.verdict, claim.found) for claim in result.claims} == {("needs a GPU", experiment.NEEDED)}
    assert [claim.text for claim in result.claims] == list(experiment.CLAIMS)
    check_that_each_is_broken_once("all-reduce", [*MUTANTS, BITS])


@pytest.mark.parametrize("start", MUTANTS)
def test_mutant_breaks_its_expectation(start: str, tmp_path: Path) -> None:
    mutant = mutant_of("all_reduce/vectorised", tmp_path, MUTANTS[start])
    changed = load("all-reduce").replacing("all_reduce/vectorised", mutant.with_element("float16"))
    (broken,) = [
        each for each in run(changed, "emulator", ("cuda-c",)).expectations if each.text.startswith(start)
    ]
    assert broken.verdict == "failed", broken.found


def test_other_bits_on_one_rank_are_seen(tmp_path: Path) -> None:
    edit = "reinterpret_cast<wide16_t*>(y)[i] = packed;", "reinterpret_cast<wide16_t*>(y)[i] = y_wide[v];"
    mutant = mutant_of("all_reduce/vectorised", tmp_path, edit)
    is_same, found = experiment.same_bits(mutant, "cuda-c")
    assert not is_same
    assert "0 of" not in found


@pytest.mark.parametrize(("devices", "here"), [(1, "one is here"), (3, "of the 3 here no two do")])
def test_fewer_than_two_gpus_that_reach_each_other_are_refused(monkeypatch, devices, here) -> None:
    world, device = make_ranks(monkeypatch, devices=devices)
    world.is_reached = False
    with pytest.raises(UnavailableError, match=rf"all-reduce: it takes two GPUs that reach .*, {here}"):
        experiment.observe(GpuClock(device, "cuda-c"))


# -- on two fake GPUs
@pytest.fixture
def stand(monkeypatch):
    _, device = make_ranks(monkeypatch)
    return Stand(device, "cuda-c", SIDE, LAYERS, SIDE)


def test_peer_access_that_was_enabled_before_is_taken(stand) -> None:
    Stand(stand.layers.device, "cuda-c", SIDE, LAYERS, SIDE)


def test_every_way_gives_the_sums_and_what_breaks_it_is_seen(stand) -> None:
    found = stand.measure(rounds=2)
    assert list(found) == [variant.label for variant in ALL]
    each, end = found[ranks.EACH.label], found[ranks.END.label]
    assert each.overlap.of_ideal > 0.85  # the last bucket of few
    assert each.seconds < end.seconds
    for variant in (ranks.END, ranks.SAME, ranks.WAITS):
        assert found[variant.label].overlap.hidden < 0.1, variant.label
    stages = [span.stage for span in each.spans]
    assert stages.count("rank 0 computes") == stages.count("rank 1 computes") == 2 * LAYERS - 1
    assert stages.count("rank 0 adds up") == LAYERS
    assert all(0 <= span.start <= span.stop for span in each.spans)
    assert 0 < ranks.shorter(found) < 1
    assert 0.5 < ranks.hidden(found) <= 1.01
    assert f": {ranks.WAITS.reason}" in str(found[ranks.WAITS.label])


def test_copies_carry_a_bucket_each_way(stand) -> None:
    world = stand.layers.device.cupy.cuda.runtime.deviceEnablePeerAccess.__self__
    iteration = stand.iteration(ranks.EACH_COPIES.way)
    world.log.clear()
    iteration.run()
    for way in ((0, 1), (1, 0)):
        moved = sum(
            nbytes
            for what, *rest in world.log
            if what == "peer" and tuple(rest[:2]) == way
            for nbytes in rest[2:]
        )
        assert moved == LAYERS * SIDE**2 * 2


def test_fastest_shapes_are_taken(stand) -> None:
    stand.choose(rounds=1)
    assert stand.shapes["beside"] in ranks.BESIDE
    assert stand.shapes["alone"] in ranks.ALONE


def test_the_link_is_measured(stand) -> None:
    one_way, both_ways = stand.link(rounds=1)
    assert one_way == pytest.approx(2 / LINK_SECONDS, rel=0.01)
    assert both_ways == pytest.approx(one_way, rel=0.01)


def test_sums_that_one_rank_does_not_get_have_no_speed(stand, monkeypatch) -> None:
    world = stand.layers.device.cupy.cuda.runtime.deviceEnablePeerAccess.__self__

    def forgets(x, y, rank, n):
        kept = y.copy()
        all_reduce(x, y, rank, n)
        y[...] = kept

    world.kernels = {**KERNELS, "all_reduce_vectorised": forgets}
    with pytest.raises(
        MismatchError, match=r"all-reduce, all at the end: .* gradients of rank 1 are not the sums"
    ):
        stand.measure()


def test_a_wrong_product_is_refused(monkeypatch) -> None:
    world, device = make_ranks(monkeypatch)
    world.kernels["matmul_nt_mma"] = lambda a, b, y, *sizes: y.__setitem__(
        ..., (wide(a) @ wide(b).T + 1).astype(np.float16)
    )
    with pytest.raises(MismatchError, match="matmul_nt/wmma: y differs"):
        Stand(device, "cuda-c", SIDE, LAYERS, SIDE)


def test_on_two_gpus_claims_are_judged_and_time_lines_drawn(monkeypatch) -> None:
    _, device = make_ranks(monkeypatch)
    real = Stand
    monkeypatch.setattr(
        ranks,
        "Stand",
        lambda device, language, tokens=SIDE: real(device, language, min(tokens, SIDE), LAYERS, SIDE),
    )
    seen = experiment.observe(GpuClock(device, "cuda-c"))
    assert set(seen.claims) == set(experiment.CLAIMS)
    for text in (experiment.POINTS, experiment.IN_ORDER):
        assert seen.claims[text][0] == "held", seen.claims[text]
    assert "GB/s one way" in seen.notes[0]
    lines = [each for each in seen.pictures if isinstance(each, Timeline)]
    drawn = [line.plain for line in draw(lines[1], 80, ASCII)]
    assert [line.split()[:3] for line in drawn[1:5]] == [
        ["rank", str(rank), what] for rank in (0, 1) for what in ("adds", "computes")
    ]
    watched = experiment.observe(GpuClock(device, "cuda-c", is_timing=False))
    assert watched.claims == {}
    assert len(watched.pictures) == 1


def measured(seconds: dict[str, float]) -> dict[str, Measured]:
    slow = {each.label for each in (*ranks.ENDS, *BROKEN)}
    return {
        each.label: Measured(
            each,
            (1.0,),
            Overlap(
                seconds.get(each.label, 12.0 if each.label in slow else 10.0),
                {"compute": 9.8, "all-reduce": 2.2},
            ),
            (),
        )
        for each in ALL
    }


def test_each_claim_can_be_refuted() -> None:
    little = measured(dict.fromkeys((each.label for each in EACHS), 11.5))
    good = experiment.verdicts(measured({}), little)
    assert {verdict for verdict, _ in good.values()} == {"held"}
    assert good[experiment.SHORTER][1].startswith("16.7 % shorter")
    for text, label in (
        (experiment.POINTS, ranks.WAITS.label),
        (experiment.IN_ORDER, ranks.SAME.label),
        (experiment.LARGE, ranks.SMALL.label),
    ):
        assert experiment.verdicts(measured({label: 10.1}), little)[text][0] == "refuted"
    faster_end = measured({ranks.END_COPIES.label: 11.0})
    assert experiment.verdicts(faster_end, little)[experiment.SHORTER][0] == "refuted"
    assert experiment.verdicts(measured({}), measured({}))[experiment.WORK][0] == "refuted"
