//! Softmax and top-k. A row of nothing but -inf is answered as its limit from equal logits: 1 / V for each entry.

mod contract;

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use contract::*;

/// An entry that compares greater the less its logit is, as a heap of the best needs it.
struct Entry {
    logit: f32,
    index: usize,
}

impl Ord for Entry {
    fn cmp(&self, other: &Self) -> Ordering {
        other.logit.total_cmp(&self.logit)
    }
}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Entry {}

fn row(x: &[f32], probs: &mut [f32], indices: &mut [i64]) {
    let k = probs.len();
    let mut best = BinaryHeap::with_capacity(k + 1);
    for (index, &logit) in x.iter().enumerate() {
        best.push(Entry { logit, index });
        if best.len() > k {
            best.pop();
        }
    }
    let masked = x.iter().all(|&x| x == f32::NEG_INFINITY);
    let max = x.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let share = |logit: f32| if masked { 1.0 } else { f64::from((logit - max).exp()) };
    let sum: f64 = x.iter().map(|&x| share(x)).sum();
    for (j, entry) in best.into_sorted_vec().into_iter().enumerate() {
        probs[j] = (share(entry.logit) / sum) as f32;
        indices[j] = entry.index as i64;
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
