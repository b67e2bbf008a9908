//! The decoder without a cache, in f64: everything is computed again from all tokens. And what rounding may do to it.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use tribunal_kernels::kv_cache::{Format, KvCache};

use crate::decoder::{BASE, EPS, HEAD_DIM, HEADS, KV_HEADS, Layer, Weights, row};
use crate::rounding::Rounding;

/// Half of the epsilon of f32.
const U: f64 = f32::EPSILON as f64 / 2.0;

/// The same of f16.
const U_F16: f64 = 1.0 / 2048.0;

const D: f64 = HEAD_DIM as f64;

/// Which keys and values attention uses.
#[derive(Clone, Copy)]
pub(crate) enum Kept<'a> {
    /// Those that it computes.
    Computed(Format),
    /// Those that a sequence of a cache has.
    Stored(&'a KvCache, usize),
}

impl Kept<'_> {
    fn format(self) -> Format {
        match self {
            Kept::Computed(format) => format,
            Kept::Stored(cache, _) => cache.config().format,
        }
    }
}

/// What comes of a sequence.
#[derive(Clone)]
pub(crate) struct Results {
    /// `[tokens][VOCAB]`
    pub(crate) logits: Vec<Vec<f64>>,
    /// The keys and the values that are computed for the cache, `[LAYERS * tokens][KV_HEADS * HEAD_DIM]` each.
    pub(crate) kept: [Vec<Vec<f64>>; 2],
}

/// Computes a sequence.
pub(crate) fn exactly(weights: &Weights, tokens: &[usize], kept: Kept<'_>) -> Results {
    Oracle { weights, kept, rounding: None, signs: None }.results(tokens)
}

/// The same with errors of the decoder's sizes, of signs that a seed draws: see [`crate::budgets`].
pub(crate) fn with_errors(
    weights: &Weights,
    tokens: &[usize],
    kept: Kept<'_>,
    rounding: Rounding,
    seed: u64,
) -> Results {
    let signs = Some(ChaCha8Rng::seed_from_u64(seed));
    Oracle { weights, kept, rounding: Some(rounding), signs }.results(tokens)
}

struct Oracle<'a> {
    weights: &'a Weights,
    kept: Kept<'a>,
    /// What attention rounds, if there are errors.
    rounding: Option<Rounding>,
    signs: Option<ChaCha8Rng>,
}

