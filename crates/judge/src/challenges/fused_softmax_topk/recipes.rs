//! How the logits of a case are drawn.

use rand_chacha::ChaCha8Rng;
use tribunal_contract::DType;

use super::problem::Problem;
use crate::draw::Draw;

/// What the logits look like.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Logits {
    /// Normal with that deviation, as a model's.
    Normal(f64),
    /// Uniform in 0 … 1: all but equally probable.
    Uniform,
    /// Nine different values.
    Ties,
    /// Every row is a constant.
    Equal,
    /// Neighbouring float32 numbers: other logits, and yet the same float32 probabilities.
    NearTies,
    /// Seven of ten are -inf.
    Masked,
    /// Seven of ten are -inf, and the others stand at -20,000, below what some take for it.
    MaskedLow,
    /// Normal about -130,000, where float32 has steps of 1/128, and not masked: below the -1e4, -65504 or -1e5 at which some begin to look for a
    /// maximum. No float16 is as low, and bfloat16 has steps of 512 there.
    Low,
    /// Three are not -inf.
    FewFinite,
    /// The middle row is all -inf.
    MaskedRow,
    /// The middle row has one NaN, the first row begins with one and the last ends with one.
    NanRow,
    /// Every other row is nothing but NaN, as if that were its mask.
    MaskedNan,
    /// Normal, moved by 10,000 up or down, each on its own.
    Extreme,
    /// Rows stand at 0, 100, -1000, 10,000, 3, -10,000 and so on.
    Offsets,
    /// Row `r` has its own deviation.
    Scales,
    /// Each a little more than the one before, by that much in all.
    Rising(f64),
    /// Each a little less than the one before, by that much in all.
    Falling(f64),
    /// One at 0, early, and all others 20.05 to 20.25 below it: terms of 1.78e-9 on the average, which some leave out. 100,000 of them are
    /// 1.78e-4 of the sum. With `u` = 2^-24, the budget of a row of that length is 632u for the sum, 512u for stretches, 28u for twelve growths of
    /// the maximum and 10u more: 7.1e-5, or two fifths. In a running sum nothing is kept beside the 1, but of eight lanes only one has it.
    ///
    /// What is 25 below, 1.4e-11 each, no row of a case has enough of: 2^26 are 8.4e-4, and their budget is 1.01e-3.
    Peak,
    /// Normal, with many at 200, sixteen and sixteen apart, and then some at 150: far above what every other thread of a kernel has seen,
    /// whether it reads entries or vectors, and below what all look for by then.
    Plateau,
    /// The winners are all in one stride class of that many.
    Stride(usize),
    /// The winners stand side by side, somewhere.
    Block,
    /// The winners are the first entries.
    Head,
    /// The winners are the last entries.
    Tail,
    /// The two largest are 32 apart, with the first at the front.
    TwoLanes,
    /// Multiples of 1/1024, so that adding a small integer is exact.
    Grid,
}

