"""Tensor cores and the fused epilogue: what is counted holds, each expectation can fail, claims have their numbers."""

from __future__ import annotations

import json
import os
from dataclasses import replace

import pytest
from experiment_runs import result_of

from kernellab.experiments import fused_epilogue, load, tensor_cores
from kernellab.experiments.experiment import NEEDS_GPU, REFUTED, Result, Rows
from kernellab.problem import ELEMENTS

NAMES = ("tensor-cores", "fused-epilogue")
IS_EXHAUSTIVE = bool(os.environ.get("KERNELLAB_EXHAUSTIVE"))


@pytest.fixture(autouse=True)
def _not_every_time(request: pytest.FixtureRequest) -> None:
    """The fused products of two elements take a minute to compile; their rungs have tests of their own."""
    given = getattr(request.node, "callspec", None)
    is_fused = given.params.get("name") == "fused-epilogue" if given else "claim" in request.node.name
    if is_fused and not IS_EXHAUSTIVE:
        pytest.skip("with KERNELLAB_EXHAUSTIVE=1 only")


def rows(name: str, title: str = "", other: str = "") -> Rows:
    """The records, those of one title in place of another's."""
    found = {
        label: each for panel in result_of(name).panels for label, each in panel.records["cuda-c"].items()
    }
    instead = {f"{title}, {element}": f"{other}, {element}" for element in ELEMENTS}
    return Rows({label: found[instead.get(label, label)] for label in found})


@pytest.mark.parametrize("name", NAMES)
def test_every_expectation_holds(name: str) -> None:
    result = result_of(name)
    assert [(each.text, each.found) for each in result.expectations if each.verdict != "held"] == []
    again = Result.from_dict(json.loads(json.dumps(result.to_dict(), allow_nan=False)))
    assert again.expectations == result.expectations


@pytest.mark.parametrize(
    ("name", "start", "title", "other"),
    [
        ("tensor-cores", "tensor cores do all", "mma.sync", "unused"),
        ("tensor-cores", "tensor cores do all", "unused", "wmma"),
        ("tensor-cores", "wmma and mma.sync are one", "wgmma", "mma.sync"),
        ("tensor-cores", "wmma and mma.sync are one", "wmma", "wgmma"),
        ("tensor-cores", "each way executes fewer", "wmma", "unused"),
        ("tensor-cores", "each way executes fewer", "wgmma", "mma.sync"),
        ("fused-epilogue", "the chain is two", "mma.sync, fused", "chain"),
        ("fused-epilogue", "the chain is two", "chain", "mma.sync, fused"),
        ("fused-epilogue", "the chain writes", "mma.sync, fused", "chain"),
        ("fused-epilogue", "the product is the same", "product alone", "wgmma, fused"),
    ],
)
def test_every_expectation_can_fail(name: str, start: str, title: str, other: str) -> None:
    (found,) = [each for each in load(name).expectations if each.text.startswith(start)]
    assert found.check(rows(name))[0] is True
    assert found.check(rows(name, title, other))[0] is False


def test_the_claim_is_beyond_what_its_card_can_do() -> None:
    verdicts = {each.text: (each.verdict, each.found) for each in result_of("fused-epilogue").claims}
    assert verdicts["that was measured on an A100"][0] == REFUTED
    assert verdicts["that was measured on an A100"][1].startswith("1.15 x at most with one kernel")
    assert [verdict for verdict, _ in verdicts.values()].count(NEEDS_GPU) == 1


def test_the_ceiling_falls_as_products_grow() -> None:
    card = fused_epilogue.CARD_FLOPS, fused_epilogue.CARD_BYTES
    sizes = [fused_epilogue.ceiling(side, *card) - 1 for side in (1024, 2048, 4096)]
    assert sizes[0] == pytest.approx(2 * sizes[1]) == pytest.approx(4 * sizes[2])
    assert fused_epilogue.ceiling(2048, *card, 2) - 1 == pytest.approx(2 * sizes[1])


def test_every_way_that_the_catalogue_has_is_run() -> None:
    labels = {point.label for point in load("tensor-cores").points}
    assert labels >= {tensor_cores.label_of(title, "bfloat16") for title in tensor_cores.WAYS.values()}


@pytest.mark.parametrize("name", NAMES)
def test_nothing_is_expected_of_what_was_not_counted(name: str) -> None:
    """As of a run on a GPU, which says that it needs counts, and not that the kernels are broken."""
    bare = Rows({label: replace(record, readings=()) for label, record in rows(name).items()})
    for expectation in load(name).expectations[1:]:
        if "launches" not in expectation.text:
            with pytest.raises(ValueError, match="there is no reading"):
                expectation.check(bare)
