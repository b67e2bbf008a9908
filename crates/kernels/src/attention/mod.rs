//! Attention of new tokens over a [`KvCache`]: decoding, and prefill in chunks.
//!
//! `o[i] = sum over j of p[i, j] v[j]`, with `p[i, j] = exp(s[i, j]) / sum over j of exp(s[i, j])` and
//! `s[i, j] = scale q[i] . k[j]`, where `j` goes over the tokens that token `i` sees: itself and those before it, as far as
//! a sliding window reaches. The scores are never written to memory.
//!
//! # Method
//!
//! - **Grouped queries.** The `heads / kv_heads` query heads that share a head of keys and values are folded into the inner loop,
//!   four at a time, so a cached byte comes from memory once for all of them.
//! - **Strips and tiles.** The cache holds [strips](crate::kv_cache#layout) of 16 tokens, in which the same value of all keys is a vector;
//!   so a score is a lane, and none is summed over lanes. One strip of f32, two of 16 bits or four of integers make a step, which is
//!   a tile of the cache where blocks are large enough: scores become exponentials, by which the values are added up in registers, some
//!   columns of all tokens and then the next columns, as they lie in memory.
//! - **In line.** On AMD's CPUs floats are left to the CPU's own prefetchers, where the next tile lies right behind. For that, each byte is read
//!   once and in the order of addresses, a step is 16 KiB at most, and in f32 and bf16 the exponentials of a strip come right after its keys:
//!   so little at a time that what the CPU looks ahead reaches over it. A core of a Zen 4 reads 35 GB/s so, and 20 to 25 where lines are
//!   asked for ahead, since these occupy the few places that reads wait for.
//! - **Prefetches.** Elsewhere, and for integers, which take longer to compute than to read, the next step is prefetched into the second level
//!   meanwhile, evenly over the work; at the end of a head that is the first step of the next, whose second is
//!   begun while its queries are rotated and rounded. A core of an Intel Emerald Rapids reads
//!   as fast as it has lines under way, so time without a prefetch is lost: f32 takes 1.6 times the floor where the CPU's own
//!   prefetchers are left alone, and 1.2 so. A line of keys and one of values are asked for in turn there. int8 needs the keys of
//!   a step long before its values, so all lines of keys come first, from either half in turn, and then those of values: that takes 6 % off
//!   on a Granite Rapids.
//! - **Online softmax.** Terms are `2^(s - e)`, where `e` is an integer not below the largest `s` so far, in powers of two.
//!   Moving `e` multiplies what has been summed by a power of two, and that rounds nothing.
//! - **bf16.** With AVX-512 BF16, `vdpbf16ps` adds two products of bf16 to a lane, twice as many as multiplications of f32 in the same time,
//!   and nothing is widened. Queries are rounded to bf16 for it, before scores are scaled: those of a model that computes in bf16 are exact.
//!   Weights are rounded too, as flash attention does on GPUs; the sum that they are divided by is of weights that are not. Elsewhere, and in
//!   f32 and f16 everywhere, queries and weights are f32.
//! - **Integers.** Where keys are stored as integers, queries are rotated as the keys have been and rounded to 8 bits, with
//!   a scale for each head; products of the two are sums of integers, exact for heads of up to 512. With AVX2
//!   and AVX-512 values are summed as integers too: weights times scales are rounded to integers, as parts of the largest in a step, and
//!   four tokens of a column share the four bytes whose products are added up in a lane. VNNI multiplies bytes. Weights have twice as many bits
//!   as values: 8 for int4, and 16 for int8, whose halves make a sum each. Without VNNI, numbers of 16 bits with a sign are multiplied, so a
//!   weight has 15 bits, and values are widened to as many; of half bytes and queries the products have 16 bits, and some are added up
//!   before they are widened. Elsewhere values are widened to f32.
//! - **Split.** The context is cut into chunks of 1024 tokens, each is summed on its own, and the sums are added in order.
//!   This is done whoever does the work, so a result depends neither on the number of threads, nor on how many tokens
//!   are asked about at once, nor on the layout of the cache if its blocks have a multiple of 16 tokens. Each thread has a share of the work
//!   that lies in line; who has done its own takes the last of another's, so a thread that wakes up late costs half
//!   of the time that it is late.
//!
//! # Cost
//!
//! A cached token takes `4 heads head_dim` multiplications and additions, and is read from memory once: half a flop a byte for
//! f32 with one query head for each head of keys, two with four, four with bf16. Prefill repeats the same for each query, over
//! tiles that stay in the first level.
//!
//! # Accuracy
//!
//! Compared with the definition over keys and values as they are stored, and queries as they are rounded for integer
//! formats. With `u` half of the epsilon of f32, `d` the padded size of a head, `n` the keys of a query, and for key `j` `A`
//! the sum `scale * sum |q k|` and `b` by how many powers of two its weight is below the largest, a weight is off by
//! `e = ((d + 10) A + 3 + 1.4 (b + 1)) u`: a product in a score passes at most `d` additions and a few more roundings; `3`
//! and half of the rest are the power of two's, whose argument is rounded when the exponent is subtracted. Weights below
//! `2^-125` may be anything up to that. Numerator and denominator are off by that and by additions: to a tile (64 terms at
//! most), of tiles to a chunk (64 at most), and of chunks. So a result is within
//! `sum p e |v| + (sum p e + (136 + n / 1024) u) sum p |v|`. With integers and AVX2 or AVX-512 a weight times its scale is off
//! by half of `1 / 32767` of the largest among the 64 tokens of a step, or with VNNI of `1 / 65535` (int8) or `1 / 255` (int4), which adds at
//! most as large a part of that step's largest `p |v|`, over all columns, for each of its tokens; or by as much of `1e-30`, if all in
//! the step are less. With AVX-512 BF16, bf16 is compared with the definition over queries rounded to bf16, and a weight is off by `2^-8` of it
//! at most, which adds `2^-8 sum p |v|`; such errors lean to no side, and keys and values have as large ones. In blocks of fewer than 16 tokens there are more steps: 136 becomes `72 + 1024 / block_len`.
//! `tests/attention.rs` asserts it.
//!
//! # Source
//!
//! Milakov, Gimelshein 2018, <https://arxiv.org/abs/1805.02867>, for the recurrence; Dao et al. 2023, "Flash-Decoding for
//! long-context inference", for the split over the context; Ainslie et al. 2023, "GQA", <https://arxiv.org/abs/2305.13245>,
//! for the groups.

