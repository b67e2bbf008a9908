"""Softmax and top-k on the flat array of logits, with an offset for each row instead of a second axis."""

import numpy as np


def softmax_topk(logits, k):
    batch, steps, vocab = logits.shape
    if not 1 <= k <= vocab:
        raise ValueError(f"k must be between 1 and {vocab}")
    flat = logits.reshape(-1)
    probs = np.empty((batch * steps, k), np.float32)
    indices = np.empty((batch * steps, k), np.int64)
    with np.errstate(invalid="ignore"):
        for r, start in enumerate(range(0, len(flat), vocab)):
            row = flat[start : start + vocab]
            best = start + np.argpartition(row, vocab - k)[vocab - k :]
            best = best[np.argsort(-flat[best])]
            top = row.max()
            probs[r] = np.exp(flat[best] - top) / np.exp(row - top).sum()
            indices[r] = best
    return probs.reshape(batch, steps, k), indices.reshape(batch, steps, k)
