"""Layer norm whose cache takes half the memory."""

import numpy as np


def forward(x, gamma, beta, eps):
    centred = x - x.mean(axis=-1, keepdims=True)
    rstd = 1 / np.sqrt(np.square(centred).mean(axis=-1, keepdims=True) + eps)
    xhat = centred * rstd
    return gamma * xhat + beta, (xhat.astype(np.float16), rstd, gamma)


def backward(dy, cache):
    half, rstd, gamma = cache
    xhat = half.astype(dy.dtype)
    rows = tuple(range(dy.ndim - 1))
    g = dy * gamma
    dx = rstd * (g - g.mean(axis=-1, keepdims=True) - xhat * (g * xhat).mean(axis=-1, keepdims=True))
    return dx, (dy * xhat).sum(axis=rows), dy.sum(axis=rows)
