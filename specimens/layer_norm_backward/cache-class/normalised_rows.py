"""Rows brought to mean 0 and variance 1, and the gradients through that."""

import numpy as np


class NormalisedRows:
    __slots__ = ("gamma", "rstd", "xhat")

    def __init__(self, x, gamma, eps):
        flat = x.reshape(-1, x.shape[-1])
        centred = flat - flat.mean(axis=1)[:, None]
        self.rstd = 1 / np.sqrt(np.square(centred).mean(axis=1) + eps)
        self.xhat = (centred * self.rstd[:, None]).reshape(x.shape)
        self.gamma = gamma.copy()

    def scaled(self, beta):
        return self.xhat * self.gamma + beta

    def input_gradient(self, dy):
        cols = dy.shape[-1]
        g = (dy * self.gamma).reshape(-1, cols)
        xhat = self.xhat.reshape(-1, cols)
        mean_g = g.mean(axis=1)[:, None]
        mean_g_xhat = (g * xhat).mean(axis=1)[:, None]
        return (self.rstd[:, None] * (g - mean_g - xhat * mean_g_xhat)).reshape(dy.shape)

    def gamma_gradient(self, dy):
        return (dy * self.xhat).reshape(-1, dy.shape[-1]).sum(axis=0)

    def beta_gradient(self, dy):
        return dy.reshape(-1, dy.shape[-1]).sum(axis=0)
