//! Arrays as numpy keeps them in files: NPY, version 1.0.

use tribunal_contract::{DType, Tensor};

/// The bytes of a `.npy` file. numpy has no bfloat16: such a tensor is widened to float32, which is exact.
pub(super) fn npy(tensor: &Tensor) -> Vec<u8> {
    if tensor.dtype() == DType::BFloat16 {
        return npy(&Tensor::from_f64(DType::Float32, tensor.shape(), &tensor.to_f64()));
    }
    let kind = match tensor.dtype() {
        DType::Float16 => "f2",
        DType::Float32 | DType::BFloat16 => "f4",
        DType::Float64 => "f8",
        DType::Int32 => "i4",
        DType::Int64 => "i8",
    };
    let order = if cfg!(target_endian = "little") { '<' } else { '>' };
    let extents: String = tensor.shape().iter().map(|extent| format!("{extent}, ")).collect();
    let mut header =
        format!("{{'descr': '{order}{kind}', 'fortran_order': False, 'shape': ({}), }}", extents.trim_end());
    // The data begin at a multiple of 64 bytes; ten come before the header, and a line break ends it.
    let padding = (64 - (10 + header.len() + 1) % 64) % 64;
    header += &" ".repeat(padding);
    header.push('\n');
    let length = u16::try_from(header.len()).expect("a shape has few axes");
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend(length.to_le_bytes());
    bytes.extend(header.as_bytes());
    bytes.extend(tensor.bytes());
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_header_and_data() {
        let bytes = npy(&Tensor::from_f64(DType::Float32, [2], &[1.0, -2.0]));
        assert_eq!(&bytes[..8], b"\x93NUMPY\x01\x00");
        let length = usize::from(u16::from_le_bytes([bytes[8], bytes[9]]));
        assert_eq!((10 + length) % 64, 0);
        let header = std::str::from_utf8(&bytes[10..10 + length]).unwrap();
        assert!(header.starts_with("{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }"), "{header}");
        assert!(header.ends_with('\n'));
        assert_eq!(bytes[10 + length..], [0, 0, 128, 63, 0, 0, 0, 192]);
    }

    #[test]
    fn bfloat16_is_widened() {
        let bytes = npy(&Tensor::from_f64(DType::BFloat16, [], &[1.5]));
        assert!(String::from_utf8_lossy(&bytes).contains("'<f4', 'fortran_order': False, 'shape': (), }"));
        assert_eq!(bytes[bytes.len() - 4..], 1.5f32.to_ne_bytes());
    }
}
