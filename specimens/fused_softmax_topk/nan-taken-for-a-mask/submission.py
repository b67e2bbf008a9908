"""Softmax and top-k of a whole batch. What is not a number cannot be sampled, and is masked."""

import numpy as np


def softmax_topk(logits, k):
    vocab = logits.shape[-1]
    if not 1 <= k <= vocab:
        raise ValueError(f"k must be between 1 and {vocab}")
    clean = np.where(np.isnan(logits), np.float32(-np.inf), logits)
    best = np.argpartition(clean, vocab - k, axis=-1)[..., vocab - k :]
    order = np.argsort(-np.take_along_axis(clean, best, axis=-1), axis=-1)
    best = np.take_along_axis(best, order, axis=-1)
    with np.errstate(invalid="ignore"):
        terms = np.exp(clean - clean.max(axis=-1, keepdims=True))
    return np.take_along_axis(terms, best, axis=-1) / terms.sum(axis=-1, keepdims=True), best
