"""Where the compilers' parts are: NVRTC, headers, nvdisasm, nvcc. Plain look-ups: nothing is loaded or run.

Wheels come first, then a toolkit on this machine (CUDA_HOME, CUDA_PATH, /usr/local/cuda). Headers are one
consistent set: a toolkit's directory only joins when wheels lack something and its version fits NVRTC's.
"""

from __future__ import annotations

import functools
import os
import re
import shutil
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path

from kernellab.errors import UnavailableError

# One header of each family that kernels include, and the CUDA 13 wheel that brings it.
_HEADER_FAMILIES = {
    "runtime": ("cuda_runtime.h", "nvidia-cuda-runtime"),
    "half precision": ("cuda_fp16.h", "nvidia-cuda-runtime"),
    "cooperative groups": ("cooperative_groups.h", "nvidia-cuda-runtime"),
    "crt (mma.h)": ("crt/mma.h", "nvidia-cuda-crt"),
    "CCCL (cub, cuda/std)": ("cuda/std/cstdint", "nvidia-cuda-cccl"),
}
_WHEEL_FOLDERS = {
    13: ("cu13",),
    12: ("cuda_runtime", "cuda_nvcc", "cuda_cccl", "cuda_nvrtc", "curand", "cu12"),
}
_SUFFIX = ".exe" if os.name == "nt" else ""


@dataclass(frozen=True)
class Toolchain:
    """What was found; a part that is not here is None.

    Attributes
    ----------
    major : int or None
        CUDA's major version, that of the installed cuda-bindings.
    nvrtc : Path or None
        The NVRTC library, when it comes from a wheel or a toolkit that could be seen.
    include_dirs : tuple of Path
        Header directories in search order.
    missing_headers : tuple of str
        Families of headers that no directory has.
    nvdisasm, nvcc, cudadevrt : Path or None
        Tools and the device runtime library.
    stamp : str
        Names, sizes and times of the parts: changes when one of them is upgraded.
    """

    major: int | None
    nvrtc: Path | None
    include_dirs: tuple[Path, ...]
    missing_headers: tuple[str, ...]
    nvdisasm: Path | None
    nvcc: Path | None
    cudadevrt: Path | None
    stamp: str = field(repr=False)


@functools.cache
def toolchain() -> Toolchain:
    """The parts that this process uses; looked up once."""
    return discover(sys.path, os.environ)


def discover(search_path: Sequence[str], environment: os._Environ[str] | dict[str, str]) -> Toolchain:
    """Look for the parts below the site directories `search_path` and the toolkits that `environment` names.

    Parameters
    ----------
    search_path : sequence of str
        Directories like those of ``sys.path``.
    environment : mapping
        Such as ``os.environ``; CUDA_HOME, CUDA_PATH, CONDA_PREFIX and PATH are read.

    Returns
    -------
    Toolchain
    """
    sites = [Path(entry) for entry in dict.fromkeys(search_path) if entry and os.path.isdir(entry)]
    major = _bindings_major(sites)
    wheels = [site / "nvidia" / name for site in sites for name in _WHEEL_FOLDERS.get(major or 13, ())]
    wheels = [folder for folder in wheels if folder.is_dir()]
    toolkits = _toolkits(environment)
    nvrtc = _first_library(
        [*(f / part for f in wheels for part in ("lib", "bin/x86_64", "bin")), *_lib_dirs(toolkits)]
    )
    include_dirs = _include_dirs(wheels, toolkits, major)
    headers = [family for family, (name, _) in _HEADER_FAMILIES.items() if not _holds(include_dirs, name)]
    binaries = [
        folder / "bin" for site in sites for folder in sorted((site / "nvidia").glob("*"), reverse=True)
    ]
    binaries += [site / "triton/backends/nvidia/bin" for site in sites]
    nvdisasm = _tool("nvdisasm", binaries, toolkits, environment)
    nvcc = _tool("nvcc", [], toolkits, environment)
    devrt = _first(
        part / name
        for part in [*(f / lib for f in wheels for lib in ("lib", "lib/x64")), *_lib_dirs(toolkits)]
        for name in ("libcudadevrt.a", "cudadevrt.lib")
    )
    markers = [
        folder / name for folder in include_dirs for name in ("cuda_runtime_api.h", "cuda/std/version")
    ]
    stamp = _stamp([nvrtc, nvdisasm, *(nvrtc.parent.glob("*nvrtc-builtins*") if nvrtc else ()), *markers])
    return Toolchain(major, nvrtc, tuple(include_dirs), tuple(headers), nvdisasm, nvcc, devrt, stamp)


def install_command(extra: str = "") -> str:
    """The command that brings an extra; by default the whole set of the CUDA version that is here.

    kernellab is on no index: its clone is installed where it lies, and without one the extra's own
    requirements are named.
    """
    extra = extra or f"cuda{12 if toolchain().major == 12 else 13}"
    clone = _clone()
    if clone is None:
        return f"pip install {' '.join(_requirements(extra))}"
    return f"pip install -e '{'.' if Path.cwd() == clone else clone}[{extra}]'"


def _clone() -> Path | None:
    root = Path(__file__).resolve().parents[2]
    return root if (root / "pyproject.toml").is_file() else None


