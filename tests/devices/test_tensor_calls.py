"""Lists of arrays on a fake GPU: tables by value, launches in place, plans used again, nobody waits."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest
from fakes import make_gpu

import kernellab as kl
from kernellab import tensor_calls
from kernellab.tensor_table import table_dtype

TENSORS = 64


def tensors_at(table, dtypes, capacity=TENSORS):
    """Read a table as a kernel does: the arrays of number k of each list, for each k."""
    raw = np.frombuffer(table.tobytes(), table_dtype(len(dtypes), capacity))[0]
    for k in range(raw["tensors"]):
        n = int(raw["length"][k])
        yield [
            np.ctypeslib.as_array((ctypes.c_uint8 * (n * np.dtype(dtype).itemsize)).from_address(int(row[k])))
            .view(dtype)
            for row, dtype in zip(raw["address"], dtypes, strict=True)
        ]  # fmt: skip


def unscale(table, found, inv_scale, norm, max_norm):
    for (x,) in tensors_at(table, [DTYPE[0]]):
        found[0] = max(found[0], float(not np.isfinite(x).all()))
        x *= inv_scale[0]


def adamw(table, found, inv_scale, norm, skipped, max_norm, lr, *rest):
    for param, grad, _, _ in tensors_at(table, ["float32", "float16", "float32", "float32"]):
        if not found[0]:
            param -= lr * inv_scale[0] * grad


DTYPE = ["float16"]


@pytest.fixture
def world(monkeypatch):
    world, _ = make_gpu(monkeypatch)
    world.kernels.update({"unscale_multi": unscale, "adamw_multi": adamw})
    monkeypatch.setattr(tensor_calls, "_PREPARED", {})
    monkeypatch.setattr(tensor_calls, "_CONSTANTS", {})
    return world


def on_gpu(world, *shapes, dtype="float16"):
    return [world.array(np.ones(shape, dtype)) for shape in shapes]


def launched(world):
    return [entry for _, entry, _ in world.launches()]


def test_one_launch_unscales_all_in_place(world):
    scaler = kl.GradScaler(init_scale=4.0)
    grads = on_gpu(world, (3, 5), 0, 70)
    scaler.unscale_(grads)
    assert launched(world) == ["unscale_multi"]
    assert all((each.host == 0.25).all() for each in grads)
    assert ("synchronize", 0) not in world.log[world.log.index(world.launches()[0]) :]


def test_a_plan_is_used_again_with_other_numbers(world, monkeypatch):
    params, grads, means, squares = (
        on_gpu(world, 5, 7, dtype=dtype) for dtype in ("float32", "float16", "float32", "float32")
    )
    kl.adamw(params, grads, means, squares, step=1, lr=0.5)
    monkeypatch.setattr(tensor_calls, "bind", None)  # not called again
    kl.adamw(params, grads, means, squares, step=2, lr=0.25, inv_scale=2.0)
    assert launched(world) == ["adamw_multi"] * 2
    assert all((each.host == 0).all() for each in params)
    with pytest.raises(kl.SpecError, match="adamw: step is 0"):
        kl.adamw(params, grads, means, squares, step=0)
    assert all((each.host == 0).all() for each in params)


def test_two_kernels_over_the_same_lists_have_a_plan_each(world):
    world.kernels["global_norm_multi"] = lambda table, partials, *rest: None
    grads = on_gpu(world, 5, 7)
    for _ in range(2):  # the second time by plans that were kept
        kl.clip_grad_norm(grads, 1.0)
    assert [each for each in launched(world) if each.startswith("unscale")] == ["unscale_multi"] * 2


def test_other_arrays_are_looked_at(world):
    params, grads, means, squares = (
        on_gpu(world, 5, dtype=dtype) for dtype in ("float32", "float16", "float32", "float32")
    )
    kl.adamw(params, grads, means, squares, step=1, lr=0.5)
    with pytest.raises(kl.SpecError, match=r"grad\[0\] has shape \(4,\)"):
        kl.adamw(params, on_gpu(world, 4), means, squares, step=1)
    with pytest.raises(kl.ArgumentError, match="dtype int16"):
        kl.adamw(params, [grads[0].view("int16")], means, squares, step=1)
    others = on_gpu(world, 5, dtype="float32")
    kl.adamw(others, grads, means, squares, step=1, lr=1.0)
    assert (others[0].host == 0).all()


def test_a_strided_view_is_copied_and_written_back(world):
    whole = world.array(np.ones((4, 6), "float16"))
    scaler = kl.GradScaler(init_scale=2.0)
    for _ in range(2):
        scaler.unscale_([whole[:, ::2]])
        scaler.update(2.0)
    assert np.array_equal(whole.host, np.array([[0.25, 1] * 3] * 4, "float16"))


def test_bfloat16_keeps_its_name(world):
    import ml_dtypes

    DTYPE[0] = ml_dtypes.bfloat16
    grads = on_gpu(world, 9, dtype=ml_dtypes.bfloat16)
    kl.GradScaler(init_scale=2.0).unscale_(grads)
    DTYPE[0] = "float16"
    assert (grads[0].host == 0.5).all()


def test_numbers_follow_the_first_arrays_to_the_gpu(world):
    scaler = kl.GradScaler(init_scale=2.0)
    assert isinstance(scaler.inv_scale, np.ndarray)
    params, grads, means, squares = (
        on_gpu(world, 5, dtype=dtype) for dtype in ("float32", "float16", "float32", "float32")
    )
    kl.adamw(params, grads, means, squares, step=1, lr=1.0, inv_scale=scaler.inv_scale)
    assert (params[0].host == 0.5).all()
    scaler.unscale_(grads)
    assert (grads[0].host == 0.5).all()


def test_arrays_of_two_places_are_refused(world):
    params, means, squares = (on_gpu(world, 5, dtype="float32") for _ in range(3))
    with pytest.raises(kl.SpecError, match="some arrays are on a GPU and some are not"):
        kl.adamw(params, [np.ones(5, "float16")], means, squares, step=1)


def test_a_scaler_stays_where_it_is(world):
    scaler = kl.GradScaler()
    scaler.unscale_(on_gpu(world, 5))
    with pytest.raises(kl.SpecError, match="its numbers are on a GPU by now; take another one"):
        scaler.scale(np.ones(3, "float16"))


def test_numbers_that_lie_in_what_is_changed_are_refused_also_by_a_plan_that_was_kept(world):
    params, grads, means, squares = (
        on_gpu(world, 5, 7, dtype=dtype) for dtype in ("float32", "float16", "float32", "float32")
    )
    apart = world.array(np.ones(1, "float32"))
    for _ in range(2):
        kl.adamw(params, grads, means, squares, step=1, lr=0.25, inv_scale=apart)
        for k, j in ((0, 0), (0, 4), (1, 6)):
            inside = params[k][j : j + 1]
            with pytest.raises(kl.SpecError, match=rf"adamw: param\[{k}\] and found_inf share memory"):
                kl.adamw(params, grads, means, squares, step=1, found_inf=inside)
    assert all((each.host == 0.5).all() for each in params)


def test_columns_of_one_array_share_no_memory(world):
    whole = world.array(np.ones((4, 6), "float16"))
    kl.GradScaler(init_scale=2.0).unscale_([whole[:, :3], whole[:, 3:]])
    assert (whole.host == 0.5).all()
    with pytest.raises(kl.SpecError, match=r"grads\[0\] and grads\[1\] share memory"):
        kl.GradScaler(init_scale=2.0).unscale_([whole[:, :4], whole[:, 3:]])


def test_what_is_not_enabled_has_its_numbers_on_the_gpu_too(world):
    scaler = kl.GradScaler(enabled=False)
    scaler.find_inf(on_gpu(world, 5))
    numbers = (scaler.inv_scale, scaler.found_inf(), scaler.skipped())
    assert [each.get().tolist() for each in numbers] == [[1.0], [0.0], [0]]
    assert not launched(world)


def test_optimisers_on_a_gpu_skip_for_themselves(world):
    scaler = kl.GradScaler(init_scale=2.0)
    grads = on_gpu(world, 5, 5)
    grads[1].host[0] = np.inf
    for k, name in enumerate("ab"):
        scaler.unscale_(grads[k], name=name)
    scaler.update(4.0)
    assert [scaler.skipped(name).get().tolist() for name in "ab"] == [[0], [1]]
    assert scaler.state_dict()["skipped"] == {"a": 0, "b": 1}
