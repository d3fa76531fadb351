"""What a kernel takes on the chip, read from its cubin: a few sections of an ELF file."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from kernellab.compile.binary import Binary, Resources
from kernellab.errors import UnavailableError

_REGISTER_COUNT = 0x2F
_FRAME_SIZE = 0x11
_BARRIER_COUNT = 0x4C
_SIZED_VALUE = 0x04


@dataclass(frozen=True)
class _Section:
    name: str
    flags: int
    info: int
    link: int
    kind: int
    data: bytes
    size: int


def resource_usage(binary: Binary) -> Mapping[str, Resources]:
    """Registers, shared and local memory of every entry of `binary`.

    Parameters
    ----------
    binary : Binary
        With machine code.

    Returns
    -------
    mapping of str to Resources
        By PTX entry name.

    Raises
    ------
    UnavailableError
        The binary has no machine code, or it is no cubin.
    """
    if binary.cubin is None:
        raise UnavailableError(
            f"the {binary.language} binary for {binary.arch} has no machine code to read registers from"
        )
    found = read_resources(binary.cubin, binary.arch)
    own = set(binary.names.values())
    return {name: used for name, used in found.items() if name in own}


def read_resources(cubin: bytes, arch: str) -> dict[str, Resources]:
    """The same for a bare cubin of architecture `arch`, by entry name."""
    if cubin[:4] != b"\x7fELF" or cubin[4] != 2:
        raise UnavailableError("the machine code is no 64-bit ELF file, so its registers cannot be read")
    sections = {section.name: section for section in _sections(cubin)}
    symbols = _symbol_names(sections)
    registers: dict[str, int] = {}
    frames: dict[str, int] = {}
    for attribute, value in _attributes(sections.get(".nv.info")):
        if attribute in (_REGISTER_COUNT, _FRAME_SIZE) and len(value) >= 8:
            index, amount = struct.unpack_from("<II", value)
            (registers if attribute == _REGISTER_COUNT else frames)[symbols.get(index, "")] = amount
    # From sm_90 on, a block's first KiB belongs to the system, and the section's size counts it.
    reserved = 1024 if int(arch[3:].rstrip("af")) >= 90 else 0
    found = {}
    for name, section in sections.items():
        if name.startswith(".nv.constant0."):
            entry = name.removeprefix(".nv.constant0.")
            text = sections.get(f".text.{entry}")
            shared = sections.get(f".nv.shared.{entry}")
            found[entry] = Resources(
                registers=registers.get(entry, text.info >> 24 if text else 0),
                shared_bytes=max(0, shared.size - reserved) if shared else 0,
                local_bytes=frames.get(entry, 0),
                constant_bytes=section.size,
                barriers=_barriers(sections.get(f".nv.info.{entry}"), text),
            )
    return found


def _barriers(info: _Section | None, text: _Section | None) -> int:
    for attribute, value in _attributes(info):
        if attribute == _BARRIER_COUNT:
            return value[0]
    return (text.flags >> 20) & 0x7F if text else 0


def _sections(cubin: bytes) -> Iterator[_Section]:
    table, names_index = struct.unpack_from("<Q", cubin, 0x28)[0], struct.unpack_from("<H", cubin, 0x3E)[0]
    entry_size, count = struct.unpack_from("<HH", cubin, 0x3A)
    rows = [struct.unpack_from("<IIQQQQIIQQ", cubin, table + index * entry_size) for index in range(count)]
    names = cubin[rows[names_index][4] : rows[names_index][4] + rows[names_index][5]]
    for name, kind, flags, _, offset, size, link, info, _, _ in rows:
        label = names[name : names.index(b"\0", name)].decode("utf-8", "replace")
        data = b"" if kind == 8 else cubin[offset : offset + size]
        yield _Section(label, flags, info, link, kind, data, size)


def _symbol_names(sections: Mapping[str, _Section]) -> dict[int, str]:
    table, strings = sections.get(".symtab"), sections.get(".strtab")
    if table is None or strings is None:
        return {}
    found = {}
    for index in range(len(table.data) // 24):
        start = struct.unpack_from("<I", table.data, index * 24)[0]
        found[index] = strings.data[start : strings.data.index(b"\0", start)].decode("utf-8", "replace")
    return found


def _attributes(section: _Section | None) -> Iterator[tuple[int, bytes]]:
    """Walk an attribute section: format byte, attribute byte, then a value in place or a sized one."""
    data = section.data if section else b""
    position = 0
    while position + 4 <= len(data):
        form, attribute, short = struct.unpack_from("<BBH", data, position)
        position += 4
        if form == _SIZED_VALUE:
            yield attribute, data[position : position + short]
            position += short
        else:
            yield attribute, data[position - 2 : position]
