//! Keys and values of past tokens, kept for [attention](crate::attention).
//!
//! A [`KvCache`] holds, for each layer and sequence, the keys and values of the tokens so far. Tokens live in blocks: a block has
//! room for some tokens, of all layers and heads, and each sequence has a table of its blocks. Two layouts come of it:
//!
//! - [`Layout::Paged`]: small blocks from a common pool, so that memory follows the tokens that there are, and a sequence
//!   can share what it has in common with another.
//! - [`Layout::Contiguous`]: one block of `max_len` tokens for each sequence, reserved from the start.
//!
//! # Sharing
//!
//! [`fork`](KvCache::fork) makes a sequence that continues another. Both name the same blocks, which count their holders; a
//! block with more than one is copied before one of them writes to it, and no sooner.
//!
//! Sequences that begin alike without knowing of each other, as all requests with the same instructions do, share too if the
//! caller says what their tokens are: [`remember`](KvCache::remember) after a prompt has been computed, and
//! [`recall`](KvCache::recall) before the next one is. Only full blocks are shared so, which nobody writes to any more. A block
//! is found by a hash of its tokens' ids and of what is before it, as engines do (vLLM chains the hashes): keys and values
//! depend on all tokens up to their own, so equal ids in a block are not enough, and hashing the values themselves would
//! need them to be computed first. What is found is compared, ids and what is before them, so equal hashes give nobody another's
//! tokens. Blocks that are remembered and that no sequence holds count as free, and are given away when no others are left:
//! first those that have not been held for longest, of one sequence the last first. Remembering takes four bytes a token and
//! some hundred a block.
//!
//! ```
//! use tribunal_kernels::kv_cache::{Config, Format, KvCache, Layout};
//!
//! // The keys and values of Llama 3 8B; a layer of them, to be brief.
//! let layout = Layout::Paged { block_len: 16, blocks: 400 };
//! let (kv_heads, head_dim, format) = (8, 128, Format::Bf16);
//! let config = Config { layers: 1, sequences: 4, kv_heads, head_dim, max_len: 1200, format, layout };
//! let mut cache = KvCache::new(config)?;
//! let block_bytes = cache.nbytes() / 400;
//! let mut computed = 0;
//! for sequence in 0..4 {
//!     // Instructions of 1000 tokens, and a question of 100.
//!     let ids: Vec<u32> = (0..1000).chain((0..100).map(|i| 5000 + 100 * sequence as u32 + i)).collect();
//!     let found = cache.recall(sequence, &ids[..1099])?;
//!     let (new, row) = (1100 - found, kv_heads * head_dim);
//!     let kv = vec![0.5; 4 * row * new]; // would be computed
//!     let mut lengths = [0; 4];
//!     lengths[sequence] = new;
//!     cache.append(0, &kv, &kv, &lengths)?;
//!     cache.remember(sequence, &ids)?;
//!     computed += new;
//! }
//! // 62 of 69 blocks are the same: 1424 tokens are computed instead of 4400, and 5.9 MB are held instead of 18.1.
//! assert_eq!(computed, 1100 + 3 * (1100 - 62 * 16));
//! let held = 400 - cache.free_blocks();
//! assert_eq!((held * block_bytes, 4 * 69 * block_bytes), (5_898_240, 18_087_936));
//! # Ok::<(), tribunal_kernels::kv_cache::KvCacheError>(())
//! ```
//!
//! # Layout
//!
//! `[layer][block][kv_head][tile]`, so what attention reads of one head is as long a run as a block has. A tile has up to 16, 32
//! or 64 tokens (f32; f16 and bf16; integers), in strips of 16, and lies in the order in which attention reads it, each byte once. First
//! come the keys, strip by strip, each as `[head_dim][16]`, so that a vector has one value of many keys and a score is a lane of
//! the sum. Then come the values of all its tokens, in panels of 64 columns (32 in int8), each as `[tokens][64]`: as many columns as there
//! are registers to sum up at once, for four queries. Then come the scales, if there are any. Of a key in bf16, two values are next to
//! each other, and of the values the same one of two tokens, as the instruction takes them that adds up products of pairs; of integers
//! four, or with half a byte eight.
//!
//! A row of `head_dim` values is filled up to a multiple of 16, and a block to a multiple of 16 tokens; so take blocks of 16,
//! 32, 48 ... tokens. Storage is on huge pages where the system has them: 32 768 tokens of one head, in f32, are 8192 pages
//! of 4 KiB otherwise, which is more than the CPU has translations for.
//!
//! # Integers
//!
//! [`Format::Int8`] and [`Format::Int4`] have one scale for each token, head, and keys or values. Keys are known for
//! channels that are far larger than the others, which such a scale would give all the steps; so a key is rotated by a
//! Hadamard matrix with signs before it is rounded, and a query likewise when it is used, which leaves their product what it was.
//!
//! Mean absolute difference of attention over 1024 tokens from attention without rounding, 32 queries of one head of 128,
//! all normally distributed, means of six draws; with outliers, four channels of the keys are ten times as large. Values are
//! rounded per token throughout; `channel / b` has a scale for each channel of the keys of `b` tokens, which must be kept
//! unrounded until there are as many:
//!
//! | | per token | channel / 16 | channel / 64 | channel / 128 | rotated | rotated, queries too |
//! |---|--:|--:|--:|--:|--:|--:|
//! | int8 | 0.00038 | 0.00033 | 0.00036 | 0.00038 | 0.00038 | 0.00047 |
//! | int8, outliers | 0.0056 | 0.0012 | 0.0014 | 0.0015 | 0.0017 | 0.0020 |
//! | int4 | 0.0070 | 0.0060 | 0.0067 | 0.0069 | 0.0069 | 0.0069 |
//! | int4, outliers | 0.081 | 0.022 | 0.027 | 0.028 | 0.031 | 0.031 |
//!
//! (`benches/kv_cache_rounding.py` prints this.)
//!
//! Rotation is nearly as good as a scale for each channel, takes half of the bytes that these take in blocks of 64, and lets
//! a row be written when it comes. The last column is what is built.
//!
//! # Cost
//!
//! A token takes `2 * layers * kv_heads * row` bytes, with `row` from [`Format::row_bytes`]; appending it writes so many, on the
//! threads of the current pool (a few tokens only if the caller is one of them): attention, which follows, then finds rows in the caches of all
//! cores and no thread asleep. Memory
//! is reserved at once but, where the system gives out pages when they are first written, used only as blocks are.
//!
//! What it saves: 100 tokens after a prompt of 1024, by a decoder of a tenth of SmolLM2-135M's depth and vocabulary (3 layers
//! of 576 channels, 9 heads over 3 of 64, an MLP of 1536, 4912 logits; f32). Counted are multiplications and additions of
//! projections, attention, MLP and the last token's logits; time is measured on an AMD EPYC (Zen 5), two threads, 2026-11-21,
//! with the cache for all tokens and without it, where each step computes all tokens so far, for every eleventh:
//!
//! | | with | without | without / with |
//! |---|--:|--:|--:|
//! | FLOPs of the 100th token | 3.465e7 | 2.821e10 | 814 |
//! | FLOPs of the prompt and all tokens | 2.877e10 | 2.679e12 | 93 |
//! | seconds of the 100th token | 0.00232 | 1.55 | 668 |
//! | seconds of the prompt and all tokens | 1.65 | 152 | 92 |
//!
//! A single token reads all weights for two FLOPs each, so its time shrinks less than its FLOPs. (`cargo run --release -p
//! tribunal-kernels --example cached_decoding_figure` prints this and draws `docs/figures/cached_decoding.svg`.)
//!
//! # Source
//!
//! Kwon et al. 2023, "Efficient Memory Management for Large Language Model Serving with PagedAttention",
//! <https://arxiv.org/abs/2309.06180>, section 4, for block tables, reference counts, copies on write and shared prefixes.

