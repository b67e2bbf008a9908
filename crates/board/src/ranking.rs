//! Several verdicts in order, challenge by challenge.
//!
//! Accepted stand before rejected before disqualified, and within an outcome the higher score first. Verdicts of the
//! same outcome share a place when they are no more than [`TIE_POINTS`] below the best of that place.
//! What could not be judged has no place.

use std::collections::{BTreeMap, HashSet};
use std::ops::Range;

use rayon::prelude::*;
use tribunal_judge::{Dimension, Ruling};

use crate::Summary;

/// Draws that are ranked together: a summary's lie in one line of the processor's cache.
const DRAWS_AT_ONCE: usize = 16;

/// Scores as close as this are called equal.
pub const TIE_POINTS: f64 = 0.5;

/// The verdicts on one challenge, in order.
#[derive(Debug)]
pub struct Standings<'a> {
    /// The challenge's id.
    pub challenge: &'a str,
    /// The dimensions that count, with their weights before what was not assessed is left out.
    pub weights: Vec<(Dimension, f64)>,
    /// Who has a place, the best first.
    pub places: Vec<Place<'a>>,
    /// What could not be judged.
    pub unranked: Vec<Place<'a>>,
    /// Why some numbers cannot be held against others.
    pub cautions: Vec<String>,
}

/// A verdict's place.
#[derive(Debug)]
pub struct Place<'a> {
    /// From 1; those who tie share it, and the next place is counted on from all of them. 0 for none.
    pub rank: usize,
    /// Whether another verdict has the same place.
    pub tied: bool,
    /// The contestant's name, with the verdict's id where several have that name. Not yet cleaned.
    pub label: String,
    /// The best and the worst rank in 95 % of draws of other cases and workloads.
    pub range: Option<[usize; 2]>,
    /// The verdict.
    pub summary: &'a Summary,
}

/// Of verdicts on the same contestant and challenge, the last.
pub fn latest(summaries: Vec<Summary>) -> Vec<Summary> {
    by_age(summaries).0
}

/// The last verdict on each contestant and challenge, and those that it replaced.
pub fn by_age(summaries: Vec<Summary>) -> (Vec<Summary>, Vec<Summary>) {
    let mut seen = HashSet::with_capacity(summaries.len());
    let last: Vec<bool> = (summaries.iter().rev())
        .map(|summary| seen.insert((summary.submission.challenge.as_str(), summary.submission.name.as_str())))
        .collect();
    let mut last = last.into_iter().rev();
    summaries.into_iter().partition(|_| last.next() == Some(true))
}

/// The standings of every challenge that occurs.
pub fn rank(summaries: &[Summary]) -> Vec<Standings<'_>> {
    let mut challenges: BTreeMap<&str, Vec<&Summary>> = BTreeMap::new();
    for summary in summaries {
        challenges.entry(&summary.submission.challenge).or_default().push(summary);
    }
    challenges.into_iter().map(|(challenge, summaries)| standings(challenge, summaries)).collect()
}

fn standings<'a>(challenge: &'a str, mut summaries: Vec<&'a Summary>) -> Standings<'a> {
    summaries.sort_by(|a, b| {
        (a.outcome.cmp(&b.outcome))
            .then(points(b).total_cmp(&points(a)))
            .then_with(|| (&a.submission.name, &a.id).cmp(&(&b.submission.name, &b.id)))
    });
    let cautions = cautions(&summaries);
    let weights = weights(&summaries);
    let mut named: BTreeMap<&str, usize> = BTreeMap::new();
    for summary in &summaries {
        *named.entry(&summary.submission.name).or_default() += 1;
    }
    let place = |summary: &'a Summary| Place {
        rank: 0,
        tied: false,
        label: if named[summary.submission.name.as_str()] > 1 {
            format!("{} ({})", summary.submission.name, summary.id)
        } else {
            summary.submission.name.clone()
        },
        range: None,
        summary,
    };
    let (places, unranked): (Vec<_>, Vec<_>) =
        summaries.iter().map(|summary| place(summary)).partition(|place| is_ranked(place.summary));
    Standings { challenge, weights, places: number(places), unranked, cautions }
}

fn is_ranked(summary: &Summary) -> bool {
    summary.outcome != Ruling::Infrastructure && summary.score.is_some()
}

fn points(summary: &Summary) -> f64 {
    summary.score.unwrap_or(f64::NEG_INFINITY)
}

