"""Softmax and top-k with float64 arithmetic, rounded once at the end."""

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
            best = np.argpartition(row, vocab - k)[vocab - k :]
            best = best[np.argsort(row[best])[::-1]]
            wide = row.astype(np.float64)
            wide -= wide.max()
            np.exp(wide, out=wide)
            probs[place] = wide[best] / wide.sum()
            indices[place] = best
    return probs, indices
