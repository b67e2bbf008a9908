//! Softmax and top-k in one pass of blocks. A running maximum and sum are kept by block. A logit becomes a candidate if
//! it beats the k-th best known so far; when the candidates fill their buffer they are cut down to the best k.

mod contract;

use contract::*;

const BLOCK: usize = 1024;

struct Candidates {
    k: usize,
    held: Vec<(f32, i64)>,
    /// What a logit must be above to matter; nothing is known before k are held.
    threshold: Option<f32>,
}

impl Candidates {
    fn new(k: usize) -> Self {
        Self { k, held: Vec::with_capacity(2 * k + 2 * BLOCK), threshold: None }
    }

    fn clear(&mut self) {
        self.held.clear();
        self.threshold = None;
    }

    /// Takes in what matters of a block, whose first logit has index `base`.
    fn offer(&mut self, block: &[f32], base: usize) {
        if self.held.len() > self.held.capacity() - BLOCK {
            self.cut();
        }
        for (i, &x) in block.iter().enumerate() {
            if self.threshold.map_or(true, |threshold| x > threshold) {
                self.held.push((x, (base + i) as i64));
            }
        }
    }

    /// Keeps the best k, in no order.
    fn cut(&mut self) {
        self.held.select_nth_unstable_by(self.k - 1, |a, b| b.0.total_cmp(&a.0));
        self.held.truncate(self.k);
        self.threshold = Some(self.held[self.k - 1].0);
    }
}

/// Maximum and sum of exponentials of what has been seen.
struct Normaliser {
    max: f32,
    sum: f64,
}

impl Normaliser {
    fn add(&mut self, block: &[f32]) {
        let max = block.iter().copied().fold(self.max, f32::max);
        if max > self.max {
            self.sum *= f64::from(self.max - max).exp();
            self.max = max;
        }
        // While everything is masked the differences are not numbers, and there is nothing to add.
        let known = if max == f32::NEG_INFINITY { 0.0 } else { max };
        self.sum += block.iter().map(|x| f64::from((x - known).exp())).sum::<f64>();
    }
}

fn row(x: &[f32], candidates: &mut Candidates, probs: &mut [f32], indices: &mut [i64]) {
    let mut normaliser = Normaliser { max: f32::NEG_INFINITY, sum: 0.0 };
    candidates.clear();
    for (b, block) in x.chunks(BLOCK).enumerate() {
        normaliser.add(block);
        candidates.offer(block, b * BLOCK);
    }
    candidates.cut();
    candidates.held.sort_unstable_by(|a, b| b.0.total_cmp(&a.0));
    for (j, &(logit, index)) in candidates.held.iter().enumerate() {
        probs[j] = (f64::from((logit - normaliser.max).exp()) / normaliser.sum) as f32;
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
    let mut candidates = Candidates::new(k);
    let answers = probs
        .elements_mut::<f32>()
        .chunks_exact_mut(k)
        .zip(indices.elements_mut::<i64>().chunks_exact_mut(k));
    for (x, (probs, indices)) in logits.elements::<f32>().chunks_exact(vocab).zip(answers) {
        row(x, &mut candidates, probs, indices);
    }
    0
}
