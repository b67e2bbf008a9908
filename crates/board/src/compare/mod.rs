//! Contestants held against each other, over the challenges they share.
//!
//! Everything is computed from verdicts, by rules fixed in advance:
//!
//! - On a challenge, the better outcome wins (accepted, rejected, disqualified); within an outcome the higher score, if it is
//!   ahead by more than [`TIE_POINTS`] and by more than the noise. Otherwise it is a tie.
//! - The noise of a score is that of the draw of cases and workloads: in 95 of 100 draws of others, made alike for everybody
//!   ([`tribunal_judge::resample`]), the difference must have the same sign.
//! - A lead in speed counts only with a workload on which one is faster by more than the noise of its times; without one, a lead
//!   in score must be one without speed too.
//! - Two times are compared where both were taken in turns with the same reference, or with each other; the interval of their ratio
//!   comes from both. One that holds 1 is a tie.
//! - Contestants who met on every challenge are ranked by their mean score. Where some did not, by strength: Bradley and Terry's
//!   model with ties after Davidson, over the challenges on which each pair met. The range of ranks comes from the same draws.
//! - Scores by different rubrics are not compared, and neither are powers of growth, of which nobody knows the noise.
//! - The ideal hybrid of a challenge takes each dimension from whoever is best in it; its score is their weighted mean.

mod draws;
mod edge;
mod pages;
mod rank;
mod strength;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use tribunal_judge::{Dimension, Family, Outcome, Ruling, Verdict};

use crate::ranking::TIE_POINTS;
use crate::summary::{self, Held, Summary};
use crate::{failures, words};
use draws::Draws;
pub use edge::Edge;
pub use pages::document;
pub use rank::{Met, Record, Standing};

/// Version of the comparison's form.
pub const FORM: &str = "tribunal.comparison/2";

/// Bytes and other counts closer than this are equal.
const COUNT_NOISE: f64 = 0.01;

/// Somebody to compare: a label and one verdict for each challenge.
#[derive(Debug, Clone)]
pub struct Contestant {
    /// What to call it. Not yet cleaned.
    pub label: String,
    /// Its verdicts, at most one a challenge.
    pub verdicts: Vec<Verdict>,
}

/// Two contestants' times on one workload, taken in turns.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Paired {
    /// The challenge.
    pub challenge: String,
    /// Whose time stands above the line, as an index of contestants.
    pub first: usize,
    /// Whose stands below.
    pub second: usize,
    /// What was measured: `time`.
    pub name: String,
    /// On what.
    pub workload: String,
    /// The first's time over the second's.
    pub ratio: f64,
    /// 95 %.
    pub interval: [f64; 2],
}

/// Contestants side by side.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Comparison {
    /// Always `tribunal.comparison/2`.
    pub schema: &'static str,
    /// Who, in the order asked for; all lists below follow it.
    pub contestants: Vec<String>,
    /// Challenge by challenge.
    pub challenges: Vec<OnChallenge>,
    /// Wins, losses and ties of every pair.
    pub records: Vec<Record>,
    /// The ranking over all challenges.
    pub ranking: Vec<Standing>,
    /// What the ranking goes by: `mean score` or `strength`.
    pub ranked_by: &'static str,
}

/// Contestants on one challenge. A list has one entry for each contestant, none where it has no verdict.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct OnChallenge {
    /// The challenge's id.
    pub challenge: String,
    /// Their verdicts in short.
    pub entries: Vec<Option<Entry>>,
    /// Who wins.
    pub overall: Edge,
    /// 95 % of the lead in points of each (row) over each (column), where both were drawn anew.
    pub leads: Vec<Vec<Option<[f64; 2]>>>,
    /// Score by dimension.
    pub dimensions: Vec<Row>,
    /// Share of a family's cases that held, in percent.
    pub families: Vec<Row>,
    /// Who does what was asked for.
    pub requirements: Vec<Requirement>,
    /// Time, memory, growth, size: less is better.
    pub measurements: Vec<Measured>,
    /// Failures that not everybody has, the gravest first.
    pub deciding: Vec<Deciding>,
    /// What each did best: where it is ahead of all others, by more than the noise.
    pub strengths: Vec<Vec<Strength>>,
    /// What each fails in or falls behind with.
    pub weaknesses: Vec<Vec<String>>,
    /// The best of each dimension together.
    pub hybrid: Hybrid,
    /// Why some numbers cannot be held against others.
    pub cautions: Vec<String>,
}

