"""Opus 4.7's KV cache, re-created: flat lists of Python numbers, (batch, heads, max_len, dim) for each layer, and loops.
numpy does nothing but hand over tensors. Its fault: no bounds are checked, so a token behind max_len lands in the next head
or the next sequence."""

from math import exp, sqrt
from operator import mul

import numpy as np


class Cache:
    def __init__(self, layers, batch, heads, kv_heads, head_dim, max_len):
        self.heads, self.kv_heads, self.dim, self.max_len = heads, kv_heads, head_dim, max_len
        size = batch * kv_heads * max_len * head_dim
        self.k, self.v = ([[0.0] * size for _ in range(layers)] for _ in range(2))
        self.lengths = [[0] * batch for _ in range(layers)]

    def start(self, b, head, t):
        return ((b * self.kv_heads + head) * self.max_len + t) * self.dim


def create(layers, batch, heads, kv_heads, head_dim, max_len, bits, block_size, num_blocks):
    if heads % kv_heads:
        raise ValueError("heads must be a multiple of kv_heads")
    if bits != 32 or block_size:
        raise ValueError("full precision in one piece only")
    return Cache(layers, batch, heads, kv_heads, head_dim, max_len)


def append(cache, layer, k, v, lengths):
    for b, count in enumerate(lengths.tolist()):
        for head in range(cache.kv_heads):
            at = cache.start(b, head, cache.lengths[layer][b])
            cache.k[layer][at : at + count * cache.dim] = k[b, head, :count].ravel().tolist()
            cache.v[layer][at : at + count * cache.dim] = v[b, head, :count].ravel().tolist()
        cache.lengths[layer][b] += count


def attend(cache, layer, q, lengths):
    out = np.zeros_like(q)
    for b, count in enumerate(lengths.tolist()):
        length = cache.lengths[layer][b]
        for head in range(cache.heads):
            at = cache.start(b, head * cache.kv_heads // cache.heads, 0)
            keys, values = (store[layer][at : at + length * cache.dim] for store in (cache.k, cache.v))
            for i, query in enumerate(q[b, head, :count].tolist()):
                out[b, head, i] = one_query(query, keys, values, length - count + i + 1)
    return out


def one_query(query, keys, values, visible):
    dim = len(query)
    scores = [sum(map(mul, query, keys[j * dim : (j + 1) * dim])) / sqrt(dim) for j in range(visible)]
    most = max(scores)
    weights = [exp(score - most) for score in scores]
    total = sum(weights)
    return [sum(map(mul, weights, values[d : visible * dim : dim])) / total for d in range(dim)]


def lengths(cache):
    return np.array(cache.lengths, np.int64)


def clear(cache, sequence):
    for of_layer in cache.lengths:
        of_layer[sequence] = 0


def nbytes(cache):
    """A reference of 8 bytes for every place, and an object of 24 for every number that is there."""
    places = sum(len(store) for store in cache.k + cache.v)
    numbers = 2 * sum(map(sum, cache.lengths)) * cache.kv_heads * cache.dim
    return 8 * places + 24 * numbers
