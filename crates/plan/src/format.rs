//! Formats of cache and weights, and the bytes they take.

use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::model::{Attention, Model};
use crate::parameters::Parameters;

/// Bytes of a scale, kept in f16.
const SCALE_BYTES: u64 = 2;

/// A format that there is not.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no {kind} format `{wanted}`; there are: {known}")]
pub struct UnknownFormat {
    /// A format of what.
    pub kind: &'static str,
    /// The name that was given.
    pub wanted: String,
    /// The names there are.
    pub known: String,
}

/// What keys and values are kept in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum KvFormat {
    /// 4 bytes.
    F32,
    /// 2 bytes.
    F16,
    /// 2 bytes.
    Bf16,
    /// 1 byte, and an f16 scale per group; 8.5 bits in groups of 32, as llama.cpp's `q8_0`.
    Int8,
    /// Half a byte, and an f16 scale per group; 4.5 bits in groups of 32, as llama.cpp's `q4_0`.
    Int4,
}

impl KvFormat {
    /// All formats, widest first.
    pub const ALL: [Self; 5] = [Self::F32, Self::F16, Self::Bf16, Self::Int8, Self::Int4];

    /// The formats that differ in size, widest first.
    pub const SIZES: [Self; 4] = [Self::F32, Self::Bf16, Self::Int8, Self::Int4];

    /// The name in flags, JSON and tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::F16 => "f16",
            Self::Bf16 => "bf16",
            Self::Int8 => "int8",
            Self::Int4 => "int4",
        }
    }

    /// Bytes of a vector of `n` elements in groups of `group`: `ceil(n·bits/8)`, and `2·ceil(n/group)` for scales where there are any.
    pub fn vector_bytes(self, n: u64, group: u64) -> u64 {
        let (bits, scaled) = match self {
            Self::F32 => (32, false),
            Self::F16 | Self::Bf16 => (16, false),
            Self::Int8 => (8, true),
            Self::Int4 => (4, true),
        };
        (n * bits).div_ceil(8) + if scaled { SCALE_BYTES * n.div_ceil(group) } else { 0 }
    }

    /// Bytes of a vector of `n` elements, as a formula.
    pub fn formula(self, group: u64) -> String {
        match self {
            Self::F32 => "4·n".to_owned(),
            Self::F16 | Self::Bf16 => "2·n".to_owned(),
            Self::Int8 => format!("n + 2·⌈n/{group}⌉"),
            Self::Int4 => format!("⌈n/2⌉ + 2·⌈n/{group}⌉"),
        }
    }
}

impl FromStr for KvFormat {
    type Err = UnknownFormat;

    fn from_str(wanted: &str) -> Result<Self, Self::Err> {
        Self::ALL.into_iter().find(|format| format.name() == wanted).ok_or_else(|| UnknownFormat {
            kind: "cache",
            wanted: wanted.to_owned(),
            known: Self::ALL.map(Self::name).join(", "),
        })
    }
}

/// Bytes that one layer keeps per token: a key and a value per key-value head, or the latent and the one key with a position.
pub fn layer_token_bytes(attention: Attention, format: KvFormat, group: u64) -> u64 {
    let bytes = |n| format.vector_bytes(n, group);
    match attention {
        Attention::Grouped { kv_heads, head_dim, .. } => 2 * kv_heads * bytes(head_dim),
        Attention::Latent { kv_rank, rope_dim, .. } => bytes(kv_rank) + bytes(rope_dim),
    }
}

/// Bytes that the caches of all layers take for one sequence of `context` tokens: `bytes per token and layer · Σ min(context, window)`.
pub fn sequence_bytes(model: &Model, format: KvFormat, group: u64, context: u64) -> u64 {
    layer_token_bytes(model.attention, format, group).saturating_mul(model.tokens_held(context))
}

