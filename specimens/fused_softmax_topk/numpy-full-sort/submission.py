"""Softmax and top-k by sorting each row. Of equal logits the first ones win."""

import numpy as np


def softmax_topk(logits, k):
    *batch, vocab = logits.shape
    if not 1 <= k <= vocab:
        raise ValueError(f"k must be between 1 and {vocab}")
    rows = logits.reshape(-1, vocab)
    probs = np.empty((len(rows), k), np.float32)
    indices = np.empty((len(rows), k), np.int64)
    with np.errstate(invalid="ignore"):
        for r, row in enumerate(rows):
            falling = -row.astype(np.float32)
            order = np.argsort(falling, kind="stable")
            np.subtract(falling.min(), falling, out=falling)
            np.exp(falling, out=falling)
            probs[r] = falling[order[:k]] / falling.sum()
            indices[r] = order[:k]
    return probs.reshape(*batch, k), indices.reshape(*batch, k)