impl OnChallenge {
    /// 95 % of the lead in points of one over another.
    fn lead(&self, one: usize, other: usize) -> Option<[f64; 2]> {
        self.leads[one][other]
    }
}

/// A verdict in short.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Entry {
    /// The verdict's id.
    pub verdict: String,
    /// Which rubric ruled.
    pub rubric: String,
    /// How it ended.
    pub outcome: Ruling,
    /// 0 to 100.
    pub score: Option<f64>,
    /// The weighted mean that a gate lowered, where one did.
    pub capped_from: Option<f64>,
    /// 95 % of draws of other cases and workloads.
    pub interval: Option<[f64; 2]>,
    /// The language.
    pub language: String,
}

/// A row of numbers of which more is better, 0 to 100.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Row {
    /// What.
    pub name: &'static str,
    /// Its share in the score, where it has one.
    pub weight: Option<f64>,
    /// One each.
    pub values: Vec<Option<f64>>,
    /// Who is ahead.
    pub edge: Edge,
}

/// Something that nobody else does as well.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Strength {
    /// Of what kind it is.
    pub ground: Ground,
    /// What: a dimension, a family of cases, a requirement, a measurement with its workload.
    pub what: String,
    /// By how much, in words; empty where nobody else does it at all.
    pub lead: String,
}

/// The kinds of strengths, in the order in which they are told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Ground {
    /// A higher score in a dimension.
    Score,
    /// A larger share of a family's cases holds.
    Cases,
    /// What was asked for, and only one does.
    Requirement,
    /// Less time or memory.
    Measurement,
}

/// Something asked for, and who does it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Requirement {
    /// What is asked.
    pub text: String,
    /// One each: none is undecided, or no verdict.
    pub met: Vec<Option<bool>>,
}

/// A measurement of which less is better.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Measured {
    /// What.
    pub name: String,
    /// On what.
    pub workload: String,
    /// The unit.
    pub unit: String,
    /// One each.
    pub values: Vec<Option<f64>>,
    /// The least possible, as measured beside the first.
    pub floor: Option<f64>,
    /// Each over the best, with its interval where times were taken in turns.
    pub over_best: Vec<Option<Ratio>>,
    /// Who is ahead.
    pub edge: Edge,
}

/// A ratio and the interval that holds it with 95 % confidence.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Ratio {
    /// The ratio.
    pub ratio: f64,
    /// From, to; none where the two were never timed in turns.
    pub interval: Option<[f64; 2]>,
}

/// A kind of failure that some have and others do not.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Deciding {
    /// Who has it.
    pub who: Vec<usize>,
    /// Where each of them has it, and how grave it is there.
    pub extents: Vec<String>,
    /// `critical`, `major`, `minor`, or `cheat`: the gravest.
    pub gravity: &'static str,
    /// The suspect in words, or what was checked.
    pub title: String,
    /// What was seen where it is gravest. Not yet cleaned.
    pub message: String,
    /// The command that shows that again.
    pub replay: Option<String>,
}

/// The best of each dimension together.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Hybrid {
    /// Dimension, its weight, who is best in it (several share it within the noise), and their best score.
    pub parts: Vec<(Dimension, f64, Vec<usize>, f64)>,
    /// Their weighted mean.
    pub score: Option<f64>,
}

/// Why contestants cannot be held against each other, if no two have a challenge in common: who has a verdict on what. Not yet cleaned.
pub fn never_met(contestants: &[Contestant]) -> Option<String> {
    let challenges = |one: &Contestant| -> BTreeSet<String> {
        one.verdicts.iter().map(|verdict| verdict.submission.challenge.clone()).collect()
    };
    let all: Vec<BTreeSet<String>> = contestants.iter().map(challenges).collect();
    let met = (0..all.len()).any(|a| all[a + 1..].iter().any(|other| !all[a].is_disjoint(other)));
    let has = |(one, challenges): (&Contestant, &BTreeSet<String>)| {
        let challenges: Vec<&str> = challenges.iter().map(String::as_str).collect();
        format!("{} has a verdict on {}", one.label, challenges.join(", "))
    };
    let who: Vec<String> = contestants.iter().zip(&all).map(has).collect();
    (!met).then(|| format!("no two of them have a challenge in common: {}", who.join("; ")))
}

