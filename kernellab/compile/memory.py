"""The binaries that this process has in hand, the latest few hundred."""

from __future__ import annotations

from collections import OrderedDict

from kernellab.compile.binary import Binary

_LIMIT = 256
_kept: OrderedDict[str, Binary] = OrderedDict()


def recall(key: str) -> Binary | None:
    """The binary of `key`, if this process has seen it lately."""
    binary = _kept.get(key)
    if binary is not None:
        _kept.move_to_end(key)
    return binary


def remember(binary: Binary, key: str | None = None) -> Binary:
    """Keep `binary` in hand, under its own key or `key`, and give it back."""
    name = key or binary.key
    _kept[name] = binary
    _kept.move_to_end(name)
    while len(_kept) > _LIMIT:
        _kept.popitem(last=False)
    return binary


def forget() -> None:
    """Drop everything; the disk cache stays."""
    _kept.clear()
