//! The scores of all contestants in the same draws of cases and workloads.

use std::collections::BTreeMap;

use tribunal_judge::{Dimension, DimensionScore, Ruling, Verdict, resample};

use crate::summary;

/// One contestant's scores in each draw; empty where its rubric is not at hand.
#[derive(Debug, Clone, Default)]
struct Drawn {
    outcome: Option<Ruling>,
    score: Option<f64>,
    scores: Vec<f64>,
    dimensions: Vec<BTreeMap<Dimension, DimensionScore>>,
}

/// Everybody's.
#[derive(Debug, Clone)]
pub(super) struct Draws {
    drawn: Vec<Drawn>,
}

impl Draws {
    pub(super) fn of(verdicts: &[Option<&Verdict>]) -> Self {
        let drawn = |verdict: &Option<&Verdict>| {
            let Some(verdict) = verdict else { return Drawn::default() };
            let known = Drawn { outcome: Some(verdict.outcome), score: verdict.score, ..Drawn::default() };
            match summary::rubric_of(verdict) {
                Some(rubric) => Drawn {
                    scores: verdict.resampled_scores(&rubric),
                    dimensions: verdict.resampled_dimensions(&rubric),
                    ..known
                },
                None => known,
            }
        };
        Self { drawn: verdicts.iter().map(drawn).collect() }
    }

    /// Outcome and score in a draw; what has no draws is the same in each.
    pub(super) fn result(&self, who: usize, draw: usize) -> Option<(Ruling, f64)> {
        let drawn = &self.drawn[who];
        let outcome = drawn.outcome.filter(|outcome| *outcome != Ruling::Infrastructure)?;
        Some((outcome, drawn.scores.get(draw).copied().or(drawn.score)?))
    }

    /// 95 % of somebody's scores.
    pub(super) fn interval(&self, who: usize) -> Option<[f64; 2]> {
        middle(self.drawn[who].scores.clone())
    }

    /// 95 % of the lead of `a` over `b`.
    pub(super) fn score_differs(&self, a: usize, b: usize) -> Option<[f64; 2]> {
        let (a, b) = (&self.drawn[a].scores, &self.drawn[b].scores);
        middle(a.iter().zip(b).map(|(a, b)| a - b).collect())
    }

    /// 95 % of the lead of `a` over `b` in a dimension.
    pub(super) fn dimension_differs(&self, dimension: Dimension, a: usize, b: usize) -> Option<[f64; 2]> {
        let of = |who: usize, draw: usize| self.drawn[who].dimensions.get(draw)?.get(&dimension)?.score;
        middle((0..resample::DRAWS).filter_map(|draw| Some(of(a, draw)? - of(b, draw)?)).collect())
    }
}

/// The interval that holds 95 % of the values.
fn middle(mut values: Vec<f64>) -> Option<[f64; 2]> {
    values.sort_by(f64::total_cmp);
    let at = |share: f64| values.get(((values.len() as f64 - 1.0) * share).round() as usize).copied();
    Some([at(0.025)?, at(0.975)?])
}
