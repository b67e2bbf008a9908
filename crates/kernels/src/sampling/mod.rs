//! The next token of each row of logits: the most probable one, or one drawn at random after truncation.
//!
//! All of it is built on [`softmax_topk`]: of a row of probabilities, only the most probable entries are ever stored.
//!
//! # Definitions
//!
//! With `p` the softmax of `(logits + bias) / temperature` over the whole vocabulary, a row's entries are ordered by
//! descending logit, the smaller token first among equals. Filters keep a first part of that order and apply one after
//! the other, each to what the one before has kept, renormalised:
//!
//! 1. *top-k* keeps `k` entries (Fan, Lewis, Dauphin 2018, <https://arxiv.org/abs/1805.04833>); exactly `k`, even if
//!    the next one is as probable as the last.
//! 2. *top-p*, or nucleus, keeps the smallest set whose probabilities sum to at least `top_p`, so the entry that
//!    crosses it belongs to the set (Holtzman, Buys, Du, Forbes, Choi 2019, <https://arxiv.org/abs/1904.09751>).
//! 3. *min-p* keeps the entries at least `min_p` times as probable as the first (Nguyen et al. 2024,
//!    <https://arxiv.org/abs/2407.01082>).
//!
//! What is kept is renormalised and drawn from. This order, with the temperature ahead of it, is that of Hugging Face
//! Transformers; vLLM and llama.cpp differ in where min-p and the temperature stand. Probabilities are those that
//! [`softmax_topk`] rounds to f32, summed in f64; an entry whose probability rounds to zero is never kept.
//!
//! # Method
//!
//! How many entries top-p and min-p need is not known beforehand. A row is asked for 64 first, and for four times as
//! many until the nucleus is covered, or the least probable entry falls below the threshold of min-p. Rows of
//! language models are nearly always settled by the first pass; a flat row takes a few more, the last with the whole
//! vocabulary.
//!
//! # Reproducing a draw
//!
//! The random number behind a draw is a function of seed, row and step alone (Philox4x32-10, a counter-based
//! generator), so neither threads nor the way a batch is cut change a token. Probabilities may differ in the last bit
//! between instruction sets: to replay on another machine to the letter, name one that both have.

mod philox;
mod truncation;

use rayon::prelude::*;

use crate::isa::Isa;
use crate::softmax_topk::{Logit, Options, Outputs, Shape, SoftmaxTopkError, softmax_topk};
use truncation::Truncation;

/// How much more of a row is asked for when its first entries do not settle what is kept.
const GROWTH: usize = 4;

/// How tokens are drawn. The default draws from the softmax as it is, with seed 0.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sampler<'a> {
    /// Logits are divided by it; finite, not negative. 0 means greedy: the filters and the seed are then without
    /// effect.
    pub temperature: f32,
    /// Added to the logits before the temperature: `[vocab]` for all rows, or `[rows, vocab]`. Minus infinity masks
    /// an entry.
    pub bias: Option<&'a [f32]>,
    /// Keeps so many entries; at least one. As many as the vocabulary has, or more, is as good as `None`.
    pub top_k: Option<usize>,
    /// Keeps the smallest set that sums to this; above 0, up to 1, which is as good as `None`.
    pub top_p: Option<f32>,
    /// Keeps what is at least so many times as probable as the most probable entry; 0, which is as good as `None`, to
    /// 1.
    pub min_p: Option<f32>,
    /// Chooses the stream of random numbers.
    pub seed: u64,
    /// The number of the first row, for a batch that is part of a larger one.
    pub first_row: u64,
    /// The instruction set to use; `None` takes [`Isa::best`].
    pub isa: Option<Isa>,
}

impl Default for Sampler<'_> {
    fn default() -> Self {
        Sampler {
            temperature: 1.0,
            bias: None,
            top_k: None,
            top_p: None,
            min_p: None,
            seed: 0,
            first_row: 0,
            isa: None,
        }
    }
}

/// A token that may be drawn.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Candidate {
    /// Its index in the vocabulary.
    pub token: u32,
    /// The probability that it is drawn.
    pub prob: f32,
}

