"""Softmax and top-k. A stable ascending sort is read from its end, so of equal logits the last ones win."""

import numpy as np


def softmax_topk(logits, k):
    batch, steps, vocab = logits.shape
    if not 1 <= k <= vocab:
        raise ValueError(f"k must be between 1 and {vocab}")
    probs = np.empty((batch, steps, k), np.float32)
    indices = np.empty((batch, steps, k), np.int64)
    with np.errstate(invalid="ignore"):
        for place in np.ndindex(batch, steps):
            row = logits[place].astype(np.float32)
            best = np.argsort(row, kind="stable")[: -k - 1 : -1]
            top = row.max()
            probs[place] = np.exp(row[best] - top) / np.exp(row - top).sum()
            indices[place] = best
    return probs, indices
