"""GradScaler: PyTorch's cycle of scale, unscale, step and update, on the emulator."""

from __future__ import annotations

import math

import numpy as np
import pytest

import kernellab as kl


def scaler_of(**options):
    return kl.GradScaler(**{"init_scale": 1024.0, "growth_interval": 3, "device": "emulator", **options})


def gradients(*values, dtype="float16"):
    return [np.array(each, dtype) for each in values]


def cycle(scaler, *values):
    """Unscale, step, update; return whether the step was made."""
    made = []
    scaler.unscale_(gradients(*values))
    scaler.step(made.append, True)
    scaler.update()
    return bool(made)


def test_scale_and_back_is_the_same():
    scaler = scaler_of()
    x = np.array([[1, -0.0], [2.0**-20, 3]], "float32")
    scaled = scaler.scale([x, x[:, ::-1].astype("float16")])
    assert [each.dtype for each in scaled] == [np.float32, np.float16]
    assert np.array_equal(scaled[0], x * 1024)
    scaler.unscale_(scaled)
    assert np.array_equal(scaled[0], x)
    assert np.signbit(scaled[0][0, 1])
    assert scaler.found_inf()[0] == 0


def test_numbers_keep_their_type():
    scaler = scaler_of()
    assert scaler.scale(0.5) == 512.0
    scaled = scaler.scale(np.float16(0.5))
    assert (scaled, scaled.dtype) == (512, np.float16)


@pytest.mark.parametrize("bad", [math.inf, -math.inf, math.nan])
def test_a_step_is_skipped_for_what_is_not_finite(bad):
    scaler = scaler_of()
    assert cycle(scaler, [1, 2], [3])
    assert not cycle(scaler, [1, 2], [bad])
    assert scaler.get_scale() == 512
    assert scaler.skipped.tolist() == [1]
    assert cycle(scaler, [0, 0], [])


def test_growth_after_so_many_clean_steps_in_a_row():
    scaler = scaler_of()
    seen = []
    for bad in (False, False, True, False, False, False, False):
        cycle(scaler, [math.inf if bad else 1.0])
        seen.append((scaler.get_scale(), scaler.state_dict()["_growth_tracker"]))
    assert seen == [(1024, 1), (1024, 2), (512, 0), (512, 1), (512, 2), (1024, 0), (1024, 1)]


def test_the_scale_does_not_grow_beyond_float32():
    scaler = scaler_of(init_scale=2.0**127, growth_interval=1)
    assert cycle(scaler, [1.0])
    assert scaler.get_scale() == 2.0**127
    assert scaler.state_dict()["_growth_tracker"] == 0


def test_what_takes_found_inf_decides_for_itself():
    scaler = scaler_of()
    scaler.unscale_(gradients([math.nan]))

    def fused(name, *, found_inf, skipped):
        return name, found_inf.tolist(), skipped.tolist()

    assert scaler.step(fused, "called") == ("called", [1.0], [0])
    scaler.update()
    assert scaler.skipped.tolist() == [1]


def test_step_unscales_where_that_was_not_done():
    scaler = scaler_of()
    grads = gradients([2048.0])
    assert scaler.step(lambda: "done", grads=grads) == "done"
    assert grads[0].tolist() == [2.0]


def test_two_optimisers_share_a_scale():
    scaler = scaler_of()
    scaler.unscale_(gradients([1.0]), name="left")
    scaler.unscale_(gradients([math.inf]), name="right")
    assert scaler.step(lambda: "done", name="left") == "done"
    assert scaler.step(lambda: "done", name="right") is None
    scaler.update()
    assert scaler.get_scale() == 512


def refused(call, match):
    with pytest.raises(kl.ExecutionError, match=match):
        call()


