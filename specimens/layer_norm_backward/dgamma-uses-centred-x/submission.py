"""Layer norm that keeps the centred input, and takes dgamma from it as it is."""

import numpy as np


def forward(x, gamma, beta, eps):
    centred = x - x.mean(axis=-1, keepdims=True)
    rstd = 1 / np.sqrt(np.square(centred).mean(axis=-1, keepdims=True) + eps)
    xhat = centred * rstd
    return gamma * xhat + beta, (centred, rstd, gamma)


def backward(dy, cache):
    centred, rstd, gamma = cache
    xhat = centred * rstd
    rows = tuple(range(dy.ndim - 1))
    g = dy * gamma
    dx = rstd * (g - g.mean(axis=-1, keepdims=True) - xhat * (g * xhat).mean(axis=-1, keepdims=True))
    return dx, (dy * centred).sum(axis=rows), dy.sum(axis=rows)
