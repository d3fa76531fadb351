"""``kernellab report --readme``: the README's picture and results, rendered from real output."""

from __future__ import annotations

from pathlib import Path

EXPERIMENT = "coalescing"
KERNELS = ("transpose/tiled", "transpose/padded")


def render_readme(readme: Path, folder: Path) -> None:
    """Run an experiment on the emulator, read the results, and put both between the markers."""
    from kernellab.errors import SpecError
    from kernellab.report.document import write
    from kernellab.report.results import replace_between, section
    from kernellab.results import load_folder

    try:
        text = readme.read_text(encoding="utf-8")
    except OSError as error:
        raise SpecError(f"readme: {readme} cannot be read ({error.strerror}); give another file") from error
    for marker in ("picture", "results"):  # refused before anything runs
        replace_between(text, marker, "")
    text = replace_between(text, "picture", picture())
    text = replace_between(text, "results", section(load_folder(folder)))
    write(readme, text)


def picture() -> str:
    """Return what an experiment and two kernels show on the emulator, as a block of text."""
    from kernellab.experiments import load
    from kernellab.experiments.runner import run
    from kernellab.report.pictures import draw

    result = run(load(EXPERIMENT), "emulator")
    lines = [f"$ kernellab run {EXPERIMENT} --pictures"]
    for each in result.pictures:
        lines += [line.plain.rstrip() for line in draw(each, 88)]
    for kernel in KERNELS:
        lines += ["", *conflicts(kernel)]
    return "\n".join(("```", *lines, "```"))


def conflicts(kernel: str) -> list[str]:
    """Return the source lines of a kernel that touch shared memory, with what the emulator counts there."""
    from kernellab.measurement import measure

    record = measure(kernel, device="emulator")
    head = f"{kernel}: requests, wavefronts and bank conflicts in shared memory, line by line"
    found = [head]
    for line in record.lines:
        if line.shared_requests:
            counts = f"{line.shared_requests:>6} {line.shared_wavefronts:>6} {line.bank_conflicts:>6}"
            found.append(f"  {line.number:>4} {counts}  {line.text.strip()}")
    return found