def test_the_order_of_a_cycle():
    scaler, grads = scaler_of(), gradients([1.0])
    refused(scaler.update, "no gradients were looked at since update")
    refused(lambda: scaler.step(print), "step.. needs gradients looked at; call unscale_ or pass grads")
    refused(scaler.found_inf, "nothing was looked at since update")
    scaler.unscale_(grads)
    refused(lambda: scaler.unscale_(grads), "unscale_.. has been called already since update")
    scaler.step(lambda: None)
    refused(lambda: scaler.step(print), "step.. has been called already since update")
    refused(lambda: scaler.unscale_(grads), "step.. comes after unscale_")
    assert grads[0].tolist() == [np.float16(1 / 1024)]
    scaler.update()
    scaler.unscale_(grads)


@pytest.mark.parametrize("bad", [0x3C00, 0x7C00, 0x7C01])  # 1, inf, a signalling NaN
def test_looking_changes_no_bit(bad):
    scaler = scaler_of()
    grads = np.full(1029, bad, "uint16").view("float16")
    scaler.find_inf(grads)
    assert (grads.view("uint16") == bad).all()
    assert scaler.found_inf().tolist() == [float(bad != 0x3C00)]
    refused(lambda: scaler.unscale_(grads), "unscale_.. has been called already since update")


def test_no_gradients_are_all_finite():
    scaler = scaler_of()
    scaler.unscale_([])
    assert scaler.step(lambda: "done") == "done"
    scaler.update()
    assert scaler.get_scale() == 1024


def test_update_to_a_scale():
    scaler = scaler_of()
    cycle(scaler, [1.0])
    scaler.update(8.0)
    assert scaler.get_scale() == 8
    assert scaler.inv_scale.tolist() == [0.125]


@pytest.mark.parametrize("is_used", [False, True])
def test_a_checkpoint_goes_on_where_it_was(is_used):
    first, second = scaler_of(), scaler_of(init_scale=2.0)
    for bad in (True, False, False):
        cycle(first, [math.inf if bad else 1.0])
    if is_used:
        cycle(second, [1.0])
    state = first.state_dict()
    assert state == {
        "scale": 512.0, "growth_factor": 2.0, "backoff_factor": 0.5, "growth_interval": 3,
        "_growth_tracker": 2, "skipped": 1,
    }  # fmt: skip
    second.load_state_dict(state)
    assert second.state_dict() == state
    for scaler in (first, second):
        cycle(scaler, [1.0])
        assert scaler.get_scale() == 1024


def test_a_state_of_pytorch_is_taken():
    scaler = scaler_of()
    theirs = dict.fromkeys(("scale", "growth_factor", "growth_interval", "_growth_tracker"), 4)
    scaler.load_state_dict({**theirs, "backoff_factor": 0.25})
    assert scaler.get_scale() == 4
    with pytest.raises(kl.SpecError, match="the state has no scale, growth_factor"):
        scaler.load_state_dict({})


def test_not_enabled():
    scaler = scaler_of(enabled=False)
    grads = gradients([math.inf])
    assert scaler.scale(3.0) == 3.0
    scaler.unscale_(grads)
    assert scaler.step(lambda: "done") == "done"
    scaler.update()
    assert (scaler.get_scale(), scaler.state_dict(), scaler.is_enabled()) == (1.0, {}, False)


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"init_scale": 0}, "the scale is 0, it must be finite and above 0"),
        ({"init_scale": math.inf}, "the scale is inf"),
        ({"growth_factor": 1.0}, "growth_factor is 1.0, it must be above 1"),
        ({"backoff_factor": 1.0}, "backoff_factor is 1.0, it must lie between 0 and 1"),
        ({"growth_interval": 0}, "growth_interval is 0, it must be at least 1"),
    ],
)
def test_refused(options, match):
    with pytest.raises(kl.SpecError, match=match):
        scaler_of(**options)


def test_integers_are_refused_before_anything_is_changed():
    scaler, grads = scaler_of(), [np.ones(3, "float16"), np.ones(3, "int32")]
    with pytest.raises(
        kl.ArgumentError, match=r"GradScaler.unscale_: grads\[1\] has dtype int32, it must be"
    ):
        scaler.unscale_(grads)
    assert grads[0].tolist() == [1, 1, 1]
    scaler.unscale_(grads[:1])  # nothing was noted
