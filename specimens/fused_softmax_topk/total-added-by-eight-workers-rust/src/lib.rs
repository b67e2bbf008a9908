//! Softmax and top-k with eight workers a row. Each sums the exponentials of its share; an all-reduce gives the total
//! to every worker, and the workers' answers make the denominator.

mod contract;

use contract::*;

const WORKERS: usize = 8;

/// What each worker has after all values were exchanged: their sum.
fn all_reduce(values: [f64; WORKERS]) -> [f64; WORKERS] {
    [values.iter().sum(); WORKERS]
}

fn denominator(x: &[f32], max: f32) -> f64 {
    let mut sums = [0.0; WORKERS];
    for share in x.chunks(WORKERS) {
        for (sum, x) in sums.iter_mut().zip(share) {
            *sum += f64::from((x - max).exp());
        }
    }
    all_reduce(sums).iter().sum()
}

fn row(x: &[f32], order: &mut Vec<u32>, probs: &mut [f32], indices: &mut [i64]) {
    let k = probs.len();
    let falling = |a: &u32, b: &u32| x[*b as usize].total_cmp(&x[*a as usize]);
    order.clear();
    for i in 0..x.len() as u32 {
        order.push(i);
        if order.len() == 4 * k {
            order.select_nth_unstable_by(k - 1, falling);
            order.truncate(k);
        }
    }
    order.sort_unstable_by(falling);
    let max = x.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let sum = denominator(x, max);
    for (j, &index) in order[..k].iter().enumerate() {
        probs[j] = (f64::from((x[index as usize] - max).exp()) / sum) as f32;
        indices[j] = i64::from(index);
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
    let mut order = Vec::with_capacity(4 * k);
    let answers = probs
        .elements_mut::<f32>()
        .chunks_exact_mut(k)
        .zip(indices.elements_mut::<i64>().chunks_exact_mut(k));
    for (x, (probs, indices)) in logits.elements::<f32>().chunks_exact(vocab).zip(answers) {
        row(x, &mut order, probs, indices);
    }
    0
}
