"""Layer norm whose dx takes off the components of g along the constant vector and along the centred row."""

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
    length = np.sqrt(np.square(xhat).sum(axis=-1, keepdims=True))
    unit = np.divide(xhat, length, out=np.zeros_like(xhat), where=length > 0)
    g_centred = g - g.mean(axis=-1, keepdims=True)
    dx = rstd * (g_centred - unit * (g * unit).sum(axis=-1, keepdims=True))
    return dx, (dy * xhat).sum(axis=rows), dy.sum(axis=rows)
