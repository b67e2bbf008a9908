//! Softmax and top-k on integers: a logit, as an integer that orders alike, and its index are packed into one u64, so
//! the k best are the k largest numbers. `BinaryHeap` keeps them.

mod contract;

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use contract::*;

fn pack(x: f32, index: usize) -> u64 {
    let bits = x.to_bits();
    let order = if bits >> 31 == 1 { !bits } else { bits | 1 << 31 };
    u64::from(order) << 32 | index as u64
}

/// The logit and the index.
fn unpack(packed: u64) -> (f32, i64) {
    let order = (packed >> 32) as u32;
    let bits = if order >> 31 == 1 { order & !(1 << 31) } else { !order };
    (f32::from_bits(bits), i64::from(packed as u32))
}

fn row(x: &[f32], probs: &mut [f32], indices: &mut [i64]) {
    let k = probs.len();
    let mut best: BinaryHeap<_> = x[..k].iter().enumerate().map(|(i, &x)| Reverse(pack(x, i))).collect();
    for (i, &x) in x.iter().enumerate().skip(k) {
        let packed = pack(x, i);
        if let Some(mut least) = best.peek_mut() {
            if packed > least.0 {
                *least = Reverse(packed);
            }
        }
    }
    let max = x.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let sum: f64 = x.iter().map(|x| f64::from((x - max).exp())).sum();
    for (j, Reverse(packed)) in best.into_sorted_vec().into_iter().enumerate() {
        let (logit, index) = unpack(packed);
        probs[j] = (f64::from((logit - max).exp()) / sum) as f32;
        indices[j] = index;
    }
}

#[no_mangle]
pub unsafe extern "C" fn tribunal_softmax_topk(args: *mut SoftmaxTopkArgs) -> i32 {
    let args = &mut *args;
    let logits = &*args.logits;
    let vocab = logits.shape()[2] as usize;
    if !logits.is_float::<f32>() {
        return refuse(args.message, "float32 only");
    }
    if args.k < 1 || args.k as usize > vocab {
        return refuse(args.message, "k must be between 1 and V");
    }
    let k = args.k as usize;
    let (probs, indices) = (&mut *args.probs, &mut *args.indices);
    let answers = probs
        .elements_mut::<f32>()
        .chunks_exact_mut(k)
        .zip(indices.elements_mut::<i64>().chunks_exact_mut(k));
    for (x, (probs, indices)) in logits.elements::<f32>().chunks_exact(vocab).zip(answers) {
        row(x, probs, indices);
    }
    0
}
