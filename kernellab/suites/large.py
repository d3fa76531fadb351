"""Large: arrays of more than 2**31 elements, where an index of 32 bits ends, copied and transposed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from kernellab import catalog
from kernellab.kernel import Kernel, Language, covering
from kernellab.plan import bind
from kernellab.results import Results, Shown
from kernellab.suites.bench import Bench, languages_of, plan_fields, right_kernels

ELEMENTS = 2**31 + 2**18
ROWS = 2**16
CHUNK = 2**28
HASH = np.uint64(0x9E3779B97F4A7C15)
COLUMNS = (
    Shown("kernel", "kernel"),
    Shown("language", "language"),
    Shown("dtype", "dtype"),
    Shown("elements", "elements", digits=0),
    Shown("answer", "answer"),
)


def run(bench: Bench, elements: int = ELEMENTS) -> Results:
    """Run the copies and transposes that take one array, and look at every element on the device."""
    kernels = tuple(_kernels())
    rows = [_check(bench, kernel, each, elements) for kernel in kernels for each in languages_of(kernel)]
    right = sum(row["answer"] == "right" for row in rows)
    return bench.results(
        "large",
        "Arrays of more than 2**31 elements",
        rows,
        kernels,
        columns=COLUMNS,
        bars={f"every element is right ({right} of {len(rows)} kernels)": right == len(rows)},
        lines=(
            f"{right} of {len(rows)} right at {elements} elements of "
            + ", ".join(dict.fromkeys(row["dtype"] for row in rows)),
            *(f"{row['kernel']} {row['language']}: WRONG" for row in rows if row["answer"] != "right"),
        ),
    )


def _kernels() -> Iterator[Kernel]:
    for kernel in (*catalog.ladder("copy"), *catalog.ladder("transpose")):
        takes_x = [item.name for item in kernel.inputs] == ["x"]
        if takes_x and right_kernels([kernel]) and not kernel.parameters:
            yield kernel


def _check(bench: Bench, kernel: Kernel, language: Language, elements: int) -> dict[str, Any]:
    bench.progress(f"large: {kernel.id} {language}")
    cupy, device = bench.device.cupy, bench.device
    operand = kernel.inputs[0]
    shape = (elements,) if len(operand.shape) == 1 else (ROWS, elements // ROWS)
    if kernel.refusal is not None and kernel.refusal(dict(zip(operand.shape, shape, strict=True))):
        shape = (*shape[:-1], covering(shape[-1], 8) * 8)  # rows in whole vectors
    x = device.allocate(lambda: _numbered(cupy, shape, operand.dtype))
    plan = bind(kernel, {"x": x}, limits=device.limits)
    y = device.empty(plan.outputs["y"])
    y.reshape(-1).view("uint8").fill(0xFF)
    for call in device.calls(device.build(plan.kernel, language), plan, {"x": x, "y": y}):
        call()
    is_right = _is_equal(cupy, y, x if len(shape) == 1 else x.T)
    row = plan_fields(plan, language) | {
        "dtype": operand.dtype, "elements": x.size, "answer": "right" if is_right else "WRONG",
    }  # fmt: skip
    del x, y
    return row


def _numbered(cupy: Any, shape: tuple[int, ...], dtype: str) -> Any:
    """Return an array whose elements differ from their neighbours far and near: each hashes its place."""
    total = 1
    for side in shape:
        total *= side
    itemsize = cupy.dtype(dtype).itemsize
    x = cupy.empty(total, f"u{itemsize}")
    for start in range(0, total, CHUNK):
        stop = min(start + CHUNK, total)
        place = cupy.arange(start, stop, dtype="uint64")
        x[start:stop] = (place * HASH >> np.uint64(33)).astype(x.dtype)
    return x.view(dtype).reshape(shape)


def _is_equal(cupy: Any, first: Any, second: Any) -> bool:
    """Compare bits, some rows at a time, so that little more memory is needed."""
    bits = f"u{first.dtype.itemsize}"
    step = max(1, CHUNK * first.shape[0] // max(first.size, 1))
    return all(
        bool(
            cupy.array_equal(
                cupy.ascontiguousarray(first[i : i + step]).view(bits),
                cupy.ascontiguousarray(second[i : i + step]).view(bits),
            )
        )
        for i in range(0, first.shape[0], step)
    )
