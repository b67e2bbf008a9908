//! What is asked.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::format::{KvFormat, WeightFormat};

/// The longest context that is looked at, in tokens: 2^30.
pub const CONTEXT_MAX: u64 = 1 << 30;

/// The largest batch that is looked at, in sequences: 2^20.
pub const BATCH_MAX: u64 = 1 << 20;

/// What is asked of a plan, and the assumptions that can be changed.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Settings {
    /// Tokens of each sequence.
    pub context_tokens: u64,
    /// Sequences at once.
    pub batch_sequences: u64,
    /// What weights are kept in.
    pub weight_format: WeightFormat,
    /// What keys and values are kept in.
    pub kv_format: KvFormat,
    /// Elements that share a scale in the cache's integer formats. The cache of `tribunal-kernels` has a scale for each head:
    /// groups as large as a head.
    pub kv_group_elements: u64,
    /// Tokens of a page.
    pub page_tokens: u64,
    /// Tokens that a sequence has on average, where `context_tokens` are reserved for it. Null is half of those.
    pub mean_context_tokens: Option<u64>,
    /// Tokens of prompts that one step computes at most.
    pub prefill_chunk_tokens: u64,
    /// Share of the device's memory that is left alone: runtime, fragmentation, other programs.
    pub reserve_fraction: f64,
}

impl Default for Settings {
    /// 8192 tokens, one sequence, bf16; groups of 32, pages of 16, chunks of 2048, a tenth in reserve.
    fn default() -> Self {
        Self {
            context_tokens: 8192,
            batch_sequences: 1,
            weight_format: WeightFormat::Bf16,
            kv_format: KvFormat::Bf16,
            kv_group_elements: 32,
            page_tokens: 16,
            mean_context_tokens: None,
            prefill_chunk_tokens: 2048,
            reserve_fraction: 0.1,
        }
    }
}

/// A number that no plan can be made with.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what} is {value}: it must be {expected}")]
pub struct OutOfRange {
    /// The number.
    pub what: &'static str,
    /// Its value.
    pub value: String,
    /// What it must be.
    pub expected: String,
}

impl Settings {
    pub(crate) fn check(&self) -> Result<(), OutOfRange> {
        let whole = [
            ("the context", self.context_tokens, CONTEXT_MAX),
            ("the batch", self.batch_sequences, BATCH_MAX),
            ("the group of the cache's scales", self.kv_group_elements, 1 << 16),
            ("the page", self.page_tokens, 1 << 20),
            ("the prefill chunk", self.prefill_chunk_tokens, CONTEXT_MAX),
            ("the mean context", self.mean_context(), self.context_tokens),
        ];
        for (what, value, most) in whole {
            if !(1..=most).contains(&value) {
                let expected = format!("from 1 to {most}");
                return Err(OutOfRange { what, value: value.to_string(), expected });
            }
        }
        if !(0.0..1.0).contains(&self.reserve_fraction) {
            let (value, expected) =
                (self.reserve_fraction.to_string(), "at least 0 and less than 1".to_owned());
            return Err(OutOfRange { what: "the reserve", value, expected });
        }
        Ok(())
    }

    /// Tokens that a sequence has on average: as given, or half of what is reserved for it, as if every length were as likely.
    pub fn mean_context(&self) -> u64 {
        self.mean_context_tokens.unwrap_or(self.context_tokens.div_ceil(2))
    }
}
