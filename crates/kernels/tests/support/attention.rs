//! What the tests of the cache and of attention share: a cache that is lists of rows, and attention over it in f64.

use std::num::NonZeroUsize;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use tribunal_kernels::attention::{AttentionError, Options, Outputs, Queries, attend};
use tribunal_kernels::kv_cache::{Config, Format, KvCache, KvCacheError, Layout};
use tribunal_kernels::{Isa, bf16, f16};

use super::Guarded;
use super::rounding::Rounding;

/// The half of the epsilon of f32.
pub(crate) const U: f64 = f32::EPSILON as f64 / 2.0;

/// Tokens of one sequence in one layer: of each the key and the value, `[kv_heads, head_dim]`.
pub(crate) type Tokens = Vec<[Vec<f32>; 2]>;

/// A cache that copies everything.
#[derive(Clone, Debug)]
pub(crate) struct Model {
    pub(crate) config: Config,
    /// `[layers][sequences]`
    pub(crate) tokens: Vec<Vec<Tokens>>,
    /// Of each sequence names of its blocks, of which those that are shared are the same.
    tables: Vec<Vec<usize>>,
    names: usize,
}

impl Model {
    pub(crate) fn new(config: Config) -> Model {
        Model {
            config,
            tokens: vec![vec![Vec::new(); config.sequences]; config.layers],
            tables: vec![Vec::new(); config.sequences],
            names: 0,
        }
    }

    pub(crate) fn lengths(&self, layer: usize) -> Vec<usize> {
        self.tokens[layer].iter().map(Vec::len).collect()
    }

    fn blocks(&self) -> (usize, usize) {
        match self.config.layout {
            Layout::Contiguous => (self.config.max_len, self.config.sequences),
            Layout::Paged { block_len, blocks } => (block_len, blocks),
        }
    }

    pub(crate) fn free_blocks(&self) -> usize {
        let mut held = self.tables.concat();
        held.sort_unstable();
        held.dedup();
        self.blocks().1 - held.len()
    }

    /// Whether there was room; if not, nothing has changed.
    pub(crate) fn append(&mut self, layer: usize, k: &[f32], v: &[f32], lengths: &[usize]) -> bool {
        let Config { sequences, kv_heads, head_dim, max_len, format, .. } = self.config;
        let t = k.len() / (sequences * kv_heads * head_dim);
        let mut after = self.clone();
        for (s, &length) in lengths.iter().enumerate() {
            let start = self.tokens[layer][s].len();
            if start + length > max_len {
                return false;
            }
            for i in 0..length {
                let row = |from: &[f32]| -> Vec<f32> {
                    (0..kv_heads)
                        .flat_map(|h| {
                            let at = ((s * kv_heads + h) * t + i) * head_dim;
                            from[at..at + head_dim].iter().map(|&x| rounded(format, x))
                        })
                        .collect()
                };
                after.tokens[layer][s].push([row(k), row(v)]);
                after.own_block(s, (start + i) / self.blocks().0);
            }
        }
        let mut held = after.tables.concat();
        held.sort_unstable();
        held.dedup();
        if held.len() > self.blocks().1 {
            return false;
        }
        *self = after;
        true
    }

    fn own_block(&mut self, sequence: usize, entry: usize) {
        self.names += 1;
        let table = &mut self.tables[sequence];
        if entry == table.len() {
            table.push(self.names);
            return;
        }
        let block = table[entry];
        if self.tables.iter().flatten().filter(|&&other| other == block).count() > 1 {
            self.tables[sequence][entry] = self.names;
        }
    }

    pub(crate) fn release(&mut self, sequence: usize) {
        self.tokens.iter_mut().for_each(|layer| layer[sequence].clear());
        self.tables[sequence].clear();
    }

    /// Whether it could be done.
    pub(crate) fn fork(&mut self, from: usize, to: usize) -> bool {
        if self.tokens.iter().any(|layer| !layer[to].is_empty()) {
            return false;
        }
        self.tokens.iter_mut().for_each(|layer| layer[to] = layer[from].clone());
        self.tables[to] = self.tables[from].clone();
        true
    }
}

