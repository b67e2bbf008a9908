"""Layer norm that keeps one scratch array for temporaries. What a call returns never lies in it."""

import numpy as np

scratch = {}


def scratch_like(array):
    """Space of the array's size and dtype; its contents last until the next request."""
    held = scratch.get(array.dtype)
    if held is None or held.size < array.size:
        held = scratch[array.dtype] = np.empty(array.size, array.dtype)
    return held[: array.size].reshape(array.shape)


def forward(x, gamma, beta, eps):
    xhat = x - x.mean(axis=-1, keepdims=True)
    squares = np.multiply(xhat, xhat, out=scratch_like(x))
    rstd = 1 / np.sqrt(squares.mean(axis=-1, keepdims=True) + eps)
    xhat *= rstd
    y = xhat * gamma
    y += beta
    return y, (xhat, rstd, gamma)


def backward(dy, cache):
    xhat, rstd, gamma = cache
    rows = tuple(range(dy.ndim - 1))
    product = np.multiply(dy, xhat, out=scratch_like(dy))
    dgamma = product.sum(axis=rows)
    dx = dy * gamma
    np.multiply(dx, xhat, out=product)
    mean_g_xhat = product.mean(axis=-1, keepdims=True)
    dx -= dx.mean(axis=-1, keepdims=True)
    np.multiply(xhat, mean_g_xhat, out=product)
    dx -= product
    dx *= rstd
    return dx, dgamma, dy.sum(axis=rows)
