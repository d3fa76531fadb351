"""Bits: counts, fields and permutations."""

from __future__ import annotations

import numpy as np

from kernellab.emulator.opcodes.registry import Array, Modifiers, Semantics, opcode, unary

U32, U64, I32 = np.dtype(np.uint32), np.dtype(np.uint64), np.dtype(np.int32)
#: What is read of a field's position and length, by the word's bytes: only the 32-bit forms drop upper bits.
FIELD_BITS = {4: np.uint32(255), 8: np.uint32(0xFFFFFFFF)}


@opcode("popc", "b32 b64")
def popc(m: Modifiers) -> Semantics:
    """How many bits are set."""
    return Semantics((m.dtype,), (U32,), lambda a: np.bitwise_count(a).astype(U32))


def bit_length(a: Array) -> Array:
    """The number of bits needed: 0 for 0, 32 for 0xFFFFFFFF (as uint32; for uint32 and uint64)."""
    if a.dtype.itemsize == 4:
        exponent = (a.astype(np.float64).view(np.int64) >> np.int64(52)).astype(I32) - np.int32(1022)
        return np.maximum(exponent, np.int32(0)).view(U32)
    upper = (a >> np.uint64(32)).astype(U32)
    high = bit_length(upper)
    low = bit_length(a.astype(U32))
    return high + np.uint32(32) * (high != 0) + low * (high == 0)


@opcode("clz", "b32 b64")
def clz(m: Modifiers) -> Semantics:
    """Leading zeros; the width for 0."""
    width = np.uint32(8 * m.dtype.itemsize)
    return Semantics((m.dtype,), (U32,), lambda a: width - bit_length(a))


@opcode("bfind", "u32 s32 u64 s64")
def bfind(m: Modifiers) -> Semantics:
    """The place of the highest bit that differs from the sign (.shiftamt: from the top), or all ones."""
    is_shift, dtype, unsigned = m.has("shiftamt"), m.dtype, m.unsigned
    top = dtype.type(8 * dtype.itemsize - 1)

    def compute(a: Array) -> Array:
        place = bit_length(a if dtype.kind == "u" else (a ^ (a >> top)).view(unsigned)) - np.uint32(1)
        return (np.uint32(top) - place) | -(place == np.uint32(0xFFFFFFFF)).astype(U32) if is_shift else place

    return Semantics((dtype,), (U32,), compute)


@opcode("fns", "b32")
def fns(m: Modifiers) -> Semantics:
    """The place of the n-th set bit at or above (n > 0) or below (n < 0) a base; 0xFFFFFFFF for none."""
    places = np.arange(32, dtype=np.int32)

    def compute(mask: Array, base: Array, offset: Array) -> Array:
        bits = (np.asarray(mask)[..., None] >> places.astype(U32)) & np.uint32(1) != 0
        start, n = np.asarray(base).view(I32)[..., None], np.asarray(offset)[..., None]
        bits = bits & np.where(n > 0, places >= start, np.where(n < 0, places <= start, places == start))
        up, down = bits.cumsum(-1), bits[..., ::-1].cumsum(-1)[..., ::-1]
        hit = bits & (np.where(n > 0, up, np.where(n < 0, down, 1)) == np.where(n == 0, 1, np.abs(n)))
        return np.where(hit.any(-1), hit.argmax(-1), -1).astype(I32).view(U32)

    return Semantics((U32, U32, I32), (U32,), compute)


@opcode("brev", "b32 b64")
def brev(m: Modifiers) -> Semantics:
    """Bits in reverse order."""
    dtype = m.dtype
    masks = {1: 0x5555555555555555, 2: 0x3333333333333333, 4: 0x0F0F0F0F0F0F0F0F}
    steps = [(dtype.type(n), dtype.type(mask & np.iinfo(dtype).max)) for n, mask in masks.items()]

    def compute(a: Array) -> Array:
        for n, mask in steps:
            a = ((a >> n) & mask) | ((a & mask) << n)
        return a.byteswap()

    return unary(dtype, compute)


@opcode("bfe", "u32 s32 u64 s64")
def bfe(m: Modifiers) -> Semantics:
    """Extract `length` bits at `position`, zero- or sign-extended; bits beyond the top are the sign."""
    dtype, last, kept = m.dtype, np.uint32(8 * m.dtype.itemsize - 1), FIELD_BITS[m.dtype.itemsize]
    width = last + np.uint32(1)

    def compute(a: Array, position: Array, length: Array) -> Array:
        at, n = position & kept, np.minimum(length & kept, width)
        shifted = np.right_shift(a, np.minimum(at, last).astype(dtype))
        if dtype.kind == "u":
            shifted = shifted * (at < width).astype(dtype)
        up = np.minimum(width - n, last).astype(dtype)
        return ((shifted << up) >> up) * (n != 0).astype(dtype)

    return Semantics((dtype, U32, U32), (dtype,), compute)


