//! Tensors and calls as a C caller sees them: DLPack's layout, and one argument record per operation.
//!
//! Every operation is `int32_t tribunal_<operation>(tribunal_<operation>_args *args)`. The record's members are
//! all eight bytes wide (pointer, double or int64_t) and stand in the order
//! inputs, outputs, `keeps_inputs` where a state is made, `message`, so one host can call any operation of any challenge.

use crate::DType;

/// Version of the calling convention; the symbol `tribunal_abi`, where a library has it, returns this.
pub const ABI_VERSION: u32 = 1;

/// Bytes a callee may write at `message`, the closing zero included.
pub const MESSAGE_BYTES: usize = 256;

/// Every tensor handed to a callee starts at a multiple of this many bytes.
pub const ALIGNMENT_BYTES: usize = 256;

/// DLPack's `DLDevice`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct DLDevice {
    /// 1 for main memory.
    pub device_type: i32,
    /// 0 in main memory.
    pub device_id: i32,
}

/// DLPack's `DLDataType`.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DLDataType {
    /// 0 integer, 2 IEEE float, 4 bfloat.
    pub code: u8,
    /// Bits of one element.
    pub bits: u8,
    /// 1: no vector types.
    pub lanes: u16,
}

/// DLPack's `DLTensor`, 48 bytes.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct DLTensor {
    /// First byte of the allocation.
    pub data: *mut core::ffi::c_void,
    /// Where `data` points into.
    pub device: DLDevice,
    /// Number of axes.
    pub ndim: i32,
    /// Element type.
    pub dtype: DLDataType,
    /// Extent of each axis, `ndim` of them.
    pub shape: *mut i64,
    /// Elements between neighbours along each axis; never null where `ndim > 0`.
    pub strides: *mut i64,
    /// Bytes from `data` to the first element; always 0 here.
    pub byte_offset: u64,
}

const _: () = assert!(size_of::<DLTensor>() == 48 && size_of::<DLDataType>() == 4);

impl From<DType> for DLDataType {
    fn from(dtype: DType) -> Self {
        let (code, bits) = match dtype {
            DType::Float16 => (2, 16),
            DType::BFloat16 => (4, 16),
            DType::Float32 => (2, 32),
            DType::Float64 => (2, 64),
            DType::Int32 => (0, 32),
            DType::Int64 => (0, 64),
        };
        Self { code, bits, lanes: 1 }
    }
}
