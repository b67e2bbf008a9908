//! What a table shows of a verdict: small enough that ten thousand are read at once.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde::{Deserialize, Serialize};
use tribunal_judge::{
    Challenge, Dimension, DimensionScore, Family, Finding, JudgeInfo, Machine, Outcome, Rubric, Ruling,
    Severity, SubmissionInfo, Verdict, challenges,
};

use crate::failures;

/// The form of [`Summary`], counted up whenever what is in it changes: stores compute summaries of another form anew.
pub const FORM: u32 = 2;

/// The first form whose draws are made as they are now. To make them takes longer than all else, and needs the rubric: stores keep them.
pub(crate) const DRAWS_SINCE: u32 = 1;

/// The cases of a family.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Held {
    /// Those of which no check failed, notes apart.
    pub held: usize,
    /// Those that were decided.
    pub cases: usize,
    /// Those that were not.
    pub undecided: usize,
}

/// A verdict without its evidence.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// The verdict's id.
    pub id: String,
    /// What was judged.
    pub submission: SubmissionInfo,
    /// Who judged, and how.
    pub judge: JudgeInfo,
    /// Where.
    pub machine: Machine,
    /// How it ended.
    pub outcome: Ruling,
    /// 0 to 100; null where it could not be judged.
    pub score: Option<f64>,
    /// The weighted mean that a gate lowered, where one did.
    pub capped_from: Option<f64>,
    /// The parts of the score.
    pub dimensions: BTreeMap<Dimension, DimensionScore>,
    /// Which cases hold, by family.
    pub families: BTreeMap<Family, Held>,
    /// The gravest failure in a few words. Not yet cleaned.
    pub suspect: Option<String>,
    /// Why it could not be judged: the first thing the machine was at fault for. Not yet cleaned.
    pub cause: Option<String>,
    /// The score in each draw of a bootstrap over cases and workloads; empty where the rubric it was ruled by is not at hand.
    pub resampled: Vec<f32>,
}

impl Summary {
    /// What a table shows of the verdict.
    pub fn of(verdict: &Verdict) -> Self {
        Self::by(verdict, rubric_of(verdict))
    }

    /// The same of a verdict by that rubric, which this program need not carry.
    pub fn ruled(verdict: &Verdict, rubric: &Rubric) -> Self {
        Self::by(verdict, Some(rubric).filter(|rubric| rubric.digest == verdict.judge.rubric))
    }

    /// All but the draws.
    pub(crate) fn without_draws(verdict: &Verdict) -> Self {
        Self::by(verdict, None)
    }

    fn by(verdict: &Verdict, rubric: Option<&Rubric>) -> Self {
        let cause = verdict.findings.iter().find(|finding| finding.outcome == Outcome::Infrastructure);
        Self {
            id: verdict.id.clone(),
            submission: verdict.submission.clone(),
            judge: verdict.judge.clone(),
            machine: verdict.machine.clone(),
            outcome: verdict.outcome,
            score: verdict.score,
            capped_from: capped_from(verdict),
            dimensions: verdict.dimensions.clone(),
            families: families(verdict),
            suspect: failures::costly(verdict).first().map(|kind| kind.title.clone()),
            cause: cause.map(|finding| finding.message.clone()),
            resampled: rubric.map_or_else(Vec::new, |rubric| resampled(verdict, rubric)),
        }
    }

    /// The interval that holds the score with 95 % confidence, had other cases and workloads been drawn.
    pub fn interval(&self) -> Option<[f64; 2]> {
        middle(self.resampled.iter().map(|&score| f64::from(score)).collect())
    }
}

/// Whether a finding is about a case of its family, and not about the source or a measurement.
pub(crate) fn is_of_a_case(finding: &Finding) -> bool {
    finding.case.strip_prefix(finding.family.name()).is_some_and(|rest| rest.starts_with('/'))
}

