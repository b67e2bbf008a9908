"""Layer norm in plain numpy, with tests that look at shapes."""

import numpy as np


def forward(x, gamma, beta, eps):
    centred = x - x.mean(axis=-1, keepdims=True)
    rstd = 1 / np.sqrt(np.square(centred).mean(axis=-1, keepdims=True) + eps)
    xhat = centred * rstd
    return gamma * xhat + beta, (xhat, rstd, gamma)


def backward(dy, cache):
    xhat, rstd, gamma = cache
    rows = tuple(range(dy.ndim - 1))
    g = dy * gamma
    mean_g = g.mean(axis=-1, keepdims=True)
    mean_g_xhat = (g * xhat).mean(axis=-1, keepdims=True)
    dx = rstd * (g - mean_g - xhat * mean_g_xhat)
    return dx, (dy * xhat).sum(axis=rows), dy.sum(axis=rows)
