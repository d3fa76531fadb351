"""The command line. Commands are declared here and done in modules of their own, loaded when they run."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from kernellab.cli.errors import guarded, handled

app = typer.Typer(
    name="kernellab",
    help="A laboratory for CUDA kernels: CUDA C beside Numba, counted on an emulator, no GPU needed.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Exit status: 0 fine; 1 a check or expectation failed; 2 wrong usage; "
    "3 the device or tool is not here.",
)


class DeviceName(StrEnum):
    """Where to run."""

    AUTO = "auto"
    GPU = "gpu"
    EMULATOR = "emulator"


class DevicesName(StrEnum):
    """Where to run, or on both beside each other."""

    AUTO = "auto"
    GPU = "gpu"
    EMULATOR = "emulator"
    BOTH = "both"


class LanguageName(StrEnum):
    """In which language."""

    CUDA_C = "cuda-c"
    NUMBA = "numba"
    BOTH = "both"


Device = Annotated[
    DeviceName,
    typer.Option("--device", help="Where; auto is the GPU if there is one."),
]
Devices = Annotated[
    DevicesName,
    typer.Option(
        "--device",
        help="Where; auto is the GPU if there is one, and the emulator for what is counted (run); both puts "
        "the emulator's counts beside the GPU's times and counters.",
    ),
]
Language = Annotated[LanguageName, typer.Option("--language", help="CUDA C, its Numba twin, or both.")]
Json = Annotated[
    Path | None, typer.Option("--json", help="Write everything as JSON, to read or report later.")
]
PlainJson = Annotated[Path | None, typer.Option("--json", help="Write everything as JSON.")]
Html = Annotated[Path | None, typer.Option("--html", help="Write a page that needs nothing else.")]


@app.command()
@handled
def doctor(
    targets: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[TARGET]...", help="Kernels: PROBLEM, PROBLEM/RUNG, FILE.cu or FILE.cu::ENTRY."
        ),
    ] = None,
    language: Language = LanguageName.BOTH,
    json_file: PlainJson = None,
) -> None:
    """Say what this machine can give and how to get the rest; of kernels, which lines compute in float64."""
    if targets:
        from kernellab.cli.float64_command import look_at_kernels

        look_at_kernels(targets, language.value, json_file)
        return
    from kernellab.cli.doctor_command import doctor as command

    command(json_file)


@app.command("list")
@handled
def list_(
    names: Annotated[
        list[str] | None, typer.Argument(help="PROBLEM or PROBLEM/RUNG; by default all problems.")
    ] = None,
) -> None:
    """List experiments and problems; of a PROBLEM its rungs, of a rung what it teaches and where it is."""
    from kernellab.cli.catalogue import list_catalogue

    list_catalogue(names or [])


@app.command()
@handled
def run(
    experiments: Annotated[
        list[str] | None,
        typer.Argument(help="Which; by default coalescing, bank-conflicts and divergence."),
    ] = None,
    device: Devices = DevicesName.AUTO,
    language: Annotated[
        LanguageName | None,
        typer.Option("--language", help="CUDA C, its Numba twin, or both; by default both, but for fusion."),
    ] = None,
    json_file: Json = None,
    html_file: Html = None,
    pictures: Annotated[
        bool | None, typer.Option("--pictures/--no-pictures", help="Draw; by default on a terminal.")
    ] = None,
    nvtx: Annotated[
        bool, typer.Option("--nvtx", help="On a GPU: a named range for each experiment, case and launch.")
    ] = False,
    profile: Annotated[
        bool,
        typer.Option(
            "--profile",
            help="On a GPU: let Nsight's tools record each kernel once, time nothing; prints their commands.",
        ),
    ] = False,
) -> None:
    """Run experiments: what is swept, what must hold, what others claimed."""
    from kernellab.cli.run_command import Watch, run_experiments

    asked = None if language is None else language.value
    watch = Watch(nvtx, profile)
    run_experiments(experiments or [], device.value, asked, json_file, html_file, pictures, watch)


@app.command()
@handled
def check(
    names: Annotated[
        list[str] | None, typer.Argument(help="PROBLEM or PROBLEM/RUNG; all by default.")
    ] = None,
    device: Device = DeviceName.AUTO,
    language: Language = LanguageName.BOTH,
    json_file: Json = None,
    html_file: Html = None,
) -> None:
    """Verify rungs against NumPy on every awkward case, and look for races."""
    from kernellab.cli.catalogue import check_catalogue

    check_catalogue(names or [], device.value, language.value, json_file, html_file)


@app.command()
@handled
def compare(
    name: Annotated[str, typer.Argument(help="PROBLEM/RUNG")],
    case: Annotated[
        str | None, typer.Option("--case", help="One of the problem's cases; the first by default.")
    ] = None,
    parameter: Annotated[
        list[str] | None, typer.Option("--parameter", "-p", help="A run-time scalar: stride=8")
    ] = None,
    device: Devices = DevicesName.AUTO,
    json_file: Json = None,
    html_file: Html = None,
) -> None:
    """Lay a rung's CUDA C beside its Numba twin: answers, times, counts, registers, instructions, lines."""
    from kernellab.cli.compare_command import compare_languages

    compare_languages(name, case, parameter or [], device.value, json_file, html_file)