/// Holds contestants against each other. `paired` are times taken in turns, where that was done.
pub fn compare(contestants: &[Contestant], paired: &[Paired]) -> Comparison {
    let challenges: BTreeSet<&str> = contestants
        .iter()
        .flat_map(|contestant| &contestant.verdicts)
        .map(|verdict| verdict.submission.challenge.as_str())
        .collect();
    let mut drawn = Vec::new();
    let challenges: Vec<OnChallenge> = challenges
        .into_iter()
        .map(|challenge| {
            let verdicts: Vec<Option<&Verdict>> = contestants
                .iter()
                .map(|one| one.verdicts.iter().find(|verdict| verdict.submission.challenge == challenge))
                .collect();
            let paired: Vec<&Paired> = paired.iter().filter(|pair| pair.challenge == challenge).collect();
            let (measurements, faster) = measurements(&verdicts, &paired);
            let draws = Draws::of(&verdicts, faster);
            let on = on_challenge(challenge, &verdicts, &draws, measurements);
            drawn.push(draws);
            on
        })
        .collect();
    let labels: Vec<String> = contestants.iter().map(|one| one.label.clone()).collect();
    let (ranking, ranked_by) = rank::rank(labels.len(), &challenges, &drawn);
    Comparison {
        schema: FORM,
        records: rank::records(labels.len(), &challenges),
        contestants: labels,
        challenges,
        ranking,
        ranked_by,
    }
}

fn on_challenge(
    challenge: &str,
    verdicts: &[Option<&Verdict>],
    draws: &Draws,
    measurements: Vec<Measured>,
) -> OnChallenge {
    let dimensions = dimensions(verdicts, draws);
    let families = families(verdicts);
    let requirements = requirements(verdicts);
    OnChallenge {
        challenge: challenge.to_owned(),
        entries: verdicts
            .iter()
            .enumerate()
            .map(|(who, verdict)| Some(entry((*verdict)?, draws, who)))
            .collect(),
        overall: overall(verdicts, draws),
        leads: (0..verdicts.len())
            .map(|a| (0..verdicts.len()).map(|b| draws.score_differs(a, b).filter(|_| a != b)).collect())
            .collect(),
        hybrid: hybrid(&dimensions),
        deciding: deciding(verdicts),
        cautions: cautions(verdicts, &measurements),
        strengths: strengths(verdicts.len(), &dimensions, &families, &requirements, &measurements),
        weaknesses: weaknesses(verdicts, &measurements),
        dimensions,
        families,
        requirements,
        measurements,
    }
}

fn entry(verdict: &Verdict, draws: &Draws, who: usize) -> Entry {
    Entry {
        verdict: verdict.id.clone(),
        rubric: verdict.judge.rubric.clone(),
        outcome: verdict.outcome,
        score: verdict.score,
        capped_from: summary::capped_from(verdict),
        interval: draws.interval(who),
        language: verdict.submission.language.clone(),
    }
}

/// The better outcome wins, and within it the better score.
fn overall(verdicts: &[Option<&Verdict>], draws: &Draws) -> Edge {
    let judged = |verdict: &Verdict| verdict.outcome != Ruling::Infrastructure && verdict.score.is_some();
    let best =
        verdicts.iter().flatten().filter(|verdict| judged(verdict)).map(|verdict| verdict.outcome).min();
    let scores: Vec<Option<f64>> = verdicts
        .iter()
        .map(|verdict| verdict.filter(|verdict| Some(verdict.outcome) == best && judged(verdict))?.score)
        .collect();
    let contested = verdicts.iter().flatten().filter(|verdict| judged(verdict)).count() > 1;
    let mut rubrics = verdicts
        .iter()
        .flatten()
        .filter(|verdict| Some(verdict.outcome) == best)
        .map(|verdict| &verdict.judge.rubric);
    let first = rubrics.next();
    if rubrics.any(|rubric| Some(rubric) != first) {
        // Scores by different rubrics are no scores of one thing.
        return Edge::Undecided;
    }
    let edge = Edge::of_scores(&scores, |a, b| draws.score_differs(a, b));
    match edge {
        // Alone in the best outcome, ahead of others who were judged.
        Edge::Uncontested if contested => {
            let winner = scores.iter().position(Option::is_some).expect("the best outcome is somebody's");
            Edge::Won { winner, margin: None, interval: None, by_outcome: true }
        }
        edge => edge,
    }
}