fn number(mut places: Vec<Place<'_>>) -> Vec<Place<'_>> {
    let mut first = 0;
    for index in 0..places.len() {
        let (best, this) = (places[first].summary, places[index].summary);
        // A hair more, so that 90.5 and 90.0 tie in spite of binary fractions.
        if best.outcome != this.outcome || points(best) - points(this) > TIE_POINTS + 1e-9 {
            first = index;
        }
        places[index].rank = first + 1;
        places[index].tied = index > first;
        places[first].tied |= index > first;
    }
    for (place, range) in ranges(&places).into_iter().enumerate() {
        places[place].range = range;
    }
    places
}

fn weights(summaries: &[&Summary]) -> Vec<(Dimension, f64)> {
    let of = |dimension: Dimension| {
        summaries
            .iter()
            .filter_map(|summary| summary.dimensions.get(&dimension))
            .map(|d| d.weight)
            .find(|&w| w > 0.0)
    };
    Dimension::ALL.into_iter().filter_map(|dimension| Some((dimension, of(dimension)?))).collect()
}

/// What the summaries of one table must share for their numbers to be comparable.
pub(crate) fn cautions(summaries: &[&Summary]) -> Vec<String> {
    fn differ<'a, T: PartialEq>(summaries: &[&'a Summary], of: impl Fn(&'a Summary) -> T) -> bool {
        summaries.windows(2).any(|pair| of(pair[0]) != of(pair[1]))
    }
    let weighed = summaries.windows(2).any(|pair| {
        let weights = |at: usize| pair[at].dimensions.iter().map(|(of, part)| (of, part.weight));
        !weights(0).eq(weights(1))
    });
    let tests: [(bool, &str); 5] = [
        (weighed, "weights differ: scores are not comparable, see each verdict"),
        (differ(summaries, |v| &v.judge.version), "judged by different versions of the judge"),
        (differ(summaries, |v| v.judge.effort), "judged with different effort"),
        (differ(summaries, |v| &v.judge.seed), "judged on inputs from different seeds"),
        (
            differ(summaries, |v| (&v.machine.cpu, v.machine.cores, &v.machine.gpu)),
            "judged on different machines: times are not comparable",
        ),
    ];
    tests.into_iter().filter(|(differ, _)| *differ).map(|(_, caution)| caution.to_owned()).collect()
}

