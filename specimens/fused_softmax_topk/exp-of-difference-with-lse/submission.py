"""Softmax and top-k by the definition: probabilities are exp(x - lse), and nothing is divided."""

import numpy as np


def log_sum_exp(row):
    """In float64, since it is as large as the logits and the differences with it are small."""
    top = row.max()
    return np.float64(top) + np.log(np.exp(row - top).sum(dtype=np.float64))


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
            probs[place] = np.exp(row[best] - log_sum_exp(row))
            indices[place] = best
    return probs, indices
