"""Layer norm whose sums are left to matrix products and einsum."""

import numpy as np


def forward(x, gamma, beta, eps):
    cols = x.shape[-1]
    flat = x.reshape(-1, cols)
    weights = np.full(cols, 1 / cols, x.dtype)
    centred = flat - (flat @ weights)[:, None]
    centred -= (centred @ weights)[:, None]
    variance = np.einsum("rc,rc->r", centred, centred) / x.dtype.type(cols)
    rstd = 1 / np.sqrt(variance + eps)
    xhat = centred * rstd[:, None]
    return (xhat * gamma + beta).reshape(x.shape), (xhat, rstd, gamma)


def backward(dy, cache):
    xhat, rstd, gamma = cache
    rows, cols = xhat.shape
    flat = dy.reshape(rows, cols)
    g = flat * gamma
    mean_g = (g @ np.ones(cols, dy.dtype)) / dy.dtype.type(cols)
    mean_g_xhat = np.einsum("rc,rc->r", g, xhat) / dy.dtype.type(cols)
    dx = rstd[:, None] * (g - mean_g[:, None] - xhat * mean_g_xhat[:, None])
    dgamma = np.einsum("rc,rc->c", flat, xhat)
    return dx.reshape(dy.shape), dgamma, np.ones(rows, dy.dtype) @ flat
