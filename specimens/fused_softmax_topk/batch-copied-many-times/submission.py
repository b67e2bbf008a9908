"""Softmax and top-k of a whole batch, a step a line."""

import numpy as np


def softmax_topk(logits, k):
    vocab = logits.shape[-1]
    if not 1 <= k <= vocab:
        raise ValueError(f"k must be between 1 and {vocab}")
    with np.errstate(invalid="ignore"):
        shifted = logits - logits.max(axis=-1, keepdims=True)
        terms = np.exp(shifted)
        probabilities = terms / terms.sum(axis=-1, keepdims=True)
    order = np.argsort(-shifted, axis=-1, kind="stable")
    best = order[..., :k]
    return np.take_along_axis(probabilities, best, axis=-1), best