/// Why no tokens were drawn. Nothing has been written.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum SamplingError {
    /// The kernel refused.
    #[error(transparent)]
    Softmax(#[from] SoftmaxTopkError),
    /// There is not one token a row.
    #[error("write {expected} tokens to a buffer of {got}: give it one element a row")]
    Tokens {
        /// The number of rows.
        expected: usize,
        /// How many elements the buffer has.
        got: usize,
    },
    /// `top_k` is zero.
    #[error("keep 0 entries: top_k must be at least 1; use None to keep all")]
    TopK,
    /// `top_p` is out of range or NaN.
    #[error("keep a probability of {0}: top_p must be above 0 and at most 1; use None to keep all")]
    TopP(
        /// The value given.
        f32,
    ),
    /// `min_p` is out of range or NaN.
    #[error("keep entries {0} times as probable as the first: min_p must be from 0 to 1")]
    MinP(
        /// The value given.
        f32,
    ),
    /// A row has no softmax, because of a NaN or an infinity.
    #[error(
        "draw from row {row}: its logits or their bias hold a NaN or an infinity; look for the cause upstream"
    )]
    NotFinite {
        /// The first such row, counted from 0 within the batch.
        row: usize,
    },
    /// A row is minus infinity throughout.
    #[error("draw from row {row}: all its entries are masked; leave at least one")]
    AllMasked {
        /// The first such row, counted from 0 within the batch.
        row: usize,
    },
}

/// Writes the most probable token of each row of `logits + bias` to `tokens`; the smallest among equals.
///
/// `logits` is `[rows, vocab]`, `tokens` is `[rows]`, and `bias` as in [`Sampler::bias`].
///
/// # Errors
/// [`SamplingError`] if a shape does not fit or a row has no softmax; then nothing has been written.
pub fn greedy<T: Logit>(
    shape: Shape,
    logits: &[T],
    bias: Option<&[f32]>,
    tokens: &mut [u32],
) -> Result<(), SamplingError> {
    Sampler { temperature: 0.0, bias, ..Default::default() }.sample(shape, logits, 0, tokens)
}

