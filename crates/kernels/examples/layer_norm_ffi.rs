//! A C ABI for `benches/peers/layer_norm.py`, which times these kernels beside other libraries' in one process. Not an
//! interface for anything else.
//!
//! Each function returns 0, or 1 if it was refused.

#[path = "support/ffi.rs"]
mod ffi;
#[path = "../benches/support/probe.rs"]
mod probe;

use ffi::run;
use probe::Way;
use tribunal_kernels::layer_norm::{
    BackwardInputs, BackwardOptions, BackwardOutputs, ForwardInputs, ForwardOptions, ForwardOutputs, Shape,
    backward, forward,
};

/// # Safety
/// - `x` and `y` point to `rows * cols` floats, `gamma` and `beta` to `cols`, `mean` and `rstd` to `rows`; outputs overlap
///   nothing, and nobody else uses them meanwhile.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tribunal_layer_norm_forward(
    rows: usize,
    cols: usize,
    x: *const f32,
    gamma: *const f32,
    beta: *const f32,
    eps: f64,
    y: *mut f32,
    mean: *mut f32,
    rstd: *mut f32,
) -> i32 {
    use std::slice::{from_raw_parts, from_raw_parts_mut};
    // SAFETY: lengths, exclusiveness and lifetime (of this call) are what the caller vouches for.
    let (inputs, outputs) = unsafe {
        (
            ForwardInputs {
                x: from_raw_parts(x, rows * cols),
                gamma: from_raw_parts(gamma, cols),
                beta: from_raw_parts(beta, cols),
            },
            ForwardOutputs {
                y: from_raw_parts_mut(y, rows * cols),
                mean: from_raw_parts_mut(mean, rows),
                rstd: from_raw_parts_mut(rstd, rows),
            },
        )
    };
    let options = ForwardOptions { eps, ..Default::default() };
    run(|| forward(Shape { rows, cols }, inputs, outputs, &options).is_ok())
}

/// # Safety
/// - `dy`, `x` and `dx` point to `rows * cols` floats, `mean` and `rstd` to `rows`, `gamma`, `dgamma` and `dbeta` to `cols`;
///   outputs overlap nothing, and nobody else uses them meanwhile.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tribunal_layer_norm_backward(
    rows: usize,
    cols: usize,
    dy: *const f32,
    x: *const f32,
    mean: *const f32,
    rstd: *const f32,
    gamma: *const f32,
    dx: *mut f32,
    dgamma: *mut f32,
    dbeta: *mut f32,
) -> i32 {
    use std::slice::{from_raw_parts, from_raw_parts_mut};
    // SAFETY: lengths, exclusiveness and lifetime (of this call) are what the caller vouches for.
    let (inputs, outputs) = unsafe {
        (
            BackwardInputs {
                dy: from_raw_parts(dy, rows * cols),
                x: from_raw_parts(x, rows * cols),
                mean: from_raw_parts(mean, rows),
                rstd: from_raw_parts(rstd, rows),
                gamma: from_raw_parts(gamma, cols),
            },
            BackwardOutputs {
                dx: from_raw_parts_mut(dx, rows * cols),
                dgamma: from_raw_parts_mut(dgamma, cols),
                dbeta: from_raw_parts_mut(dbeta, cols),
            },
        )
    };
    run(|| backward(Shape { rows, cols }, inputs, outputs, &BackwardOptions::default()).is_ok())
}

/// Runs the bandwidth probe: `way` is an index of [`Way::ALL`], `second` may be null.
///
/// # Safety
/// - `first`, `out` and, unless null, `second` point to `len` floats; `out` overlaps nothing, and nobody else uses it
///   meanwhile.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tribunal_probe(
    way: usize,
    len: usize,
    first: *const f32,
    second: *const f32,
    out: *mut f32,
) -> i32 {
    use std::slice::{from_raw_parts, from_raw_parts_mut};
    let Some(&way) = Way::ALL.get(way) else { return 1 };
    // SAFETY: lengths, exclusiveness and lifetime (of this call) are what the caller vouches for.
    let (first, second, out) = unsafe {
        (
            from_raw_parts(first, len),
            (!second.is_null()).then(|| from_raw_parts(second, len)),
            from_raw_parts_mut(out, len),
        )
    };
    run(|| {
        probe::run(way, first, second, out);
        true
    })
}