/// Which cases hold, by family: what boards, pages and comparisons tell alike.
pub(crate) fn families(verdict: &Verdict) -> BTreeMap<Family, Held> {
    let mut cases: BTreeMap<(Family, &str), (bool, bool)> = BTreeMap::new();
    for finding in verdict.findings.iter().filter(|finding| is_of_a_case(finding)) {
        let (failed, decided) = cases.entry((finding.family, &finding.case)).or_default();
        match finding.outcome {
            Outcome::Integrity => (*failed, *decided) = (true, true),
            Outcome::Fail => (*failed, *decided) = (*failed | (finding.severity > Severity::Note), true),
            Outcome::Pass => *decided = true,
            Outcome::Inconclusive | Outcome::Infrastructure => {}
        }
    }
    let mut families: BTreeMap<Family, Held> = BTreeMap::new();
    for ((family, _), (failed, decided)) in cases {
        let held = families.entry(family).or_default();
        held.cases += usize::from(decided);
        held.held += usize::from(decided && !failed);
        held.undecided += usize::from(!decided);
    }
    families
}

/// The interval that holds 95 % of the values.
pub(crate) fn middle(mut values: Vec<f64>) -> Option<[f64; 2]> {
    values.sort_by(f64::total_cmp);
    let at = |share: f64| values.get(((values.len() as f64 - 1.0) * share).round() as usize).copied();
    Some([at(0.025)?, at(0.975)?])
}

/// The rubric by which a verdict was ruled, where this program carries it.
pub fn rubric_of(verdict: &Verdict) -> Option<&'static Rubric> {
    static RUBRICS: LazyLock<BTreeMap<&str, Rubric>> = LazyLock::new(|| {
        let read = |challenge: &&'static dyn Challenge| {
            Some((challenge.contract().id, Rubric::parse(challenge.rubric()).ok()?))
        };
        challenges::all().iter().filter_map(read).collect()
    });
    RUBRICS.get(verdict.submission.challenge.as_str()).filter(|rubric| rubric.digest == verdict.judge.rubric)
}

fn resampled(verdict: &Verdict, rubric: &Rubric) -> Vec<f32> {
    // Two decimals: more would be noise, and take room ten thousand times over.
    verdict
        .resampled_scores(rubric)
        .into_iter()
        .map(|score| ((score * 100.0).round() / 100.0) as f32)
        .collect()
}

/// The weighted mean of assessed dimensions, before any gate: of all that a verdict has it is, with the gates, its score.
pub fn weighted_mean<'a>(
    dimensions: impl IntoIterator<Item = (&'a Dimension, &'a DimensionScore)>,
) -> Option<f64> {
    let assessed = dimensions.into_iter().filter_map(|(_, d)| Some((d.score?, d.weight)));
    let (sum, weight) =
        assessed.fold((0.0, 0.0), |(sum, total), (score, weight)| (sum + score * weight, total + weight));
    (weight > 0.0).then(|| sum / weight)
}

/// The weighted mean that a gate lowered, where one did: needed to recompute the score that is shown.
pub fn capped_from(verdict: &Verdict) -> Option<f64> {
    let critical = verdict.findings.iter().any(|finding| finding.severity == Severity::Critical);
    let mean = weighted_mean(&verdict.dimensions)?;
    (critical && verdict.outcome == Ruling::Rejected && mean > verdict.score? + 0.05).then_some(mean)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples;

    #[test]
    fn the_score_follows_from_the_parts() {
        for verdict in [samples::accepted(), samples::rejected()] {
            let mean = weighted_mean(&verdict.dimensions).unwrap();
            let score = verdict.score.unwrap();
            assert!((mean - score).abs() < 1e-9 || capped_from(&verdict) == Some(mean), "{mean} {score}");
        }
    }

    #[test]
    fn a_verdict_by_another_rubric_is_not_resampled_by_ours() {
        assert!(Summary::of(&samples::accepted()).resampled.is_empty());
        let rubric = Rubric::parse(challenges::find("layer_norm_backward").unwrap().rubric()).unwrap();
        let summary = Summary::of(&Verdict::new(samples::rejected().evidence(), &rubric));
        let [low, high] = summary.interval().unwrap();
        assert!(low < high && (low..=high).contains(&summary.score.unwrap()), "{summary:?}");
        let perfect = Summary::of(&Verdict::new(samples::accepted().evidence(), &rubric));
        assert_eq!(perfect.resampled.len(), tribunal_judge::resample::DRAWS);
    }
}
