//! From evidence to verdict: a pure function, so that anybody can recompute it.
//!
//! The published rule:
//!
//! - *correctness*, *stability*: a case counts 1 if every check held, ½ if only minor ones failed, else 0; a
//!   dimension is the mean over its families of the mean over their cases, so more cases do not weigh more.
//! - *completeness*: the share of the rubric's requirements that are met.
//! - *memory*, *performance*, *code*: measurements on the rubric's [`Scale`](crate::rubric::Scale)s, several workloads by their geometric mean;
//!   0 where a major finding failed in the dimension.
//! - *tests*: the share of the defects put in the submission's place that its own tests notice; 0 if they fail on its own code.
//! - *analysis*: the share of the manifest's claims that are upheld, among those that are upheld or refuted.
//! - What was not assessed has no score, and the weights of the rest are scaled up to 1.
//! - Gates: a critical failure caps the whole at 50; a failure of integrity disqualifies, with 0.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::evidence::{
    Coverage, Evidence, JudgeInfo, Machine, Measurement, Phase, Repeats, Slowest, SubmissionInfo,
};
use crate::resample::{self, Thing};
use crate::rubric::{Rubric, Scale};
use crate::{Dimension, Family, Finding, Outcome, Severity};

/// The whole's score at most, after a critical failure.
const CRITICAL_CAP: f64 = 50.0;

/// Version of the verdict's form.
const SCHEMA: &str = "tribunal.verdict/1";

/// How a judging ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Ruling {
    /// Nothing major failed.
    Accepted,
    /// Something major failed.
    Rejected,
    /// It cheated.
    Disqualified,
    /// It could not be judged here.
    Infrastructure,
}

impl Ruling {
    /// The name in JSON and tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Accepted => "accepted",
            Self::Rejected => "rejected",
            Self::Disqualified => "disqualified",
            Self::Infrastructure => "infrastructure",
        }
    }
}

/// A dimension's part in the score.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DimensionScore {
    /// 0 to 100; null where it was not assessed.
    pub score: Option<f64>,
    /// The rubric's weight, before what was not assessed is left out.
    pub weight: f64,
    /// Whether there was evidence.
    pub assessed: bool,
}

/// Whether a requirement is met.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RequirementMet {
    /// The rubric's short name for it.
    pub id: String,
    /// What is asked, in words.
    pub text: String,
    /// Null where no evidence decides it.
    pub met: Option<bool>,
}

/// What the court rules, and all it rests on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Verdict {
    /// Always `tribunal.verdict/1`.
    pub schema: String,
    /// Digest of what was judged and how: judging the same again gives the same id.
    pub id: String,
    /// Who judged, and how.
    pub judge: JudgeInfo,
    /// What was judged.
    pub submission: SubmissionInfo,
    /// How it ended.
    pub outcome: Ruling,
    /// 0 to 100; null where it could not be judged.
    pub score: Option<f64>,
    /// The parts of the score.
    pub dimensions: BTreeMap<Dimension, DimensionScore>,
    /// The rubric's requirements.
    pub requirements: Vec<RequirementMet>,
    /// What was seen.
    pub findings: Vec<Finding>,
    /// What was measured.
    pub measurements: Vec<Measurement>,
    /// What came of giving the same input again, where that was done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repeats: Option<Repeats>,
    /// How much of each kernel the cases came to, where that is seen.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub coverage: Vec<Coverage>,
    /// What was not assessed, and why.
    pub omissions: Vec<String>,
    /// Where.
    pub machine: Machine,
    /// Seconds the whole judging took.
    pub took_s: f64,
    /// Seconds that each part of it took, beside whatever else was judged meanwhile.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub spent_s: BTreeMap<Phase, f64>,
    /// The case that took longest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slowest: Option<Slowest>,
    /// Seconds of it that were spent in cages: building, starting and calling the submission, and the reference beside it.
    pub caged_s: f64,
}

/// What a verdict would have said if other cases and workloads had been drawn.
#[derive(Debug, Clone, PartialEq)]
pub struct Draw {
    /// The parts of the score.
    pub dimensions: BTreeMap<Dimension, DimensionScore>,
    /// The score; null where there is none.
    pub score: Option<f64>,
}

