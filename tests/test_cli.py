"""The command line: what it prints, where, and how it ends."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from cli_calls import invoke as cli
from fakes import make_gpu

from kernellab.cli.arguments import parse_argument, parse_globals, parse_parameters, parse_sides
from kernellab.errors import SpecError, UnavailableError

AXPY = """// a comment
__constant__ float offset[2];
extern "C" __global__ void axpy(const float* x, float* y, float a, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = a * x[i] + y[i] + offset[0];
}
"""
ENDLESS = """extern "C" __global__ void endless(volatile int* y) {
    while (y[0] == 0) y[1] = y[1] + 1;
}
"""
TWIN = """import numpy as np
from numba import cuda

@cuda.jit
def double(x, y):
    i = cuda.grid(1)
    if i < x.size:
        y[i] = x[i] + x[i]

def plain(x, y):
    i = cuda.grid(1)
    if i < x.size:
        y[i] = x[i]
"""


@pytest.fixture
def axpy(tmp_path: Path) -> Path:
    path = tmp_path / "axpy.cu"
    path.write_text(AXPY)
    return path


CALL = (
    "--grid",
    4,
    "--block",
    256,
    "--arg",
    "f32[1000]:ones",
    "--arg",
    "f32[1000]",
    "--arg",
    "f32=2.5",
    "--arg",
    "i32=1000",
)


def test_help_is_quick_and_loads_no_compiler() -> None:
    code = "import sys; from kernellab.cli import app\ntry: app(['--help'])\nexcept SystemExit: pass\n"
    code += "print([m for m in ('numpy', 'cupy', 'numba', 'jinja2') if m in sys.modules])"
    seconds = []
    for _ in range(3):
        before = os.times()  # of processors, as other work may share them
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        spent = zip(os.times()[2:4], before[2:4], strict=True)
        seconds.append(sum(stop - start for stop, start in spent))
    assert done.stdout.splitlines()[-1] == "[]"
    assert min(seconds) < 0.6


@pytest.mark.parametrize(
    "command",
    ["doctor", "list", "run", "check", "compare", "trace", "occupancy", "bench", "report", "diff"],
)
def test_every_command_has_help(command: str) -> None:
    result = cli(command, "--help")
    assert result.exit_code == 0
    assert "Usage" in result.stdout


# -- trace
def test_trace_prints_counts_beside_the_lines(axpy: Path) -> None:
    result = cli("trace", f"{axpy}::axpy", *CALL)
    assert result.exit_code == 0, result.output
    (line,) = [each for each in result.stdout.splitlines() if "y[i] = a * x[i]" in each]
    assert line.split()[0] == "5"
    assert "global_load_sectors" in result.stdout
    rows = result.stdout.split("argument")[1].splitlines()
    assert [row.split()[0] for row in rows if "f32" in row or "i32" in row] == ["x", "y", "a", "n"]
    assert "1000 of 1000 changed" in result.stdout
    assert "2.5 2.5 2.5 2.5 ..." in result.stdout


def test_trace_finds_the_only_kernel_and_sets_variables(axpy: Path) -> None:
    result = cli("trace", axpy, *CALL, "--global", "offset=10,20", "--option=-DUNUSED=1", "--arch", "sm_80")
    assert result.exit_code == 0, result.output
    assert "12.5 12.5" in result.stdout
    assert "sm_80" in result.stdout


def test_trace_of_a_numba_file(tmp_path: Path) -> None:
    path = tmp_path / "twin.py"
    path.write_text(TWIN)
    arguments = ("--grid", 2, "--block", 64, "--arg", "f32[100]:arange", "--arg", "f32[100]")
    assert "0.0 2.0 4.0 6.0 ..." in cli("trace", f"{path}::double", *arguments).stdout
    assert "0.0 1.0 2.0 3.0 ..." in cli("trace", f"{path}::plain", *arguments).stdout
    result = cli("trace", f"{path}::triple", *arguments)
    assert result.exit_code == 2
    assert "which function? it has double, plain; write" in result.stderr


@pytest.mark.parametrize(
    ("command", "name", "text", "kind"),
    [
        (("trace", "--grid", 1), "empty.cu", "__device__ int n;", "kernel"),
        (("trace", "--grid", 1), "empty.py", "n = 1", "function"),
        (("occupancy",), "empty.cu", "__device__ int n;", "kernel"),
    ],
)
def test_a_file_without_a_kernel_is_told_no_name_to_write(
    tmp_path: Path, command: tuple[object, ...], name: str, text: str, kind: str
) -> None:
    path = tmp_path / name
    path.write_text(text)
    result = cli(command[0], path, *command[1:], "--block", 32)
    assert result.exit_code == 2
    assert result.output.endswith(f"{name}: it has no {kind}; give a file that has one\n")


def test_trace_of_a_numba_file_with_signatures(tmp_path: Path) -> None:
    path = tmp_path / "eager.py"
    path.write_text(
        TWIN.replace("@cuda.jit\n", "@cuda.jit('void(float32[:], float32[:])')\n")
        + "\n@cuda.jit(['void(float32[:])', 'void(float64[:])'])\ndef ones(y):\n    y[cuda.grid(1)] = 1\n"
    )
    arguments = ("--grid", 2, "--block", 64, "--arg", "f32[100]:arange", "--arg", "f32[100]")
    result = cli("trace", f"{path}::double", *arguments)
    assert "0.0 2.0 4.0 6.0 ..." in result.stdout, result.output
    result = cli("trace", f"{path}::double", *arguments[:-1], "f64[100]")
    assert result.exit_code == 2
    assert "double: argument 1 is float64[::1], it was declared as float32[:]" in result.stderr
    assert "1.0 1.0 1.0" in cli("trace", f"{path}::ones", "--block", 32, "--arg", "f64[32]").stdout


def test_trace_of_a_numba_file_without_numba(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from kernellab.compile import numba_cuda

    path = tmp_path / "twin.py"
    path.write_text(TWIN)
    monkeypatch.setitem(sys.modules, "numba", None)
    numba_cuda.cuda_module.cache_clear()
    try:
        result = cli("trace", f"{path}::double")
    finally:
        numba_cuda.cuda_module.cache_clear()
    assert result.exit_code == 3
    assert "numba-cuda does not import" in result.stderr
    assert "[cuda13]" in result.stderr


def test_trace_out_of_bounds_fails_and_still_writes_its_json(axpy: Path, tmp_path: Path) -> None:
    out = tmp_path / "t.json"
    arguments = [*CALL[:-1], "i32=1024", "--json", out]
    result = cli("trace", axpy, *arguments)
    assert result.exit_code == 1
    assert "error: axpy: out of bounds" in result.stderr
    said = "0 bytes past the end of x"  # once
    assert said in result.stderr
    assert said not in result.stdout
    assert "no out-of-bounds" not in result.stdout
    assert json.loads(out.read_text())["traces"][0]["diagnostics"]


def test_trace_says_whether_it_looked_for_races(tmp_path: Path) -> None:
    path = tmp_path / "race.cu"
    path.write_text(
        'extern "C" __global__ void turn(const int* x, int* y) {\n'
        "    __shared__ int s[64];\n    s[threadIdx.x] = x[threadIdx.x];\n"
        "    WAIT y[threadIdx.x] = s[63 - threadIdx.x];\n}\n"
    )
    call = ("trace", path, "--block", 64, "--arg", "i32[64]:arange", "--arg", "i32[64]", "--option")
    said = "no out-of-bounds or misaligned access found; races were not looked for (sanitize)"
    assert said in cli(*call, "-DWAIT=").stdout
    raced = cli(*call, "-DWAIT=", "--sanitize")
    assert "race: this load" in raced.stdout
    assert raced.exit_code == 1  # a check that was asked for has failed
    said = "no out-of-bounds, misaligned or unsynchronised access found"
    clean = cli(*call, "-DWAIT=__syncthreads();", "--sanitize")
    assert said in clean.stdout
    assert clean.exit_code == 0


def test_trace_of_an_empty_grid_is_no_pass(axpy: Path) -> None:
    result = cli("trace", axpy, "--grid", 0, *CALL[2:])
    assert result.exit_code == 0, result.output  # a no-op, as in an interpreter
    assert "no block ran: the grid is empty, a GPU refuses such a launch" in result.stdout
    assert "no out-of-bounds" not in result.stdout


def test_trace_that_does_not_compile_shows_the_log(tmp_path: Path) -> None:
    path = tmp_path / "bad.cu"
    path.write_text('extern "C" __global__ void bad(float* y) { y[0] = nothing; }\n')
    result = cli("trace", f"{path}::bad", "--arg", "f32[1]")
    assert result.exit_code == 1
    assert "bad.cu(1)" in result.stderr
    assert result.stderr.count('identifier "nothing" is undefined') == 1
    assert "does not compile" in result.stderr
    assert result.stdout == ""


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("missing.cu::k",), "missing.cu: there is no such file; write FILE::ENTRY"),
        (("AXPY::axpi", *CALL), "axpi"),
        (("AXPY", "--grid", "0x"), "--grid 0x: it must be one to three integers"),
        (("AXPY", "--block", "a"), "--block a: it must be one to three integers"),
        (("AXPY", *CALL, "--block", "2048"), "block (2048, 1, 1) has 2048 threads, the limit is 1024"),
        (("AXPY", "--arg", "f33[4]"), "--arg f33[4]: 'f33' is no type; did you mean f32?"),
        (("AXPY", "--arg", "f32[4]:rnd"), "'rnd' is no content; there are zeros, ones, arange, random"),
        (("AXPY", "--arg", "i8=300"), "--arg i8=300: int8 holds -128 to 127, not 300"),
        (("AXPY", "--arg", "hello"), "--arg hello: it is none of the forms f32[1048576]:random"),
        (("AXPY", "--arg", "none.npy"), "none.npy: it is no .npy file that can be read"),
        (("AXPY", "--global", "offset"), "--global offset: it must be NAME=VALUE"),
        (("AXPY", *CALL[:-2]), "axpy"),
        (("AXPY", *CALL, "--arch", "sm_1"), "sm_1"),
        (("AXPY", *CALL, "--json", "no/such/folder/x.json"), "does not exist"),
        (("AXPY", *CALL, "--json", "."), "it is a folder; name a file"),
    ],
)
def test_trace_wrong_usage(axpy: Path, arguments: tuple, message: str) -> None:
    target = str(arguments[0]).replace("AXPY", str(axpy))
    result = cli("trace", target, *arguments[1:])
    assert result.exit_code == 2, result.output
    assert message in result.stderr
    assert result.stdout == ""
    assert len(result.stderr.strip().splitlines()) == 1


def test_an_endless_loop_meets_the_budget(tmp_path: Path) -> None:
    path = tmp_path / "endless.cu"
    path.write_text(ENDLESS)
    result = cli("trace", path, "--arg", "i32[2]", "--budget", 2000)
    assert result.exit_code == 1
    assert "error: endless: " in result.stderr
    assert "pass a larger --budget" in result.output
    assert "budget=" not in result.output


def test_messages_name_options_of_the_command_line(tmp_path: Path) -> None:
    path = tmp_path / "s.cu"
    path.write_text("""extern "C" __global__ void s(float* y) {
    extern __shared__ float t[]; t[threadIdx.x] = 1; y[threadIdx.x] = t[31 - threadIdx.x];
}""")
    result = cli("trace", path, "--block", 32, "--arg", "f32[32]")
    assert "error: s: out of bounds shared store: the block has 0 bytes" in result.stderr
    assert "pass --shared-mem" in result.stderr
    assert "shared_mem" not in result.output
    assert ".trace" not in result.output
    assert "(and 1 more)" in result.stderr
    assert result.stdout.count("error: s: out of bounds shared load") == 1


def endless_trace(folder: Path, *options: object, limit: int = 60) -> subprocess.Popen:
    """Start a command that ends only by a signal; its own alarm ends it where the tests no longer can."""
    path = folder / "endless.cu"
    path.write_text(ENDLESS)
    listens = "signal.signal(signal.SIGINT, signal.default_int_handler)"  # a shell may have it ignored in the background
    code = f"import signal; {listens}; signal.alarm({limit}); from kernellab.cli import main; main()"
    command = (sys.executable, "-c", code, "trace", path, "--arg", "i32[2]", "--budget", 10**12, *options)
    return subprocess.Popen(
        [str(each) for each in command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


@pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")
def test_ctrl_c_ends_cleanly(tmp_path: Path) -> None:
    process = endless_trace(tmp_path, "--json", tmp_path / "out.json")
    time.sleep(4)
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=20)
    assert process.returncode == 130
    assert stderr.strip() == "interrupted"
    assert os.listdir(tmp_path) == ["endless.cu"]


@pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")
def test_what_nobody_ends_ends_by_itself(tmp_path: Path) -> None:
    process = endless_trace(tmp_path, limit=1)
    process.communicate(timeout=20)
    assert process.returncode == -signal.SIGALRM


@pytest.mark.parametrize("kind", ["json", "html"])
def test_an_input_is_never_overwritten(axpy: Path, tmp_path: Path, kind: str) -> None:
    values = tmp_path / "x.npy"
    np.save(values, np.ones(1000, np.float32))
    call = ("trace", f"{axpy}::axpy", *CALL[:4], "--arg", values, *CALL[6:])
    for target in (axpy, tmp_path / "." / "x.npy"):
        before = target.read_bytes()
        result = cli(*call, f"--{kind}", target)
        assert result.exit_code == 2
        assert f"{target}: it is read by this command, and --{kind} would overwrite it" in result.stderr
        assert target.read_bytes() == before


def test_an_output_is_named_once(axpy: Path, tmp_path: Path) -> None:
    result = cli("trace", axpy, *CALL, "--json", tmp_path / "x", "--html", tmp_path / "x")
    assert result.exit_code == 2
    assert "x: --json and --html both name it; write to two files" in result.stderr
    assert not (tmp_path / "x").exists()


def test_report_does_not_write_over_what_it_reads(tmp_path: Path) -> None:
    out = tmp_path / "c.json"
    assert cli("compare", "relu/branch", "--json", out).exit_code == 0
    result = cli("report", out, "--html", out)
    assert result.exit_code == 2
    assert "--html would overwrite it" in result.stderr


@pytest.mark.skipif(os.name == "nt", reason="pipes of POSIX")
@pytest.mark.parametrize("command", [("run", "divergence", "--language", "cuda-c"), ("check", "relu/branch")])
def test_files_are_written_though_nobody_reads_the_output(tmp_path: Path, command: tuple) -> None:
    out = tmp_path / "out.json"
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [sys.executable, "-m", "kernellab", *command, "--json", str(out)],
        stdout=writer, stderr=subprocess.PIPE, text=True, check=False,
    )  # fmt: skip
    os.close(writer)
    assert done.returncode == 0
    assert "rror" not in done.stderr  # what runs is told there
    assert json.loads(out.read_text())["kind"] == command[0]


# -- run, check, compare
def test_run_writes_json_and_html_and_reports_the_same(tmp_path: Path) -> None:
    out, page = tmp_path / "run.json", tmp_path / "run.html"
    result = cli("run", "divergence", "--language", "cuda-c", "--json", out, "--html", page, columns=80)
    assert result.exit_code == 0, result.output
    assert "9 of 9 expectations hold" in result.stdout
    assert "Numba" not in result.stdout.split("Expectations")[0]
    assert max(map(len, result.stdout.splitlines())) <= 80
    assert page.read_text().startswith("<!doctype html>")
    again = cli("report", out, columns=80)
    assert again.exit_code == 0
    assert result.stdout.strip() in again.stdout
    assert cli("diff", out, out).exit_code == 0
    assert cli("report", out, "--html", tmp_path / "again.html").exit_code == 0


def test_run_with_a_failed_expectation_exits_1(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    import dataclasses

    import kernellab.experiments
    from kernellab.experiments.experiment import Expectation

    experiment = kernellab.experiments.load("divergence")
    wrong = Expectation("up is down", lambda rows: (False, "it is not"))
    broken = dataclasses.replace(
        experiment, sweeps=experiment.sweeps[:1], expectations=(wrong,), claims=(), pictures=None
    )
    monkeypatch.setattr(kernellab.experiments, "load", lambda name: broken)
    result = cli("run", "divergence", "--json", tmp_path / "r.json")
    assert result.exit_code == 1
    assert "up is down" in result.stdout
    assert (
        json.loads((tmp_path / "r.json").read_text())["experiments"][0]["expectations"][0]["verdict"]
        == "failed"
    )


def test_diff_shows_a_changed_count(tmp_path: Path) -> None:
    one, two = tmp_path / "one.json", tmp_path / "two.json"
    for out, stride in ((one, 1), (two, 8)):
        result = cli("compare", "copy/strided", "-p", f"stride={stride}", "--json", out)
        assert result.exit_code == 0, result.output
    result = cli("diff", one, two)
    assert result.exit_code == 1
    (line,) = [each for each in result.stdout.splitlines() if "cuda-c: global_load_sectors" in each]
    assert line.split()[-2:] == ["8", "x"]


def test_compare_prints_both_languages() -> None:
    result = cli("compare", "transpose/padded", "--case", "33 x 33")
    assert result.exit_code == 0, result.output
    for part in ("CUDA C", "Numba", "registers", "SASS instructions", "padded.cu", "both right"):
        assert part in result.stdout


def test_compare_on_a_gpu_says_who_is_faster_and_what_a_launch_costs(monkeypatch: pytest.MonkeyPatch) -> None:
    world, _ = make_gpu(monkeypatch)
    world.seconds |= {"copy_scalar": 1e-4, "copy_scalar twin": 1.2e-4}
    result = cli("compare", "copy/scalar", "--case", "1000 elements", "--device", "gpu", columns=120)
    assert result.exit_code == 0, result.output
    last = result.stdout.strip().splitlines()[-2:]
    assert last[0] == "time: Numba is slower by 20.0 %; Numba by CUDA C, 95 % confidence: 1.200 to 1.200"
    assert last[1] == "launch, on the host and not in that time: CUDA C 5.0 us, Numba 5.0 us"


def test_compare_on_both_puts_counts_beside_hardware_counters(monkeypatch: pytest.MonkeyPatch) -> None:
    make_gpu(monkeypatch)
    seen = {"global_load_sectors": 126.0, "seconds": 1e-6}
    monkeypatch.setattr("kernellab.instruments.counters.read_counters", lambda jobs: [[seen]])
    result = cli("compare", "copy/scalar", "--case", "1000 elements", "--device", "both", columns=120)
    assert result.exit_code == 0, result.output
    rows = [line.split() for line in result.stdout.splitlines() if "global_load_sectors " in line]
    assert [row[1:3] for row in rows] == [["126", "126"], ["125", "125"]]  # measured, then counted
    assert "global_load_sectors: counted 125, measured 126" in result.stdout


def test_compare_where_nothing_is_timed_says_nothing_of_time() -> None:
    result = cli("compare", "copy/scalar", "--case", "1000 elements", "--device", "emulator")
    assert result.exit_code == 0, result.output
    assert "launch, on the host" not in result.stdout
    assert "time:" not in result.stdout


@pytest.mark.parametrize("command", ["run", "compare"])
def test_both_without_a_gpu_exits_3(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    import kernellab.devices

    def missing() -> None:
        raise UnavailableError("device: 'gpu' is not here")

    monkeypatch.setattr(kernellab.devices, "_gpu", missing)
    result = cli(command, *(["copy/scalar"] if command == "compare" else []), "--device", "both")
    assert result.exit_code == 3
    assert "'gpu' is not here" in result.stderr


def test_json_to_standard_output_is_json_alone() -> None:
    result = cli("check", "relu/branch", "--language", "cuda-c", "--json", "-")
    assert result.exit_code == 0, result.output
    assert len(json.loads(result.stdout)["checks"]) == 10


def test_check_counts_cases_in_both_languages() -> None:
    result = cli("check", "relu")
    assert result.exit_code == 0, result.output
    (line,) = [each for each in result.stdout.splitlines() if each.startswith("relu/multiply")]
    assert line.count("9 of 10 right, 1 wrong on purpose") == 2


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (("run", "divergance"), 2, "divergance: no experiment has this name; did you mean 'divergence'?"),
        (("check", "transpos"), 2, "transpos: no problem has this name; did you mean 'transpose'?"),
        (("compare", "transpose/pad"), 2, "transpose has no rung 'pad'"),
        (("compare", "copy/scalar", "-p", "stride"), 2, "--parameter stride: it must be NAME=NUMBER"),
        (("compare", "copy/scalar", "--case", "7 cats"), 2, "copy: there is no case '7 cats'"),
        (("bench", "cats"), 2, "bench: 'cats' is nothing to time"),
        (("report", "none.json"), 2, "none.json: it cannot be read"),
    ],
)
def test_errors_are_one_sentence(arguments: tuple, status: int, message: str) -> None:
    result = cli(*arguments)
    assert result.exit_code == status
    assert message in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1


@pytest.mark.parametrize(
    "arguments", [("run", "--device", "tpu"), ("run", "--language", "c"), ("nothing",), ("trace",)]
)
def test_wrong_options_exit_2(arguments: tuple) -> None:
    assert cli(*arguments).exit_code == 2


@pytest.mark.parametrize("arguments", [("run",), ("check", "relu"), ("compare", "relu/branch")])
def test_no_gpu_exits_3(arguments: tuple, monkeypatch: pytest.MonkeyPatch) -> None:
    import kernellab.devices

    def missing() -> None:
        raise UnavailableError("device: 'gpu' is not here; pass device='emulator'")

    monkeypatch.setattr(kernellab.devices, "_gpu", missing)
    result = cli(*arguments, "--device", "gpu")
    assert result.exit_code == 3
    assert "'gpu' is not here; pass --device emulator" in result.stderr


@pytest.mark.parametrize("arguments", [("tune", "matmul_nt/wgmma", "-c", "BAND=4"), ("bench", "gpu")])
def test_what_takes_no_device_does_not_name_the_option(
    arguments: tuple, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    result = cli(*arguments)
    assert result.exit_code == 3
    assert "hides every device; unset it" in result.stderr
    assert "--device" not in result.stderr


def test_list_names_every_experiment_and_every_rung_of_every_problem() -> None:
    from kernellab import catalog
    from kernellab.experiments import EXPERIMENTS

    lines = cli("list", columns=250).stdout.splitlines()
    starts = {line.split()[0]: line for line in lines if line}
    assert {*EXPERIMENTS, *catalog.PROBLEMS} <= starts.keys()
    for name in catalog.PROBLEMS:
        ladder = " ".join(kernel.name for kernel in catalog.ladder(name))
        assert re.fullmatch(rf"{name} +{re.escape(catalog.problem(name).summary)} +{ladder} *", starts[name])


def test_list_of_a_problem_gives_each_rung_its_lesson_and_the_reference() -> None:
    from kernellab import catalog

    shown = cli("list", "relu", columns=250).stdout
    assert "coalescing" not in shown
    for kernel in catalog.ladder("relu"):
        assert re.search(rf"{kernel.id} .*{re.escape(kernel.header.lesson)}", shown)
    assert "reference: kernellab/catalog/relu.py:" in shown


def test_list_of_a_rung_says_where_it_is_in_both_languages() -> None:
    from kernellab import catalog
    from kernellab.cli.catalogue import where

    root = Path(catalog.__file__).parents[2]
    for kernel in catalog.kernels():
        for function in (kernel.problem.reference, *([kernel.twin] if kernel.has_twin else [])):
            path, _, line = where(function).partition(":")
            text = (root / path).read_text(encoding="utf-8").splitlines()[int(line) - 1]
            assert re.search(r"\bdef \w|\blambda\b", text), (kernel.id, text)
    places = re.findall(r"\S+\.(?:cu|py)\b", cli("list", "sum/shuffle", columns=250).stdout)
    assert places == ["kernels_cu/sum/shuffle.cu", "kernellab/catalog/sum.py", "kernellab/catalog/sum.py"]
    shown = " ".join(cli("list", "matmul/wgmma", columns=250).stdout.split())
    assert f"Numba {catalog.kernel('matmul/wgmma').twin}" in shown
    assert "requires sm_90a" in shown


def test_doctor_fits_one_screen_and_says_what_is_missing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    import kernellab.devices

    def missing() -> None:
        raise UnavailableError("device: 'gpu' is not here, this machine has none; pass device='emulator'")

    monkeypatch.setattr(kernellab.devices, "_gpu", missing)
    out = tmp_path / "doctor.json"
    result = cli("doctor", "--json", out, columns=80)
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert len(lines) <= 40
    assert max(map(len, lines)) <= 80
    assert any(line.startswith("missing GPU") for line in lines)
    assert "this machine has none" in result.stdout
    assert "emulator, with exact counts" in result.stdout.replace("\n", " ")
    names = {part["name"] for part in json.loads(out.read_text())}
    assert {
        "kernellab",
        "Python",
        "NumPy",
        "NVRTC",
        "nvdisasm",
        "numba-cuda",
        "nvcc",
        "GPU",
        "cache",
    } <= names


def test_doctor_tries_to_write_in_the_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("KERNELLAB_CACHE_DIR", str(tmp_path / "file" / "below"))
    result = cli("doctor", columns=200)
    assert "cannot be written (Not a directory); set KERNELLAB_CACHE_DIR" in result.stdout
    monkeypatch.setenv("KERNELLAB_CACHE_DIR", str(tmp_path / "new"))
    result = cli("doctor", columns=200)
    assert f"{tmp_path / 'new'} (writable)" in result.stdout
    assert "set KERNELLAB_CACHE_DIR" not in result.stdout


def test_doctor_without_nvrtc_exits_3(monkeypatch: pytest.MonkeyPatch) -> None:
    from kernellab.cli import doctor_command
    from kernellab.compile import Part

    part = Part("NVRTC", None, "CUDA C", "pip install 'kernellab[cuda13]'")
    monkeypatch.setattr(doctor_command, "parts", lambda: iter([part]))
    result = cli("doctor")
    assert result.exit_code == 3
    assert "NVRTC: pip install 'kernellab[cuda13]'" in result.stdout


@pytest.mark.skipif(not Path("/dev/full").is_char_device(), reason="/dev/full is Linux's")
def test_a_full_disk_under_standard_output_is_one_sentence() -> None:
    command = [sys.executable, "-m", "kernellab", "occupancy", "32", "--block", "64"]
    with open("/dev/full", "w", encoding="utf-8") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    rule = "No space left on device; write to another place"
    assert (done.returncode, done.stderr) == (1, f"error: standard output cannot be written: {rule}\n")


def test_a_closed_pipe_is_no_error() -> None:
    command = f"{sys.executable} -m kernellab list | head -1"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert done.stderr == ""


# -- arguments
@pytest.mark.parametrize(
    ("text", "dtype", "shape", "first"),
    [
        ("f32[8]", "float32", (8,), 0),
        ("f16[2,3]:ones", "float16", (2, 3), 1),
        ("bf16[4]:ones", "bfloat16", (4,), 1),
        ("i64[2x2]:arange", "int64", (2, 2), 0),
        ("u8[5]:arange", "uint8", (5,), 0),
        ("bool[3]:ones", "bool", (3,), True),
    ],
)
def test_arrays(text: str, dtype: str, shape: tuple, first: object) -> None:
    array = parse_argument(text)
    assert (str(array.dtype), array.shape, array.flat[0]) == (dtype, shape, first)


def test_random_is_seeded_and_within_range() -> None:
    assert (parse_argument("f32[100]:random", 1) == parse_argument("f32[100]:random", 1)).all()
    assert (parse_argument("f32[100]:random", 1) != parse_argument("f32[100]:random", 2)).any()
    integers = parse_argument("i32[1000]:random")
    assert integers.min() >= 0
    assert integers.max() < 100


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("i32=-7", np.int32(-7)),
        ("u64=0xff", np.uint64(255)),
        ("f64=1e-3", np.float64(1e-3)),
        ("bool=true", np.True_),
    ],
)
def test_scalars(text: str, value: object) -> None:
    found = parse_argument(text)
    assert (type(found), found) == (type(value), value)


def test_npy_files(tmp_path: Path) -> None:
    path = tmp_path / "x.npy"
    np.save(path, np.asfortranarray(np.arange(6, dtype=np.int16).reshape(2, 3)))
    array = parse_argument(str(path))
    assert array.flags.c_contiguous
    assert array.tolist() == [[0, 1, 2], [3, 4, 5]]
    assert parse_argument(f"i16[6]:{path}").shape == (6,)
    with pytest.raises(SpecError, match=r"holds int16\[2, 3\]; write its own type and shape"):
        parse_argument(f"i32[6]:{path}")


def test_small_parsers() -> None:
    assert parse_sides("1,2,3", "grid") == (1, 2, 3)
    assert parse_globals(["a=1,2.5", "b=0x10"]) == {"a": [1, 2.5], "b": 16}
    assert parse_parameters(["stride=8", "scale=0.5"]) == {"stride": 8, "scale": 0.5}
    with pytest.raises(SpecError, match=r"^--parameter n=9: n was given before; leave one out$"):
        parse_parameters(["n=8", "n=9"])
    with pytest.raises(SpecError, match=r"^--global n=8: n was given before; leave one out$"):
        parse_globals(["n=8", "n=8"])
    with pytest.raises(SpecError, match="it must be one to three integers"):
        parse_sides("1,2,3,4", "grid")


def test_progress_goes_to_a_file_as_lines_and_no_more_than_one_in_a_while(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from kernellab.cli import output

    now = [100.0]
    monkeypatch.setattr(output.time, "monotonic", lambda: now[0])
    with output.progress() as progress:
        for step, seconds in enumerate((0.0, 0.5, 3.0, 0.1, 2.0)):
            now[0] += seconds
            progress(f"step {step}", step, 5)
    seen = capsys.readouterr()
    assert seen.err.splitlines() == ["step 2 (3 of 5)", "step 4 (5 of 5)"]
    assert seen.out == ""


@pytest.mark.parametrize(
    ("options", "languages"),
    [((), ("cuda-c",)), (("--language", "both"), ("cuda-c", "numba")), (("--language", "numba"), ("numba",))],
)
def test_fusion_runs_in_cuda_c_unless_asked(
    options: tuple, languages: tuple, monkeypatch: pytest.MonkeyPatch
) -> None:
    from kernellab.experiments import runner

    ran = []

    def compile_nothing(experiment: object, where: object, chosen: tuple, *_: object) -> None:
        ran.append(chosen)
        raise SpecError("this is as far as it goes")

    monkeypatch.setattr(runner, "_compile", compile_nothing)
    result = cli("run", "fusion", *options)
    assert "as far as it goes" in result.stderr
    assert ran == [languages]


# -- run under a profiler
def test_profiling_without_a_gpu_says_so_and_prints_the_commands(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kernellab.devices._gpu", absent_gpu)
    found = cli("run", "graphs", "ladders:sum", "--language", "numba", "--profile", "--nvtx")
    assert found.exit_code == 3
    systems, compute = (line.split() for line in found.stderr.splitlines() if line.startswith("  "))
    assert systems[:2] == ["nsys", "profile"]
    assert {"--capture-range=cudaProfilerApi", "--capture-range-end=repeat:2"} <= set(systems)
    assert compute[:3] == ["ncu", "--profile-from-start", "off"]
    for line in (systems, compute):
        run = " ".join(line[line.index("-m") :])
        assert run.endswith("run graphs ladders:sum --device gpu --language numba --nvtx --profile")
    assert found.stderr.splitlines()[-1].startswith(
        "error: run: --nvtx and --profile: there is no GPU to watch"
    )


def absent_gpu() -> None:
    raise UnavailableError("device: 'gpu' is not here, CUDA says no; pass device='emulator'")


def test_a_profiler_sees_nothing_of_the_emulator() -> None:
    found = cli("run", "graphs", "--nvtx", "--device", "emulator")
    assert found.exit_code == 2
    assert (
        "error: run: --nvtx: no profiler sees what the emulator runs; pass --device gpu or both"
        in found.stderr
    )
    assert "nsys profile" not in found.stderr


def test_a_watched_run_marks_launches_and_leaves_nothing_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    from kernellab.experiments import load
    from kernellab.instruments.profiler import NOBODY

    world, device = make_gpu(monkeypatch)
    del world.cupy.cuda.nvtx
    experiment = load("divergence")
    sweep = dataclasses.replace(experiment.sweeps[0], points=experiment.sweeps[0].points[1:2])
    short = dataclasses.replace(experiment, sweeps=(sweep,), expectations=(), claims=(), pictures=None)
    monkeypatch.setattr("kernellab.experiments.load", lambda name: short)
    found = cli("run", "divergence", "--language", "cuda-c", "--profile", "--nvtx")
    assert found.exit_code == 0, found.stderr
    assert "this CuPy was built without NVTX" in found.stderr
    assert world.log.count(("profile",)) == world.log.count(("done",)) == 1
    assert device.launcher.profiler is NOBODY
