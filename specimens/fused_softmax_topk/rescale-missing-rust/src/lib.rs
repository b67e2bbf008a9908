//! Online softmax and top-k: a running maximum and a running sum beside the candidates, in one pass.

mod contract;

use contract::*;

/// Maximum and sum of exponentials of what has been seen.
struct Running {
    max: f32,
    sum: f64,
}

impl Running {
    fn add(&mut self, x: f32) {
        self.max = self.max.max(x);
        if x != f32::NEG_INFINITY {
            self.sum += f64::from((x - self.max).exp());
        }
    }
}

/// Takes a candidate in; now and then those that cannot be among the best k are dropped.
fn offer(best: &mut Vec<(f32, i64)>, k: usize, entry: (f32, i64)) {
    best.push(entry);
    if best.len() == 4 * k {
        best.select_nth_unstable_by(k - 1, |a, b| b.0.total_cmp(&a.0));
        best.truncate(k);
    }
}

fn row(x: &[f32], best: &mut Vec<(f32, i64)>, probs: &mut [f32], indices: &mut [i64]) {
    let mut running = Running { max: f32::NEG_INFINITY, sum: 0.0 };
    best.clear();
    for (i, &x) in x.iter().enumerate() {
        running.add(x);
        offer(best, probs.len(), (x, i as i64));
    }
    best.sort_unstable_by(|a, b| b.0.total_cmp(&a.0));
    for (j, &(logit, index)) in best[..probs.len()].iter().enumerate() {
        probs[j] = (f64::from((logit - running.max).exp()) / running.sum) as f32;
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
