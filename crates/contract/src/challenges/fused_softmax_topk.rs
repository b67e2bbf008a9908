//! Softmax over a vocabulary and the k most probable entries, in one operation.

use super::claims::{BOUND, MAX_ERROR_BUDGETS, PASSES, REPEATABLE, SPEEDUP_OVER_REFERENCE, TIME_EXPONENT};
use crate::{Capability, Challenge, Claim, Field, Kind, Operation, Takes};

const SCRATCH_ROWS: Claim = Claim {
    name: "scratch_rows",
    doc: "memory that a call takes at most beyond inputs and outputs, in rows of V float32",
    takes: Takes::Number("rows"),
    rule: "A call of two rows of a million is weighed. Upheld if it takes no more than 1/64 row beyond the claim, refuted if it takes more; \
           untestable if the claim is more than twice what it takes, or than a row where that is more.",
};

const EXTRA_MEMORY: Claim = Claim {
    name: "extra_memory",
    doc: "how the memory that a call takes beyond inputs and outputs grows: not with V, or with rows of V elements",
    takes: Takes::Word(&["constant", "rows"]),
    rule: "A call of two rows of a million is weighed. Less than half a row of float32 is constant, more is rows.",
};

const K_EXPONENT: Claim = Claim {
    name: "k_exponent",
    doc: "the power with which time grows with k",
    takes: Takes::Number("powers of k"),
    rule: "As `time_exponent`, over k from 1 to 256.",
};

/// See the module.
pub const FUSED_SOFTMAX_TOPK: Challenge = Challenge {
    id: "fused_softmax_topk",
    title: "Fused softmax and top-k",
    summary: "The k largest probabilities of a softmax over a large vocabulary, and where they are, without ever \
              storing the probabilities of a whole row.",
    operations: &[Operation {
        name: "softmax_topk",
        doc: "For each row of V logits: probs = exp(logits[i] - lse) of the k entries i that are most probable, in \
              descending order, with lse = log(sum(exp(logits))) over all V; indices are these i. Entries whose \
              probabilities float32 cannot tell apart may stand in any order, and any of them may be left out for \
              another. A logit of -inf has probability 0; it is named, once, only where fewer than k others exist. Rows \
              have nothing to do with each other. A row that has no softmax (a NaN in it, or nothing but -inf) is \
              refused, or its probs are NaN, or zeros, or, for nothing but -inf, 1 / V, its indices any of the row or \
              -1, and the rows beside it are answered as ever. A k beyond V is refused, or what is beyond V gets \
              probability 0 and index -1.",
        inputs: &[
            Field {
                name: "logits",
                kind: Kind::Tensor("(B, T, V)"),
                doc: "natural logarithms of unnormalised probabilities; +inf does not occur",
            },
            Field { name: "k", kind: Kind::Integer, doc: "how many entries of each row, at least 1" },
        ],
        outputs: &[
            Field {
                name: "probs",
                kind: Kind::Tensor("(B, T, k)"),
                doc: "float32 whatever the dtype of the logits, descending",
            },
            Field {
                name: "indices",
                kind: Kind::Tensor("(B, T, k)"),
                doc: "int64 (Python may return int32), 0 <= index < V, distinct within a row",
            },
        ],
    }],
    capabilities: &[
        Capability { name: "float16", doc: "float16 logits, computed in float32 or wider" },
        Capability {
            name: "bfloat16",
            doc: "bfloat16 logits, computed in float32 or wider (C ABI only: numpy has no bfloat16)",
        },
    ],
    claims: &[
        &PASSES,
        &SCRATCH_ROWS,
        &EXTRA_MEMORY,
        &MAX_ERROR_BUDGETS,
        &TIME_EXPONENT,
        &K_EXPONENT,
        &SPEEDUP_OVER_REFERENCE,
        &BOUND,
        &REPEATABLE,
    ],
};
