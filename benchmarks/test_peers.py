"""What people would take instead, each as a callable under the same clock."""

from __future__ import annotations

import pytest

from kernellab import catalog
from kernellab.problem import Case
from kernellab.suites.peers import PEERS, SIZES, Peer

PAIRS = [(problem, peer) for problem, peers in PEERS.items() for peer in peers]


@pytest.mark.parametrize(
    ("problem", "peer"), PAIRS, ids=[f"{problem}-{peer.name}" for problem, peer in PAIRS]
)
def test_peer(cuda_benchmark, cuda_device, problem: str, peer: Peer) -> None:
    if cuda_device.name != "gpu":
        pytest.skip(f"there is no GPU here to time {peer.name} on")
    found = catalog.problem(problem)
    x = cuda_device.on_device(found.inputs(Case("peers", dict(SIZES[problem])))["x"])
    out = cuda_device.cupy.empty(x.T.shape if problem == "transpose" else x.shape, x.dtype)
    try:
        call = peer.make(cuda_device.cupy, {"x": x}, out)
    except ImportError as error:
        pytest.skip(f"{peer.name} is not here: {error}")
    cuda_benchmark.nbytes = 2 * x.nbytes
    cuda_benchmark(call)
    wanted = {"copy": lambda a: a, "transpose": lambda a: a.T, "relu": lambda a: a.clip(0)}[problem]
    assert bool((out == wanted(x)).all())
