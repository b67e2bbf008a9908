"""Layer norm whose dx is that of an affine-free layer: gamma does not occur in it."""

import numpy as np


def forward(x, gamma, beta, eps):
    centred = x - x.mean(axis=-1, keepdims=True)
    rstd = 1 / np.sqrt(np.square(centred).mean(axis=-1, keepdims=True) + eps)
    xhat = centred * rstd
    return gamma * xhat + beta, (xhat, rstd)


def backward(dy, cache):
    xhat, rstd = cache
    rows = tuple(range(dy.ndim - 1))
    mean_dy = dy.mean(axis=-1, keepdims=True)
    dx = rstd * (dy - mean_dy - xhat * (dy * xhat).mean(axis=-1, keepdims=True))
    return dx, (dy * xhat).sum(axis=rows), dy.sum(axis=rows)