/// What weights are kept in.
///
/// The integer formats and mxfp4 apply to the matrices of attention, MLPs and experts; embedding, head, routers, norms and biases stay in
/// bf16, as published quantised checkpoints have it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum WeightFormat {
    /// 32 bits, everything.
    F32,
    /// 16 bits, everything.
    Bf16,
    /// 8 bits, and an f16 scale per 128 weights: 8.125 bits.
    Int8,
    /// 4 bits, and an f16 scale per 128 weights: 4.125 bits.
    Int4,
    /// 4 bits, and a scale of 8 bits per 32 weights: 4.25 bits (OCP MX v1.0). Of a model with experts only these, as gpt-oss was published.
    Mxfp4,
}

impl WeightFormat {
    /// All formats.
    pub const ALL: [Self; 5] = [Self::F32, Self::Bf16, Self::Int8, Self::Int4, Self::Mxfp4];

    /// The name in flags, JSON and tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::Bf16 => "bf16",
            Self::Int8 => "int8",
            Self::Int4 => "int4",
            Self::Mxfp4 => "mxfp4",
        }
    }

    /// For quantised matrices, and for the rest.
    fn thousandths_of_a_bit(self) -> (u64, u64) {
        match self {
            Self::F32 => (32_000, 32_000),
            Self::Bf16 => (16_000, 16_000),
            Self::Int8 => (8_125, 16_000),
            Self::Int4 => (4_125, 16_000),
            Self::Mxfp4 => (4_250, 16_000),
        }
    }
}

impl FromStr for WeightFormat {
    type Err = UnknownFormat;

    fn from_str(wanted: &str) -> Result<Self, Self::Err> {
        Self::ALL.into_iter().find(|format| format.name() == wanted).ok_or_else(|| UnknownFormat {
            kind: "weight",
            wanted: wanted.to_owned(),
            known: Self::ALL.map(Self::name).join(", "),
        })
    }
}

/// Bytes of a model's weights, by how often they are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WeightBytes {
    /// Read whenever a token is computed.
    pub every_step: u64,
    /// Read as far as a token goes there: experts behind routers.
    pub experts: u64,
    /// Looked up, a row per token: the embedding, unless it is the head too.
    pub looked_up: u64,
}

impl WeightBytes {
    /// The weights of a model in a format.
    pub fn of(model: &Model, format: WeightFormat) -> Self {
        let parameters = Parameters::of(model);
        let (quantised, plain) = format.thousandths_of_a_bit();
        let only_experts = format == WeightFormat::Mxfp4 && parameters.experts > 0;
        let dense = if only_experts { plain } else { quantised };
        let Parameters { embedding, head, attention, mlp, experts, expert_biases, routers, small } =
            parameters;
        let (looked_up, head) = if model.tied_embeddings { (0, embedding) } else { (embedding, head) };
        Self {
            every_step: bytes(attention + mlp, dense) + bytes(head + routers + small, plain),
            experts: bytes(experts, quantised) + bytes(expert_biases, plain),
            looked_up: bytes(looked_up, plain),
        }
    }

    /// All that has to be in memory.
    pub fn total(self) -> u64 {
        self.every_step.saturating_add(self.experts).saturating_add(self.looked_up)
    }
}

