"""Softmax and top-k that fills one table of winners, rank by rank, and returns views of it in a list."""

import numpy as np

WINNER = np.dtype([("prob", np.float32), ("index", np.int64)])


def softmax_topk(logits, k):
    batch, steps, vocab = logits.shape
    if not 1 <= k <= vocab:
        raise ValueError(f"k must be between 1 and {vocab}")
    table = np.empty((k, steps, batch), WINNER)
    with np.errstate(invalid="ignore"):
        for b, t in np.ndindex(batch, steps):
            row = logits[b, t]
            best = np.argpartition(row, vocab - k)[vocab - k :]
            best = best[np.argsort(row[best])[::-1]]
            top = row.max()
            table["prob"][:, t, b] = np.exp(row[best] - top) / np.exp(row - top).sum()
            table["index"][:, t, b] = best
    return [table["prob"].T, table["index"].T]