fn dimensions(verdicts: &[Option<&Verdict>], draws: &Draws) -> Vec<Row> {
    let row = |dimension: Dimension| {
        let part = |verdict: &Option<&Verdict>| {
            verdict.and_then(|verdict| verdict.dimensions.get(&dimension).copied())
        };
        let weight = verdicts.iter().filter_map(part).map(|part| part.weight).find(|&weight| weight > 0.0)?;
        let values: Vec<Option<f64>> = verdicts.iter().map(|verdict| part(verdict)?.score).collect();
        let edge = Edge::of_scores(&values, |a, b| draws.dimension_differs(dimension, a, b));
        Some(Row { name: dimension.name(), weight: Some(weight), values, edge })
    };
    Dimension::ALL.into_iter().filter_map(row).collect()
}

/// Everybody meets the same cases of a family, so a difference in shares is no matter of chance.
fn families(verdicts: &[Option<&Verdict>]) -> Vec<Row> {
    let held: Vec<BTreeMap<Family, Held>> =
        verdicts.iter().map(|verdict| verdict.map_or_else(BTreeMap::new, summary::families)).collect();
    let row = |family: Family| {
        let share = |held: &BTreeMap<Family, Held>| {
            let held = held.get(&family).filter(|held| held.cases > 0)?;
            Some(100.0 * held.held as f64 / held.cases as f64)
        };
        let values: Vec<Option<f64>> = held.iter().map(share).collect();
        let edge = Edge::of_scores(&values, |_, _| None);
        values.iter().any(Option::is_some).then(|| Row { name: family.name(), weight: None, values, edge })
    };
    let families: BTreeSet<Family> = held.iter().flat_map(|held| held.keys().copied()).collect();
    families.into_iter().filter_map(row).collect()
}

fn requirements(verdicts: &[Option<&Verdict>]) -> Vec<Requirement> {
    let mut texts: Vec<&str> = Vec::new();
    for requirement in verdicts.iter().flatten().flat_map(|verdict| &verdict.requirements) {
        if !texts.contains(&requirement.text.as_str()) {
            texts.push(&requirement.text);
        }
    }
    let met = |text: &str, verdict: &Option<&Verdict>| {
        verdict.and_then(|verdict| verdict.requirements.iter().find(|one| one.text == text)?.met)
    };
    texts
        .into_iter()
        .map(|text| Requirement {
            text: text.to_owned(),
            met: verdicts.iter().map(|verdict| met(text, verdict)).collect(),
        })
        .collect()
}

/// Every measurement, and whether the first is faster than the second on some workload, for every two.
fn measurements(verdicts: &[Option<&Verdict>], paired: &[&Paired]) -> (Vec<Measured>, Vec<Vec<bool>>) {
    let mut keys: Vec<(&str, &str, &str)> = Vec::new();
    for one in verdicts.iter().flatten().flat_map(|verdict| &verdict.measurements) {
        let key = (one.name.as_str(), one.workload.as_str(), one.unit.as_str());
        if !keys.contains(&key) {
            keys.push(key);
        }
    }
    let mut faster = vec![vec![false; verdicts.len()]; verdicts.len()];
    let rows = keys.into_iter().map(|key| measured(key, verdicts, paired, &mut faster)).collect();
    (rows, faster)
}

