//! Claims that make sense for several challenges.

use crate::{Claim, Takes};

pub(super) const PASSES: Claim = Claim {
    name: "passes",
    doc: "how often the largest input is read from memory, element by element, on average over the calls that read it",
    takes: Takes::Number("reads of each element"),
    rule: "Kernels in CUDA are emulated and their reads counted: upheld if the count is within 0.1 of the claim, refuted if it is \
           more or less. Untestable in other languages, where reads are not counted and time bounds them too loosely.",
};

pub(super) const MAX_ERROR_BUDGETS: Claim = Claim {
    name: "max_error_budgets",
    doc: "the largest error of any element in any case, in units of its error budget",
    takes: Takes::Number("budgets"),
    rule: "Refuted if any error is larger, upheld if none is. Untestable from 0.5 on, which whoever is right stays below.",
};

pub(super) const TIME_EXPONENT: Claim = Claim {
    name: "time_exponent",
    doc: "the power with which time grows with the amount of data: 1 is linear",
    takes: Takes::Number("powers of the size"),
    rule: "Time is measured over sizes that grow along each axis. Refuted if any power is more than 0.5 above the claim, untestable \
           if one is more than 0.5 below it, which a constant cost of each call does as well; else upheld.",
};

pub(super) const SPEEDUP_OVER_REFERENCE: Claim = Claim {
    name: "speedup_over_reference",
    doc: "at least how many times as fast as the project's reference, which is timed beside it, on every size that is timed",
    takes: Takes::Number("times as fast"),
    rule: "Upheld if the interval of the ratio reaches the claim as a whole on every size; refuted if on one it stays below it as a \
           whole; untestable if it holds both, and for a claim of less than 1/2 of what is measured.",
};

pub(super) const BOUND: Claim = Claim {
    name: "bound",
    doc: "what takes most of the time on this machine: moving bytes, or anything else",
    takes: Takes::Word(&["memory", "compute"]),
    rule: "By the share of the time that moving bytes takes at the rate that is measured beside: memory from 1/2 on. At least the bytes \
           must be moved that have to be, by as many processors as are busy; at most what loads and stores ask for, which is counted for CUDA \
           only. Untestable if the share may lie on either side on any size.",
};

pub(super) const REPEATABLE: Claim = Claim {
    name: "repeatable",
    doc: "whether the same input gives the same bits, in the same process and in another",
    takes: Takes::YesNo,
    rule: "Two sizes are answered twice in each of two processes; kernels in CUDA run again with blocks and warps in reverse order. What \
           differs refutes true and upholds false. Equal bits uphold true; they cannot refute false.",
};
