"""Integers of 8 and 4 bits with a scale and an offset for each 32 elements of a head."""

import numpy as np


class Store:
    """Numbers of {(layers, batch, kv_heads, max_len, head_dim)}, in codes."""

    def __init__(self, shape, bits):
        self.bits, self.most = bits, (1 << bits) - 1
        self.codes = np.zeros(shape[:-1] + (shape[-1] * bits // 8,), np.uint8)
        self.starts, self.group_of = np.arange(0, shape[-1], 32), np.arange(shape[-1]) // 32
        groups = (*shape[:-1], len(self.starts))
        self.scale, self.least = np.zeros(groups, np.float16), np.zeros(groups, np.float16)

    def write(self, where, x):
        least = np.minimum.reduceat(x, self.starts, axis=-1).astype(np.float16)
        scale = ((np.maximum.reduceat(x, self.starts, axis=-1) - least) / self.most).astype(np.float16)
        safe = np.where(scale > 0, scale, 1).astype(np.float32)[..., self.group_of]
        codes = np.clip(np.rint((x - least[..., self.group_of].astype(np.float32)) / safe), 0, self.most).astype(np.uint8)
        if self.bits == 4:
            codes = codes[..., 0::2] | codes[..., 1::2] << 4
        self.codes[where], self.scale[where], self.least[where] = codes, scale, least

    def read(self, where):
        codes = self.codes[where]
        if self.bits == 4:
            codes = np.stack([codes & 15, codes >> 4], axis=-1).reshape(*codes.shape[:-1], -1)
        scale, least = self.scale[where].astype(np.float32), self.least[where]
        return codes * scale[..., self.group_of] + least[..., self.group_of]

    @property
    def nbytes(self):
        return self.codes.nbytes + self.scale.nbytes + self.least.nbytes


class Floats:
    """The same in float32 or float16."""

    def __init__(self, shape, bits):
        self.values = np.zeros(shape, np.float32 if bits == 32 else np.float16)
        self.nbytes = self.values.nbytes

    def write(self, where, x):
        self.values[where] = x

    def read(self, where):
        return self.values[where].astype(np.float32)


class Cache:
    def __init__(self, layers, batch, heads, kv_heads, head_dim, max_len, bits):
        self.group, self.max_len = heads // kv_heads, max_len
        shape, store = (layers, batch, kv_heads, max_len, head_dim), Store if bits < 16 else Floats
        self.k, self.v = store(shape, bits), store(shape, bits)
        self.lengths = np.zeros((layers, batch), np.int64)


def create(layers, batch, heads, kv_heads, head_dim, max_len, bits, block_size, num_blocks):
    if heads % kv_heads:
        raise ValueError(f"{heads} heads are no multiple of {kv_heads}")
    if bits not in (32, 16, 8, 4) or block_size:
        raise ValueError("32, 16, 8 or 4 bits, and no pages")
    return Cache(layers, batch, heads, kv_heads, head_dim, max_len, bits)


def append(cache, layer, k, v, lengths):
    start = cache.lengths[layer]
    if np.any(start + lengths > cache.max_len):
        raise ValueError(f"no room for {lengths} more than {start}")
    for b, count in enumerate(lengths):
        if count:
            where = (layer, b, slice(None), slice(start[b], start[b] + count))
            cache.k.write(where, k[b, :, :count])
            cache.v.write(where, v[b, :, :count])
    cache.lengths[layer] += lengths


def attend(cache, layer, q, lengths):
    batch, heads, t, dim = q.shape
    out = np.zeros_like(q)
    for b, count in enumerate(lengths):
        if count == 0:
            continue
        length = cache.lengths[layer, b]
        where = (layer, b, slice(None), slice(0, length))
        k, v = cache.k.read(where), cache.v.read(where)
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
    cache.lengths[:, sequence] = 0


def nbytes(cache):
    return cache.k.nbytes + cache.v.nbytes
