//! The scores of all contestants in the same draws of cases and workloads.

use std::collections::BTreeMap;

use tribunal_judge::{Dimension, DimensionScore, Ruling, Verdict, resample};

use super::is_tie;
use crate::summary::{self, middle};

/// One contestant's scores in each draw; empty where its rubric is not at hand.
#[derive(Debug, Clone, Default)]
struct Drawn {
    outcome: Option<Ruling>,
    score: Option<f64>,
    parts: BTreeMap<Dimension, DimensionScore>,
    scores: Vec<f64>,
    dimensions: Vec<BTreeMap<Dimension, DimensionScore>>,
}

/// Everybody's.
#[derive(Debug, Clone)]
pub(super) struct Draws {
    drawn: Vec<Drawn>,
    /// Whether the first is faster than the second on some workload, by more than the noise of their times.
    faster: Vec<Vec<bool>>,
}

impl Draws {
    pub(super) fn of(verdicts: &[Option<&Verdict>], faster: Vec<Vec<bool>>) -> Self {
        let drawn = |verdict: &Option<&Verdict>| {
            let Some(verdict) = verdict else { return Drawn::default() };
            let (outcome, parts) = (Some(verdict.outcome), verdict.dimensions.clone());
            let known = Drawn { outcome, score: verdict.score, parts, ..Drawn::default() };
            match summary::rubric_of(verdict) {
                Some(rubric) => {
                    let (dimensions, scores): (Vec<_>, Vec<_>) = verdict
                        .resampled(rubric)
                        .into_iter()
                        .map(|draw| (draw.dimensions, draw.score))
                        .unzip();
                    // Without a score there is none in any draw.
                    Drawn {
                        scores: scores.into_iter().map_while(|score| score).collect(),
                        dimensions,
                        ..known
                    }
                }
                None => known,
            }
        };
        Self { drawn: verdicts.iter().map(drawn).collect(), faster }
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

    /// 95 % of the lead of `a` over `b`. Without a workload on which one is faster, it must be a lead without speed too.
    pub(super) fn score_differs(&self, a: usize, b: usize) -> Option<[f64; 2]> {
        let (of_a, of_b) = (&self.drawn[a].scores, &self.drawn[b].scores);
        let [low, high] = middle(of_a.iter().zip(of_b).map(|(a, b)| a - b).collect())?;
        let stands = |a: usize, b: usize| self.faster[a][b] || self.leads_without_speed(a, b);
        Some([if stands(a, b) { low } else { low.min(0.0) }, if stands(b, a) { high } else { high.max(0.0) }])
    }

    /// 95 % of the lead of `a` over `b` in a dimension. Scores of speed differ with the machine's mood: without a workload on which
    /// one is faster, so may their lead be none.
    pub(super) fn dimension_differs(&self, dimension: Dimension, a: usize, b: usize) -> Option<[f64; 2]> {
        let of = |who: usize, draw: usize| self.drawn[who].dimensions.get(draw)?.get(&dimension)?.score;
        let interval =
            middle((0..resample::DRAWS).filter_map(|draw| Some(of(a, draw)? - of(b, draw)?)).collect());
        if dimension != Dimension::Performance {
            return interval;
        }
        let [low, high] = interval.unwrap_or([f64::NEG_INFINITY, f64::INFINITY]);
        Some([
            if self.faster[a][b] { low } else { low.min(0.0) },
            if self.faster[b][a] { high } else { high.max(0.0) },
        ])
    }

    fn leads_without_speed(&self, a: usize, b: usize) -> bool {
        let mean = |parts: &BTreeMap<Dimension, DimensionScore>| {
            summary::weighted_mean(
                parts.iter().filter(|(dimension, _)| **dimension != Dimension::Performance),
            )
        };
        let lead = |a, b| Some(mean(a)? - mean(b)?);
        let (of_a, of_b) = (&self.drawn[a], &self.drawn[b]);
        let draws = of_a.dimensions.iter().zip(&of_b.dimensions).filter_map(|(a, b)| lead(a, b)).collect();
        lead(&of_a.parts, &of_b.parts).is_some_and(|lead| lead > 0.0 && !is_tie(lead))
            && middle(draws).is_some_and(|[low, _]| low > 0.0)
    }
}