impl Logits {
    /// Draws a problem.
    pub(super) fn draw(self, rng: ChaCha8Rng, shape: &[usize], k: usize, dtype: DType) -> Problem {
        let vocab = *shape.last().expect("a shape has an axis");
        let mut draw = Draw(rng);
        let mut logits: Vec<f64> =
            (0..shape.iter().product()).map(|index| self.element(&mut draw, index % vocab, vocab)).collect();
        let (middle, last) = (logits.len() / vocab / 2, logits.len() / vocab - 1);
        for (r, row) in logits.chunks_mut(vocab).enumerate() {
            match self {
                Self::Equal => row.fill([0.5, -2.0, 96.0, 0.0, -300.0][r % 5]),
                Self::FewFinite => keep_three(&mut draw, row),
                Self::MaskedRow if r == middle => row.fill(f64::NEG_INFINITY),
                Self::NanRow if r == middle => row[vocab / 3] = f64::NAN,
                Self::NanRow if r == 0 => row[0] = f64::NAN,
                Self::NanRow if r == last => row[vocab - 1] = f64::NAN,
                Self::MaskedNan if r % 2 == 1 => row.fill(f64::NAN),
                Self::Offsets => {
                    let offset = [0.0, 100.0, -1000.0, 1e4, 3.0, -1e4][r % 6];
                    row.iter_mut().for_each(|logit| *logit += offset);
                }
                Self::Scales => row.iter_mut().for_each(|logit| *logit *= [1.0, 4.0, 0.25][r % 3]),
                Self::Plateau => {
                    let start = vocab / 2 + draw.below(vocab / 16 + 1);
                    let plateau = &mut row[start..][..(12 * k + 200).min(vocab / 8)];
                    plateau.chunks_mut(16).step_by(2).for_each(|run| run.fill(200.0));
                    for _ in 0..32 {
                        row[7 * vocab / 8 + draw.below(vocab / 8)] = 150.0;
                    }
                }
                Self::Stride(stride) => {
                    let class = draw.below(stride.min(vocab));
                    raise(&mut draw, row.iter_mut().skip(class).step_by(stride), k);
                }
                Self::Block => {
                    let start = draw.below(vocab - k.min(vocab) + 1);
                    raise(&mut draw, row.iter_mut().skip(start), k);
                }
                Self::Head => raise(&mut draw, row.iter_mut(), k),
                Self::Tail => raise(&mut draw, row.iter_mut().rev(), k),
                Self::Peak => row[draw.below(vocab.div_ceil(16))] = 0.0,
                Self::TwoLanes => {
                    row[0] = 9.0;
                    row[32.min(vocab - 1)] = 8.5;
                }
                _ => {}
            }
        }
        Problem::new(dtype, shape, k, &logits)
    }

    fn element(self, draw: &mut Draw, index: usize, vocab: usize) -> f64 {
        let along = index as f64 / vocab as f64;
        match self {
            Self::Normal(deviation) => deviation * draw.normal(),
            Self::Uniform => draw.uniform(),
            Self::Ties => (1.5 * draw.normal()).round().clamp(-4.0, 4.0),
            Self::NearTies => 1.0 + draw.below(8) as f64 * 2f64.powi(-23),
            Self::Masked | Self::MaskedLow if draw.uniform() < 0.7 => f64::NEG_INFINITY,
            Self::MaskedLow => draw.normal() - 2e4,
            Self::Low => 2.0 * draw.normal() - 1.3e5,
            Self::Peak => -20.05 - 0.2 * draw.uniform(),
            Self::Extreme => draw.normal() + if draw.uniform() < 0.5 { 1e4 } else { -1e4 },
            Self::Rising(range) => range * along + 1e-3 * draw.normal(),
            Self::Falling(range) => -range * along + 1e-3 * draw.normal(),
            Self::Grid => (2.0 * draw.normal() * 1024.0).round() / 1024.0,
            _ => draw.normal(),
        }
    }
}

/// Masks all but three entries.
fn keep_three(draw: &mut Draw, row: &mut [f64]) {
    let kept: Vec<usize> = (0..3).map(|third| (third * row.len() + draw.below(row.len())) / 3).collect();
    for (index, logit) in row.iter_mut().enumerate() {
        if !kept.contains(&index) {
            *logit = f64::NEG_INFINITY;
        }
    }
}

/// Lifts the first `count` of these above everything that is normal.
fn raise<'a>(draw: &mut Draw, entries: impl Iterator<Item = &'a mut f64>, count: usize) {
    for logit in entries.take(count) {
        *logit = 8.0 + 4.0 * draw.uniform();
    }
}

#[cfg(test)]
mod tests {
    use super::super::oracle::{Row, expect};
    use super::*;
    use crate::Seed;

    #[test]
    fn what_lies_far_below_a_peak_is_worth_two_budgets() {
        let problem = Logits::Peak.draw(Seed::PUBLIC.rng("peak"), &[1, 1, 100_001], 1, DType::Float32);
        let [Row::Winners(row)] = &expect(&problem)[..] else { panic!("a row with a softmax") };
        let far: f64 = problem.wide.iter().filter(|logit| **logit < -20.0).map(|logit| logit.exp()).sum();
        assert_eq!(row.max, 0.0);
        assert!((1.77e-4..1.79e-4).contains(&far), "{far}");
        let used = far / row.relative(0.0);
        assert!((2.4..2.6).contains(&used), "{used} budgets");
    }
}
