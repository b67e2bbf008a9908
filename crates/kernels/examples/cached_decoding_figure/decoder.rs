//! A decoder of a tenth of SmolLM2-135M's depth and vocabulary, and what it multiplies and adds.

use std::ops::AddAssign;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rayon::prelude::*;
use tribunal_kernels::attention::{Options, Outputs, Queries, attend};
use tribunal_kernels::kv_cache::{Config, Format, KvCache, Layout};
use tribunal_kernels::rope::{self, Pairs};

pub(crate) const LAYERS: usize = 3;
pub(crate) const HIDDEN: usize = 576;
pub(crate) const HEADS: usize = 9;
pub(crate) const KV_HEADS: usize = 3;
pub(crate) const HEAD_DIM: usize = 64;
pub(crate) const MLP: usize = 1536;
pub(crate) const VOCAB: usize = 4912;

/// Multiplications and additions, each one. Norms, rotary positions, exponentials and activations are not counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Flops {
    pub(crate) projections: u64,
    /// Scores and sums of values, of the keys that a query sees.
    pub(crate) attention: u64,
    pub(crate) mlp: u64,
    pub(crate) logits: u64,
}

impl Flops {
    /// What it takes to compute `new` tokens behind `past` others, and the logits of the last:
    /// `2 L h (2 H d + 2 K d)`, `2 L 3 h m` for each token, `4 L H d` for each pair of a query and a key that it sees, and
    /// `2 h V`.
    pub(crate) fn of(past: usize, new: usize) -> Flops {
        let product = |sizes: &[usize]| sizes.iter().map(|&size| size as u64).product::<u64>();
        let pairs = new * past + new * (new + 1) / 2;
        Flops {
            projections: product(&[2, LAYERS, HIDDEN, 2 * HEADS + 2 * KV_HEADS, HEAD_DIM, new]),
            attention: product(&[4, LAYERS, HEADS, HEAD_DIM, pairs]),
            mlp: product(&[2, LAYERS, 3, HIDDEN, MLP, new]),
            logits: product(&[2, HIDDEN, VOCAB]),
        }
    }

    pub(crate) fn total(self) -> u64 {
        self.projections + self.attention + self.mlp + self.logits
    }
}

impl AddAssign for Flops {
    fn add_assign(&mut self, other: Flops) {
        self.projections += other.projections;
        self.attention += other.attention;
        self.mlp += other.mlp;
        self.logits += other.logits;
    }
}

/// `[outputs, inputs]`
struct Matrix {
    inputs: usize,
    weights: Vec<f32>,
}

struct Layer {
    q: Matrix,
    k: Matrix,
    v: Matrix,
    o: Matrix,
    gate: Matrix,
    up: Matrix,
    down: Matrix,
}

pub(crate) struct Decoder {
    /// Of inputs and logits alike.
    embedding: Matrix,
    layers: Vec<Layer>,
    /// Of one sequence.
    pub(crate) cache: KvCache,
    /// What has been done so far.
    pub(crate) done: Flops,
}

impl Decoder {
    /// Weights are drawn from a fixed seed; the cache has room for so many tokens.
    pub(crate) fn new(max_len: usize) -> Decoder {
        let mut rng = ChaCha8Rng::seed_from_u64(135);
        let mut matrix = |outputs: usize, inputs: usize| {
            let width = (3.0 / inputs as f32).sqrt();
            let weights = (0..outputs * inputs).map(|_| rng.random_range(-width..width)).collect();
            Matrix { inputs, weights }
        };
        let embedding = matrix(VOCAB, HIDDEN);
        let layers = (0..LAYERS).map(|_| Layer {
            q: matrix(HEADS * HEAD_DIM, HIDDEN),
            k: matrix(KV_HEADS * HEAD_DIM, HIDDEN),
            v: matrix(KV_HEADS * HEAD_DIM, HIDDEN),
            o: matrix(HIDDEN, HEADS * HEAD_DIM),
            gate: matrix(MLP, HIDDEN),
            up: matrix(MLP, HIDDEN),
            down: matrix(HIDDEN, MLP),
        });
        let layers = layers.collect();
        let cache = KvCache::new(Config {
            layers: LAYERS,
            sequences: 1,
            kv_heads: KV_HEADS,
            head_dim: HEAD_DIM,
            max_len,
            format: Format::F32,
            layout: Layout::Contiguous,
        });
        Decoder { embedding, layers, cache: cache.expect("a cache"), done: Flops::default() }
    }

