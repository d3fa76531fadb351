"""Kernels that the tests compile."""

import math

import numpy as np
from numba import cuda, float32, njit
from numba.cuda.random import xoroshiro128p_uniform_float32

SCALE = 5
TABLE = np.arange(5, dtype=np.float32)


@njit
def thrice(x):
    return x * 3


@cuda.jit(device=True)
def double_it(x):
    y = x * 2
    return y  # noqa: RET504


@cuda.jit(device=True, inline="always")
def plus(x, y):
    return double_it(x) + y


@cuda.jit
def callees(x, y):
    i = cuda.grid(1)
    if i < x.size:
        y[i] = plus(x[i], SCALE)


def plain(x, y):
    i = cuda.grid(1)
    if i < x.size:
        y[i] = x[i]


def half(x, y):
    i = cuda.grid(1)
    y[i] = x[i] * y[i] + double_it(x[0]) / np.float16(3)


def atomics(x, h):
    i = cuda.grid(1)
    cuda.atomic.add(h, i % 4, 1)
    cuda.atomic.add(x, 1, 1.5)
    cuda.atomic.max(x, 0, x[i])
    cuda.atomic.cas(h, 0, 1, 2)


def shuffles(x):
    value = x[cuda.threadIdx.x]
    for offset in (16, 8, 4, 2, 1):
        value += cuda.shfl_down_sync(0xFFFFFFFF, value, offset)
    votes = cuda.ballot_sync(0xFFFFFFFF, value > 0)
    cuda.syncwarp()
    if cuda.laneid == 0:
        x[0] = value + cuda.popc(votes)


def memories(x):
    dynamic = cuda.shared.array(0, float32)
    static = cuda.shared.array((4, 33), float32)
    local = cuda.local.array(16, float32)
    table = cuda.const.array_like(TABLE)
    i = cuda.threadIdx.x
    dynamic[i] = x[i]
    static[i % 4, i] = x[i]
    cuda.syncthreads()
    local[i % 16] = dynamic[31 - i] + static[0, i] + table[i % 5]
    print("value", x[0], i)
    x[i] = local[int(x[0]) % 16]


def mathematics(x):
    i = cuda.grid(1)
    x[i] = math.sin(x[i]) + math.exp(x[i]) + math.sqrt(x[i]) + math.pow(x[i], x[0])


def grid_sync(x):
    cuda.cg.this_grid().sync()
    x[cuda.grid(1)] = 1


def records(x, r):
    x[cuda.grid(1)].a = r.a
    x[0]["b"] = r.b + 1


def complexes(x, a, z):
    i = cuda.grid(1)
    x[i] = x[i] * a
    z[i] = abs(z[i]) + z[0]


def mixture(a, b, pair, flag, h, n, f):
    i, j = cuda.grid(2)
    if flag and i < n:
        a[i, j] = b[j, i] * pair[1] + pair[0][i] + f + h


def integers(a, b, c, d, e, f):
    i = cuda.grid(1)
    a[i] = b[i] // 3 + c[i]
    d[i] = e[i] % 7 + (f[i] >> 2)


def reshaped(x):
    x.reshape(64)[cuda.threadIdx.x] = 1.0


def undefined_name(x):
    y = 1
    x[0] = nowhere(y)  # noqa: F821


def wrong_attribute(x):
    x[0] = 1
    x[1] = x.nothing


def promoted(x):
    i = cuda.grid(1)
    x[i] = x[i] * 0.1


def pairs(p):
    p.values[0] = p.scale


def host_compiled(x):
    x[0] = thrice(x[1])


def random_numbers(states, x):
    i = cuda.grid(1)
    x[i] = xoroshiro128p_uniform_float32(states, i)


def scaled(factor):
    def scale(x):
        x[cuda.grid(1)] = factor

    return scale
