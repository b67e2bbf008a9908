//! Who is ahead, and whether that is more than noise.

use serde::Serialize;
use tribunal_judge::Measurement;

use super::{COUNT_NOISE, Ratio, is_tie};

/// An interval of a ratio wider than this says nothing: neither a difference nor a tie.
const TOO_WIDE: f64 = 1.5;

/// Who is ahead.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "edge", rename_all = "snake_case")]
pub enum Edge {
    /// One is ahead of all others, by more than the noise.
    Won {
        /// Who.
        winner: usize,
        /// Ahead of the next by so many points; for costs, the next over the winner.
        margin: Option<f64>,
        /// 95 % of the margin.
        interval: Option<[f64; 2]>,
        /// Whether it is the outcome that decides, and not the number.
        by_outcome: bool,
    },
    /// Several share the best, within the noise.
    Tie {
        /// Who.
        among: Vec<usize>,
    },
    /// The evidence does not tell.
    Undecided,
    /// Fewer than two have a number.
    Uncontested,
}

impl Edge {
    /// Of numbers of which more is better. `differs` gives the interval of the first's lead over the second, where there is one.
    pub(super) fn of_scores(
        values: &[Option<f64>],
        differs: impl Fn(usize, usize) -> Option<[f64; 2]>,
    ) -> Self {
        let Some((best, others)) = best_and_others(values, |a, b| b.total_cmp(a)) else {
            return Self::Uncontested;
        };
        let score = |who: usize| values[who].expect("it has a number");
        let near = |&other: &usize| {
            is_tie(score(best) - score(other)) || differs(best, other).is_some_and(|[low, _]| low <= 0.0)
        };
        let mut among: Vec<usize> = others.iter().copied().filter(near).collect();
        if among.is_empty() {
            let next = others[0];
            let margin = Some(score(best) - score(next));
            return Self::Won { winner: best, margin, interval: differs(best, next), by_outcome: false };
        }
        among.push(best);
        among.sort_unstable();
        Self::Tie { among }
    }

    /// Of numbers of which less is better. `over` gives the first's over the second's; times without an interval do not tell.
    pub(super) fn of_costs(
        values: &[Option<f64>],
        timed: bool,
        over: impl Fn(usize, usize) -> Option<Ratio>,
    ) -> Self {
        let Some((best, others)) = best_and_others(values, f64::total_cmp) else {
            return Self::Uncontested;
        };
        let mut among = vec![best];
        let mut next: Option<Ratio> = None;
        for &other in &others {
            let Some(ratio) = over(other, best) else { return Self::Undecided };
            let tied = match ratio.interval {
                Some([low, high]) if low <= 1.0 && high > TOO_WIDE * low => return Self::Undecided,
                // The other may even be ahead of what looked best in another run.
                Some([_, high]) if high < 1.0 => return Self::Undecided,
                Some([low, _]) => low <= 1.0,
                None if timed => return Self::Undecided,
                None => ratio.ratio <= 1.0 + COUNT_NOISE,
            };
            if tied {
                among.push(other);
            } else if next.is_none_or(|next| ratio.ratio < next.ratio) {
                next = Some(ratio);
            }
        }
        match (among.len(), next) {
            (1, Some(next)) => Self::Won {
                winner: best,
                margin: Some(next.ratio),
                interval: next.interval,
                by_outcome: false,
            },
            _ => {
                among.sort_unstable();
                Self::Tie { among }
            }
        }
    }
}

/// The best, and all others that have a number, the better first; none with fewer than two.
fn best_and_others(
    values: &[Option<f64>],
    order: impl Fn(&f64, &f64) -> std::cmp::Ordering,
) -> Option<(usize, Vec<usize>)> {
    let mut who: Vec<usize> = (0..values.len()).filter(|&who| values[who].is_some()).collect();
    who.sort_by(|&a, &b| order(&values[a].expect("it has one"), &values[b].expect("it has one")));
    let (&best, others) = who.split_first()?;
    (!others.is_empty()).then(|| (best, others.to_vec()))
}

/// The ratio of two times that were each taken in turns with the reference: the logarithms' variances add up.
pub(super) fn through_the_reference(first: &Measurement, second: &Measurement) -> Option<Ratio> {
    let ratio = first.of_reference? / second.of_reference?;
    let half = |[low, high]: [f64; 2]| (high / low).ln() / 2.0;
    let half = half(first.of_reference_interval?).hypot(half(second.of_reference_interval?));
    (ratio.is_finite() && half.is_finite())
        .then(|| Ratio { ratio, interval: Some([ratio * (-half).exp(), ratio * half.exp()]) })
}
