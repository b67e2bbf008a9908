"""Softmax and top-k in the order of the name: probabilities first, then the largest of them.

The vocabulary is taken in blocks, and only winners outlive their block. Masked entries come after all others.
"""

import numpy as np

BLOCK = 8192


def best_of(ranks, k):
    """Where the k largest are, in descending order."""
    k = min(k, len(ranks))
    best = np.argpartition(ranks, len(ranks) - k)[len(ranks) - k :]
    return best[np.argsort(-ranks[best], kind="stable")]


def top_of_row(row, k):
    top = row.max()
    step = max(BLOCK, k)
    blocks = range(0, len(row), step)
    total = sum(np.exp(row[b : b + step] - top).sum(dtype=np.float64) for b in blocks)
    ranks, indices = np.empty(0, np.float32), np.empty(0, np.int64)
    for b in blocks:
        block = row[b : b + step]
        probabilities = (np.exp(block - top) / total).astype(np.float32)
        probabilities[block == -np.inf] = -1
        best = best_of(probabilities, k)
        ranks, indices = np.append(ranks, probabilities[best]), np.append(indices, b + best)
        best = best_of(ranks, k)
        ranks, indices = ranks[best], indices[best]
    return np.maximum(ranks, 0), indices


def softmax_topk(logits, k):
    *batch, vocab = logits.shape
    if not 1 <= k <= vocab:
        raise ValueError(f"k must be between 1 and {vocab}")
    with np.errstate(invalid="ignore"):
        rows = [top_of_row(row, k) for row in logits.reshape(-1, vocab)]
    probs = np.array([probs for probs, _ in rows], np.float32)
    indices = np.array([indices for _, indices in rows], np.int64)
    return probs.reshape(*batch, k), indices.reshape(*batch, k)
