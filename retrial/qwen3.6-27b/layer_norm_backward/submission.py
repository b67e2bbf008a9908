"""Qwen3.6-27B's layer norm, re-created: two passes for the variance, and a cache of xhat, 1/std, gamma and D. No fault of
the code is known; what was wrong stood in its tests, tables and GPU sketch, which nobody runs here."""

import numpy as np


def forward(x, gamma, beta, eps):
    centred = x - x.mean(axis=-1, keepdims=True)
    variance = np.square(centred).mean(axis=-1, keepdims=True)
    std_inv = 1.0 / np.sqrt(variance + eps)
    x_hat = centred * std_inv
    return gamma * x_hat + beta, {"x_hat": x_hat, "std_inv": std_inv, "gamma": gamma, "D": x.shape[-1]}


def backward(dy, cache):
    x_hat, columns = cache["x_hat"], cache["D"]
    dgamma = (dy * x_hat).reshape(-1, columns).sum(axis=0)
    dbeta = dy.reshape(-1, columns).sum(axis=0)
    g = cache["gamma"] * dy
    mean_g = g.mean(axis=-1, keepdims=True)
    mean_gx = (g * x_hat).mean(axis=-1, keepdims=True)
    return cache["std_inv"] * (g - mean_g - x_hat * mean_gx), dgamma, dbeta
