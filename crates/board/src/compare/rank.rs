//! Who stands where over several challenges.

use serde::Serialize;
use tribunal_judge::{Ruling, resample};

use super::draws::Draws;
use super::edge::Edge;
use super::strength::{Meetings, strengths};
use super::{OnChallenge, is_tie};

/// Strengths as near as this are equal: a hundredth of a chance to win.
const STRENGTH_NOISE: f64 = 0.04;

/// A pair's wins, losses and ties.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Record {
    /// One.
    pub first: usize,
    /// The other.
    pub second: usize,
    /// Challenges that the first won.
    pub wins: usize,
    /// Challenges that the second won.
    pub losses: usize,
    /// Challenges that neither won.
    pub ties: usize,
    /// Challenge by challenge.
    pub met: Vec<Met>,
}

/// How a pair met on a challenge.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Met {
    /// The challenge.
    pub challenge: String,
    /// Who won; none is a tie.
    pub winner: Option<usize>,
}

/// Somebody's place.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Standing {
    /// Who.
    pub contestant: usize,
    /// From 1; those who are equal share it.
    pub rank: usize,
    /// The best and the worst rank in 95 % of draws of other cases and workloads.
    pub range: [usize; 2],
    /// From 1: a tier ends where nobody above can fall, in those draws, to anybody below.
    pub tier: usize,
    /// The mean of its scores, each challenge counting alike.
    pub mean_score: Option<f64>,
    /// Challenges it was judged on.
    pub challenges: usize,
    /// Its strength against an imaginary contestant who ties once with everybody, as a logarithm.
    pub strength: f64,
    /// Its best challenge, with the score.
    pub best: Option<(String, f64)>,
    /// Its worst, with the score.
    pub worst: Option<(String, f64)>,
}

/// Every pair's record.
pub(super) fn records(contestants: usize, challenges: &[OnChallenge]) -> Vec<Record> {
    let mut records = Vec::new();
    for first in 0..contestants {
        for second in first + 1..contestants {
            let met: Vec<Met> = challenges
                .iter()
                .filter_map(|on| {
                    let winner = meet(on, first, second)?;
                    Some(Met { challenge: on.challenge.clone(), winner })
                })
                .collect();
            let won_by = |who: Option<usize>| met.iter().filter(|met| met.winner == who).count();
            let (wins, losses, ties) = (won_by(Some(first)), won_by(Some(second)), won_by(None));
            records.push(Record { first, second, wins, losses, ties, met });
        }
    }
    records
}

/// Who of two wins a challenge: `Some(None)` is a tie, `None` is that they did not meet.
fn meet(on: &OnChallenge, first: usize, second: usize) -> Option<Option<usize>> {
    let result = |who: usize| {
        let entry = on.entries[who].as_ref().filter(|entry| entry.outcome != Ruling::Infrastructure)?;
        Some((entry.outcome, entry.score?))
    };
    let (a, b) = (result(first)?, result(second)?);
    if a.0 != b.0 {
        return Some(Some(if a.0 < b.0 { first } else { second }));
    }
    let rubric = |who: usize| on.entries[who].as_ref().map(|entry| &entry.rubric);
    if rubric(first) != rubric(second) {
        return None;
    }
    let pair = [Some(a.1), Some(b.1)];
    let differs = |one: usize, other: usize| on.lead([first, second][one], [first, second][other]);
    Some(match Edge::of_scores(&pair, differs) {
        Edge::Won { winner, .. } => Some([first, second][winner]),
        _ => None,
    })
}