/// Those that round each value by itself.
pub(crate) const FLOATS: [Format; 3] = [Format::F32, Format::F16, Format::Bf16];

/// A value as it is stored, if it is by itself; otherwise [`append_both`] puts what is stored in its place.
pub(crate) fn rounded(format: Format, x: f32) -> f32 {
    match format {
        Format::F32 | Format::Int8 | Format::Int4 => x,
        Format::F16 => f16::from_f32(x).to_f32(),
        Format::Bf16 => bf16::from_f32(x).to_f32(),
    }
}

/// What attention returns.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Answer {
    pub(crate) out: Vec<f32>,
    pub(crate) lse: Vec<f32>,
}

impl Answer {
    /// So that NaNs compare equal.
    pub(crate) fn bits(&self) -> Vec<u32> {
        self.out.iter().chain(&self.lse).map(|value| value.to_bits()).collect()
    }
}

/// Queries, owned.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub(crate) heads: usize,
    pub(crate) q: Vec<f32>,
    pub(crate) lengths: Vec<usize>,
}

/// Calls the kernel with all buffers between guards, `misalign` elements past a cache line.
pub(crate) fn run(
    cache: &KvCache,
    layer: usize,
    asked: &Asked,
    options: &Options,
    misalign: usize,
) -> Result<Answer, AttentionError> {
    let q = Guarded::of(&asked.q, misalign, 3e38);
    let mut out = Guarded::new(asked.q.len(), misalign, -7.0_f32);
    let mut lse = Guarded::new(asked.q.len() / cache.config().head_dim, misalign, -7.0_f32);
    let queries = Queries { heads: asked.heads, q: q.get(), lengths: &asked.lengths };
    let outputs = Outputs { out: out.get_mut(), lse: Some(lse.get_mut()) };
    attend(cache, layer, queries, outputs, options)?;
    Ok(Answer { out: out.into_vec(), lse: lse.into_vec() })
}

pub(crate) fn normal(len: usize, scale: f32, seed: u64) -> Vec<f32> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    // Sums of uniform numbers, with a variance of one.
    (0..len).map(|_| (0..12).map(|_| rng.random_range(-0.5..0.5_f32)).sum::<f32>() * scale).collect()
}

/// Appends normally distributed tokens to cache and model alike.
pub(crate) fn append_both(
    cache: &mut KvCache,
    model: &mut Model,
    layer: usize,
    t: usize,
    lengths: &[usize],
    seed: u64,
) -> Result<(), KvCacheError> {
    let Config { sequences, kv_heads, head_dim, .. } = *cache.config();
    let len = sequences * kv_heads * t * head_dim;
    let (k, v) = (normal(len, 1.0, seed), normal(len, 1.0, seed + 1));
    let done = cache.append(layer, &k, &v, lengths);
    assert_eq!(model.append(layer, &k, &v, lengths), done.is_ok(), "{done:?}");
    if done.is_ok() && !FLOATS.contains(&model.config.format) {
        for (s, &length) in lengths.iter().enumerate() {
            let tokens = &mut model.tokens[layer][s];
            let start = tokens.len() - length;
            for (i, [k, v]) in tokens.iter_mut().enumerate().skip(start) {
                cache.read(layer, s, i..i + 1, k, v).expect("the token is there");
            }
        }
    }
    done
}

/// A cache and its model, with so many tokens in each sequence of each layer.
pub(crate) fn filled(config: Config, lengths: &[usize], seed: u64) -> (KvCache, Model) {
    let mut cache = KvCache::new(config).expect("a cache");
    let mut model = Model::new(config);
    let t = lengths.iter().copied().max().unwrap_or(0);
    for layer in 0..config.layers {
        append_both(&mut cache, &mut model, layer, t, lengths, seed + 100 * layer as u64)
            .expect("there is room");
    }
    (cache, model)
}

