"""What the experiments find, as data."""

from __future__ import annotations

import dataclasses
import json

import pytest
import timing_fakes
from experiment_runs import result_of

from kernellab.catalog import kernel
from kernellab.errors import MismatchError, SpecError, UnavailableError
from kernellab.experiments import EXPERIMENTS, FUNDAMENTALS, load
from kernellab.experiments.banks import predicted_wavefronts, tile_words, wavefronts_of
from kernellab.experiments.clocked import GpuClock
from kernellab.experiments.experiment import Point, Result
from kernellab.experiments.runner import run
from kernellab.instruments.clock import Timing
from kernellab.problem import Case


@pytest.mark.parametrize("name", FUNDAMENTALS)
def test_every_expectation_holds_in_both_languages(name: str) -> None:
    result = result_of(name)
    assert [(o.text, o.language, o.found) for o in result.expectations if o.verdict != "held"] == []
    assert {outcome.language for outcome in result.expectations} == {"cuda-c", "numba"}
    assert result.is_right


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_labels_are_unique(name: str) -> None:
    labels = [point.label for point in load(name).points]
    assert len(labels) == len(set(labels))


@pytest.mark.parametrize(
    ("name", "claim", "verdict", "number"),
    [
        ("coalescing", "wide, coalesced access reaches memory bandwidth", "needs a GPU", "16 sectors"),
        ("coalescing", "strides waste sectors", "held", "8 x the sectors"),
        ("coalescing", "its naive copy, one float a thread, is uncoalesced", "refuted", "4 sectors"),
        ("coalescing", "its float4 copy copies the array", "refuted", "75.01 %"),
        (
            "bank-conflicts",
            "one column of padding made a conflicted kernel 3x faster",
            "needs a GPU",
            "16.5 x",
        ),
        ("bank-conflicts", "staging through shared memory restores coalescing", "held", "4 with"),
        ("divergence", "divergence serialises a warp", "held", "x the passes"),
        ("divergence", "x if x > 0 else 0 makes warps diverge", "refuted", "0 divergent"),
        ("divergence", "x * (x > 0) computes the same", "refuted", "1 NaN"),
        ("divergence", "masks in attention cost 60 % of warp efficiency", "held", "60 %"),
        ("divergence", "a bit mask and a multiply need 5 % fewer instructions", "refuted", "% warp instr"),
        ("divergence", "the multiply removed the cost of the mask", "needs a GPU", "1 x the passes"),
    ],
)
def test_claims(name: str, claim: str, verdict: str, number: str) -> None:
    found = [outcome for outcome in result_of(name).claims if outcome.text == claim]
    assert [outcome.verdict for outcome in found] == [verdict, verdict]
    assert all(number in outcome.found for outcome in found), found


def test_counts_known_by_hand() -> None:
    panels = result_of("coalescing").panels
    for language in ("cuda-c", "numba"):
        records = {label: r for panel in panels for label, r in panel.records[language].items()}
        loads = [records[f"stride {s}"].value("sectors_per_request_load") for s in (1, 2, 4, 8, 16, 32)]
        assert loads == [4, 8, 16, 32, 32, 32]
        assert records["array of structs"].value("useful_percent") == pytest.approx(100 * 8 / 20)
        assert records["float4_faulty"].diagnostics


@pytest.mark.parametrize("name", FUNDAMENTALS)
def test_json_there_and_back(name: str) -> None:
    result = result_of(name)
    text = json.dumps(result.to_dict(), allow_nan=False)
    again = Result.from_dict(json.loads(text))
    assert again.expectations == result.expectations
    assert again.claims == result.claims
    assert again.pictures == result.pictures
    assert json.dumps(again.to_dict(), allow_nan=False) == text


def test_one_language_alone() -> None:
    small = load("divergence")
    small = dataclasses.replace(small, sweeps=small.sweeps[:1], expectations=(), claims=(), pictures=None)
    seen: list[tuple[str, int, int]] = []
    result = run(small, "emulator", ("numba",), lambda *step: seen.append(step))
    assert result.languages == ("numba",)
    assert list(result.panels[0].records) == ["numba"]
    assert seen[-1] == ("divergence: done", 6, 6)


def test_unknown_names_are_refused() -> None:
    with pytest.raises(
        SpecError, match=r"^divergance: no experiment has this name; did you mean 'divergence'\?$"
    ):
        load("divergance")
    with pytest.raises(SpecError, match=r"it must hold some of cuda-c, numba"):
        run(load("coalescing"), "emulator", ("opencl",))  # type: ignore[arg-type]
    with pytest.raises(SpecError, match=r"no point runs relu/branch; it runs copy/strided"):
        load("coalescing").replacing("relu/branch", kernel("relu/branch"))


