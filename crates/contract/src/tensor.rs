//! Arrays as the judge keeps them: bytes with a type and a shape, row-major and contiguous.

use std::ops::Range;

use half::{bf16, f16};
use serde::{Deserialize, Serialize};

use crate::DType;

/// Type and shape of a tensor, without its contents.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct TensorSpec {
    /// Element type.
    pub dtype: DType,
    /// Extent of each axis, slowest first. Empty for a scalar.
    pub shape: Vec<usize>,
}

impl TensorSpec {
    /// A spec from its parts.
    pub fn new(dtype: DType, shape: impl Into<Vec<usize>>) -> Self {
        Self { dtype, shape: shape.into() }
    }

    /// Number of elements.
    pub fn len(&self) -> usize {
        self.shape.iter().product()
    }

    /// Whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes of all elements.
    pub fn size_bytes(&self) -> usize {
        self.len() * self.dtype.size_bytes()
    }
}

impl std::fmt::Display for TensorSpec {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}(", self.dtype)?;
        for (i, extent) in self.shape.iter().enumerate() {
            write!(f, "{}{extent}", if i > 0 { ", " } else { "" })?;
        }
        f.write_str(")")
    }
}

/// A tensor: its spec and its elements as bytes, in the machine's byte order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tensor {
    spec: TensorSpec,
    bytes: Vec<u8>,
}

impl Tensor {
    /// A tensor from raw bytes. Panics if their number is not what the spec says.
    pub fn from_bytes(spec: TensorSpec, bytes: Vec<u8>) -> Self {
        assert_eq!(spec.size_bytes(), bytes.len(), "bytes of a {spec} tensor");
        Self { spec, bytes }
    }

    /// A tensor whose elements are `values`, each rounded to `dtype` (to nearest, ties to even; integers
    /// truncate). Panics if their number is not what the shape says.
    pub fn from_f64(dtype: DType, shape: impl Into<Vec<usize>>, values: &[f64]) -> Self {
        let spec = TensorSpec::new(dtype, shape);
        assert_eq!(spec.len(), values.len(), "values of a {spec} tensor");
        let mut bytes = Vec::with_capacity(spec.size_bytes());
        for &value in values {
            match dtype {
                DType::Float16 => bytes.extend(f16::from_f64(value).to_ne_bytes()),
                DType::BFloat16 => bytes.extend(bf16::from_f64(value).to_ne_bytes()),
                DType::Float32 => bytes.extend((value as f32).to_ne_bytes()),
                DType::Float64 => bytes.extend(value.to_ne_bytes()),
                DType::Int32 => bytes.extend((value as i32).to_ne_bytes()),
                DType::Int64 => bytes.extend((value as i64).to_ne_bytes()),
            }
        }
        Self { spec, bytes }
    }

    /// Type and shape.
    pub fn spec(&self) -> &TensorSpec {
        &self.spec
    }

    /// Element type.
    pub fn dtype(&self) -> DType {
        self.spec.dtype
    }

    /// Extent of each axis.
    pub fn shape(&self) -> &[usize] {
        &self.spec.shape
    }

    /// Number of elements.
    pub fn len(&self) -> usize {
        self.spec.len()
    }

    /// Whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.spec.is_empty()
    }

    /// The elements as bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Element `index` in row-major order, widened. Exact but for integers beyond 2^53.
    pub fn get(&self, index: usize) -> f64 {
        fn array<const N: usize>(bytes: &[u8], index: usize) -> [u8; N] {
            bytes.as_chunks::<N>().0[index]
        }
        let bytes = &self.bytes;
        match self.dtype() {
            DType::Float16 => f16::from_ne_bytes(array(bytes, index)).to_f64(),
            DType::BFloat16 => bf16::from_ne_bytes(array(bytes, index)).to_f64(),
            DType::Float32 => f64::from(f32::from_ne_bytes(array(bytes, index))),
            DType::Float64 => f64::from_ne_bytes(array(bytes, index)),
            DType::Int32 => f64::from(i32::from_ne_bytes(array(bytes, index))),
            DType::Int64 => i64::from_ne_bytes(array(bytes, index)) as f64,
        }
    }

    /// All elements in row-major order, widened.
    pub fn to_f64(&self) -> Vec<f64> {
        self.range_to_f64(0..self.len())
    }

    /// Elements `range` in row-major order, widened.
    pub fn range_to_f64(&self, range: Range<usize>) -> Vec<f64> {
        fn each<const N: usize>(bytes: &[u8], widen: impl Fn([u8; N]) -> f64) -> Vec<f64> {
            bytes.as_chunks::<N>().0.iter().map(|&element| widen(element)).collect()
        }
        let size = self.dtype().size_bytes();
        let bytes = &self.bytes[range.start * size..range.end * size];
        match self.dtype() {
            DType::Float16 => each(bytes, |b| f16::from_ne_bytes(b).to_f64()),
            DType::BFloat16 => each(bytes, |b| bf16::from_ne_bytes(b).to_f64()),
            DType::Float32 => each(bytes, |b| f64::from(f32::from_ne_bytes(b))),
            DType::Float64 => each(bytes, f64::from_ne_bytes),
            DType::Int32 => each(bytes, |b| f64::from(i32::from_ne_bytes(b))),
            DType::Int64 => each(bytes, |b| i64::from_ne_bytes(b) as f64),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_integers_survive_every_dtype() {
        for dtype in DType::ALL {
            let values = [0.0, 1.0, -2.0, 96.0];
            let tensor = Tensor::from_f64(dtype, [2, 2], &values);
            assert_eq!(tensor.to_f64(), values, "{dtype}");
            assert_eq!(tensor.get(3), 96.0, "{dtype}");
            assert_eq!(tensor.bytes().len(), tensor.spec().size_bytes());
        }
    }

    #[test]
    fn a_spec_reads_like_a_signature() {
        assert_eq!(TensorSpec::new(DType::Float32, [2, 3]).to_string(), "float32(2, 3)");
        assert_eq!(TensorSpec::new(DType::Int64, []).to_string(), "int64()");
    }
}