def _requirements(extra: str) -> list[str]:
    found = []
    for each in metadata.requires("kernellab") or ():
        requirement, _, marker = each.partition(";")
        if re.search(rf"extra\s*==\s*['\"]{extra}['\"]", marker):
            found.append(f"'{requirement.strip()}'")
    return found


def require_nvdisasm() -> Path:
    """The path of nvdisasm, or `UnavailableError` with the command that brings it."""
    found = toolchain().nvdisasm
    if found is None:
        raise UnavailableError(
            "nvdisasm is not here, so there is no SASS: pip install nvidia-cuda-nvdisasm brings it"
        )
    return found


def explain_missing_nvrtc(error: object = None) -> UnavailableError:
    """The error for a machine on which NVRTC cannot be loaded."""
    if sys.platform == "darwin":
        return UnavailableError(
            "NVRTC is not here: NVIDIA publishes no wheel of it for macOS; compile on Linux or Windows, "
            "or trace a .ptx file"
        )
    reason = f" ({str(error).splitlines()[0]})" if error is not None and str(error) else ""
    return UnavailableError(
        f"NVRTC is not here{reason}, so CUDA C cannot be compiled: {install_command()} brings it"
    )


def header_remedy(name: str) -> str | None:
    """How to get a header of NVIDIA's, such as ``crt/mma.h`` or ``cub/cub.cuh``; None for any other."""
    top = name.split("/")[0]
    if top.startswith("curand"):
        return f"{install_command('peers')} brings it (wheel nvidia-curand)"
    wheel = _header_wheel(top)
    return f"{install_command()} brings it (wheel {wheel})" if wheel else None


def _header_wheel(top: str) -> str | None:
    if top in {"cub", "thrust", "cuda", "nv"}:
        return "nvidia-cuda-cccl"
    if top == "crt":
        return "nvidia-cuda-crt"
    if re.match(r"(cuda_|cooperative_groups|mma\.h|vector_|device_|sm_\d\d)", top):
        return "nvidia-cuda-runtime"
    return None


def _bindings_major(sites: Iterable[Path]) -> int | None:
    for site in sites:
        for entry in site.glob("cuda_bindings-*.dist-info"):
            match = re.match(r"cuda_bindings-(\d+)", entry.name)
            if match:
                return int(match.group(1))
    return None


def _toolkits(environment: os._Environ[str] | dict[str, str]) -> list[Path]:
    named = [environment.get(name) for name in ("CUDA_HOME", "CUDA_PATH")]
    conda = environment.get("CONDA_PREFIX")
    roots = [Path(name) for name in named if name]
    roots += [Path(conda), Path(conda) / "targets/x86_64-linux"] if conda else []
    roots.append(Path("/usr/local/cuda"))
    return [root for root in dict.fromkeys(roots) if root.is_dir()]


def _lib_dirs(toolkits: Iterable[Path]) -> list[Path]:
    return [
        root / part
        for root in toolkits
        for part in ("lib64", "lib", "lib/x64", "targets/x86_64-linux/lib", "bin")
    ]


def _first_library(folders: Iterable[Path]) -> Path | None:
    patterns = ("nvrtc64_*_0.dll",) if os.name == "nt" else ("libnvrtc.so.1?", "libnvrtc.so.1?.*")
    return _first(path for folder in folders for pattern in patterns for path in sorted(folder.glob(pattern)))


def _include_dirs(wheels: Sequence[Path], toolkits: Sequence[Path], major: int | None) -> list[Path]:
    found = _with_cccl(folder / "include" for folder in wheels)
    if all(_holds(found, name) for name, _ in _HEADER_FAMILIES.values()):
        return found
    for root in toolkits:
        candidates = _with_cccl([root / "include", root / "targets/x86_64-linux/include"])
        version = _runtime_version(candidates)
        if version is not None and (major is None or version == major):
            return [*found, *candidates]
    return found


def _with_cccl(folders: Iterable[Path]) -> list[Path]:
    expanded = [part for folder in folders for part in (folder, folder / "cccl")]
    return list(dict.fromkeys(part for part in expanded if part.is_dir()))


def _runtime_version(folders: Iterable[Path]) -> int | None:
    header = _first(folder / "cuda_runtime_api.h" for folder in folders)
    if header is None:
        return None
    match = re.search(r"#define\s+CUDART_VERSION\s+(\d+)", header.read_text(errors="replace"))
    return int(match.group(1)) // 1000 if match else None


def _holds(folders: Iterable[Path], name: str) -> bool:
    return any((folder / name).is_file() for folder in folders)


def _tool(
    name: str,
    folders: Iterable[Path],
    toolkits: Iterable[Path],
    environment: os._Environ[str] | dict[str, str],
) -> Path | None:
    beside = _first(folder / (name + _SUFFIX) for folder in folders)
    on_path = shutil.which(name, path=environment.get("PATH", ""))
    return (
        beside
        or (Path(on_path) if on_path else None)
        or _first(r / "bin" / (name + _SUFFIX) for r in toolkits)
    )


def _first(paths: Iterable[Path]) -> Path | None:
    return next((path for path in paths if path.is_file()), None)


def _stamp(paths: Iterable[Path | None]) -> str:
    parts = []
    for path in paths:
        if path is not None and path.is_file():
            status = path.stat()
            parts.append(f"{path.name}:{status.st_size}:{status.st_mtime_ns}")
    return ";".join(parts)
