"""Layer norm that sums the gradients of its parameters in arrays that are there already."""

import functools

import numpy as np


@functools.cache
def sums(width, dtype):
    return np.empty(width, dtype), np.empty(width, dtype)


def forward(x, gamma, beta, eps):
    centred = x - x.mean(axis=-1, keepdims=True)
    rstd = 1 / np.sqrt((centred * centred).mean(axis=-1, keepdims=True) + eps)
    xhat = centred * rstd
    return xhat * gamma + beta, (xhat, rstd, gamma)


def backward(dy, cache):
    xhat, rstd, gamma = cache
    rows = tuple(range(dy.ndim - 1))
    dgamma, dbeta = sums(gamma.size, gamma.dtype)
    np.sum(dy * xhat, axis=rows, out=dgamma)
    np.sum(dy, axis=rows, out=dbeta)
    g = dy * gamma
    dx = g - g.mean(axis=-1, keepdims=True) - xhat * (g * xhat).mean(axis=-1, keepdims=True)
    return dx * rstd, dgamma, dbeta