def field_mask(at: Array, n: Array, dtype: np.dtype[np.unsignedinteger]) -> Array:
    """`n` ones from bit `at` upward, both clamped to the width."""
    width = np.uint32(8 * dtype.itemsize)
    one = dtype.type(1)

    def ones(k: Array) -> Array:
        full = (k >= width).astype(dtype)
        return ((one << np.minimum(k, width - np.uint32(1)).astype(dtype)) - one) | (
            full * np.iinfo(dtype).max
        )

    start = np.minimum(at, width)
    end = np.minimum(start + np.minimum(n, width), width)
    mask: Array = ones(end) ^ ones(start)
    return mask


@opcode("bfi", "b32 b64")
def bfi(m: Modifiers) -> Semantics:
    """Insert the low `length` bits of a into b at `position`."""
    dtype, last, kept = m.dtype, np.uint32(8 * m.dtype.itemsize - 1), FIELD_BITS[m.dtype.itemsize]

    def compute(a: Array, b: Array, position: Array, length: Array) -> Array:
        at, n = position & kept, length & kept
        mask = field_mask(at, n, dtype)
        return (b & ~mask) | ((a << np.minimum(at, last).astype(dtype)) & mask)

    return Semantics((dtype, dtype, U32, U32), (dtype,), compute)


@opcode("szext", "u32 s32")
def szext(m: Modifiers) -> Semantics:
    """Zero- or sign-extend a from its low `n` bits; .clamp and .wrap say what n above 32 means."""
    is_wrapped, dtype = m.need("clamp wrap") == "wrap", m.dtype

    def compute(a: Array, n: Array) -> Array:
        n = n & np.uint32(31) if is_wrapped else np.minimum(n, np.uint32(32))
        up = np.minimum(np.uint32(32) - n, np.uint32(31)).astype(dtype)
        return ((a << up) >> up) * (n != 0).astype(dtype)

    return Semantics((dtype, U32), (dtype,), compute)


@opcode("bmsk", "b32")
def bmsk(m: Modifiers) -> Semantics:
    """`n` ones from bit `at` upward; .wrap takes both modulo 32."""
    is_wrapped = m.need("clamp wrap") == "wrap"

    def compute(at: Array, n: Array) -> Array:
        if is_wrapped:
            at, n = at & np.uint32(31), n & np.uint32(31)
        return field_mask(at, n, U32)

    return Semantics((U32, U32), (U32,), compute)


PRMT = {
    "f4e": ((3, 2, 1, 0), (4, 3, 2, 1), (5, 4, 3, 2), (6, 5, 4, 3)),
    "b4e": ((5, 6, 7, 0), (6, 7, 0, 1), (7, 0, 1, 2), (0, 1, 2, 3)),
    "rc8": ((0, 0, 0, 0), (1, 1, 1, 1), (2, 2, 2, 2), (3, 3, 3, 3)),
    "ecl": ((3, 2, 1, 0), (3, 2, 1, 1), (3, 2, 2, 2), (3, 3, 3, 3)),
    "ecr": ((0, 0, 0, 0), (1, 1, 1, 0), (2, 2, 1, 0), (3, 2, 1, 0)),
    "rc16": ((1, 0, 1, 0), (3, 2, 3, 2), (1, 0, 1, 0), (3, 2, 3, 2)),
}


def permute(a: Array, b: Array, selectors: int) -> Array:
    """`prmt` with selectors known beforehand."""
    out: Array = np.uint32(0)
    for i in range(4):
        selector = selectors >> (4 * i)
        word, place = (b if selector & 4 else a), selector & 3
        if selector & 8:
            byte = (word.view(I32) << np.int32(24 - 8 * place) >> np.int32(31)).view(U32) & np.uint32(
                255 << (8 * i)
            )
        elif place < i:
            byte = (word << np.uint32(8 * (i - place))) & np.uint32(255 << (8 * i))
        else:
            byte = (word >> np.uint32(8 * (place - i))) & np.uint32(255 << (8 * i))
        out = out | byte
    return out


@opcode("prmt", "b32")
def prmt(m: Modifiers) -> Semantics:
    """Pick four of the eight bytes of b:a; without a mode, bit 3 of a selector takes that byte's sign."""
    mode = m.one_of(" ".join(PRMT))
    table = (
        np.array([sum(s << (4 * (3 - i)) for i, s in enumerate(row)) for row in PRMT[mode]], U32)
        if mode
        else None
    )

    def compute(a: Array, b: Array, c: Array) -> Array:
        selectors = c if table is None else table[c & np.uint32(3)]
        if np.ndim(selectors) == 0:
            return permute(a, b, int(selectors))
        both = (b.astype(U64) << np.uint64(32)) | a
        out = np.uint32(0)
        for i in range(4):
            s = selectors >> np.uint32(4 * i)
            byte = (both >> ((s & np.uint32(7)) << np.uint32(3)).astype(U64)).astype(U32) & np.uint32(255)
            sign = np.uint32(255) * (byte >> np.uint32(7))
            is_sign = -((s >> np.uint32(3)) & np.uint32(1))
            out = out | ((byte & ~is_sign) | (sign & is_sign)) << np.uint32(8 * i)
        return out

    return Semantics((U32, U32, U32), (U32,), compute)
