"""Softmax and top-k that fills one float32 table, probabilities above and indices below."""

import numpy as np


def softmax_topk(logits, k):
    batch, steps, vocab = logits.shape
    if not 1 <= k <= vocab:
        raise ValueError(f"k must be between 1 and {vocab}")
    table = np.empty((2, batch, steps, k), np.float32)
    with np.errstate(invalid="ignore"):
        for place in np.ndindex(batch, steps):
            row = logits[place]
            best = np.argpartition(row, vocab - k)[vocab - k :]
            best = best[np.argsort(row[best])[::-1]]
            top = row.max()
            table[0][place] = np.exp(row[best] - top) / np.exp(row - top).sum()
            table[1][place] = best
    return table[0], table[1]
