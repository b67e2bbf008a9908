//! What bounds speed: bytes moved against operations done.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::model::{Attention, Model};
use crate::parameters::Parameters;
use crate::plan::Plan;

/// What bounds speed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Bound {
    /// Moving bytes takes longer.
    Bandwidth,
    /// Arithmetic takes longer.
    Compute,
}

impl Bound {
    /// The name in JSON and tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Bandwidth => "bandwidth",
            Self::Compute => "compute",
        }
    }
}

/// The least that has to be moved and computed, and the speed that a device allows at most.
///
/// Nothing is assumed to take time but the device's memory and its arithmetic, each at its peak and perfectly overlapped: a ceiling, not a
/// prediction. Weights and caches are read once per step whatever the device's caches hold; activations are not counted. Arithmetic
/// is in bf16 whatever weights and caches are kept in.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Speed {
    /// Tokens that the bytes and operations are for: a token of every sequence (decode), or all prompts (prefill).
    pub tokens: f64,
    /// Bytes of weights that are read.
    pub weights_bytes: f64,
    /// Bytes of the caches that are read or written.
    pub cache_bytes: f64,
    /// Bytes moved for each token.
    pub bytes_per_token: f64,
    /// Floating-point operations for each token; a multiplication and an addition are two.
    pub flops_per_token: f64,
    /// Operations per byte moved.
    pub intensity_flops_per_byte: f64,
    /// Operations per byte above which arithmetic is the bound. Null where the device's arithmetic is not known.
    pub ridge_flops_per_byte: Option<f64>,
    /// What takes longer. Null where the device's arithmetic is not known.
    pub bound: Option<Bound>,
    /// Tokens a second, if arithmetic took no time.
    pub tokens_per_s_by_bandwidth: f64,
    /// Tokens a second, if moving bytes took no time.
    pub tokens_per_s_by_compute: Option<f64>,
    /// The smaller of the two.
    pub tokens_per_s_ceiling: f64,
    /// Seconds that all `tokens` take at least.
    pub seconds: f64,
}

/// Experts that are picked by at least one of `tokens` tokens, if each picks `per_token` of `experts` at random: `E·(1 − (1 − k/E)^n)`.
pub fn expected_experts(experts: u64, per_token: u64, tokens: f64) -> f64 {
    let (experts, share) = (experts as f64, per_token as f64 / experts as f64);
    // For one token this is k, and for a share of 1 it is E, exactly.
    experts * -f64::exp_m1(tokens * f64::ln_1p(-share))
}

/// Pairs of a query and a key in a prompt: `Σ min(i, window)` over its tokens.
pub fn causal_pairs(tokens: u64, window: Option<u64>) -> f64 {
    let window = window.unwrap_or(tokens).min(tokens);
    let (tokens, window) = (tokens as f64, window as f64);
    window * (window + 1.0) / 2.0 + (tokens - window) * window
}

