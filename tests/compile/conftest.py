import dataclasses

import pytest


@pytest.fixture(scope="session", autouse=True)
def cache_directory(tmp_path_factory):
    """All tests of this folder share one fresh cache."""
    place = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KERNELLAB_CACHE_DIR", str(place))
        yield place


@pytest.fixture
def fresh_cache(tmp_path, monkeypatch):
    """An empty cache, on disk and in memory, for one test."""
    from kernellab.compile import memory

    monkeypatch.setenv("KERNELLAB_CACHE_DIR", str(tmp_path / "cache"))
    memory.forget()
    yield tmp_path / "cache"
    memory.forget()


@pytest.fixture
def without(monkeypatch):
    """Hide parts of the toolchain: ``without(nvcc=None)``."""
    from kernellab.compile import assembly, cuda_c, inventory, sass, toolchain

    def hide(**parts):
        changed = dataclasses.replace(toolchain.toolchain(), **parts)
        for module in (assembly, cuda_c, inventory, sass, toolchain):
            monkeypatch.setattr(module, "toolchain", lambda: changed)

    return hide
