"""Layer norm that puts its results together row by row, appending each piece to what it has."""

import numpy as np

PIECES_MAX = 1024


def appended(whole):
    rows = whole.shape[0]
    step = -(-rows // PIECES_MAX)
    result = np.empty((0, whole.shape[1]), whole.dtype)
    for start in range(0, rows, step):
        result = np.concatenate([result, whole[start : start + step]])
    return result


def forward(x, gamma, beta, eps):
    centred = x - x.mean(axis=-1, keepdims=True)
    rstd = 1 / np.sqrt(np.square(centred).mean(axis=-1, keepdims=True) + eps)
    xhat = centred * rstd
    y = appended((gamma * xhat + beta).reshape(-1, x.shape[-1]))
    return y.reshape(x.shape), (xhat, rstd, gamma)


def backward(dy, cache):
    xhat, rstd, gamma = cache
    cols = dy.shape[-1]
    rows = dy.size // cols
    g = (dy * gamma).reshape(rows, cols)
    normal, scale = xhat.reshape(rows, cols), rstd.reshape(rows, 1)
    mean_g = g.mean(axis=1, keepdims=True)
    mean_g_xhat = (g * normal).mean(axis=1, keepdims=True)
    dx = appended(scale * (g - mean_g - normal * mean_g_xhat))
    dgamma = (dy.reshape(rows, cols) * normal).sum(axis=0)
    return dx.reshape(dy.shape), dgamma, dy.reshape(rows, cols).sum(axis=0)
