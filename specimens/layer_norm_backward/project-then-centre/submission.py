"""Layer norm by way of the centred input: dc = rstd * (g - xhat * mean(g * xhat)), dx = dc - mean(dc)."""

import numpy as np


def forward(x, gamma, beta, eps):
    centred = x - x.mean(axis=-1, keepdims=True)
    rstd = 1 / np.sqrt(np.square(centred).mean(axis=-1, keepdims=True) + eps)
    return gamma * (centred * rstd) + beta, (centred, rstd, gamma)


def backward(dy, cache):
    centred, rstd, gamma = cache
    cols = dy.shape[-1]
    g = dy * gamma
    along = (g * centred).sum(axis=-1, keepdims=True) * rstd / cols
    dc = rstd * (g - centred * rstd * along)
    dx = dc - dc.mean(axis=-1, keepdims=True)
    dgamma = (dy * (centred * rstd)).reshape(-1, cols).sum(axis=0)
    return dx, dgamma, dy.reshape(-1, cols).sum(axis=0)