mod blocks;
mod format;
mod prefixes;
mod rotation;
mod storage;

use std::ops::Range;
use std::slice::ChunksExact;

use blocks::Blocks;
pub use format::Format;
use format::Scratch;
pub(crate) use format::panel_width;
use rayon::prelude::*;
pub(crate) use rotation::rotate;
pub(crate) use storage::{Geometry, STRIP, Strip};
use storage::{Plane, Storage};

use crate::isa::Isa;
use crate::simd::{Exchange, Token, dispatch};

/// What a cache has room for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// How many layers keep keys and values; at least one.
    pub layers: usize,
    /// How many sequences there can be at once; at least one.
    pub sequences: usize,
    /// How many heads keys and values have, which may be fewer than queries have; at least one.
    pub kv_heads: usize,
    /// How many values a key or a value of one head has; at least one.
    pub head_dim: usize,
    /// How many tokens a sequence may have; at least one.
    pub max_len: usize,
    /// How values are stored.
    pub format: Format,
    /// How tokens are laid out.
    pub layout: Layout,
}

/// How tokens are laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// A block of `max_len` tokens for each sequence. There is always one for who needs it.
    Contiguous,
    /// Blocks from a common pool, taken as sequences grow.
    Paged {
        /// How many tokens a block has room for; at least one. It takes the memory of the next multiple of 16.
        block_len: usize,
        /// How many blocks there are; at least one.
        blocks: usize,
    },
}

