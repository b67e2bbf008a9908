"""Softmax and top-k. Exponentials lie between 0 and 1, so they are kept in two bytes each; sums are float32."""

import numpy as np


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
            terms = np.exp(row - row.max()).astype(np.float16)
            probs[place] = terms[best] / terms.sum(dtype=np.float32)
            indices[place] = best
    return probs, indices
