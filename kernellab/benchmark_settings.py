"""How ``cuda_benchmark`` measures: what a test's marker says, and pytest-benchmark's own options."""

from __future__ import annotations

import inspect
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

from kernellab.errors import SpecError
from kernellab.instruments.clock import Mode, Rule
from kernellab.kernel import Kernel, Language

FIXTURE = "cuda_benchmark"


@dataclass
class Settings:
    """How to measure; the keywords of the marker ``cuda_benchmark``.

    Attributes
    ----------
    mode : {"cold", "hot"}
        Whether the L2 is evicted before every sample.
    nbytes, flops : int
        Of one call, for a callable; a kernel of the catalogue knows its own.
    language : {"cuda-c", "numba"}
        For kernels of the catalogue.
    device : {"auto", "gpu", "emulator"}, optional
        In place of the fixture ``cuda_device``.
    rule : Rule
        When there are samples enough.
    """

    mode: Mode = "cold"
    nbytes: int = 0
    flops: int = 0
    language: Language = "cuda-c"
    device: str | None = None
    rule: Rule = field(default_factory=Rule)


_RULED = ("precision", "minimum", "maximum", "budget")
KEYWORDS = (*(each.name for each in fields(Settings) if each.name != "rule"), *_RULED)
"""What the marker takes."""


def settings_of(node: Any, config: Any) -> Settings:
    """Return the settings of a test: those of its marker, and pytest-benchmark's own options.

    Raises
    ------
    SpecError
        For a keyword that the marker does not have.
    """
    rule = Rule(budget=float(config.getoption("benchmark_max_time", 1.0)))
    rule = replace(rule, minimum=max(rule.minimum, int(config.getoption("benchmark_min_rounds", 5))))
    settings = Settings(rule=rule)
    marker = node.get_closest_marker(FIXTURE)
    given = dict(marker.kwargs) if marker is not None else {}
    ruled = {name: given.pop(name) for name in _RULED if name in given}
    for name, value in given.items():
        if name not in KEYWORDS:
            known = ", ".join(KEYWORDS)
            raise SpecError(f"cuda_benchmark: the marker has no keyword {name!r}; it takes {known}")
        setattr(settings, name, value)
    settings.rule = replace(rule, **ruled)
    return settings


def check_keywords(function: Any, given: Mapping[str, Any]) -> None:
    """Refuse a keyword of the marker in the call, unless what is measured takes one of that name.

    Raises
    ------
    SpecError
    """
    taken: Collection[str]
    if isinstance(function, Kernel):
        taken = {parameter.name for parameter in function.parameters}
    else:
        try:
            parameters = inspect.signature(function).parameters.values()
        except (TypeError, ValueError):  # a builtin tells none
            return
        is_open = any(each.kind is each.VAR_KEYWORD for each in parameters)
        taken = KEYWORDS if is_open else {each.name for each in parameters}
    for name in KEYWORDS:
        if name in given and name not in taken:
            raise SpecError(
                f"{FIXTURE}: {name!r} is a keyword of the marker; write "
                f"@pytest.mark.{FIXTURE}({name}={given[name]!r})"
            )
