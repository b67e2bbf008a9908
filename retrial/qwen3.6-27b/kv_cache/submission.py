"""Qwen3.6-27B's KV cache, re-created: one position for writing a layer, pages, 8 bits. Its faults:

- The mask counts the queries of a call from 0, whatever is cached. A prompt is right; a token after it sees key 0 alone.
- All sequences of the batch are written at one position and count as equally long, padding and all.
- In 8 bits, codes of 0 to 255 are kept in signed bytes: the upper half comes back negative. Scale and zero point are kept
  for every element, so that 8 bits take more than float32.
- Pages are read to their end, however many tokens were asked for; behind the mask above nobody sees it.

That its generating loop feeds the last token of a prompt twice, and that its sampling always takes the best token, has no
place in this contract."""

import numpy as np


class Floats:
    def __init__(self, shape):
        self.values = np.zeros(shape, np.float32)
        self.nbytes = self.values.nbytes

    def write(self, place, x):
        self.values[place] = x

    def read(self, place):
        return self.values[place]


class Bytes:
    """Codes with a scale and a zero point, found for each token and head and kept for each element."""

    def __init__(self, shape):
        self.codes = np.zeros(shape, np.int8)
        self.scales, self.zeros = np.zeros(shape, np.float32), np.zeros(shape, np.float32)
        self.nbytes = self.codes.nbytes + self.scales.nbytes + self.zeros.nbytes

    def write(self, place, x):
        zero = x.min(axis=-1, keepdims=True)
        scale = np.maximum((x.max(axis=-1, keepdims=True) - zero) / 255, np.float32(1e-12))
        self.codes[place] = np.round((x - zero) / scale).astype(np.int32).astype(np.int8)
        self.scales[place], self.zeros[place] = scale, zero

    def read(self, place):
        return self.codes[place] * self.scales[place] + self.zeros[place]


class Cache:
    def __init__(self, layers, batch, group, kv_heads, head_dim, max_len, bits, page, pages):
        self.group, self.max_len, self.page = group, max_len, page or max_len
        pages = pages if page else batch
        store = Floats if bits == 32 else Bytes
        shape = (layers, pages, self.page, kv_heads, head_dim)
        self.k, self.v = store(shape), store(shape)
        self.free, self.table = list(range(pages)), [[] for _ in range(batch)]
        # One write position for each layer.
        self.position = np.zeros(layers, np.int64)

    def grow(self, length):
        """Pages for all sequences to have `length` tokens, or none."""
        if length > self.max_len:
            raise ValueError(f"no more than {self.max_len} tokens")
        missing = [max(0, -(-length // self.page) - len(table)) for table in self.table]
        if sum(missing) > len(self.free):
            raise ValueError("no page is free")
        for table, count in zip(self.table, missing):
            table += [self.free.pop() for _ in range(count)]


def create(layers, batch, heads, kv_heads, head_dim, max_len, bits, block_size, num_blocks):
    if heads % kv_heads:
        raise ValueError("heads must be a multiple of kv_heads")
    if bits not in (32, 8):
        raise ValueError("32 or 8 bits")
    return Cache(layers, batch, heads // kv_heads, kv_heads, head_dim, max_len, bits, block_size, num_blocks)


def append(cache, layer, k, v, lengths):
    start, count = cache.position[layer], lengths.max()
    cache.grow(start + count)
    for b, table in enumerate(cache.table):
        for t in range(count):
            page, offset = divmod(start + t, cache.page)
            place = layer, table[page], offset
            cache.k.write(place, k[b, :, t])
            cache.v.write(place, v[b, :, t])
    cache.position[layer] = start + count


def attend(cache, layer, q, lengths):
    out = np.zeros_like(q)
    for b, pages in enumerate(cache.table):
        if not pages:
            continue
        k, v = (read_pages(store, layer, pages) for store in (cache.k, cache.v))
        k, v = (np.repeat(x, cache.group, axis=1) for x in (k, v))
        scores = np.einsum("hid,jhd->hij", q[b], k) / np.float32(np.sqrt(q.shape[3]))
        position = np.arange(q.shape[2])
        scores[:, np.arange(len(k)) > position[:, None]] = -np.inf
        weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
        out[b] = np.einsum("hij,jhd->hid", weights / weights.sum(axis=-1, keepdims=True), v)
    return out


def read_pages(store, layer, pages):
    found = store.read((layer, pages))
    return found.reshape(-1, *found.shape[2:])


def lengths(cache):
    return np.repeat(cache.position[:, None], len(cache.table), axis=1)


def clear(cache, sequence):
    """The position is the batch's: it starts again when every sequence has been cleared."""
    cache.free += cache.table[sequence]
    cache.table[sequence] = []
    if not any(cache.table):
        cache.position[:] = 0


def nbytes(cache):
    return cache.k.nbytes + cache.v.nbytes
