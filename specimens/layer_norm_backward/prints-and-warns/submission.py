"""Layer norm that talks: a line on stdout for every call, and a warning on stderr at import."""

import warnings

import numpy as np

warnings.warn("layer norm is loaded")


def forward(x, gamma, beta, eps):
    print("forward", x.shape, "PASS", flush=True)
    centred = x - x.mean(axis=-1, keepdims=True)
    rstd = 1 / np.sqrt(np.square(centred).mean(axis=-1, keepdims=True) + eps)
    xhat = centred * rstd
    return gamma * xhat + beta, (xhat, rstd, gamma)


def backward(dy, cache):
    print("backward", dy.shape)
    xhat, rstd, gamma = cache
    rows = tuple(range(dy.ndim - 1))
    g = dy * gamma
    dx = rstd * (g - g.mean(axis=-1, keepdims=True) - xhat * (g * xhat).mean(axis=-1, keepdims=True))
    return dx, (dy * xhat).sum(axis=rows), dy.sum(axis=rows)
