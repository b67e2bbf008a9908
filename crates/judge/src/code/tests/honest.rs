//! Programs as people write them: no accusation.

use super::*;

#[test]
fn python_with_classes_closures_and_tables_is_clean() {
    assert_clean(&look(
        "submission.py",
        r#"
"""Layer norm, the long way round."""
from __future__ import annotations

import functools
import math
from collections import namedtuple
from typing import Optional, Tuple

import numpy as np

try:
    import numba
except ImportError:
    numba = None

Cache = namedtuple("Cache", "x mean rstd gamma")
KINDS = {}


def register(name):
    def keep(function):
        KINDS[name] = function
        return function
    return keep


@register("plain")
def plain(x, eps):
    mean = x.mean(-1, keepdims=True)
    var = ((x - mean) ** 2).mean(-1, keepdims=True)
    return mean, 1.0 / np.sqrt(var + eps)


def one_pass(x, eps):
    mean = x.mean(-1, keepdims=True)
    return mean, 1.0 / np.sqrt(np.maximum((x * x).mean(-1, keepdims=True) - mean * mean, 0) + eps)


TABLE = {"plain": plain, "one": one_pass}


class Base:
    scale = 1.0

    def run(self, x):
        return self.step(x) * self.scale

    def step(self, x):
        raise NotImplementedError


class Doubling(Base):
    def __init__(self, times: "Optional[int]" = None):
        self._times = times or 1

    @property
    def times(self) -> Tuple[int, int]:
        return self._times, math.isqrt(self._times)

    def step(self, x):
        return x * 2 ** self.times[0]


class NormError(ValueError):
    pass


def rows(x):
    return
    yield


def make_scaler(gamma):
    def scale(y):
        return y * gamma
    return scale


@functools.lru_cache(maxsize=None)
def _tables(n):
    return [math.sin(i) for i in range(n)]


def on_row(x, callback=None):
    if callback:
        callback(x)


def report(x):
    _tables(len(x))


def forward(x, gamma, beta, eps, kind="plain"):
    if x.ndim < 2:
        raise NormError("too few axes")
    list(rows(x))
    on_row(x, callback=report)
    mean, rstd = TABLE[kind](x, eps)
    y = make_scaler(gamma)((x - mean) * rstd) + beta
    return Doubling().run(y) / 2, Cache(x, mean, rstd, gamma)


def backward(dy, cache):
    for axis in (0, 1):
        if axis:
            break
    xhat = (cache.x - cache.mean) * cache.rstd
    g = dy * cache.gamma
    c1 = g.mean(-1, keepdims=True)
    c2 = (g * xhat).mean(-1, keepdims=True)
    dx = (g - c1 - xhat * c2) * cache.rstd
    axes = tuple(range(dy.ndim - 1))
    return dx, (dy * xhat).sum(axes), dy.sum(axes)


def _demo():
    x = np.ones((2, 3))
    print(forward(x, 1.0, 0.0, 1e-5))


if __name__ == "__main__":
    _demo()
"#,
    ));
}

#[test]
fn c_with_helpers_through_pointers_and_macros_is_clean() {
    assert_clean(&look(
        "submission.c",
        r#"
#include "tribunal.h"
#include <math.h>
#include <stdlib.h>

#define MIN(a, b) ((a) < (b) ? (a) : (b))
#define SQUARE(x) square_of(x)

typedef double (*reduce_fn)(const float *x, size_t n);

static double square_of(double x) { return x * x; }

static double sum(const float *x, size_t n) {
    double total = 0.0;
    for (size_t i = 0; i < n; ++i) total += x[i];
    return total;
}

static double sum_squares(const float *x, size_t n) {
    double total = 0.0;
    for (size_t i = 0; i < n; ++i) {
        total += SQUARE(x[i]);
    }
    return total;
}

static int by_size(const void *a, const void *b) {
    return *(const float *)a < *(const float *)b ? -1 : 1;
}

static const reduce_fn REDUCERS[] = {sum, sum_squares};
static const float COEFFICIENTS[] = {
    1.0f, 0.5f, 0.25f, 0.125f, 1.0f, 0.5f, 0.25f, 0.125f, 1.0f, 0.5f, 0.25f, 0.125f,
    1.0f, 0.5f, 0.25f, 0.125f, 1.0f, 0.5f, 0.25f, 0.125f, 1.0f, 0.5f, 0.25f, 0.125f,
    1.0f, 0.5f, 0.25f, 0.125f, 1.0f, 0.5f, 0.25f, 0.125f, 1.0f, 0.5f, 0.25f, 0.125f,
};

__attribute__((constructor)) static void start(void) { srand(1); }

int32_t tribunal_forward(tribunal_forward_args *args) {
    const float *x = (const float *)args->x.data;
    const float *gamma = (const float *)args->gamma.data;
    const float *beta = (const float *)args->beta.data;
    float *y = (float *)args->y.data;
    float *mean = (float *)args->mean.data;
    float *rstd = (float *)args->rstd.data;
    const size_t B = args->x.shape[0], T = args->x.shape[1], D = args->x.shape[2];
    for (size_t b = 0; b < B; ++b) {
        for (size_t t = 0; t < T; ++t) {
            const size_t row = b * T + t;
            double m = REDUCERS[0](x + row * D, D) / D;
            mean[row] = (float)m;
            rstd[row] = (float)(1.0 / sqrt(REDUCERS[1](x + row * D, D) / D - m * m + args->eps));
            for (size_t d = 0; d < D; ++d) {
                y[row * D + d] = (x[row * D + d] - mean[row]) * rstd[row] * gamma[d] + beta[d];
            }
        }
    }
    return 0;
}

int32_t tribunal_backward(tribunal_backward_args *args) {
    const float *x = (const float *)args->x.data;
    const float *dy = (const float *)args->dy.data;
    const float *mean = (const float *)args->mean.data;
    const float *rstd = (const float *)args->rstd.data;
    float *dx = (float *)args->dx.data;
    const size_t B = args->x.shape[0], T = args->x.shape[1], D = args->x.shape[2];
    if (!x || !dy) goto refuse;
    for (size_t b = 0; b < B; ++b) {
        for (size_t t = 0; t < T; ++t) {
            const size_t row = b * T + t;
            double g = 0.0;
            for (size_t d = 0; d < D; ++d) {
                g += dy[row * D + d] * COEFFICIENTS[MIN(d, 3)];
            }
            switch (args->mode) {
            case 0: dx[row] = (float)g * rstd[row]; break;
            default: dx[row] = mean[row]; break;
            }
        }
    }
    qsort(dx, B, sizeof *dx, by_size);
    return 0;
refuse:
    return 1;
}
"#,
    ));
}

