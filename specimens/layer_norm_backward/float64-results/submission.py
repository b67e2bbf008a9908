"""Layer norm that widens its inputs and never comes back."""

import numpy as np


def forward(x, gamma, beta, eps):
    x = x.astype(np.float64)
    centred = x - x.mean(axis=-1, keepdims=True)
    rstd = 1 / np.sqrt(np.square(centred).mean(axis=-1, keepdims=True) + eps)
    xhat = centred * rstd
    return gamma * xhat + beta, (xhat, rstd, gamma)


def backward(dy, cache):
    xhat, rstd, gamma = cache
    rows = tuple(range(dy.ndim - 1))
    g = dy * gamma
    dx = rstd * (g - g.mean(axis=-1, keepdims=True) - xhat * (g * xhat).mean(axis=-1, keepdims=True))
    return dx, (dy * xhat).sum(axis=rows), dy.sum(axis=rows)
