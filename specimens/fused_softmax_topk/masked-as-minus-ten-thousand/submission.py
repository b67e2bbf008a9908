"""Softmax and top-k of a whole batch. Masks become large negative logits, so that no difference is infinite."""

import numpy as np


def softmax_topk(logits, k):
    vocab = logits.shape[-1]
    if not 1 <= k <= vocab:
        raise ValueError(f"k must be between 1 and {vocab}")
    finite = np.where(logits == -np.inf, np.float32(-1e4), logits)
    best = np.argpartition(finite, vocab - k, axis=-1)[..., vocab - k :]
    order = np.argsort(-np.take_along_axis(finite, best, axis=-1), axis=-1)
    best = np.take_along_axis(best, order, axis=-1)
    terms = np.exp(finite - finite.max(axis=-1, keepdims=True))
    return np.take_along_axis(terms, best, axis=-1) / terms.sum(axis=-1, keepdims=True), best
