"""Softmax and top-k, a row at a time; k = 1, as greedy decoding asks, without a sort."""

import numpy as np


def largest(row, k):
    """The places of the k largest logits, and the softmax there."""
    if k == 1:
        best = row.argmax(keepdims=True)
        return best, 1 / np.exp(row - row[best]).sum()
    row = row.astype(np.float32)
    best = np.argsort(-row, kind="stable")[:k]
    return best, np.exp(row[best] - row.max()) / np.exp(row - row.max()).sum()


def softmax_topk(logits, k):
    *batch, vocab = logits.shape
    if not 1 <= k <= vocab:
        raise ValueError(f"k must be between 1 and {vocab}")
    rows = logits.reshape(-1, vocab)
    probs = np.empty((len(rows), k), np.float32)
    indices = np.empty((len(rows), k), np.int64)
    with np.errstate(invalid="ignore"):
        for r, row in enumerate(rows):
            indices[r], probs[r] = largest(row, k)
    return probs.reshape(*batch, k), indices.reshape(*batch, k)
