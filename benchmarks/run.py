"""Run every GPU suite and write ``benchmarks/results/*.json``: ``python benchmarks/run.py [SUITE...]``.

The same as ``kernellab bench gpu --out benchmarks/results``, with the folder beside this file.
"""

from __future__ import annotations

import sys
from pathlib import Path

from kernellab.cli.errors import handled
from kernellab.cli.suites_command import run_suites
from kernellab.suites import SUITES


@handled
def main(names: list[str]) -> None:
    run_suites(names or SUITES, Path(__file__).parent / "results")


if __name__ == "__main__":
    import typer

    try:
        main(sys.argv[1:])
    except typer.Exit as end:
        sys.exit(end.exit_code)
