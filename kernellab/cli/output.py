"""What commands share: languages, progress, and where results go."""

from __future__ import annotations

import contextlib
import json
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kernellab.errors import SpecError
from kernellab.kernel import LANGUAGES, Language

if TYPE_CHECKING:
    from kernellab.report.document import Document

Progress = Callable[[str, int, int], None]


def languages(name: str) -> tuple[Language, ...]:
    """Return the languages that ``--language`` names.

    Examples
    --------
    >>> languages("both"), languages("numba")
    (('cuda-c', 'numba'), ('numba',))
    """
    return LANGUAGES if name == "both" else tuple(each for each in LANGUAGES if each == name)


def check_files(json_file: Path | None, html_file: Path | None = None, reads: Sequence[Path] = ()) -> None:
    """Refuse files that cannot be written, or hold what the command reads, before the work is done.

    Raises
    ------
    SpecError
        For a folder, a file that is one of `reads`, or one file for both.
    """
    from kernellab.report.document import check_writable

    for option, file in (("--json", json_file), ("--html", html_file)):
        if file is None or (option == "--json" and str(file) == "-"):
            continue
        check_writable(file)
        if any(read.exists() and file.exists() and read.samefile(file) for read in reads):
            rule = f"it is read by this command, and {option} would overwrite it"
            raise SpecError(f"{file}: {rule}; choose another place")
    if json_file is not None and html_file is not None and json_file.resolve() == html_file.resolve():
        raise SpecError(f"{json_file}: --json and --html both name it; write to two files")


@contextlib.contextmanager
def progress() -> Iterator[Progress]:
    """Show on stderr how far something is: a bar on a terminal, elsewhere a line every few seconds."""
    if not sys.stderr.isatty():
        yield _lines()
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("starting", total=None)

        def show(what: str, done: int, total: int) -> None:
            bar.update(task, description=what, completed=done, total=total)

        yield show


def _lines(apart: float = 2.0) -> Progress:
    """Return a progress that prints a line once so many seconds have passed since the last, or the start."""
    last = time.monotonic()

    def show(what: str, done: int, total: int) -> None:
        nonlocal last
        if time.monotonic() - last >= apart:
            last = time.monotonic()
            step = f" ({min(done + 1, total)} of {total})" if done else ""
            print(f"{what}{step}", file=sys.stderr, flush=True)

    return show


@contextlib.contextmanager
def patience(what: str, after: float = 2.0) -> Iterator[None]:
    """Say on stderr's terminal what is going on, once it takes longer than `after` seconds."""
    if not sys.stderr.isatty():
        yield
        return
    from rich.console import Console

    status = Console(stderr=True).status(what)
    timer = threading.Timer(after, status.start)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()
        status.stop()


def save(document: Document, json_file: Path | None, html_file: Path | None) -> None:
    """Write what was asked for; ``-`` is standard output, which comes last."""
    from kernellab.report.document import to_json, write

    if html_file is not None:
        from kernellab.report.html import page

        write(html_file, page([document]))
    if json_file is not None:
        _put(json_file, to_json(document))


def save_plain(found: Any, json_file: Path | None) -> None:
    """Write as JSON what is no document, where it was asked for."""
    if json_file is not None:
        _put(json_file, json.dumps(found, indent=1) + "\n")


def _put(json_file: Path, text: str) -> None:
    from kernellab.report.document import write
    from kernellab.report.text import Lasting

    if not is_silent(json_file):
        write(json_file, text)
        return
    target = Lasting(sys.stdout)
    target.write(text)
    target.flush()


def is_silent(json_file: Path | None) -> bool:
    """Whether standard output belongs to the JSON."""
    return json_file is not None and str(json_file) == "-"


def environment() -> dict[str, str]:
    """Return the versions and the machine."""
    from kernellab.measurement import environment as found

    return found()


def fail(is_failed: bool) -> None:
    """End with status 1 if something failed."""
    if is_failed:
        import typer

        from kernellab.cli.errors import FAILED

        raise typer.Exit(FAILED)


__all__: list[Any] = [
    "check_files", "environment", "fail", "is_silent", "languages", "patience", "progress", "save",
]  # fmt: skip