/// The rotation that the integer formats use, with the operations of the kernel's in the same order, as what is rounded next
/// depends on the last bit.
fn rotate(row: &mut [f32]) {
    for (i, value) in row.iter_mut().enumerate() {
        let mut hash = (i % 256) as u32 + 1;
        for (shift, multiplier) in [(16, 0x85eb_ca6b_u32), (13, 0xc2b2_ae35)] {
            hash = (hash ^ (hash >> shift)).wrapping_mul(multiplier);
        }
        if hash >> 31 == 1 {
            *value = -*value;
        }
    }
    transform(row);
}

fn transform(row: &mut [f32]) {
    let part_len = 256.min(1 << row.len().trailing_zeros());
    for part in row.chunks_mut(part_len) {
        let mut half = part_len / 2;
        while half > 0 {
            for i in (0..part_len).filter(|i| i & half == 0) {
                (part[i], part[i + half]) = (part[i] + part[i + half], part[i] - part[i + half]);
            }
            half /= 2;
        }
        part.iter_mut().for_each(|value| *value *= (1.0 / (part_len as f64).sqrt()) as f32);
    }
}

/// The key as the kernel multiplies it: rotated, though not rounded, as it has been.
fn rotated(row: &[f32], dim: usize) -> Vec<f32> {
    let mut padded = row.to_vec();
    padded.resize(dim, 0.0);
    rotate(&mut padded);
    padded
}

/// The query as the kernel multiplies it where keys are integers: scaled, rotated, rounded to 8 bits, and scaled back; and
/// the step of the rounding.
fn rounded_query(q: &[f32], dim: usize, scale: f32) -> (Vec<f64>, f64) {
    let rate = (f64::from(scale) * std::f64::consts::LOG2_E) as f32;
    let scaled: Vec<f32> = q.iter().map(|q| q * rate).collect();
    let q = rotated(&scaled, dim);
    let step = q.iter().fold(0.0, |largest: f32, q| largest.max(q.abs())) / 127.0;
    let reciprocal = if step < f32::MIN_POSITIVE { 0.0 } else { 1.0 / step };
    let code = |q: &f32| (q * reciprocal).round_ties_even().clamp(-127.0, 127.0);
    let step_wide = f64::from(step) * std::f64::consts::LN_2;
    (q.iter().map(|q| f64::from(code(q)) * step_wide).collect(), step_wide)
}

/// One result in f64, and how far f32 may be off.
struct Exact {
    out: Vec<[f64; 2]>,
    lse: [f64; 2],
}