/// The standings, and what they go by.
pub(super) fn rank(
    contestants: usize,
    challenges: &[OnChallenge],
    draws: &[Draws],
) -> (Vec<Standing>, &'static str) {
    let scores = |who: usize| -> Vec<(String, f64)> {
        let score = |on: &OnChallenge| Some((on.challenge.clone(), on.entries[who].as_ref()?.score?));
        challenges.iter().filter_map(score).collect()
    };
    let scores: Vec<Vec<(String, f64)>> = (0..contestants).map(scores).collect();
    let all_met = scores.iter().all(|scores| scores.len() == challenges.len());
    let means: Vec<Option<f64>> =
        scores.iter().map(|scores| mean(scores.iter().map(|(_, score)| *score))).collect();
    let strengths_now = strengths(&meetings(contestants, challenges));
    let measure: Vec<f64> =
        if all_met { means.iter().map(|mean| mean.unwrap_or(0.0)).collect() } else { strengths_now.clone() };
    let near = if all_met { crate::ranking::TIE_POINTS } else { STRENGTH_NOISE };
    let ranks = places(&measure, near);
    let mut drawn: Vec<Vec<usize>> = vec![Vec::new(); contestants];
    for draw in 0..resample::DRAWS {
        let measure: Vec<f64> = if all_met {
            let score = |who: usize, on: &Draws| Some(on.result(who, draw)?.1);
            (0..contestants)
                .map(|who| mean(draws.iter().filter_map(|on| score(who, on))).unwrap_or(0.0))
                .collect()
        } else {
            strengths(&drawn_meetings(contestants, draws, draw))
        };
        for (who, place) in places(&measure, near).into_iter().enumerate() {
            drawn[who].push(place);
        }
    }
    let mut standings: Vec<Standing> = (0..contestants)
        .map(|who| {
            let by = |order: &dyn Fn(f64, f64) -> std::cmp::Ordering| {
                scores[who].iter().cloned().min_by(|a, b| order(a.1, b.1))
            };
            drawn[who].sort_unstable();
            let last = drawn[who].len() - 1;
            let at = |share: f64| drawn[who][(last as f64 * share).round() as usize];
            Standing {
                contestant: who,
                rank: ranks[who],
                range: [at(0.025).min(ranks[who]), at(0.975).max(ranks[who])],
                tier: 0,
                mean_score: means[who],
                challenges: scores[who].len(),
                strength: strengths_now[who],
                best: by(&|a, b| b.total_cmp(&a)),
                worst: by(&|a, b| a.total_cmp(&b)),
            }
        })
        .collect();
    standings.sort_by_key(|standing| (standing.rank, standing.contestant));
    let (mut tier, mut lowest) = (1, 0);
    for standing in &mut standings {
        if lowest > 0 && standing.range[0] > lowest {
            tier += 1;
        }
        lowest = lowest.max(standing.range[1]);
        standing.tier = tier;
    }
    (standings, if all_met { "mean score" } else { "strength" })
}

/// Ranks from 1, the largest first; who is within `near` of the best of a place shares it.
fn places(measure: &[f64], near: f64) -> Vec<usize> {
    let mut order: Vec<usize> = (0..measure.len()).collect();
    order.sort_by(|&a, &b| measure[b].total_cmp(&measure[a]));
    let mut ranks = vec![0; measure.len()];
    let mut first = 0;
    for (position, &who) in order.iter().enumerate() {
        if measure[order[first]] - measure[who] > near + 1e-9 {
            first = position;
        }
        ranks[who] = first + 1;
    }
    ranks
}

fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (sum, count) = values.fold((0.0, 0.0), |(sum, count), value| (sum + value, count + 1.0));
    (count > 0.0).then(|| sum / count)
}

fn meetings(contestants: usize, challenges: &[OnChallenge]) -> Meetings {
    let met = |a, b| challenges.iter().filter_map(move |on| meet(on, a, b)).collect();
    tally(contestants, met)
}

fn drawn_meetings(contestants: usize, draws: &[Draws], draw: usize) -> Meetings {
    let meet = |on: &Draws, a: usize, b: usize| {
        let (first, second) = (on.result(a, draw)?, on.result(b, draw)?);
        Some(match (first.0.cmp(&second.0), first.1 - second.1) {
            (std::cmp::Ordering::Less, _) => Some(a),
            (std::cmp::Ordering::Greater, _) => Some(b),
            (_, difference) if is_tie(difference) => None,
            (_, difference) => Some(if difference > 0.0 { a } else { b }),
        })
    };
    tally(contestants, |a, b| draws.iter().filter_map(|on| meet(on, a, b)).collect())
}

fn tally(contestants: usize, met: impl Fn(usize, usize) -> Vec<Option<usize>>) -> Meetings {
    let mut meetings = Meetings::none(contestants);
    for a in 0..contestants {
        for b in a + 1..contestants {
            for winner in met(a, b) {
                match winner {
                    Some(winner) => meetings.wins[winner][if winner == a { b } else { a }] += 1.0,
                    None => {
                        meetings.ties[a][b] += 1.0;
                        meetings.ties[b][a] += 1.0;
                    }
                }
            }
        }
    }
    meetings
}
