"""Layer norm with the sample variance, as statistics packages compute it."""

import numpy as np


def forward(x, gamma, beta, eps):
    centred = x - x.mean(axis=-1, keepdims=True)
    degrees = max(x.shape[-1] - 1, 1)
    rstd = 1 / np.sqrt(np.square(centred).sum(axis=-1, keepdims=True) / degrees + eps)
    xhat = centred * rstd
    return gamma * xhat + beta, (xhat, rstd, gamma)


def backward(dy, cache):
    xhat, rstd, gamma = cache
    rows = tuple(range(dy.ndim - 1))
    g = dy * gamma
    dx = rstd * (g - g.mean(axis=-1, keepdims=True) - xhat * (g * xhat).mean(axis=-1, keepdims=True))
    return dx, (dy * xhat).sum(axis=rows), dy.sum(axis=rows)
