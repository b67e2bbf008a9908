"""Layer norm whose column sums are added block by block, in whatever order the blocks come."""

import random

import numpy as np

BLOCK = 8
# Stands for a queue that threads take blocks from: which is done first, nobody knows.
CHANCE = random.SystemRandom()


def column_sum(values):
    flat = values.reshape(-1, values.shape[-1])
    starts = list(range(0, len(flat), BLOCK))
    CHANCE.shuffle(starts)
    total = np.zeros(flat.shape[-1], values.dtype)
    for start in starts:
        total += flat[start : start + BLOCK].sum(axis=0)
    return total


def forward(x, gamma, beta, eps):
    centred = x - x.mean(axis=-1, keepdims=True)
    rstd = 1 / np.sqrt((centred * centred).mean(axis=-1, keepdims=True) + eps)
    xhat = centred * rstd
    return gamma * xhat + beta, (xhat, rstd, gamma)


def backward(dy, cache):
    xhat, rstd, gamma = cache
    g = dy * gamma
    dx = rstd * (g - g.mean(axis=-1, keepdims=True) - xhat * (g * xhat).mean(axis=-1, keepdims=True))
    return dx, column_sum(dy * xhat), column_sum(dy)