impl Sampler<'_> {
    /// Draws a token for each row of `logits`, which is `[rows, vocab]`, and writes it to `tokens`, which is `[rows]`.
    ///
    /// `step` numbers the draws of a row: how many tokens have been generated, say. The same step gives the same
    /// tokens.
    ///
    /// ```
    /// use tribunal_kernels::sampling::Sampler;
    /// use tribunal_kernels::softmax_topk::Shape;
    ///
    /// let logits = [2.0_f32, 1.0, f32::NEG_INFINITY, 1.5];
    /// let sampler = Sampler { temperature: 0.8, top_p: Some(0.9), seed: 42, ..Default::default() };
    /// let mut tokens = [0];
    /// for step in 0..100 {
    ///     sampler.sample(Shape { rows: 1, vocab: 4 }, &logits, step, &mut tokens)?;
    ///     assert_ne!(tokens, [2]); // masked
    /// }
    /// # Ok::<(), tribunal_kernels::sampling::SamplingError>(())
    /// ```
    ///
    /// # Errors
    /// [`SamplingError`] if an option is out of range, a shape does not fit or a row has no softmax; then nothing has
    /// been written.
    pub fn sample<T: Logit>(
        &self,
        shape: Shape,
        logits: &[T],
        step: u64,
        tokens: &mut [u32],
    ) -> Result<(), SamplingError> {
        if tokens.len() != shape.rows {
            return Err(SamplingError::Tokens { expected: shape.rows, got: tokens.len() });
        }
        let truncation = self.truncation(shape.vocab)?;
        let drawn = self.each_row(shape, logits, &truncation, |row, probs, indices| {
            let uniform = philox::uniform(self.seed, self.first_row.wrapping_add(row as u64), step);
            truncation.draw(probs, uniform).map(|position| indices[position])
        })?;
        tokens.copy_from_slice(&drawn);
        Ok(())
    }

    /// What [`sample`](Sampler::sample) draws from: the tokens that each row keeps, most probable first, with
    /// probabilities that sum to 1. Without filters that is the whole vocabulary.
    ///
    /// # Errors
    /// As [`sample`](Sampler::sample).
    pub fn candidates<T: Logit>(
        &self,
        shape: Shape,
        logits: &[T],
    ) -> Result<Vec<Vec<Candidate>>, SamplingError> {
        let truncation = self.truncation(shape.vocab)?;
        self.each_row(shape, logits, &truncation, |_, probs, indices| {
            let probs = &probs[..truncation.kept(probs)?];
            let mass = truncation::sum(probs);
            let candidate = |(&prob, &token)| Candidate { token, prob: (f64::from(prob) / mass) as f32 };
            Some(probs.iter().zip(indices).map(candidate).collect())
        })
    }

    fn is_greedy(&self) -> bool {
        self.temperature == 0.0
    }

    fn truncation(&self, vocab: usize) -> Result<Truncation, SamplingError> {
        let truncation = Truncation::new(vocab, self.top_k, self.top_p, self.min_p)?;
        Ok(if self.is_greedy() { Truncation::greedy(vocab) } else { truncation })
    }

    /// What `settle` makes of the number, the probabilities and the indices of each row's most probable entries.
    /// Where that is `None`, it gets more of them; with all that the filters can keep, it must answer.
    fn each_row<T: Logit, R: Send>(
        &self,
        shape: Shape,
        logits: &[T],
        truncation: &Truncation,
        settle: impl Fn(usize, &[f32], &[u32]) -> Option<R> + Sync,
    ) -> Result<Vec<R>, SamplingError> {
        // Which token is the first does not depend on the temperature.
        let temperature = if self.is_greedy() { 1.0 } else { self.temperature };
        let options = Options { temperature, bias: self.bias, isa: self.isa };
        let first = Top::new(shape, truncation.first(), logits, &options)?;
        first.check()?;
        let grow = |row: usize| -> Result<R, SamplingError> {
            let range = row * shape.vocab..(row + 1) * shape.vocab;
            let bias =
                self.bias.map(|bias| if bias.len() == shape.vocab { bias } else { &bias[range.clone()] });
            let (shape, logits) = (Shape { rows: 1, ..shape }, &logits[range]);
            let mut k = truncation.first();
            loop {
                assert_ne!(k, truncation.limit(), "all that can be kept settles what is kept");
                k = (k * GROWTH).min(truncation.limit());
                let top = Top::new(shape, k, logits, &Options { bias, ..options })?;
                if let Some(settled) = settle(row, &top.probs, &top.indices) {
                    return Ok(settled);
                }
            }
        };
        (first.probs.par_chunks(first.k), first.indices.par_chunks(first.k))
            .into_par_iter()
            .enumerate()
            .map(|(row, (probs, indices))| settle(row, probs, indices).map_or_else(|| grow(row), Ok))
            .collect()
    }
}

/// The most probable entries of some rows.
struct Top {
    k: usize,
    /// `[rows, k]`, descending.
    probs: Vec<f32>,
    /// `[rows, k]`
    indices: Vec<u32>,
    /// `[rows]`
    lse: Vec<f32>,
}

impl Top {
    fn new<T: Logit>(
        shape: Shape,
        k: usize,
        logits: &[T],
        options: &Options<'_>,
    ) -> Result<Top, SoftmaxTopkError> {
        // No more than there are logits: if the shape asks for more, the kernel is about to refuse.
        let (rows, entries) = (shape.rows.min(logits.len()), shape.rows.saturating_mul(k).min(logits.len()));
        let mut top = Top { k, probs: vec![0.0; entries], indices: vec![0; entries], lse: vec![0.0; rows] };
        let outputs = Outputs { probs: &mut top.probs, indices: &mut top.indices, lse: Some(&mut top.lse) };
        softmax_topk(shape, k, logits, outputs, options)?;
        Ok(top)
    }

    /// Refuses rows that have no softmax.
    fn check(&self) -> Result<(), SamplingError> {
        let Some(row) = self.probs.chunks(self.k).position(|probs| probs[0].is_nan()) else { return Ok(()) };
        Err(if self.lse[row] == f32::NEG_INFINITY {
            SamplingError::AllMasked { row }
        } else {
            SamplingError::NotFinite { row }
        })
    }
}