def test_a_twin_that_numba_cannot_express_is_noted() -> None:
    small = load("divergence")
    bare = dataclasses.replace(kernel("relu/branch"), twin="Numba has no such instruction")
    sweep = dataclasses.replace(
        small.sweeps[0], points=(dataclasses.replace(small.sweeps[0].points[0], kernel=bare),)
    )
    small = dataclasses.replace(small, sweeps=(sweep,), expectations=(), claims=(), pictures=None)
    result = run(small, "emulator")
    assert result.notes == ("branch: no Numba twin: Numba has no such instruction",)
    assert list(result.panels[0].records["cuda-c"]) == ["branch"]


def test_no_gpu_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    import kernellab.devices

    def missing() -> None:
        raise UnavailableError("device: 'gpu' is not here")

    monkeypatch.setattr(kernellab.devices, "_gpu", missing)
    with pytest.raises(UnavailableError, match="is not here"):
        run(load("coalescing"), "gpu")


@pytest.mark.parametrize(
    ("stride", "width", "pitch", "wavefronts"),
    [
        (1, 1, 32, 1),
        (2, 1, 32, 2),
        (32, 1, 32, 32),
        (32, 1, 33, 1),
        (1, 2, 32, 2),
        (32, 4, 32, 32),
        (32, 4, 33, 4),
    ],
)
def test_bank_arithmetic(stride: int, width: int, pitch: int, wavefronts: float) -> None:
    assert predicted_wavefronts(stride, width, pitch) == wavefronts


def test_a_bank_map_serves_every_lane_once() -> None:
    rows = wavefronts_of(tile_words(4, 1, 32), 1)
    served = [lane for row in rows for lane in row if lane >= 0]
    assert sorted(served) == list(range(32))
    assert all(lane == -1 or (lane * 4) % 32 == bank for row in rows for bank, lane in enumerate(row))


def test_without_nvdisasm_everything_counted_is_approximate(monkeypatch: pytest.MonkeyPatch) -> None:
    from kernellab.compile import sass
    from kernellab.report.text import result_text

    def missing(*_: object) -> None:
        raise UnavailableError("nvdisasm is not here")

    monkeypatch.setattr(sass, "sass_of", missing)
    result = run(load("divergence"), "emulator", ("cuda-c",))
    for panel in result.panels:
        for record in panel.records["cuda-c"].values():
            assert {reading.note for reading in record.readings if reading.source == "counted"} == {
                "approximate",
                "PTX",
            }
    undecided = [outcome.text for outcome in result.expectations if outcome.verdict == "needs nvdisasm"]
    assert undecided == ["relu's branch is compiled to a select: no warp diverges"]
    assert result.is_right
    text = result_text(result, 100)
    assert "counted, SASS" not in text
    assert "diverge: counted, approximate" in text


class FakeGpu(timing_fakes.FakeGpu):
    """Answers are NumPy's, times what a stopwatch made of numbers says; there are no counts."""

    def __init__(self) -> None:
        super().__init__(timing_fakes.FakeStopwatch())
        self.ran: list[str] = []

    def run(self, program, plan, *, sanitize=False):
        self.ran.append(plan.kernel.id)
        return super().run(program, plan, sanitize=sanitize)


@pytest.fixture
def seconds(monkeypatch):
    """By label: how long what claims say of time takes; a millisecond where nothing is said."""
    known: dict[str, float] = {}

    def times(self, points, *, has_copy=False):
        names = [point.label for point in points] + ["cudaMemcpy"] * has_copy
        return {name: Timing("cold", (known.get(name, 1e-3),) * 20) for name in names}

    monkeypatch.setattr(GpuClock, "times", times)
    return known


@pytest.mark.parametrize("name", FUNDAMENTALS)
def test_a_gpu_compares_answers_and_times_and_runs_no_exhibit(name: str, seconds) -> None:
    gpu = FakeGpu()
    result = run(load(name), gpu, ("cuda-c",))
    verdicts = {outcome.text: outcome.verdict for outcome in result.expectations}
    answers = [verdict for text, verdict in verdicts.items() if text.startswith("every answer")]
    assert answers == ["held"]
    assert set(verdicts.values()) <= {"held", "needs counts"}
    assert result.is_right
    assert not {"copy/float4_faulty", "relu/multiply", "masked_rows/multiply"} & set(gpu.ran)
    assert "needs a GPU" not in {outcome.verdict for outcome in result.claims}
    from kernellab.report.text import result_text

    text = result_text(result, 80)
    assert "needs counts" in text
    assert "us: measured" in text
    assert "timed on the GPU; nothing is counted" in text


def test_a_claim_that_cannot_be_timed_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    def times(self, points, *, has_copy=False):
        raise MismatchError("copy/float4: y differs")

    monkeypatch.setattr(GpuClock, "times", times)
    bare = dataclasses.replace(load("coalescing"), sweeps=(), expectations=(), pictures=None)
    result = run(dataclasses.replace(bare, claims=bare.claims[:1]), FakeGpu(), ("cuda-c",))
    assert [(claim.verdict, claim.found) for claim in result.claims] == [
        ("not timed", "copy/float4: y differs")
    ]
    from kernellab.report.text import summary

    assert "1 not timed" in str(summary(result))


