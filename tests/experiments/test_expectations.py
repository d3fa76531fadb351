"""Each expectation fails when a kernel is broken in the way it speaks of."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import pytest
from experiment_runs import check_that_each_is_broken_once, mutant_of, result_of, with_mutant

from kernellab.devices import device
from kernellab.experiments import FUNDAMENTALS, load
from kernellab.kernel import Kernel

LOOP = "for (long long f = 0; f < features; ++f)"

MUTANTS = {
    "coalescing": (
        ("every answer", "copy/scalar", ("y[i] = value;", "y[i] = value + 1.0f;")),
        (
            "a stride of s floats",
            "copy/strided",
            (
                "((long long)blockIdx.x * blockDim.x + threadIdx.x) * stride + blockIdx.y",
                "((long long)blockIdx.y * gridDim.x + blockIdx.x) * blockDim.x + threadIdx.x",
            ),
        ),
        ("an offset costs", "copy/offset", ("thread + offset;", "thread + 2 * offset;")),
        (
            "float4 moves",
            "copy/float4",
            (
                "const uint4 value = reinterpret_cast<const uint4*>(x)[i];",
                "const unsigned* w = reinterpret_cast<const unsigned*>(x) + 4 * i;\n"
                "const uint4 value = make_uint4(w[0], w[1], w[2], w[3]);",
            ),
        ),
        ("the index decides", "copy/take", ("index[i];", "index[i] * 9 % length;")),
        ("a member of an array", "copy/soa", ("fields[n + i]", "fields[(4 * i + 1) % (4 * n)]")),
        (
            "the faulty float4",
            "copy/float4_faulty",
            ("blockDim.x * 4 +", "blockDim.x +"),
            ("i < n)", "i < n / 4)"),
        ),
    ),
    "bank-conflicts": (
        ("every answer", "shared_stride/words", ("y[thread] = value;", "y[thread] = value + 1.0f;")),
        ("without padding", "shared_stride/words", ("tile[SIDE][SIDE]", "tile[SIDE][SIDE + 1]")),
        ("with padding", "shared_stride/padded_quads", ("[SIDE + 1]", "[SIDE + 2]")),
        ("one column of padding", "shared_stride/padded_words", ("[SIDE + 1]", "[SIDE]")),
        ("8 and 16 bytes", "shared_stride/quads", ("threadIdx.x * stride", "threadIdx.x * (stride + 1)")),
        ("one element of padding", "shared_stride/padded_pairs", ("[SIDE + 1]", "[SIDE]")),
        ("padding moves conflicts", "shared_stride/padded_words", ("[SIDE + 1]", "[SIDE]")),
        (
            "padding declared",
            "shared_stride/padding_unused",
            ("threadIdx.y * SIDE + threadIdx.x]", "threadIdx.y * (SIDE + 1) + threadIdx.x]"),
            ("element / SIDE * SIDE", "element / SIDE * (SIDE + 1)"),
        ),
        (
            "filling the tile",
            "shared_stride/words",
            ("tile[threadIdx.y][threadIdx.x] = filled", "tile[threadIdx.x][threadIdx.y] = filled"),
        ),
        ("the transpose ladder", "transpose/padded", ("[TILE + 1]", "[TILE]")),
    ),
    "divergence": (
        ("every answer", "relu/branch_free", ("? 0.0f : value", "? 0.5f : value")),
        (
            "relu's branch",
            "relu/branch",
            (
                "y[i] = 0.0f;",
                "float z = value;\n#pragma unroll 1\nwhile (z < -0.01f) z *= 0.5f;\ny[i] = z * 0.0f;",
            ),
        ),
        (
            "x * (x > 0)",
            "relu/multiply",
            ("value * (value > 0.0f ? 1.0f : 0.0f)", "value < 0.0f ? 0.0f : value"),
        ),
        ("a warp makes", "uneven_work/sorted", ("order[thread]", "thread")),
        ("half of the lanes", "uneven_work/unsorted", ("= trips[i]", "= 63 + 0 * trips[i]")),
        ("behind a branch", "masked_rows/branch", ("if (mask[r])", "if (features)")),
        (
            "multiplying by the mask fills",
            "masked_rows/multiply",
            (LOOP, "for (long long f = 0; f < (mask[r] ? features : 0); ++f)"),
        ),
        ("multiplying by the mask lets", "masked_rows/multiply", ("keep * sum", "keep != 0.0f ? sum : 0.0f")),
        ("compaction fills", "masked_rows/compact", (LOOP, LOOP.replace("++f", "f += 2"))),
    ),
}
ROWS = [(name, place) for name, rows in MUTANTS.items() for place in range(len(rows))]


@pytest.fixture(scope="session")
def mutants(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], list[Kernel]]:
    """All mutants of an experiment, compiled together at the first call: its one disassembly serves all."""

    @cache
    def of(name: str) -> list[Kernel]:
        made = [
            mutant_of(kernel_id, tmp_path_factory.mktemp(name), *edits)
            for _, kernel_id, *edits in MUTANTS[name]
        ]
        device("emulator").build(made)
        return made

    return of


@pytest.mark.parametrize("name", FUNDAMENTALS)
def test_every_expectation_has_a_mutant(name: str) -> None:
    check_that_each_is_broken_once(name, [row[0] for row in MUTANTS[name]])


@pytest.mark.parametrize(("name", "place"), ROWS, ids=[f"{name}: {MUTANTS[name][i][0]}" for name, i in ROWS])
def test_mutant_breaks_its_expectation(name: str, place: int, mutants: Callable[[str], list[Kernel]]) -> None:
    start, kernel_id, *_ = MUTANTS[name][place]
    before = {
        outcome.text: outcome.verdict
        for outcome in result_of(name).expectations
        if outcome.language == "cuda-c"
    }
    after = with_mutant(load(name), kernel_id, mutants(name)[place])
    (broken,) = [outcome for outcome in after.expectations if outcome.text.startswith(start)]
    assert before[broken.text] == "held"
    assert broken.verdict == "failed", broken.found
    assert not after.is_right