mod ahead;
#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod bf16;
#[cfg(target_arch = "x86_64")]
mod integers;
mod queries;
mod run;
mod share;
mod step;
#[cfg(target_arch = "x86_64")]
mod vnni;

use std::num::NonZeroUsize;

use crate::isa::Isa;
use crate::kv_cache::KvCache;
use crate::simd::Token;
use run::Problem;

/// The new tokens' queries.
#[derive(Clone, Copy, Debug)]
pub struct Queries<'a> {
    /// How many query heads there are: a multiple of the cache's `kv_heads`. Query head `h` uses head
    /// `h / (heads / kv_heads)` of the keys and values.
    pub heads: usize,
    /// `[sequences, heads, t, head_dim]`
    pub q: &'a [f32],
    /// `[sequences]`: how many of the `t` tokens are valid. They are the newest of their sequence, and the cache has their
    /// keys and values already.
    pub lengths: &'a [usize],
}

/// What [`attend`] writes.
#[derive(Debug)]
pub struct Outputs<'a> {
    /// `[sequences, heads, t, head_dim]`
    pub out: &'a mut [f32],
    /// `[sequences, heads, t]`: the natural logarithm of the sum of the exponentials of a query's scores, so that results
    /// over parts of a context can be put together.
    pub lse: Option<&'a mut [f32]>,
}

/// Options of [`attend`].
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Options {
    /// What scores are multiplied by; `None` takes `1 / sqrt(head_dim)`. Finite.
    pub scale: Option<f32>,
    /// How many tokens a query sees, itself among them; `None` is all of them.
    pub window: Option<NonZeroUsize>,
    /// The instruction set to use; `None` takes [`Isa::best`].
    pub isa: Option<Isa>,
}

