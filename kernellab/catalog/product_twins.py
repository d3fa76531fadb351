"""Products of matrices: what the Numba twins of the rungs for the CUDA cores share.

The counterpart of ``kernels_cu/include/product.cuh`` and ``product_vectors.cuh``.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"
# ruff: noqa: N803, N806

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from kernellab.catalog import elements, gelus, twins

BLOCKED_PITCH = 132


@cache
def tile_place() -> Any:
    """Return ``(m, n) -> (row, column)``: where the block's tile of 128 x 128 begins."""
    from numba import cuda

    @cuda.jit(device=True, forceinline=True)
    def place_of(m, n):
        down, across = (m + 127) // 128, (n + 127) // 128
        band = cuda.blockIdx.x // (8 * across) * 8
        within = cuda.blockIdx.x % (8 * across)
        high = down - band if down - band < 8 else 8
        return (band + within % high) * 128, within // high * 128

    return place_of


@cache
def multiplied() -> Any:
    """Return ``(left, right, total)``, which adds 64 products of a thread."""
    from numba import cuda

    fmaf = cuda.libdevice.fmaf

    @cuda.jit(device=True, forceinline=True)
    def multiply(left, right, total):
        for i in range(8):
            for j in range(8):
                total[8 * i + j] = fmaf(left[i], right[j], total[8 * i + j])

    return multiply


