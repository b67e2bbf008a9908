"""Lists of tokens, and float64 for everything that is computed."""

import numpy as np


def create(layers, batch, heads, kv_heads, head_dim, max_len, bits, block_size, num_blocks):
    if heads % kv_heads or bits != 32 or block_size:
        raise ValueError("only float32 without pages, heads a multiple of kv_heads")
    held = [[[] for _ in range(batch)] for _ in range(layers)]
    return {"held": held, "most": max_len, "group": heads // kv_heads}


def append(cache, layer, k, v, lengths):
    held = cache["held"][layer]
    if any(len(tokens) + count > cache["most"] for tokens, count in zip(held, lengths)):
        raise ValueError("longer than max_len")
    for b, count in enumerate(lengths):
        held[b].extend((k[b, :, i].copy(), v[b, :, i].copy()) for i in range(count))


def attend(cache, layer, q, lengths):
    out = np.full_like(q, np.nan)
    for b, count in enumerate(lengths):
        tokens = cache["held"][layer][b]
        for i in range(count):
            seen = tokens[: len(tokens) - count + i + 1]
            for h in range(q.shape[1]):
                kv = h // cache["group"]
                k = np.array([token[0][kv] for token in seen], np.float64)
                v = np.array([token[1][kv] for token in seen], np.float64)
                scores = k @ q[b, h, i].astype(np.float64) / np.sqrt(q.shape[3])
                weights = np.exp(scores - scores.max())
                out[b, h, i] = weights @ v / weights.sum()
    return out


def lengths(cache):
    return np.array([[len(tokens) for tokens in held] for held in cache["held"]], np.int64)


def clear(cache, sequence):
    for held in cache["held"]:
        held[sequence] = []


def nbytes(cache):
    return sum(k.nbytes + v.nbytes for held in cache["held"] for tokens in held for k, v in tokens)
