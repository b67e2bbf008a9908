//! Layer normalisation, forward with a cache and backward from it.

use super::claims::{BOUND, MAX_ERROR_BUDGETS, PASSES, REPEATABLE, SPEEDUP_OVER_REFERENCE, TIME_EXPONENT};
use crate::{Capability, Challenge, Claim, Field, Kind, Operation, Takes};

const ROWS: &str = "(B, T, D) or (rows, D)";

const CACHE_TENSORS: Claim = Claim {
    name: "cache_tensors",
    doc: "how many tensors of x's size the cache keeps alive, x itself included if it is kept",
    takes: Takes::Number("tensors"),
    rule: "Caches of 1024 rows of 1024 float32 are weighed. Upheld if the bytes come to the claim within a quarter of a tensor, refuted if \
           they are more or less.",
};

/// See the module.
pub const LAYER_NORM_BACKWARD: Challenge = Challenge {
    id: "layer_norm_backward",
    title: "Layer norm, backward",
    summary: "Layer normalisation over the last axis: a forward pass that returns a cache, and a hand-derived \
              backward pass that needs nothing else.",
    operations: &[
        Operation {
            name: "forward",
            doc: "y = gamma * (x - mean) * rstd + beta, with rstd = 1 / sqrt(var + eps); mean and the biased variance \
                  (divided by D) are taken over the last axis.",
            inputs: &[
                Field { name: "x", kind: Kind::Tensor(ROWS), doc: "input" },
                Field { name: "gamma", kind: Kind::Tensor("(D,)"), doc: "scale, of x's dtype" },
                Field { name: "beta", kind: Kind::Tensor("(D,)"), doc: "shift, of x's dtype" },
                Field { name: "eps", kind: Kind::Real, doc: "added to the variance, inside the root" },
            ],
            outputs: &[
                Field { name: "y", kind: Kind::Tensor(ROWS), doc: "shape and dtype of x" },
                Field { name: "cache", kind: Kind::State, doc: "what backward needs, and no more" },
            ],
        },
        Operation {
            name: "backward",
            doc: "The gradients of sum(dy * y) with respect to x, gamma and beta, where y is what the forward call \
                  that made the cache returned. Other forward calls may have been made since, and one cache may be \
                  used more than once.",
            inputs: &[
                Field { name: "dy", kind: Kind::Tensor(ROWS), doc: "gradient with respect to y" },
                Field { name: "cache", kind: Kind::State, doc: "from forward" },
            ],
            outputs: &[
                Field { name: "dx", kind: Kind::Tensor(ROWS), doc: "shape and dtype of x" },
                Field { name: "dgamma", kind: Kind::Tensor("(D,)"), doc: "shape and dtype of gamma" },
                Field { name: "dbeta", kind: Kind::Tensor("(D,)"), doc: "shape and dtype of beta" },
            ],
        },
    ],
    capabilities: &[
        Capability { name: "float64", doc: "float64 in and out, with float64 accuracy" },
        Capability {
            name: "bfloat16",
            doc: "bfloat16 in and out, statistics in float32 or wider (C ABI only: numpy has no bfloat16)",
        },
    ],
    claims: &[
        &PASSES,
        &CACHE_TENSORS,
        &MAX_ERROR_BUDGETS,
        &TIME_EXPONENT,
        &SPEEDUP_OVER_REFERENCE,
        &BOUND,
        &REPEATABLE,
    ],
};
