//! Fused softmax and top-k: the contract in Rust, the same as the C header. Generated.
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

/// For each row of V logits: probs = exp(logits[i] - lse) of the k entries i that are most probable, in
/// descending order, with lse = log(sum(exp(logits))) over all V; indices are these i. Entries whose
/// probabilities float32 cannot tell apart may stand in any order, and any of them may be left out for
/// another. A logit of -inf has probability 0; it is named, once, only where fewer than k others exist. Rows
/// have nothing to do with each other. A row that has no softmax (a NaN in it, or nothing but -inf) is
/// refused, or its probs are NaN, or zeros, or, for nothing but -inf, 1 / V, its indices any of the row or
/// -1, and the rows beside it are answered as ever. A k beyond V is refused, or what is beyond V gets
/// probability 0 and index -1.
#[repr(C)]
pub struct SoftmaxTopkArgs {
    /// (B, T, V): natural logarithms of unnormalised probabilities; +inf does not occur.
    pub logits: *const DLTensor,
    /// how many entries of each row, at least 1.
    pub k: i64,
    /// (B, T, k): float32 whatever the dtype of the logits, descending.
    pub probs: *mut DLTensor,
    /// (B, T, k): int64 (Python may return int32), 0 <= index < V, distinct within a row.
    pub indices: *mut DLTensor,
    /// Out: why the call was refused.
    pub message: *mut c_char,
}
