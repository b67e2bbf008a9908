"""Softmax and top-k in float64 throughout."""

import numpy as np


def softmax_topk(logits, k):
    batch, steps, vocab = logits.shape
    if not 1 <= k <= vocab:
        raise ValueError(f"k must be between 1 and {vocab}")
    probs = np.empty((batch, steps, k))
    indices = np.empty((batch, steps, k), np.int64)
    with np.errstate(invalid="ignore"):
        for place in np.ndindex(batch, steps):
            row = logits[place].astype(np.float64)
            best = np.argpartition(row, vocab - k)[vocab - k :]
            best = best[np.argsort(row[best])[::-1]]
            top = row.max()
            probs[place] = np.exp(row[best] - top) / np.exp(row - top).sum()
            indices[place] = best
    return probs, indices
