//! Attention over a cache, one query at a time.

use super::cache::Cache;
use super::{Defect, Shift, Softmax, Style};
use crate::arithmetic::Real;

/// One query of one head.
pub(super) struct Query<'a> {
    pub(super) q: &'a [f32],
    pub(super) layer: usize,
    pub(super) sequence: usize,
    pub(super) head: usize,
    /// Its number among the queries of the call, and how many its sequence has in it.
    pub(super) index: usize,
    pub(super) count: usize,
}

/// Keys of a part, where parts are put together.
const PART: usize = 256;

/// Keys of a tile, where weights of one are brought to the maximum of the next.
const TILE: usize = 32;

/// The largest code of so many bits with a sign.
fn half(bits: usize) -> f32 {
    (1 << (bits - 1)) as f32 - 1.0
}

impl Query<'_> {
    pub(super) fn answer<R: Real>(&self, cache: &Cache, style: Style, defect: Option<Defect>) -> Vec<f32> {
        let layer = if defect == Some(Defect::OneLayer) { 0 } else { self.layer };
        let sequence = if defect == Some(Defect::FirstSequence) { 0 } else { self.sequence };
        let length = cache.lengths[layer][sequence];
        let position = match defect {
            Some(Defect::PositionsOfNewestAppend) => {
                (cache.newest[self.layer][self.sequence] + self.index).min(length.saturating_sub(1))
            }
            _ => (length + self.index).saturating_sub(self.count),
        };
        let longest = cache.lengths[layer].iter().max().copied().unwrap_or(0);
        let (from, to) = match defect {
            Some(Defect::RelativeMask) => (0, (self.index + 1).min(length)),
            Some(Defect::NoMask | Defect::AddedMask | Defect::MaskedAt(_)) => (0, length),
            Some(Defect::OneBehind) => (0, position.max(1).min(length)),
            Some(Defect::OneAhead) => (0, (position + 2).min(length)),
            Some(Defect::PaddingSeen) => (0, position + 1 + longest - length),
            Some(Defect::TailSeen) if position + 1 == length => {
                let size = if cache.size == cache.max_len { 8 } else { cache.size };
                (0, length.next_multiple_of(size))
            }
            Some(Defect::Oldest(most)) => (0, (position + 1).min(most)),
            Some(Defect::OldestInPrompts(most)) if self.count > 1 => (0, (position + 1).min(most)),
            Some(Defect::Recent(window)) => ((position + 1).saturating_sub(window), position + 1),
            _ => (0, (position + 1).min(length)),
        };
        let head = match defect {
            Some(Defect::HeadsInterleaved) => self.head % cache.kv_heads,
            Some(Defect::FirstHead) => 0,
            _ => self.head / (cache.heads / cache.kv_heads),
        };
        let dim = cache.dim;
        let zeros = vec![0.0; dim];
        let seen: Vec<(&[f32], &[f32])> = (from..to)
            .map(|at| {
                // What is behind the end is cleared, but where padding was written.
                let blank = at >= length && defect != Some(Defect::PaddingSeen);
                match cache.read_slot(sequence, at).filter(|_| !blank && at < cache.max_len) {
                    None => (&zeros[..], &zeros[..]),
                    Some(slot) => {
                        let range = slot + head * dim..slot + (head + 1) * dim;
                        (&cache.keys[layer][range.clone()], &cache.values[layer][range])
                    }
                }
            })
            .collect();
        let shift = |of| defect.map_or(0.0, |defect| defect.shift(of, cache.bits));
        let root = (dim as f64).sqrt();
        let scale = R::of(match defect {
            Some(Defect::Unscaled) => 1.0,
            Some(Defect::ScaledTwice) => 1.0 / (root * root),
            _ => (1.0 + shift(Shift::Scale)) / root,
        });
        let scores: Vec<R> = seen
            .iter()
            .enumerate()
            .map(|(at, (key, _))| {
                let wide = |x: f32| R::of(f64::from(x));
                let score = style.sum.products(dim, |i| (wide(self.q[i]), wide(key[i]))) * scale;
                let bonus = defect == Some(Defect::AddedMask) && from + at <= position;
                match defect {
                    Some(Defect::MaskedAt(masked)) if from + at > position => R::of(f64::from(masked)),
                    Some(Defect::ZeroPointForgotten(bits)) if self.count == 1 && cache.bits == bits => {
                        // A code more is that of the largest, by the largest code.
                        let step = key.iter().fold(0.0f32, |most, x| most.max(x.abs())) / half(bits);
                        let sum = self.q.iter().map(|&q| f64::from(q)).sum::<f64>();
                        score + R::of(f64::from(step * (half(bits) + 1.0)) * sum) * scale
                    }
                    _ if bonus => score + R::of(1.0),
                    _ => score,
                }
            })
            .collect();
        let least = match defect {
            Some(Defect::MaximumFrom(least)) => f64::from(least),
            _ => f64::NEG_INFINITY,
        };
        let largest =
            |scores: &[R]| scores.iter().copied().fold(R::of(least), |a, b| if b > a { b } else { a });
        match (defect, style.softmax) {
            (Some(Defect::Shifted(..)), _) => {
                let times = |at: usize| match at {
                    _ if at == position => 1.0 + shift(Shift::Own),
                    0 => 1.0 + shift(Shift::First),
                    _ => 1.0,
                };
                let most = largest(&scores);
                let weights: Vec<R> =
                    scores.iter().enumerate().map(|(at, &s)| (s - most).exp() * R::of(times(at))).collect();
                let extra = R::of(shift(Shift::Extra));
                let out = mean(&weights, extra, &seen, style);
                out.iter().map(|out| out * (1.0 + shift(Shift::Factor)) as f32).collect()
            }
            (Some(Defect::PartsFromZero(bits)), _)
                if self.count == 1 && cache.bits == bits && scores.len() > PART =>
            {
                let none = scores.iter().all(|&score| score.exp().wide() == 0.0);
                if none { vec![0.0; dim] } else { weighted(&scores, largest(&scores), &seen, style) }
            }
            (Some(Defect::FactorForgotten(bits)), _) if self.index > 0 && cache.bits == bits => {
                online(&scores, &seen, dim, TILE, false)
            }
            (Some(Defect::WithoutMaximum), _) => weighted(&scores, R::of(0.0), &seen, style),
            (_, Softmax::TwoPasses) => weighted(&scores, largest(&scores), &seen, style),
            (_, Softmax::Online(step)) => online(&scores, &seen, dim, step, true),
        }
    }
}

