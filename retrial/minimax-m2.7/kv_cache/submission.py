"""MiniMax-M2.7's KV cache, re-created after its stack of layers, which keeps a pair of keys and values for each layer. Its
faults:

- The mask is an array of ones that is added to the scores: the same for every key, and nothing is hidden.
- Attention sees what is cached and the newest step, but what is cached afterwards is the newest step alone.
- A layer has one cache, whichever sequences a step is of: a step of one sequence overwrites the others.
- Lengths are counted, and never looked at when keys are: padding is attended.

Its classes for flat and paged layouts are not used by its model, and quantisation is only described: none is claimed. That
its generating loop feeds the last token of a prompt twice has no place in this contract."""

import numpy as np


class Cache:
    def __init__(self, layers, batch, group, max_len):
        self.group, self.max_len = group, max_len
        self.cached = [None] * layers
        # What the newest step of each layer attends to.
        self.seen = [None] * layers
        self.lengths = np.zeros((layers, batch), np.int64)


def create(layers, batch, heads, kv_heads, head_dim, max_len, bits, block_size, num_blocks):
    if heads % kv_heads:
        raise ValueError("heads must be a multiple of kv_heads")
    if bits != 32 or block_size:
        raise ValueError("float32 in one piece only")
    return Cache(layers, batch, heads // kv_heads, max_len)


def append(cache, layer, k, v, lengths):
    if (cache.lengths[layer] + lengths > cache.max_len).any():
        raise ValueError("the cache is full")
    count = lengths.max()
    if count == 0:
        return
    newest = k[:, :, :count].copy(), v[:, :, :count].copy()
    cached = cache.cached[layer]
    cache.seen[layer] = [np.concatenate(pair, axis=2) for pair in zip(cached, newest)] if cached else newest
    cache.cached[layer] = newest
    cache.lengths[layer] += lengths


def attend(cache, layer, q, lengths):
    if cache.seen[layer] is None:
        return np.zeros_like(q)
    k, v = (np.repeat(x, cache.group, axis=1) for x in cache.seen[layer])
    scores = q @ k.swapaxes(2, 3) / np.float32(np.sqrt(q.shape[3]))
    queries, keys = scores.shape[2:]
    scores += np.triu(np.ones((queries, keys), np.float32), k=1 - keys)
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True) @ v


def lengths(cache):
    return cache.lengths.copy()


def clear(cache, sequence):
    cache.lengths[:, sequence] = 0
    if not cache.lengths.any():
        layers = len(cache.cached)
        cache.cached, cache.seen = [None] * layers, [None] * layers


def nbytes(cache):
    return sum(x.nbytes for pair in cache.cached + cache.seen if pair for x in pair)
