//! Softmax and top-k for a sampler: one pass for the maximum and the candidates, exponentials at the end.

mod contract;

use contract::*;

fn keep(best: &mut Vec<(f32, i64)>, k: usize) {
    if best.len() > k {
        best.select_nth_unstable_by(k - 1, |a, b| b.0.total_cmp(&a.0));
        best.truncate(k);
    }
}

fn row(x: &[f32], best: &mut Vec<(f32, i64)>, probs: &mut [f32], indices: &mut [i64]) {
    let k = probs.len();
    best.clear();
    for (b, block) in x.chunks(k.max(256)).enumerate() {
        best.extend(block.iter().enumerate().map(|(i, &x)| (x, (b * k.max(256) + i) as i64)));
        keep(best, k);
    }
    best.sort_unstable_by(|a, b| b.0.total_cmp(&a.0));
    let max = x.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let sum: f64 = x.iter().map(|x| f64::from((x - max).exp())).sum();
    let mut mass = 0.0f64;
    for (j, &(logit, index)) in best.iter().enumerate() {
        probs[j] = (f64::from((logit - max).exp()) / sum) as f32;
        indices[j] = index;
        mass += f64::from(probs[j]);
    }
    for prob in probs {
        *prob = (f64::from(*prob) / mass) as f32;
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
    let mut best = Vec::with_capacity(2 * k + 256);
    let answers = probs
        .elements_mut::<f32>()
        .chunks_exact_mut(k)
        .zip(indices.elements_mut::<i64>().chunks_exact_mut(k));
    for (x, (probs, indices)) in logits.elements::<f32>().chunks_exact(vocab).zip(answers) {
        row(x, &mut best, probs, indices);
    }
    0
}
