//! Softmax and top-k on quads. What does not fill a quad stands at the front, and the quads end where the row does.

mod contract;

use contract::*;

const WIDTH: usize = 4;

/// The quads of a row, and the index of their first logit.
fn quads(x: &[f32]) -> (usize, std::slice::ChunksExact<'_, f32>) {
    let head = x.len() % WIDTH;
    (head, x[head..].chunks_exact(WIDTH))
}

fn row(x: &[f32], best: &mut Vec<(f32, i64)>, probs: &mut [f32], indices: &mut [i64]) {
    let k = probs.len();
    let (head, quads) = quads(x);
    let mut lanes = [f32::NEG_INFINITY; WIDTH];
    for quad in quads.clone() {
        for (lane, x) in lanes.iter_mut().zip(quad) {
            *lane = lane.max(*x);
        }
    }
    let max = lanes.into_iter().fold(f32::NEG_INFINITY, f32::max);
    let mut sums = [0.0; WIDTH];
    best.clear();
    for (q, quad) in quads.enumerate() {
        for (lane, x) in quad.iter().enumerate() {
            sums[lane] += f64::from((x - max).exp());
            best.push((*x, (head + q * WIDTH + lane) as i64));
        }
        if best.len() >= 4 * (k + WIDTH) {
            best.select_nth_unstable_by(k - 1, |a, b| b.0.total_cmp(&a.0));
            best.truncate(k);
        }
    }
    best.sort_unstable_by(|a, b| b.0.total_cmp(&a.0));
    best.resize(best.len().max(k), (f32::NEG_INFINITY, 0));
    let sum: f64 = sums.iter().sum();
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
    let mut best = Vec::with_capacity(4 * (k + WIDTH));
    let answers = probs
        .elements_mut::<f32>()
        .chunks_exact_mut(k)
        .zip(indices.elements_mut::<i64>().chunks_exact_mut(k));
    for (x, (probs, indices)) in logits.elements::<f32>().chunks_exact(vocab).zip(answers) {
        row(x, &mut best, probs, indices);
    }
    0
}
