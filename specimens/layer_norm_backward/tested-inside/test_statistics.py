"""Tests a function that the contract does not know."""

import numpy as np

from submission import statistics


def test_statistics():
    x = np.random.default_rng(0).standard_normal((4, 6))
    mean, rstd = statistics(x, 1e-5)
    assert np.allclose(mean[:, 0], x.mean(axis=1))
    assert np.allclose(rstd[:, 0], 1 / np.sqrt(x.var(axis=1) + 1e-5))
