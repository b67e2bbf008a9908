"""GLM-5's KV cache, re-created: keys and values in pages or in one piece, in float32, 8 or 4 bits with a scale and a zero
point for each token and head, and attention in loops over sequences and heads. Its faults:

- There is no mask anywhere, so the tokens of a prompt see those that come after them.
- An update writes equally many tokens for all sequences, as many as the longest has: padding is cached with the rest.

The original has no grouped queries, its caches come into being only if the caller sets a missing attribute, and pages and
few bits are classes of their own. All this is mended here, or else the contract would see nothing of the faults above."""

import numpy as np


class Store:
    """Numbers of shape (layers, pages, page, heads, dim), as float32 or as codes of 0 to 255 or 15."""

    def __init__(self, shape, bits):
        self.bits = bits
        if bits == 32:
            self.parts = [np.zeros(shape, np.float32)]
        else:
            codes = np.zeros((*shape[:-1], shape[-1] * bits // 8), np.uint8)
            self.parts = [codes, np.zeros((*shape[:-1], 1), np.float32), np.zeros((*shape[:-1], 1), np.float32)]

    def write(self, place, x):
        if self.bits == 32:
            self.parts[0][place] = x
            return
        low = x.min(axis=-1, keepdims=True)
        scale = (x.max(axis=-1, keepdims=True) - low) / (2**self.bits - 1)
        codes = np.round((x - low) / np.where(scale > 0, scale, 1)).astype(np.uint8)
        if self.bits == 4:
            codes = codes[..., ::2] << 4 | codes[..., 1::2]
        for part, value in zip(self.parts, (codes, scale, low)):
            part[place] = value

    def read(self, layer, pages):
        found = [part[layer, pages].reshape(-1, *part.shape[3:]) for part in self.parts]
        if self.bits == 32:
            return found[0]
        codes, scale, low = found
        if self.bits == 4:
            codes = np.stack([codes >> 4, codes & 15], axis=-1).reshape(*codes.shape[:-1], -1)
        return codes * scale + low

    def nbytes(self):
        return sum(part.nbytes for part in self.parts)


class Cache:
    def __init__(self, layers, batch, heads, kv_heads, head_dim, max_len, bits, page, pages):
        self.group, self.max_len, self.page = heads // kv_heads, max_len, page or max_len
        pages = pages if page else batch
        shape = (layers, pages, self.page, kv_heads, head_dim)
        self.k, self.v = Store(shape, bits), Store(shape, bits)
        self.free, self.table = list(range(pages)), [[] for _ in range(batch)]
        self.seq_lens = np.zeros((layers, batch), np.int64)

    def grow(self, length):
        """Pages for all sequences to have `length[b]` tokens, or none."""
        if max(length) > self.max_len:
            raise ValueError(f"no more than {self.max_len} tokens")
        missing = [max(0, -(-n // self.page) - len(table)) for n, table in zip(length, self.table)]
        if sum(missing) > len(self.free):
            raise ValueError("no page is free")
        for table, count in zip(self.table, missing):
            table += [self.free.pop() for _ in range(count)]


def create(layers, batch, heads, kv_heads, head_dim, max_len, bits, block_size, num_blocks):
    if heads % kv_heads:
        raise ValueError("heads must be a multiple of kv_heads")
    if bits not in (32, 8, 4):
        raise ValueError("32, 8 or 4 bits")
    return Cache(layers, batch, heads, kv_heads, head_dim, max_len, bits, block_size, num_blocks)


def append(cache, layer, k, v, lengths):
    count = lengths.max()
    cache.grow(cache.seq_lens[layer] + count)
    for b, start in enumerate(cache.seq_lens[layer]):
        for t in range(count):
            page, offset = divmod(start + t, cache.page)
            place = layer, cache.table[b][page], offset
            cache.k.write(place, k[b, :, t])
            cache.v.write(place, v[b, :, t])
    cache.seq_lens[layer] += count


def attend(cache, layer, q, lengths):
    out = np.zeros_like(q)
    for b, length in enumerate(cache.seq_lens[layer]):
        if length == 0:
            continue
        pages = cache.table[b]
        k, v = cache.k.read(layer, pages)[:length], cache.v.read(layer, pages)[:length]
        for h in range(q.shape[1]):
            scores = q[b, h] @ k[:, h // cache.group].T / np.float32(np.sqrt(q.shape[3]))
            weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
            out[b, h] = weights / weights.sum(axis=-1, keepdims=True) @ v[:, h // cache.group]
    return out


def lengths(cache):
    return cache.seq_lens.copy()


def clear(cache, sequence):
    cache.free += cache.table[sequence]
    cache.table[sequence] = []
    cache.seq_lens[:, sequence] = 0


def nbytes(cache):
    return cache.k.nbytes() + cache.v.nbytes()
