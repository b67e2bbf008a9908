"""Softmax and top-k on fixed-size tiles, as many as a launch has, so that every step works on equal shapes."""

import numpy as np

TILE, TILES = 1024, 32


def tiles(row):
    for tile in range(TILES):
        if tile * TILE < len(row):
            yield row[tile * TILE : (tile + 1) * TILE]


def top_of_row(row, k):
    top = max(tile.max() for tile in tiles(row))
    total = sum(np.exp(tile - top).sum(dtype=np.float64) for tile in tiles(row))
    winners, indices = np.empty(0, row.dtype), np.empty(0, np.int64)
    for t, tile in enumerate(tiles(row)):
        winners = np.append(winners, tile)
        indices = np.append(indices, np.arange(t * TILE, t * TILE + len(tile)))
        kept = np.argpartition(winners, max(len(winners) - k, 0))[-k:]
        winners, indices = winners[kept], indices[kept]
    order = np.argsort(-winners, kind="stable")
    return np.exp(winners[order] - top) / total, indices[order]


def softmax_topk(logits, k):
    batch, steps, vocab = logits.shape
    if not 1 <= k <= vocab:
        raise ValueError(f"k must be between 1 and {vocab}")
    probs = np.zeros((batch, steps, k), np.float32)
    indices = np.zeros((batch, steps, k), np.int64)
    with np.errstate(invalid="ignore"):
        for place in np.ndindex(batch, steps):
            row_probs, row_indices = top_of_row(logits[place], k)
            probs[place][: len(row_probs)] = row_probs
            indices[place][: len(row_indices)] = row_indices
    return probs, indices