/// Attention of one query over some keys and values of one head.
///
/// The error of each step, with `u` half of the epsilon of f32:
///
/// - A product of a score passes at most `d` additions, with their products' roundings where there is no fused operation, a
///   sum over lanes, and what scales the query: `(d + 10) u` of the sum of the absolute products, for rows padded to `d`.
/// - Subtracting the exponent rounds by `u` of the difference, which is `b + 1` at most, if the weight is `b` powers of two
///   below the largest; the power of two is off by `3 u`, and by `0.7 u` for each of these. A power turns a difference into
///   `ln 2` times as large a part.
/// - Where keys are stored rotated, the model's have been rotated back and are rotated again: each value is then off by
///   twice `log2(d) + 3` roundings of the row's norm. Products are bounded by those of norms, and a product of errors in all
///   channels with a row by `sqrt(d)` of these.
/// - Where such keys are padded, rounding leaves something in the padding, up to half a step, which the model does not have;
///   it meets half a step in the query.
/// - Weights below `2^-125` may be anything up to that.
/// - A weighted value passes the additions of a step (64 at most), of the steps of a chunk (1024 / 16 at most, or more in
///   smaller blocks), and of the chunks, and the division takes two roundings more.
/// - Where values are integers, weights times scales may be rounded to 15 bits of the largest among some tokens in a row,
///   64 at most: by half of `1 / 32767` of it; or of `1 / 255`, or `1 / 65535`. Times a value in steps, of which the largest value of
///   each token is 127 or 7.5, that is as large a part of the largest among these tokens of weight times value.
/// - Where queries and weights are rounded to bf16, the exact query is the rounded one, and a weight is off by `2^-8` of it
///   in the numerator.
/// - Numerator and denominator are off by all of this each, but the denominator's sums have fewer terms.
fn attend_exactly(
    q: &[f32],
    tokens: &[(&[f32], &[f32])],
    scale: f32,
    config: &Config,
    rounding: Rounding,
) -> Exact {
    let format = config.format;
    let tile = match config.layout {
        Layout::Paged { block_len, .. } => block_len.min(16) as f64,
        Layout::Contiguous => 16.0,
    };
    let integer = !FLOATS.contains(&format);
    let dim = q.len().next_multiple_of(16);
    let d = dim as f64;
    let n = tokens.len() as f64;
    let wide = |x: f32| f64::from(x);
    let (exact_q, step): (Vec<f64>, f64) = if integer {
        rounded_query(q, dim, scale)
    } else if rounding.to_bf16 {
        (q.iter().map(|&q| bf16::from_f32(q).to_f64() * wide(scale)).collect(), 0.0)
    } else {
        (q.iter().map(|&q| wide(q) * wide(scale)).collect(), 0.0)
    };
    let products = |k: &[f32]| -> Vec<f64> {
        let k = if integer { rotated(k, dim) } else { k.to_vec() };
        exact_q.iter().zip(k).map(|(&q, k)| q * wide(k)).collect()
    };
    let score = |k: &[f32]| products(k).iter().sum::<f64>();
    let gross = |k: &[f32]| products(k).iter().map(|product| product.abs()).sum::<f64>();
    let norm = |row: &[f32]| row.iter().map(|&x| wide(x) * wide(x)).sum::<f64>().sqrt();
    let padding = |k: &[f32]| {
        if dim == q.len() {
            0.0
        } else {
            d * step / 2.0 * norm(k) / if format == Format::Int4 { 15.0 } else { 254.0 }
        }
    };
    let score_error = |k: &[f32]| {
        if integer {
            (d + 10.0 + 2.0 * d.sqrt() * (d.log2() + 3.0)) * norm(q) * norm(k) * wide(scale.abs())
                + padding(k) / U
        } else {
            (d + 10.0) * gross(k)
        }
    };
    let scores: Vec<f64> = tokens.iter().map(|(k, _)| score(k)).collect();
    let largest = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let sum: f64 = scores.iter().map(|s| (s - largest).exp()).sum();
    let additions = 64.0 + 1024.0 / tile + n / 1024.0 + 8.0;
    let tiny = 2.0_f64.powi(-124);
    let weights: Vec<[f64; 2]> = tokens
        .iter()
        .zip(&scores)
        .map(|((k, _), score)| {
            let below = (largest - score) * std::f64::consts::LOG2_E;
            let part = (score_error(k) + 3.0 + 1.4 * (below + 1.0)) * U;
            let p = (score - largest).exp() / sum;
            // To first order in the parts, all of which are small.
            [p, p * part * 1.01 + tiny]
        })
        .collect();
    let off: f64 = weights.iter().map(|[_, off]| off).sum();
    let rounded =
        rounding.weight_max.map_or(0.0, |max| sum_of_largest_around(&weights, tokens) / (2.0 * max));
    let weight_off = if rounding.to_bf16 { 2.0_f64.powi(-8) } else { 0.0 };
    let column = |c: usize| {
        let terms = || weights.iter().zip(tokens).map(move |(&[p, off], (_, v))| (p, off, wide(v[c])));
        let value: f64 = terms().map(|(p, _, v)| p * v).sum();
        let size: f64 = terms().map(|(p, _, v)| p * v.abs()).sum();
        let budget: f64 = terms().map(|(_, off, v)| off * v.abs()).sum();
        [value, budget + (off + additions * U + weight_off) * size + rounded + 1e-44]
    };
    let lse = largest + sum.ln();
    Exact {
        out: (0..q.len()).map(column).collect(),
        lse: [lse, off + (16.0 + 8.0) * U + 2.0 * U * lse.abs()],
    }
}

