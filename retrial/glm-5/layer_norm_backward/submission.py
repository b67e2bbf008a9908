"""GLM-5's layer norm, re-created: the compact formula, and a cache of xhat, rstd and gamma. No fault of the code is known;
what was missing are tests."""

import numpy as np


def forward(x, gamma, beta, eps):
    diff = x - np.mean(x, axis=-1, keepdims=True)
    rstd = 1.0 / np.sqrt(np.mean(diff * diff, axis=-1, keepdims=True) + eps)
    xhat = diff * rstd
    return gamma * xhat + beta, (xhat, rstd, gamma)


def backward(dy, cache):
    xhat, rstd, gamma = cache
    over_rows = tuple(range(dy.ndim - 1))
    dgamma = np.sum(dy * xhat, axis=over_rows)
    dbeta = np.sum(dy, axis=over_rows)
    g = gamma * dy
    along_xhat = np.mean(g * xhat, axis=-1, keepdims=True)
    dx = rstd * (g - np.mean(g, axis=-1, keepdims=True) - xhat * along_xhat)
    return dx, dgamma, dbeta
