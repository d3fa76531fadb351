"""Peers with a PyTorch made of NumPy: each asks for the problem's own answer, on CuPy's stream."""

from __future__ import annotations

import inspect
import sys
from pathlib import Path
from types import SimpleNamespace

import ml_dtypes
import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent.parent))
from timing_fakes import FakeGpu, FakeStopwatch

from kernellab import catalog
from kernellab.suites import memory, peer_rows, peer_works, rows
from kernellab.suites.arena import Arena
from kernellab.suites.bench import Bench
from kernellab.suites.peer_flat import FLAT
from kernellab.suites.peer_works import peer_work

SIZES = {"rows": 60, "columns": 500, "n": 1000}


class Tensor(np.ndarray):
    def t(self) -> Tensor:
        return self.T

    def copy_(self, other: np.ndarray) -> Tensor:
        self[...] = other
        return self

    def detach(self) -> Tensor:
        return self

    def contiguous(self) -> Tensor:
        return np.ascontiguousarray(self).view(Tensor)


Tensor.__module__ = "torch"


def layer_norm(x, shape, weight, bias, eps):
    assert shape == (x.shape[-1],)
    wide = x - x.mean(-1, keepdims=True, dtype=np.float64)
    return wide / np.sqrt((wide * wide).mean(-1, keepdims=True) + eps) * weight + bias


def rms_norm(x, shape, weight, eps):
    assert shape == (x.shape[-1],)
    return x / np.sqrt((x.astype(np.float64) ** 2).mean(-1, keepdims=True) + eps) * weight


def gelu(x, approximate):
    assert approximate == "tanh"
    wide = x.astype(np.float64)
    return wide / (1 + np.exp(-1.5957691216057308 * (wide + 0.044715 * wide**3)))


def softmax(x, axis):
    powers = np.exp(x.astype(np.float64) - x.max(axis, keepdims=True))
    return powers / powers.sum(axis, keepdims=True)


def dropout(x, p):
    return np.where(np.random.default_rng(0).random(x.shape) >= p, x / (1 - p), 0)


class FakeTorch(SimpleNamespace):
    def __init__(self) -> None:
        self.streams: list[object] = []
        cuda = SimpleNamespace(
            set_stream=self.streams.append,
            ExternalStream=lambda pointer: ("external", pointer),
            default_stream=lambda: "default",
        )
        functional = SimpleNamespace(layer_norm=layer_norm, rms_norm=rms_norm, gelu=gelu, dropout=dropout)
        super().__init__(
            streams=self.streams, cuda=cuda, nn=SimpleNamespace(functional=functional),
            from_dlpack=lambda array: array.view(Tensor), bfloat16=np.dtype(ml_dtypes.bfloat16),
            int16=np.dtype("int16"), softmax=softmax, compile=lambda function, dynamic: function,
            mul=np.multiply, argmax=np.argmax, max=np.max,
            add=lambda x, y, alpha, out: np.add(x, np.float32(alpha) * y, out=out),
            addcmul=lambda c, a, b, out: np.add(a * b, c, out=out), bincount=lambda x, minlength: np.bincount(x, minlength=minlength),
            sum=lambda x: np.sum(x, dtype=np.float64),
            cumsum=lambda x, axis, out: np.cumsum(x, axis, dtype=np.float64).astype("float32").view(Tensor),
        )  # fmt: skip


@pytest.fixture(autouse=True)
def torch(monkeypatch: pytest.MonkeyPatch) -> FakeTorch:
    made = FakeTorch()
    monkeypatch.setitem(sys.modules, "torch", made)
    return made


def arena_of(problem: str, element: str = "float32") -> Arena:
    stopwatch = FakeStopwatch()
    where = Bench(FakeGpu(stopwatch), stopwatch)
    xp = where.device.cupy
    xp.from_dlpack = lambda array: array
    xp.copyto = np.copyto
    xp.ElementwiseKernel = lambda i, o, text, name: lambda x, y: np.multiply(x, np.float32(2), out=y)
    found = catalog.problem(problem)
    names = {name for item in found.operands for name in item.shape if name in SIZES}
    return Arena(where, found, {name: SIZES[name] for name in names}, element)