/// For every token the largest of weight times value among those that may be rounded together with it, wherever the
/// tokens are cut; added up.
fn sum_of_largest_around(weights: &[[f64; 2]], tokens: &[(&[f32], &[f32])]) -> f64 {
    const TOGETHER: usize = 64;
    let sizes: Vec<f64> = weights
        .iter()
        .zip(tokens)
        .map(|(&[p, off], (_, v))| (p + off) * f64::from(v.iter().fold(0.0, |a: f32, v| a.max(v.abs()))))
        .collect();
    let largest: Vec<f64> =
        sizes.chunks(TOGETHER).map(|sizes| sizes.iter().copied().fold(0.0, f64::max)).collect();
    let around = |i: usize| &largest[i.saturating_sub(1)..largest.len().min(i + 2)];
    let each = sizes.chunks(TOGETHER).enumerate();
    each.map(|(i, sizes)| sizes.len() as f64 * around(i).iter().copied().fold(0.0, f64::max)).sum()
}

/// Asserts that an answer is the model's, for every query, within its budget. Returns the largest part of a budget that was used.
pub(crate) fn assert_answer(
    model: &Model,
    layer: usize,
    asked: &Asked,
    options: &Options,
    got: &Answer,
    context: &str,
) -> f64 {
    let Config { sequences, kv_heads, head_dim, .. } = model.config;
    let heads = asked.heads;
    let t = asked.q.len() / (sequences * heads * head_dim);
    let scale = options.scale.unwrap_or_else(|| (1.0 / (head_dim as f64).sqrt()) as f32);
    let rounding = Rounding::of(model.config.format, options.isa.unwrap_or_else(Isa::best));
    let mut worst = 0.0_f64;
    for s in 0..sequences {
        let tokens = &model.tokens[layer][s];
        for h in 0..heads {
            let kv_head = h / (heads / kv_heads);
            let columns = kv_head * head_dim..(kv_head + 1) * head_dim;
            for i in 0..t {
                let row = (s * heads + h) * t + i;
                let q = &asked.q[row * head_dim..(row + 1) * head_dim];
                let out = &got.out[row * head_dim..(row + 1) * head_dim];
                let place = format!("sequence {s}, head {h}, query {i}, {context}");
                let end = (tokens.len() + i + 1).saturating_sub(asked.lengths[s]);
                let start = options.window.map_or(0, |window| end.saturating_sub(window.get()));
                if i >= asked.lengths[s] || end == 0 {
                    assert_eq!(got.lse[row], f32::NEG_INFINITY, "{place}");
                    assert!(out.iter().all(|o| o.to_bits() == 0), "{place}: {out:?}");
                    continue;
                }
                let seen: Vec<(&[f32], &[f32])> = tokens[start..end]
                    .iter()
                    .map(|[k, v]| (&k[columns.clone()], &v[columns.clone()]))
                    .collect();
                let exact = attend_exactly(q, &seen, scale, &model.config, rounding);
                let pairs = out.iter().zip(&exact.out).chain([(&got.lse[row], &exact.lse)]);
                for (c, (&got, &[value, budget])) in pairs.enumerate() {
                    let used = (f64::from(got) - value).abs() / budget;
                    assert!(used <= 1.0, "column {c}: {got}, not {value}, {used} budgets off; {place}");
                    worst = worst.max(used);
                }
            }
        }
    }
    worst
}

/// Asks on every instruction set of this machine, and compares with the model.
pub(crate) fn check(
    cache: &KvCache,
    model: &Model,
    layer: usize,
    asked: &Asked,
    options: &Options,
    context: &str,
) {
    for isa in Isa::available() {
        let options = Options { isa: Some(isa), ..*options };
        let got = run(cache, layer, asked, &options, asked.q.len() % 3).expect("sizes agree");
        let context = format!("{context}, {}, {isa}", model.config.format.name());
        assert_answer(model, layer, asked, &options, &got, &context);
    }
}

/// Normally distributed queries.
pub(crate) fn ask(config: &Config, heads: usize, t: usize, lengths: &[usize], seed: u64) -> Asked {
    let q = normal(config.sequences * heads * t * config.head_dim, 1.0, seed);
    Asked { heads, q, lengths: lengths.to_vec() }
}

pub(crate) fn window(tokens: usize) -> Options {
    Options { window: NonZeroUsize::new(tokens), ..Options::default() }
}