impl Oracle<'_> {
    /// A number with an error of a size, if there are errors.
    fn off(&mut self, x: f64, size: f64) -> f64 {
        let sign = self.signs.as_mut().map_or(0.0, |signs| if signs.random() { 1.0 } else { -1.0 });
        x + sign * size
    }

    /// A number as it is when it has been rounded to f32.
    fn rounded(&mut self, x: f64) -> f64 {
        self.off(x, U * x.abs())
    }

    fn results(&mut self, tokens: &[usize]) -> Results {
        let weights = self.weights;
        let wide = |x: &f32| f64::from(*x);
        let mut x: Vec<Vec<f64>> =
            tokens.iter().map(|&id| row(&weights.embedding, id).iter().map(wide).collect()).collect();
        let mut kept = [Vec::new(), Vec::new()];
        for (index, layer) in weights.layers.iter().enumerate() {
            let read = self.attention(index, layer, &x, &mut kept);
            for (x, read) in x.iter_mut().zip(&read) {
                self.add(x, &layer.o, read);
                let normed = self.norm(x, &layer.mlp_norm);
                let gated: Vec<f64> = products(&layer.gate, &normed)
                    .zip(products(&layer.up, &normed))
                    .map(|(gate, up)| self.rounded(gate / (1.0 + (-gate).exp()) * up))
                    .collect();
                self.add(x, &layer.down, &gated);
            }
        }
        let logits = x.iter().map(|x| {
            let normed = self.norm(x, &weights.norm);
            self.multiply(&weights.embedding, &normed)
        });
        Results { logits: logits.collect(), kept }
    }

    /// What each token reads: `[tokens][HEADS * HEAD_DIM]`.
    fn attention(
        &mut self,
        index: usize,
        layer: &Layer,
        x: &[Vec<f64>],
        kept: &mut [Vec<Vec<f64>>; 2],
    ) -> Vec<Vec<f64>> {
        let mut queries = Vec::new();
        let mut tokens = Vec::new();
        for (token, x) in x.iter().enumerate() {
            let normed = self.norm(x, &layer.attention_norm);
            queries.push(self.turned(&layer.q, &normed, token));
            let planes = [self.turned(&layer.k, &normed, token), self.multiply(&layer.v, &normed)];
            for (kept, plane) in kept.iter_mut().zip(&planes) {
                kept.push(plane.clone());
            }
            tokens.push(self.planes(index, token, planes));
        }
        let heads = |row: &Vec<f64>| row.chunks_exact(HEAD_DIM).map(<[f64]>::to_vec).collect::<Vec<_>>();
        let queries: Vec<Vec<Vec<f64>>> = queries.iter().map(heads).collect();
        let mut read = Vec::new();
        for (token, queries) in queries.into_iter().enumerate() {
            let mut heads = Vec::new();
            for (h, mut q) in queries.into_iter().enumerate() {
                if is_integer(self.kept.format()) {
                    q = self.spread(&q);
                    let half_step = largest(&q) / 254.0;
                    q.iter_mut().for_each(|q| *q = self.off(*q, half_step));
                }
                if self.rounding.is_some_and(|rounding| rounding.to_bf16) {
                    q.iter_mut().for_each(|q| *q = self.off(*q, stored_within(Format::Bf16, *q, 0.0)));
                }
                let columns = h / (HEADS / KV_HEADS) * HEAD_DIM..(h / (HEADS / KV_HEADS) + 1) * HEAD_DIM;
                let seen: Vec<[&[f64]; 2]> = tokens[..=token]
                    .iter()
                    .map(|planes: &[Vec<f64>; 2]| planes.each_ref().map(|plane| &plane[columns.clone()]))
                    .collect();
                heads.extend(self.attend(&q, &seen));
            }
            read.push(heads);
        }
        read
    }

    /// Keys and values of a token as attention multiplies them: integer keys rotated.
    fn planes(&mut self, layer: usize, token: usize, computed: [Vec<f64>; 2]) -> [Vec<f64>; 2] {
        let format = self.kept.format();
        let mut planes = computed;
        if let Kept::Stored(cache, sequence) = self.kept {
            let [mut k, mut v] = [[0.0; KV_HEADS * HEAD_DIM]; 2];
            cache.read(layer, sequence, token..token + 1, &mut k, &mut v).expect("the token is there");
            planes = [k, v].map(|plane| plane.map(f64::from).to_vec());
        }
        if is_integer(format) {
            planes[0] = planes[0].chunks_exact(HEAD_DIM).flat_map(|head| self.spread(head)).collect();
        }
        if let Kept::Computed(_) = self.kept {
            for head in planes.iter_mut().flat_map(|plane| plane.chunks_exact_mut(HEAD_DIM)) {
                let most = largest(head);
                head.iter_mut().for_each(|x| *x = self.off(*x, stored_within(format, *x, most)));
            }
        }
        planes
    }

    /// Projected to heads, which are turned to the token's position, in halves. Half a unit in the last place of a pair's
    /// length is what `rope` promises.
    fn turned(&mut self, matrix: &[f32], x: &[f64], position: usize) -> Vec<f64> {
        let mut heads = self.multiply(matrix, x);
        for head in heads.chunks_exact_mut(HEAD_DIM) {
            let (first, second) = head.split_at_mut(HEAD_DIM / 2);
            for (i, (a, b)) in first.iter_mut().zip(second).enumerate() {
                let (sin, cos) = (position as f64 * BASE.powf(-2.0 * i as f64 / D)).sin_cos();
                let size = U * a.hypot(*b);
                (*a, *b) = (self.off(*a * cos - *b * sin, size), self.off(*a * sin + *b * cos, size));
            }
        }
        heads
    }

    /// A row [rotated], of which a value passes `log2(d) + 2` roundings, each of the norm at most. Keys that are read from the
    /// cache have been rotated back, which is as much again.
    fn spread(&mut self, head: &[f64]) -> Vec<f64> {
        let size = 2.0 * (D.log2() + 2.0) * U * head.iter().map(|x| x * x).sum::<f64>().sqrt();
        rotated(head).into_iter().map(|x| self.off(x, size)).collect()
    }

    /// Attention of one query over keys and values of one head, with the errors that `attention` documents: of a weight, as a
    /// part of it, and of a sum.
    fn attend(&mut self, q: &[f64], seen: &[[&[f64]; 2]]) -> Vec<f64> {
        let products = |k: &[f64]| -> Vec<f64> { q.iter().zip(k).map(|(q, k)| q * k / D.sqrt()).collect() };
        let scores: Vec<f64> = seen.iter().map(|[k, _]| products(k).iter().sum()).collect();
        let most = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let mut weigh = |(score, [k, _]): (&f64, &[&[f64]; 2])| {
            let gross: f64 = products(k).iter().map(|product| product.abs()).sum();
            let below = (most - score) * std::f64::consts::LOG2_E;
            let part = ((D + 10.0) * gross + 3.0 + 1.4 * (below + 1.0)) * U;
            (self.off(*score, part) - most).exp()
        };
        let weights: Vec<f64> = scores.iter().zip(seen).map(&mut weigh).collect();
        let sum: f64 = weights.iter().sum();
        let weights = self.rounded_weights(weights, seen);
        let additions = (136.0 + seen.len() as f64 / 1024.0) * U;
        let column = |c: usize| {
            let terms = || weights.iter().zip(seen).map(move |(p, [_, v])| p / sum * v[c]);
            self.off(terms().sum(), additions * terms().map(f64::abs).sum::<f64>())
        };
        (0..HEAD_DIM).map(column).collect()
    }

    /// Weights as they meet the values: rounded to bf16, or, times the scales of values, to integers.
    fn rounded_weights(&mut self, weights: Vec<f64>, seen: &[[&[f64]; 2]]) -> Vec<f64> {
        let Some(Rounding { to_bf16, weight_max }) = self.rounding else { return weights };
        let sizes: Vec<f64> = seen.iter().map(|[_, v]| largest(v)).collect();
        let most = weights.iter().zip(&sizes).map(|(weight, size)| weight * size).fold(0.0, f64::max);
        let part = |max: f64, size: f64| if size == 0.0 { 0.0 } else { most / (2.0 * max * size) };
        let rounded = weights.into_iter().zip(sizes).map(|(weight, size)| {
            let to_integer = weight_max.map_or(0.0, |max| part(max, size));
            let to_bf16 = if to_bf16 { stored_within(Format::Bf16, weight, 0.0) } else { 0.0 };
            self.off(weight, to_integer + to_bf16)
        });
        rounded.collect()
    }

    fn multiply(&mut self, matrix: &[f32], x: &[f64]) -> Vec<f64> {
        products(matrix, x).map(|product| self.rounded(product)).collect()
    }

    /// Adds a product to the residual; either is rounded.
    fn add(&mut self, x: &mut [f64], matrix: &[f32], more: &[f64]) {
        let more = self.multiply(matrix, more);
        x.iter_mut().zip(more).for_each(|(x, more)| *x = self.rounded(*x + more));
    }

    /// RMS norm.
    fn norm(&mut self, x: &[f64], weights: &[f32]) -> Vec<f64> {
        let squares: f64 = x.iter().map(|x| x * x).sum();
        let rms = (squares / x.len() as f64 + EPS).sqrt();
        x.iter().zip(weights).map(|(x, &w)| self.rounded(x / rms * f64::from(w))).collect()
    }
}