/// Why a cache refused. Nothing has changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KvCacheError {
    /// A size that must be at least one is zero.
    #[error("make a cache with {0} of zero")]
    Zero(
        /// The name of the field.
        &'static str,
    ),
    /// The sizes multiply to more bytes than can be addressed, or there are more blocks than a `u32` can name.
    #[error("address a cache as large as {0:?}")]
    TooLarge(
        /// What was asked for.
        Config,
    ),
    /// There is no such layer.
    #[error("use layer {layer} of {layers}")]
    Layer {
        /// The layer that was named.
        layer: usize,
        /// How many there are.
        layers: usize,
    },
    /// There is no such sequence.
    #[error("use sequence {sequence} of {sequences}")]
    Sequence {
        /// The sequence that was named.
        sequence: usize,
        /// How many there are.
        sequences: usize,
    },
    /// A buffer does not have the size that the others and the cache ask for.
    #[error("use {buffer} of {got} elements where {expected} are expected")]
    Length {
        /// The name of the parameter.
        buffer: &'static str,
        /// How many elements are expected; for keys, a multiple of this.
        expected: usize,
        /// How many the buffer has.
        got: usize,
    },
    /// More tokens of a sequence are valid than were given.
    #[error("append {length} of {given} tokens to sequence {sequence}")]
    Valid {
        /// The sequence.
        sequence: usize,
        /// How many tokens are said to be valid.
        length: usize,
        /// How many were given.
        given: usize,
    },
    /// A sequence would have more than `max_len` tokens.
    #[error("append {length} tokens to the {len} of sequence {sequence}, where {max_len} have room")]
    Full {
        /// The sequence.
        sequence: usize,
        /// How many tokens it has in this layer.
        len: usize,
        /// How many more were given.
        length: usize,
        /// How many a sequence may have.
        max_len: usize,
    },
    /// The pool does not have as many free blocks as the whole batch needs.
    #[error("take {needed} blocks of {free} that are free")]
    OutOfBlocks {
        /// How many blocks the batch needs, copies of shared ones among them.
        needed: usize,
        /// How many are free.
        free: usize,
    },
    /// What continues another, or a prefix, must have no tokens of its own.
    #[error("continue other tokens in sequence {0}, which has some")]
    InUse(
        /// The sequence.
        usize,
    ),
    /// Tokens that a sequence does not have were asked for.
    #[error("use tokens up to {end} of {len} in sequence {sequence}")]
    Missing {
        /// The sequence.
        sequence: usize,
        /// Behind the last token asked for.
        end: usize,
        /// How many tokens the sequence has in this layer, or in all that were asked for.
        len: usize,
    },
}

/// Keys and values of the tokens so far, of some sequences in some layers.
#[derive(Debug)]
pub struct KvCache {
    config: Config,
    blocks: Blocks,
    storage: Storage,
    /// `[layers, sequences]`
    lengths: Vec<usize>,
}

/// New tokens of a sequence that lie in one block.
struct Run {
    block: u32,
    slots: Range<usize>,
    sequence: usize,
    /// The first of them, among those that were given.
    first: usize,
}

/// A thread that is not of the pool can only wait for one that is to wake up, which takes 20 to 30 us on virtual machines. So many values take
/// as long to write.
const WORTH_WAKING: usize = 1 << 13;

/// Keys or values as they were given: `[sequences, kv_heads, tokens, head_dim]`.
#[derive(Clone, Copy)]
struct Given<'a> {
    rows: &'a [f32],
    tokens: usize,
}

/// What is to be written to the tiles of one head in one block, on its way to where it is compiled for an instruction set.
struct Rows<'a> {
    format: Format,
    geometry: &'a Geometry,
    tiles: &'a mut [u8],
    slots: Range<usize>,
    /// Keys and values, as many as there are slots or more.
    given: [ChunksExact<'a, f32>; 2],
    scratch: &'a mut Scratch,
}

