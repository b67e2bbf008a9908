//! What kernels must compute, by the definition, in f64; and numbers to compute with.

/// Numbers that look random, and are the same everywhere: SplitMix64.
pub struct Numbers(u64);

impl Numbers {
    pub fn new(seed: u64) -> Numbers {
        Numbers(seed)
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Below `end`.
    pub fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }

    /// From 0 to 1.
    pub fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// About normal: twelve uniform ones.
    pub fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.unit()).sum::<f64>() - 6.0
    }

    pub fn normals(&mut self, count: usize, mean: f64, deviation: f64) -> Vec<f64> {
        (0..count).map(|_| mean + deviation * self.normal()).collect()
    }
}

/// The sum, as if f64 had twice its digits: what it is compared with may be f64 too.
pub fn sum(terms: impl IntoIterator<Item = f64>) -> f64 {
    let (mut sum, mut rest) = (0.0f64, 0.0f64);
    for term in terms {
        let next = sum + term;
        rest += if sum.abs() >= term.abs() { (sum - next) + term } else { (term - next) + sum };
        sum = next;
    }
    sum + rest
}

/// Layer normalisation of a row, and what errors are measured by.
pub struct Normalised {
    pub mean: f64,
    pub rstd: f64,
    pub xhat: Vec<f64>,
}

pub fn normalise(x: &[f64], eps: f64) -> Normalised {
    let count = x.len() as f64;
    let mean = sum(x.iter().copied()) / count;
    let variance = sum(x.iter().map(|x| (x - mean) * (x - mean))) / count;
    let rstd = 1.0 / (variance + eps).sqrt();
    Normalised { mean, rstd, xhat: x.iter().map(|x| (x - mean) * rstd).collect() }
}

/// Probabilities of a row and the order of its entries, the most probable first.
pub struct Ranked {
    pub maximum: f64,
    /// The sum of exponentials, less the maximum: their logarithm would lose it where that is large. NaN for a row that has no softmax.
    pub sum: f64,
    pub order: Vec<usize>,
}

pub fn rank(logits: &[f64]) -> Ranked {
    let maximum = logits.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let sum = sum(logits.iter().map(|x| (x - maximum).exp()));
    let mut order: Vec<usize> = (0..logits.len()).collect();
    // NaN stands last: `f64::max` gives the other. Stable: among equals, 0 and -0 too, the smaller index stays first.
    let value = |i: usize| logits[i].max(f64::NEG_INFINITY);
    order.sort_by(|&a, &b| value(b).partial_cmp(&value(a)).expect("no NaN is left"));
    Ranked { maximum, sum, order }
}

/// Attention of one query over keys and values by tokens, and for each column the sum of `p |v|`.
pub fn attend(q: &[f64], keys: &[Vec<f64>], values: &[Vec<f64>]) -> (Vec<f64>, Vec<f64>) {
    let scale = 1.0 / (q.len() as f64).sqrt();
    let scores: Vec<f64> = keys.iter().map(|k| scale * sum(q.iter().zip(k).map(|(q, k)| q * k))).collect();
    let maximum = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let weights: Vec<f64> = scores.iter().map(|s| (s - maximum).exp()).collect();
    let all = sum(weights.iter().copied());
    let column = |d: usize, of: fn(f64) -> f64| match keys.is_empty() {
        true => 0.0,
        false => sum(weights.iter().zip(values).map(|(p, v)| p * of(v[d]))) / all,
    };
    let out = (0..q.len()).map(|d| column(d, |v| v)).collect();
    let size = (0..q.len()).map(|d| column(d, f64::abs)).collect();
    (out, size)
}

mod tests {
    use super::*;

    #[test]
    fn a_row_by_hand() {
        // Mean 2, variance 2, eps 2: rstd is 1/2.
        let Normalised { mean, rstd, xhat } = normalise(&[0.0, 2.0, 2.0, 4.0], 2.0);
        assert_eq!((mean, rstd, xhat), (2.0, 0.5, vec![-1.0, 0.0, 0.0, 1.0]));
    }

    #[test]
    fn ranks_by_hand() {
        let Ranked { maximum, sum, order } = rank(&[0.0, 2f64.ln(), f64::NEG_INFINITY, 0.0]);
        assert!((sum - 2.0).abs() < 1e-15 && maximum == 2f64.ln());
        assert_eq!(order, [1, 0, 3, 2]);
    }

    #[test]
    fn attention_by_hand() {
        // Scores 0 and ln 3: weights 1/4 and 3/4.
        let keys = [vec![0.0; 4], vec![2.0 * 3f64.ln(), 0.0, 0.0, 0.0]];
        let values = [vec![4.0, 0.0, 0.0, -4.0], vec![0.0, 4.0, 0.0, 0.0]];
        let (out, size) = attend(&[1.0, 0.0, 0.0, 0.0], &keys, &values);
        let near = |a: &[f64], b: &[f64]| a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-15);
        assert!(near(&out, &[1.0, 3.0, 0.0, -1.0]) && near(&size, &[1.0, 3.0, 0.0, 1.0]));
    }

    #[test]
    fn sums_keep_what_is_small() {
        assert_eq!(sum([1.0, 1e100, 1.0, -1e100]), 2.0);
    }
}
