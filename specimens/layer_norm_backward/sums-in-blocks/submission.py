"""Layer norm whose sums are taken block by block, along rows and down columns alike."""

import numpy as np

BLOCK = 96


def block_sum(values, axis):
    starts = np.arange(0, values.shape[axis], BLOCK)
    return np.add.reduceat(values, starts, axis=axis).sum(axis=axis, keepdims=True)


def row_mean(values):
    return block_sum(values, -1) / values.dtype.type(values.shape[-1])


def column_sum(values):
    return block_sum(values.reshape(-1, values.shape[-1]), 0)[0]


def forward(x, gamma, beta, eps):
    centred = x - row_mean(x)
    rstd = 1 / np.sqrt(row_mean(centred * centred) + eps)
    xhat = centred * rstd
    return gamma * xhat + beta, (xhat, rstd, gamma)


def backward(dy, cache):
    xhat, rstd, gamma = cache
    g = dy * gamma
    dx = rstd * (g - row_mean(g) - xhat * row_mean(g * xhat))
    return dx, column_sum(dy * xhat), column_sum(dy)
