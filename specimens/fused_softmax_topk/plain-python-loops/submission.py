"""Softmax and top-k with the standard library: heapq finds the winners, math does the rest."""

import heapq
import math

import numpy as np


def softmax_topk(logits, k):
    batch, steps, vocab = logits.shape
    if not 1 <= k <= vocab:
        raise ValueError(f"k must be between 1 and {vocab}")
    probs = np.empty((batch, steps, k), np.float32)
    indices = np.empty((batch, steps, k), np.int64)
    for place in np.ndindex(batch, steps):
        row = logits[place].tolist()
        best = heapq.nlargest(k, range(vocab), key=row.__getitem__)
        top = float(logits[place].max())
        total = sum(math.exp(x - top) for x in row)
        probs[place] = [math.exp(row[i] - top) / total for i in best]
        indices[place] = best
    return probs, indices