impl Plan<'_> {
    /// One step of decoding: a token for each of `batch` sequences of `context` tokens, the new one included.
    ///
    /// Bytes: weights, of experts the expected number that some sequence picks; the caches, read once; the new tokens' keys and
    /// values, written. Operations: `2` per active parameter, and attention: `4·H·d` per key for grouped heads, `2·H·(2·rank + rope)`
    /// for latent attention, whose expansion is absorbed into queries and outputs.
    pub fn decode(&self, context: u64, batch: u64) -> Speed {
        let (tokens, model) = (batch as f64, self.model);
        let cache = self.sequence_bytes(context) as f64 * tokens;
        let written = self.layer_token_bytes() as f64 * model.layers.len() as f64 * tokens;
        let per_pair = match model.attention {
            Attention::Grouped { heads, head_dim, .. } => 4 * heads * head_dim,
            Attention::Latent { heads, kv_rank, rope_dim, .. } => 2 * heads * (2 * kv_rank + rope_dim),
        };
        let linear = 2.0 * (multiplied(model) + head(model));
        let flops = tokens * (linear + per_pair as f64 * model.tokens_held(context) as f64);
        self.speed(tokens, self.weights_read(tokens), cache + written, flops)
    }

    /// Prompts of `context` tokens for each of `batch` sequences, in chunks.
    ///
    /// Bytes: weights once per chunk; the caches written once, and read once per chunk of their sequence as far as they have grown. Operations:
    /// `2` per active parameter and token, the head only for each sequence's last; attention over all causal pairs, `4·H·d` each, or
    /// `2·H·(nope + rope + value)` for latent attention.
    pub fn prefill(&self, context: u64, batch: u64) -> Speed {
        let (sequences, model) = (batch as f64, self.model);
        let (tokens, chunk) = (context as f64 * sequences, self.settings.prefill_chunk_tokens);
        let step_tokens = tokens.min(chunk as f64);
        let weights = self.weights_read(step_tokens) * (tokens / chunk as f64).ceil();
        let cache = sequences * (self.read_in_chunks(context) + self.sequence_bytes(context) as f64);
        let per_pair = match model.attention {
            Attention::Grouped { heads, head_dim, .. } => 4 * heads * head_dim,
            Attention::Latent { heads, nope_dim, rope_dim, value_dim, .. } => {
                2 * heads * (nope_dim + rope_dim + value_dim)
            }
        };
        let pairs: f64 = model.layers.iter().map(|layer| causal_pairs(context, layer.window)).sum();
        let flops = 2.0 * (multiplied(model) * tokens + head(model) * sequences)
            + per_pair as f64 * pairs * sequences;
        self.speed(tokens, weights, cache, flops)
    }

    /// Bytes of one sequence's cache that are read while its prompt is computed in chunks.
    fn read_in_chunks(&self, context: u64) -> f64 {
        let chunk = self.settings.prefill_chunk_tokens as f64;
        let token = self.layer_token_bytes() as f64;
        let whole = (context as f64 / chunk).floor();
        let of_layer = |window: Option<u64>| {
            // Chunks that end before the window is full read all that came before; later ones read a window.
            let window = window.map_or(f64::INFINITY, |window| window as f64);
            let growing = whole.min((window / chunk).floor());
            let rest = if whole * chunk < context as f64 { window.min(context as f64) } else { 0.0 };
            let full = if whole > growing { (whole - growing) * window } else { 0.0 };
            chunk * growing * (growing + 1.0) / 2.0 + full + rest
        };
        token * self.model.layers.iter().map(|layer| of_layer(layer.window)).sum::<f64>()
    }

    /// Bytes of weights that a step over so many tokens reads.
    fn weights_read(&self, tokens: f64) -> f64 {
        let share = self.model.routed().map_or(0.0, |routed| {
            expected_experts(routed.experts, routed.per_token, tokens) / routed.experts as f64
        });
        self.weights.every_step as f64 + self.weights.experts as f64 * share
    }

    fn speed(&self, tokens: f64, weights_bytes: f64, cache_bytes: f64, flops: f64) -> Speed {
        let bytes = weights_bytes + cache_bytes;
        let moving_s = bytes / self.device.bytes_per_s();
        let computing_s = self.device.flops_per_s().map(|peak| flops / peak);
        let seconds = moving_s.max(computing_s.unwrap_or(0.0));
        Speed {
            tokens,
            weights_bytes,
            cache_bytes,
            bytes_per_token: bytes / tokens,
            flops_per_token: flops / tokens,
            intensity_flops_per_byte: flops / bytes,
            ridge_flops_per_byte: self.device.ridge(),
            bound: computing_s.map(|s| if s > moving_s { Bound::Compute } else { Bound::Bandwidth }),
            tokens_per_s_by_bandwidth: tokens / moving_s,
            tokens_per_s_by_compute: computing_s.map(|s| tokens / s),
            tokens_per_s_ceiling: tokens / seconds,
            seconds,
        }
    }
}

/// Elements of matrices in the layers that a token is multiplied with.
fn multiplied(model: &Model) -> f64 {
    let parameters = Parameters::of(model);
    let experts = model
        .routed()
        .map_or(0.0, |routed| parameters.experts as f64 * routed.per_token as f64 / routed.experts as f64);
    (parameters.attention + parameters.mlp + parameters.routers) as f64 + experts
}

