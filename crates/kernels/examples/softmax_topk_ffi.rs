//! A C ABI for `benches/peers/softmax_topk.py`, which times this kernel beside other libraries' in one process. Not an
//! interface for anything else.
//!
//! Each function returns 0, or 1 if it was refused.

#[path = "support/ffi.rs"]
mod ffi;
#[path = "support/read_probe.rs"]
mod read_probe;

use std::slice::{from_raw_parts, from_raw_parts_mut};

use ffi::run;
use tribunal_kernels::softmax_topk::{Options, Outputs, Shape, softmax_topk};

/// # Safety
/// - `logits` points to `rows * vocab` floats, `probs` and `indices` to `rows * k` elements, `lse` to `rows`; outputs
///   overlap nothing, and nobody else uses them meanwhile.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tribunal_softmax_topk(
    rows: usize,
    vocab: usize,
    k: usize,
    logits: *const f32,
    probs: *mut f32,
    indices: *mut u32,
    lse: *mut f32,
) -> i32 {
    // SAFETY: lengths, exclusiveness and lifetime (of this call) are what the caller vouches for.
    let (logits, outputs) = unsafe {
        (
            from_raw_parts(logits, rows * vocab),
            Outputs {
                probs: from_raw_parts_mut(probs, rows * k),
                indices: from_raw_parts_mut(indices, rows * k),
                lse: Some(from_raw_parts_mut(lse, rows)),
            },
        )
    };
    run(|| softmax_topk(Shape { rows, vocab }, k, logits, outputs, &Options::default()).is_ok())
}
