"""Layer norm one row at a time, with compensated sums."""

import numpy as np


def mean_of(row):
    # Neumaier's sum: what an addition rounds off is added up beside.
    total = lost = 0.0
    for value in row.tolist():
        added = total + value
        lost += total - added + value if abs(total) >= abs(value) else value - added + total
        total = added
    return (total + lost) / len(row)


def forward(x, gamma, beta, eps):
    xhat, y = np.empty_like(x), np.empty_like(x)
    rstd = np.empty(x.shape[:-1], np.float64)
    for row in np.ndindex(*x.shape[:-1]):
        centred = x[row].astype(np.float64)
        centred -= mean_of(centred)
        rstd[row] = 1 / np.sqrt(mean_of(centred * centred) + eps)
        xhat[row] = centred * rstd[row]
        y[row] = gamma * xhat[row] + beta
    return y, (xhat, rstd, gamma)


def backward(dy, cache):
    xhat, rstd, gamma = cache
    dx = np.empty_like(dy)
    dgamma, dbeta = np.zeros(gamma.shape, np.float64), np.zeros(gamma.shape, np.float64)
    for row in np.ndindex(*dy.shape[:-1]):
        g = (dy[row] * gamma).astype(np.float64)
        dx[row] = rstd[row] * (g - mean_of(g) - xhat[row] * mean_of(g * xhat[row]))
        dgamma += dy[row] * xhat[row]
        dbeta += dy[row]
    return dx, dgamma.astype(gamma.dtype), dbeta.astype(gamma.dtype)
