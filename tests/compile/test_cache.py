import multiprocessing
import os
import subprocess
import sys
import warnings

import pytest

from kernellab.compile import cache, compile_cuda, memory

TEXT = 'extern "C" __global__ void one(int* y) { *y = 1; }\n'


def test_a_stored_entry_comes_back_whole(fresh_cache):
    cache.store("a" * 64, {"names": {"k": "k"}}, {"ptx": b"text", "cubin": bytes(range(256))})
    entry = cache.load("a" * 64)
    assert entry.fields == {"names": {"k": "k"}}
    assert entry.blobs == {"ptx": b"text", "cubin": bytes(range(256))}


@pytest.mark.parametrize(
    "damage", [lambda data: data[:-1], lambda data: data[:60] + b"X" + data[61:], lambda data: b""]
)
def test_a_damaged_entry_counts_as_absent(fresh_cache, damage):
    cache.store("b" * 64, {"a": 1}, {"blob": b"0123456789"})
    (file,) = fresh_cache.rglob("*.bin")
    file.write_bytes(damage(file.read_bytes()))
    assert cache.load("b" * 64) is None


def test_a_damaged_entry_is_compiled_anew(fresh_cache):
    good = compile_cuda(TEXT)
    for file in fresh_cache.rglob("*.bin"):
        file.write_bytes(b"kernellab-cache-1\nrubbish")
    memory.forget()
    again = compile_cuda(TEXT)
    assert again.cubin
    assert again.names == good.names


def test_an_unusable_place_costs_one_warning_and_no_result(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("no directory")
    monkeypatch.setenv("KERNELLAB_CACHE_DIR", str(tmp_path / "file" / "cache"))
    monkeypatch.setattr(cache, "_is_warned", False)
    memory.forget()
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        for index in range(3):
            assert compile_cuda(f"// unusable {index}\n" + TEXT).cubin
    assert [str(each.category.__name__) for each in seen] == ["CacheWarning"]
    assert "KERNELLAB_CACHE_DIR" in str(seen[0].message)
    assert cache.complaint()


def test_in_memory_results_survive_without_a_disk(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("no directory")
    monkeypatch.setenv("KERNELLAB_CACHE_DIR", str(tmp_path / "file"))
    monkeypatch.setattr(cache, "_is_warned", True)
    first = compile_cuda("// memory only\n" + TEXT)
    assert compile_cuda("// memory only\n" + TEXT) is first


def test_importing_touches_no_disk_and_loads_no_compiler(tmp_path):
    code = (
        "import sys, kernellab.compile.cuda_c, kernellab.compile.numba_kernels, kernellab.compile.sass\n"
        "bad = {'cuda', 'numba', 'cupy', 'llvmlite', 'platformdirs'} & set(sys.modules)\n"
        "assert not bad, bad\n"
    )
    place = tmp_path / "never"
    environment = {**os.environ, "KERNELLAB_CACHE_DIR": str(place), "HOME": "/nonexistent"}
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True, env=environment)
    assert not place.exists()


def _compile_in_child(place, results):
    os.environ["KERNELLAB_CACHE_DIR"] = place
    results.put([len(compile_cuda(TEXT, options=[f"-DN={number}"]).cubin) for number in range(2)])


def test_eight_processes_share_the_cache(tmp_path):
    context = multiprocessing.get_context("fork" if os.name != "nt" else "spawn")
    results = context.SimpleQueue()
    children = [context.Process(target=_compile_in_child, args=(str(tmp_path), results)) for _ in range(8)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        for child in children:
            child.start()
    for child in children:
        child.join(60)
    assert [child.exitcode for child in children] == [0] * 8
    found = [results.get() for _ in children]
    assert all(sizes == found[0] for sizes in found)
    assert not list(tmp_path.rglob(".new-*"))
    assert len(list(tmp_path.rglob("*.bin"))) == 2


def test_a_warm_compile_needs_no_nvrtc(fresh_cache):
    compile_cuda(TEXT)
    code = (
        "import sys, time\n"
        "from kernellab.compile import compile_cuda\n"
        f"text = {TEXT!r}\n"
        "assert compile_cuda(text).cubin\n"
        "assert not [name for name in sys.modules if name.split('.')[0] in ('cuda', 'numba')]\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_digest_delimits_its_parts():
    assert cache.digest("ab", "c") != cache.digest("a", "bc")
    assert cache.digest("1") != cache.digest(1)
