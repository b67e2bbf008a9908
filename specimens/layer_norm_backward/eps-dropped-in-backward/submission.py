"""Layer norm whose backward recomputes rstd from the centred row it kept."""

import numpy as np


def forward(x, gamma, beta, eps):
    centred = x - x.mean(axis=-1, keepdims=True)
    rstd = 1 / np.sqrt(np.square(centred).mean(axis=-1, keepdims=True) + eps)
    xhat = centred * rstd
    return gamma * xhat + beta, (centred, gamma)


def backward(dy, cache):
    centred, gamma = cache
    variance = np.square(centred).mean(axis=-1, keepdims=True)
    rstd = 1 / np.sqrt(np.where(variance > 0, variance, 1))
    xhat = centred * rstd
    rows = tuple(range(dy.ndim - 1))
    g = dy * gamma
    dx = rstd * (g - g.mean(axis=-1, keepdims=True) - xhat * (g * xhat).mean(axis=-1, keepdims=True))
    return dx, (dy * xhat).sum(axis=rows), dy.sum(axis=rows)
