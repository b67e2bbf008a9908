"""Softmax and top-k. Winners are gathered in the order of their indices, which is the order they lie in memory."""

import numpy as np


def softmax_topk(logits, k):
    vocab = logits.shape[-1]
    if not 1 <= k <= vocab:
        raise ValueError(f"k must be between 1 and {vocab}")
    best = np.argpartition(logits, vocab - k, axis=-1)[..., vocab - k :]
    best = np.sort(best, axis=-1)
    with np.errstate(invalid="ignore"):
        terms = np.exp(logits - logits.max(axis=-1, keepdims=True))
        probs = np.take_along_axis(terms, best, axis=-1) / terms.sum(axis=-1, keepdims=True)
    return -np.sort(-probs, axis=-1), best