@cache
def blocked_sums(is_turned: bool, element: str) -> Any:
    """Return ``(a, b, a_tile, b_tile, first_row, first_column, total)`` of the register-blocked rungs."""
    from numba import cuda, float32

    ZERO = float32(0)
    to_float, _ = elements.conversions(element)
    multiply = multiplied()

    @cuda.jit(device=True, forceinline=True)
    def add_products(a, b, a_tile, b_tile, first_row, first_column, total):
        left, right = cuda.local.array(8, float32), cuda.local.array(8, float32)
        m, k = a.shape
        n = b.shape[0] if is_turned else b.shape[1]
        thread = cuda.threadIdx.x
        for i in range(64):
            total[i] = ZERO
        for start in range(0, k, 8):
            for i in range(4):
                r, q = thread // 8 + 32 * i, thread % 8
                value = ZERO
                if first_row + r < m and start + q < k:
                    value = to_float(a[first_row + r, start + q])
                a_tile[q, r] = value
            for i in range(4):
                c = thread // 8 + 32 * i if is_turned else thread % 128
                q = thread % 8 if is_turned else thread // 128 + 2 * i
                value = ZERO
                if first_column + c < n and start + q < k:
                    if is_turned:
                        value = to_float(b[first_column + c, start + q])
                    else:
                        value = to_float(b[start + q, first_column + c])
                b_tile[q, c] = value
            cuda.syncthreads()
            for q in range(8):
                for i in range(8):
                    left[i] = a_tile[q, thread // 16 + 16 * i]
                    right[i] = b_tile[q, thread % 16 + 16 * i]
                multiply(left, right, total)
            cuda.syncthreads()

    return add_products


def blocked(problem: str) -> Callable[[str], Any]:
    """Return the factory of a register-blocked twin: of ``matmul``, ``matmul_nt``, and those with bias and GeLU."""
    is_turned, name = "_nt" in problem, f"{problem}_blocked"

    def plain(element: str) -> Any:
        from numba import cuda, float32

        PITCH, (_, from_float) = BLOCKED_PITCH, elements.conversions(element)
        place_of, add_products = tile_place(), blocked_sums(is_turned, element)

        def product(a, b, y):
            a_tile = cuda.shared.array((8, PITCH), float32)
            b_tile = cuda.shared.array((8, PITCH), float32)
            total = cuda.local.array(64, float32)
            m, n = y.shape
            first_row, first_column = place_of(m, n)
            add_products(a, b, a_tile, b_tile, first_row, first_column, total)
            for j in range(8):
                column = first_column + cuda.threadIdx.x % 16 + 16 * j
                for i in range(8):
                    row = first_row + cuda.threadIdx.x // 16 + 16 * i
                    if row < m and column < n:
                        y[row, column] = from_float(total[8 * i + j])

        return twins.renamed(product, name)

    def activated(element: str) -> Any:
        from numba import cuda, float32

        PITCH, (to_float, from_float) = BLOCKED_PITCH, elements.conversions(element)
        place_of, add_products = tile_place(), blocked_sums(is_turned, element)
        gelu = gelus.twin()

        def product(a, b, bias, y, form):
            a_tile = cuda.shared.array((8, PITCH), float32)
            b_tile = cuda.shared.array((8, PITCH), float32)
            total = cuda.local.array(64, float32)
            m, n = y.shape
            first_row, first_column = place_of(m, n)
            add_products(a, b, a_tile, b_tile, first_row, first_column, total)
            for j in range(8):
                column = first_column + cuda.threadIdx.x % 16 + 16 * j
                if column < n:
                    added = to_float(bias[column])
                    for i in range(8):
                        row = first_row + cuda.threadIdx.x // 16 + 16 * i
                        if row < m:
                            y[row, column] = from_float(gelu(total[8 * i + j] + added, form))

        return twins.renamed(product, name)

    return activated if problem.endswith("_bias_gelu") else plain


def _one_element(tile: int, is_down: bool, name: str) -> Any:
    """Return the twin that gives a thread one element, with lanes that run down a column or along a row."""
    from numba import cuda, float32

    ZERO, fmaf = float32(0), cuda.libdevice.fmaf

    def product(a, b, y):
        m, n = y.shape
        across = (n + tile - 1) // tile
        down, along = cuda.threadIdx.y, cuda.threadIdx.x
        if is_down:
            down, along = along, down
        i, j = cuda.blockIdx.x // across * tile + down, cuda.blockIdx.x % across * tile + along
        if i < m and j < n:
            total = ZERO
            for q in range(a.shape[1]):
                total = fmaf(a[i, q], b[q, j], total)
            y[i, j] = total

    return twins.renamed(product, name)


def naive(TILE: int) -> Any:
    """Make the twin of matmul/naive."""
    return _one_element(TILE, True, "matmul_naive")


def coalesced(TILE: int) -> Any:
    """Make the twin of matmul/coalesced."""
    return _one_element(TILE, False, "matmul_coalesced")


def tiled(TILE: int) -> Any:
    """Make the twin of matmul/tiled."""
    from numba import cuda, float32

    ZERO, fmaf = float32(0), cuda.libdevice.fmaf

    def matmul_tiled(a, b, y):
        a_tile = cuda.shared.array((TILE, TILE), float32, alignment=16)
        b_tile = cuda.shared.array((TILE, TILE), float32, alignment=16)
        m, n = y.shape
        k = a.shape[1]
        across = (n + TILE - 1) // TILE
        r, c = cuda.threadIdx.y, cuda.threadIdx.x
        i, j = cuda.blockIdx.x // across * TILE + r, cuda.blockIdx.x % across * TILE + c
        total = ZERO
        for start in range(0, k, TILE):
            left, right = ZERO, ZERO
            if i < m and start + c < k:
                left = a[i, start + c]
            if start + r < k and j < n:
                right = b[start + r, j]
            a_tile[r, c] = left
            b_tile[r, c] = right
            cuda.syncthreads()
            for q in range(TILE):
                total = fmaf(a_tile[r, q], b_tile[q, c], total)
            cuda.syncthreads()
        if i < m and j < n:
            y[i, j] = total

    return matmul_tiled


def vectorised() -> Any:
    """Make the twin of matmul/vectorised."""
    from numba import cuda, float32

    ZERO, PITCH = float32(0), BLOCKED_PITCH
    fill, drain = elements.register_access("float32")
    place_of, multiply = tile_place(), multiplied()

    def matmul_vectorised(a, b, y):
        a_tile = cuda.shared.array((8, PITCH), float32, alignment=16)
        b_tile = cuda.shared.array((8, PITCH), float32, alignment=16)
        total = cuda.local.array(64, float32)
        value, other = cuda.local.array(4, float32), cuda.local.array(4, float32)
        left, right = cuda.local.array(8, float32), cuda.local.array(8, float32)
        m, n = y.shape
        k = a.shape[1]
        first_row, first_column = place_of(m, n)
        thread = cuda.threadIdx.x
        row, column = thread // 16 * 4, thread % 16 * 4
        left_row, left_depth = thread // 2, thread % 2 * 4
        right_depth, right_column = thread // 32, thread % 32 * 4
        is_wide = n % 4 == 0 and k % 4 == 0
        for i in range(64):
            total[i] = ZERO

        for start in range(0, k, 8):
            # A quad of a, stored down a column, and a quad of b; 0 beyond an edge.
            a_length = k - start - left_depth if first_row + left_row < m else 0
            b_length = n - first_column - right_column if start + right_depth < k else 0
            for i in range(4):
                value[i], other[i] = ZERO, ZERO
                if not is_wide and i < a_length:
                    value[i] = a[first_row + left_row, start + left_depth + i]
                if not is_wide and i < b_length:
                    other[i] = b[start + right_depth, first_column + right_column + i]
            if is_wide and a_length > 0:
                fill(value, 0, a, (first_row + left_row) * k + start + left_depth)
            if is_wide and b_length > 0:
                fill(other, 0, b, (start + right_depth) * n + first_column + right_column)
            for i in range(4):
                a_tile[left_depth + i, left_row] = value[i]
            drain(b_tile, right_depth * PITCH + right_column, other, 0)
            cuda.syncthreads()

            # Four quads from shared memory, 64 multiplications.
            for q in range(8):
                fill(left, 0, a_tile, q * PITCH + row)
                fill(left, 4, a_tile, q * PITCH + row + 64)
                fill(right, 0, b_tile, q * PITCH + column)
                fill(right, 4, b_tile, q * PITCH + column + 64)
                multiply(left, right, total)
            cuda.syncthreads()

        for i in range(8):
            r = first_row + row + i // 4 * 64 + i % 4
            for half in range(2):
                c, at = first_column + column + 64 * half, 8 * i + 4 * half
                if is_wide and r < m and c < n:
                    drain(y, r * n + c, total, at)
                for e in range(4):
                    if not is_wide and r < m and c + e < n:
                        y[r, c + e] = total[at + e]

    return matmul_vectorised
