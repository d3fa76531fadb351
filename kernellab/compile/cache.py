"""The one disk cache: compiled binaries and SASS listings, keyed by everything that went into them.

Nothing here touches the disk before the first `load` or `store`. A cache that cannot be written costs one
warning in a process and nothing else; a damaged entry counts as absent; writers replace whole files.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import tempfile
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_MAGIC = b"kernellab-cache-1\n"
_is_warned = False


class CacheWarning(UserWarning):
    """The disk cache cannot be used; compilation goes on in memory."""


@dataclass(frozen=True)
class Entry:
    """One cached value: small JSON fields and byte blobs."""

    fields: Mapping[str, Any]
    blobs: Mapping[str, bytes]


def digest(*parts: object) -> str:
    """SHA-256 over `parts`, each delimited, so that no two different lists share a key.

    Parameters
    ----------
    *parts : object
        Strings and bytes are taken as they are, anything else by `repr`.

    Returns
    -------
    str
        64 hexadecimal digits.

    Examples
    --------
    >>> digest("ab", "c") == digest("a", "bc")
    False
    """
    state = hashlib.sha256()
    for part in parts:
        data = (
            part
            if isinstance(part, bytes)
            else str(part).encode()
            if isinstance(part, str)
            else repr(part).encode()
        )
        state.update(b"%s:%d:" % (type(part).__name__.encode(), len(data)))
        state.update(data)
    return state.hexdigest()


def directory() -> Path:
    """Where the cache lies: ``KERNELLAB_CACHE_DIR``, else the user's cache directory."""
    chosen = os.environ.get("KERNELLAB_CACHE_DIR")
    if chosen:
        return Path(chosen).expanduser()
    import platformdirs

    return Path(platformdirs.user_cache_dir("kernellab", appauthor=False))


def load(key: str) -> Entry | None:
    """Read the entry of `key`; None when it is absent, unreadable or damaged."""
    try:
        data = _path(key).read_bytes()
    except OSError:
        return None
    return _decode(data)


def store(key: str, fields: Mapping[str, Any], blobs: Mapping[str, bytes]) -> None:
    """Write one entry; a reader sees the whole of it or nothing."""
    target = _path(key)
    temporary = None
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(prefix=".new-", dir=target.parent)
        with os.fdopen(handle, "wb") as file:
            file.write(_encode(fields, blobs))
        _replace(temporary, target)
    except OSError as error:
        if temporary is not None:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
        _warn(error)


def _replace(temporary: str, target: Path) -> None:
    try:
        os.replace(temporary, target)
    except PermissionError:
        # Windows refuses while another process has the entry open; what it holds is the same.
        if not target.exists():
            raise
        os.unlink(temporary)


def _path(key: str) -> Path:
    return directory() / key[:2] / f"{key[2:]}.bin"


def _encode(fields: Mapping[str, Any], blobs: Mapping[str, bytes]) -> bytes:
    header = json.dumps({"fields": fields, "blobs": [[name, len(data)] for name, data in blobs.items()]})
    encoded = header.encode("utf-8", "surrogatepass")
    body = len(encoded).to_bytes(4, "little") + encoded + b"".join(blobs.values())
    return _MAGIC + hashlib.sha256(body).digest() + body


def _decode(data: bytes) -> Entry | None:
    start = len(_MAGIC) + 32
    body = data[start:]
    if not data.startswith(_MAGIC) or hashlib.sha256(body).digest() != data[len(_MAGIC) : start]:
        return None
    end = 4 + int.from_bytes(body[:4], "little")
    header = json.loads(body[4:end].decode("utf-8", "surrogatepass"))
    blobs: dict[str, bytes] = {}
    for name, size in header["blobs"]:
        blobs[name] = body[end : end + size]
        end += size
    return Entry(header["fields"], blobs)


def complaint() -> str | None:
    """Why the cache cannot be written, or None; looks at the disk, writes nothing."""
    place = directory()
    existing = place
    while not existing.exists() and existing != existing.parent:
        existing = existing.parent
    if existing.is_dir() and os.access(existing, os.W_OK | os.X_OK):
        return None
    return f"{place} cannot be written; set KERNELLAB_CACHE_DIR to a writable directory"


def _warn(error: OSError) -> None:
    global _is_warned
    if _is_warned:
        return
    _is_warned = True
    message = (
        f"kernellab: the cache {directory()} cannot be written ({error.strerror or error}), so every process "
        "compiles anew; set KERNELLAB_CACHE_DIR to a writable directory"
    )
    warnings.warn(message, CacheWarning, stacklevel=4)
