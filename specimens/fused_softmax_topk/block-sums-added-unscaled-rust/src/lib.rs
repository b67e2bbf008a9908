//! Softmax and top-k in one pass of blocks. Each block has a maximum and a sum of its own; blocks are put together
//! at the end, when the maximum of the row is known.

mod contract;

use contract::*;

const BLOCK: usize = 512;

fn row(
    x: &[f32],
    blocks: &mut Vec<(f32, f64)>,
    best: &mut Vec<(f32, i64)>,
    probs: &mut [f32],
    indices: &mut [i64],
) {
    let k = probs.len();
    blocks.clear();
    best.clear();
    for (b, block) in x.chunks(BLOCK).enumerate() {
        let max = block.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let level = if max == f32::NEG_INFINITY { 0.0 } else { max };
        blocks.push((max, block.iter().map(|x| f64::from((x - level).exp())).sum()));
        best.extend(block.iter().enumerate().map(|(i, &x)| (x, (b * BLOCK + i) as i64)));
        if best.len() > 4 * (k + BLOCK) {
            best.select_nth_unstable_by(k - 1, |a, b| b.0.total_cmp(&a.0));
            best.truncate(k);
        }
    }
    best.sort_unstable_by(|a, b| b.0.total_cmp(&a.0));
    let max = blocks.iter().map(|block| block.0).fold(f32::NEG_INFINITY, f32::max);
    let sum: f64 = blocks.iter().map(|block| block.1).sum();
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
    let mut blocks = Vec::with_capacity(vocab.div_ceil(BLOCK));
    let mut best = Vec::with_capacity(4 * k + 5 * BLOCK);
    let answers = probs
        .elements_mut::<f32>()
        .chunks_exact_mut(k)
        .zip(indices.elements_mut::<i64>().chunks_exact_mut(k));
    for (x, (probs, indices)) in logits.elements::<f32>().chunks_exact(vocab).zip(answers) {
        row(x, &mut blocks, &mut best, probs, indices);
    }
    0
}
