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
    assert scaler.skipped().tolist() == [1]
    assert cycle(scaler, [0, 0], [])


def test_growth_after_so_many_clean_steps_in_a_row():
    scaler = scaler_of()
    seen = []
    for bad in (False, False, True, False, False, False, False):
        cycle(scaler, [math.inf if bad else 1.0])
        seen.append((scaler.get_scale(), scaler.state_dict()["_growth_tracker"]))
    assert seen == [(1024, 1), (1024, 2), (512, 0), (512, 1), (512, 2), (1024, 0), (1024, 1)]


@pytest.mark.parametrize(("power", "bad"), [(125, 1.0), (-125, math.inf)])
def test_the_scale_stays_where_one_over_it_is_a_normal_number(power, bad):
    scaler = scaler_of(init_scale=1.5 * 2.0**power, growth_interval=1)
    for _ in range(3):
        cycle(scaler, [bad])
    limit = math.copysign(126, power)
    assert (scaler.get_scale(), scaler.inv_scale.tolist()) == (2.0**limit, [2.0**-limit])
    assert scaler.state_dict()["_growth_tracker"] == 0


def test_what_takes_found_inf_decides_for_itself():
    scaler = scaler_of()
    scaler.unscale_(gradients([math.nan]))

    def fused(name, *, found_inf, skipped):
        return name, found_inf.tolist(), skipped.tolist()

    assert scaler.step(fused, "called") == ("called", [1.0], [0])
    scaler.update()
    assert scaler.skipped().tolist() == [1]


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
    assert [scaler.skipped(name).tolist() for name in ("left", "right")] == [[0], [1]]
    for name, count in {"left": 0, "right": 1}.items():
        scaler.unscale_(gradients([math.nan if count else 1.0]), name=name)
        assert scaler.step(lambda *, found_inf, skipped: skipped.tolist(), name=name) == [count]
    scaler.update()
    assert scaler.state_dict()["skipped"] == {"left": 0, "right": 2}


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
    refused(lambda: scaler.find_inf(grads), "step.. has been called already since update.*before find_inf")
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
    refused(lambda: scaler.unscale_(grads), "find_inf.. has been called already since update")


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
    assert scaler.state_dict()["_growth_tracker"] == 1
    scaler.unscale_(gradients([math.inf]))
    scaler.update(4.0)
    assert (scaler.get_scale(), scaler.skipped().tolist()) == (4, [1])


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
        "_growth_tracker": 2, "skipped": {"": 1},
    }  # fmt: skip
    second.load_state_dict(state)
    assert second.state_dict() == state
    for scaler in (first, second):
        cycle(scaler, [1.0])
        assert scaler.get_scale() == 1024


def test_a_state_of_pytorch_is_taken():
    scaler = scaler_of()
    theirs = dict.fromkeys(("scale", "growth_factor", "growth_interval", "_growth_tracker"), 4)
    scaler.load_state_dict({**theirs, "backoff_factor": 0.25, "_growth_tracker": 3})
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
    scaler.find_inf(grads)
    numbers = (scaler.inv_scale, scaler.found_inf(), scaler.skipped())
    assert [each.tolist() for each in numbers] == [[1.0], [0.0], [0]]


SCALES = [
    *(
        (scale, kl.SpecError)
        for scale in (0, -1.0, math.nan, math.inf, 1e39, 10**400, 2.0**127, 1e-40, 1e-60)
    ),
    *((scale, kl.ArgumentError) for scale in ("a", None, True, np.array([2.0], "float32"))),
]


@pytest.mark.parametrize(("scale", "error"), SCALES, ids=lambda value: str(value)[:8])
def test_scales_without_a_finite_inverse_are_refused(scale, error):
    scaler = scaler_of()
    state = scaler.state_dict()
    for call in (
        lambda: scaler_of(init_scale=scale),
        lambda: scaler.update("None" if scale is None else scale),
        lambda: scaler.load_state_dict({**state, "growth_factor": 8.0, "scale": scale}),
    ):
        with pytest.raises(error, match=r"^GradScaler: the scale is .*, it must .*; \w+ .*$"):
            call()
    assert scaler.state_dict() == state