impl Rows<'_> {
    #[inline(always)]
    fn eval<S: Exchange>(self, simd: S) {
        let Rows { format, geometry, tiles, slots, given, scratch } = self;
        for (plane, rows) in [Plane::Keys, Plane::Values].into_iter().zip(given) {
            for (slot, values) in slots.clone().zip(rows) {
                format.write_row(simd, plane, values, geometry.row_mut(tiles, plane, slot), scratch);
            }
        }
    }
}

impl KvCache {
    /// A cache without tokens.
    ///
    /// # Errors
    /// [`KvCacheError::Zero`] if a size is zero, [`KvCacheError::TooLarge`] if bytes or blocks cannot be counted.
    pub fn new(config: Config) -> Result<KvCache, KvCacheError> {
        let Config { layers, sequences, kv_heads, head_dim, max_len, format, layout } = config;
        let (block_len, blocks) = match layout {
            Layout::Contiguous => (max_len, sequences),
            Layout::Paged { block_len, blocks } => (block_len, blocks),
        };
        let sizes = [
            ("layers", layers),
            ("sequences", sequences),
            ("kv_heads", kv_heads),
            ("head_dim", head_dim),
            ("max_len", max_len),
            ("block_len", block_len),
            ("blocks", blocks),
        ];
        if let Some((name, _)) = sizes.into_iter().find(|&(_, size)| size == 0) {
            return Err(KvCacheError::Zero(name));
        }
        let too_large = KvCacheError::TooLarge(config);
        let geometry = Geometry::new(format, layers, blocks, kv_heads, block_len, head_dim);
        let geometry = geometry.filter(|_| u32::try_from(blocks).is_ok()).ok_or(too_large.clone())?;
        let lengths = layers.checked_mul(sequences).ok_or(too_large)?;
        Ok(KvCache {
            config,
            blocks: Blocks::new(block_len, blocks as u32, sequences),
            storage: Storage::new(geometry),
            lengths: vec![0; lengths],
        })
    }

    /// What it was made with.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// How many bytes keys and values have been reserved, scales included, and what fills rows up to a multiple of 16 values and
    /// blocks up to a multiple of 16 tokens. Not what tables and counts take, eight bytes a block, eight a sequence and layer and
    /// four a block that a sequence holds, nor up to 2 MiB to begin at a huge page.
    pub fn nbytes(&self) -> usize {
        self.storage.geometry().nbytes()
    }

    /// How many blocks no sequence holds, those among them that are only kept to be [recalled](KvCache::recall).
    pub fn free_blocks(&self) -> usize {
        self.blocks.free()
    }

    /// How many tokens each sequence has in a layer: `[sequences]`.
    ///
    /// # Errors
    /// [`KvCacheError::Layer`] if there is no such layer.
    pub fn lengths(&self, layer: usize) -> Result<&[usize], KvCacheError> {
        let Config { layers, sequences, .. } = self.config;
        if layer >= layers {
            return Err(KvCacheError::Layer { layer, layers });
        }
        Ok(&self.lengths[layer * sequences..(layer + 1) * sequences])
    }

    /// Appends tokens to a layer, to each sequence as many as its `lengths` says.
    ///
    /// # Shapes
    /// `k`, `v`: `[sequences, kv_heads, t, head_dim]`, where `t` follows from how long `k` is. `lengths`: `[sequences]`,
    /// each from 0 to `t`; of sequence `s` the first `lengths[s]` tokens are appended and the others ignored.
    /// # Types
    /// f32, rounded to the [`Format`] of the cache.
    /// # Errors
    /// [`KvCacheError`] if there is no such layer, sizes do not match, a sequence would exceed `max_len`, or the pool has too few
    /// free blocks for the batch; nothing is then appended to any sequence.
    pub fn append(
        &mut self,
        layer: usize,
        k: &[f32],
        v: &[f32],
        lengths: &[usize],
    ) -> Result<(), KvCacheError> {
        let Config { sequences, kv_heads, head_dim, max_len, .. } = self.config;
        let present = self.lengths(layer)?;
        check_length("lengths", lengths.len(), sequences)?;
        let token = sequences * kv_heads * head_dim;
        if !k.len().is_multiple_of(token) {
            return Err(KvCacheError::Length { buffer: "k", expected: token, got: k.len() });
        }
        check_length("v", v.len(), k.len())?;
        let given = k.len() / token;
        for (sequence, (&length, &len)) in lengths.iter().zip(present).enumerate() {
            if length > given {
                return Err(KvCacheError::Valid { sequence, length, given });
            }
            if length > max_len - len {
                return Err(KvCacheError::Full { sequence, len, length, max_len });
            }
        }
        let spans: Vec<Range<usize>> =
            present.iter().zip(lengths).map(|(&len, &length)| len..len + length).collect();
        let (needed, free) = (self.blocks.needed(&spans), self.blocks.free());
        if needed > free {
            return Err(KvCacheError::OutOfBlocks { needed, free });
        }
        let mut runs = Vec::with_capacity(sequences);
        for (sequence, span) in spans.into_iter().enumerate() {
            for (from, to) in self.blocks.make_writable(sequence, &span) {
                self.storage.copy_block(from, to);
            }
            let mut first = 0;
            for (block, slots) in self.blocks.runs(sequence, &span) {
                let len = slots.len();
                runs.push(Run { block, slots, sequence, first });
                first += len;
            }
            self.lengths[layer * sequences + sequence] = span.end;
        }
        self.write(layer, runs, [k, v].map(|rows| Given { rows, tokens: given }));
        Ok(())
    }

