from kernellab.compile import survey
from kernellab.errors import UnavailableError


def by_name():
    return {part.name: part for part in survey()}


def test_what_is_here_has_a_value_and_no_remedy(fresh_cache):
    parts = by_name()
    for name in ("NVRTC", "nvJitLink", "nvdisasm", "numba-cuda", "headers"):
        assert parts[name].value, name
        assert not parts[name].remedy, name
    assert "sm_90" in parts["architectures"].value
    assert parts["cache"].value == str(fresh_cache)


def test_what_is_missing_has_a_remedy(without, monkeypatch):
    from kernellab.compile import nvrtc

    def missing():
        raise UnavailableError("NVRTC is not here: pip install it")

    monkeypatch.setattr(nvrtc, "version", missing)
    without(nvdisasm=None, nvcc=None, missing_headers=("crt (mma.h)",))
    parts = by_name()
    assert parts["NVRTC"].value is None
    assert "pip install" in parts["NVRTC"].remedy
    assert "pip install" in parts["nvdisasm"].remedy
    assert "CUDA toolkit" in parts["nvcc"].remedy
    assert "crt" in parts["headers"].remedy
