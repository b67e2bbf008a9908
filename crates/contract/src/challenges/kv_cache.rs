//! A cache of keys and values, and causal attention over it.

use super::claims::{BOUND, MAX_ERROR_BUDGETS, REPEATABLE, SPEEDUP_OVER_REFERENCE, TIME_EXPONENT};
use crate::{Capability, Challenge, Claim, Field, Kind, Operation, Takes};

const NEW_TOKENS: &str = "(batch, kv_heads, t, head_dim)";
const QUERIES: &str = "(batch, heads, t, head_dim)";
const PER_SEQUENCE: &str = "(batch,)";

const CACHE: Field = Field { name: "cache", kind: Kind::State, doc: "from create; changed in place" };
const LAYER: Field = Field { name: "layer", kind: Kind::Integer, doc: "which layer, from 0" };

/// A claim on the memory of a token in a format.
const fn bytes_per_token(name: &'static str, doc: &'static str) -> Claim {
    Claim {
        name,
        doc,
        takes: Takes::Number("bytes"),
        rule: "A full cache of two sequences of 4096 tokens (in CUDA, whose bytes are counted, of 1024) is weighed: one layer, 2 heads of \
               64. Upheld if a token takes no more than 4 bytes beyond the claim, which is for pages and allocators; refuted if it takes \
               more; untestable if the claim is more than twice what it takes.",
    }
}

const BYTES_PER_TOKEN: Claim = bytes_per_token(
    "bytes_per_token",
    "bytes that a token with 2 heads of 64 takes at most in float32, all included",
);
const BYTES_PER_TOKEN_FLOAT16: Claim =
    bytes_per_token("bytes_per_token_float16", "the same in float16; only with the capability");
const BYTES_PER_TOKEN_INT8: Claim =
    bytes_per_token("bytes_per_token_int8", "the same in 8 bits; only with the capability");
const BYTES_PER_TOKEN_INT4: Claim =
    bytes_per_token("bytes_per_token_int4", "the same in 4 bits; only with the capability");

const APPEND_EXPONENT: Claim = Claim {
    name: "append_exponent",
    doc: "the power with which the time of appending one token grows with those that are there: 0 is constant",
    takes: Takes::Number("powers of the context"),
    rule: "As `time_exponent`, over contexts from 256 to 16384 tokens.",
};

