"""A cache that copies nothing: it keeps the keys and values that it was given, call by call, and puts them together when it attends."""

import numpy as np


class Cache:
    """For each layer and sequence, pairs of keys and values as (kv_heads, count, head_dim)."""

    def __init__(self, layers, batch, heads, kv_heads, head_dim, max_len):
        self.group, self.max_len = heads // kv_heads, max_len
        empty = np.zeros((kv_heads, 0, head_dim), np.float32)
        self.empty = (empty, empty)
        self.given = [[[] for _ in range(batch)] for _ in range(layers)]
        self.lengths = np.zeros((layers, batch), np.int64)


def create(layers, batch, heads, kv_heads, head_dim, max_len, bits, block_size, num_blocks):
    if heads % kv_heads:
        raise ValueError(f"{heads} heads are no multiple of {kv_heads}")
    if bits != 32 or block_size:
        raise ValueError("only float32 without pages")
    return Cache(layers, batch, heads, kv_heads, head_dim, max_len)


def append(cache, layer, k, v, lengths):
    start = cache.lengths[layer]
    if np.any(start + lengths > cache.max_len):
        raise ValueError(f"no room for {lengths} more than {start}")
    for b, count in enumerate(lengths):
        if count:
            cache.given[layer][b].append((k[b, :, :count], v[b, :, :count]))
    cache.lengths[layer] += lengths


def attend(cache, layer, q, lengths):
    batch, heads, t, dim = q.shape
    out = np.zeros_like(q)
    for b, count in enumerate(lengths):
        if count == 0:
            continue
        k, v = (np.concatenate(parts, axis=1) for parts in zip(cache.empty, *cache.given[layer][b]))
        length = k.shape[1]
        queries = q[b, :, :count].reshape(-1, cache.group, count, dim)
        scores = np.einsum("hgid,hjd->hgij", queries, k) / np.float32(np.sqrt(dim))
        position = np.arange(length - count, length)
        scores = np.where(np.arange(length) <= position[:, None], scores, -np.inf)
        weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
        weights /= weights.sum(axis=-1, keepdims=True)
        out[b, :, :count] = np.einsum("hgij,hjd->hgid", weights, v).reshape(heads, count, dim)
    return out


def lengths(cache):
    return cache.lengths.copy()


def clear(cache, sequence):
    for layer in cache.given:
        layer[sequence] = []
    cache.lengths[:, sequence] = 0


def nbytes(cache):
    return sum(k.nbytes + v.nbytes for layer in cache.given for sequence in layer for k, v in sequence)
