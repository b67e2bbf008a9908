//! Softmax and top-k by radix selection. The bits of a logit, turned so that they sort as logits do, are counted eight
//! at a time until the k-th largest is known; what lies above it is collected, with as many equals as there is room
//! for.

mod contract;

use contract::*;

/// An integer that orders as the logit does.
fn key(x: f32) -> u32 {
    let bits = x.to_bits();
    if bits >> 31 == 1 {
        !bits
    } else {
        bits | 1 << 31
    }
}

/// The k-th largest key, and how many of the k best are equal to it.
fn select(x: &[f32], k: usize) -> (u32, usize) {
    let (mut prefix, mut wanted) = (0, k);
    for shift in [24, 16, 8, 0] {
        let mut counts = [0; 256];
        for key in x.iter().map(|&x| key(x)) {
            if u64::from(key) >> (shift + 8) == u64::from(prefix) {
                counts[(key >> shift & 255) as usize] += 1;
            }
        }
        let mut digit = 255;
        while counts[digit] < wanted {
            wanted -= counts[digit];
            digit -= 1;
        }
        prefix = prefix << 8 | digit as u32;
    }
    (prefix, wanted)
}

fn row(x: &[f32], best: &mut Vec<(f32, usize)>, probs: &mut [f32], indices: &mut [i64]) {
    let (least, mut equals) = select(x, probs.len());
    best.clear();
    for (i, &x) in x.iter().enumerate() {
        if key(x) > least {
            best.push((x, i));
        } else if key(x) == least && equals > 0 {
            best.push((x, i));
            equals -= 1;
        }
    }
    best.sort_unstable_by(|a, b| b.0.total_cmp(&a.0));
    let max = x.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let sum: f64 = x.iter().map(|x| f64::from((x - max).exp())).sum();
    for (j, &(logit, index)) in best.iter().enumerate() {
        probs[j] = (f64::from((logit - max).exp()) / sum) as f32;
        indices[j] = index as i64;
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
    let mut best = Vec::with_capacity(k);
    let answers = probs
        .elements_mut::<f32>()
        .chunks_exact_mut(k)
        .zip(indices.elements_mut::<i64>().chunks_exact_mut(k));
    for (x, (probs, indices)) in logits.elements::<f32>().chunks_exact(vocab).zip(answers) {
        row(x, &mut best, probs, indices);
    }
    0
}
