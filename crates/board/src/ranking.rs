//! Several verdicts in order, challenge by challenge.
//!
//! Accepted stand before rejected before disqualified, and within an outcome the higher score first. Verdicts of the
//! same outcome share a place when they are no more than [`TIE_POINTS`] below the best of that place.
//! What could not be judged has no place.

use std::collections::{BTreeMap, BTreeSet};

use tribunal_judge::{Dimension, Ruling, Severity, Verdict};

use crate::failures;

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
    /// The gravest failure, in a few words. Not yet cleaned.
    pub suspect: Option<String>,
    /// The verdict.
    pub verdict: &'a Verdict,
}

/// Of verdicts on the same contestant and challenge, the last.
pub fn latest(verdicts: Vec<Verdict>) -> Vec<Verdict> {
    let key = |verdict: &Verdict| (verdict.submission.challenge.clone(), verdict.submission.name.clone());
    let mut seen = BTreeSet::new();
    let mut kept: Vec<_> = verdicts.into_iter().rev().filter(|verdict| seen.insert(key(verdict))).collect();
    kept.reverse();
    kept
}

/// The standings of every challenge that occurs.
pub fn rank(verdicts: &[Verdict]) -> Vec<Standings<'_>> {
    let mut challenges: BTreeMap<&str, Vec<&Verdict>> = BTreeMap::new();
    for verdict in verdicts {
        challenges.entry(&verdict.submission.challenge).or_default().push(verdict);
    }
    challenges.into_iter().map(|(challenge, verdicts)| standings(challenge, verdicts)).collect()
}

fn standings<'a>(challenge: &'a str, mut verdicts: Vec<&'a Verdict>) -> Standings<'a> {
    verdicts.sort_by(|a, b| {
        (a.outcome.cmp(&b.outcome))
            .then(points(b).total_cmp(&points(a)))
            .then_with(|| (&a.submission.name, &a.id).cmp(&(&b.submission.name, &b.id)))
    });
    let cautions = cautions(&verdicts);
    let weights = weights(&verdicts);
    let repeated = |name: &str| verdicts.iter().filter(|verdict| verdict.submission.name == name).count() > 1;
    let place = |verdict: &'a Verdict| Place {
        rank: 0,
        tied: false,
        label: if repeated(&verdict.submission.name) {
            format!("{} ({})", verdict.submission.name, verdict.id)
        } else {
            verdict.submission.name.clone()
        },
        suspect: failures::kinds(verdict).first().map(|kind| kind.title.clone()),
        verdict,
    };
    let (places, unranked): (Vec<_>, Vec<_>) =
        verdicts.iter().map(|verdict| place(verdict)).partition(|place| is_ranked(place.verdict));
    Standings { challenge, weights, places: number(places), unranked, cautions }
}

fn is_ranked(verdict: &Verdict) -> bool {
    verdict.outcome != Ruling::Infrastructure && verdict.score.is_some()
}

fn points(verdict: &Verdict) -> f64 {
    verdict.score.unwrap_or(f64::NEG_INFINITY)
}

fn number(mut places: Vec<Place<'_>>) -> Vec<Place<'_>> {
    let mut first = 0;
    for index in 0..places.len() {
        let (best, this) = (places[first].verdict, places[index].verdict);
        // A hair more, so that 90.5 and 90.0 tie in spite of binary fractions.
        if best.outcome != this.outcome || points(best) - points(this) > TIE_POINTS + 1e-9 {
            first = index;
        }
        places[index].rank = first + 1;
        places[index].tied = index > first;
        places[first].tied |= index > first;
    }
    places
}

fn weights(verdicts: &[&Verdict]) -> Vec<(Dimension, f64)> {
    let of = |dimension: Dimension| {
        verdicts
            .iter()
            .filter_map(|verdict| verdict.dimensions.get(&dimension))
            .map(|d| d.weight)
            .find(|&w| w > 0.0)
    };
    Dimension::ALL.into_iter().filter_map(|dimension| Some((dimension, of(dimension)?))).collect()
}

/// What the verdicts of one table must share for their numbers to be comparable.
fn cautions(verdicts: &[&Verdict]) -> Vec<String> {
    fn differ<T: PartialEq>(verdicts: &[&Verdict], of: impl Fn(&Verdict) -> T) -> bool {
        verdicts.windows(2).any(|pair| of(pair[0]) != of(pair[1]))
    }
    let weighed =
        |verdict: &Verdict| verdict.dimensions.iter().map(|(&d, s)| (d, s.weight)).collect::<Vec<_>>();
    let tests: [(bool, &str); 5] = [
        (differ(verdicts, weighed), "weights differ: scores are not comparable, see each verdict"),
        (differ(verdicts, |v| v.judge.version.clone()), "judged by different versions of the judge"),
        (differ(verdicts, |v| v.judge.effort), "judged with different effort"),
        (differ(verdicts, |v| v.judge.seed.clone()), "judged on inputs from different seeds"),
        (
            differ(verdicts, |v| (v.machine.cpu.clone(), v.machine.cores, v.machine.gpu.clone())),
            "judged on different machines: times are not comparable",
        ),
    ];
    tests.into_iter().filter(|(differ, _)| *differ).map(|(_, caution)| caution.to_owned()).collect()
}

/// The weighted mean of a verdict's assessed dimensions, before any gate: with the gates, its score.
pub fn weighted_mean(verdict: &Verdict) -> Option<f64> {
    let assessed = || verdict.dimensions.values().filter_map(|d| Some((d.score?, d.weight)));
    let weight: f64 = assessed().map(|(_, weight)| weight).sum();
    (weight > 0.0).then(|| assessed().map(|(score, weight)| score * weight).sum::<f64>() / weight)
}

/// The weighted mean that a gate lowered, where one did: needed to recompute the score that is shown.
pub fn capped_from(verdict: &Verdict) -> Option<f64> {
    let critical = verdict.findings.iter().any(|finding| finding.severity == Severity::Critical);
    let mean = weighted_mean(verdict)?;
    (critical && verdict.outcome == Ruling::Rejected && mean > verdict.score? + 0.05).then_some(mean)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples;

    fn ranks(verdicts: &[Verdict]) -> Vec<(usize, bool, String)> {
        let standings = rank(verdicts);
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
        let standings = rank(&verdicts);
        assert_eq!(standings[0].unranked[0].label, "carol");
    }

    #[test]
    fn the_last_verdict_on_a_contestant_counts() {
        let verdicts =
            vec![samples::scored("a", 10.0), samples::scored("b", 20.0), samples::scored("a", 30.0)];
        let kept: Vec<_> = latest(verdicts).into_iter().map(|v| (v.submission.name, v.score)).collect();
        assert_eq!(kept, [("b".to_owned(), Some(20.0)), ("a".to_owned(), Some(30.0))]);
    }

    #[test]
    fn what_makes_numbers_incomparable_is_said() {
        let mut other = samples::scored("b", 20.0);
        other.machine.cpu = "Another".to_owned();
        other.dimensions.get_mut(&Dimension::Memory).unwrap().weight = 0.9;
        let verdicts = [samples::scored("a", 10.0), other];
        assert_eq!(rank(&verdicts)[0].cautions.len(), 2);
        assert!(rank(&verdicts[..1])[0].cautions.is_empty());
    }

    #[test]
    fn the_score_follows_from_the_parts() {
        for verdict in [samples::accepted(), samples::rejected()] {
            let mean = weighted_mean(&verdict).unwrap();
            let score = verdict.score.unwrap();
            assert!((mean - score).abs() < 1e-9 || capped_from(&verdict) == Some(mean), "{mean} {score}");
        }
    }
}
