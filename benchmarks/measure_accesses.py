"""Measure on a GPU what one warp's access costs, for the emulator to agree with.

``python benchmarks/measure_accesses.py tests/golden/h200_accesses.csv`` runs every operation below with every
pattern under Nsight Compute and writes what the hardware counted. `tests/emulator/test_hardware_accesses.py`
runs the same kernels on the emulator and compares. Needs a GPU, CuPy and ncu.
"""

from __future__ import annotations

import csv
import subprocess
import sys
from pathlib import Path

import numpy as np

WIDTHS = {"u8": 1, "u16": 2, "u32": 4, "u64": 8, "f32": 4, "f64": 8, "v2.f32": 8, "v4.f32": 16, "v2.u64": 16}
METRICS = (
    "global_load_requests", "global_load_sectors", "global_store_requests", "global_store_sectors",
    "global_atom_requests", "global_atom_sectors", "global_red_requests", "global_red_sectors",
    "local_load_requests", "local_load_sectors", "local_store_requests", "local_store_sectors",
    "shared_load_requests", "shared_load_wavefronts", "shared_store_requests", "shared_store_wavefronts",
)  # fmt: skip


def _load(space: str, hint: str, kind: str) -> str:
    registers = {"v2.f32": '"=f"(a), "=f"(b)', "v4.f32": '"=f"(a), "=f"(b), "=f"(c), "=f"(d)'}
    outputs = registers.get(
        kind, '"=l"(q)' if kind == "u64" else '"=h"(h)' if kind in ("u8", "u16") else '"=r"(r)'
    )
    count = {"v2.f32": 2, "v4.f32": 4}.get(kind, 1)
    target = "{" + ", ".join(f"%{i}" for i in range(count)) + "}" if count > 1 else "%0"
    use = {
        "u64": "q",
        "u8": "h",
        "u16": "h",
        "v2.f32": "(a + b > 9) * 201",
        "v4.f32": "(a + b + c + d > 9) * 201",
    }.get(kind, "r")
    return f'asm volatile("ld{space}{hint}.{kind} {target}, [%{count}];" : {outputs} : "l"(p) : "memory"); used += {use};'


def _store(space: str, hint: str, kind: str) -> str:
    values = {"v2.f32": '"f"(a), "f"(b)', "v4.f32": '"f"(a), "f"(b), "f"(c), "f"(d)'}
    inputs = values.get(kind, '"l"(q)' if kind == "u64" else '"h"(h)' if kind in ("u8", "u16") else '"r"(r)')
    count = {"v2.f32": 2, "v4.f32": 4}.get(kind, 1)
    source = "{" + ", ".join(f"%{i + 1}" for i in range(count)) + "}" if count > 1 else "%1"
    return f'asm volatile("st{space}{hint}.{kind} [%0], {source};" :: "l"(p), {inputs} : "memory");'


def operations() -> dict[str, tuple[str, int, str]]:
    """Return name -> (statement, bytes a lane, where `p` points: global, shared or local)."""
    found: dict[str, tuple[str, int, str]] = {}
    for where in ("global", "shared"):
        for kind in ("u8", "u32", "u64", "v4.f32"):
            found[f"generic load {kind} {where}"] = (_load("", "", kind), WIDTHS[kind], where)
            found[f"generic store {kind} {where}"] = (_store("", "", kind), WIDTHS[kind], where)
    for hint in (".volatile", ".cg", ".cs", ".lu", ".nc", ".relaxed.gpu", ".acquire.gpu", ".L1::no_allocate"):
        text = {".volatile": ("ld.volatile.global", ""), ".nc": ("ld.global.nc", "")}.get(
            hint, ("ld.global", hint)
        )
        if hint.startswith((".relaxed", ".acquire")):
            text = (f"ld{hint}.global", "")
        for kind in ("u32", "v4.f32"):
            if kind == "v4.f32" and hint in (".relaxed.gpu", ".acquire.gpu"):
                continue
            statement = _load("", "", kind).replace(f"ld.{kind}", f"{text[0]}{text[1]}.{kind}")
            found[f"load{hint} {kind}"] = (statement, WIDTHS[kind], "global")
    for hint, head in ((".volatile", "st.volatile.global"), (".cg", "st.global.cg"), (".cs", "st.global.cs"),
                       (".wt", "st.global.wt"), (".relaxed.gpu", "st.relaxed.gpu.global"),
                       (".release.gpu", "st.release.gpu.global")):  # fmt: skip
        statement = _store("", "", "u32").replace("st.u32", f"{head}.u32")
        found[f"store{hint} u32"] = (statement, 4, "global")
    for kind, letter in (("u32", "r"), ("u64", "q")):
        code = "l" if kind == "u64" else "r"
        bits = kind.replace("u", "b")
        for name in ("min", "max", "add", "and", "xor"):
            typed = bits if name in ("and", "xor") else kind
            found[f"atom.{name}.{typed}"] = (
                f'asm volatile("atom.global.{name}.{typed} %0, [%1], %2;" : "={code}"({letter}) : "l"(p), '
                f'"{code}"({letter}) : "memory"); used += {letter};', WIDTHS[kind], "global",
            )  # fmt: skip
            found[f"red.{name}.{typed}"] = (
                f'asm volatile("red.global.{name}.{typed} [%0], %1;" :: "l"(p), "{code}"({letter}) : "memory");',
                WIDTHS[kind], "global",
            )  # fmt: skip
        found[f"atom.exch.{bits}"] = (
            f'asm volatile("atom.global.exch.{bits} %0, [%1], %2;" : "={code}"({letter}) : "l"(p), '
            f'"{code}"({letter}) : "memory"); used += {letter};', WIDTHS[kind], "global",
        )  # fmt: skip
        found[f"atom.cas.{bits}"] = (
            f'asm volatile("atom.global.cas.{bits} %0, [%1], %2, %2;" : "={code}"({letter}) : "l"(p), '
            f'"{code}"({letter}) : "memory"); used += {letter};', WIDTHS[kind], "global",
        )  # fmt: skip
    found["red.relaxed.gpu.add.f32"] = (
        'asm volatile("red.relaxed.gpu.global.add.f32 [%0], %1;" :: "l"(p), "f"(a) : "memory");', 4, "global",
    )  # fmt: skip
    found["red.add.noftz.f16x2"] = (
        'asm volatile("red.global.add.noftz.f16x2 [%0], %1;" :: "l"(p), "r"(r) : "memory");', 4, "global",
    )  # fmt: skip
    for kind in ("u8", "u32", "u64"):
        found[f"local load {kind}"] = (_load("", "", kind), WIDTHS[kind], "local")
        found[f"local store {kind}"] = (_store("", "", kind), WIDTHS[kind], "local")
    return found


