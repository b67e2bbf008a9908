"""Softmax and top-k whose results are allocated once for each shape."""

import functools

import numpy as np


@functools.cache
def results(shape):
    return np.empty(shape, np.float32), np.empty(shape, np.int64)


def softmax_topk(logits, k):
    batch, steps, vocab = logits.shape
    if not 1 <= k <= vocab:
        raise ValueError(f"k must be between 1 and {vocab}")
    probs, indices = results((batch, steps, k))
    with np.errstate(invalid="ignore"):
        for place in np.ndindex(batch, steps):
            row = logits[place]
            best = np.argpartition(row, vocab - k)[vocab - k :]
            best = best[np.argsort(row[best])[::-1]]
            terms = row - row.max()
            np.exp(terms, out=terms)
            np.divide(terms[best], terms.sum(), out=probs[place])
            indices[place] = best
    return probs, indices
