//! Softmax and top-k with two threads, each of which answers one half of the rows.

mod contract;

use contract::*;

fn row(x: &[f32], order: &mut Vec<(f32, i64)>, probs: &mut [f32], indices: &mut [i64]) {
    let k = probs.len();
    order.clear();
    let (mut max, mut sum) = (f32::NEG_INFINITY, 0.0f64);
    for (i, &x) in x.iter().enumerate() {
        max = max.max(x);
        order.push((x, i as i64));
        if order.len() == 4 * k {
            order.select_nth_unstable_by(k - 1, |a, b| b.0.total_cmp(&a.0));
            order.truncate(k);
        }
    }
    order.sort_unstable_by(|a, b| b.0.total_cmp(&a.0));
    for x in x {
        sum += f64::from((x - max).exp());
    }
    for (j, &(logit, index)) in order[..k].iter().enumerate() {
        probs[j] = (f64::from((logit - max).exp()) / sum) as f32;
        indices[j] = index;
    }
}

fn rows(x: &[f32], vocab: usize, k: usize, probs: &mut [f32], indices: &mut [i64]) {
    let mut order = Vec::with_capacity(4 * k);
    let answers = probs.chunks_exact_mut(k).zip(indices.chunks_exact_mut(k));
    for (x, (probs, indices)) in x.chunks_exact(vocab).zip(answers) {
        row(x, &mut order, probs, indices);
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
    let half = logits.count() / vocab / 2;
    let (probs, indices) = (&mut *args.probs, &mut *args.indices);
    let (upper, lower) = logits.elements::<f32>().split_at(half * vocab);
    let (upper_probs, lower_probs) = probs.elements_mut::<f32>().split_at_mut(half * k);
    let (upper_indices, lower_indices) = indices.elements_mut::<i64>().split_at_mut(half * k);
    std::thread::scope(|scope| {
        scope.spawn(|| rows(upper, vocab, k, upper_probs, upper_indices));
        rows(lower, vocab, k, lower_probs, lower_indices);
    });
    0
}
