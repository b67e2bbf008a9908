"""Softmax and top-k of a whole batch at once: winners by argpartition, probabilities by a stable softmax."""

import numpy as np


def softmax_topk(logits, k):
    vocab = logits.shape[-1]
    if not 1 <= k <= vocab:
        raise ValueError(f"k must be between 1 and {vocab}")
    best = np.argpartition(logits, vocab - k, axis=-1)[..., vocab - k :]
    order = np.argsort(-np.take_along_axis(logits, best, axis=-1), axis=-1)
    best = np.take_along_axis(best, order, axis=-1)
    with np.errstate(invalid="ignore"):
        terms = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return np.take_along_axis(terms, best, axis=-1) / terms.sum(), best