impl Verdict {
    /// Rules on the evidence.
    pub fn new(mut evidence: Evidence, rubric: &Rubric) -> Self {
        evidence.judge.rubric.clone_from(&rubric.digest);
        let id = verdict_id(&evidence);
        let requirements = requirements(&evidence.findings, rubric);
        let dimensions: BTreeMap<_, _> = Dimension::ALL
            .iter()
            .map(|&dimension| {
                let part =
                    Part::of(dimension, &evidence.findings, &evidence.measurements, rubric, &requirements);
                let score = part.score(&|_| 1.0);
                let weight = rubric.weights.get(&dimension).copied().unwrap_or(0.0);
                (dimension, DimensionScore { score, weight, assessed: score.is_some() })
            })
            .collect();
        let outcome = ruling(&evidence.findings);
        let score = whole(outcome, &dimensions, &evidence.findings);
        let mut findings = evidence.findings;
        for finding in &mut findings {
            finding.replay = Some(replay_command(&id, &evidence.submission.folder, finding));
        }
        Self {
            schema: SCHEMA.to_owned(),
            id,
            judge: evidence.judge,
            submission: evidence.submission,
            outcome,
            score,
            dimensions,
            requirements,
            findings,
            measurements: evidence.measurements,
            repeats: evidence.repeats,
            coverage: evidence.coverage,
            omissions: evidence.omissions,
            machine: evidence.machine,
            took_s: evidence.took_s,
            spent_s: evidence.spent_s,
            slowest: evidence.slowest,
            caged_s: evidence.caged_s,
        }
    }

    /// The scores it would have had if other cases and workloads had been drawn: a bootstrap, see [`resample`](mod@crate::resample).
    /// Empty where there is no score.
    pub fn resampled_scores(&self, rubric: &Rubric) -> Vec<f64> {
        self.resampled(rubric).into_iter().map_while(|draw| draw.score).collect()
    }

    /// The same with its dimensions. What had no score has none in any draw.
    pub fn resampled(&self, rubric: &Rubric) -> Vec<Draw> {
        let parts: Vec<(Dimension, DimensionScore, Part<'_>)> = self
            .dimensions
            .iter()
            .map(|(&dimension, &known)| {
                let part =
                    Part::of(dimension, &self.findings, &self.measurements, rubric, &self.requirements);
                (dimension, known, part)
            })
            .collect();
        let drawn = |draw: usize| {
            let again = |(dimension, known, part): &(Dimension, DimensionScore, Part<'_>)| {
                let weigh = |thing: Thing| resample::weight(thing, draw);
                let score = known.score.map(|score| part.score(&weigh).unwrap_or(score));
                (*dimension, DimensionScore { score, ..*known })
            };
            let dimensions = parts.iter().map(again).collect();
            Draw { score: whole(self.outcome, &dimensions, &self.findings), dimensions }
        };
        (0..resample::DRAWS).map(drawn).collect()
    }

    /// Whether it says what follows from its own evidence; under the rubric that ruled, where that is at hand. A file from
    /// elsewhere is tried by this. Whether the evidence is true only judging again can tell.
    pub fn check(&self, rubric: Option<&Rubric>) -> Result<(), Contradiction> {
        let evidence = self.evidence();
        same("schema", &self.schema.as_str(), &SCHEMA)?;
        possible(&evidence)?;
        same("id", &self.id, &verdict_id(&evidence))?;
        same("outcome", &self.outcome.name(), &ruling(&evidence.findings).name())?;
        if let Some(rubric) = rubric {
            let again = Self::new(evidence, rubric);
            same("judge.rubric", &self.judge.rubric, &rubric.digest)?;
            same_parts(&self.dimensions, &again.dimensions)?;
            same_requirements(&self.requirements, &again.requirements)?;
        }
        same_score("score", self.score, whole(self.outcome, &self.dimensions, &self.findings))?;
        for (index, finding) in self.findings.iter().enumerate() {
            let command = replay_command(&self.id, &self.submission.folder, finding);
            same(&format!("findings[{index}].replay"), &finding.replay, &Some(command))?;
        }
        Ok(())
    }

    /// The evidence it rests on, to be ruled on again.
    pub fn evidence(&self) -> Evidence {
        Evidence {
            judge: self.judge.clone(),
            submission: self.submission.clone(),
            machine: self.machine.clone(),
            findings: self.findings.clone(),
            measurements: self.measurements.clone(),
            repeats: self.repeats.clone(),
            coverage: self.coverage.clone(),
            omissions: self.omissions.clone(),
            took_s: self.took_s,
            spent_s: self.spent_s.clone(),
            slowest: self.slowest.clone(),
            caged_s: self.caged_s,
        }
    }

    /// The findings that failed, the gravest first; among equals, in the order in which they were found.
    pub fn failures(&self) -> Vec<&Finding> {
        let mut failures: Vec<_> = self
            .findings
            .iter()
            .filter(|finding| matches!(finding.outcome, Outcome::Fail | Outcome::Integrity))
            .collect();
        failures.sort_by_key(|finding| {
            std::cmp::Reverse((
                finding.outcome == Outcome::Integrity,
                finding.severity,
                finding.suspect.is_some(),
            ))
        });
        failures
    }
}

/// A field of a verdict that does not follow from its evidence, or evidence that cannot be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{field}` is {says}, and {why}")]
pub struct Contradiction {
    /// Which field.
    pub field: String,
    /// What it says, as JSON.
    pub says: String,
    /// What follows from the evidence, or what every judging keeps to.
    pub why: String,
}

impl Contradiction {
    fn new(field: &str, says: &impl Serialize, why: String) -> Self {
        Self { field: field.to_owned(), says: json(says), why }
    }
}

fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("plain values")
}

