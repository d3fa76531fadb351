"""``kernellab tune``: a rung's constants swept on a GPU."""

from __future__ import annotations

from collections.abc import Sequence

from kernellab.errors import SpecError
from kernellab.kernel import Language


def tune(name: str, sizes: Sequence[str], constants: Sequence[str], element: str, language: Language) -> None:
    """Print the table of one rung."""
    from kernellab import catalog
    from kernellab.cli.arguments import check_named_once
    from kernellab.cli.suites_command import make_bench
    from kernellab.report.text import console, print_table
    from kernellab.suites import tune as suite

    kernel = catalog.kernel(name)
    check_named_once(sizes, "size")
    check_named_once(constants, "constant")
    found = {key: numbers(each, 1)[0] for each in sizes for key in [each.partition("=")[0]]}
    sweeps = {each.partition("=")[0]: numbers(each) for each in constants}
    suite.variants(kernel, sweeps)  # refused before a GPU is looked for
    print_table(console(), suite.tune(make_bench(), kernel, found, sweeps, element, language))


def numbers(text: str, most: int = 0) -> list[int]:
    """Return the numbers of ``NAME=1,2,3``; powers as ``2**28``.

    Raises
    ------
    SpecError
        For anything else, or more than `most`.

    Examples
    --------
    >>> numbers("THREADS=128,256"), numbers("n=2**28", 1)
    ([128, 256], [268435456])
    """
    name, _, values = text.partition("=")
    try:
        found = [_number(each) for each in values.split(",")]
    except ValueError:
        found = []
    if not name or not found or (most and len(found) > most):
        form = "NAME=NUMBER" if most else "NAME=NUMBER,NUMBER"
        raise SpecError(f"tune: {text!r} must have the form {form}; correct it")
    return found


def _number(text: str) -> int:
    base, power, exponent = text.partition("**")
    return int(base) ** int(exponent) if power else int(base)