@pytest.mark.parametrize(
    ("name", "text", "times", "verdict", "found"),
    [
        ("bank-conflicts", "3x faster", {"tiled": 3.1e-3, "padded": 1e-3}, "held", "3.1 x (95 % 3.1 to 3.1)"),
        ("bank-conflicts", "3x faster", {"words": 2.9e-3}, "held", "2900.0 against 1000.0 us, 2.9 x"),
        ("bank-conflicts", "3x faster", {"tiled": 1.8e-3}, "refuted", "1800.0 against 1000.0 us, 1.8 x"),
        ("coalescing", "reaches memory bandwidth", {"float4": 1.01e-3}, "held", "0.990 of cudaMemcpy's"),
        ("coalescing", "reaches memory bandwidth", {"float4": 1.2e-3}, "refuted", "0.833 of cudaMemcpy's"),
        ("divergence", "removed the cost", {"branch": 1.2e-3}, "held", "1200.0 against 1000.0 us, 1.2 x"),
        ("divergence", "removed the cost", {"multiply": 1.2e-3}, "refuted", "0.833 x"),
    ],
)
def test_claims_about_time_are_held_or_refuted(name, text, times, verdict, found, seconds) -> None:
    seconds.update(times)
    bare = dataclasses.replace(load(name), sweeps=(), expectations=(), pictures=None)
    bare = dataclasses.replace(bare, claims=tuple(claim for claim in bare.claims if text in claim.text))
    (outcome,) = run(bare, FakeGpu(), ("cuda-c",)).claims
    assert outcome.verdict == verdict
    assert found in outcome.found


def test_both_has_counts_times_and_exhibits(monkeypatch: pytest.MonkeyPatch, seconds) -> None:
    import kernellab.devices

    gpu = FakeGpu()
    monkeypatch.setattr(kernellab.devices, "_gpu", lambda: gpu)
    result = run(load("bank-conflicts"), "both", ("cuda-c",))
    assert {outcome.verdict for outcome in result.expectations} == {"held"}
    assert {outcome.verdict for outcome in result.claims} <= {"held", "refuted"}
    assert "shared_stride/padding_unused" not in gpu.ran
    records = result.panels[0].records["cuda-c"]
    assert records["4 B unused pad, s. 32"].device == "emulator"
    timed = records["4 B, stride 32"]
    assert timed.device == "gpu"
    assert timed.value("seconds_cold") > 0
    assert timed.value("shared_load_wavefronts") > 0
    assert result.pictures
    assert Result.from_dict(json.loads(json.dumps(result.to_dict()))).panels[0].columns[-1].scale == 1e6


@pytest.mark.parametrize("name", FUNDAMENTALS)
def test_what_claims_time_can_be_run_in_both_languages(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[tuple[str, str]] = []

    def times(self, points, *, has_copy=False):
        for point in points:
            assert max(point.case.sizes.values()) >= 2**14  # the L2 does not hold it
            sizes = {name: min(size, 64) for name, size in point.case.sizes.items()}
            case = dataclasses.replace(point.case, sizes=sizes)
            self._workload(dataclasses.replace(point, case=case)).run()
            ran.append((point.kernel.id, self.language))
        names = [point.label for point in points] + ["cudaMemcpy"] * has_copy
        return {name: Timing("cold", (1e-3,) * 20) for name in names}

    monkeypatch.setattr(GpuClock, "times", times)
    bare = dataclasses.replace(load(name), sweeps=(), expectations=(), pictures=None)
    claims = tuple(claim for claim in bare.claims if claim.timed is not None)
    result = run(dataclasses.replace(bare, claims=claims), FakeGpu())
    assert {outcome.verdict for outcome in result.claims} <= {"held", "refuted"}
    assert len(ran) >= 4
    assert len({language for _, language in ran}) == 2


def test_points_are_verified_and_timed_in_turn() -> None:
    small = Case("1000", {"n": 1000})
    points = [Point(name, kernel(f"copy/{name}"), small) for name in ("scalar", "float4")]
    found = GpuClock(FakeGpu(), "cuda-c").ratio(*points)
    assert (found.value, found.low, found.high) == pytest.approx((1.0, 1.0, 1.0))
    fractions = GpuClock(FakeGpu(), "cuda-c").fractions_of_copy(*points)
    assert fractions == pytest.approx([1.0, 1.0])
    broken = FakeGpu()
    broken.breaks_at = 1
    with pytest.raises(MismatchError):
        GpuClock(broken, "cuda-c").ratio(*points)


def test_auto_counts_on_the_emulator(monkeypatch: pytest.MonkeyPatch) -> None:
    import kernellab.devices

    monkeypatch.setattr(kernellab.devices, "_gpu", FakeGpu)
    small = load("divergence")
    small = dataclasses.replace(small, sweeps=small.sweeps[:1], expectations=(), claims=(), pictures=None)
    assert run(small, "auto", ("cuda-c",)).device == "emulator"