fn measured(
    (name, workload, unit): (&str, &str, &str),
    verdicts: &[Option<&Verdict>],
    paired: &[&Paired],
    faster: &mut [Vec<bool>],
) -> Measured {
    let of = |verdict: &Option<&'_ Verdict>| {
        let all = verdict.map_or(&[][..], |verdict| &verdict.measurements);
        all.iter().find(|one| one.name == name && one.workload == workload && one.value.is_finite()).cloned()
    };
    let found: Vec<_> = verdicts.iter().map(of).collect();
    let values: Vec<Option<f64>> = found.iter().map(|one| one.as_ref().map(|one| one.value)).collect();
    // Powers of growth come from times too.
    let timed = unit == "s" || (unit == "1" && !name.starts_with("code"));
    let over = |a: usize, b: usize| -> Option<Ratio> {
        let direct = paired.iter().find(|pair| {
            (pair.name.as_str(), pair.workload.as_str()) == (name, workload)
                && [(a, b), (b, a)].contains(&(pair.first, pair.second))
        });
        match direct {
            Some(pair) if pair.first == a => Some(Ratio { ratio: pair.ratio, interval: Some(pair.interval) }),
            Some(pair) => {
                let [low, high] = pair.interval;
                Some(Ratio { ratio: 1.0 / pair.ratio, interval: Some([1.0 / high, 1.0 / low]) })
            }
            None if timed => edge::through_the_reference(found[a].as_ref()?, found[b].as_ref()?),
            None => Some(Ratio { ratio: values[a]? / values[b]?, interval: None }),
        }
    };
    for (a, b) in (0..values.len()).flat_map(|a| (0..values.len()).map(move |b| (a, b))) {
        let below_one = |over: Ratio| over.interval.is_some_and(|[_, high]| high < 1.0);
        faster[a][b] |= timed && a != b && over(a, b).is_some_and(below_one);
    }
    // Times from several runs are put in order by what they are to the reference of their run.
    let of_reference: Vec<Option<f64>> =
        found.iter().map(|one| one.as_ref().and_then(|one| one.of_reference)).collect();
    let comparable =
        timed && (0..values.len()).all(|who| values[who].is_some() == of_reference[who].is_some());
    let costs = if comparable { of_reference } else { values.clone() };
    let edge = Edge::of_costs(&costs, timed, over);
    let best = costs
        .iter()
        .enumerate()
        .filter_map(|(who, value)| Some((who, (*value)?)))
        .min_by(|a, b| a.1.total_cmp(&b.1))
        .map(|(who, _)| who);
    let over_best = (0..values.len())
        .map(|who| values[who].and(over(who, best?).filter(|_| Some(who) != best)))
        .collect();
    Measured {
        name: name.to_owned(),
        workload: workload.to_owned(),
        unit: unit.to_owned(),
        floor: found.iter().flatten().find_map(|one| one.floor),
        values,
        over_best,
        edge,
    }
}

fn deciding(verdicts: &[Option<&Verdict>]) -> Vec<Deciding> {
    let judged = verdicts.iter().flatten().count();
    let mut deciding: Vec<((bool, tribunal_judge::Severity), Deciding)> = Vec::new();
    for (who, verdict) in verdicts.iter().enumerate() {
        for kind in verdict.map_or_else(Vec::new, failures::costly) {
            let grave = (kind.outcome == Outcome::Integrity, kind.severity);
            let extent = format!("{}, {}", kind.gravity(), kind.extent());
            let new = Deciding {
                who: vec![who],
                extents: vec![extent.clone()],
                gravity: kind.gravity(),
                title: kind.title.clone(),
                message: kind.message.clone().into_owned(),
                replay: kind.finding.replay.clone(),
            };
            let Some((known_grave, known)) = deciding.iter_mut().find(|(_, known)| known.title == kind.title)
            else {
                deciding.push((grave, new));
                continue;
            };
            // Of several of one title that somebody has, the gravest came first.
            if known.who.last() != Some(&who) {
                known.who.push(who);
                known.extents.push(extent);
            }
            if grave > *known_grave {
                *known_grave = grave;
                *known = Deciding { who: known.who.clone(), extents: known.extents.clone(), ..new };
            }
        }
    }
    deciding.retain(|(_, one)| one.who.len() < judged);
    deciding.sort_by_key(|(grave, _)| std::cmp::Reverse(*grave));
    deciding.into_iter().map(|(_, one)| one).collect()
}

