//! The decoder under test: all that is not the library's is computed in f64 and rounded to f32 once.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use tribunal_kernels::Isa;
use tribunal_kernels::attention::{Options, Outputs, Queries, attend};
use tribunal_kernels::kv_cache::{Config, Format, KvCache, Layout};
use tribunal_kernels::rope::{self, Pairs};

pub(crate) const LAYERS: usize = 2;
pub(crate) const HIDDEN: usize = 48;
pub(crate) const HEADS: usize = 4;
pub(crate) const KV_HEADS: usize = 2;
pub(crate) const HEAD_DIM: usize = 32;
pub(crate) const MLP: usize = 96;
pub(crate) const VOCAB: usize = 61;
pub(crate) const EPS: f64 = 1e-5;
pub(crate) const BASE: f64 = 1e4;

/// Matrices are `[out, in]`.
pub(crate) struct Layer {
    pub(crate) attention_norm: Vec<f32>,
    pub(crate) q: Vec<f32>,
    pub(crate) k: Vec<f32>,
    pub(crate) v: Vec<f32>,
    pub(crate) o: Vec<f32>,
    pub(crate) mlp_norm: Vec<f32>,
    pub(crate) gate: Vec<f32>,
    pub(crate) up: Vec<f32>,
    pub(crate) down: Vec<f32>,
}

pub(crate) struct Weights {
    /// `[VOCAB, HIDDEN]`, of inputs and logits alike.
    pub(crate) embedding: Vec<f32>,
    pub(crate) layers: Vec<Layer>,
    pub(crate) norm: Vec<f32>,
}

impl Weights {
    /// Drawn from a seed, of sizes that keep activations of the order of one and make some tokens count for more than others.
    pub(crate) fn new(seed: u64) -> Weights {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let mut draw = |len: usize, middle: f32, deviation: f64| -> Vec<f32> {
            let width = (deviation * 3.0_f64.sqrt()) as f32;
            (0..len).map(|_| middle + rng.random_range(-width..width)).collect()
        };
        let mut matrix =
            |rows: usize, cols: usize, gain: f64| draw(rows * cols, 0.0, gain / (cols as f64).sqrt());
        let embedding = matrix(VOCAB, HIDDEN, (HIDDEN as f64).sqrt());
        let mut layers: Vec<Layer> = (0..LAYERS)
            .map(|_| Layer {
                attention_norm: Vec::new(),
                q: matrix(HEADS * HEAD_DIM, HIDDEN, 1.4),
                k: matrix(KV_HEADS * HEAD_DIM, HIDDEN, 1.0),
                v: matrix(KV_HEADS * HEAD_DIM, HIDDEN, 1.0),
                o: matrix(HIDDEN, HEADS * HEAD_DIM, 1.0),
                mlp_norm: Vec::new(),
                gate: matrix(MLP, HIDDEN, 1.0),
                up: matrix(MLP, HIDDEN, 1.0),
                down: matrix(HIDDEN, MLP, 1.0),
            })
            .collect();
        for layer in &mut layers {
            layer.attention_norm = draw(HIDDEN, 1.0, 0.2);
            layer.mlp_norm = draw(HIDDEN, 1.0, 0.2);
        }
        Weights { embedding, layers, norm: draw(HIDDEN, 1.0, 0.2) }
    }
}

pub(crate) fn config(sequences: usize, max_len: usize, format: Format, layout: Layout) -> Config {
    Config { layers: LAYERS, sequences, kv_heads: KV_HEADS, head_dim: HEAD_DIM, max_len, format, layout }
}

/// A decoder with its cache.
pub(crate) struct Decoder<'a> {
    pub(crate) weights: &'a Weights,
    pub(crate) cache: KvCache,
    pub(crate) isa: Isa,
}

