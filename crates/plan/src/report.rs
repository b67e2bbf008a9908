//! Everything a plan tells, for programs and for showing.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::device::Device;
use crate::format::{KvFormat, WeightBytes, WeightFormat, layer_token_bytes, sequence_bytes};
use crate::memory::Memory;
use crate::model::Model;
use crate::parameters::Parameters;
use crate::plan::Plan;
use crate::settings::{BATCH_MAX, CONTEXT_MAX, OutOfRange, Settings};
use crate::speed::{Bound, Speed};

/// The form of report that this version writes.
pub const FORM: &str = "tribunal.plan/1";

/// The form of comparison that this version writes.
pub const COMPARISON_FORM: &str = "tribunal.plan-devices/1";

/// Batches of the table of growth.
const BATCHES: [u64; 4] = [1, 4, 16, 64];

/// A model on a device.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Report {
    /// Always `tribunal.plan/1`.
    pub schema: String,
    /// The model.
    pub model: ModelSummary,
    /// The device.
    pub device: Device,
    /// What was asked.
    pub settings: Settings,
    /// What the cache takes per token.
    pub cache: CacheSummary,
    /// What is in memory at the context and batch that were asked for.
    pub memory: Memory,
    /// What fits.
    pub limits: Limits,
    /// The caches' bytes by context and batch.
    pub growth: Vec<Growth>,
    /// What reserving whole contexts wastes, and what pages do.
    pub paging: Paging,
    /// A step that gives every sequence its next token.
    pub decode: Speed,
    /// The computation of all prompts.
    pub prefill: Speed,
    /// What other formats would give.
    pub formats: Vec<FormatChoice>,
}

/// A model on every device known.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Comparison {
    /// Always `tribunal.plan-devices/1`.
    pub schema: String,
    /// The model.
    pub model: ModelSummary,
    /// What was asked.
    pub settings: Settings,
    /// What the cache takes per token.
    pub cache: CacheSummary,
    /// The devices.
    pub devices: Vec<DeviceChoice>,
}

/// A model in numbers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ModelSummary {
    /// Its name.
    pub name: String,
    /// Where its numbers are from.
    pub source: String,
    /// All parameters.
    pub parameters: u64,
    /// Parameters that take part in computing one token.
    pub active_parameters: u64,
    /// Bytes of its weights, in the format that was asked for.
    pub weights_bytes: u64,
    /// Layers.
    pub layers: u64,
    /// Layers that attend to a window only.
    pub windowed_layers: u64,
    /// Experts that a router picks from, in a layer that has them; 0 without.
    pub experts: u64,
    /// Experts that a token goes to; 0 without.
    pub experts_per_token: u64,
    /// The context it was made for, in tokens. Null where it is not known.
    pub trained_context_tokens: Option<u64>,
    /// What had to be assumed.
    pub notes: Vec<String>,
}

/// What the cache takes per token.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CacheSummary {
    /// Bytes that one layer keeps per token.
    pub layer_bytes_per_token: u64,
    /// Bytes that all layers keep per token, before any window is full.
    pub bytes_per_token: u64,
    /// Bytes that a token adds once all windows are full.
    pub bytes_per_token_beyond_windows: u64,
    /// Layers by their window.
    pub windows: Vec<WindowSummary>,
    /// The formats, each with its bytes.
    pub formats: Vec<CacheFormat>,
}

/// Layers with the same window.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WindowSummary {
    /// How many layers.
    pub layers: u64,
    /// The window, in tokens; null if they attend to everything.
    pub window_tokens: Option<u64>,
}

/// A format of the cache.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CacheFormat {
    /// The format.
    pub kv_format: KvFormat,
    /// Bytes of a vector of n elements.
    pub vector_bytes_formula: String,
    /// Bytes that one layer keeps per token.
    pub layer_bytes_per_token: u64,
    /// Bytes that all layers keep per token, before any window is full.
    pub bytes_per_token: u64,
    /// Bytes of one sequence at the context that was asked for.
    pub bytes_per_sequence: u64,
}

/// What fits on a device.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Limits {
    /// The longest context at the batch that was asked for; 0 if the model does not fit at all.
    pub longest_context_tokens: u64,
    /// False if windows in every layer keep the caches from growing: the context is then 2^30, the most that is looked at.
    pub memory_limits_context: bool,
    /// The largest batch at the context that was asked for; 0 if not one sequence fits, 2^20 at most.
    pub largest_batch_sequences: u64,
    /// Tokens a second that the device allows at most at that batch; null if it is 0.
    pub largest_batch_decode_tokens_per_s: Option<f64>,
}

/// The caches' bytes at a context.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Growth {
    /// Tokens of each sequence.
    pub context_tokens: u64,
    /// By batch.
    pub batches: Vec<GrowthAtBatch>,
}

