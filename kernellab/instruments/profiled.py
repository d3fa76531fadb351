"""The child that Nsight Compute watches: runs jobs, each launch between profiler start and stop."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np


def main(folder: str) -> None:
    """Run the jobs that `counters.write_jobs` left in a folder; write how many launches each made."""
    from kernellab import catalog
    from kernellab.devices.gpu import GpuDevice
    from kernellab.plan import bind
    from kernellab.problem import dtype_named

    device = GpuDevice()
    profiler = device.cupy.cuda.profiler
    stream = device.cupy.cuda.get_current_stream()
    launches = []
    for i, job in enumerate(json.loads((Path(folder) / "jobs.json").read_text(encoding="utf-8"))):
        source = job["source"]
        kernel = replace(
            catalog.kernel(job["kernel"]),
            constants=job["constants"],
            source=None if source is None else Path(source),
        )
        with np.load(Path(folder) / f"inputs{i}.npz") as archive:
            # NumPy stores bfloat16 as bare bytes.
            inputs = {name: archive[name].view(dtype_named(job["dtypes"][name])) for name in archive.files}
        plan = bind(kernel, inputs, limits=device.limits, **job["parameters"])
        program = device.build(plan.kernel, job["language"])  # as tuned for its sizes
        buffers = {name: device.on_device(array) for name, array in plan.inputs.items()}
        buffers |= {
            n: device.empty(s) for n, s in {**plan.outputs, **plan.temporaries}.items() if n not in buffers
        }
        for name in plan.zeroed:
            buffers[name].fill(0)
        calls = device.calls(program, plan, buffers)
        if job["language"] == "numba":  # its first launch compiles, and must not be seen
            for call in calls:
                call()
        stream.synchronize()
        profiler.start()
        for call in calls:
            call()
        stream.synchronize()
        profiler.stop()
        launches.append(len(calls))
    (Path(folder) / "launches.json").write_text(json.dumps(launches), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1])
