//! Softmax over each row of logits, and its `k` largest probabilities, in one pass.
//!
//! `p[i] = exp((x[i] + b[i]) / t) / sum over j of exp((x[j] + b[j]) / t)`, of which the `k` largest are returned with their
//! indices. The probabilities of the whole row are never written, and its logits are read from memory once.
//!
//! # Method
//!
//! A row is scanned in tiles of 256 vectors (4096 logits with AVX-512), each in blocks of eight that stay in registers; AVX2 has
//! too few of these, and reads them a second time from the first level of cache:
//!
//! - **Sum.** The online recurrence of Milakov and Gimelshein: terms are `2^(x * rate - e)`, and `e` follows the largest logit so
//!   far. Here `e` is an integer, so that moving it multiplies the sum by a power of two and rounds nothing, however often
//!   it is moved. A lane sums 64 terms in f32; these sums are summed in f64. With AVX-512 a term takes four fused multiplications:
//!   a table brings it down to `2^r` for a sixty-fourth `r`, which is a square and a number, but for a factor of the whole sum.
//!   Masked logits make that sum NaN; from there on they are raised to where the term is nothing, which takes an operation more.
//! - **Candidates.** One comparison of the common maximum of four vectors (eight with AVX2) with a threshold puts the group on
//!   a list, without a branch. After the tile, which is still in the first level of cache, the groups listed are searched, and what is
//!   above the threshold is kept. The first tile's lane maxima give the threshold: one that leaves about `k` plus some
//!   deviations, if the row is in random order. After every tile, but seldom once it was so, what was found is compared with
//!   what `k` takes: if too few will be, as in a vocabulary that begins with what is frequent, the threshold is lowered to what
//!   the last tile's maxima suggest, and the part scanned, mostly still in the second level of cache, is searched again. Should
//!   fewer than `k` be above it in the end, all the row is searched without a guess, so the answer is exact for any order. Rows
//!   after such a one, in the same task, expect of their first tile what was found in its own.
//! - **Selection.** The candidates are cut down to about `k` by bisection, counting how many are above the middle. What is left is ranked:
//!   with AVX-512 by a bitonic network of 32-bit keys, in registers up to 256 of them. A key is the leading bits of the logit before
//!   its place; where these bits leave an order open, insertion settles it. The exponentials of the `k` are taken anew, in f64.
//!
//! While candidates are looked up, lines of what follows in memory are prefetched, into the second level; the scan then asks for
//! one line less a block until the lead is used up. Of rows that do not begin at a line, lines are brought into the first
//! level as well, shortly before they are read: these take 10 % less on a Zen 4 for that.
//!
//! # Cost
//!
//! A logit is read from memory once, and exponentiated once; `k` more exponentials are taken for the results. With about 20 flops
//! (fused multiply-adds counted twice) that is five per byte of f32. From the second level of cache a core of a Zen 5 exponentiates
//! and adds 15 logits a nanosecond, and memory brings it 9.5: memory is the bound, but not by far, and not for f16 and bf16.
//!
//! In random order `k (1 + ln(vocab / k))` entries are among the `k` largest of those before them, the least that a scan with an
//! exact running threshold meets: 1490 for the 256 largest of 32000. The guessed threshold is met by fewer. Means of 1000 rows
//! of 32000 normally distributed logits, and of 128256, scanned one after another, counted by `counts.rs`, a test beside this file, with AVX-512:
//!
//! | k | candidates | groups searched | of the row read again, from the first level | of the row searched again |
//! |--:|--:|--:|--:|--:|
//! | 1 | 3.7, 5.8 | 6, 8 | 1.1 %, 0.4 % | 0.00 %, 0.00 % |
//! | 5 | 17.7, 24.0 | 27, 30 | 5.4 %, 1.5 % | 0.00 %, 0.28 % |
//! | 50 | 102, 145 | 107, 152 | 21.5 %, 7.6 % | 0.23 %, 0.03 % |
//! | 256 | 395, 528 | 289, 482 | 57.7 %, 24.0 % | 0.05 %, 0.18 % |
//!
//! On a Zen 4, whose AVX-512 goes in two halves, one call after another, one thread takes 1.10 to 1.23 times a pass of read, exp
//! and sum for `k` up to 50, and 1.15 to 1.59 for 256, the most for short rows; two threads 1.04 to 1.18 and 1.13 to 1.27 where
//! they share the bandwidth of one. One row a call takes up to 1.41 and 1.68 times the pass, and 1.77 and 1.92 if the frequent come
//! first (`benches/records/2026-11-23-softmax-topk-zen4-floor.md`). What follows was measured before that way of summing and
//! ranking, and when prefetches went to the first level.
//!
//! Measured on a Zen 5 (`benches/records/2026-11-21-softmax-topk-avx512-floor.md`), one thread, logits that no cache holds: 64 rows
//! of 128256 take 0.95 ms for `k = 1` (34.7 GB/s, 8.7 exponentials a nanosecond) where reading alone takes 0.89 ms; a
//! logit more in each row costs 115 ps where one read of it costs 110 ps, so it is read 1.04 times at most. Over all shapes and one or
//! two threads it is 1.03 to 1.25 times a pass of read, exp and sum for `k` up to 50, and 1.10 to 1.62 for 256, the most
//! where 256 are sought among 32000. From the second level of cache, where memory does not count, a row of 32000 takes 2.7 us for
//! `k = 1`, 3.6 for 50, 4.7 for 256; the pass alone takes 1.9 (`cargo bench -p tribunal-kernels --bench softmax_topk --
//! --resident --threads 1`).
//!
//! A Zen 3 with AVX2 exponentiates 4.9 logits a nanosecond in a pass alone, about as many as memory brings. From the second level a
//! row of 32000 takes it 7.6 us for `k = 1`, 9.2 for 50, 12.3 for 256, where the pass takes 6.6; rows of 128256 take 1.12, 1.20 and
//! 1.38 times the pass. From memory, on a shared machine, it is 1.1 to 1.6 times for `k` up to 50, and 1.35 to
//! 2.1 times for 256 (`benches/records/2026-11-22-softmax-topk-avx2-floor.md`).
//!
//! Rows in order are the worst. On the Zen 4 (its record) a rising one, which makes every tile dense, takes 1.6 to 4.3 times the
//! pass with AVX-512 and 2.7 to 11.5 with AVX2; a falling one, whose threshold must be lowered, 1.1 to 1.5 and 1.5 to 2.2; equal
//! logits 1.1 to 2.1 and 1.6 to 2.5. And in small vocabularies a large `k` is most of the work: with AVX-512 the 256 largest of 4096
//! take 6.9 times as long as reading, 50 take 2.5 times.
//!
//! Time is `O(vocab)` a row and `O(k log k)` for the sort (`O(k log² k)` in the network); space is `8 (2 k + 4096)` bytes a
//! thread.
//!
//! # Accuracy
//!
//! `exp2` of a term, by a table of 32 and a polynomial of degree 2 with AVX-512 and by one of degree 5 elsewhere, is within 3 units in the
//! last place, and its argument is rounded once. In the worst case a probability is
//! off by `(76 + 0.7 log2(32 vocab)) u`, where `u` is half of the epsilon of f32, nearly all of it from 64 additions in f32;
//! ordinary rows come within four units in the last place (`tests/softmax_topk.rs` asserts both). `lse` is off by the same, and
//! rounded. A row whose largest `x * rate` is beyond `2^18`, as logits of 200 000 make it, or any at a temperature above 1e30,
//! is summed in f64 by the standard library, which takes some thirty times as long.
//!
//! # Source
//!
//! Milakov, Gimelshein 2018, "Online normalizer calculation for softmax", <https://arxiv.org/abs/1805.02867>, algorithm 3 for the
//! recurrence, and section 4 for the fusion with top-k. Network: Batcher 1968, "Sorting networks and their applications".

