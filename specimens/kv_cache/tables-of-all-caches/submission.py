"""Blocks of tokens, shared between forks until one of them writes. The tables are the class's, and with that every cache's."""

import numpy as np


class Cache:
    tables = []

    def __init__(self, layers, batch, heads, kv_heads, head_dim, max_len, block_size, num_blocks):
        self.group, self.max_len, self.size = heads // kv_heads, max_len, block_size or max_len
        shape = (layers, num_blocks or batch, self.size, kv_heads, head_dim)
        self.k, self.v = np.zeros(shape, np.float32), np.zeros(shape, np.float32)
        self.free = list(range(shape[1]))
        self.users = [0] * shape[1]
        self.tables[:] = [[] for _ in range(batch)]
        self.lengths = np.zeros((layers, batch), np.int64)

    def missing(self, start, lengths):
        """How many blocks the new tokens take: those that are not there, and copies of shared ones for all but one user."""
        missing, writers = 0, {}
        for table, begin, count in zip(self.tables, start, lengths):
            end = begin + count
            missing += max(0, -(-end // self.size) - len(table))
            for block in table[begin // self.size : -(-end // self.size)] if count else []:
                writers[block] = writers.get(block, 0) + 1
        return missing + sum(min(count, self.users[block] - 1) for block, count in writers.items())

    def own(self, sequence, index):
        """The block at that place of the table, in nobody else's hands."""
        table = self.tables[sequence]
        if index == len(table):
            table.append(self.take())
        elif self.users[table[index]] > 1:
            block = self.take()
            self.k[:, block], self.v[:, block] = self.k[:, table[index]], self.v[:, table[index]]
            self.users[table[index]] -= 1
            table[index] = block
        return table[index]

    def take(self):
        block = self.free.pop()
        self.users[block] = 1
        return block

    def gather(self, store, layer, sequence, length):
        blocks = self.tables[sequence][: -(-length // self.size)]
        return store[layer, blocks].reshape(-1, *store.shape[3:])[:length]


def create(layers, batch, heads, kv_heads, head_dim, max_len, bits, block_size, num_blocks):
    if heads % kv_heads:
        raise ValueError(f"{heads} heads are no multiple of {kv_heads}")
    if bits != 32:
        raise ValueError("only float32")
    return Cache(layers, batch, heads, kv_heads, head_dim, max_len, block_size, num_blocks)


def append(cache, layer, k, v, lengths):
    start = cache.lengths[layer]
    if np.any(start + lengths > cache.max_len):
        raise ValueError(f"no room for {lengths} more than {start}")
    if cache.missing(start, lengths) > len(cache.free):
        raise ValueError("out of blocks")
    for b, count in enumerate(lengths):
        for i in range(count):
            index, place = divmod(start[b] + i, cache.size)
            block = cache.own(b, index)
            cache.k[layer, block, place], cache.v[layer, block, place] = k[b, :, i], v[b, :, i]
    cache.lengths[layer] += lengths


def attend(cache, layer, q, lengths):
    batch, heads, t, dim = q.shape
    out = np.zeros_like(q)
    for b, count in enumerate(lengths):
        if count == 0:
            continue
        length = cache.lengths[layer, b]
        k, v = cache.gather(cache.k, layer, b, length), cache.gather(cache.v, layer, b, length)
        queries = q[b, :, :count].reshape(-1, cache.group, count, dim)
        scores = np.einsum("hgid,jhd->hgij", queries, k) / np.float32(np.sqrt(dim))
        position = np.arange(length - count, length)
        scores = np.where(np.arange(length) <= position[:, None], scores, -np.inf)
        weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
        weights /= weights.sum(axis=-1, keepdims=True)
        out[b, :, :count] = np.einsum("hgij,jhd->hgid", weights, v).reshape(heads, count, dim)
    return out


def lengths(cache):
    return cache.lengths.copy()


def clear(cache, sequence):
    for block in cache.tables[sequence]:
        cache.users[block] -= 1
        if cache.users[block] == 0:
            cache.free.append(block)
    cache.tables[sequence] = []
    cache.lengths[:, sequence] = 0


def fork(cache, source, target):
    for block in cache.tables[source]:
        cache.users[block] += 1
    cache.tables[target] = list(cache.tables[source])
    cache.lengths[:, target] = cache.lengths[:, source]


def nbytes(cache):
    return cache.k.nbytes + cache.v.nbytes
