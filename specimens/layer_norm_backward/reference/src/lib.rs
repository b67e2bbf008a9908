//! `tribunal-kernels` behind the C contract of the challenge `layer_norm_backward`.

mod contract;

use std::ffi::c_void;
use std::slice;

use contract::*;
use tribunal_kernels::layer_norm::{
    BackwardInputs, BackwardOptions, BackwardOutputs, ForwardInputs, ForwardOptions, ForwardOutputs, Shape,
    backward, forward,
};
use tribunal_kernels::{Element, bf16};

/// What backward needs: the caller's own `x` and `gamma`, and two numbers a row.
struct Cache<T: Element> {
    shape: Shape,
    x: *const T,
    gamma: *const T,
    mean: Vec<T::Acc>,
    rstd: Vec<T::Acc>,
}

/// A cache by the dtype of its tensors.
enum State {
    F32(Cache<f32>),
    F64(Cache<f64>),
    Bf16(Cache<bf16>),
}

/// # Safety
/// `args` is a record as the contract describes it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tribunal_forward(args: *mut ForwardArgs) -> i32 {
    // SAFETY: the caller keeps the contract: the record and its tensors are valid for the call.
    let result = unsafe {
        let args = &mut *args;
        match ((*args.x).dtype_code, (*args.x).dtype_bits) {
            (2, 32) => run_forward::<f32>(args).map(State::F32),
            (2, 64) => run_forward::<f64>(args).map(State::F64),
            (4, 16) => run_forward::<bf16>(args).map(State::Bf16),
            (code, bits) => Err(format!("no layer norm for DLPack type code {code} of {bits} bits")),
        }
    };
    // SAFETY: as above.
    let args = unsafe { &mut *args };
    match result {
        Ok(state) => {
            args.cache = Box::into_raw(Box::new(state)).cast();
            args.keeps_inputs = 1;
            0
        }
        // SAFETY: `message` has room for MESSAGE_BYTES.
        Err(why) => unsafe { refuse(args.message, &why) },
    }
}

/// # Safety
/// `args` is a record as the contract describes it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tribunal_backward(args: *mut BackwardArgs) -> i32 {
    // SAFETY: the caller keeps the contract; `cache` came from `tribunal_forward` and has not been released.
    unsafe {
        let args = &mut *args;
        let result = match &*args.cache.cast::<State>() {
            State::F32(cache) => run_backward(args, cache),
            State::F64(cache) => run_backward(args, cache),
            State::Bf16(cache) => run_backward(args, cache),
        };
        match result {
            Ok(()) => 0,
            Err(why) => refuse(args.message, &why),
        }
    }
}

/// # Safety
/// `state` came from `tribunal_forward` and is released once.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tribunal_release(state: *mut c_void) {
    // SAFETY: `tribunal_forward` made it by `Box::into_raw`.
    drop(unsafe { Box::from_raw(state.cast::<State>()) });
}

/// # Safety
/// The tensors of `args` are valid, and `T` is the type of `x`.
unsafe fn run_forward<T: Element>(args: &mut ForwardArgs) -> Result<Cache<T>, String> {
    // SAFETY: the caller's promise; `elements` checks dtype and length before a slice is made.
    unsafe {
        let x = &*args.x;
        let shape = shape_of(x)?;
        let inputs = ForwardInputs {
            x: elements::<T>(x, "x", x)?,
            gamma: elements::<T>(&*args.gamma, "gamma", x)?,
            beta: elements::<T>(&*args.beta, "beta", x)?,
        };
        let mut cache = Cache {
            shape,
            x: inputs.x.as_ptr(),
            gamma: inputs.gamma.as_ptr(),
            mean: vec![T::Acc::default(); shape.rows],
            rstd: vec![T::Acc::default(); shape.rows],
        };
        let outputs =
            ForwardOutputs { y: (*args.y).elements_mut(), mean: &mut cache.mean, rstd: &mut cache.rstd };
        let options = ForwardOptions { eps: args.eps, ..ForwardOptions::default() };
        forward(shape, inputs, outputs, &options).map_err(|error| error.to_string())?;
        Ok(cache)
    }
}

/// # Safety
/// The tensors of `args` are valid, and the inputs that `cache` refers to are still kept.
unsafe fn run_backward<T: Element>(args: &mut BackwardArgs, cache: &Cache<T>) -> Result<(), String> {
    // SAFETY: the caller's promise; `keeps_inputs` was set, so x and gamma are still there, and their lengths are
    // those that `forward` checked.
    unsafe {
        let inputs = BackwardInputs {
            dy: elements::<T>(&*args.dy, "dy", &*args.dy)?,
            x: slice::from_raw_parts(cache.x, cache.shape.rows * cache.shape.cols),
            mean: &cache.mean,
            rstd: &cache.rstd,
            gamma: slice::from_raw_parts(cache.gamma, cache.shape.cols),
        };
        let outputs = BackwardOutputs {
            dx: (*args.dx).elements_mut(),
            dgamma: (*args.dgamma).elements_mut(),
            dbeta: (*args.dbeta).elements_mut(),
        };
        backward(cache.shape, inputs, outputs, &BackwardOptions::default()).map_err(|error| error.to_string())
    }
}

/// The leading axes folded into rows.
///
/// # Safety
/// `x` is a valid tensor.
unsafe fn shape_of(x: &DLTensor) -> Result<Shape, String> {
    // SAFETY: the caller's promise.
    match unsafe { x.shape() } {
        [leading @ .., cols] if !leading.is_empty() => {
            Ok(Shape { rows: leading.iter().product::<i64>() as usize, cols: *cols as usize })
        }
        shape => Err(format!("x must have two axes or more, got shape {shape:?}")),
    }
}

/// The elements of a tensor that must have the dtype of `like`.
///
/// # Safety
/// `tensor` is valid, and `T` is the type of `like`.
unsafe fn elements<'a, T>(tensor: &'a DLTensor, name: &str, like: &DLTensor) -> Result<&'a [T], String> {
    let same = (tensor.dtype_code, tensor.dtype_bits) == (like.dtype_code, like.dtype_bits);
    if same && usize::from(tensor.dtype_bits) == 8 * size_of::<T>() {
        // SAFETY: the dtype is T's; the rest is the caller's promise.
        Ok(unsafe { tensor.elements() })
    } else {
        Err(format!("{name} must have the dtype of x"))
    }
}
