//! Softmax and top-k with the winners in a fixed array, which stays in registers and in the first cache.

mod contract;

use contract::*;

const SLOTS: usize = 32;

#[derive(Clone, Copy)]
struct Entry {
    logit: f32,
    index: i64,
}

/// The best of a row in descending order.
fn best_of(x: &[f32], k: usize) -> [Entry; SLOTS] {
    let held = k.min(SLOTS);
    let mut best = [Entry { logit: f32::NEG_INFINITY, index: 0 }; SLOTS];
    for (i, &logit) in x.iter().enumerate() {
        if i >= held && logit <= best[held - 1].logit {
            continue;
        }
        let mut at = i.min(held - 1);
        while at > 0 && best[at - 1].logit < logit {
            best[at] = best[at - 1];
            at -= 1;
        }
        best[at] = Entry { logit, index: i as i64 };
    }
    best
}

fn row(x: &[f32], probs: &mut [f32], indices: &mut [i64]) {
    let best = best_of(x, probs.len());
    let max = x.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let sum: f64 = x.iter().map(|x| f64::from((x - max).exp())).sum();
    probs.fill(0.0);
    indices.fill(0);
    for (entry, (prob, index)) in best.iter().zip(probs.iter_mut().zip(indices)) {
        *prob = (f64::from((entry.logit - max).exp()) / sum) as f32;
        *index = entry.index;
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
