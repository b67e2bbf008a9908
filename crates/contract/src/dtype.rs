//! Element types, named as the array libraries name them.

use serde::{Deserialize, Serialize};

/// The element type of a tensor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DType {
    /// IEEE 754 binary16.
    Float16,
    /// The upper half of a binary32.
    BFloat16,
    /// IEEE 754 binary32.
    Float32,
    /// IEEE 754 binary64.
    Float64,
    /// Signed 32-bit integer.
    Int32,
    /// Signed 64-bit integer.
    Int64,
}

impl DType {
    /// Every element type.
    pub const ALL: [Self; 6] =
        [Self::Float16, Self::BFloat16, Self::Float32, Self::Float64, Self::Int32, Self::Int64];

    /// The name in manifests, JSON and messages: `float32`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Float16 => "float16",
            Self::BFloat16 => "bfloat16",
            Self::Float32 => "float32",
            Self::Float64 => "float64",
            Self::Int32 => "int32",
            Self::Int64 => "int64",
        }
    }

    /// Bytes of one element.
    pub fn size_bytes(self) -> usize {
        match self {
            Self::Float16 | Self::BFloat16 => 2,
            Self::Float32 | Self::Int32 => 4,
            Self::Float64 | Self::Int64 => 8,
        }
    }

    /// The largest relative error of rounding to this type (half a unit in the last place of 1);
    /// 0 for integers, which are compared exactly.
    pub fn unit_roundoff(self) -> f64 {
        match self {
            Self::Float16 => 2f64.powi(-11),
            Self::BFloat16 => 2f64.powi(-8),
            Self::Float32 => 2f64.powi(-24),
            Self::Float64 => 2f64.powi(-53),
            Self::Int32 | Self::Int64 => 0.0,
        }
    }

    /// The smallest positive value, the spacing of subnormal numbers; 0 for integers.
    pub fn subnormal_step(self) -> f64 {
        match self {
            Self::Float16 => 2f64.powi(-24),
            Self::BFloat16 => 2f64.powi(-133),
            Self::Float32 => 2f64.powi(-149),
            Self::Float64 => f64::from_bits(1),
            Self::Int32 | Self::Int64 => 0.0,
        }
    }
}

impl std::fmt::Display for DType {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roundoff_is_half_the_spacing_after_one() {
        assert_eq!(DType::Float32.unit_roundoff(), f64::from(f32::EPSILON) / 2.0);
        assert_eq!(DType::Float64.unit_roundoff(), f64::EPSILON / 2.0);
        assert_eq!(DType::BFloat16.unit_roundoff(), half::bf16::EPSILON.to_f64() / 2.0);
        assert_eq!(DType::Float16.unit_roundoff(), half::f16::EPSILON.to_f64() / 2.0);
    }

    #[test]
    fn subnormal_step_is_the_smallest_positive_value() {
        assert_eq!(DType::Float32.subnormal_step(), f64::from(f32::from_bits(1)));
        assert_eq!(DType::BFloat16.subnormal_step(), half::bf16::from_bits(1).to_f64());
        assert_eq!(DType::Float16.subnormal_step(), half::f16::from_bits(1).to_f64());
    }
}