    /// Takes tokens behind those of the cache, and returns the logits of the last.
    pub(crate) fn feed(&mut self, tokens: &[usize]) -> Vec<f32> {
        let past = self.cache.lengths(0).expect("a layer")[0];
        let positions: Vec<usize> = (past..past + tokens.len()).collect();
        let row = |&id: &usize| &self.embedding.weights[id * HIDDEN..(id + 1) * HIDDEN];
        let mut x: Vec<f32> = tokens.iter().flat_map(row).copied().collect();
        for (index, layer) in self.layers.iter().enumerate() {
            let done = &mut self.done;
            let normed = norm(&x);
            let mut heads = |matrix, turn| {
                let mut heads = to_heads(&multiply(matrix, &normed, &mut done.projections), tokens.len());
                if turn {
                    rope::rotate(&mut heads, HEAD_DIM, &positions, 1e4, Pairs::Halves).expect("sizes agree");
                }
                heads
            };
            let (q, k, v) = (heads(&layer.q, true), heads(&layer.k, true), heads(&layer.v, false));
            self.cache.append(index, &k, &v, &[tokens.len()]).expect("there is room");
            let mut out = vec![0.0; q.len()];
            let queries = Queries { heads: HEADS, q: &q, lengths: &[tokens.len()] };
            attend(&self.cache, index, queries, Outputs { out: &mut out, lse: None }, &Options::default())
                .expect("sizes agree");
            for position in &positions {
                done.attention += (4 * HEADS * HEAD_DIM * (position + 1)) as u64;
            }
            add(&mut x, &multiply(&layer.o, &from_heads(&out, tokens.len()), &mut done.projections));
            let normed = norm(&x);
            let mut gated = multiply(&layer.gate, &normed, &mut done.mlp);
            let up = multiply(&layer.up, &normed, &mut done.mlp);
            gated.iter_mut().zip(up).for_each(|(gate, up)| *gate = *gate / (1.0 + (-*gate).exp()) * up);
            add(&mut x, &multiply(&layer.down, &gated, &mut done.mlp));
        }
        let last = norm(&x[x.len() - HIDDEN..]);
        multiply(&self.embedding, &last, &mut self.done.logits)
    }
}

/// `[tokens, heads, HEAD_DIM]` to `[heads, tokens, HEAD_DIM]`.
fn to_heads(rows: &[f32], tokens: usize) -> Vec<f32> {
    let heads = rows.len() / HEAD_DIM / tokens;
    let at = |i: usize| (i % tokens * heads + i / tokens) * HEAD_DIM;
    (0..heads * tokens).flat_map(|i| &rows[at(i)..at(i) + HEAD_DIM]).copied().collect()
}

/// The same back.
fn from_heads(rows: &[f32], tokens: usize) -> Vec<f32> {
    to_heads(rows, rows.len() / HEAD_DIM / tokens)
}

fn add(x: &mut [f32], more: &[f32]) {
    x.iter_mut().zip(more).for_each(|(x, more)| *x += more);
}

/// RMS norm with weights of one.
fn norm(x: &[f32]) -> Vec<f32> {
    let rows = x.chunks_exact(HIDDEN).flat_map(|row| {
        let rms = (row.iter().map(|x| x * x).sum::<f32>() / HIDDEN as f32 + 1e-5).sqrt();
        row.iter().map(move |x| x / rms)
    });
    rows.collect()
}

/// Rows that one task multiplies, and outputs.
const TASK: (usize, usize) = (32, 64);

/// `x` times a matrix, `[rows, outputs]`. A product is summed in the same order however many rows there are.
fn multiply(matrix: &Matrix, x: &[f32], done: &mut u64) -> Vec<f32> {
    let Matrix { inputs, weights } = matrix;
    let (rows, outputs) = (x.len() / inputs, weights.len() / inputs);
    *done += (2 * rows * inputs * outputs) as u64;
    let mut out = vec![0.0; rows * outputs];
    if rows == 1 {
        let tasks = out.par_chunks_mut(TASK.1).zip(weights.par_chunks(TASK.1 * inputs));
        tasks.for_each(|(out, weights)| multiply_rows(weights, x, *inputs, out));
    } else {
        let tasks = out.par_chunks_mut(TASK.0 * outputs).zip(x.par_chunks(TASK.0 * inputs));
        tasks.for_each(|(out, x)| multiply_rows(weights, x, *inputs, out));
    }
    out
}

fn multiply_rows(weights: &[f32], x: &[f32], inputs: usize, out: &mut [f32]) {
    let outputs = weights.len() / inputs;
    for (tile, weights) in weights.chunks_exact(4 * inputs).enumerate() {
        for (out, x) in out.chunks_mut(2 * outputs).zip(x.chunks(2 * inputs)) {
            if x.len() == inputs {
                dots::<1>(weights, x, inputs, &mut out[4 * tile..], outputs);
            } else {
                dots::<2>(weights, x, inputs, &mut out[4 * tile..], outputs);
            }
        }
    }
}

/// Products of `R` rows with four rows of weights, in four sums each.
fn dots<const R: usize>(weights: &[f32], x: &[f32], inputs: usize, out: &mut [f32], outputs: usize) {
    const LANES: usize = 4;
    let row = |rows: &[f32], row: usize, at: usize| -> [f32; LANES] {
        let start = row * inputs + at;
        rows[start..start + LANES].try_into().expect("as many")
    };
    let mut sums = [[[0.0_f32; LANES]; 4]; R];
    for at in (0..inputs).step_by(LANES) {
        let w: [[f32; LANES]; 4] = std::array::from_fn(|i| row(weights, i, at));
        for (r, sums) in sums.iter_mut().enumerate() {
            let x = row(x, r, at);
            for (sum, w) in sums.iter_mut().zip(&w) {
                for lane in 0..LANES {
                    sum[lane] += x[lane] * w[lane];
                }
            }
        }
    }
    for (r, sums) in sums.iter().enumerate() {
        for (i, [a, b, c, d]) in sums.iter().enumerate() {
            out[r * outputs + i] = (a + b) + (c + d);
        }
    }
}
