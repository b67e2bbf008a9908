//! Softmax and top-k in one pass: only logits above a threshold are looked at closely, and only terms above zero count.

mod contract;

use contract::*;

fn row(x: &[f32], best: &mut Vec<(f32, i64)>, probs: &mut [f32], indices: &mut [i64]) {
    let k = probs.len();
    best.clear();
    for (i, &x) in x.iter().enumerate() {
        best.push((x.max(f32::NEG_INFINITY), i as i64));
        if best.len() == 4 * k {
            best.select_nth_unstable_by(k - 1, |a, b| b.0.total_cmp(&a.0));
            best.truncate(k);
        }
    }
    best.sort_unstable_by(|a, b| b.0.total_cmp(&a.0));
    let max = best[0].0;
    let sum: f64 = x.iter().map(|x| f64::from((x - max).exp())).filter(|&term| term > 0.0).sum();
    for (j, &(logit, index)) in best[..k].iter().enumerate() {
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
    let mut best = Vec::with_capacity(4 * k);
    let answers = probs
        .elements_mut::<f32>()
        .chunks_exact_mut(k)
        .zip(indices.elements_mut::<i64>().chunks_exact_mut(k));
    for (x, (probs, indices)) in logits.elements::<f32>().chunks_exact(vocab).zip(answers) {
        row(x, &mut best, probs, indices);
    }
    0
}
