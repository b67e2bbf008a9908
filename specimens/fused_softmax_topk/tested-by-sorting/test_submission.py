"""Against a full sort in float64: probabilities, the pairing of indices with them, and what has no answer."""

import numpy as np
import pytest

from submission import softmax_topk


def softmax(logits):
    wide = logits.astype(np.float64)
    terms = np.exp(wide - wide.max(axis=-1, keepdims=True))
    return terms / terms.sum(axis=-1, keepdims=True)


def agree(logits, k, sharp=3e-6):
    before = logits.copy()
    probs, indices = softmax_topk(logits, k)
    due = softmax(logits)
    assert probs.shape == indices.shape == (*logits.shape[:-1], k)
    assert probs.dtype == np.float32
    np.testing.assert_allclose(probs, -np.sort(-due, axis=-1)[..., :k], rtol=sharp, atol=1e-42)
    np.testing.assert_allclose(np.take_along_axis(due, indices.astype(np.int64), -1), probs, rtol=sharp, atol=1e-42)
    assert all(len(set(row)) == k for row in indices.reshape(-1, k).tolist())
    assert np.array_equal(logits, before)


def draw(shape, scale=3.0, offset=0.0, seed=0, dtype=np.float32):
    return (offset + scale * np.random.default_rng(seed).standard_normal(shape)).astype(dtype)


SIZES = [(vocab, k) for vocab in (1, 5, 31, 33, 64, 999, 1030, 4099) for k in (1, 2, 10, 33, 300) if k <= vocab]


@pytest.mark.parametrize("vocab, k", SIZES)
def test_sizes(vocab, k):
    agree(draw((3, 5, vocab), seed=vocab), k)


def test_all_of_a_row():
    agree(draw((2, 3, 257)), 257)


def test_a_large_vocabulary():
    agree(draw((1, 2, 131_071), scale=2.0), 50)


@pytest.mark.parametrize("offset", [-3e4, -200.0, 200.0, 1e4])
def test_logits_far_from_zero(offset):
    agree(np.round(draw((2, 2, 500), offset=offset) * 64) / np.float32(64), 20)


@pytest.mark.parametrize("order", [1, -1])
def test_rising_and_falling_rows(order):
    agree(np.linspace(-40, 40, 700, dtype=np.float32)[::order].reshape(1, 1, -1).copy(), 40)


def test_each_row_has_its_own_scale():
    agree(draw((4, 4, 128)) + np.arange(0, 160, 10, dtype=np.float32).reshape(4, 4, 1), 9)


@pytest.mark.parametrize("stride, first", [(32, 3), (16, 15), (8, 0), (256, 255)])
def test_winners_in_one_stride(stride, first):
    logits = draw((2, 2, 8192), scale=0.1)
    logits[..., first::stride] += 9
    agree(logits, 32)
    logits = draw((2, 2, 8192), scale=0.1, seed=4)
    logits[..., 7000:7064] += 9
    agree(logits, 64)


@pytest.mark.parametrize("place", [0, 1, 2, 1021, 1022, 1026])
def test_the_winner_at_either_end(place):
    logits = draw((2, 3, 1027), scale=0.5)
    logits[..., place] = 12
    agree(logits, 5)


def test_masks_are_named_last_and_once():
    logits = draw((2, 2, 40))
    logits[..., 3:] = -np.inf
    agree(logits, 3)
    probs, indices = softmax_topk(logits, 6)
    assert np.all(probs[..., 3:] == 0)
    assert all(len(set(row)) == 6 and min(row) >= 0 for row in indices.reshape(-1, 6).tolist())


def test_a_row_without_softmax_has_no_answer():
    for bad in (np.nan, -np.inf):
        logits = draw((1, 2, 24))
        if np.isnan(bad):
            logits[0, 0, 5] = bad
        else:
            logits[0, 0] = bad
        try:
            probs = softmax_topk(logits, 4)[0]
        except Exception:
            continue
        row = probs[0, 0]
        assert np.isnan(row).all() or (row == 0).all() or (np.isinf(bad) and np.allclose(row, 1 / 24))


def test_more_winners_than_entries():
    logits = draw((1, 2, 6))
    try:
        probs, indices = softmax_topk(logits, 9)
    except Exception:
        return
    assert np.all(probs[..., 6:] == 0) and np.all(indices[..., 6:] == -1)


def test_another_shape_after_the_first():
    agree(draw((1, 4, 100)), 7)
    agree(draw((4, 1, 90), seed=5), 6)


def test_half_precision_logits():
    agree(draw((2, 2, 300), dtype=np.float16), 12)


def test_small_probabilities_keep_their_digits():
    logits = draw((2, 2, 600), scale=4.0)
    logits[..., 0] = 20
    # 20 units of rounding in the difference of two logits.
    agree(logits, 400, sharp=1e-5)


def test_long_sums():
    agree(np.zeros((1, 1, 300_000), np.float32) + draw((1, 1, 300_000), scale=1e-3), 3)