fn same<T: PartialEq + Serialize>(field: &str, says: &T, follows: &T) -> Result<(), Contradiction> {
    if says == follows {
        return Ok(());
    }
    Err(Contradiction::new(field, says, format!("{} follows from its evidence", json(follows))))
}

/// As [`same`], but for what a number may lose when it is written down and read.
fn same_score(field: &str, says: Option<f64>, follows: Option<f64>) -> Result<(), Contradiction> {
    match (says, follows) {
        (Some(says), Some(follows)) if (says - follows).abs() <= 1e-6 => Ok(()),
        _ => same(field, &says, &follows),
    }
}

fn same_parts(
    says: &BTreeMap<Dimension, DimensionScore>,
    follows: &BTreeMap<Dimension, DimensionScore>,
) -> Result<(), Contradiction> {
    same("dimensions", &says.keys().collect::<Vec<_>>(), &follows.keys().collect())?;
    for (dimension, part) in says {
        let field = |name| format!("dimensions.{dimension}.{name}");
        let DimensionScore { score, weight, assessed } = follows[dimension];
        same_score(&field("score"), part.score, score)?;
        same_score(&field("weight"), Some(part.weight), Some(weight))?;
        same(&field("assessed"), &part.assessed, &assessed)?;
    }
    Ok(())
}

fn same_requirements(says: &[RequirementMet], follows: &[RequirementMet]) -> Result<(), Contradiction> {
    same("requirements.length", &says.len(), &follows.len())?;
    for (index, (says, follows)) in says.iter().zip(follows).enumerate() {
        let field = |name| format!("requirements[{index}].{name}");
        same(&field("id"), &says.id, &follows.id)?;
        same(&field("text"), &says.text, &follows.text)?;
        same(&field("met"), &says.met, &follows.met)?;
    }
    Ok(())
}

/// Seconds that are told apart.
const SAME_S: f64 = 1e-6;

/// What holds of the evidence of every judging: no clock runs backwards.
fn possible(evidence: &Evidence) -> Result<(), Contradiction> {
    let elapsed = |field: &str, seconds: f64| match seconds {
        seconds if seconds >= 0.0 => Ok(()),
        _ => Err(Contradiction::new(field, &seconds, "no time is less than 0".to_owned())),
    };
    elapsed("took_s", evidence.took_s)?;
    elapsed("caged_s", evidence.caged_s)?;
    for (phase, &seconds) in &evidence.spent_s {
        elapsed(&format!("spent_s.{}", phase.name()), seconds)?;
    }
    if !evidence.spent_s.is_empty() {
        let all: f64 = evidence.spent_s.values().sum();
        if (all - evidence.took_s).abs() > SAME_S {
            let why = format!("the parts of it come to {all}");
            return Err(Contradiction::new("took_s", &evidence.took_s, why));
        }
    }
    if let Some(slowest) = &evidence.slowest {
        elapsed("slowest.seconds", slowest.seconds)?;
        let cases = evidence.spent_s.get(&Phase::Cases).copied().unwrap_or(0.0);
        if slowest.seconds > cases + SAME_S {
            let why = format!("all cases took {cases}");
            return Err(Contradiction::new("slowest.seconds", &slowest.seconds, why));
        }
    }
    for (index, kernel) in evidence.coverage.iter().enumerate() {
        if kernel.covered > kernel.instructions || !kernel.launched && kernel.covered > 0 {
            let launched = if kernel.launched { "" } else { " and was not launched" };
            let why = format!("the kernel has {}{launched}", kernel.instructions);
            return Err(Contradiction::new(&format!("coverage[{index}].covered"), &kernel.covered, why));
        }
    }
    for (index, measurement) in evidence.measurements.iter().enumerate() {
        if measurement.unit == "s" {
            let field = |name: &str| format!("measurements[{index}].{name}");
            elapsed(&field("value"), measurement.value)?;
            elapsed(&field("floor"), measurement.floor.unwrap_or(0.0))?;
            for (sample, &seconds) in measurement.samples.iter().enumerate() {
                elapsed(&field(&format!("samples[{sample}]")), seconds)?;
            }
        }
    }
    Ok(())
}

