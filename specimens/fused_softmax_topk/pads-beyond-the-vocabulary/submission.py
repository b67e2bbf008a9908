"""Softmax and top-k. Ranks beyond the vocabulary get probability 0 and index -1, so a sampler need not know V."""

import numpy as np


def softmax_topk(logits, k):
    batch, steps, vocab = logits.shape
    if k < 1:
        raise ValueError("k must be at least 1")
    probs = np.zeros((batch, steps, k), np.float32)
    indices = np.full((batch, steps, k), -1)
    held = min(k, vocab)
    with np.errstate(invalid="ignore"):
        for place in np.ndindex(batch, steps):
            row = logits[place]
            best = np.argpartition(row, vocab - held)[vocab - held :]
            best = best[np.argsort(row[best])[::-1]]
            top = row.max()
            probs[place][:held] = np.exp(row[best] - top) / np.exp(row - top).sum()
            indices[place][:held] = best
    return probs, indices