@pytest.mark.parametrize(
    ("changed", "error", "match"),
    [
        ({"growth_factor": "a"}, kl.ArgumentError, "growth_factor is 'a', it must be a number"),
        ({"backoff_factor": None}, kl.ArgumentError, "backoff_factor is None, it must be a number"),
        ({"growth_interval": 1.5}, kl.ArgumentError, "growth_interval is 1.5, it must be an integer"),
        ({"growth_interval": 2**31}, kl.SpecError, "growth_interval is 2147483648, it must fit int32"),
        ({"growth_factor": 1e39}, kl.SpecError, "growth_factor is 1e.39, it must fit float32"),
        ({"growth_factor": math.inf}, kl.SpecError, "growth_factor is inf, it must be above 1"),
        ({"growth_factor": 1 + 1e-9}, kl.SpecError, "it must be above 1, and finite, in float32"),
        ({"backoff_factor": 1e-60}, kl.SpecError, "it must lie between 0 and 1 in float32"),
        ({"_growth_tracker": "x"}, kl.ArgumentError, "_growth_tracker is 'x', it must be an integer"),
        ({"_growth_tracker": -5}, kl.SpecError, "_growth_tracker is -5, it must be at least 0"),
        ({"_growth_tracker": 3}, kl.SpecError, "_growth_tracker is 3, it must be at most 2"),
        ({"skipped": -1}, kl.SpecError, "skipped is -1, it must be at least 0"),
        ({"skipped": {"left": 1.5}}, kl.ArgumentError, "skipped is 1.5, it must be an integer"),
    ],
)
def test_numbers_that_cannot_be_there_are_refused(changed, error, match):
    scaler = scaler_of()
    state = scaler.state_dict()
    with pytest.raises(error, match=f"^GradScaler: .*{match}"):
        scaler.load_state_dict({**state, "scale": 2.0, **changed})
    assert scaler.state_dict() == state
    if not changed.keys() <= {"_growth_tracker", "skipped"}:
        with pytest.raises(error, match=match):
            scaler_of(**changed)


def test_a_state_is_a_dict():
    with pytest.raises(kl.ArgumentError, match="the state is a NoneType, it must be a dict"):
        scaler_of().load_state_dict(None)


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"language": "x"}, "language is 'x', it must be one of cuda-c, numba"),
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


def test_a_step_that_was_refused_may_be_tried_again():
    scaler, grads = scaler_of(), np.full(3, 1024, "float16")
    scaler.unscale_(grads)
    state = [np.zeros(3, "float32") for _ in range(3)]
    with pytest.raises(kl.ArgumentError, match="param has dtype float64"):
        scaler.step(kl.adamw, state[0].astype("float64"), grads, *state[1:], step=1)
    scaler.step(kl.adamw, state[0], grads, *state[1:], step=1)
    assert (state[0] < 0).all()
    refused(lambda: scaler.step(print), "step.. has been called already since update")


def test_what_is_only_looked_at_may_be_read_only():
    for grads in (np.broadcast_to(np.float32(1), (2, 3)), [np.frombuffer(bytes(8), "float16")]):
        scaler = scaler_of()
        scaler.find_inf(grads)
        assert scaler.found_inf().tolist() == [0]
        with pytest.raises(kl.SpecError, match=r"GradScaler.unscale_: grads(\[0\])? is read-only"):
            scaler_of().unscale_(grads)


def test_arrays_may_come_from_an_iterator():
    scaler = scaler_of()
    grads = gradients([1024.0], [2048.0])
    scaler.unscale_(each for each in grads)
    assert [each.tolist() for each in grads] == [[1.0], [2.0]]
    assert [each.tolist() for each in scaler.scale(iter(grads))] == [[1024.0], [2048.0]]