fn bytes(count: u64, thousandths_of_a_bit: u64) -> u64 {
    let bytes = (u128::from(count) * u128::from(thousandths_of_a_bit)).div_ceil(8_000);
    u64::try_from(bytes).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(name: &str) -> &'static Model {
        Model::find(name).expect("known")
    }

    /// Bytes per token of all layers, before any window is full.
    fn token(name: &str, format: KvFormat) -> u64 {
        sequence_bytes(known(name), format, 32, 1)
    }

    #[test]
    fn llama_2_7b_takes_half_a_mebibyte_a_token_and_2_gib_at_4096() {
        assert_eq!(token("llama-2-7b", KvFormat::F16), 2 * 32 * 32 * 128 * 2);
        assert_eq!(token("llama-2-7b", KvFormat::F16), 512 << 10);
        assert_eq!(sequence_bytes(known("llama-2-7b"), KvFormat::F16, 32, 4096), 2 << 30);
    }

    #[test]
    fn opt_13b_takes_800_kb_a_token_in_the_paged_attention_paper() {
        // arXiv:2309.06180, section 3: 2 · 5120 · 40 layers · 2 bytes; Llama-2 13B has the same width and depth.
        assert_eq!(token("llama-2-13b", KvFormat::F16), 800 << 10);
    }

    #[test]
    fn llama_3_takes_128_kib_a_token_at_8b_and_320_kib_at_70b() {
        assert_eq!(token("llama-3-8b", KvFormat::Bf16), 128 << 10);
        assert_eq!(token("llama-3-70b", KvFormat::Bf16), 320 << 10);
    }

    #[test]
    fn deepseek_v3_takes_70_272_kb_a_token() {
        // ISCA 2025 paper on DeepSeek-V3's hardware (arXiv:2505.09343), table 1, which has Llama-3.1 405B at 516.096 KB.
        assert_eq!(token("deepseek-v3", KvFormat::Bf16), 70_272);
        assert_eq!(token("llama-3.1-405b", KvFormat::Bf16), 516_096);
    }

    #[test]
    fn mistral_s_window_saves_8_times_at_32k() {
        // arXiv:2310.06825, section 2: "on a sequence length of 32k tokens, this reduces the cache memory usage by 8x".
        let bytes = |name| sequence_bytes(known(name), KvFormat::F16, 32, 32_768);
        assert_eq!(bytes("mistral-7b-v0.3"), 8 * bytes("mistral-7b-v0.1"));
    }

    #[test]
    fn groups_of_32_take_the_bits_of_llama_cpp_s_blocks() {
        assert_eq!(KvFormat::Int8.vector_bytes(128, 32) * 8, 128 * 17 / 2);
        assert_eq!(KvFormat::Int4.vector_bytes(128, 32) * 8, 128 * 9 / 2);
        assert_eq!(KvFormat::Int4.vector_bytes(3, 32), 2 + 2);
        assert_eq!(KvFormat::Int8.vector_bytes(64, 128), 64 + 2);
    }

    #[test]
    fn gpt_oss_in_mxfp4_is_as_big_as_its_checkpoint() {
        // Model card (arXiv:2508.10925), table 1: 60.8 GiB and 12.8 GiB.
        for (name, gib) in [("gpt-oss-120b", 60.8), ("gpt-oss-20b", 12.8)] {
            let bytes = WeightBytes::of(known(name), WeightFormat::Mxfp4).total() as f64;
            assert!((bytes / f64::from(1 << 30) - gib).abs() < 0.05, "{name}: {bytes}");
        }
    }

    #[test]
    fn weights_in_bf16_are_two_bytes_a_parameter() {
        for model in Model::known() {
            let weights = WeightBytes::of(model, WeightFormat::Bf16);
            assert_eq!(weights.total(), 2 * Parameters::of(model).total(), "{}", model.name);
        }
        assert_eq!(WeightBytes::of(known("llama-2-7b"), WeightFormat::Bf16).total(), 13_476_831_232);
    }

    #[test]
    fn formats_are_found_by_their_names() {
        assert_eq!("int8".parse(), Ok(KvFormat::Int8));
        assert_eq!("mxfp4".parse(), Ok(WeightFormat::Mxfp4));
        let error = "fp7".parse::<KvFormat>().expect_err("unknown").to_string();
        assert_eq!(error, "no cache format `fp7`; there are: f32, f16, bf16, int8, int4");
    }

    #[test]
    fn mxfp4_applies_to_everything_where_there_are_no_experts() {
        let of = |format| WeightBytes::of(known("llama-3-8b"), format).total();
        assert!(
            of(WeightFormat::Int4) < of(WeightFormat::Mxfp4)
                && of(WeightFormat::Mxfp4) < of(WeightFormat::Int8)
        );
    }
}
