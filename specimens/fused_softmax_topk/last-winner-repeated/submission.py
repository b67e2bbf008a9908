"""Softmax and top-k that looks for candidates in a window of fixed width, so that every step has the same shape."""

import numpy as np

WIDTH = 64


def best_of(row, k):
    """The k largest in descending order, from the sorted window of candidates."""
    width = min(WIDTH, len(row))
    window = np.argpartition(row, len(row) - width)[len(row) - width :]
    window = window[np.argsort(-row[window])]
    return window[np.minimum(np.arange(k), width - 1)]


def softmax_topk(logits, k):
    batch, steps, vocab = logits.shape
    if not 1 <= k <= vocab:
        raise ValueError(f"k must be between 1 and {vocab}")
    probs = np.empty((batch, steps, k), np.float32)
    indices = np.empty((batch, steps, k), np.int64)
    with np.errstate(invalid="ignore"):
        for place in np.ndindex(batch, steps):
            row = logits[place]
            best = best_of(row, k)
            top = row.max()
            probs[place] = np.exp(row[best] - top) / np.exp(row - top).sum()
            indices[place] = best
    return probs, indices