/// The ranks between which each lies in 95 % of the draws, in the order of the places.
fn ranges(places: &[Place<'_>]) -> Vec<Option<[usize; 2]>> {
    let draws = places.iter().map(|place| place.summary.resampled.len()).max().unwrap_or(0);
    if draws == 0 {
        return vec![None; places.len()];
    }
    let blocks: Vec<Range<usize>> =
        (0..draws).step_by(DRAWS_AT_ONCE).map(|first| first..draws.min(first + DRAWS_AT_ONCE)).collect();
    let ranks: Vec<Vec<u32>> = blocks.into_par_iter().map(|block| ranks(places, block)).collect();
    let range = |place: usize| {
        let mut own: Vec<u32> = Vec::with_capacity(draws);
        for ranks in &ranks {
            let width = ranks.len() / places.len();
            own.extend_from_slice(&ranks[place * width..][..width]);
        }
        let mut at =
            |share: f64| *own.select_nth_unstable(((draws as f64 - 1.0) * share).round() as usize).1 as usize;
        Some([at(0.025), at(0.975)])
    };
    (0..places.len()).into_par_iter().map(range).collect()
}

/// Everybody's ranks in some draws: place by place, and a place's draw by draw.
fn ranks(places: &[Place<'_>], draws: Range<usize>) -> Vec<u32> {
    let score = |place: &Place<'_>, draw: usize| {
        place.summary.resampled.get(draw).copied().unwrap_or_else(|| points(place.summary) as f32)
    };
    let mut ranks = vec![0; places.len() * draws.len()];
    let mut before = 0;
    // Nothing in a draw changes an outcome, and the places are in the order of outcomes.
    for equals in places.chunk_by(|a, b| a.summary.outcome == b.summary.outcome) {
        let mut orders = vec![0_u64; equals.len() * draws.len()];
        for (index, place) in equals.iter().enumerate() {
            for (row, draw) in draws.clone().enumerate() {
                // One number to sort by: the score upside down, then who has it.
                orders[row * equals.len() + index] =
                    u64::from(!ascending(score(place, draw))) << 32 | (before + index) as u64;
            }
        }
        for (row, order) in orders.chunks_exact_mut(equals.len()).enumerate() {
            order.sort_unstable();
            let mut first = (before, None);
            for (position, &key) in (before..).zip(order.iter()) {
                let points = f64::from(from_ascending(!((key >> 32) as u32)));
                if !first.1.is_some_and(|best: f64| best - points <= TIE_POINTS + 1e-9) {
                    first = (position, Some(points));
                }
                let this = (key & u64::from(u32::MAX)) as usize;
                ranks[this * draws.len() + row] = first.0 as u32 + 1;
            }
        }
        before += equals.len();
    }
    ranks
}

/// The number whose order as an integer is that of the score.
fn ascending(score: f32) -> u32 {
    let bits = score.to_bits();
    if score.is_sign_negative() { !bits } else { bits | 1 << 31 }
}

/// What [`ascending`] made a number of.
fn from_ascending(number: u32) -> f32 {
    f32::from_bits(if number >> 31 == 0 { !number } else { number & !(1 << 31) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::{self, summaries};
    use tribunal_judge::Verdict;

    fn ranks(verdicts: &[Verdict]) -> Vec<(usize, bool, String)> {
        let summaries = summaries(verdicts);
        let standings = rank(&summaries);
        assert_eq!(standings.len(), 1);
        standings[0].places.iter().map(|place| (place.rank, place.tied, place.label.clone())).collect()
    }

    #[test]
    fn half_a_point_is_a_tie_and_more_is_not() {
        let verdicts = [("d", 88.9), ("a", 90.0), ("c", 89.5), ("b", 89.4)]
            .map(|(name, score)| samples::scored(name, score));
        // `b` ties with nobody's best: it is 0.6 below `a`, which has the place, though only 0.1 below `c`.
        let expected = [(1, true, "a"), (1, true, "c"), (3, true, "b"), (3, true, "d")];
        assert_eq!(ranks(&verdicts), expected.map(|(rank, tied, name)| (rank, tied, name.to_owned())));
    }

    #[test]
    fn outcome_comes_before_score_and_does_not_tie() {
        let rejected = Verdict { score: Some(90.0), ..samples::rejected() };
        let verdicts =
            [samples::disqualified(), rejected, samples::infrastructure(), samples::scored("a", 90.0)];
        let expected = [(1, false, "a"), (2, false, "bob"), (3, false, "eve")];
        assert_eq!(ranks(&verdicts), expected.map(|(rank, tied, name)| (rank, tied, name.to_owned())));
        let summaries = summaries(&verdicts);
        let standings = rank(&summaries);
        assert_eq!(standings[0].unranked[0].label, "carol");
    }

    #[test]
    fn the_last_verdict_on_a_contestant_counts() {
        let verdicts =
            vec![samples::scored("a", 10.0), samples::scored("b", 20.0), samples::scored("a", 30.0)];
        let kept: Vec<_> =
            latest(summaries(&verdicts)).into_iter().map(|v| (v.submission.name, v.score)).collect();
        assert_eq!(kept, [("b".to_owned(), Some(20.0)), ("a".to_owned(), Some(30.0))]);
    }

    #[test]
    fn what_makes_numbers_incomparable_is_said() {
        let mut other = samples::scored("b", 20.0);
        other.machine.cpu = "Another".to_owned();
        other.dimensions.get_mut(&Dimension::Memory).unwrap().weight = 0.9;
        let verdicts = [samples::scored("a", 10.0), other];
        let summaries = summaries(&verdicts);
        assert_eq!(rank(&summaries)[0].cautions.len(), 2);
        assert!(rank(&summaries[..1])[0].cautions.is_empty());
    }

    #[test]
    fn who_lies_within_the_noise_shares_a_range_of_ranks() {
        let drawn = |name: &str, score: f64, swing: f32| {
            // Draws that go up and down by turns, by as much as `swing`.
            let draws = (0..200).map(|draw| score as f32 + if draw % 2 == 0 { swing } else { -swing });
            Summary { resampled: draws.collect(), ..Summary::of(&samples::scored(name, score)) }
        };
        let summaries = [drawn("a", 90.0, 3.0), drawn("b", 88.0, -3.0), drawn("c", 50.0, 1.0)];
        let ranges: Vec<_> = rank(&summaries)[0].places.iter().map(|place| place.range).collect();
        assert_eq!(ranges, [Some([1, 2]), Some([1, 2]), Some([3, 3])]);
    }

    #[test]
    fn an_outcome_does_not_change_from_draw_to_draw() {
        let drawn = |verdict: Verdict, score: f32| Summary {
            resampled: vec![score; 200],
            ..Summary::of(&Verdict { score: Some(score.into()), ..verdict })
        };
        let summaries = [
            drawn(samples::rejected(), 99.0),
            drawn(samples::scored("a", 0.0), 40.0),
            drawn(samples::scored("b", 0.0), 40.4),
            drawn(samples::scored("c", 0.0), 41.0),
        ];
        let standings = rank(&summaries);
        let ranges: Vec<_> =
            standings[0].places.iter().map(|place| (place.label.as_str(), place.range)).collect();
        let expected = [("c", 1), ("b", 2), ("a", 2), ("bob", 4)];
        assert_eq!(ranges, expected.map(|(name, rank)| (name, Some([rank, rank]))));
    }

    #[test]
    fn scores_and_their_numbers_have_one_order() {
        let scores = [f32::NEG_INFINITY, -1.0, -0.0, 0.0, 1e-30, 0.5, 99.99, 100.0, f32::INFINITY];
        assert!(scores.windows(2).all(|pair| ascending(pair[0]) < ascending(pair[1])));
        assert_eq!(scores.map(|score| from_ascending(ascending(score))), scores);
    }
}
