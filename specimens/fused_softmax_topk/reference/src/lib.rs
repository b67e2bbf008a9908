//! `tribunal-kernels` behind the C contract of the challenge `fused_softmax_topk`.

mod contract;

use contract::*;
use tribunal_kernels::softmax_topk::{Logit, Options, Outputs, Shape, softmax_topk};
use tribunal_kernels::{bf16, f16};

/// # Safety
/// `args` is a record as the contract describes it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tribunal_softmax_topk(args: *mut SoftmaxTopkArgs) -> i32 {
    // SAFETY: the caller keeps the contract: the record and its tensors are valid for the call.
    unsafe {
        let args = &mut *args;
        let result = match ((*args.logits).dtype_code, (*args.logits).dtype_bits) {
            (2, 32) => run::<f32>(args),
            (2, 16) => run::<f16>(args),
            (4, 16) => run::<bf16>(args),
            (code, bits) => Err(format!("no softmax for DLPack type code {code} of {bits} bits")),
        };
        match result {
            Ok(()) => 0,
            Err(why) => refuse(args.message, &why),
        }
    }
}

/// # Safety
/// The tensors of `args` are valid, and `T` is the type of `logits`.
unsafe fn run<T: Logit>(args: &mut SoftmaxTopkArgs) -> Result<(), String> {
    // SAFETY: the caller's promise.
    let (logits, probs, indices) = unsafe {
        (
            (*args.logits).elements::<T>(),
            (*args.probs).elements_mut::<f32>(),
            (*args.indices).elements_mut::<i64>(),
        )
    };
    // SAFETY: the caller's promise.
    let [leading @ .., vocab] = (unsafe { (*args.logits).shape() }) else {
        return Err("logits must have two axes or more".to_owned());
    };
    let shape = Shape { rows: leading.iter().product::<i64>() as usize, vocab: *vocab as usize };
    let k = usize::try_from(args.k).map_err(|_| format!("k must be positive, got {}", args.k))?;
    let mut named = vec![0u32; indices.len()];
    let outputs = Outputs { probs, indices: &mut named, lse: None };
    softmax_topk(shape, k, logits, outputs, &Options::default()).map_err(|error| error.to_string())?;
    for (index, named) in indices.iter_mut().zip(named) {
        *index = i64::from(named);
    }
    Ok(())
}
