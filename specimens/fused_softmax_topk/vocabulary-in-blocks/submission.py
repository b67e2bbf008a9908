"""Softmax and top-k, all rows at once and the vocabulary in blocks, so that temporaries do not grow with it.

Running maximum, sum and winners of every row are brought up to date after each block.
"""

import numpy as np

BLOCK = 2048


def best_of(logits, indices, k):
    """The k largest of each row, in no order, with their indices."""
    if logits.shape[1] <= k:
        return logits, indices
    best = np.argpartition(logits, logits.shape[1] - k, axis=1)[:, logits.shape[1] - k :]
    return np.take_along_axis(logits, best, axis=1), np.take_along_axis(indices, best, axis=1)


def few_rows(rows, k):
    count, vocab = rows.shape
    top = np.full((count, 1), -np.inf, np.float32)
    total = np.zeros((count, 1))
    winners = np.empty((count, 0), np.float32), np.empty((count, 0), np.int64)
    step = max(BLOCK, k)
    for start in range(0, vocab, step):
        block = rows[:, start : start + step].astype(np.float32)
        new_top = np.maximum(top, block.max(axis=1, keepdims=True))
        # Where all is masked so far there is nothing to scale, and -inf less -inf would be no number.
        level = np.where(new_top == -np.inf, 0, new_top)
        total = total * np.exp(top - level) + np.exp(block - level).sum(axis=1, keepdims=True, dtype=np.float64)
        top = new_top
        columns = np.broadcast_to(np.arange(start, start + block.shape[1]), block.shape)
        best, places = best_of(block, columns, k)
        winners = best_of(np.hstack((winners[0], best)), np.hstack((winners[1], places)), k)
    order = np.argsort(-winners[0], axis=1, kind="stable")
    best, indices = (np.take_along_axis(part, order, axis=1) for part in winners)
    return np.exp(best - top) / total, indices


def softmax_topk(logits, k):
    *batch, vocab = logits.shape
    if not 1 <= k <= vocab:
        raise ValueError(f"k must be between 1 and {vocab}")
    rows = logits.reshape(-1, vocab)
    probs = np.empty((len(rows), k), np.float32)
    indices = np.empty((len(rows), k), np.int64)
    with np.errstate(invalid="ignore", divide="ignore"):
        for r in range(0, len(rows), 8):
            probs[r : r + 8], indices[r : r + 8] = few_rows(rows[r : r + 8], k)
    return probs.reshape(*batch, k), indices.reshape(*batch, k)
