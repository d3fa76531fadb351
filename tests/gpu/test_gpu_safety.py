"""What must not spoil a session: writes out of bounds, faults, forks, memory that runs out."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap

import numpy as np
import pytest

import kernellab as kl
from kernellab import catalog
from kernellab.sweeps import ascending

GOOD = "if (i < n) y[i] = x[i];"


def floats(n):
    return np.random.default_rng(0).standard_normal(n, dtype=np.float32)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("if (i < n) y[i] = x[i]; if (i == 0) y[n] = 1;", "past the end of y were overwritten"),
        ("if (i < n) y[i] = x[i]; if (i == 0) y[-1] = 1;", "before y were overwritten"),
        ("if (i < n) y[i] = x[i]; if (i == 0) ((float*)x)[n + 1] = 1;", "past the end of x were overwritten"),
        ("if (i < n) { y[i] = x[i]; ((float*)x)[i] = 0; }", "it wrote into its input x"),
        ("if (i < n) y[i] = x[i + 1];", "expected"),  # reads NaN past the end
        ("", "which nothing wrote there"),
    ],
)
def test_guard_bands(device, write_kernel, body, message):
    kernel = write_kernel(body)
    for n in (1000, 1024):
        record = kl.measure(kernel, floats(n), device="gpu", mode=None)
        assert not record.is_right
        assert message in record.verdict.message


def test_a_right_kernel_damages_no_guard_band(device, write_kernel):
    kernel = write_kernel(GOOD)
    for n in (1000, 1024):
        assert kl.measure(kernel, floats(n), device="gpu", mode=None).is_right


def test_a_fault_in_a_process_of_its_own_spoils_nothing_here(device, write_kernel):
    faulty = write_kernel("y[i + (1LL << 40)] = x[0];")
    with pytest.raises(kl.ExecutionError, match=r"^copy/scalar: CUDA says .*(llegal|ILLEGAL)"):
        kl.measure(faulty, floats(64), device="gpu", mode=None, isolated=True)
    assert kl.measure("copy/scalar", floats(64), device="gpu", mode=None).is_right


def run(code):
    """Run a script in a fresh process, and return what it printed."""
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_sticky_error_names_the_first_failing_kernel_and_ends_the_run(device, write_kernel):
    path = write_kernel("y[i + (1LL << 40)] = x[0];").source
    printed = run(f"""
        import os
        from dataclasses import replace
        from pathlib import Path
        import numpy as np, kernellab as kl
        from kernellab import catalog
        faulty = replace(catalog.kernel("copy/scalar"), source=Path({str(path)!r}))
        for kernel in (faulty, "transpose/naive"):
            try:
                kl.measure(kernel, device="gpu")
            except kl.ExecutionError as error:
                print(error, flush=True)
        os._exit(0)  # what is left of the context need not be taken down
    """)
    first, second = printed.strip().splitlines()
    assert first.startswith("copy/scalar: CUDA says")
    assert "dead since copy/scalar failed" in second


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_fork_after_a_launch_is_refused_and_spawn_works(device):
    printed = run("""
        import multiprocessing, os, sys
        import numpy as np, kernellab as kl
        x = np.ones(8, np.float32)
        kl.copy(x, device="gpu")
        sys.stdout.flush()
        child = os.fork()
        if child == 0:
            try:
                kl.copy(x, device="gpu")
            except kl.UnavailableError as error:
                print(error)
            sys.stdout.flush()
            os._exit(0)
        os.waitpid(child, 0)
        print(kl.measure("copy/scalar", x, device="gpu", isolated=True, mode=None).is_right)
    """)
    refused, works = printed.strip().splitlines()
    assert "forked after CUDA had started" in refused
    assert works == "True"


def test_importing_and_planning_start_no_cuda():
    printed = run("""
        import sys
        import numpy as np, kernellab as kl
        from kernellab import catalog
        from kernellab.plan import bind
        bind(catalog.kernel("copy/scalar"), {"x": np.ones(4, np.float32)})
        print("cupy" in sys.modules)
    """)
    assert printed.strip() == "False"


def test_hidden_devices():
    code = "import kernellab as kl; print(kl.device('auto').name)"
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=True, timeout=60
    )
    assert done.stdout.strip() == "emulator"


def test_the_pool_is_freed_once_when_memory_is_short(cupy, device):
    pool = cupy.get_default_memory_pool()
    device.memory.free_pools()
    # Chunks of which a piece is in use stay in the pool, used or not, and count against its limit.
    kept = pool.total_bytes()
    try:
        half, more = kept + 2**29, kept + 3 * 2**28  # too large for what is free in those chunks
        pool.set_limit(size=2 * kept + 2**30)
        held = device.allocate(lambda: cupy.empty(half, np.uint8))
        del held  # free in the pool, where the larger one does not fit beside it
        larger = device.allocate(lambda: cupy.empty(more, np.uint8))
        assert larger.nbytes == more
        with pytest.raises(kl.ExecutionError, match=r"out of memory .* its limit is \d+ bytes"):
            device.allocate(lambda: cupy.empty(kept + 2**30, np.uint8))
        del larger
        notes = []
        sizes = (kept + 2**31, half, kept + 2**32)
        done = ascending(sizes, int, lambda n: device.allocate(lambda: cupy.empty(n, np.uint8)).nbytes, notes)
        assert list(done) == [half]
        assert notes[0].startswith("left out: 2 of 3 sizes")
    finally:
        pool.set_limit(size=0)


def test_one_catalogue_kernel_still_runs(device):
    assert kl.measure(catalog.kernel("copy/float4"), device="gpu", mode=None).is_right
