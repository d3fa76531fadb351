"""``kernellab report`` and ``kernellab diff``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from kernellab.cli import output


def report(files: Sequence[Path], html_file: Path | None, is_pictured: bool | None) -> None:
    """Print what files hold, or make one page of them."""
    from kernellab.report.document import load, write
    from kernellab.report.text import console, print_document

    output.check_files(None, html_file, files)
    documents = [load(path) for path in files]
    if html_file is not None:
        from kernellab.report.html import page

        write(html_file, page(documents))
        return
    target = console()
    for document in documents:
        print_document(target, document, is_pictured=is_pictured)


def diff(before: Path, after: Path) -> None:
    """Print what differs between two files; fail if a count or a verdict does."""
    from kernellab.report.diff import compare_documents, diff_table
    from kernellab.report.document import load
    from kernellab.report.text import console, print_table

    changes = compare_documents(load(before), load(after))
    target = console()
    if changes:
        print_table(target, diff_table(changes, str(before), str(after)))
    counted = [change for change in changes if change.matters]
    target.print(
        f"{len(counted)} counts and verdicts differ" if counted else "no count and no verdict differs",
        markup=False,
    )
    output.fail(bool(counted))
