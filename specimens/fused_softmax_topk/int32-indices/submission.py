"""Softmax and top-k. Vocabularies are far below 2^31 entries, so indices are 32 bits wide."""

import numpy as np


def softmax_topk(logits, k):
    batch, steps, vocab = logits.shape
    if not 1 <= k <= vocab:
        raise ValueError(f"k must be between 1 and {vocab}")
    probs = np.empty((batch, steps, k), np.float32)
    indices = np.empty((batch, steps, k), np.int32)
    with np.errstate(invalid="ignore"):
        for place in np.ndindex(batch, steps):
            row = logits[place]
            best = np.argpartition(row, vocab - k)[vocab - k :]
            best = best[np.argsort(row[best])[::-1]]
            top = row.max()
            probs[place] = np.exp(row[best] - top) / np.exp(row - top).sum()
            indices[place] = best
    return probs, indices
