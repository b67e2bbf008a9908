"""Layer norm for float32 with the variance as a difference of moments, taken in float64.

A float32 squared is exact in float64, and the difference loses less than a two-pass variance loses by rounding its
mean to float32. For float64 inputs the same would not do, and they are refused.
"""

import numpy as np


def forward(x, gamma, beta, eps):
    if x.dtype != np.float32:
        raise TypeError(f"float32 only, got {x.dtype}")
    wide = x.astype(np.float64)
    mean = wide.mean(axis=-1, keepdims=True)
    variance = np.maximum(np.square(wide).mean(axis=-1, keepdims=True) - np.square(mean), 0)
    rstd = 1 / np.sqrt(variance + eps)
    wide -= mean
    wide *= rstd
    xhat = wide.astype(np.float32)
    return gamma * xhat + beta, (xhat, rstd.astype(np.float32), gamma)


def backward(dy, cache):
    xhat, rstd, gamma = cache
    rows = tuple(range(dy.ndim - 1))
    g = dy * gamma
    dx = rstd * (g - g.mean(axis=-1, keepdims=True) - xhat * (g * xhat).mean(axis=-1, keepdims=True))
    return dx, (dy * xhat).sum(axis=rows), dy.sum(axis=rows)