/// What each did best: where it is ahead of all others.
fn strengths(
    contestants: usize,
    dimensions: &[Row],
    families: &[Row],
    requirements: &[Requirement],
    measurements: &[Measured],
) -> Vec<Vec<Strength>> {
    let mut strengths = vec![Vec::new(); contestants];
    let mut add = |who: usize, ground: Ground, what: String, lead: String| {
        strengths[who].push(Strength { ground, what, lead });
    };
    for row in dimensions {
        if let Edge::Won { winner, margin: Some(margin), .. } = row.edge {
            add(winner, Ground::Score, row.name.to_owned(), format!("by {margin:.1} points"));
        }
    }
    for row in families {
        if let (Edge::Won { winner, margin: Some(margin), .. }, others) =
            (&row.edge, row.values.iter().flatten())
            && let Some(share) = row.values[*winner]
        {
            let next = if others.count() > 2 { "the next" } else { "the other" };
            let lead = format!("{share:.0} % hold, of {next} {:.0} %", share - margin);
            add(*winner, Ground::Cases, row.name.to_owned(), lead);
        }
    }
    for requirement in requirements {
        let all = 0..requirement.met.len();
        let does: Vec<usize> = all.filter(|&who| requirement.met[who] == Some(true)).collect();
        if let ([only], true) = (does.as_slice(), requirement.met.contains(&Some(false))) {
            add(*only, Ground::Requirement, requirement.text.clone(), String::new());
        }
    }
    for row in measurements {
        let Edge::Won { winner, margin: Some(margin), .. } = row.edge else { continue };
        let next = if row.values.iter().flatten().count() > 2 { "the next" } else { "the other" };
        let lead = format!("{next} takes {}× as much", words::significant(margin));
        add(winner, Ground::Measurement, of_workload(row), lead);
    }
    strengths
}

/// What each fails in or falls behind with.
fn weaknesses(verdicts: &[Option<&Verdict>], measurements: &[Measured]) -> Vec<Vec<String>> {
    let mut weaknesses = vec![Vec::new(); verdicts.len()];
    for (who, verdict) in verdicts.iter().enumerate() {
        let mut told = BTreeSet::new();
        for kind in verdict.map_or_else(Vec::new, failures::costly) {
            // The gravest of a title comes first.
            if told.insert(kind.title.clone()) {
                weaknesses[who].push(format!("{}: {} ({})", kind.gravity(), kind.title, kind.extent()));
            }
        }
    }
    for row in measurements.iter().filter(|row| matches!(row.edge, Edge::Won { .. })) {
        let over = |(who, over): (usize, &Option<Ratio>)| Some((who, (*over)?.ratio));
        for (who, ratio) in
            row.over_best.iter().enumerate().filter_map(over).filter(|(_, ratio)| *ratio >= 2.0)
        {
            weaknesses[who].push(format!("{}: {}× the best", of_workload(row), words::significant(ratio)));
        }
    }
    weaknesses
}

fn of_workload(row: &Measured) -> String {
    format!("{} of {}", words::spoken(&row.name), row.workload)
}

fn hybrid(dimensions: &[Row]) -> Hybrid {
    let parts: Vec<(Dimension, f64, Vec<usize>, f64)> = dimensions
        .iter()
        .filter_map(|row| {
            let best = row.values.iter().flatten().copied().max_by(f64::total_cmp)?;
            let who = match &row.edge {
                Edge::Won { winner, .. } => vec![*winner],
                Edge::Tie { among } => among.clone(),
                Edge::Uncontested | Edge::Undecided => {
                    (0..row.values.len()).filter(|&who| row.values[who] == Some(best)).collect()
                }
            };
            let dimension = Dimension::ALL.into_iter().find(|dimension| dimension.name() == row.name)?;
            Some((dimension, row.weight?, who, best))
        })
        .collect();
    let weight: f64 = parts.iter().map(|part| part.1).sum();
    let score = (weight > 0.0).then(|| parts.iter().map(|part| part.1 * part.3).sum::<f64>() / weight);
    Hybrid { parts, score }
}

fn cautions(verdicts: &[Option<&Verdict>], measurements: &[Measured]) -> Vec<String> {
    let judged: Vec<Summary> =
        verdicts.iter().flatten().map(|verdict| Summary::without_draws(verdict)).collect();
    let mut cautions = crate::ranking::cautions(&judged.iter().collect::<Vec<_>>());
    let apart = measurements.iter().filter(|row| row.unit == "s" && row.edge == Edge::Undecided).count();
    if apart > 0 {
        cautions.push(format!(
            "{} cannot be told apart: they were not taken in turns, or the noise is wider than the difference may be",
            words::count(apart, "time")
        ));
    }
    cautions
}

/// The verdict by scores alone: their difference in points, and whether it is a tie by rule.
pub(crate) fn is_tie(difference: f64) -> bool {
    // A hair more, so that 90.5 and 90.0 tie in spite of binary fractions.
    difference.abs() <= TIE_POINTS + 1e-9
}
