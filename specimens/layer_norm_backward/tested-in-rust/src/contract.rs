//! Layer norm, backward: the contract in Rust, the same as the C header. Generated.
//!
//! Every operation takes one record and returns 0, or anything else to refuse, with a text at `message` (256
//! bytes, closing zero included). Tensors lie in main memory, row-major and contiguous, strides given,
//! byte_offset 0, starting at a multiple of 256 bytes. Outputs are allocated by the caller; write every
//! element. Inputs are not to be written to. They are gone when the call returns, unless the call makes a
//! state and sets `keeps_inputs` to 1: then they stay valid and unchanged until tribunal_release, and count
//! as memory that the state keeps. Calls come one at a time, from one thread; you may use threads inside.
#![allow(dead_code)]

use std::ffi::{c_char, c_void};

pub const ABI: u32 = 1;
pub const MESSAGE_BYTES: usize = 256;

/// DLPack's `DLTensor`.
#[repr(C)]
pub struct DLTensor {
    pub data: *mut c_void,
    /// 1: main memory.
    pub device_type: i32,
    pub device_id: i32,
    pub ndim: i32,
    /// 0 integer, 2 float, 4 bfloat.
    pub dtype_code: u8,
    pub dtype_bits: u8,
    pub dtype_lanes: u16,
    pub shape: *mut i64,
    pub strides: *mut i64,
    pub byte_offset: u64,
}

impl DLTensor {
    /// Extent of each axis.
    ///
    /// # Safety
    /// The tensor is one that the caller of an operation handed in, during that call.
    pub unsafe fn shape(&self) -> &[i64] {
        if self.ndim == 0 {
            return &[];
        }
        // SAFETY: the contract gives `ndim` extents.
        unsafe { std::slice::from_raw_parts(self.shape, self.ndim as usize) }
    }

    /// Number of elements.
    ///
    /// # Safety
    /// As for `shape`.
    pub unsafe fn count(&self) -> usize {
        // SAFETY: the caller's promise.
        unsafe { self.shape() }.iter().product::<i64>() as usize
    }

    /// Whether the elements are IEEE floats of `T`'s width.
    pub fn is_float<T>(&self) -> bool {
        self.dtype_code == 2 && usize::from(self.dtype_bits) == 8 * std::mem::size_of::<T>()
    }

    /// The elements.
    ///
    /// # Safety
    /// As for `shape`, and `T` is of the tensor's dtype.
    pub unsafe fn elements<T>(&self) -> &[T] {
        // SAFETY: the contract gives contiguous elements; the type is the caller's promise.
        unsafe { std::slice::from_raw_parts(self.data.cast(), self.count()) }
    }

    /// The elements of an output.
    ///
    /// # Safety
    /// As for `elements`, and the tensor is an output.
    pub unsafe fn elements_mut<T>(&mut self) -> &mut [T] {
        // SAFETY: as for `elements`; outputs overlap nothing.
        unsafe { std::slice::from_raw_parts_mut(self.data.cast(), self.count()) }
    }
}

/// Writes `why` at `message` and returns the status of a refusal.
///
/// # Safety
/// `message` is that of the record at hand.
pub unsafe fn refuse(message: *mut c_char, why: &str) -> i32 {
    let length = why.len().min(MESSAGE_BYTES - 1);
    // SAFETY: `message` has room for MESSAGE_BYTES bytes.
    unsafe {
        std::ptr::copy_nonoverlapping(why.as_ptr(), message.cast(), length);
        *message.add(length) = 0;
    }
    1
}

/// y = gamma * (x - mean) * rstd + beta, with rstd = 1 / sqrt(var + eps); mean and the biased variance
/// (divided by D) are taken over the last axis.
#[repr(C)]
pub struct ForwardArgs {
    /// (B, T, D) or (rows, D): input.
    pub x: *const DLTensor,
    /// (D,): scale, of x's dtype.
    pub gamma: *const DLTensor,
    /// (D,): shift, of x's dtype.
    pub beta: *const DLTensor,
    /// added to the variance, inside the root.
    pub eps: f64,
    /// (B, T, D) or (rows, D): shape and dtype of x.
    pub y: *mut DLTensor,
    /// what backward needs, and no more.
    pub cache: *mut c_void,
    /// Out: 1 if the state refers to the inputs.
    pub keeps_inputs: i64,
    /// Out: why the call was refused.
    pub message: *mut c_char,
}

/// The gradients of sum(dy * y) with respect to x, gamma and beta, where y is what the forward call that made
/// the cache returned. Other forward calls may have been made since, and one cache may be used more than
/// once.
#[repr(C)]
pub struct BackwardArgs {
    /// (B, T, D) or (rows, D): gradient with respect to y.
    pub dy: *const DLTensor,
    /// from forward.
    pub cache: *mut c_void,
    /// (B, T, D) or (rows, D): shape and dtype of x.
    pub dx: *mut DLTensor,
    /// (D,): shape and dtype of gamma.
    pub dgamma: *mut DLTensor,
    /// (D,): shape and dtype of beta.
    pub dbeta: *mut DLTensor,
    /// Out: why the call was refused.
    pub message: *mut c_char,
}
