import sys
from pathlib import Path

import pytest

import kernellab
from kernellab.compile import toolchain
from kernellab.compile.toolchain import discover
from kernellab.errors import UnavailableError


def touch(path, text=""):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


def cuda13_site(root, families=("cuda_runtime.h", "cuda_fp16.h", "cooperative_groups.h", "crt/mma.h")):
    (root / "cuda_bindings-13.5.0.dist-info").mkdir(parents=True)
    base = root / "nvidia/cu13"
    for name in families:
        touch(base / "include" / name)
    touch(base / "include/cccl/cuda/std/cstdint")
    touch(base / "lib/libnvrtc.so.13", "one")
    touch(base / "lib/libcudadevrt.a")
    touch(base / "bin/nvdisasm")
    return base


@pytest.fixture(autouse=True)
def no_toolkit_here(monkeypatch):
    """Hide /usr/local/cuda: `discover` must not depend on it."""
    monkeypatch.setattr(
        toolchain, "_toolkits", lambda environment: [toolchain.Path(p) for p in environment.get("TK", ())]
    )


def test_cuda_13_wheels(tmp_path):
    base = cuda13_site(tmp_path)
    found = discover([str(tmp_path)], {})
    assert found.major == 13
    assert found.include_dirs == (base / "include", base / "include/cccl")
    assert found.missing_headers == ()
    assert found.nvdisasm == base / "bin/nvdisasm"
    assert found.cudadevrt == base / "lib/libcudadevrt.a"
    assert found.nvcc is None


def test_cuda_12_wheels(tmp_path):
    (tmp_path / "cuda_bindings-12.9.1.dist-info").mkdir()
    for name in ("cuda_runtime.h", "cuda_fp16.h", "cooperative_groups.h"):
        touch(tmp_path / "nvidia/cuda_runtime/include" / name)
    touch(tmp_path / "nvidia/cuda_nvcc/include/crt/mma.h")
    touch(tmp_path / "nvidia/cuda_cccl/include/cuda/std/cstdint")
    touch(tmp_path / "nvidia/cuda_nvrtc/lib/libnvrtc.so.12")
    touch(tmp_path / "nvidia/cu13/bin/nvdisasm")
    found = discover([str(tmp_path)], {})
    assert found.major == 12
    assert [folder.parent.name for folder in found.include_dirs] == ["cuda_runtime", "cuda_nvcc", "cuda_cccl"]
    assert found.missing_headers == ()
    assert found.nvdisasm == tmp_path / "nvidia/cu13/bin/nvdisasm"


def test_wheels_come_before_a_toolkit_that_fills_a_gap(tmp_path):
    base = cuda13_site(tmp_path / "site", families=("cuda_runtime.h", "cuda_fp16.h"))
    kit = tmp_path / "kit"
    touch(kit / "include/cuda_runtime_api.h", "#define CUDART_VERSION  13000\n")
    touch(kit / "include/crt/mma.h")
    touch(kit / "include/cooperative_groups.h")
    found = discover([str(tmp_path / "site")], {"TK": (str(kit),)})
    assert found.include_dirs[0] == base / "include"
    assert found.include_dirs[-1] == kit / "include"
    assert found.missing_headers == ()


def test_a_toolkit_of_another_version_stays_out(tmp_path):
    cuda13_site(tmp_path / "site", families=("cuda_runtime.h", "cuda_fp16.h", "cooperative_groups.h"))
    kit = tmp_path / "kit"
    touch(kit / "include/cuda_runtime_api.h", "#define CUDART_VERSION  12040\n")
    touch(kit / "include/crt/mma.h")
    found = discover([str(tmp_path / "site")], {"TK": (str(kit),)})
    assert kit / "include" not in found.include_dirs
    assert found.missing_headers == ("crt (mma.h)",)


def test_a_complete_set_of_wheels_takes_nothing_from_a_toolkit(tmp_path):
    cuda13_site(tmp_path / "site")
    kit = tmp_path / "kit"
    touch(kit / "include/cuda_runtime_api.h", "#define CUDART_VERSION  13000\n")
    found = discover([str(tmp_path / "site")], {"TK": (str(kit),)})
    assert all(kit not in folder.parents for folder in found.include_dirs)


def test_nothing_at_all(tmp_path):
    found = discover([str(tmp_path)], {})
    assert found.nvrtc is None
    assert found.nvdisasm is None
    assert len(found.missing_headers) == 5


def test_the_stamp_changes_with_the_compiler(tmp_path):
    base = cuda13_site(tmp_path)
    before = discover([str(tmp_path)], {}).stamp
    touch(base / "lib/libnvrtc.so.13", "another")
    assert discover([str(tmp_path)], {}).stamp != before


def test_tools_on_the_path(tmp_path):
    nvcc = touch(tmp_path / "bin/nvcc", "#!/bin/sh\n")
    assert discover([], {"PATH": str(tmp_path / "bin")}).nvcc == nvcc


@pytest.mark.parametrize(("platform", "words"), [("darwin", "macOS"), ("linux", "[cuda1")])
def test_no_nvrtc_is_explained(monkeypatch, platform, words):
    monkeypatch.setattr(sys, "platform", platform)
    assert words in str(toolchain.explain_missing_nvrtc())


def test_a_clone_is_installed_from_where_it_is(monkeypatch, tmp_path):
    clone = Path(kernellab.__file__).parents[1]
    monkeypatch.chdir(clone)
    assert toolchain.install_command("cuda13") == "pip install -e '.[cuda13]'"
    monkeypatch.chdir(tmp_path)
    assert toolchain.install_command("peers") == f"pip install -e '{clone}[peers]'"


def test_a_wheel_is_on_no_index_so_its_requirements_are_named(monkeypatch):
    monkeypatch.setattr(toolchain, "_clone", lambda: None)
    command = toolchain.install_command("cuda12")
    assert "kernellab" not in command
    assert "'cupy-cuda12x>=14'" in command
    assert "cuda13" not in command


def test_no_nvdisasm_is_explained(without):
    without(nvdisasm=None)
    with pytest.raises(UnavailableError, match="pip install nvidia-cuda-nvdisasm"):
        toolchain.require_nvdisasm()


@pytest.mark.parametrize(
    ("header", "wheel"),
    [
        ("crt/mma.h", "nvidia-cuda-crt"),
        ("cub/cub.cuh", "nvidia-cuda-cccl"),
        ("curand_kernel.h", "nvidia-curand"),
    ],
)
def test_missing_headers_name_their_wheel(header, wheel):
    assert wheel in toolchain.header_remedy(header)


def test_other_headers_have_no_wheel():
    assert toolchain.header_remedy("mine.cuh") is None
