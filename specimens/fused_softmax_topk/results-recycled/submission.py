"""Softmax and top-k that takes arrays of results back when their caller has let go of them."""

import sys

import numpy as np

pool = []
# What the list and the loop below hold, and what asking holds.
NOBODY_ELSE = 3


def result(shape, dtype):
    for array in pool:
        if array.shape == shape and array.dtype == dtype and sys.getrefcount(array) == NOBODY_ELSE:
            return array
    pool.append(np.empty(shape, dtype))
    return pool[-1]


def softmax_topk(logits, k):
    batch, steps, vocab = logits.shape
    if not 1 <= k <= vocab:
        raise ValueError(f"k must be between 1 and {vocab}")
    probs, indices = result((batch, steps, k), np.float32), result((batch, steps, k), np.int64)
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