/// See the module.
pub const KV_CACHE: Challenge = Challenge {
    id: "kv_cache",
    title: "KV cache",
    summary: "A cache of keys and values for autoregressive decoding: ragged batches, several layers, grouped queries, \
              and attention that gives the same answer however the tokens came in.",
    operations: &[
        Operation {
            name: "create",
            doc: "An empty cache for `batch` sequences, each of no tokens. A configuration that cannot be served is \
                  refused: heads no multiple of kv_heads, a number of bits that is not claimed.",
            inputs: &[
                Field {
                    name: "layers",
                    kind: Kind::Integer,
                    doc: "layers, each with keys and values of its own",
                },
                Field { name: "batch", kind: Kind::Integer, doc: "sequences" },
                Field { name: "heads", kind: Kind::Integer, doc: "query heads, a multiple of kv_heads" },
                Field { name: "kv_heads", kind: Kind::Integer, doc: "heads of keys and values" },
                Field { name: "head_dim", kind: Kind::Integer, doc: "elements of a head; even" },
                Field {
                    name: "max_len",
                    kind: Kind::Integer,
                    doc: "tokens that a sequence can have at most",
                },
                Field {
                    name: "bits",
                    kind: Kind::Integer,
                    doc: "of a stored number: 32 for float32; with the capability, 16 for float16, 8 and 4 for integers",
                },
                Field {
                    name: "block_size",
                    kind: Kind::Integer,
                    doc: "tokens of a block of a paged cache (capability `paged`), or 0: not paged",
                },
                Field {
                    name: "num_blocks",
                    kind: Kind::Integer,
                    doc: "blocks for all sequences together, each for block_size tokens of one sequence in every layer; 0 if \
                          not paged",
                },
            ],
            outputs: &[Field { name: "cache", kind: Kind::State, doc: "the cache" }],
        },
        Operation {
            name: "append",
            doc: "Adds new tokens to one layer: of sequence b the first lengths[b] along the t axis; what stands behind \
                  them is padding, and means nothing. Each layer is appended to on its own, and layers may differ in length \
                  in between. If a sequence would have more than max_len tokens, or blocks do not suffice, the \
                  call is refused and the cache is as it was, all sequences of it.",
            inputs: &[
                CACHE,
                LAYER,
                Field { name: "k", kind: Kind::Tensor(NEW_TOKENS), doc: "keys, float32" },
                Field { name: "v", kind: Kind::Tensor(NEW_TOKENS), doc: "values, float32" },
                Field { name: "lengths", kind: Kind::Tensor(PER_SEQUENCE), doc: "int64, 0 … t new tokens" },
            ],
            outputs: &[],
        },
        Operation {
            name: "attend",
            doc: "Causal attention of each sequence's newest lengths[b] tokens, appended before, over what the layer \
                  holds of that sequence: out = softmax(q k' / sqrt(head_dim)) v, where the query at position p sees keys at \
                  positions up to p. Query head h uses the keys of head h / (heads / kv_heads), rounded down. Queries stand at the \
                  left of the t axis; out is not looked at behind them.",
            inputs: &[
                CACHE,
                LAYER,
                Field { name: "q", kind: Kind::Tensor(QUERIES), doc: "queries, float32" },
                Field { name: "lengths", kind: Kind::Tensor(PER_SEQUENCE), doc: "int64, 0 … t queries" },
            ],
            outputs: &[Field { name: "out", kind: Kind::Tensor(QUERIES), doc: "float32" }],
        },
        Operation {
            name: "lengths",
            doc: "How many tokens each layer holds of each sequence.",
            inputs: &[CACHE],
            outputs: &[Field { name: "lengths", kind: Kind::Tensor("(layers, batch)"), doc: "int64" }],
        },
        Operation {
            name: "clear",
            doc: "Empties one sequence in every layer; its place and its blocks can be used again.",
            inputs: &[CACHE, Field { name: "sequence", kind: Kind::Integer, doc: "which, from 0" }],
            outputs: &[],
        },
        Operation {
            name: "fork",
            doc: "Gives an empty sequence the tokens of another, in every layer; from then on they go their own ways. In a paged \
                  cache they share the blocks that are full, which count once; one that is not may be copied at once, or when either \
                  appends to it. Called only where `prefix_sharing` is claimed.",
            inputs: &[
                CACHE,
                Field { name: "source", kind: Kind::Integer, doc: "the sequence that has tokens" },
                Field { name: "target", kind: Kind::Integer, doc: "an empty one" },
            ],
            outputs: &[],
        },
        Operation {
            name: "nbytes",
            doc: "Bytes of memory that the cache takes as it stands, for keys, values and what belongs to them: scales, tables, \
                  empty blocks, copies. Room for tokens that have not come may be counted or not. A full cache that is weighed \
                  from outside must not take more than 1.5 times what it says: the rest is for allocators and for what a \
                  language puts before an object.",
            inputs: &[CACHE],
            outputs: &[Field { name: "bytes", kind: Kind::Tensor("()"), doc: "int64" }],
        },
    ],
    capabilities: &[
        Capability { name: "paged", doc: "caches in blocks: block_size and num_blocks" },
        Capability { name: "float16", doc: "keys and values kept as float16" },
        Capability {
            name: "int8",
            doc: "keys and values kept in 8 bits each, with a scale for each token and head, or finer or better",
        },
        Capability { name: "int4", doc: "two keys or two values kept in a byte, with scales as for int8" },
        Capability { name: "prefix_sharing", doc: "fork, without a copy of the tokens" },
    ],
    claims: &[
        &BYTES_PER_TOKEN,
        &BYTES_PER_TOKEN_FLOAT16,
        &BYTES_PER_TOKEN_INT8,
        &BYTES_PER_TOKEN_INT4,
        &MAX_ERROR_BUDGETS,
        &TIME_EXPONENT,
        &APPEND_EXPONENT,
        &SPEEDUP_OVER_REFERENCE,
        &BOUND,
        &REPEATABLE,
    ],
};