/// Elements of the head's matrix.
fn head(model: &Model) -> f64 {
    (model.hidden * model.vocabulary) as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Device, KvFormat, Settings, WeightFormat};

    fn plan(model: &str, device: &str) -> Plan<'static> {
        let (model, device) = (Model::find(model).expect("known"), Device::find(device).expect("known"));
        Plan::new(model, device, Settings::default()).expect("in range")
    }

    fn close(a: f64, b: f64, tolerance: f64) {
        assert!((a - b).abs() <= tolerance * b.abs(), "{a} is not {b}");
    }

    #[test]
    fn expected_experts_are_k_for_one_token_and_all_for_many() {
        close(expected_experts(128, 8, 1.0), 8.0, 1e-12);
        close(expected_experts(128, 8, 2.0), 128.0 * (1.0 - (120.0f64 / 128.0).powi(2)), 1e-12);
        close(expected_experts(8, 2, 1e6), 8.0, 1e-12);
        assert_eq!(expected_experts(4, 4, 1.0), 4.0);
    }

    #[test]
    fn causal_pairs_are_their_sum() {
        for (tokens, window) in [(1, None), (10, None), (10, Some(3)), (10, Some(10)), (10, Some(99))] {
            let sum: u64 = (1..=tokens).map(|i| i.min(window.unwrap_or(u64::MAX))).sum();
            assert_eq!(causal_pairs(tokens, window), sum as f64, "{tokens} {window:?}");
        }
    }

    #[test]
    fn gpt_fast_read_as_many_bytes_per_token_of_llama_2_7b() {
        // pytorch-labs/gpt-fast, README: 104.9 tokens/s at 1397.31 GB/s in bf16 at batch 1, a few hundred tokens.
        close(plan("llama-2-7b", "a100-80").decode(200, 1).bytes_per_token, 1397.31e9 / 104.9, 0.01);
    }

    #[test]
    fn decoding_is_two_operations_per_parameter_and_two_bytes_at_batch_1() {
        // Kaplan et al. (arXiv:2001.08361), table 1: 2·N per token, and 2·layers·context·width for each of scores and sums.
        let speed = plan("llama-2-7b", "h100").decode(4096, 1);
        let matrices = (6_738_415_616u64 - 32_000 * 4096 - 65 * 4096) as f64;
        close(speed.flops_per_token, 2.0 * matrices + 4.0 * 32.0 * 4096.0 * 4096.0, 1e-12);
        assert_eq!(speed.bound, Some(Bound::Bandwidth));
        close(speed.tokens_per_s_ceiling, 3350e9 / speed.bytes_per_token, 1e-12);
    }

    #[test]
    fn decoding_without_cache_reaches_the_ridge_at_a_batch_of_about_the_ridge() {
        // kipply (2022): with 2 bytes and 2 operations per parameter the batch at which decode is bound by compute is the ridge.
        let plan = plan("llama-2-7b", "h100");
        let ridge = plan.device.ridge().expect("known");
        assert_eq!(plan.decode(1, (ridge * 0.9) as u64).bound, Some(Bound::Bandwidth));
        assert_eq!(plan.decode(1, (ridge * 1.1) as u64).bound, Some(Bound::Compute));
    }

    #[test]
    fn a_long_prompt_is_bound_by_compute() {
        let speed = plan("llama-3-8b", "h100").prefill(8192, 1);
        assert_eq!(speed.bound, Some(Bound::Compute));
        let linear = 2.0 * (multiplied(Model::find("llama-3-8b").expect("known")));
        assert!(speed.flops_per_token > linear && speed.flops_per_token < 1.5 * linear);
    }

    #[test]
    fn chunks_read_what_the_cache_has_grown_to() {
        for (name, context) in [("llama-3-8b", 10_000), ("mistral-7b-v0.1", 10_000), ("gpt-oss-20b", 4096)] {
            let plan = plan(name, "h100");
            let chunk = plan.settings.prefill_chunk_tokens;
            let ends = (1..).map(|n| n * chunk).take_while(|&end| end < context).chain([context]);
            let sum: u64 = ends.map(|end| plan.sequence_bytes(end)).sum();
            close(plan.read_in_chunks(context), sum as f64, 1e-12);
        }
    }

    #[test]
    fn a_mixture_at_batch_1_reads_its_active_experts_only() {
        let plan = plan("gpt-oss-120b", "h100").with(|settings| settings.weight_format = WeightFormat::Mxfp4);
        let weights = plan.weights;
        let read = plan.decode(1, 1).weights_bytes;
        close(read, weights.every_step as f64 + weights.experts as f64 * 4.0 / 128.0, 1e-12);
        assert!(plan.decode(1, 64).weights_bytes > 10.0 * read / 2.0);
    }

    #[test]
    fn smaller_formats_raise_the_ceiling_by_the_bytes_they_save() {
        let plain = plan("llama-3-8b", "h100");
        let smaller = plain.with(|settings| {
            settings.weight_format = WeightFormat::Int4;
            settings.kv_format = KvFormat::Int4;
        });
        let (a, b) = (plain.decode(8192, 1), smaller.decode(8192, 1));
        close(b.tokens_per_s_ceiling / a.tokens_per_s_ceiling, a.bytes_per_token / b.bytes_per_token, 1e-12);
        assert_eq!(a.flops_per_token, b.flops_per_token);
    }

    #[test]
    fn without_known_arithmetic_only_bandwidth_is_told() {
        let device = Device { tflops: None, ..Device::find("h100").expect("known").clone() };
        let model = Model::find("llama-3-8b").expect("known");
        let speed = Plan::new(model, &device, Settings::default()).expect("in range").decode(1, 1);
        assert_eq!((speed.bound, speed.tokens_per_s_by_compute), (None, None));
        assert_eq!(speed.tokens_per_s_ceiling, speed.tokens_per_s_by_bandwidth);
    }
}