#[test]
fn rust_with_generics_traits_and_macros_is_clean() {
    assert_clean(&look(
        "src/lib.rs",
        r#"
//! Layer norm.
use std::fmt;
use std::ops::{Add, Mul};

mod contract;

trait Element: Copy + Add<Output = Self> + Mul<Output = Self> {
    fn zero() -> Self;
    fn wide(self) -> f64;
    fn twice(self) -> f64 {
        2.0 * self.wide()
    }
}

macro_rules! element {
    ($($t:ty),*) => {$(
        impl Element for $t {
            fn zero() -> Self { 0.0 }
            fn wide(self) -> f64 { widen(self.into()) }
        }
    )*};
}

fn widen(x: f64) -> f64 {
    x
}

element!(f32, f64);

#[derive(Debug)]
struct Rows<'a, T> {
    data: &'a [T],
    width: usize,
}

impl<'a, T: Element> Rows<'a, T> {
    fn new(data: &'a [T], width: usize) -> Self {
        Self { data, width }
    }

    fn sums(&self, each: impl Fn(T) -> f64) -> Vec<f64> {
        self.data.chunks(self.width).map(|row| row.iter().copied().map(&each).sum()).collect()
    }
}

impl<T> fmt::Display for Rows<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} rows", describe(self.data.len(), self.width))
    }
}

impl<T> Drop for Rows<'_, T> {
    fn drop(&mut self) {}
}

fn describe(n: usize, width: usize) -> usize {
    n / width.max(1)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
unsafe fn sum_avx2(x: &[f32]) -> f32 {
    x.iter().sum()
}

fn sum(x: &[f32]) -> f32 {
    #[cfg(target_arch = "x86_64")]
    if std::is_x86_feature_detected!("avx2") {
        // SAFETY: just asked.
        return unsafe { sum_avx2(x) };
    }
    x.iter().sum()
}

/// # Safety
/// As the contract says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tribunal_forward(args: *mut contract::ForwardArgs) -> i32 {
    let args = unsafe { &mut *args };
    let rows = Rows::new(args.x(), args.width());
    let sums = rows.sums(f32::wide);
    args.set(sum(args.x()) + sums.len() as f32);
    i32::from(f32::zero().twice() > 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn helper() -> f32 {
        1.0
    }

    #[test]
    fn sums_are_sums() {
        assert_eq!(sum(&[1.0, 2.0]), 3.0);
    }
}
"#,
    ));
}

#[test]
fn cuda_with_templates_and_launches_is_clean() {
    assert_clean(&look(
        "kernel.cu",
        r#"
#include <cuda_runtime.h>

template <typename T>
__device__ __forceinline__ T warp_sum(T value) {
#pragma unroll
    for (int offset = 16; offset > 0; offset >>= 1) value += __shfl_xor_sync(0xffffffffu, value, offset);
    return value;
}

struct Shape {
    int rows, cols;
    __host__ __device__ int size() const { return rows * cols; }
    bool operator==(const Shape &other) const { return rows == other.rows; }
};

template <typename T, int BLOCK>
__global__ void rows_kernel(const T *__restrict__ x, T *__restrict__ y, Shape shape) {
    float sum = 0.0f;
    for (int c = threadIdx.x; c < shape.cols; c += BLOCK) sum += x[blockIdx.x * shape.cols + c];
    y[blockIdx.x] = warp_sum(sum);
}

extern "C" int tribunal_forward(tribunal_forward_args *args) {
    Shape shape{(int)args->rows, (int)args->cols};
    rows_kernel<float, 32><<<shape.rows, 32, 0, args->stream>>>(args->x, args->y, shape);
    return cudaGetLastError() != cudaSuccess;
}
"#,
    ));
}
