//! The C ABI of the probe that reads, for `benches/peers/`.

#[path = "../../benches/support/exp_probe.rs"]
mod probe;

use super::ffi::run;
use probe::Way;

/// Reads `len` floats and sums them up, or their exponentials if `exp` is not 0, into `sum`.
///
/// # Safety
/// - `x` points to `len` floats, `sum` to one, and nobody else uses that meanwhile.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tribunal_read_probe(exp: usize, len: usize, x: *const f32, sum: *mut f32) -> i32 {
    // SAFETY: lengths, exclusiveness and lifetime (of this call) are what the caller vouches for.
    let (x, sum) = unsafe { (std::slice::from_raw_parts(x, len), &mut *sum) };
    run(|| {
        *sum = probe::run(if exp == 0 { Way::READ } else { Way::EXP }, x);
        true
    })
}
