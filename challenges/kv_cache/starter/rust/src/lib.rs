//! KV cache.
//!
//! A cache of keys and values for autoregressive decoding: ragged batches, several layers, grouped
//! queries, and attention that gives the same answer however the tokens came in.

mod contract;

use contract::*;

#[no_mangle]
pub unsafe extern "C" fn tribunal_create(args: *mut CreateArgs) -> i32 {
    let args = &mut *args;
    refuse(args.message, "create is not implemented")
}

#[no_mangle]
pub unsafe extern "C" fn tribunal_append(args: *mut AppendArgs) -> i32 {
    let args = &mut *args;
    refuse(args.message, "append is not implemented")
}

#[no_mangle]
pub unsafe extern "C" fn tribunal_attend(args: *mut AttendArgs) -> i32 {
    let args = &mut *args;
    refuse(args.message, "attend is not implemented")
}

#[no_mangle]
pub unsafe extern "C" fn tribunal_lengths(args: *mut LengthsArgs) -> i32 {
    let args = &mut *args;
    refuse(args.message, "lengths is not implemented")
}

#[no_mangle]
pub unsafe extern "C" fn tribunal_clear(args: *mut ClearArgs) -> i32 {
    let args = &mut *args;
    refuse(args.message, "clear is not implemented")
}

#[no_mangle]
pub unsafe extern "C" fn tribunal_fork(args: *mut ForkArgs) -> i32 {
    let args = &mut *args;
    refuse(args.message, "fork is not implemented")
}

#[no_mangle]
pub unsafe extern "C" fn tribunal_nbytes(args: *mut NbytesArgs) -> i32 {
    let args = &mut *args;
    refuse(args.message, "nbytes is not implemented")
}

#[no_mangle]
pub unsafe extern "C" fn tribunal_release(_state: *mut std::ffi::c_void) {
    // For a state made by `Box::into_raw`: `drop(Box::from_raw(state.cast::<YourState>()))`.
}
