"""Layer norm that gives half of the rows to each of two threads, and adds their halves of the column sums."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np

pool = ThreadPoolExecutor(max_workers=2)


def halves(rows):
    middle = rows // 2
    return [slice(0, middle), slice(middle, rows)] if middle else [slice(0, rows)]


def forward(x, gamma, beta, eps):
    flat = x.reshape(-1, x.shape[-1])
    xhat, y = np.empty_like(flat), np.empty_like(flat)
    rstd = np.empty((len(flat), 1), x.dtype)

    def normalise(part):
        centred = flat[part] - flat[part].mean(axis=1, keepdims=True)
        rstd[part] = 1 / np.sqrt(np.square(centred).mean(axis=1, keepdims=True) + eps)
        np.multiply(centred, rstd[part], out=xhat[part])
        y[part] = gamma * xhat[part] + beta

    list(pool.map(normalise, halves(len(flat))))
    return y.reshape(x.shape), (xhat, rstd, gamma)


def backward(dy, cache):
    xhat, rstd, gamma = cache
    flat = dy.reshape(xhat.shape)
    dx = np.empty_like(flat)

    def differentiate(part):
        g = flat[part] * gamma
        mean_g = g.mean(axis=1, keepdims=True)
        mean_g_xhat = (g * xhat[part]).mean(axis=1, keepdims=True)
        dx[part] = rstd[part] * (g - mean_g - xhat[part] * mean_g_xhat)
        return (flat[part] * xhat[part]).sum(axis=0), flat[part].sum(axis=0)

    sums = list(pool.map(differentiate, halves(len(flat))))
    return dx.reshape(dy.shape), sum(s[0] for s in sums), sum(s[1] for s in sums)