fn products<'a>(matrix: &'a [f32], x: &'a [f64]) -> impl Iterator<Item = f64> + 'a {
    let dot = move |row: &[f32]| row.iter().zip(x).map(|(&w, x)| f64::from(w) * x).sum();
    matrix.chunks_exact(x.len()).map(dot)
}

/// The rotation that the cache gives keys stored as integers, and attention their queries: signs and a Hadamard matrix,
/// multiplied out.
pub(crate) fn rotated(head: &[f64]) -> Vec<f64> {
    let sign = |i: usize| {
        let mut hash = i as u32 + 1;
        hash = (hash ^ (hash >> 16)).wrapping_mul(0x85eb_ca6b);
        hash = (hash ^ (hash >> 13)).wrapping_mul(0xc2b2_ae35);
        if hash >> 31 == 1 { -1.0 } else { 1.0 }
    };
    let entry = |i: usize, j: usize| if (i & j).count_ones().is_multiple_of(2) { sign(i) } else { -sign(i) };
    let column = |j: usize| head.iter().enumerate().map(|(i, x)| entry(i, j) * x).sum::<f64>();
    (0..head.len()).map(|j| column(j) / (head.len() as f64).sqrt()).collect()
}

pub(crate) fn largest(row: &[f64]) -> f64 {
    row.iter().fold(0.0, |largest, x| x.abs().max(largest))
}

pub(crate) fn is_integer(format: Format) -> bool {
    matches!(format, Format::Int8 | Format::Int4)
}

/// By how much a format's rounding changes a value at most, in a row whose largest value is known; for integers half of a scale,
/// itself rounded to an f16.
pub(crate) fn stored_within(format: Format, x: f64, largest: f64) -> f64 {
    match format {
        Format::F32 => 0.0,
        Format::F16 => U_F16 * x.abs() + 3e-8,
        Format::Bf16 => x.abs() / 256.0,
        Format::Int8 => (1.0 + U_F16) * largest / 254.0,
        Format::Int4 => (1.0 + U_F16) * largest / 15.0,
    }
}
