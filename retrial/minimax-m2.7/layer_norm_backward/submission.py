"""MiniMax-M2.7's layer norm, re-created: right, with twelve entries in the cache. Three of them have x's size where one is
needed: x, x_centered and x_norm."""

import numpy as np


def forward(x, gamma, beta, eps):
    mean = x.mean(axis=-1, keepdims=True)
    x_centered = x - mean
    var = np.square(x_centered).mean(axis=-1, keepdims=True)
    std = np.sqrt(var + eps)
    x_norm = x_centered / std
    *rows, D = x.shape
    B, T = (1, *rows)[-2:]
    cache = {
        "x": x,
        "x_centered": x_centered,
        "x_norm": x_norm,
        "mean": mean,
        "var": var,
        "std": std,
        "gamma": gamma,
        "beta": beta,
        "eps": eps,
        "B": B,
        "T": T,
        "D": D,
    }
    return gamma * x_norm + beta, cache


def backward(dy, cache):
    x_norm, D = cache["x_norm"], cache["D"]
    rows = tuple(range(dy.ndim - 1))
    dz = dy * cache["gamma"]
    sum_dz = dz.sum(axis=-1, keepdims=True)
    sum_dz_x_norm = (dz * x_norm).sum(axis=-1, keepdims=True)
    dx = (dz - sum_dz / D - x_norm * sum_dz_x_norm / D) / cache["std"]
    return dx, (dy * x_norm).sum(axis=rows), dy.sum(axis=rows)
