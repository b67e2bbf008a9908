"""Layer norm, backward.

Layer normalisation over the last axis: a forward pass that returns a cache, and a hand-derived
backward pass that needs nothing else.

Arrays are numpy arrays, row-major. Do not write to an argument, nor to what you returned before. Raise an exception to refuse an input.
"""

import numpy as np


def forward(x, gamma, beta, eps):
    """y = gamma * (x - mean) * rstd + beta, with rstd = 1 / sqrt(var + eps); mean and the biased
    variance (divided by D) are taken over the last axis.

    x: array (B, T, D) or (rows, D); input
    gamma: array (D,); scale, of x's dtype
    beta: array (D,); shift, of x's dtype
    eps: float; added to the variance, inside the root

    Returns (y, cache):
    y: array (B, T, D) or (rows, D); shape and dtype of x
    cache: any object; what backward needs, and no more
    """
    raise NotImplementedError


def backward(dy, cache):
    """The gradients of sum(dy * y) with respect to x, gamma and beta, where y is what the forward call
    that made the cache returned. Other forward calls may have been made since, and one cache may be
    used more than once.

    dy: array (B, T, D) or (rows, D); gradient with respect to y
    cache: any object; from forward

    Returns (dx, dgamma, dbeta):
    dx: array (B, T, D) or (rows, D); shape and dtype of x
    dgamma: array (D,); shape and dtype of gamma
    dbeta: array (D,); shape and dtype of beta
    """
    raise NotImplementedError
