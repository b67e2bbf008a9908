//! A model on a device.

use crate::device::Device;
use crate::format::{WeightBytes, layer_token_bytes, sequence_bytes};
use crate::model::Model;
use crate::settings::{OutOfRange, Settings};

/// A model on a device, and how it is run.
#[derive(Debug, Clone, Copy)]
pub struct Plan<'a> {
    pub(crate) model: &'a Model,
    pub(crate) device: &'a Device,
    pub(crate) settings: Settings,
    pub(crate) weights: WeightBytes,
}

impl<'a> Plan<'a> {
    /// A plan.
    ///
    /// # Errors
    ///
    /// If a number of the device or the settings is out of its range.
    pub fn new(model: &'a Model, device: &'a Device, settings: Settings) -> Result<Self, OutOfRange> {
        settings.check()?;
        let numbers = [
            ("the memory, in GB,", Some(device.memory_gb)),
            ("the bandwidth, in GB/s,", Some(device.bandwidth_gbs)),
            ("the arithmetic, in TFLOP/s,", device.tflops),
        ];
        for (what, number) in numbers {
            if let Some(number) = number.filter(|number| !(*number > 0.0 && *number <= 1e9)) {
                let expected = "above 0 and at most 1e9".to_owned();
                return Err(OutOfRange { what, value: number.to_string(), expected });
            }
        }
        Ok(Self { model, device, settings, weights: WeightBytes::of(model, settings.weight_format) })
    }

    /// The same model and device with other settings; they must be in range.
    pub(crate) fn with(self, change: impl FnOnce(&mut Settings)) -> Self {
        let mut settings = self.settings;
        change(&mut settings);
        Self { settings, weights: WeightBytes::of(self.model, settings.weight_format), ..self }
    }

    /// Bytes that one layer keeps per token.
    pub(crate) fn layer_token_bytes(&self) -> u64 {
        layer_token_bytes(self.model.attention, self.settings.kv_format, self.settings.kv_group_elements)
    }

    /// Bytes that one sequence's cache takes.
    pub(crate) fn sequence_bytes(&self, context: u64) -> u64 {
        sequence_bytes(self.model, self.settings.kv_format, self.settings.kv_group_elements, context)
    }
}