fn weighted<R: Real>(scores: &[R], most: R, seen: &[(&[f32], &[f32])], style: Style) -> Vec<f32> {
    let weights: Vec<R> = scores.iter().map(|&score| style.exp.of(score - most)).collect();
    mean(&weights, R::of(0.0), seen, style)
}

/// The mean of the values; `extra` is added to the sum of the weights.
fn mean<R: Real>(weights: &[R], extra: R, seen: &[(&[f32], &[f32])], style: Style) -> Vec<f32> {
    let total = style.sum.terms(weights.len(), |j| weights[j]) + extra;
    let dim = seen.first().map_or(0, |(key, _)| key.len());
    (0..dim)
        .map(|i| {
            let sum = style.sum.products(weights.len(), |j| (weights[j], R::of(f64::from(seen[j].1[i]))));
            style.exp.quotient(sum, total).wide() as f32
        })
        .collect()
}

/// Milakov and Gimelshein's recurrence, `step` keys at a time. The output is `rescaled` when the maximum grows, and the sum is in any case.
fn online<R: Real>(
    scores: &[R],
    seen: &[(&[f32], &[f32])],
    dim: usize,
    step: usize,
    rescaled: bool,
) -> Vec<f32> {
    let (mut most, mut total) = (R::of(f64::NEG_INFINITY), R::of(0.0));
    let mut out = vec![R::of(0.0); dim];
    for start in (0..scores.len()).step_by(step) {
        let end = scores.len().min(start + step);
        let largest = scores[start..end].iter().copied().fold(most, |a, b| if b > a { b } else { a });
        let factor = if start == 0 { R::of(0.0) } else { (most - largest).exp() };
        most = largest;
        total = total * factor;
        if rescaled {
            out.iter_mut().for_each(|out| *out = *out * factor);
        }
        for j in start..end {
            let weight = (scores[j] - most).exp();
            total = total + weight;
            for (out, &value) in out.iter_mut().zip(seen[j].1) {
                *out = weight.mul_add(R::of(f64::from(value)), *out);
            }
        }
    }
    out.into_iter().map(|out| (out / total).wide() as f32).collect()
}
