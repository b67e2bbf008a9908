"""Softmax and top-k from the end of an ascending sort."""

import numpy as np


def softmax_topk(logits, k):
    batch, steps, vocab = logits.shape
    if not 1 <= k <= vocab:
        raise ValueError(f"k must be between 1 and {vocab}")
    probs = np.empty((batch, steps, k), np.float32)
    indices = np.empty((batch, steps, k), np.int64)
    with np.errstate(invalid="ignore"):
        for place in np.ndindex(batch, steps):
            row = logits[place]
            best = np.argsort(row, kind="stable")[-k:]
            top = row.max()
            probs[place] = np.exp(row[best] - top) / np.exp(row - top).sum()
            indices[place] = best
    return probs, indices
