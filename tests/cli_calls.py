"""The command line, called in this process."""

from __future__ import annotations

from typing import Any

from typer.testing import CliRunner

from kernellab.cli import app


def invoke(*arguments: object, columns: int = 100) -> Any:
    """Return how a command ended on a terminal without colours, so many columns wide."""
    runner = CliRunner(env={"COLUMNS": str(columns), "NO_COLOR": "1"})
    return runner.invoke(app, [str(each) for each in arguments])
