"""Layer norm whose dx is written in the centred input and the variance, with eps as a correction factor."""

import numpy as np


def forward(x, gamma, beta, eps):
    centred = x - x.mean(axis=-1, keepdims=True)
    rstd = 1 / np.sqrt(np.square(centred).mean(axis=-1, keepdims=True) + eps)
    xhat = centred * rstd
    return gamma * xhat + beta, (xhat, rstd, gamma, eps)


def backward(dy, cache):
    xhat, rstd, gamma, eps = cache
    rows = tuple(range(dy.ndim - 1))
    g = dy * gamma
    centred = xhat / rstd
    variance = np.square(centred).mean(axis=-1, keepdims=True)
    slope = (g * centred).mean(axis=-1, keepdims=True) / variance
    dx = rstd * (g - g.mean(axis=-1, keepdims=True) - centred * slope * (variance / (variance + eps)))
    return dx, (dy * xhat).sum(axis=rows), dy.sum(axis=rows)
