//! KV cache: the contract in Rust, the same as the C header. Generated.
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

/// An empty cache for `batch` sequences, each of no tokens. A configuration that cannot be served is refused:
/// heads no multiple of kv_heads, a number of bits that is not claimed.
#[repr(C)]
pub struct CreateArgs {
    /// layers, each with keys and values of its own.
    pub layers: i64,
    /// sequences.
    pub batch: i64,
    /// query heads, a multiple of kv_heads.
    pub heads: i64,
    /// heads of keys and values.
    pub kv_heads: i64,
    /// elements of a head; even.
    pub head_dim: i64,
    /// tokens that a sequence can have at most.
    pub max_len: i64,
    /// of a stored number: 32 for float32; with the capability, 16 for float16, 8 and 4 for integers.
    pub bits: i64,
    /// tokens of a block of a paged cache (capability `paged`), or 0: not paged.
    pub block_size: i64,
    /// blocks for all sequences together, each for block_size tokens of one sequence in every layer; 0 if not paged.
    pub num_blocks: i64,
    /// the cache.
    pub cache: *mut c_void,
    /// Out: 1 if the state refers to the inputs.
    pub keeps_inputs: i64,
    /// Out: why the call was refused.
    pub message: *mut c_char,
}

/// Adds new tokens to one layer: of sequence b the first lengths[b] along the t axis; what stands behind them
/// is padding, and means nothing. Each layer is appended to on its own, and layers may differ in length in
/// between. If a sequence would have more than max_len tokens, or blocks do not suffice, the call is refused
/// and the cache is as it was, all sequences of it.
#[repr(C)]
pub struct AppendArgs {
    /// from create; changed in place.
    pub cache: *mut c_void,
    /// which layer, from 0.
    pub layer: i64,
    /// (batch, kv_heads, t, head_dim): keys, float32.
    pub k: *const DLTensor,
    /// (batch, kv_heads, t, head_dim): values, float32.
    pub v: *const DLTensor,
    /// (batch,): int64, 0 … t new tokens.
    pub lengths: *const DLTensor,
    /// Out: why the call was refused.
    pub message: *mut c_char,
}

/// Causal attention of each sequence's newest lengths[b] tokens, appended before, over what the layer holds
/// of that sequence: out = softmax(q k' / sqrt(head_dim)) v, where the query at position p sees keys at
/// positions up to p. Query head h uses the keys of head h / (heads / kv_heads), rounded down. Queries stand
/// at the left of the t axis; out is not looked at behind them.
#[repr(C)]
pub struct AttendArgs {
    /// from create; changed in place.
    pub cache: *mut c_void,
    /// which layer, from 0.
    pub layer: i64,
    /// (batch, heads, t, head_dim): queries, float32.
    pub q: *const DLTensor,
    /// (batch,): int64, 0 … t queries.
    pub lengths: *const DLTensor,
    /// (batch, heads, t, head_dim): float32.
    pub out: *mut DLTensor,
    /// Out: why the call was refused.
    pub message: *mut c_char,
}

/// How many tokens each layer holds of each sequence.
#[repr(C)]
pub struct LengthsArgs {
    /// from create; changed in place.
    pub cache: *mut c_void,
    /// (layers, batch): int64.
    pub lengths: *mut DLTensor,
    /// Out: why the call was refused.
    pub message: *mut c_char,
}

/// Empties one sequence in every layer; its place and its blocks can be used again.
#[repr(C)]
pub struct ClearArgs {
    /// from create; changed in place.
    pub cache: *mut c_void,
    /// which, from 0.
    pub sequence: i64,
    /// Out: why the call was refused.
    pub message: *mut c_char,
}

/// Gives an empty sequence the tokens of another, in every layer; from then on they go their own ways. In a
/// paged cache they share the blocks that are full, which count once; one that is not may be copied at once,
/// or when either appends to it. Called only where `prefix_sharing` is claimed.
#[repr(C)]
pub struct ForkArgs {
    /// from create; changed in place.
    pub cache: *mut c_void,
    /// the sequence that has tokens.
    pub source: i64,
    /// an empty one.
    pub target: i64,
    /// Out: why the call was refused.
    pub message: *mut c_char,
}

/// Bytes of memory that the cache takes as it stands, for keys, values and what belongs to them: scales,
/// tables, empty blocks, copies. Room for tokens that have not come may be counted or not. A full cache that
/// is weighed from outside must not take more than 1.5 times what it says: the rest is for allocators and for
/// what a language puts before an object.
#[repr(C)]
pub struct NbytesArgs {
    /// from create; changed in place.
    pub cache: *mut c_void,
    /// (): int64.
    pub bytes: *mut DLTensor,
    /// Out: why the call was refused.
    pub message: *mut c_char,
}
