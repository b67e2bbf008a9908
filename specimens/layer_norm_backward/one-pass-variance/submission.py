"""Layer norm that reads each row once: mean and mean of squares, and their difference."""

import numpy as np


def forward(x, gamma, beta, eps):
    mean = x.mean(axis=-1, keepdims=True)
    variance = np.maximum(np.square(x).mean(axis=-1, keepdims=True) - np.square(mean), 0)
    rstd = 1 / np.sqrt(variance + eps)
    xhat = (x - mean) * rstd
    return gamma * xhat + beta, (xhat, rstd, gamma)


def backward(dy, cache):
    xhat, rstd, gamma = cache
    rows = tuple(range(dy.ndim - 1))
    g = dy * gamma
    dx = rstd * (g - g.mean(axis=-1, keepdims=True) - xhat * (g * xhat).mean(axis=-1, keepdims=True))
    return dx, (dy * xhat).sum(axis=rows), dy.sum(axis=rows)
