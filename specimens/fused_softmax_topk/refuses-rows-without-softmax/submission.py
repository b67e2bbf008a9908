"""Softmax and top-k for rows that have a softmax; a batch with any other row is refused."""

import numpy as np


def softmax_topk(logits, k):
    batch, steps, vocab = logits.shape
    if not 1 <= k <= vocab:
        raise ValueError(f"k must be between 1 and {vocab}")
    top = logits.max(axis=-1)
    if not np.isfinite(top).all():
        raise ValueError("a row with a NaN, or with nothing but -inf, has no softmax")
    probs = np.empty((batch, steps, k), np.float32)
    indices = np.empty((batch, steps, k), np.int64)
    for place in np.ndindex(batch, steps):
        row = logits[place]
        best = np.argpartition(row, vocab - k)[vocab - k :]
        best = best[np.argsort(row[best])[::-1]]
        probs[place] = np.exp(row[best] - top[place]) / np.exp(row - top[place]).sum()
        indices[place] = best
    return probs, indices
