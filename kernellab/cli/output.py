"""What commands share: languages, progress, and where results go."""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

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


def check_files(*files: Path | None) -> None:
    """Refuse files that cannot be written, before the work is done."""
    from kernellab.report.document import check_writable

    for file in files:
        if file is not None and str(file) != "-":
            check_writable(file)


@contextlib.contextmanager
def progress() -> Iterator[Progress]:
    """Show a bar on stderr while something runs; nothing where stderr is no terminal."""
    if not sys.stderr.isatty():
        yield lambda what, done, total: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("starting", total=None)

        def show(what: str, done: int, total: int) -> None:
            bar.update(task, description=what, completed=done, total=total)

        yield show


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
    """Write what was asked for; ``-`` is standard output."""
    from kernellab.report.document import to_json, write

    if json_file is not None:
        text = to_json(document)
        if str(json_file) == "-":
            sys.stdout.write(text)
        else:
            write(json_file, text)
    if html_file is not None:
        from kernellab.report.html import page

        write(html_file, page([document]))


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
