"""Layer norm whose results are laid out in every way but the usual one.

y is every second element of a larger array, backwards; dx is in Fortran order; dgamma is a column of a matrix;
dbeta has a negative stride.
"""

import numpy as np


def forward(x, gamma, beta, eps):
    centred = x - x.mean(axis=-1, keepdims=True)
    rstd = 1 / np.sqrt(np.square(centred).mean(axis=-1, keepdims=True) + eps)
    xhat = np.asfortranarray(centred * rstd)
    larger = np.full((*x.shape[:-1], 2 * x.shape[-1]), np.nan, dtype=x.dtype)
    y = larger[..., ::-2]
    y[...] = gamma * xhat + beta
    return y, (xhat, rstd, gamma)


def backward(dy, cache):
    xhat, rstd, gamma = cache
    rows = tuple(range(dy.ndim - 1))
    g = dy * gamma
    dx = rstd * (g - g.mean(axis=-1, keepdims=True) - xhat * (g * xhat).mean(axis=-1, keepdims=True))
    table = np.full((dy.shape[-1], 3), np.nan, dtype=gamma.dtype)
    table[:, 1] = (dy * xhat).sum(axis=rows)
    reversed_dbeta = dy.sum(axis=rows)[::-1].copy()
    return np.asfortranarray(dx), table[:, 1], reversed_dbeta[::-1]
