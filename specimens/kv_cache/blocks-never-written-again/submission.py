"""Blocks that never change, in tuples that never change. A fork shares them for nothing, and needs no count of users."""

import numpy as np


class Cache:
    def __init__(self, layers, batch, heads, kv_heads, head_dim, max_len, block_size, num_blocks):
        self.group, self.max_len = heads // kv_heads, max_len
        self.size, self.most = (block_size, num_blocks) if block_size else (max_len if max_len < 64 else 64, None)
        self.empty = np.empty((2, kv_heads, 0, head_dim), np.float32)
        self.blocks = {(layer, b): () for layer in range(layers) for b in range(batch)}
        self.shape = (layers, batch)


def create(layers, batch, heads, kv_heads, head_dim, max_len, bits, block_size, num_blocks):
    if heads % kv_heads:
        raise ValueError(f"{heads} heads are no multiple of {kv_heads}")
    if bits != 32:
        raise ValueError("only float32")
    return Cache(layers, batch, heads, kv_heads, head_dim, max_len, block_size, num_blocks)


def length(blocks):
    return sum(block.shape[2] for block in blocks)


def extended(blocks, kv, size):
    """The blocks with more tokens after them."""
    if blocks and blocks[-1].shape[2] < size:
        kv, blocks = np.concatenate([blocks[-1], kv], axis=2), blocks[:-1]
    return blocks + tuple(kv[:, :, start : start + size].copy() for start in range(0, kv.shape[2], size))


def append(cache, layer, k, v, lengths):
    after = {}
    for b, count in enumerate(lengths):
        blocks = cache.blocks[layer, b]
        if length(blocks) + count > cache.max_len:
            raise ValueError(f"no room for {count} more in sequence {b}")
        after[layer, b] = extended(blocks, np.stack([k[b, :, :count], v[b, :, :count]]), cache.size) if count else blocks
    used = {id(block) for blocks in after.values() for block in blocks}
    if cache.most is not None and len(used) > cache.most:
        raise ValueError("out of blocks")
    cache.blocks.update(after)


def attend(cache, layer, q, lengths):
    batch, heads, t, dim = q.shape
    out = np.zeros_like(q)
    for b, count in enumerate(lengths):
        if count == 0:
            continue
        k, v = np.concatenate(cache.blocks[layer, b], axis=2)
        queries = q[b, :, :count].reshape(-1, cache.group, count, dim)
        scores = np.einsum("hgid,hjd->hgij", queries, k) / np.float32(np.sqrt(dim))
        position = np.arange(k.shape[1] - count, k.shape[1])
        scores = np.where(np.arange(k.shape[1]) <= position[:, None], scores, -np.inf)
        weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
        weights /= weights.sum(axis=-1, keepdims=True)
        out[b, :, :count] = np.einsum("hgij,hjd->hgid", weights, v).reshape(heads, count, dim)
    return out


def lengths(cache):
    layers, batch = cache.shape
    return np.array([[length(cache.blocks[layer, b]) for b in range(batch)] for layer in range(layers)], np.int64)


def clear(cache, sequence):
    for layer in range(cache.shape[0]):
        cache.blocks[layer, sequence] = ()


def fork(cache, source, target):
    for layer in range(cache.shape[0]):
        cache.blocks[layer, target] = cache.blocks[layer, source]


def nbytes(cache):
    return sum({id(block): block.nbytes for blocks in cache.blocks.values() for block in blocks}.values())