/// Why attention was refused. No buffer has been touched.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum AttentionError {
    /// There is no such layer.
    #[error("attend to layer {layer} of {layers}")]
    Layer {
        /// The layer that was named.
        layer: usize,
        /// How many the cache has.
        layers: usize,
    },
    /// The query heads cannot be shared out to the heads of keys and values.
    #[error("share {kv_heads} heads of keys among {heads} of queries: it must be a multiple, and not zero")]
    Heads {
        /// How many query heads there are.
        heads: usize,
        /// How many heads the cache has.
        kv_heads: usize,
    },
    /// A buffer does not have the size that the others and the cache ask for.
    #[error("use {buffer} of {got} elements where {expected} are expected")]
    Length {
        /// The name of the field.
        buffer: &'static str,
        /// How many elements are expected; for queries, a multiple of this.
        expected: usize,
        /// How many the buffer has.
        got: usize,
    },
    /// More queries of a sequence are valid than were given.
    #[error("attend for {length} of {given} tokens of sequence {sequence}")]
    Valid {
        /// The sequence.
        sequence: usize,
        /// How many tokens are said to be valid.
        length: usize,
        /// How many were given.
        given: usize,
    },
    /// The scale is infinite or NaN.
    #[error("scale scores by {0}: it must be finite")]
    Scale(
        /// The value given.
        f32,
    ),
    /// The instruction set asked for is not one that this CPU has.
    #[error("run {0} kernels: this CPU does not have that instruction set")]
    Unavailable(
        /// The instruction set asked for.
        Isa,
    ),
}

/// Causal attention of the newest tokens of each sequence over a layer of the cache.
///
/// Of sequence `s`, with `n` tokens in the layer, query `i` of `m = lengths[s]` is token `n - m + i`. It sees the tokens up
/// to itself; with a window of `w`, the last `w` of these.
///
/// # Shapes
/// `q`, `out`: `[sequences, heads, t, head_dim]`, row-major, contiguous, at any alignment, where `t` follows from how long
/// `q` is; `lse`: `[sequences, heads, t]`; `lengths`: `[sequences]`, each from 0 to `t`.
/// # Types
/// f32; the arithmetic is f32, on keys and values as they are stored, or for bf16 and integers what [the module](self#method) says; so is the
/// accuracy.
/// # Reproducibility
/// Bitwise the same for any number of threads, any layout of the cache with blocks of a multiple of 16 tokens, and however
/// the tokens are grouped into calls; not bitwise the same on another [`Isa`], nor for bf16 and integers with AVX-512 on a CPU
/// that lacks the instructions for them.
/// # Edge cases
/// A query that sees no token, because more queries are valid than the cache has tokens, or that is not valid, gives zeros,
/// and `lse` of negative infinity; so does one all of whose scores are negative infinity. A score of positive infinity or NaN makes its query's result NaN, and no other query is
/// affected. A value that is not finite spoils its column in the queries that see it, or, stored as integers, its row.
/// # Errors
/// [`AttentionError`] if there is no such layer, sizes do not match, the scale is not finite, or the CPU lacks the
/// instruction set asked for; buffers are then untouched.
pub fn attend(
    cache: &KvCache,
    layer: usize,
    queries: Queries<'_>,
    outputs: Outputs<'_>,
    options: &Options,
) -> Result<(), AttentionError> {
    let config = *cache.config();
    let Queries { heads, q, lengths } = queries;
    let present = cache.lengths(layer).map_err(|_| AttentionError::Layer { layer, layers: config.layers })?;
    if heads == 0 || !heads.is_multiple_of(config.kv_heads) {
        return Err(AttentionError::Heads { heads, kv_heads: config.kv_heads });
    }
    check_length("lengths", lengths.len(), config.sequences)?;
    let token = config.sequences * heads * config.head_dim;
    if !q.len().is_multiple_of(token) {
        return Err(AttentionError::Length { buffer: "q", expected: token, got: q.len() });
    }
    let t = q.len() / token;
    check_length("out", outputs.out.len(), q.len())?;
    if let Some(lse) = &outputs.lse {
        check_length("lse", lse.len(), q.len() / config.head_dim)?;
    }
    if let Some((sequence, &length)) = lengths.iter().enumerate().find(|&(_, &length)| length > t) {
        return Err(AttentionError::Valid { sequence, length, given: t });
    }
    let scale = options.scale.unwrap_or_else(|| (1.0 / (config.head_dim as f64).sqrt()) as f32);
    if !scale.is_finite() {
        return Err(AttentionError::Scale(scale));
    }
    let isa = options.isa.unwrap_or_else(Isa::best);
    let token = Token::new(isa).ok_or(AttentionError::Unavailable(isa))?;
    let window = options.window.map_or(usize::MAX, NonZeroUsize::get);
    run::run(&Problem { cache, layer, present, heads, t, q, lengths, window, scale, token }, outputs);
    Ok(())
}

fn check_length(buffer: &'static str, got: usize, expected: usize) -> Result<(), AttentionError> {
    if got == expected { Ok(()) } else { Err(AttentionError::Length { buffer, expected, got }) }
}
