#!/usr/bin/env python3
"""What rounding a KV cache to few bits does to attention, by what a scale is shared by. Needs numpy; takes some seconds.

    python benches/kv_cache_rounding.py

Prints the mean absolute difference from attention without rounding: 32 queries of one head of 128 over 1024 tokens, all
normally distributed; with outliers, four channels of the keys are ten times as large. Values have a scale for each token
throughout. Scales are float16, codes lie on both sides of zero.
"""
import numpy as np

TOKENS, DIM, QUERIES, DRAWS = 1024, 128, 32, 6


def rounded(x, bits, axis):
    """To codes of so many bits, with one scale along the axis."""
    most = 2 ** (bits - 1) - 1
    scale = (np.abs(x).max(axis=axis, keepdims=True) / most).astype(np.float16).astype(np.float64)
    return np.clip(np.rint(x / scale), -most, most) * scale


def by_channel(keys, bits, block):
    """A scale for each channel of each block of tokens."""
    blocks = keys.reshape(-1, block, DIM)
    return rounded(blocks, bits, 1).reshape(keys.shape)


def hadamard(size):
    matrix = np.ones((1, 1))
    while len(matrix) < size:
        matrix = np.block([[matrix, matrix], [matrix, -matrix]])
    return matrix / np.sqrt(size)


def attention(queries, keys, values):
    scores = queries @ keys.T / np.sqrt(DIM)
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    return weights @ values / weights.sum(axis=1, keepdims=True)


def ways(bits, rng):
    """Name, and what becomes of queries and keys."""
    rotation = hadamard(DIM) * rng.choice([-1, 1], DIM)
    yield "per token", lambda q, k: (q, rounded(k, bits, 1))
    for block in (16, 64, 128):
        yield f"channel / {block}", lambda q, k, block=block: (q, by_channel(k, bits, block))
    yield "rotated", lambda q, k: (q @ rotation.T, rounded(k @ rotation.T, bits, 1))
    yield "rotated, queries too", lambda q, k: (rounded(q @ rotation.T, 8, 1), rounded(k @ rotation.T, bits, 1))


def main():
    print("| | " + " | ".join(name for name, _ in ways(8, np.random.default_rng(0))) + " |")
    for bits in (8, 4):
        for outliers in (False, True):
            rng = np.random.default_rng(1)
            errors = []
            for _ in range(DRAWS):
                q, k, v = (rng.standard_normal((n, DIM)) for n in (QUERIES, TOKENS, TOKENS))
                if outliers:
                    k[:, rng.choice(DIM, 4, replace=False)] *= 10
                right, kept = attention(q, k, v), rounded(v, bits, 1)
                errors.append([np.abs(attention(*way(q, k), kept) - right).mean() for _, way in ways(bits, rng)])
            name = f"int{bits}, outliers" if outliers else f"int{bits}"
            print(f"| {name} | " + " | ".join(f"{error:.2g}" for error in np.mean(errors, axis=0)) + " |")


main()
