"""A cache in two arrays, attended one sequence at a time."""

import numpy as np


class Cache:
    """Keys and values of each layer as (batch, kv_heads, max_len, head_dim)."""

    def __init__(self, layers, batch, heads, kv_heads, head_dim, max_len):
        self.group = heads // kv_heads
        shape = (layers, batch, kv_heads, max_len, head_dim)
        self.k, self.v = np.zeros(shape, np.float32), np.zeros(shape, np.float32)
        self.lengths = np.zeros((layers, batch), np.int64)


def create(layers, batch, heads, kv_heads, head_dim, max_len, bits, block_size, num_blocks):
    if heads % kv_heads:
        raise ValueError(f"{heads} heads are no multiple of {kv_heads}")
    if bits != 32 or block_size:
        raise ValueError("only float32 without pages")
    return Cache(layers, batch, heads, kv_heads, head_dim, max_len)


def append(cache, layer, k, v, lengths):
    start = cache.lengths[layer]
    if np.any(start + lengths > cache.k.shape[3]):
        raise ValueError(f"no room for {lengths} more than {start}")
    for b, count in enumerate(lengths):
        place = slice(start[b], start[b] + count)
        cache.k[layer, b, :, place] = k[b, :, :count]
        cache.v[layer, b, :, place] = v[b, :, :count]
    cache.lengths[layer] += lengths


def attend(cache, layer, q, lengths):
    batch, heads, t, dim = q.shape
    out = np.zeros_like(q)
    for b, count in enumerate(lengths):
        if count == 0:
            continue
        length = cache.lengths[layer, b]
        k, v = cache.k[layer, b, :, :length], cache.v[layer, b, :, :length]
        queries = q[b, :, :count].reshape(-1, cache.group, count, dim)
        scores = np.einsum("hgid,hjd->hgij", queries, k) / np.float32(np.sqrt(dim))
        position = np.arange(length - count, length)
        scores = np.where(np.arange(length) <= position[:, None], scores, -np.inf)
        weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
        weights /= weights.sum(axis=-1, keepdims=True)
        out[b, :, :count] = np.einsum("hgij,hjd->hgid", weights, v).reshape(heads, count, dim)
    return out


def lengths(cache):
    return cache.lengths


def clear(cache, sequence):
    cache.lengths[:, sequence] = 0


def nbytes(cache):
    return cache.k.nbytes + cache.v.nbytes
