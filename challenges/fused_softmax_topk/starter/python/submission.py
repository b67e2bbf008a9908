"""Fused softmax and top-k.

The k largest probabilities of a softmax over a large vocabulary, and where they are, without ever
storing the probabilities of a whole row.

Arrays are numpy arrays, row-major. Do not write to an argument, nor to what you returned before. Raise an exception to refuse an input.
"""

import numpy as np


def softmax_topk(logits, k):
    """For each row of V logits: probs = exp(logits[i] - lse) of the k entries i that are most
    probable, in descending order, with lse = log(sum(exp(logits))) over all V; indices are these i.
    Entries whose probabilities float32 cannot tell apart may stand in any order, and any of them
    may be left out for another. A logit of -inf has probability 0; it is named, once, only where
    fewer than k others exist. Rows have nothing to do with each other. A row that has no softmax (a
    NaN in it, or nothing but -inf) is refused, or its probs are NaN, or zeros, or, for nothing but
    -inf, 1 / V, its indices any of the row or -1, and the rows beside it are answered as ever. A k
    beyond V is refused, or what is beyond V gets probability 0 and index -1.

    logits: array (B, T, V); natural logarithms of unnormalised probabilities; +inf does not occur
    k: int; how many entries of each row, at least 1

    Returns (probs, indices):
    probs: array (B, T, k); float32 whatever the dtype of the logits, descending
    indices: array (B, T, k); int64 (Python may return int32), 0 <= index < V, distinct within a row
    """
    raise NotImplementedError