def source() -> str:
    """Return CUDA C with one kernel an operation: ``access<i>``."""
    parts = ["__constant__ int offsets[32];\n"]
    for i, (statement, _, where) in enumerate(operations().values()):
        base = {
            "global": "char* p = memory + offsets[threadIdx.x];",
            "shared": "extern __shared__ char block[]; char* p = block + offsets[threadIdx.x];",
            "local": "char own[512]; own[offsets[0] & 511] = 1; char* p = own + (offsets[threadIdx.x] & 504);",
        }[where]
        parts.append(
            f'extern "C" __global__ void access{i}(char* memory, unsigned mask, '
            "unsigned long long* never) {\n"
            "    float a = 1, b = 2, c = 3, d = 4; unsigned r = 5; unsigned long long q = 6, used = 0;\n"
            "    unsigned short h = 7;\n"
            f"    {base}\n"
            "    if (mask >> threadIdx.x & 1) {\n"
            f"        {statement}\n"
            "    }\n"
            "    if (used == 201) *never = used + q + r + h + (a + b + c + d > 1e30f);\n"
            "}\n"
        )
    return "".join(parts)


def patterns(width: int) -> dict[str, tuple[np.ndarray, int]]:
    """Return name -> (byte offset of each lane, lanes that are on)."""
    lane = np.arange(32)
    generator = np.random.default_rng(width)
    every = 0xFFFFFFFF
    random = generator.integers(0, 1024 // width, 32) * width
    return {
        "sequence": (lane * width, every),
        "same": (lane * 0, every),
        "stride 2": (lane * 2 * width, every),
        "reverse": (lane[::-1] * width, every),
        "random": (random, every),
        "even lanes": (lane * width, 0x55555555),
        "random, some": (random, 0x36CF77CD),
    }


def launches() -> list[tuple[int, str, str, np.ndarray, int]]:
    """Return every launch: number and name of the operation, pattern, offsets, mask."""
    found = []
    for i, (name, (_, width, _)) in enumerate(operations().items()):
        for pattern, (offsets, mask) in patterns(width).items():
            found.append((i, name, pattern, offsets.astype(np.int32), mask))
    return found


def child() -> None:
    """Run all launches under the profiler."""
    import cupy

    from kernellab.compile import compile_cuda

    device = cupy.cuda.Device()
    binary = compile_cuda(source(), arch=f"sm_{device.compute_capability}")
    path = Path("/tmp/kernellab_accesses.cubin")
    path.write_bytes(binary.cubin or b"")
    module = cupy.RawModule(path=str(path))
    memory, never = cupy.zeros(4096, np.uint8), cupy.zeros(1, np.uint64)
    table = cupy.ndarray((32,), np.int32, memptr=module.get_global("offsets"))
    functions = [module.get_function(f"access{i}") for i in range(len(operations()))]
    device.synchronize()
    cupy.cuda.profiler.start()
    for i, _, _, offsets, mask in launches():
        table.set(offsets)
        functions[i]((1,), (32,), (memory, np.uint32(mask), never), shared_mem=2048)
    device.synchronize()
    cupy.cuda.profiler.stop()


def main(target: str) -> None:
    """Measure, and write a row for each launch."""
    from kernellab.instruments.counters import METRICS as NAMES
    from kernellab.instruments.counters import check_output, find_ncu, parse_raw_page

    command = [
        find_ncu(), "--clock-control", "none", "--profile-from-start", "off", "--csv", "--page", "raw",
        "--metrics", ",".join(NAMES[name] for name in METRICS), sys.executable, __file__, "--child",
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    check_output(done.returncode, done.stdout, done.stderr)
    rows = parse_raw_page(done.stdout, METRICS)
    made = launches()
    if len(rows) != len(made):
        raise SystemExit(f"ncu reported {len(rows)} launches, {len(made)} were made")
    with open(target, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["operation", "pattern", *METRICS])
        for (_, name, pattern, _, _), row in zip(made, rows, strict=True):
            writer.writerow([name, pattern, *("" if np.isnan(row[m]) else int(row[m]) for m in METRICS)])
    print(f"{len(rows)} rows in {target}")


if __name__ == "__main__":
    child() if sys.argv[1] == "--child" else main(sys.argv[1])