    /// Drops a sequence's tokens in all layers, and its hold on blocks.
    ///
    /// # Errors
    /// [`KvCacheError::Sequence`] if there is no such sequence.
    pub fn release(&mut self, sequence: usize) -> Result<(), KvCacheError> {
        self.check_sequence(sequence)?;
        self.blocks.release(sequence);
        for length in self.lengths.iter_mut().skip(sequence).step_by(self.config.sequences) {
            *length = 0;
        }
        Ok(())
    }

    /// Makes `to` continue `from`: it gets the same tokens in all layers, without a copy until one of the two writes.
    ///
    /// # Errors
    /// [`KvCacheError::Sequence`] if there is no such sequence, [`KvCacheError::InUse`] if `to` has tokens in any layer.
    pub fn fork(&mut self, from: usize, to: usize) -> Result<(), KvCacheError> {
        self.check_sequence(from)?;
        self.check_sequence(to)?;
        let sequences = self.config.sequences;
        self.check_empty(to)?;
        self.blocks.share(from, to);
        for lengths in self.lengths.chunks_exact_mut(sequences) {
            lengths[to] = lengths[from];
        }
        Ok(())
    }

    /// Remembers which tokens a sequence has, so that another can [recall](KvCache::recall) its full blocks: as long as it
    /// holds them, and after it until their space is needed.
    ///
    /// Where full blocks of the same tokens are remembered already, those stay and these are forgotten with their sequence.
    ///
    /// # Shapes
    /// `ids`: what its tokens are called, from the first on; as many as have been appended to all layers, or fewer. Equal ids
    /// must stand for equal keys and values, given that those before them are equal.
    /// # Errors
    /// [`KvCacheError::Sequence`] if there is no such sequence, [`KvCacheError::Missing`] if a layer has fewer tokens than there
    /// are ids.
    pub fn remember(&mut self, sequence: usize, ids: &[u32]) -> Result<(), KvCacheError> {
        self.check_sequence(sequence)?;
        let lengths = self.lengths.iter().skip(sequence).step_by(self.config.sequences);
        let len = lengths.copied().min().unwrap_or(0);
        if ids.len() > len {
            return Err(KvCacheError::Missing { sequence, end: ids.len(), len });
        }
        self.blocks.remember(sequence, ids);
        Ok(())
    }

    /// Makes an empty sequence begin with as many of the tokens `ids` as full blocks are [remembered](KvCache::remember) of,
    /// without a copy. Returns how many these are: a multiple of the block's length.
    ///
    /// If that is all of `ids`, no token is left to compute, and none gives logits: a prompt is asked for without
    /// its last token.
    ///
    /// # Errors
    /// [`KvCacheError::Sequence`] if there is no such sequence, [`KvCacheError::InUse`] if it has tokens in any layer,
    /// [`KvCacheError::Full`] if there are more ids than `max_len`.
    pub fn recall(&mut self, sequence: usize, ids: &[u32]) -> Result<usize, KvCacheError> {
        self.check_sequence(sequence)?;
        self.check_empty(sequence)?;
        let Config { sequences, max_len, .. } = self.config;
        if ids.len() > max_len {
            return Err(KvCacheError::Full { sequence, len: 0, length: ids.len(), max_len });
        }
        let found = self.blocks.recall(sequence, ids);
        for length in self.lengths.iter_mut().skip(sequence).step_by(sequences) {
            *length = found;
        }
        Ok(found)
    }

