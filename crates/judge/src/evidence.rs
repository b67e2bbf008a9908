//! Everything a verdict rests on, as it is recorded.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Effort, Finding};

/// The record of one judging. A verdict is computed from this and a rubric, and from nothing else.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Evidence {
    /// Who judged, and how.
    pub judge: JudgeInfo,
    /// What was judged.
    pub submission: SubmissionInfo,
    /// Where.
    pub machine: Machine,
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

/// A part of a judging.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Reading its source, building and starting it.
    Building,
    /// Cases, and smaller ones of those that failed.
    Cases,
    /// Its language's own linter.
    Linting,
    /// Its own tests.
    Tests,
    /// Memory, precision, traffic, and the same input given twice.
    Weighing,
    /// Time, the reference's beside it.
    Timing,
}

impl Phase {
    /// As it is written.
    pub fn name(self) -> &'static str {
        match self {
            Self::Building => "building",
            Self::Cases => "cases",
            Self::Linting => "linting",
            Self::Tests => "tests",
            Self::Weighing => "weighing",
            Self::Timing => "timing",
        }
    }
}

/// The case that took longest.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Slowest {
    /// Its id.
    pub case: String,
    /// Seconds it took: the calls and what they are compared with.
    pub seconds: f64,
}

/// Who judged, and how.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct JudgeInfo {
    /// Version of the judge.
    pub version: String,
    /// Seed of the inputs.
    pub seed: String,
    /// How much was tried.
    pub effort: Effort,
    /// Whether time and memory were measured.
    pub measured: bool,
    /// Which rubric ruled: the beginning of the digest of its text.
    #[serde(default)]
    pub rubric: String,
}

/// What was judged.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SubmissionInfo {
    /// The contestant's name.
    pub name: String,
    /// The challenge's id.
    pub challenge: String,
    /// Its language.
    pub language: String,
    /// Digest of its files.
    pub sha256: String,
    /// The folder it was judged in, for replays.
    pub folder: String,
    /// What it was run by: interpreter and numpy, or compiler and flags.
    pub host: String,
}

/// Where it was judged.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Machine {
    /// The processor's name.
    pub cpu: String,
    /// Logical processors usable.
    pub cores: usize,
    /// Main memory.
    pub memory_bytes: u64,
    /// The accelerator, where one took part.
    pub gpu: Option<String>,
    /// The cage's tier and the layers that held.
    pub cage: String,
}

/// One number with its unit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Measurement {
    /// What: `time`, `cache_bytes`, `peak_bytes`, `slope`.
    pub name: String,
    /// On what.
    pub workload: String,
    /// The median.
    pub value: f64,
    /// Its unit, SI.
    pub unit: String,
    /// Bootstrap interval of the median, 95 %.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval: Option<[f64; 2]>,
    /// The least that physics or the contract allow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub floor: Option<f64>,
    /// floor / value: 1 is perfect.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub of_floor: Option<f64>,
    /// value / the reference's value, from interleaved pairs: below 1 is better than the reference.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub of_reference: Option<f64>,
    /// Bootstrap interval of `of_reference`, 95 %.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub of_reference_interval: Option<[f64; 2]>,
    /// Every sample, in the order taken.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub samples: Vec<f64>,
}

/// What came of giving the same input again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Repeats {
    /// What was given again, and how often.
    pub tried: String,
    /// Where bits differ; null where none do.
    pub differs: Option<String>,
}

/// How much of a kernel the cases came to. Of the rest, nobody knows whether it is right.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Coverage {
    /// Its name.
    pub kernel: String,
    /// Whether any case launched it.
    pub launched: bool,
    /// Instructions that it has.
    pub instructions: u64,
    /// Those of them that some lane took part in.
    pub covered: u64,
    /// Of a kernel that was launched, the lines with no such instruction, as `kernel.cu:12-15`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub uncovered: Vec<String>,
    /// The lines of loops that were begun and never gone round again: of what one round leaves to the next nothing is known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub once: Vec<String>,
}