/// The command that shows a finding again. What belongs to no case of the challenge (a build, the source, a measurement) is
/// seen again by judging again.
fn replay_command(id: &str, folder: &str, finding: &Finding) -> String {
    let case = finding.smallest.as_ref().unwrap_or(&finding.case);
    // Names of kernels and of files are the submission's; they are not to mean anything to a shell.
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "._-/:".contains(c);
    if finding.is_of_kernel() && finding.seen_in.is_some() && finding.id.chars().all(is_plain) {
        format!("tribunal replay {id}/{}", finding.id)
    } else if case.starts_with(&format!("{}/", finding.family.name())) {
        format!("tribunal replay {id}/{case}:{}", finding.check)
    } else {
        format!("tribunal judge {folder}")
    }
}

fn verdict_id(evidence: &Evidence) -> String {
    let mut hash = Sha256::new();
    let JudgeInfo { version, seed, effort, measured, rubric } = &evidence.judge;
    let SubmissionInfo { name, challenge, sha256, .. } = &evidence.submission;
    // A machine that could not judge must not take the place of one that did.
    let judged = ruling(&evidence.findings) != Ruling::Infrastructure;
    let how = format!("{effort:?} {measured} {judged}");
    // Verdicts of before rubrics were named have none in their id either.
    let rubric = (!rubric.is_empty()).then_some(rubric);
    let parts = [version, seed].into_iter().chain(rubric).chain([&how, name, challenge, sha256]);
    for part in parts {
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part.as_bytes());
    }
    hash.finalize().iter().take(6).map(|byte| format!("{byte:02x}")).collect()
}

fn ruling(findings: &[Finding]) -> Ruling {
    let any = |test: &dyn Fn(&Finding) -> bool| findings.iter().any(test);
    if any(&|f| f.outcome == Outcome::Integrity) {
        Ruling::Disqualified
    } else if any(&|f| f.outcome == Outcome::Fail && f.severity >= Severity::Major) {
        Ruling::Rejected
    } else if any(&|f| f.outcome == Outcome::Infrastructure && f.severity == Severity::Critical)
        // What is read off the source passes without anything having run.
        || !any(&|f| f.outcome == Outcome::Pass && f.dimension != Dimension::Code)
    {
        Ruling::Infrastructure
    } else {
        Ruling::Accepted
    }
}

fn whole(
    ruling: Ruling,
    dimensions: &BTreeMap<Dimension, DimensionScore>,
    findings: &[Finding],
) -> Option<f64> {
    match ruling {
        Ruling::Infrastructure => return None,
        Ruling::Disqualified => return Some(0.0),
        Ruling::Accepted | Ruling::Rejected => {}
    }
    let score = weighted_mean(dimensions.values().filter_map(|d| Some((d.score?, d.weight))))?;
    let score = score.clamp(0.0, 100.0);
    let critical = findings.iter().any(|f| f.outcome == Outcome::Fail && f.severity == Severity::Critical);
    Some(if critical { score.min(CRITICAL_CAP) } else { score })
}