    /// Reads tokens back, as they are stored.
    ///
    /// # Shapes
    /// `k`, `v`: `[kv_heads, tokens.len(), head_dim]`.
    /// # Errors
    /// [`KvCacheError`] if layer, sequence or tokens are not there, or sizes do not match; buffers are then untouched.
    pub fn read(
        &self,
        layer: usize,
        sequence: usize,
        tokens: Range<usize>,
        k: &mut [f32],
        v: &mut [f32],
    ) -> Result<(), KvCacheError> {
        let Config { kv_heads, head_dim, format, .. } = self.config;
        let len = *self.lengths(layer)?.get(sequence).ok_or_else(|| self.no_sequence(sequence))?;
        if tokens.end > len {
            return Err(KvCacheError::Missing { sequence, end: tokens.end, len });
        }
        let expected = kv_heads * tokens.len() * head_dim;
        check_length("k", k.len(), expected)?;
        check_length("v", v.len(), expected)?;
        let wanted = (0..kv_heads).flat_map(|head| tokens.clone().map(move |token| (head, token)));
        let rows = k.chunks_exact_mut(head_dim).zip(v.chunks_exact_mut(head_dim));
        for ((head, token), (k, v)) in wanted.zip(rows) {
            let (block, slot) = self.blocks.locate(sequence, token);
            for (plane, values) in [(Plane::Keys, k), (Plane::Values, v)] {
                format.read_row(plane, self.storage.row(layer, block, head, plane, slot), values);
            }
        }
        Ok(())
    }

    /// The tiles of one head in one block, the `entry`th of a sequence.
    pub(crate) fn head(&self, layer: usize, sequence: usize, head: usize, entry: usize) -> &[u8] {
        self.storage.head(layer, self.blocks.table(sequence)[entry], head)
    }

    pub(crate) fn geometry(&self) -> &Geometry {
        self.storage.geometry()
    }

    /// Writes keys and values into blocks that are the sequences' own, on the threads of the current pool if that is worth it.
    fn write(&mut self, layer: usize, mut runs: Vec<Run>, [k, v]: [Given<'_>; 2]) {
        let Config { kv_heads, head_dim, format, .. } = self.config;
        runs.sort_unstable_by_key(|run| run.block);
        let (geometry, blocks) = self.storage.blocks_mut(layer, runs.iter().map(|run| run.block));
        let of_heads = runs.iter().zip(blocks).flat_map(|(run, block)| {
            geometry.heads_mut(block).enumerate().map(move |(head, tiles)| (run, head, tiles))
        });
        let token = Token::new(Isa::best()).expect("it is available");
        let write = |scratch: &mut Scratch, (run, head, tiles): (&Run, usize, &mut [u8])| {
            let given = [k, v].map(|given| {
                let start = (run.sequence * kv_heads + head) * given.tokens + run.first;
                given.rows[start * head_dim..].chunks_exact(head_dim)
            });
            let slots = run.slots.clone();
            dispatch!(token, Rows { format, geometry, tiles, slots, given, scratch });
        };
        let values = 2 * runs.iter().map(|run| run.slots.len()).sum::<usize>() * kv_heads * head_dim;
        let outside = rayon::current_thread_index().is_none();
        if rayon::current_num_threads() == 1 || outside && values < WORTH_WAKING {
            let mut scratch = Scratch::default();
            of_heads.for_each(|of_head| write(&mut scratch, of_head));
        } else {
            of_heads.collect::<Vec<_>>().into_par_iter().for_each_init(Scratch::default, write);
        }
    }

    fn check_sequence(&self, sequence: usize) -> Result<(), KvCacheError> {
        if sequence < self.config.sequences { Ok(()) } else { Err(self.no_sequence(sequence)) }
    }

    fn check_empty(&self, sequence: usize) -> Result<(), KvCacheError> {
        let mut lengths = self.lengths.iter().skip(sequence).step_by(self.config.sequences);
        if lengths.all(|&length| length == 0) { Ok(()) } else { Err(KvCacheError::InUse(sequence)) }
    }

    fn no_sequence(&self, sequence: usize) -> KvCacheError {
        KvCacheError::Sequence { sequence, sequences: self.config.sequences }
    }
}

fn check_length(buffer: &'static str, got: usize, expected: usize) -> Result<(), KvCacheError> {
    if got == expected { Ok(()) } else { Err(KvCacheError::Length { buffer, expected, got }) }
}