NAMED = [
    (problem, peer) for peers in (FLAT, peer_rows.TORCH) for problem, each in peers.items() for peer in each
]


@pytest.mark.parametrize(
    ("problem", "peer"), NAMED, ids=[f"{problem}-{peer.name}" for problem, peer in NAMED]
)
def test_each_peer_gives_the_problem_s_answer(problem: str, peer: peer_works.Peer) -> None:
    if peer.name == "CUB":
        pytest.skip("CUB runs on a GPU only")
    where = arena_of(problem)
    work = peer_work(where, peer, where.plan(rows.last(problem)))
    work.poison()
    assert not work.verify().is_right
    work.run()
    assert work.verify().is_right, work.verify().message


def test_kernels_in_triton_get_their_arguments_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    language = SimpleNamespace(constexpr=int)
    fake = SimpleNamespace(
        jit=lambda f: f, next_power_of_2=lambda n: 1 << (n - 1).bit_length(), language=language
    )
    monkeypatch.setitem(sys.modules, "triton", fake)
    monkeypatch.setitem(sys.modules, "triton.language", language)
    monkeypatch.setitem(sys.modules, "kernellab_triton_rows", None)  # forgotten afterwards
    module = peer_rows.triton_rows.__wrapped__()
    assert set(module.KERNELS) == set(peer_rows.IN_TRITON)
    given = {name: name for name in ("x", "residual", "weight", "bias")}
    for problem in peer_rows.IN_TRITON:
        kernel, values, constants = module.arguments(problem, given, "y", 1000, 1e-5)
        names = list(inspect.signature(kernel).parameters)
        for name, value in zip(names, values, strict=False):
            assert value == {"columns": 1000, "eps": 1e-5}.get(name, name), problem
        assert names[len(values) :] == list(constants)
        assert constants["BLOCK"] == 1024
        arrays = [item.name for item in catalog.ladder(problem)[-1].inputs]
        assert set(values) - {"y", 1000, 1e-5} == set(arrays)


def test_every_problem_of_the_suites_has_peers() -> None:
    assert {heat.problem for heat in memory.heats()} == set(FLAT)
    assert set(rows.PROBLEMS) == set(peer_rows.TORCH)


@pytest.mark.parametrize(("pointer", "stream"), [(0, "default"), (5, ("external", 5))])
def test_pytorch_works_on_cupy_s_stream(torch: FakeTorch, pointer: int, stream: object) -> None:
    xp = SimpleNamespace(cuda=SimpleNamespace(get_current_stream=lambda: SimpleNamespace(ptr=pointer)))
    assert peer_works.torch_on_stream(xp) is torch
    assert torch.streams == [stream]


def test_bfloat16_travels_as_its_bits(torch: FakeTorch) -> None:
    values = np.array([1.0, -2.5], ml_dtypes.bfloat16)
    found = peer_works.tensor(torch, values.view("uint16"), "bfloat16")
    assert found.dtype == ml_dtypes.bfloat16
    xp = SimpleNamespace(from_dlpack=lambda array: array)
    back = peer_works.as_array(xp, found)
    assert back.dtype == np.int16
    assert back.tolist() == values.view("int16").tolist()
    assert peer_works.as_array(xp, values) is values


def test_a_work_does_not_hold_itself() -> None:
    import gc
    import weakref

    where = arena_of("scale")
    gc.collect()
    gc.disable()
    try:
        work = peer_work(where, FLAT["scale"][0], where.plan(catalog.ladder("scale")[-1]))
        work.run()
        seen = weakref.ref(work)
        del work
        assert seen() is None
    finally:
        gc.enable()
