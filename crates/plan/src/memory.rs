//! What has to be in memory, and how much of it fits.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::model::{Attention, Layer, Model};
use crate::plan::Plan;
use crate::settings::{BATCH_MAX, CONTEXT_MAX};

/// Bytes of an element of an activation, in bf16.
const ACTIVATION_BYTES: u64 = 2;

/// Bytes of a logit, in f32.
const LOGIT_BYTES: u64 = 4;

/// What is in memory at a context and a batch, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Memory {
    /// All weights.
    pub weights_bytes: u64,
    /// The caches of all sequences.
    pub cache_bytes: u64,
    /// Buffers of one step, at their largest.
    pub activations_bytes: u64,
    /// What is left alone.
    pub reserve_bytes: u64,
    /// The sum of these.
    pub total_bytes: u64,
    /// What the device has.
    pub device_bytes: u64,
    /// What the caches can take at most: the device's memory less weights, activations and reserve.
    pub left_for_cache_bytes: u64,
    /// Whether the sum is no more than the device has.
    pub fits: bool,
}

impl Plan<'_> {
    /// What is in memory at a context and a batch.
    pub fn memory(&self, context: u64, batch: u64) -> Memory {
        let device_bytes = self.device.memory_bytes();
        let reserve_bytes = (device_bytes as f64 * self.settings.reserve_fraction) as u64;
        let weights_bytes = self.weights.total();
        let cache_bytes = self.sequence_bytes(context).saturating_mul(batch);
        let activations_bytes = self.activations(context, batch);
        let fixed = weights_bytes.saturating_add(activations_bytes).saturating_add(reserve_bytes);
        let total_bytes = fixed.saturating_add(cache_bytes);
        Memory {
            weights_bytes,
            cache_bytes,
            activations_bytes,
            reserve_bytes,
            total_bytes,
            device_bytes,
            left_for_cache_bytes: device_bytes.saturating_sub(fixed),
            fits: total_bytes <= device_bytes,
        }
    }

    /// Bytes of activations: `2·T·(2h + widest phase) + 4·B·V`, with `T = max(B, min(chunk, B·context))` tokens in a step.
    ///
    /// Assumed: one layer's buffers at a time, in bf16; residual and normed input (`2h`) beside the widest phase, which is attention with its
    /// queries, keys, values and outputs, or the MLP with gate and up projection, for each expert that a token goes to;
    /// attention that keeps no matrix of scores; logits in f32, for the last token of each sequence.
    pub fn activations(&self, context: u64, batch: u64) -> u64 {
        let prompt = batch.saturating_mul(context).min(self.settings.prefill_chunk_tokens);
        let tokens = prompt.max(batch);
        let widest = self.model.layers.iter().map(|layer| widest_phase(self.model, layer)).max().unwrap_or(0);
        let token_bytes = ACTIVATION_BYTES * (2 * self.model.hidden + widest);
        tokens
            .saturating_mul(token_bytes)
            .saturating_add(batch.saturating_mul(LOGIT_BYTES * self.model.vocabulary))
    }

    /// The longest context that fits at a batch: 0 if none does, [`CONTEXT_MAX`] if memory does not limit it.
    pub fn longest_context(&self, batch: u64) -> u64 {
        largest(CONTEXT_MAX, |context| self.memory(context, batch).fits)
    }

    /// The largest batch that fits at a context: 0 if none does, [`BATCH_MAX`] at most.
    pub fn largest_batch(&self, context: u64) -> u64 {
        largest(BATCH_MAX, |batch| self.memory(context, batch).fits)
    }
}

/// Elements per token that are alive at once in the wider of a layer's two phases.
fn widest_phase(model: &Model, layer: &Layer) -> u64 {
    let attention = match model.attention {
        Attention::Grouped { heads, kv_heads, head_dim } => 2 * (heads + kv_heads) * head_dim,
        // Keys and values as they are when a prompt is computed: expanded for every head.
        Attention::Latent { heads, nope_dim, rope_dim, value_dim, .. } => {
            2 * heads * (nope_dim + rope_dim + value_dim)
        }
    };
    let routed = layer.routed.map_or(0, |routed| routed.per_token * (2 * routed.intermediate + model.hidden));
    attention.max(2 * layer.intermediate + routed)
}

