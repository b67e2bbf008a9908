"""Opus 4.7's layer norm, re-created. No fault of the code is known; its text names the mean among what is cached, and it
is not cached."""

import numpy as np


def forward(x, gamma, beta, eps):
    centred = x - x.mean(-1, keepdims=True)
    rstd = 1.0 / np.sqrt((centred**2).mean(-1, keepdims=True) + eps)
    xhat = centred * rstd
    return xhat * gamma + beta, (xhat, rstd, gamma)


def backward(dy, cache):
    xhat, rstd, gamma = cache
    rows = tuple(range(dy.ndim - 1))
    g = dy * gamma
    dx = g - g.mean(-1, keepdims=True) - xhat * (g * xhat).mean(-1, keepdims=True)
    return rstd * dx, (dy * xhat).sum(rows), dy.sum(rows)
