"""A kernel in a process of its own: what it breaks there, a CUDA context or the process, stays there."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from kernellab import errors
from kernellab.errors import ExecutionError, SpecError
from kernellab.problem import Case
from kernellab.record import Record
from kernellab.tensor_lists import is_list

if TYPE_CHECKING:
    from kernellab.kernel import Kernel

SECONDS = 600.0
"""After which the child is ended: a kernel that never comes to an end breaks nothing else."""


def measure_apart(
    kernel: str | Kernel,
    arrays: tuple[Any, ...],
    options: Mapping[str, Any],
    out: Any,
    parameters: Mapping[str, Any],
    seconds: float = SECONDS,
) -> Record:
    """Do what `measure` does, in a fresh Python process that shares nothing with this one.

    Parameters
    ----------
    kernel : str or Kernel
        Of the catalogue; constants and source may differ from it.
    arrays : tuple of array
        Copied to the child; those on a GPU by way of the host.
    options : mapping
        ``case``, ``language``, ``device``, ``sanitize``, ``mode``, ``counters``.
    out : None
        Outputs stay in the child.
    parameters : mapping
        Run-time scalars.
    seconds : float
        How long it may take.

    Returns
    -------
    Record

    Raises
    ------
    SpecError
        For what cannot be sent to a child.
    ExecutionError
        If the child died or hung; and whatever it raised itself.
    """
    described = describe(kernel, options, out, parameters)
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        hosted = [_on_host(array) for array in arrays]
        np.savez(place / "arrays.npz", *hosted)
        described["dtypes"] = [array.dtype.name for array in hosted]
        (place / "job.json").write_text(json.dumps(described), encoding="utf-8")
        # Not multiprocessing: that would run the caller's script again.
        command = [sys.executable, "-m", "kernellab.isolation", folder]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=seconds, check=False)
        except subprocess.TimeoutExpired:
            raise ExecutionError(
                f"{described['kernel']}: its process took longer than {seconds:.0f} s and was ended; "
                "trace it on the emulator, which finds endless loops"
            ) from None
        answer = place / "answer.json"
        if not answer.exists():
            last = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
            raise ExecutionError(
                f"{described['kernel']}: its process died with status {done.returncode}: {last}"
            )
        return receive(json.loads(answer.read_text(encoding="utf-8")))


def describe(
    kernel: str | Kernel, options: Mapping[str, Any], out: Any, parameters: Mapping[str, Any]
) -> dict[str, Any]:
    """Return a job as plain values.

    Raises
    ------
    SpecError
        For a kernel or device that only this process has.
    """
    from kernellab.intake import find_kernel

    asked = find_kernel(kernel)
    if out is not None:
        raise SpecError(f"{asked.id}: outputs of an isolated run stay in its process; leave out= out")
    if not isinstance(options["device"], str):
        raise SpecError(f"{asked.id}: an isolated run needs a device by name; pass device='gpu'")
    case = options["case"]
    if isinstance(case, Case):
        case = {"name": case.name, "sizes": dict(case.sizes), "parameters": dict(case.parameters),
                "contents": case.contents}  # fmt: skip
    described = {
        "kernel": asked.id,
        "constants": {name: int(value) for name, value in asked.constants.items()},
        "source": None if asked.source is None else str(asked.source),
        "parameters": {name: np.asarray(value).item() for name, value in parameters.items()},
        "options": {**options, "case": case},
    }
    if rebuild(described) != asked:
        raise SpecError(
            f"{asked.id}: only constants and source may differ from the catalogue's for an isolated run; "
            "measure it without isolated=True"
        )
    return described


def rebuild(described: Mapping[str, Any]) -> Kernel:
    """Return the kernel that a description stands for."""
    from dataclasses import replace

    from kernellab import catalog

    source = described["source"]
    return replace(
        catalog.kernel(described["kernel"]),
        constants=described["constants"],
        source=None if source is None else Path(source),
    )


def receive(answer: Mapping[str, Any]) -> Record:
    """Return the child's Record, or raise its error as one's own."""
    if "record" in answer:
        return Record.from_dict(answer["record"])
    kind = getattr(errors, answer["error"], ExecutionError)
    raise kind(answer["message"])


def main(folder: str) -> None:
    """Do the job that lies in a folder, and leave the answer there."""
    from kernellab.measurement import measure
    from kernellab.problem import dtype_named

    place = Path(folder)
    job = json.loads((place / "job.json").read_text(encoding="utf-8"))
    with np.load(place / "arrays.npz") as archive:
        # NumPy stores bfloat16 as bare bytes.
        arrays = [archive[f"arr_{i}"].view(dtype_named(name)) for i, name in enumerate(job["dtypes"])]
    options = dict(job["options"])
    if isinstance(options["case"], dict):
        options["case"] = Case(**options["case"])
    answer: dict[str, Any]
    try:
        record = measure(rebuild(job), *arrays, **options, **job["parameters"])
        answer = {"record": record.to_dict()}
    except Exception as error:
        answer = {"error": type(error).__name__, "message": str(error)}
    (place / "answer.json").write_text(json.dumps(answer), encoding="utf-8")


def _on_host(array: Any) -> Any:
    if is_list(array):
        raise SpecError(
            "measure: with isolated=True no input may be a list of arrays; pass case, or leave isolated out"
        )
    return (
        array.get()
        if hasattr(array, "__cuda_array_interface__") and hasattr(array, "get")
        else np.asarray(array)
    )


if __name__ == "__main__":
    main(sys.argv[1])