/// The caches' bytes at a context and a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GrowthAtBatch {
    /// Sequences.
    pub batch_sequences: u64,
    /// Bytes of all their caches.
    pub cache_bytes: u64,
    /// Whether that fits, with weights, activations and reserve.
    pub fits: bool,
}

/// Reserving a whole context for each sequence, against pages that are taken as it grows (PagedAttention, arXiv:2309.06180).
///
/// Contiguous: a sequence of mean length `m` in a reservation of `c` tokens wastes `bytes(c) − bytes(m)`. Paged: only its last page is not
/// full. If each of its `p` fillings is as likely, `(p − 1)/2` tokens are wasted, half a page but for half a token, in every layer.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Paging {
    /// Tokens that are reserved for a sequence.
    pub reserved_tokens: u64,
    /// Tokens that it has on average.
    pub mean_tokens: u64,
    /// Tokens of a page.
    pub page_tokens: u64,
    /// Bytes that it needs on average.
    pub used_bytes: u64,
    /// Bytes that it wastes on average, if all are reserved.
    pub contiguous_waste_bytes: u64,
    /// The same as a share of what is reserved.
    pub contiguous_waste_fraction: f64,
    /// Bytes that it wastes on average, if pages are taken.
    pub paged_waste_bytes: f64,
    /// The same as a share of the pages taken.
    pub paged_waste_fraction: f64,
    /// Sequences that fit in the memory left for the cache, if all is reserved.
    pub contiguous_sequences: u64,
    /// Sequences of mean length that fit, if pages are taken.
    pub paged_sequences: u64,
}

/// What a pair of formats gives.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FormatChoice {
    /// What weights are kept in.
    pub weight_format: WeightFormat,
    /// What keys and values are kept in.
    pub kv_format: KvFormat,
    /// Bytes of all weights.
    pub weights_bytes: u64,
    /// Bytes of the cache per token, before any window is full.
    pub cache_bytes_per_token: u64,
    /// What fits.
    pub limits: Limits,
    /// Tokens a second that the device allows at most at the context and batch that were asked for; null if these do not fit.
    pub decode_tokens_per_s_ceiling: Option<f64>,
}

/// What a device gives.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DeviceChoice {
    /// The device.
    pub device: Device,
    /// What is in memory at the context and batch that were asked for.
    pub memory: Memory,
    /// What fits.
    pub limits: Limits,
    /// A step that gives every sequence its next token.
    pub decode: Speed,
    /// What bounds the computation of the prompts.
    pub prefill_bound: Option<Bound>,
    /// Seconds that all prompts take at least.
    pub prefill_seconds: f64,
}

impl Plan<'_> {
    /// Everything there is to tell.
    pub fn report(&self) -> Report {
        let Settings { context_tokens: context, batch_sequences: batch, .. } = self.settings;
        Report {
            schema: FORM.to_owned(),
            model: ModelSummary::of(self.model, &self.settings),
            device: self.device.clone(),
            settings: self.settings,
            cache: CacheSummary::of(self.model, &self.settings),
            memory: self.memory(context, batch),
            limits: self.limits(),
            growth: self.growth(),
            paging: self.paging(),
            decode: self.decode(context, batch),
            prefill: self.prefill(context, batch),
            formats: self.formats(),
        }
    }

    fn limits(&self) -> Limits {
        let Settings { context_tokens: context, batch_sequences: batch, .. } = self.settings;
        let (longest, largest) = (self.longest_context(batch), self.largest_batch(context));
        Limits {
            longest_context_tokens: longest,
            memory_limits_context: longest < CONTEXT_MAX,
            largest_batch_sequences: largest,
            largest_batch_decode_tokens_per_s: (largest > 0)
                .then(|| self.decode(context, largest).tokens_per_s_ceiling),
        }
    }

    /// From 1k to 1M tokens.
    fn growth(&self) -> Vec<Growth> {
        let at = |context: u64, batch: u64| {
            let memory = self.memory(context, batch);
            GrowthAtBatch { batch_sequences: batch, cache_bytes: memory.cache_bytes, fits: memory.fits }
        };
        (0..=10)
            .map(|doublings| 1024 << doublings)
            .map(|context| Growth {
                context_tokens: context,
                batches: BATCHES.map(|batch| at(context, batch)).to_vec(),
            })
            .collect()
    }

    fn paging(&self) -> Paging {
        let Settings { context_tokens: reserved, batch_sequences: batch, page_tokens: page, .. } =
            self.settings;
        let mean = self.settings.mean_context();
        let (reserved_bytes, used_bytes) = (self.sequence_bytes(reserved), self.sequence_bytes(mean));
        let half_page = (page - 1) as f64 / 2.0;
        let token_bytes = (self.layer_token_bytes() * self.model.layers.len() as u64) as f64;
        let paged_waste_bytes = half_page * token_bytes;
        let paged_bytes = used_bytes as f64 + paged_waste_bytes;
        let left = self.memory(reserved, batch).left_for_cache_bytes;
        Paging {
            reserved_tokens: reserved,
            mean_tokens: mean,
            page_tokens: page,
            used_bytes,
            contiguous_waste_bytes: reserved_bytes - used_bytes,
            contiguous_waste_fraction: (reserved_bytes - used_bytes) as f64 / reserved_bytes as f64,
            paged_waste_bytes,
            paged_waste_fraction: paged_waste_bytes / paged_bytes,
            contiguous_sequences: left / reserved_bytes,
            paged_sequences: (left as f64 / paged_bytes) as u64,
        }
    }

    fn formats(&self) -> Vec<FormatChoice> {
        let Settings { context_tokens: context, batch_sequences: batch, .. } = self.settings;
        let has_experts = self.model.routed().is_some();
        let weights = [WeightFormat::Bf16, WeightFormat::Int8, WeightFormat::Int4, WeightFormat::Mxfp4];
        let caches = [KvFormat::Bf16, KvFormat::Int8, KvFormat::Int4];
        let pairs = weights.into_iter().flat_map(|weights| caches.map(|cache| (weights, cache)));
        pairs
            .filter(|&(weights, _)| weights != WeightFormat::Mxfp4 || has_experts)
            .map(|(weight_format, kv_format)| {
                let plan = self.with(|settings| {
                    settings.weight_format = weight_format;
                    settings.kv_format = kv_format;
                });
                let fits = plan.memory(context, batch).fits;
                FormatChoice {
                    weight_format,
                    kv_format,
                    weights_bytes: plan.weights.total(),
                    cache_bytes_per_token: plan.sequence_bytes(1),
                    limits: plan.limits(),
                    decode_tokens_per_s_ceiling: fits
                        .then(|| plan.decode(context, batch).tokens_per_s_ceiling),
                }
            })
            .collect()
    }
}