mod candidates;
#[cfg(test)]
mod counts;
mod cut;
mod run;
mod scan;

use half::{bf16, f16};

use crate::isa::Isa;
use crate::simd::{LogitOp, Token, dispatch};
use run::{Bias, Problem};

/// The shape of the logits. Leading axes are folded into `rows`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// How many rows; may be zero.
    pub rows: usize,
    /// How many logits a row has; at least one, and countable in a `u32`.
    pub vocab: usize,
}

/// What [`softmax_topk`] writes.
#[derive(Debug)]
pub struct Outputs<'a> {
    /// `[rows, k]`: the largest probabilities of each row, in falling order.
    pub probs: &'a mut [f32],
    /// `[rows, k]`: where in its row each of them stands; among equals the smaller index comes first.
    pub indices: &'a mut [u32],
    /// `[rows]`: the logarithm of the sum of the exponentials of each row's logits, after bias and temperature.
    pub lse: Option<&'a mut [f32]>,
}

/// Options of [`softmax_topk`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Options<'a> {
    /// What the logits are divided by. Finite and positive.
    pub temperature: f32,
    /// Added to the logits before they are divided: `[vocab]`, the same for each row, or `[rows, vocab]`. An entry of
    /// negative infinity masks its logit.
    pub bias: Option<&'a [f32]>,
    /// The instruction set to use; `None` takes [`Isa::best`].
    pub isa: Option<Isa>,
}

