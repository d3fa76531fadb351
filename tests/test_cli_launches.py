"""``kernellab occupancy`` and ``kernellab doctor TARGET``: what they print, and how they end."""

from __future__ import annotations

import json
import re
from functools import partial
from pathlib import Path

import pytest
from cli_calls import invoke

PROMOTED = """template <typename T> __device__ T bent(T x) { return x > 0 ? x : T(0.01 * x + 1e-3); }
extern "C" __global__ void leaky(float* x) {
    x[threadIdx.x] = bent(x[threadIdx.x]);
}
extern "C" __global__ void wide(double* x) { x[0] = 2 * x[0] + 1; }
"""


cli = partial(invoke, columns=120)


@pytest.fixture
def promoted(tmp_path: Path) -> Path:
    path = tmp_path / "promoted.cu"
    path.write_text(PROMOTED)
    return path


def test_doctor_shows_the_line_that_computes_in_float64(promoted: Path, tmp_path: Path) -> None:
    result = cli("doctor", promoted, columns=200)
    assert result.exit_code == 1
    assert "promoted.cu:1 `template" in result.stdout
    assert "meant: it moves float64" in result.stdout
    assert "write 0.5f" in result.stdout
    assert cli("doctor", f"{promoted}::wide").exit_code == 0
    promoted.write_text(PROMOTED.replace("0.01", "0.01f").replace("1e-3", "1e-3f"))
    out = tmp_path / "found.json"
    result = cli("doctor", promoted, "--json", out)
    assert result.exit_code == 0, result.stdout
    assert {each["kernel"]: each["count"] for each in json.loads(out.read_text())} == {"leaky": 0, "wide": 1}


MIXED = """#include <cstdio>
extern "C" __global__ void both(float* x, double* s) {
    x[0] *= 0.3;
    s[0] = x[0];
    s[1] += 2 * s[2];
}
extern "C" __global__ void prints(const float* x) { printf("%f", x[0]); }
extern "C" __global__ void sums(float* x) {
    double s = 0;  // of 0.5
    for (int i = 0; i < 9; i++)
        s += x[i];
    x[0] = s;
}
"""


def test_doctor_judges_by_the_line(tmp_path: Path) -> None:
    path = tmp_path / "mixed.cu"
    path.write_text(MIXED)
    result = cli("doctor", path, columns=250)
    assert result.exit_code == 1
    text = result.stdout
    assert re.search(r"both \(CUDA C\) +\d+ +by an oversight\?", text)
    assert re.search(r"mixed.cu:3 .*; 0\.3 is a double", text)
    assert re.search(r"mixed.cu:4 .*; it moves float64", text)
    assert re.search(r"mixed.cu:5 .*; it moves float64", text)
    assert re.search(r"prints \(CUDA C\) +1 +meant: printf takes doubles", text)
    assert re.search(r"mixed.cu:11 .*; s is declared double", text)
    assert cli("doctor", f"{path}::prints").exit_code == 0
    result = cli("doctor", f"{path}::sums", columns=250)
    assert result.exit_code == 1
    assert "declare it float" in result.stdout
    assert "0.5f" not in result.stdout


def test_what_another_kernel_declares_double_is_not_blamed(tmp_path: Path) -> None:
    path = tmp_path / "two.cu"
    path.write_text(
        'extern "C" __global__ void wide(const double* x, double* y) { y[0] = x[0]; }\n'
        'extern "C" __global__ void narrow(const float* x, float* y) {\n'
        "    double sum = 0;\n"
        "    for (int i = 0; i < 9; i++)\n"
        "        if (x[i] > 0) sum += x[i];\n"
        "    y[0] = sum;\n}\n"
    )
    text = cli("doctor", f"{path}::narrow", columns=250).stdout
    assert re.search(r"two.cu:5 .*; sum is declared double", text)


def test_doctor_says_what_is_no_kernel(tmp_path: Path) -> None:
    for name, text, message in (
        ("t.txt", "", "it is no .cu or .ptx file; give one of those, or PROBLEM/RUNG"),
        ("none.cu", "__device__ int f() { return 1; }", "it has no kernel; mark one with __global__"),
    ):
        (tmp_path / name).write_text(text)
        result = cli("doctor", tmp_path / name)
        assert (result.exit_code, message in " ".join(result.output.split())) == (2, True)
    (tmp_path / "numba.py").write_text("def k(x): pass")
    for command in (("doctor",), ("occupancy", "--block", 64)):
        result = cli(*command, tmp_path / "numba.py::k")
        assert (result.exit_code, "it is no .cu or .ptx file" in " ".join(result.output.split())) == (2, True)
    assert "there.cu/k: no problem" in cli("doctor", "/there.cu/k").output
    result = cli("doctor", tmp_path)
    assert (result.exit_code, "it is no .cu or .ptx file" in " ".join(result.output.split())) == (2, True)