/// The largest number up to `most` for which something holds that holds for all smaller ones too; 0 if it holds for none.
fn largest(most: u64, holds: impl Fn(u64) -> bool) -> u64 {
    let (mut holding, mut failing) = (0, most + 1);
    while failing - holding > 1 {
        let middle = holding + (failing - holding) / 2;
        if holds(middle) {
            holding = middle;
        } else {
            failing = middle;
        }
    }
    holding
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{Device, KvFormat, Settings};

    fn plan(model: &str, device: &str, settings: Settings) -> Plan<'static> {
        let (model, device) = (Model::find(model).expect("known"), Device::find(device).expect("known"));
        Plan::new(model, device, settings).expect("in range")
    }

    /// Published estimates for a 7B on an H100 of 80 GB are 121 to 126 thousand: 66 GB / 0.5 MiB, and less with activations.
    #[test]
    fn llama_2_7b_on_80_gb_holds_about_126_thousand_tokens() {
        let settings = Settings { reserve_fraction: 0.0, ..Settings::default() };
        for device in ["a100-80", "h100"] {
            let plan = plan("llama-2-7b", device, settings);
            // (80e9 - 13.477e9) bytes / 0.5 MiB, before activations.
            assert_eq!((80_000_000_000 - plan.weights.total()) / plan.sequence_bytes(1), 126_882);
            let longest = plan.longest_context(1);
            assert!((121_000..126_882).contains(&longest), "{longest}");
        }
    }

    #[test]
    fn activations_are_those_of_the_formula() {
        let settings = Settings { prefill_chunk_tokens: 2048, ..Settings::default() };
        let plan = plan("llama-2-7b", "a100-80", settings);
        assert_eq!(plan.activations(8192, 1), 2 * 2048 * (2 * 4096 + 2 * 11008) + 4 * 32_000);
        assert_eq!(plan.activations(1, 1), 2 * (2 * 4096 + 2 * 11008) + 4 * 32_000);
    }

    #[test]
    fn a_model_too_big_fits_with_no_context() {
        let plan = plan("llama-3.1-405b", "h100", Settings::default());
        assert_eq!((plan.longest_context(1), plan.largest_batch(1)), (0, 0));
        assert_eq!(plan.memory(1, 1).left_for_cache_bytes, 0);
    }

    #[test]
    fn windows_in_every_layer_leave_the_context_unlimited() {
        assert_eq!(plan("mistral-7b-v0.1", "a100-40", Settings::default()).longest_context(1), CONTEXT_MAX);
    }

    #[test]
    fn gpt_oss_120b_in_mxfp4_fits_on_one_80_gb_device_as_its_card_says() {
        let settings = Settings { weight_format: crate::WeightFormat::Mxfp4, ..Settings::default() };
        assert!(plan("gpt-oss-120b", "h100", settings).memory(8192, 1).fits);
    }

    proptest! {
        #[test]
        fn what_fits_is_the_most_that_fits(
            model in 0..Model::known().len(), device in 0..Device::known().len(),
            batch in 1u64..4096, context in 1u64..1_000_000, format in 0..KvFormat::ALL.len(),
        ) {
            let settings = Settings { kv_format: KvFormat::ALL[format], ..Settings::default() };
            let plan = Plan::new(&Model::known()[model], &Device::known()[device], settings).expect("in range");
            let longest = plan.longest_context(batch);
            prop_assert!(longest == 0 || plan.memory(longest, batch).fits);
            prop_assert!(longest == CONTEXT_MAX || !plan.memory(longest + 1, batch).fits);
            let largest = plan.largest_batch(context);
            prop_assert!(largest == 0 || plan.memory(context, largest).fits);
            prop_assert!(largest == BATCH_MAX || !plan.memory(context, largest + 1).fits);
        }
    }
}
