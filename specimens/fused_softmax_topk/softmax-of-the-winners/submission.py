"""Softmax and top-k: the winners are found first, so that exponentials are needed for few entries only."""

import numpy as np


def softmax_topk(logits, k):
    vocab = logits.shape[-1]
    if not 1 <= k <= vocab:
        raise ValueError(f"k must be between 1 and {vocab}")
    best = np.argpartition(logits, vocab - k, axis=-1)[..., vocab - k :]
    winners = np.take_along_axis(logits, best, axis=-1)
    order = np.argsort(-winners, axis=-1)
    best = np.take_along_axis(best, order, axis=-1)
    with np.errstate(invalid="ignore"):
        probs = np.exp(np.take_along_axis(winners, order, axis=-1) - winners.max(axis=-1, keepdims=True))
    return probs / probs.sum(axis=-1, keepdims=True), best