def test_doctor_knows_what_the_catalogue_means(monkeypatch: pytest.MonkeyPatch) -> None:
    result = cli("doctor", "horner", "--language", "cuda-c", columns=200)
    assert result.exit_code == 0
    assert "meant: literals without an f" in result.stdout
    assert "0.5 * x_value * value + 1.0" in result.stdout
    assert re.search(r"horner_single \(CUDA C\) +0 +none", result.stdout)
    result = cli("doctor", "horner/missing")
    assert result.exit_code == 2
    assert "horner has no rung 'missing'" in result.output


def test_occupancy_of_registers_a_rung_and_a_file(promoted: Path, tmp_path: Path) -> None:
    result = cli("occupancy", 40, "--block", 250, "--grid", 1057)
    assert result.exit_code == 0
    assert "6 blocks, 48 warps resident: 75 % of 64 warps, limited by registers" in result.stdout
    assert "6 of the 256 lanes of a block's warps never work" in result.stdout
    assert "a grid of 1057: 1.335 waves of 792 blocks, 265 in the last of 2" in result.stdout
    assert "occupancy by threads a block" in result.stdout
    out = tmp_path / "occupancy.json"
    assert cli("occupancy", "transpose/padded", "--json", out).exit_code == 0
    found = json.loads(out.read_text())
    assert (found["threads"], found["shared_bytes"], found["blocks"]) == (1024, 4224, 2)
    assert cli("occupancy", f"{promoted}::leaky", "--block", 64).exit_code == 0


def test_occupancy_stops_at_launch_bounds(tmp_path: Path) -> None:
    path = tmp_path / "bound.cu"
    path.write_text('extern "C" __global__ void __launch_bounds__(128) k(float* x) { x[threadIdx.x] = 1; }')
    found = cli("occupancy", f"{path}::k", "--block", 512).stdout
    assert "0 blocks, 0 warps resident" in found
    assert (
        "compiled for blocks of at most 128 threads (__launch_bounds__), so none of 512 is launched" in found
    )
    chart = found.partition("occupancy by threads")[2]
    assert re.findall(r"^\s*(\d+)\b", chart, re.MULTILINE)[-1] == "128"


def test_occupancy_of_both_languages(tmp_path: Path) -> None:
    out = tmp_path / "both.json"
    found = cli("occupancy", "copy/scalar", "--language", "both", "--json", out)
    assert found.exit_code == 0
    assert "copy/scalar (CUDA C)" in found.stdout
    assert "copy/scalar (Numba)" in found.stdout
    assert len(json.loads(out.read_text())) == 2
    for arguments, message in (
        (("occupancy", 40, "--block", 64), "40 is in one language"),
        (("tune", "copy/float4"), "a table is of one language"),
    ):
        result = cli(*arguments, "--language", "both")
        assert (result.exit_code, message in result.output) == (2, True)


@pytest.mark.parametrize("command", ["doctor", "occupancy"])
def test_help_promises_no_report_of_plain_json(command: str) -> None:
    assert "report" not in cli(command, "--help").stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((40,), "the threads of a block of 40 are not known; pass --block 256"),
        ((40, "--block", 2000), r"threads is 2000, it must lie in [1, 1024]"),
        ((40, "--block", 64, "--shared-mem", 300_000, "--grid", 1), "does not fit a multiprocessor"),
        ((40, "--block", 64, "--grid", 1, "--arch", "sm_70"), "arch: 'sm_70' is not known"),
        (("none.cu", "--block", 64), "none.cu: it cannot be read: No such file or directory"),
        (("copy/none",), "copy has no rung 'none'"),
    ],
)
def test_what_cannot_be_said_is_one_sentence(arguments: tuple[object, ...], message: str) -> None:
    result = cli("occupancy", *arguments)
    assert result.exit_code == 2
    assert message in " ".join(result.output.split())
    assert len(result.output.strip().splitlines()) == 1


def test_which_kernel_of_a_file(promoted: Path) -> None:
    result = cli("occupancy", promoted, "--block", 64)
    assert result.exit_code == 2
    assert "which kernel? it has leaky, wide" in result.output
