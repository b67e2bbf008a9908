"""Softmax and top-k whose results know what they are."""

from typing import NamedTuple

import numpy as np


class Probabilities(np.ndarray):
    """Probabilities of the winners, descending along the last axis."""

    def rest(self):
        """What the winners leave to all other entries."""
        return 1 - np.asarray(self).sum(axis=-1)


class Winners(NamedTuple):
    probs: Probabilities
    indices: np.ndarray


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
            top = row.max()
            probs[place] = np.exp(row[best] - top) / np.exp(row - top).sum()
            indices[place] = best
    return Winners(probs.view(Probabilities), indices)
