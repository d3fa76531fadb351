"""Gradients on a GPU: the same bits in every run, labels that are no class, and the training run of mixed-precision."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import kernellab as kl
from kernellab.experiments import mixed_precision
from kernellab.experiments.training import train

LANGUAGES = ("cuda-c", "numba")
each_language = pytest.mark.parametrize("language", LANGUAGES)


@each_language
@pytest.mark.parametrize("columns", [64, 8192])
def test_fifty_sums_of_columns(cupy, language, columns):
    x = cupy.random.default_rng(1).standard_normal((2**24 // columns, columns), dtype=np.float32)
    options = {"device": "gpu", "language": language}
    first = kl.sum(x, axis=0, **options).get()
    bound = 64 * np.finfo(np.float32).eps * float(cupy.abs(x).sum(axis=0).max())
    assert np.abs(first - x.astype(np.float64).sum(axis=0).get()).max() <= bound
    for _ in range(49):
        assert kl.sum(x, axis=0, **options).get().tobytes() == first.tobytes()


@each_language
def test_a_label_that_is_no_class_gives_nan_and_harms_nobody(cupy, language):
    x = cupy.zeros((4, 8), np.float16)
    labels = cupy.array([0, 8, -1, 2**40])
    loss, dx = kl.softmax_cross_entropy(x, labels, device="gpu", language=language)
    assert np.isnan(loss.get()).tolist() == [False, True, True, True]
    assert (dx.get()[1:] == 0.125).all()


def test_training_in_mixed_precision(device):
    plan = mixed_precision.PLANS["gpu"]
    task = dataclasses.replace(plan.task, rows=2048, hidden=256)
    runs = {label: train(task, recipe, device) for label, recipe in plan.recipes.items()}
    for check in (
        mixed_precision.converges,
        mixed_precision.scaling_keeps,
        mixed_precision.skips,
        mixed_precision.backs_off,
        mixed_precision.saves_activations,
    ):
        holds, found = check(runs)
        assert holds, found
