"""Layer norm whose backward goes through mean and variance, as it stands on paper."""

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
    cols = dy.shape[-1]
    centred = xhat / rstd
    dvar = -(g * centred).sum(axis=-1, keepdims=True) * rstd**3
    dmean = -(g * rstd).sum(axis=-1, keepdims=True)
    dx = g * rstd + dvar * 2 * centred / cols + dmean / cols
    return dx, (dy * xhat).sum(axis=rows), dy.sum(axis=rows)
