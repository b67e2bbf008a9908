//! Denominators in a working precision, in one of several honest ways or with one of many defects.

use tribunal_contract::{DType, Tensor};

use super::{Defect, Denominator, Shift, Topk};
use crate::arithmetic::Real;

/// A sum of exponentials relative to a maximum.
#[derive(Debug, Clone, Copy)]
pub(super) struct Running<T> {
    pub(super) max: T,
    pub(super) sum: T,
}

impl<T: Real> Running<T> {
    fn empty() -> Self {
        Self { max: T::of(f64::NEG_INFINITY), sum: T::of(0.0) }
    }

    fn entry(logit: f32) -> Self {
        Self { max: T::of(f64::from(logit)), sum: T::of(1.0) }
    }

    /// Relative to the maximum of these logits.
    fn of(logits: impl Iterator<Item = f32> + Clone) -> Self {
        let max = T::of(f64::from(logits.clone().fold(f32::NEG_INFINITY, f32::max)));
        if max == Self::empty().max {
            return Self::empty();
        }
        let sum = logits.fold(T::of(0.0), |sum, logit| sum + (T::of(f64::from(logit)) - max).exp());
        Self { max, sum }
    }

    /// Both together. `factor` brings the sum to a maximum that has grown, from how much it has.
    fn plus(self, other: Self, factor: impl Fn(T) -> T) -> Self {
        let nothing = Self::empty().max;
        if other.max == nothing {
            self
        } else if self.max == nothing {
            other
        } else if other.max <= self.max {
            Self { sum: self.sum + other.sum * (other.max - self.max).exp(), ..self }
        } else {
            Self { max: other.max, sum: self.sum * factor(other.max - self.max) + other.sum }
        }
    }
}

/// What brings a sum to a maximum that has grown by so much.
fn factor<T: Real>(defect: Option<Defect>, inverted: Defect, missing: Defect) -> impl Fn(T) -> T {
    move |growth| match defect {
        Some(defect) if defect == inverted => growth.exp(),
        Some(defect) if defect == missing => T::of(1.0),
        _ => (T::of(0.0) - growth).exp(),
    }
}

impl Topk {
    /// The sum over some logits. A maximum that is given is not searched for.
    pub(super) fn sum<T: Real>(&self, logits: &[f32], max: Option<f32>) -> Running<T> {
        let along = factor(self.defect, Defect::Inverted, Defect::Missing);
        let across = factor(self.defect, Defect::MergeInverted, Defect::MergeMissing);
        let all = || logits.iter().copied();
        let lane = |workers: usize| move |lane| logits.iter().copied().skip(lane).step_by(workers);
        let online = |logits: &mut dyn Iterator<Item = f32>| {
            logits.fold(Running::empty(), |sum, logit| sum.plus(Running::entry(logit), &along))
        };
        let merged = |sums: &mut dyn Iterator<Item = Running<T>>| {
            sums.fold(Running::empty(), |sum, other| sum.plus(other, &across))
        };
        match self.denominator {
            Denominator::OnlineLanes(workers) if self.has(Defect::MaximumOfCandidates) => {
                merged(&mut maximum_of_candidates(logits, workers).into_iter())
            }
            Denominator::TwoPasses(sum) => {
                let max = T::of(f64::from(max.unwrap_or_else(|| all().fold(f32::NEG_INFINITY, f32::max))));
                let sum = if self.has(Defect::HalfSum) {
                    all().fold(T::of(0.0), |sum, logit| half(sum + self.exp(logit, max)))
                } else {
                    sum.terms(logits.len(), |index| self.term(logits[index], max))
                };
                Running { max, sum }
            }
            Denominator::Online => online(&mut all()),
            Denominator::OnlineStretches(count) => {
                merged(&mut logits.chunks(count).map(|own| online(&mut own.iter().copied())))
            }
            Denominator::OnlineFromRight(count) => {
                merged(&mut logits.rchunks(count).map(|own| online(&mut own.iter().rev().copied())))
            }
            Denominator::OnlineBlocks(entries) => logits
                .chunks(entries)
                .fold(Running::empty(), |sum, block| sum.plus(Running::of(block.iter().copied()), &along)),
            Denominator::OnlineLanes(workers) => {
                merged(&mut (0..workers).map(lane(workers)).map(|mut logits| online(&mut logits)))
            }
            Denominator::Merged(workers) => merged(&mut (0..workers).map(lane(workers)).map(Running::of)),
            Denominator::MergedByHalves(workers) => {
                let mut sums: Vec<Running<T>> = (0..workers).map(lane(workers)).map(Running::of).collect();
                while sums.len() > 1 {
                    let (low, high) = sums.split_at(sums.len() / 2);
                    sums = low.iter().zip(high).map(|(low, high)| low.plus(*high, &across)).collect();
                }
                sums[0]
            }
        }
    }

    /// What a logit adds to the sum.
    fn term<T: Real>(&self, logit: f32, max: T) -> T {
        match self.defect {
            Some(Defect::TermsBelow(least)) if max.wide() - f64::from(logit) > f64::from(least) => T::of(0.0),
            _ => self.exp(logit, max),
        }
    }

    /// exp(logit - max).
    pub(super) fn exp<T: Real>(&self, logit: f32, max: T) -> T {
        let exponent = T::of(f64::from(logit)) - max;
        let exponent = exponent * T::of(1.0 + self.shift(Shift::Scale));
        if self.has(Defect::HalfExp) { half(half(exponent).exp()) } else { self.exp.of(exponent) }
    }

    /// The probability of a logit of a row with that sum.
    pub(super) fn prob<T: Real>(&self, logit: f32, sum: Running<T>) -> f32 {
        let Running { max, sum } = sum;
        let wide = T::of(f64::from(logit));
        let lse = max + sum.ln();
        let prob = match self.defect {
            Some(Defect::LogitsReturned) => wide,
            Some(Defect::LogProbabilities) => wide - lse,
            Some(Defect::HalfProbs) => half(self.exp(logit, max) / sum),
            _ if self.by_lse => (wide - lse).exp(),
            _ => self.exp.quotient(self.exp(logit, max), sum),
        };
        let prob = (prob * T::of(1.0 + self.shift(Shift::Factor))).wide() as f32;
        if self.flushes && prob < f32::MIN_POSITIVE { 0.0 } else { prob }
    }
}

/// Running sums of workers that look for a new maximum only where an entry is above all that any of them had seen some entries ago.
fn maximum_of_candidates<T: Real>(logits: &[f32], workers: usize) -> Vec<Running<T>> {
    let mut sums = vec![Running::empty(); workers];
    let mut seen = f32::NEG_INFINITY;
    for stretch in logits.chunks(8 * workers) {
        for (place, &logit) in stretch.iter().enumerate() {
            let (sum, entry) = (&mut sums[place % workers], Running::entry(logit));
            let looks = logit > seen || sum.max == Running::<T>::empty().max;
            *sum = match looks {
                true => sum.plus(entry, |growth: T| (T::of(0.0) - growth).exp()),
                false => Running { sum: sum.sum + (entry.max - sum.max).exp(), ..*sum },
            };
        }
        seen = stretch.iter().copied().fold(seen, f32::max);
    }
    sums
}

/// Rounded to float16.
fn half<T: Real>(value: T) -> T {
    T::of(Tensor::from_f64(DType::Float16, [1], &[value.wide()]).get(0))
}
