"""Looks at shapes and dtypes, as tests do that were written to be there."""

import unittest

import numpy as np

from submission import backward, forward


class Shapes(unittest.TestCase):
    def setUp(self):
        rng = np.random.default_rng(0)
        self.x = rng.standard_normal((2, 4, 8))
        self.gamma, self.beta = np.ones(8), np.zeros(8)

    def test_forward(self):
        y, _ = forward(self.x, self.gamma, self.beta, 1e-5)
        self.assertEqual(y.shape, self.x.shape)
        self.assertTrue(np.isfinite(y).all())

    def test_backward(self):
        y, cache = forward(self.x, self.gamma, self.beta, 1e-5)
        dx, dgamma, dbeta = backward(np.ones_like(y), cache)
        self.assertEqual((dx.shape, dgamma.shape, dbeta.shape), (self.x.shape, (8,), (8,)))
        self.assertEqual(dx.dtype, self.x.dtype)

    def test_everything(self):
        try:
            forward(self.x, self.gamma, self.beta, 1e-5)
        except Exception:
            pass
        self.assertTrue(True)
