"""Softmax and top-k that keeps one row of scratch between calls. What a call returns never lies in it."""

import numpy as np

scratch = np.empty(0, np.float32)


def scratch_for(row):
    """Space as long as the row; its contents last until the next request."""
    global scratch
    if len(scratch) < len(row):
        scratch = np.empty(len(row), np.float32)
    return scratch[: len(row)]


def softmax_topk(logits, k):
    batch, steps, vocab = logits.shape
    if not 1 <= k <= vocab:
        raise ValueError(f"k must be between 1 and {vocab}")
    probs = np.empty((batch, steps, k), np.float32)
    indices = np.empty((batch, steps, k), np.int64)
    with np.errstate(invalid="ignore"):
        for place in np.ndindex(batch, steps):
            row = logits[place]
            best = np.argpartition(row, vocab - k)[vocab - k :]
            best = best[np.argsort(row[best])[::-1]]
            terms = np.subtract(row, row.max(), out=scratch_for(row))
            np.exp(terms, out=terms)
            np.divide(terms[best], terms.sum(), out=probs[place])
            indices[place] = best
    return probs, indices