@app.command()
@handled
def trace(
    target: Annotated[
        str, typer.Argument(metavar="FILE::ENTRY", help=".cu, .ptx, or .py with a Numba kernel.")
    ],
    grid: Annotated[str, typer.Option("--grid", help="Blocks along x,y,z: 1024 or 32,32")] = "1",
    block: Annotated[str, typer.Option("--block", help="Threads along x,y,z: 256 or 32,32")] = "1",
    arg: Annotated[
        list[str] | None,
        typer.Option(
            "--arg",
            help="In order: f32[1048576]:random (zeros, ones, arange, FILE.npy), x.npy, i32=1048576, null.",
        ),
    ] = None,
    shared_mem: Annotated[int, typer.Option("--shared-mem", min=0, help="Dynamic shared memory, bytes.")] = 0,
    sanitize: Annotated[bool, typer.Option("--sanitize", help="Look for races in shared memory.")] = False,
    blocks: Annotated[
        int | None, typer.Option("--blocks", min=1, help="Run a sample of so many blocks.")
    ] = None,
    variable: Annotated[
        list[str] | None,
        typer.Option("--global", help="NAME=VALUE of a __constant__ or __device__ variable."),
    ] = None,
    option: Annotated[
        list[str] | None, typer.Option("--option", help="A compiler option, such as --option=-DTILE=16")
    ] = None,
    arch: Annotated[
        str, typer.Option("--arch", help="What to compile for; doctor lists what there is.")
    ] = "sm_90",
    budget: Annotated[
        int | None, typer.Option("--budget", min=1, help="Instructions a wave may execute.")
    ] = None,
    json_file: Json = None,
    html_file: Html = None,
) -> None:
    """Run anybody's kernel on the emulator and print its source with counts beside the lines."""
    from kernellab.cli.trace_command import Request, trace_kernel

    trace_kernel(
        Request(
            target, grid, block, tuple(arg or ()), shared_mem, sanitize, blocks, tuple(variable or ()),
            tuple(option or ()), arch, budget,
        ),
        json_file,
        html_file,
    )  # fmt: skip


@app.command()
@handled
def occupancy(
    target: Annotated[
        str, typer.Argument(metavar="TARGET", help="Registers a thread, PROBLEM/RUNG, or FILE.cu::ENTRY.")
    ],
    block: Annotated[
        str | None, typer.Option("--block", help="Threads along x,y,z; of a rung its own by default.")
    ] = None,
    shared_mem: Annotated[
        int | None, typer.Option("--shared-mem", help="Dynamic shared memory of a block, bytes.")
    ] = None,
    grid: Annotated[str | None, typer.Option("--grid", help="Blocks along x,y,z: its waves.")] = None,
    language: LanguageName = LanguageName.CUDA_C,
    arch: Annotated[str, typer.Option("--arch", help="Such as sm_90; a wrong one is told all.")] = "sm_90",
    json_file: PlainJson = None,
) -> None:
    """Say how many blocks a multiprocessor holds, what limits them, and how a grid fills a device."""
    from kernellab.cli.occupancy_command import occupancy as command

    command(target, block, shared_mem, grid, language.value, arch, json_file)


@app.command()
@handled
def bench(
    what: Annotated[str, typer.Argument(help="emulator, gpu for all of a GPU's suites, or one of them.")],
    out: Annotated[
        Path | None, typer.Option("--out", help="Folder for the suites' results, one JSON file each.")
    ] = None,
    json_file: Json = None,
    html_file: Html = None,
) -> None:
    """Measure: `bench emulator` this lab's emulator, `bench gpu` kernels, peers, counters and clock."""
    from kernellab.cli.bench_command import bench as command

    command(what, json_file, html_file, out)


@app.command()
@handled
def tune(
    name: Annotated[str, typer.Argument(help="PROBLEM/RUNG")],
    size: Annotated[
        list[str] | None, typer.Option("--size", help="Each size of its inputs: n=2**28, rows=16384")
    ] = None,
    constant: Annotated[
        list[str] | None, typer.Option("--constant", "-c", help="What to sweep: THREADS=128,256,512")
    ] = None,
    element: Annotated[str, typer.Option("--element", help="float32, float16, bfloat16 ...")] = "",
    language: LanguageName = LanguageName.CUDA_C,
) -> None:
    """Sweep a rung's constants on a GPU; the fastest first, what is not valid with its reason."""
    from kernellab.cli.tune_command import tune as command
    from kernellab.errors import SpecError

    if language.value == "both":
        raise SpecError("tune: a table is of one language; ask for --language cuda-c or numba")
    command(name, size or [], constant or [], element, language.value)  # type: ignore[arg-type]


@app.command()
@handled
def report(
    files: Annotated[list[Path] | None, typer.Argument(help="Files that --json wrote.")] = None,
    html_file: Html = None,
    pictures: Annotated[
        bool | None, typer.Option("--pictures/--no-pictures", help="Draw; by default on a terminal.")
    ] = None,
    readme: Annotated[
        Path | None, typer.Option("--readme", help="Render this file's picture and results instead.")
    ] = None,
    results: Annotated[Path, typer.Option("--results", help="Folder that `bench gpu --out` wrote.")] = Path(
        "benchmarks/results"
    ),
) -> None:
    """Print what --json files hold, or make a page of them; or render a README between its markers."""
    if readme is not None:
        from kernellab.cli.readme_command import render_readme

        render_readme(readme, results)
        return
    from kernellab.cli.reports import report as command
    from kernellab.errors import SpecError

    if not files:
        raise SpecError("report: there is no file to report; give one that --json wrote, or --readme FILE")
    command(files, html_file, pictures)


@app.command()
@handled
def diff(
    before: Annotated[Path, typer.Argument(help="A file that --json wrote.")],
    after: Annotated[Path, typer.Argument(help="Another of the same command.")],
) -> None:
    """Show what differs between two --json files; exit 1 if a count or a verdict does."""
    from kernellab.cli.reports import diff as command

    command(before, after)


@guarded
def main() -> None:
    """Run the command line."""
    app()