impl Default for Options<'_> {
    /// Temperature 1, no bias, and the best instruction set.
    fn default() -> Self {
        Options { temperature: 1.0, bias: None, isa: None }
    }
}

/// Why a softmax was refused. No buffer has been touched.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum SoftmaxTopkError {
    /// A buffer is shorter or longer than the shape asks for.
    #[error("use {buffer} of {got} elements where the shape asks for {expected}")]
    Length {
        /// The name of the field.
        buffer: &'static str,
        /// How many elements the shape asks for.
        expected: usize,
        /// How many the buffer has.
        got: usize,
    },
    /// Rows without logits have no softmax.
    #[error("take the softmax of rows of no logits")]
    NoVocabulary,
    /// `rows * vocab` or `rows * k` does not fit into a `usize`, or `vocab` not into a `u32`.
    #[error("address {} x {} logits", .0.rows, .0.vocab)]
    TooLarge(
        /// The shape.
        Shape,
    ),
    /// `k` is zero or larger than the vocabulary.
    #[error("find the {k} largest of {vocab}: k must be from 1 to the size of the vocabulary")]
    K {
        /// How many were asked for.
        k: usize,
        /// How many there are.
        vocab: usize,
    },
    /// The temperature is not positive, infinite or NaN.
    #[error("divide by a temperature of {0}: it must be finite and positive")]
    Temperature(
        /// The value given.
        f32,
    ),
    /// The bias is neither one row nor as large as the logits.
    #[error("add a bias of {got} elements: it must have {vocab} or {logits}")]
    Bias {
        /// How many elements the bias has.
        got: usize,
        /// How many one row has.
        vocab: usize,
        /// How many the logits have.
        logits: usize,
    },
    /// The instruction set asked for is not one that this CPU has.
    #[error("run {0} kernels: this CPU does not have that instruction set")]
    Unavailable(
        /// The instruction set asked for.
        Isa,
    ),
}

pub(crate) mod sealed {
    use super::Outputs;
    use super::run::Problem;
    use crate::simd::{LogitOp, Token};

    #[expect(private_interfaces, private_bounds, reason = "only this crate can name the trait")]
    pub trait Sealed: Sized {
        /// Runs `op` inside a function compiled for the instruction set of `token`.
        fn dispatch<O: LogitOp<Self>>(token: Token, op: O);

        /// Answers a problem that has been checked. Not generic, so that it is compiled once, in this crate.
        fn answer(problem: &Problem<'_, Self>, outputs: Outputs<'_>)
        where
            Self: super::Logit;
    }
}

/// A type that logits can have: `f32`, [`struct@f16`] or [`bf16`].
///
/// Sealed: kernels are instantiated for these three and no others.
pub trait Logit: sealed::Sealed + Copy + Send + Sync + std::fmt::Debug + 'static {
    /// The name, as reports show it.
    const NAME: &'static str;

    /// Widens, exactly.
    fn to_f32(self) -> f32;
}

