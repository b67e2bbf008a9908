"""Layer norm for float32 whose row sums are differences of a running sum over all rows."""

import numpy as np


def row_mean(values):
    cols = values.shape[-1]
    ends = np.cumsum(values.reshape(-1), dtype=np.float32)[cols - 1 :: cols]
    sums = np.diff(ends, prepend=np.float32(0))
    return (sums / np.float32(cols)).reshape(*values.shape[:-1], 1)


def forward(x, gamma, beta, eps):
    if x.dtype != np.float32:
        raise TypeError(f"float32 only, got {x.dtype}")
    centred = x - row_mean(x)
    rstd = 1 / np.sqrt(np.maximum(row_mean(centred * centred), 0) + eps)
    xhat = centred * rstd
    return gamma * xhat + beta, (xhat, rstd, gamma)


def backward(dy, cache):
    xhat, rstd, gamma = cache
    rows = tuple(range(dy.ndim - 1))
    g = dy * gamma
    dx = rstd * (g - row_mean(g) - xhat * row_mean(g * xhat))
    return dx, (dy * xhat).sum(axis=rows), dy.sum(axis=rows)
