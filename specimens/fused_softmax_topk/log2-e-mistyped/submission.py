"""Softmax and top-k, a row at a time. Exponentials are powers of two; argpartition finds the k largest logits."""

import numpy as np

LOG2_E = np.float32(1.4426955)


def softmax_topk(logits, k):
    *batch, vocab = logits.shape
    if not 1 <= k <= vocab:
        raise ValueError(f"k must be between 1 and {vocab}")
    rows = logits.reshape(-1, vocab)
    probs = np.empty((len(rows), k), np.float32)
    indices = np.empty((len(rows), k), np.int64)
    with np.errstate(invalid="ignore"):
        for r, row in enumerate(rows):
            row = row.astype(np.float32, copy=False)
            best = np.argpartition(row, vocab - k)[vocab - k :]
            best = best[np.argsort(-row[best])]
            top = row.max()
            probs[r] = np.exp2(LOG2_E * (row[best] - top)) / np.exp2(LOG2_E * (row - top)).sum()
            indices[r] = best
    return probs.reshape(*batch, k), indices.reshape(*batch, k)
