"""Keeps everything that was ever appended, and computes attention over it in float64."""

import numpy as np
import pytest

import submission


class Kept:
    """A cache beside one that keeps lists."""

    def __init__(self, layers=2, batch=3, heads=4, kv_heads=2, dim=8, max_len=40, seed=0):
        self.rng = np.random.default_rng(seed)
        self.shape = layers, batch, heads, kv_heads, dim
        self.max_len = max_len
        self.cache = submission.create(layers, batch, heads, kv_heads, dim, max_len, 32, 0, 0)
        empty = lambda: np.zeros((kv_heads, 0, dim))
        self.k = [[empty() for _ in range(batch)] for _ in range(layers)]
        self.v = [[empty() for _ in range(batch)] for _ in range(layers)]

    def append(self, layer, counts, scale=1.0):
        _, batch, _, kv_heads, dim = self.shape
        counts = np.array(counts, np.int64)
        t = max(int(counts.max()), 1)
        k, v = ((scale * self.rng.standard_normal((batch, kv_heads, t, dim))).astype(np.float32) for _ in range(2))
        before = k.copy(), v.copy()
        submission.append(self.cache, layer, k, v, counts)
        assert np.array_equal(k, before[0]) and np.array_equal(v, before[1])
        for b, count in enumerate(counts):
            self.k[layer][b] = np.concatenate([self.k[layer][b], before[0][b, :, :count]], axis=1)
            self.v[layer][b] = np.concatenate([self.v[layer][b], before[1][b, :, :count]], axis=1)
        return counts, t

    def attend(self, layer, counts, t, scale=1.0):
        _, batch, heads, kv_heads, dim = self.shape
        q = (scale * self.rng.standard_normal((batch, heads, t, dim))).astype(np.float32)
        out = submission.attend(self.cache, layer, q, counts)
        for b, count in enumerate(counts):
            length = self.k[layer][b].shape[1]
            for h in range(heads):
                k, v = self.k[layer][b][h // (heads // kv_heads)], self.v[layer][b][h // (heads // kv_heads)]
                for i in range(count):
                    seen = length - count + i + 1
                    scores = k[:seen] @ q[b, h, i].astype(np.float64) / np.sqrt(dim)
                    weights = np.exp(scores - scores.max())
                    due = weights @ v[:seen] / weights.sum()
                    np.testing.assert_allclose(out[b, h, i], due, rtol=2e-5, atol=2e-5 * max(1, np.abs(v).max()))

    def step(self, counts, scale=1.0):
        for layer in range(self.shape[0]):
            self.attend(layer, *self.append(layer, counts, scale), scale)
        self.lengths()

    def lengths(self):
        due = [[k.shape[1] for k in layer] for layer in self.k]
        assert np.array_equal(submission.lengths(self.cache), due)

    def clear(self, sequence):
        submission.clear(self.cache, sequence)
        for layer in range(self.shape[0]):
            self.k[layer][sequence] = self.k[layer][sequence][:, :0]
            self.v[layer][sequence] = self.v[layer][sequence][:, :0]


def test_prefill_then_decode():
    kept = Kept()
    kept.step([7, 7, 7])
    for _ in range(5):
        kept.step([1, 1, 1])


def test_ragged():
    kept = Kept(seed=1)
    for counts in ([5, 0, 9], [1, 1, 1], [0, 4, 2], [1, 0, 1], [3, 3, 1]):
        kept.step(counts)


def test_many_tokens():
    kept = Kept(batch=2, max_len=200, seed=2)
    kept.step([70, 33])
    for _ in range(4):
        kept.step([17, 20])


@pytest.mark.parametrize("heads, kv_heads", [(1, 1), (4, 4), (6, 2), (8, 1), (6, 3)])
def test_groups_of_heads(heads, kv_heads):
    kept = Kept(heads=heads, kv_heads=kv_heads, seed=3)
    kept.step([4, 2, 6])
    kept.step([1, 1, 1])


def test_scores_that_are_large():
    kept = Kept(seed=4)
    kept.step([6, 3, 9], scale=12.0)
    kept.step([1, 1, 1], scale=12.0)


def test_layers_are_apart_and_may_differ():
    kept = Kept(layers=3, seed=5)
    kept.append(0, [4, 1, 2])
    kept.append(2, [1, 5, 3])
    kept.lengths()
    kept.attend(0, *kept.append(0, [1, 1, 1]))
    kept.attend(1, *kept.append(1, [2, 2, 2]))
    kept.attend(2, *kept.append(2, [1, 2, 1]))
    kept.lengths()


def test_a_cleared_sequence_begins_anew():
    kept = Kept(seed=6)
    kept.step([8, 5, 3])
    kept.clear(1)
    kept.lengths()
    kept.step([1, 4, 1])
    kept.clear(0)
    kept.step([2, 1, 1])


def test_what_does_not_fit_is_refused_whole():
    kept = Kept(max_len=10, seed=7)
    kept.step([4, 8, 2])
    with pytest.raises(Exception):
        shape = (3, 2, 3, 8)
        submission.append(kept.cache, 0, np.ones(shape, np.float32), np.ones(shape, np.float32), np.array([3, 3, 3]))
    kept.lengths()
    kept.step([1, 2, 1])
    kept.step([5, 0, 7])


def test_what_cannot_be_is_refused():
    with pytest.raises(Exception):
        submission.create(1, 1, 5, 2, 8, 16, 32, 0, 0)


def test_two_caches_at_once():
    first, second = Kept(seed=8), Kept(seed=9)
    for _ in range(3):
        first.step([2, 1, 3])
        second.step([1, 3, 2])


def test_bytes_cover_what_is_kept():
    kept = Kept(layers=2, batch=3, kv_heads=2, dim=8, max_len=40)
    kept.step([40, 40, 40])
    assert submission.nbytes(kept.cache) >= 2 * 2 * 3 * 2 * 40 * 8 * 4
