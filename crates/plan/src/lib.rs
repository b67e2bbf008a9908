//! Plans memory and speed of a language model: which context and batch fit on which device with which format of the cache, and what bounds
//! speed.
//!
//! A [`Model`] comes from a table or a `config.json`, a [`Device`] from a table or from its numbers; [`Settings`] say what is asked. A
//! [`Plan`] puts them together, its [`Report`] has everything in it, and [`terminal`] and [`figure`] show it. Every result is arithmetic,
//! whose formula stands where it is computed: [`Parameters`], [`sequence_bytes`], [`Plan::activations`], [`Plan::decode`],
//! [`Plan::prefill`], [`Paging`].
//!
//! Units: bytes, tokens, seconds; GB is 1e9 bytes, KiB 1024 bytes. Nothing is read but a configuration that is asked for, and nothing printed.

#![forbid(unsafe_code)]

mod config;
mod device;
pub mod figure;
mod format;
mod memory;
mod model;
mod names;
mod parameters;
mod plan;
mod report;
mod settings;
mod speed;
pub mod terminal;
mod units;

pub use config::ConfigError;
pub use device::Device;
pub use format::{KvFormat, UnknownFormat, WeightBytes, WeightFormat, layer_token_bytes, sequence_bytes};
pub use memory::Memory;
pub use model::{Attention, Extras, Layer, Model, Routed};
pub use names::UnknownName;
pub use parameters::Parameters;
pub use plan::Plan;
pub use report::{
    COMPARISON_FORM, CacheFormat, CacheSummary, Comparison, DeviceChoice, FORM, FormatChoice, Growth,
    GrowthAtBatch, Limits, ModelSummary, Paging, Report, WindowSummary,
};
pub use settings::{BATCH_MAX, CONTEXT_MAX, OutOfRange, Settings};
pub use speed::{Bound, Speed, causal_pairs, expected_experts};

/// The JSON Schema of a [`Report`].
pub fn schema() -> serde_json::Value {
    let mut schema = schemars::schema_for!(Report).to_value();
    schema["properties"]["schema"]["const"] = FORM.into();
    schema
}