impl Comparison {
    /// A model on each of some devices.
    ///
    /// # Errors
    ///
    /// If a number of the settings or of a device is out of its range.
    pub fn of(model: &Model, devices: &[Device], settings: Settings) -> Result<Self, OutOfRange> {
        let choose = |device| {
            let plan = Plan::new(model, device, settings)?;
            let Settings { context_tokens: context, batch_sequences: batch, .. } = settings;
            let prefill = plan.prefill(context, batch);
            Ok(DeviceChoice {
                device: device.clone(),
                memory: plan.memory(context, batch),
                limits: plan.limits(),
                decode: plan.decode(context, batch),
                prefill_bound: prefill.bound,
                prefill_seconds: prefill.seconds,
            })
        };
        settings.check()?;
        Ok(Self {
            schema: COMPARISON_FORM.to_owned(),
            model: ModelSummary::of(model, &settings),
            settings,
            cache: CacheSummary::of(model, &settings),
            devices: devices.iter().map(choose).collect::<Result<_, _>>()?,
        })
    }
}

impl ModelSummary {
    fn of(model: &Model, settings: &Settings) -> Self {
        let parameters = Parameters::of(model);
        Self {
            name: model.name.clone(),
            source: model.source.clone(),
            parameters: parameters.total(),
            active_parameters: parameters.active(model),
            weights_bytes: WeightBytes::of(model, settings.weight_format).total(),
            layers: model.layers.len() as u64,
            windowed_layers: model.layers.iter().filter(|layer| layer.window.is_some()).count() as u64,
            experts: model.routed().map_or(0, |routed| routed.experts),
            experts_per_token: model.routed().map_or(0, |routed| routed.per_token),
            trained_context_tokens: model.trained_context,
            notes: model.notes.clone(),
        }
    }
}

impl CacheSummary {
    fn of(model: &Model, settings: &Settings) -> Self {
        let group = settings.kv_group_elements;
        let layer = |format| layer_token_bytes(model.attention, format, group);
        let layer_bytes_per_token = layer(settings.kv_format);
        let growing = model.layers.iter().filter(|layer| layer.window.is_none()).count() as u64;
        Self {
            layer_bytes_per_token,
            bytes_per_token: layer_bytes_per_token * model.layers.len() as u64,
            bytes_per_token_beyond_windows: layer_bytes_per_token * growing,
            windows: windows(model),
            formats: KvFormat::SIZES
                .map(|kv_format| CacheFormat {
                    kv_format,
                    vector_bytes_formula: kv_format.formula(group),
                    layer_bytes_per_token: layer(kv_format),
                    bytes_per_token: layer(kv_format) * model.layers.len() as u64,
                    bytes_per_sequence: sequence_bytes(model, kv_format, group, settings.context_tokens),
                })
                .to_vec(),
        }
    }
}

