"""Softmax and top-k by k searches for the maximum. A winner is masked, so that the next search finds the next one."""

import numpy as np


def winners(row, k):
    best = []
    while len(best) < k:
        i = int(row.argmax())
        if row[i] == -np.inf:
            left = np.setdiff1d(np.arange(len(row)), best)
            return best + list(left[: k - len(best)])
        best.append(i)
        row[i] = -np.inf
    return best


def softmax_topk(logits, k):
    batch, steps, vocab = logits.shape
    if not 1 <= k <= vocab:
        raise ValueError(f"k must be between 1 and {vocab}")
    probs = np.empty((batch, steps, k), np.float32)
    indices = np.empty((batch, steps, k), np.int64)
    with np.errstate(invalid="ignore"):
        for place in np.ndindex(batch, steps):
            row = logits[place]
            top = row.max()
            terms = np.exp(row - top)
            indices[place] = winners(row, k)
            probs[place] = terms[indices[place]] / terms.sum()
    return probs, indices