macro_rules! logit {
    ($logit:ty, $name:literal, $to:expr) => {
        impl Logit for $logit {
            const NAME: &'static str = $name;

            #[inline(always)]
            fn to_f32(self) -> f32 {
                $to(self)
            }
        }

        #[expect(private_interfaces, private_bounds, reason = "only this crate can name the trait")]
        impl sealed::Sealed for $logit {
            fn dispatch<O: LogitOp<$logit>>(token: Token, op: O) {
                dispatch!(token, op)
            }

            #[inline(never)]
            fn answer(problem: &Problem<'_, $logit>, outputs: Outputs<'_>) {
                run::run(problem, outputs);
            }
        }
    };
}

logit!(f32, "f32", |v| v);
logit!(f16, "f16", f16::to_f32);
logit!(bf16, "bf16", bf16::to_f32);

/// Probabilities of the `k` largest logits of each row, softmax over the whole row.
///
/// # Shapes
/// `logits`: `[rows, vocab]`, row-major, contiguous, at any alignment. `probs`, `indices`: `[rows, k]`, falling. `lse`:
/// `[rows]`. See [`Options`] for the bias.
/// # Types
/// f32, f16 and bf16 logits; the arithmetic is f32, the results are f32.
/// # Order
/// By the logit with its bias added in f32, before it is divided by the temperature; among equals, and zero equals minus zero,
/// the smaller index comes first. The set of indices is always exact, and they are distinct.
/// # Reproducibility
/// Bitwise the same for any number of threads and any alignment; not bitwise the same on another [`Isa`].
/// # Edge cases
/// Where fewer than `k` logits are larger than negative infinity, the rest of the results have probability 0 and name masked
/// entries, smallest index first. A row with a NaN or positive infinity, or with nothing but negative infinity, has no
/// softmax: its probabilities are NaN and its indices `0..k`; `lse` is negative infinity where all is masked, and else
/// NaN. No other row is affected. `rows == 0` does nothing.
/// # Errors
/// [`SoftmaxTopkError`] if a length does not match, `vocab` is 0 or does not fit into a `u32`, `k` is 0 or larger than `vocab`,
/// the temperature is not finite and positive, or the CPU lacks the instruction set asked for; buffers are then
/// untouched.
pub fn softmax_topk<T: Logit>(
    shape: Shape,
    k: usize,
    logits: &[T],
    outputs: Outputs<'_>,
    options: &Options<'_>,
) -> Result<(), SoftmaxTopkError> {
    let Shape { rows, vocab } = shape;
    if vocab == 0 {
        return Err(SoftmaxTopkError::NoVocabulary);
    }
    if k == 0 || k > vocab {
        return Err(SoftmaxTopkError::K { k, vocab });
    }
    let len = rows
        .checked_mul(vocab)
        .filter(|_| u32::try_from(vocab).is_ok())
        .ok_or(SoftmaxTopkError::TooLarge(shape))?;
    check_length("logits", logits, len)?;
    check_length("probs", outputs.probs, rows * k)?;
    check_length("indices", outputs.indices, rows * k)?;
    if let Some(lse) = &outputs.lse {
        check_length("lse", lse, rows)?;
    }
    let Options { temperature, bias, isa } = *options;
    if !(temperature.is_finite() && temperature > 0.0) {
        return Err(SoftmaxTopkError::Temperature(temperature));
    }
    let bias = match bias {
        None => Bias::None,
        Some(bias) if bias.len() == vocab => Bias::Shared(bias),
        Some(bias) if bias.len() == len => Bias::PerRow(bias),
        Some(bias) => return Err(SoftmaxTopkError::Bias { got: bias.len(), vocab, logits: len }),
    };
    let isa = isa.unwrap_or_else(Isa::best);
    let token = Token::new(isa).ok_or(SoftmaxTopkError::Unavailable(isa))?;
    if rows > 0 {
        T::answer(&Problem { shape, k, logits, bias, temperature, token }, outputs);
    }
    Ok(())
}

fn check_length<T>(buffer: &'static str, slice: &[T], expected: usize) -> Result<(), SoftmaxTopkError> {
    let got = slice.len();
    if got == expected { Ok(()) } else { Err(SoftmaxTopkError::Length { buffer, expected, got }) }
}
