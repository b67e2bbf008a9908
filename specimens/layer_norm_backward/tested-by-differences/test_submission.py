"""Compares with the definition in float64, and the gradients with central differences of it."""

import numpy as np
import pytest

from submission import backward, forward

SHAPES = [(3, 7), (1, 16), (4, 1), (2, 3, 8), (3, 5, 13), (2, 2, 1300), (1, 4, 33)]
EPS = [1e-5, 1e-3, 0.5]


def definition(x, gamma, beta, eps):
    x = x.astype(np.float64)
    centred = x - x.mean(axis=-1, keepdims=True)
    rstd = 1 / np.sqrt((centred**2).mean(axis=-1, keepdims=True) + eps)
    return centred * rstd * gamma + beta


def gradients(x, gamma, dy, eps):
    x, gamma, dy = (a.astype(np.float64) for a in (x, gamma, dy))
    centred = x - x.mean(axis=-1, keepdims=True)
    rstd = 1 / np.sqrt((centred**2).mean(axis=-1, keepdims=True) + eps)
    xhat = centred * rstd
    g = dy * gamma
    dx = rstd * (g - g.mean(-1, keepdims=True) - xhat * (g * xhat).mean(-1, keepdims=True))
    rows = tuple(range(x.ndim - 1))
    return dx, (dy * xhat).sum(rows), dy.sum(rows)


def inputs(shape, dtype=np.float64, offset=0.0, scale=1.0, seed=0):
    rng = np.random.default_rng(seed)
    x = (offset + scale * rng.standard_normal(shape)).astype(dtype)
    gamma = rng.uniform(0.5, 2, shape[-1]).astype(dtype)
    beta = rng.standard_normal(shape[-1]).astype(dtype)
    dy = (rng.standard_normal(shape) + 0.3).astype(dtype)
    return x, gamma, beta, dy


def close(actual, expected, tolerance):
    assert actual.shape == expected.shape
    error = np.abs(actual.astype(np.float64) - expected)
    assert np.all(error <= tolerance * (1 + np.abs(expected).max(initial=0)))


@pytest.mark.parametrize("eps", EPS)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype, tolerance", [(np.float64, 1e-11), (np.float32, 2e-5)])
def test_against_the_definition(shape, eps, dtype, tolerance):
    x, gamma, beta, dy = inputs(shape, dtype)
    y, cache = forward(x, gamma, beta, eps)
    close(y, definition(x, gamma, beta, eps), tolerance)
    for actual, expected in zip(backward(dy, cache), gradients(x, gamma, dy, eps), strict=True):
        close(actual, expected, tolerance * max(1, np.prod(shape[:-1])))


def test_against_central_differences():
    x, gamma, beta, dy = inputs((2, 3, 5), seed=1)
    dx = backward(dy, forward(x, gamma, beta, 1e-3)[1])[0]
    step = 1e-6
    for at in np.ndindex(x.shape):
        up, down = x.copy(), x.copy()
        up[at] += step
        down[at] -= step
        slope = (dy * (definition(up, gamma, beta, 1e-3) - definition(down, gamma, beta, 1e-3))).sum() / (2 * step)
        assert abs(dx[at] - slope) < 1e-6


@pytest.mark.parametrize("offset, scale", [(1000.0, 1.0), (30.0, 0.01), (0.0, 1e-4), (1e4, 3.0)])
def test_where_the_mean_is_far_from_zero(offset, scale):
    x, gamma, beta, dy = inputs((4, 96), np.float32, offset, scale)
    y, cache = forward(x, gamma, beta, 1e-5)
    close(y, definition(x, gamma, beta, 1e-5), 1e-6 * max(20, abs(offset) / max(scale, 3e-3)))
    expected = gradients(x, gamma, dy, 1e-5)
    for actual, due in zip(backward(dy, cache), expected, strict=True):
        close(actual, due, 1e-6 * max(50, abs(offset) / max(scale, 3e-3)))


def test_long_rows_keep_their_digits():
    x, gamma, beta, dy = inputs((2, 200_000), np.float32, 5.0, 1.0, seed=7)
    y, cache = forward(x, gamma, beta, 1e-5)
    close(y, definition(x, gamma, beta, 1e-5), 3e-6)


def test_constant_rows_are_finite():
    x = np.full((3, 8), 2.5, np.float32)
    x[1] = np.arange(8)
    gamma, beta, dy = np.ones(8, np.float32), np.zeros(8, np.float32), inputs((3, 8), np.float32)[3]
    y, cache = forward(x, gamma, beta, 1e-5)
    close(y, definition(x, gamma, beta, 1e-5), 1e-5)
    close(backward(dy, cache)[0], gradients(x, gamma, dy, 1e-5)[0], 2e-4)


def test_each_cache_is_its_own_and_lasts():
    first, second = inputs((3, 7), seed=2), inputs((3, 7), seed=3)
    caches = [forward(*one[:3], 1e-5)[1] for one in (first, second)]
    for _ in range(2):
        for (x, gamma, _, dy), cache in zip((first, second), caches, strict=True):
            close(backward(dy, cache)[0], gradients(x, gamma, dy, 1e-5)[0], 1e-11)


def test_inputs_stay_as_they_are():
    x, gamma, beta, dy = inputs((2, 3, 8))
    before = [a.copy() for a in (x, gamma, beta, dy)]
    backward(dy, forward(x, gamma, beta, 1e-5)[1])
    for a, b in zip((x, gamma, beta, dy), before, strict=True):
        assert np.array_equal(a, b)


def test_what_does_not_fit_is_refused():
    x, gamma, beta, dy = inputs((2, 3, 8))
    for length in (5, 11):
        with pytest.raises(Exception):
            forward(x, np.ones(length), beta, 1e-5)
        with pytest.raises(Exception):
            forward(x, gamma, np.ones(length), 1e-5)
        cache = forward(x, gamma, beta, 1e-5)[1]
        with pytest.raises(Exception):
            backward(np.ones((2, 3, length)), cache)
