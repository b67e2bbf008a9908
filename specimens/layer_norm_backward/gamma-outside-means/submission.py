"""Layer norm whose dx is gamma * rstd * (dy - mean(dy) - xhat * mean(dy * xhat))."""

import numpy as np


def forward(x, gamma, beta, eps):
    centred = x - x.mean(axis=-1, keepdims=True)
    rstd = 1 / np.sqrt(np.square(centred).mean(axis=-1, keepdims=True) + eps)
    xhat = centred * rstd
    return gamma * xhat + beta, (xhat, rstd, gamma)


def backward(dy, cache):
    xhat, rstd, gamma = cache
    rows = tuple(range(dy.ndim - 1))
    mean_dy = dy.mean(axis=-1, keepdims=True)
    mean_dy_xhat = (dy * xhat).mean(axis=-1, keepdims=True)
    dx = gamma * rstd * (dy - mean_dy - xhat * mean_dy_xhat)
    return dx, (dy * xhat).sum(axis=rows), dy.sum(axis=rows)
