//! Layer norm, backward.
//!
//! Layer normalisation over the last axis: a forward pass that returns a cache, and a hand-derived
//! backward pass that needs nothing else.

mod contract;

use contract::*;

#[no_mangle]
pub unsafe extern "C" fn tribunal_forward(args: *mut ForwardArgs) -> i32 {
    let args = &mut *args;
    refuse(args.message, "forward is not implemented")
}

#[no_mangle]
pub unsafe extern "C" fn tribunal_backward(args: *mut BackwardArgs) -> i32 {
    let args = &mut *args;
    refuse(args.message, "backward is not implemented")
}

#[no_mangle]
pub unsafe extern "C" fn tribunal_release(_state: *mut std::ffi::c_void) {
    // For a state made by `Box::into_raw`: `drop(Box::from_raw(state.cast::<YourState>()))`.
}
