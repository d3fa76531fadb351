"""How ``cuda_benchmark`` measures: what a test's marker says, and pytest-benchmark's own options."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from kernellab.errors import SpecError
from kernellab.instruments.clock import Mode, Rule
from kernellab.kernel import Language

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
    ruled = {name: given.pop(name) for name in ("precision", "minimum", "maximum", "budget") if name in given}
    for name, value in given.items():
        if not hasattr(settings, name) or name == "rule":
            known = "mode, nbytes, flops, language, device, precision, minimum, maximum, budget"
            raise SpecError(f"cuda_benchmark: the marker has no keyword {name!r}; it takes {known}")
        setattr(settings, name, value)
    settings.rule = replace(rule, **ruled)
    return settings
