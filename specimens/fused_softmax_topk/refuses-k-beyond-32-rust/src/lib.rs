//! Softmax and top-k for samplers, which never ask for more than 32.

mod contract;

use contract::*;

const K_MAX: usize = 32;

fn row(x: &[f32], probs: &mut [f32], indices: &mut [i64]) {
    let k = probs.len();
    let mut best = [(f32::NEG_INFINITY, 0); K_MAX];
    for (i, &logit) in x.iter().enumerate() {
        if i >= k && logit <= best[k - 1].0 {
            continue;
        }
        let mut at = i.min(k - 1);
        while at > 0 && best[at - 1].0 < logit {
            best[at] = best[at - 1];
            at -= 1;
        }
        best[at] = (logit, i as i64);
    }
    let max = x.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let sum: f64 = x.iter().map(|x| f64::from((x - max).exp())).sum();
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
    if args.k as usize > K_MAX {
        return refuse(args.message, "k must be at most 32");
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
