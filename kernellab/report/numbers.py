"""Numbers as people read them."""

from __future__ import annotations

import math

LANGUAGE_NAMES = {"cuda-c": "CUDA C", "numba": "Numba", "ptx": "PTX"}


def plain(value: float, digits: int = 2) -> str:
    """Return a number in few characters; whole ones from 100 000 on with commas, NaN as a dash.

    Examples
    --------
    >>> plain(32.0), plain(11.984), plain(1048576), plain(float("nan")), plain(4.0, 1)
    ('32', '11.98', '1,048,576', '-', '4')
    """
    if math.isnan(value):
        return "-"
    if math.isinf(value):
        return "inf" if value > 0 else "-inf"
    if value == int(value):
        return f"{int(value):,}" if abs(value) >= 100_000 else str(int(value))
    return f"{value:.{digits}f}" if abs(value) >= 10**-digits else f"{value:.3g}"


def short(value: float) -> str:
    """Return a count in at most six characters.

    Examples
    --------
    >>> short(2048), short(128000), short(130048000), short(0)
    ('2048', '128.0k', '130.0M', '')
    """
    if value == 0:
        return ""
    if value < 100_000:
        return plain(value, 1)
    for unit, size in (("G", 1e9), ("M", 1e6)):
        if value >= size:
            return f"{value / size:.1f}{unit}"
    return f"{value / 1e3:.1f}k"


def language_name(language: str) -> str:
    """Return a language as people write it."""
    return LANGUAGE_NAMES.get(language, language)