/// What a dimension's score is the mean of.
enum Part<'a> {
    /// Family by family, the marks of its cases.
    Cases(Vec<Vec<(Thing, f64)>>),
    /// Scale by scale, the logarithms of ratios on its workloads.
    Scales(Vec<(&'a Scale, Vec<(Thing, f64)>)>),
    /// Nothing that could be drawn.
    Fixed(Option<f64>),
}

impl<'a> Part<'a> {
    fn of(
        dimension: Dimension,
        findings: &[Finding],
        measurements: &[Measurement],
        rubric: &'a Rubric,
        requirements: &[RequirementMet],
    ) -> Self {
        match dimension {
            Dimension::Correctness | Dimension::Stability => Self::Cases(marks(dimension, findings)),
            Dimension::Completeness => {
                let decided: Vec<_> = requirements.iter().filter_map(|requirement| requirement.met).collect();
                let met = decided.iter().filter(|&&met| met).count();
                Self::Fixed((!decided.is_empty()).then(|| 100.0 * met as f64 / decided.len() as f64))
            }
            Dimension::Memory | Dimension::Performance | Dimension::Code => {
                let failed = findings.iter().any(|finding| {
                    finding.dimension == dimension
                        && finding.outcome == Outcome::Fail
                        && finding.severity >= Severity::Major
                });
                if failed {
                    return Self::Fixed(Some(0.0));
                }
                let ratios = |name: &str, full: f64| {
                    // Nothing at all, as of scratch memory, has no logarithm: it is full marks, and among others no more than a little of it.
                    let least = full / 100.0;
                    let of_name = measurements.iter().filter(|measurement| measurement.name == *name);
                    of_name
                        .map(|measurement| {
                            let ratio = measurement.value / measurement.floor.unwrap_or(1.0);
                            let ratio = if (0.0..least).contains(&ratio) { least } else { ratio };
                            (Thing::of(&measurement.workload), ratio.ln())
                        })
                        .collect()
                };
                let scales = rubric.scales.iter().filter(|(_, scale)| scale.dimension == dimension);
                Self::Scales(scales.map(|(name, scale)| (scale, ratios(name, scale.full))).collect())
            }
            Dimension::Tests | Dimension::Analysis => Self::Fixed(share_of_passes(dimension, findings)),
        }
    }

    /// `weigh` says how much a case or a workload counts: 1 each in a verdict.
    fn score(&self, weigh: &dyn Fn(Thing) -> f64) -> Option<f64> {
        let mean = |values: &[(Thing, f64)]| {
            weighted_mean(values.iter().map(|&(thing, value)| (value, weigh(thing))))
        };
        match self {
            Self::Cases(families) => {
                let means = families.iter().filter_map(|cases| mean(cases)).map(|mean| (mean, 1.0));
                weighted_mean(means).map(|mean| 100.0 * mean)
            }
            Self::Scales(scales) => weighted_mean(
                scales
                    .iter()
                    .filter_map(|(scale, ratios)| Some((scale.score(mean(ratios)?.exp()), scale.weight))),
            )
            .map(|score| score.clamp(0.0, 100.0)),
            Self::Fixed(score) => *score,
        }
    }
}

fn marks(dimension: Dimension, findings: &[Finding]) -> Vec<Vec<(Thing, f64)>> {
    let mut families: BTreeMap<Family, BTreeMap<&str, f64>> = BTreeMap::new();
    for finding in findings.iter().filter(|finding| finding.dimension == dimension) {
        let mark = match (finding.outcome, finding.severity) {
            (Outcome::Pass, _) | (Outcome::Fail, Severity::Note) => 1.0,
            (Outcome::Fail, Severity::Minor) => 0.5,
            (Outcome::Fail | Outcome::Integrity, _) => 0.0,
            (Outcome::Inconclusive | Outcome::Infrastructure, _) => continue,
        };
        let case = families.entry(finding.family).or_default().entry(&finding.case).or_insert(1.0);
        *case = case.min(mark);
    }
    let cases =
        |cases: BTreeMap<&str, f64>| cases.into_iter().map(|(case, mark)| (Thing::of(case), mark)).collect();
    families.into_values().map(cases).collect()
}

/// Of what was decided in a dimension and costs something, the share that holds, from 0 to 100.
fn share_of_passes(dimension: Dimension, findings: &[Finding]) -> Option<f64> {
    let holds = |finding: &Finding| match finding.outcome {
        Outcome::Pass => Some(1.0),
        Outcome::Fail if finding.severity > Severity::Note => Some(0.0),
        _ => None,
    };
    let decided = findings.iter().filter(|finding| finding.dimension == dimension).filter_map(holds);
    weighted_mean(decided.map(|mark| (mark, 1.0))).map(|share| 100.0 * share)
}

/// The mean of values with their weights; none where nothing weighs anything. Rounding may take it a bit beyond the largest.
fn weighted_mean(values: impl Iterator<Item = (f64, f64)>) -> Option<f64> {
    let (sum, weight) =
        values.fold((0.0, 0.0), |(sum, total), (value, weight)| (sum + value * weight, total + weight));
    (weight > 0.0).then(|| sum / weight)
}

fn requirements(findings: &[Finding], rubric: &Rubric) -> Vec<RequirementMet> {
    rubric
        .requirements
        .iter()
        .map(|requirement| {
            let deciding = || findings.iter().filter(|finding| requirement.is_decided_by(&finding.id));
            let failed = deciding().any(|finding| {
                matches!(finding.outcome, Outcome::Fail | Outcome::Integrity)
                    && finding.severity >= Severity::Minor
            });
            let passed = deciding().any(|finding| finding.outcome == Outcome::Pass);
            let met = if failed { Some(false) } else { passed.then_some(true) };
            RequirementMet { id: requirement.id.clone(), text: requirement.text.clone(), met }
        })
        .collect()
}

#[cfg(test)]
mod tests;
