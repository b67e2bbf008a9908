//! What a model runs on.

use std::sync::LazyLock;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::names::{self, UnknownName};

/// A device: its memory, and the most it can do.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Device {
    /// The name on the command line.
    pub name: String,
    /// The name in full.
    pub title: String,
    /// Memory, in units of 1e9 bytes. Vendors' labels are taken so, which errs on the safe side.
    pub memory_gb: f64,
    /// Bandwidth of that memory, 1e9 bytes a second.
    pub bandwidth_gbs: f64,
    /// 1e12 floating-point operations a second: dense, bf16 or fp16. Null where it is not known.
    pub tflops: Option<f64>,
    /// Where the numbers are from.
    pub source: String,
}

impl Device {
    /// The devices known by name.
    pub fn known() -> &'static [Self] {
        #[derive(Deserialize)]
        struct Table {
            device: Vec<Device>,
        }
        static KNOWN: LazyLock<Vec<Device>> = LazyLock::new(|| {
            let table: Table =
                toml::from_str(include_str!("devices.toml")).expect("devices.toml has devices");
            table.device
        });
        &KNOWN
    }

    /// The device of that name; case and punctuation do not matter.
    ///
    /// # Errors
    ///
    /// If there is none, with the names nearest to it.
    pub fn find(name: &str) -> Result<&'static Self, UnknownName> {
        let known = Self::known();
        let names: Vec<&str> = known.iter().map(|device| device.name.as_str()).collect();
        names::position(name, &names).map(|index| &known[index]).ok_or_else(|| UnknownName {
            kind: "device",
            wanted: name.to_owned(),
            near: names::near(name, &names),
            remedy: "`this` is this machine, and --memory-gb, --bandwidth-gbs and --tflops describe any other",
        })
    }

    /// Bytes of memory.
    pub fn memory_bytes(&self) -> u64 {
        (self.memory_gb * 1e9) as u64
    }

    /// Bytes a second.
    pub fn bytes_per_s(&self) -> f64 {
        self.bandwidth_gbs * 1e9
    }

    /// Floating-point operations a second.
    pub fn flops_per_s(&self) -> Option<f64> {
        self.tflops.map(|tflops| tflops * 1e12)
    }

    /// Operations per byte above which arithmetic and not memory is the bound: `FLOP/s ÷ bytes/s`
    /// (Williams, Waterman, Patterson: Roofline, 2009).
    pub fn ridge(&self) -> Option<f64> {
        self.flops_per_s().map(|flops| flops / self.bytes_per_s())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_known_device_is_found_and_complete() {
        for device in Device::known() {
            assert_eq!(Device::find(&device.name).expect("known"), device);
            assert!(device.tflops.is_some() && !device.source.is_empty());
        }
        assert_eq!(Device::find("RTX 4090").expect("known").name, "rtx-4090");
    }

    #[test]
    fn the_ridge_of_an_a100_at_1500_gb_a_second_is_208() {
        // kipply, Transformer Inference Arithmetic (2022): 312e12 / 1.5e12 = 208.
        let a100 = Device { bandwidth_gbs: 1500.0, ..Device::find("a100-40").expect("known").clone() };
        assert_eq!(a100.ridge(), Some(208.0));
    }

    #[test]
    fn an_unknown_device_is_told_how_to_give_numbers() {
        let error = Device::find("h10").expect_err("unknown").to_string();
        assert!(error.contains("near: h100") && error.contains("--bandwidth-gbs"), "{error}");
    }
}