impl Decoder<'_> {
    /// Takes new tokens of each sequence, `[sequences][its new tokens]`. Returns the logits of each.
    pub(crate) fn feed(&mut self, tokens: &[Vec<usize>]) -> Vec<Vec<Vec<f32>>> {
        let present = self.cache.lengths(0).expect("a layer").to_vec();
        let mut x: Vec<Vec<Vec<f32>>> = tokens
            .iter()
            .map(|tokens| tokens.iter().map(|&id| row(&self.weights.embedding, id).to_vec()).collect())
            .collect();
        for (index, layer) in self.weights.layers.iter().enumerate() {
            let read = self.attend(index, layer, &present, &x);
            for (x, read) in x.iter_mut().flatten().zip(read.iter().flatten()) {
                add(x, &multiply(&layer.o, read));
                let normed = norm(x, &layer.mlp_norm);
                let gates = wide_products(&layer.gate, &normed);
                let ups = wide_products(&layer.up, &normed);
                let gated: Vec<f32> =
                    gates.zip(ups).map(|(gate, up)| (gate / (1.0 + (-gate).exp()) * up) as f32).collect();
                add(x, &multiply(&layer.down, &gated));
            }
        }
        let logits = |x: &Vec<f32>| multiply(&self.weights.embedding, &norm(x, &self.weights.norm));
        x.iter().map(|tokens| tokens.iter().map(logits).collect()).collect()
    }

    /// What each token reads: `[sequences][tokens][HEADS * HEAD_DIM]`.
    fn attend(
        &mut self,
        index: usize,
        layer: &Layer,
        present: &[usize],
        x: &[Vec<Vec<f32>>],
    ) -> Vec<Vec<Vec<f32>>> {
        let lengths: Vec<usize> = x.iter().map(Vec::len).collect();
        let t = lengths.iter().copied().max().unwrap_or(0);
        // What is no token must not be looked at.
        let empty = |heads: usize| vec![f32::NAN; x.len() * heads * t * HEAD_DIM];
        let (mut q, mut k, mut v) = (empty(HEADS), empty(KV_HEADS), empty(KV_HEADS));
        for (s, tokens) in x.iter().enumerate() {
            for (i, x) in tokens.iter().enumerate() {
                let normed = norm(x, &layer.attention_norm);
                let turned = |matrix| {
                    let mut heads = multiply(matrix, &normed);
                    rope::rotate(&mut heads, HEAD_DIM, &[present[s] + i], BASE, Pairs::Halves)
                        .expect("sizes agree");
                    heads
                };
                for (all, heads) in [
                    (&mut q, turned(&layer.q)),
                    (&mut k, turned(&layer.k)),
                    (&mut v, multiply(&layer.v, &normed)),
                ] {
                    let count = heads.len() / HEAD_DIM;
                    for (h, head) in heads.chunks_exact(HEAD_DIM).enumerate() {
                        let at = ((s * count + h) * t + i) * HEAD_DIM;
                        all[at..at + HEAD_DIM].copy_from_slice(head);
                    }
                }
            }
        }
        self.cache.append(index, &k, &v, &lengths).expect("there is room");
        let mut out = vec![f32::NAN; q.len()];
        attend(
            &self.cache,
            index,
            Queries { heads: HEADS, q: &q, lengths: &lengths },
            Outputs { out: &mut out, lse: None },
            &Options { isa: Some(self.isa), ..Options::default() },
        )
        .expect("sizes agree");
        let head = |s: usize, i: usize, h: usize| {
            let at = ((s * HEADS + h) * t + i) * HEAD_DIM;
            &out[at..at + HEAD_DIM]
        };
        let read = |s, i| (0..HEADS).flat_map(|h| head(s, i, h).iter().copied()).collect();
        lengths.iter().enumerate().map(|(s, &length)| (0..length).map(|i| read(s, i)).collect()).collect()
    }
}

pub(crate) fn row(matrix: &[f32], index: usize) -> &[f32] {
    &matrix[index * HIDDEN..(index + 1) * HIDDEN]
}

fn wide_products<'a>(matrix: &'a [f32], x: &'a [f32]) -> impl Iterator<Item = f64> + 'a {
    let dot = move |row: &[f32]| row.iter().zip(x).map(|(&w, &x)| f64::from(w) * f64::from(x)).sum();
    matrix.chunks_exact(x.len()).map(dot)
}

fn multiply(matrix: &[f32], x: &[f32]) -> Vec<f32> {
    wide_products(matrix, x).map(|product| product as f32).collect()
}

fn add(x: &mut [f32], more: &[f32]) {
    x.iter_mut().zip(more).for_each(|(x, more)| *x += more);
}

fn norm(x: &[f32], weights: &[f32]) -> Vec<f32> {
    let squares: f64 = x.iter().map(|&x| f64::from(x) * f64::from(x)).sum();
    let rate = 1.0 / (squares / x.len() as f64 + EPS).sqrt();
    x.iter().zip(weights).map(|(&x, &w)| (f64::from(x) * rate * f64::from(w)) as f32).collect()
}