/// Layers counted by their window, in the order in which they first appear.
fn windows(model: &Model) -> Vec<WindowSummary> {
    let mut windows: Vec<WindowSummary> = Vec::new();
    for layer in &model.layers {
        match windows.iter_mut().find(|summary| summary.window_tokens == layer.window) {
            Some(summary) => summary.layers += 1,
            None => windows.push(WindowSummary { layers: 1, window_tokens: layer.window }),
        }
    }
    windows
}

impl Limits {
    /// Whether the largest batch is the most that is looked at.
    pub(crate) fn batch_is_unlimited(&self) -> bool {
        self.largest_batch_sequences == BATCH_MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(model: &str, device: &str, settings: Settings) -> Report {
        let (model, device) = (Model::find(model).expect("known"), Device::find(device).expect("known"));
        Plan::new(model, device, settings).expect("in range").report()
    }

    #[test]
    fn a_report_is_read_back_as_it_was_written() {
        let report = report("gpt-oss-20b", "h100", Settings::default());
        let text = serde_json::to_string(&report).expect("JSON");
        let read: Report = serde_json::from_str(&text).expect("a report");
        // Not all of it: a float may come back with another last digit.
        assert_eq!((&read.model, &read.settings), (&report.model, &report.settings));
        assert_eq!((&read.memory, &read.cache), (&report.memory, &report.cache));
        assert_eq!((&read.growth, read.formats.len()), (&report.growth, report.formats.len()));
    }

    #[test]
    fn every_model_on_every_device_gives_finite_numbers() {
        for model in Model::known() {
            for device in Device::known() {
                let report = Plan::new(model, device, Settings::default()).expect("in range").report();
                let text = serde_json::to_value(&report).expect("JSON");
                for key in ["intensity_flops_per_byte", "tokens_per_s_ceiling", "tokens_per_s_by_compute"] {
                    for phase in ["decode", "prefill"] {
                        assert!(text[phase][key].as_f64().is_some_and(|number| number > 0.0), "{key}");
                    }
                }
            }
        }
    }

    #[test]
    fn pages_of_16_waste_seven_and_a_half_tokens_and_reservations_what_is_not_used() {
        let settings =
            Settings { context_tokens: 2048, mean_context_tokens: Some(512), ..Settings::default() };
        let paging = report("llama-2-13b", "a100-80", settings).paging;
        let token = 819_200u32;
        assert_eq!(paging.paged_waste_bytes, 7.5 * f64::from(token));
        assert_eq!(paging.contiguous_waste_bytes, (2048 - 512) * u64::from(token));
        assert_eq!(paging.contiguous_waste_fraction, 0.75);
        assert_eq!(paging.used_bytes, 512 * u64::from(token));
        assert!(paging.paged_sequences > 3 * paging.contiguous_sequences);
        // arXiv:2309.06180, section 3: a request of OPT-13B, as wide and deep, takes up to 1.6 GB for 2048 tokens.
        let reserved = paging.used_bytes + paging.contiguous_waste_bytes;
        assert!((reserved as f64 / f64::from(1 << 30) - 1.6).abs() < 0.05);
    }

    #[test]
    fn windows_are_counted_and_cap_the_growth() {
        let cache = report("gpt-oss-20b", "h100", Settings::default()).cache;
        let window = |window_tokens| WindowSummary { layers: 12, window_tokens };
        assert_eq!(cache.windows, [window(Some(128)), window(None)]);
        assert_eq!(cache.bytes_per_token, 2 * cache.bytes_per_token_beyond_windows);
    }

    #[test]
    fn a_comparison_has_every_device() {
        let model = Model::find("llama-3-70b").expect("known");
        let comparison = Comparison::of(model, Device::known(), Settings::default()).expect("in range");
        let fitting: Vec<&str> = comparison
            .devices
            .iter()
            .filter(|choice| choice.memory.fits)
            .map(|choice| choice.device.name.as_str())
            .collect();
        assert_eq!(comparison.devices.len(), Device::known().len());
        assert_eq!(fitting, ["b200", "mi300x"]);
    }

    #[test]
    fn settings_out_of_range_are_named() {
        let model = Model::find("llama-3-8b").expect("known");
        let of = |settings| Comparison::of(model, &[], settings).expect_err("out of range").to_string();
        assert_eq!(
            of(Settings { context_tokens: 0, ..Settings::default() }),
            "the context is 0: it must be from 1 to 1073741824"
        );
        assert_eq!(
            of(Settings { reserve_fraction: 1.0, ..Settings::default() }),
            "the reserve is 1: it must be at least 0 and less than 1"
        );
    }
}
