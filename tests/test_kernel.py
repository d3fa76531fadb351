"""Kernels: names, arguments by language, sources."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import pytest

from kernellab import catalog
from kernellab.catalog import kernel
from kernellab.errors import SpecError
from kernellab.kernel import Tuning, covering


def test_names():
    rung = kernel("copy/float4")
    assert (rung.id, rung.entry, rung.path.name) == ("copy/float4", "copy_float4", "float4.cu")


def test_arguments_by_language():
    rung = kernel("masked_rows/compact")
    assert rung.arguments_for("cuda-c") == ("x", "weights", "active", "y", "features", "rows", "count")
    assert rung.arguments_for("numba") == ("x", "weights", "active", "y")
    assert kernel("copy/offset").arguments_for("numba") == ("x", "y", "offset")
    assert [item.name for item in rung.inputs] == ["x", "weights", "active"]
    assert [item.name for item in rung.outputs] == ["y"]


def test_covering_rounds_up():
    assert [covering(count, 32) for count in (0, 1, 31, 32, 33)] == [0, 1, 1, 1, 2]


def test_a_reason_instead_of_a_twin():
    rung = replace(kernel("copy/scalar"), twin="it needs wgmma")
    assert not rung.has_twin
    assert rung.twin_source() == ""
    with pytest.raises(SpecError, match=r"^copy/scalar: it has no Numba twin: it needs wgmma$"):
        rung.twin_function()


def test_twin_source_holds_its_helpers():
    assert "def vector_access" in kernel("copy/float4").twin_source()
    assert "def float4" in kernel("copy/float4").twin_source()
    assert "\nEACH = " in kernel("copy/float4").twin_source()  # imported by name


def test_another_source_takes_its_place(tmp_path):
    path = tmp_path / "mine.cu"
    path.write_text("// copy/scalar: mine.\n", encoding="utf-8")
    assert replace(kernel("copy/scalar"), source=path).header.lesson == "mine."
    assert replace(kernel("copy/scalar"), source=str(path)).header.lesson == "mine."
    missing = replace(kernel("copy/scalar"), source=tmp_path / "no.cu")
    with pytest.raises(SpecError, match=r"^copy/scalar: its source .*no\.cu cannot be read: No such file"):
        missing.text()


def test_twin_types_are_numbas():
    assert kernel("masked_rows/compact").twin_types() == (
        "float32[:,::1]",
        "float32[::1]",
        "int64[::1]",
        "float32[::1]",
    )


@pytest.mark.parametrize(
    ("constants", "chosen"),
    [
        ({"ELEMENT": 0}, {"ELEMENT": 0, "LANES": 4, "LOADS": 7}),
        ({"ELEMENT": 0, "LANES": 1}, {"ELEMENT": 0, "LANES": 4, "LOADS": 7}),
        ({"ELEMENT": 0, "LOADS": 3}, {"ELEMENT": 0, "LANES": 1, "LOADS": 3}),
    ],
)
def test_constants_that_were_left_out_are_those_of_the_file(constants, chosen):
    tuning = Tuning({"LANES": 1, "LOADS": 2}, lambda sizes, element: {"LANES": 4, "LOADS": sizes["n"]})
    given = replace(kernel("scale/scalar"), constants=constants, tuning=tuning)
    assert given.tuned({"n": 7}, 132).constants == chosen


def test_unknown_names_get_a_suggestion():
    with pytest.raises(SpecError, match=r"^copy/flaot4: copy has no rung 'flaot4'; did you mean 'float4'\?$"):
        kernel("copy/flaot4")
    with pytest.raises(
        SpecError, match=r"^transposes: no problem has this name; did you mean 'transpose'\?$"
    ):
        catalog.kernels("transposes")
    with pytest.raises(SpecError, match=r"^zzz: no problem has this name; there are copy, transpose"):
        catalog.ladder("zzz")


def test_kernels_by_name():
    assert [item.id for item in catalog.kernels("relu")] == [
        "relu/branch",
        "relu/branch_free",
        "relu/multiply",
    ]
    assert [item.id for item in catalog.kernels("copy/take")] == ["copy/take"]
    assert {item.problem.name for item in catalog.kernels()} == set(catalog.PROBLEMS)


def test_the_whole_catalogue_loads_without_numba_or_cupy():
    code = (
        "import sys, kernellab.catalog as c\n"
        "texts = [k.twin_source() + k.text() for k in c.kernels()]\n"
        "assert all(texts)\n"
        "print(sorted({'numba', 'cupy', 'cuda'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
