"""Layer norm whose cache is every name that forward ever used."""

import numpy as np


def forward(x, gamma, beta, eps):
    x = x.copy()
    mean = np.broadcast_to(x.mean(axis=-1, keepdims=True), x.shape).copy()
    centred = x - mean
    squared = np.square(centred)
    variance = np.broadcast_to(squared.mean(axis=-1, keepdims=True), x.shape).copy()
    rstd = 1 / np.sqrt(variance + eps)
    xhat = centred * rstd
    scaled = gamma * xhat
    y = scaled + beta
    return y, dict(locals())


def backward(dy, cache):
    xhat, rstd = cache["xhat"], cache["rstd"]
    rows = tuple(range(dy.ndim - 1))
    g = dy * cache["gamma"]
    dx = rstd * (g - g.mean(axis=-1, keepdims=True) - xhat * (g * xhat).mean(axis=-1, keepdims=True))
    return dx, (dy * xhat).sum(axis=rows), dy.sum(axis=rows)
