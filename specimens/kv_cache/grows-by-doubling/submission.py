"""Arrays that double when they are full."""

import numpy as np


class Grown:
    """Keys and values of a sequence in one layer as (2, kv_heads, room, head_dim)."""

    def __init__(self, kv_heads, head_dim):
        self.kv, self.length = np.empty((2, kv_heads, 0, head_dim), np.float32), 0

    def append(self, k, v):
        end, room = self.length + k.shape[1], self.kv.shape[2]
        if end > room:
            grown = np.empty((*self.kv.shape[:2], max(end, 2 * room), self.kv.shape[3]), np.float32)
            grown[:, :, : self.length] = self.kv[:, :, : self.length]
            self.kv = grown
        self.kv[0, :, self.length : end], self.kv[1, :, self.length : end] = k, v
        self.length = end


class Cache:
    def __init__(self, layers, batch, heads, kv_heads, head_dim, max_len):
        self.group, self.max_len = heads // kv_heads, max_len
        self.new = lambda: Grown(kv_heads, head_dim)
        self.layers = [[self.new() for _ in range(batch)] for _ in range(layers)]


def create(layers, batch, heads, kv_heads, head_dim, max_len, bits, block_size, num_blocks):
    if heads % kv_heads:
        raise ValueError(f"{heads} heads are no multiple of {kv_heads}")
    if bits != 32 or block_size:
        raise ValueError("only float32 without pages")
    return Cache(layers, batch, heads, kv_heads, head_dim, max_len)


def append(cache, layer, k, v, lengths):
    if any(held.length + count > cache.max_len for held, count in zip(cache.layers[layer], lengths)):
        raise ValueError(f"no room for {lengths} more")
    for b, count in enumerate(lengths):
        cache.layers[layer][b].append(k[b, :, :count], v[b, :, :count])


def attend(cache, layer, q, lengths):
    batch, heads, t, dim = q.shape
    out = np.zeros_like(q)
    for b, count in enumerate(lengths):
        if count == 0:
            continue
        length = cache.layers[layer][b].length
        k, v = cache.layers[layer][b].kv[:, :, :length]
        queries = q[b, :, :count].reshape(-1, cache.group, count, dim)
        scores = np.einsum("hgid,hjd->hgij", queries, k) / np.float32(np.sqrt(dim))
        position = np.arange(length - count, length)
        scores = np.where(np.arange(length) <= position[:, None], scores, -np.inf)
        weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
        weights /= weights.sum(axis=-1, keepdims=True)
        out[b, :, :count] = np.einsum("hgij,hjd->hgid", weights, v).reshape(heads, count, dim)
    return out


def lengths(cache):
    return np.array([[held.length for held in layer] for layer in cache.layers], np.int64)


def clear(cache, sequence):
    for layer in cache.layers:
        layer[sequence] = cache.new()


def nbytes(cache):
    return sum(held.kv.nbytes for layer in cache.layers for held in layer)
