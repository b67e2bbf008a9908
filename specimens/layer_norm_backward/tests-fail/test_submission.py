"""Expects dgamma of the mean, which the contract does not ask for."""

import unittest

import numpy as np

from submission import backward, forward


class Gradients(unittest.TestCase):
    def test_dgamma(self):
        x = np.random.default_rng(0).standard_normal((4, 8))
        y, cache = forward(x, np.ones(8), np.zeros(8), 1e-5)
        dgamma = backward(np.ones_like(y), cache)[1]
        np.testing.assert_allclose(dgamma, y.mean(axis=0))
