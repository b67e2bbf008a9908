//! The court: challenges as code, evidence, rubric and verdict.
//!
//! One direction, no way back: a [`Subject`] answers calls, a [`Case`] turns answers into [`Observation`]s, these
//! become [`Finding`]s of the [`Evidence`], and a [`Verdict`] is a pure function of that.
//! Nothing here prints, and no foreign code runs in this process.

#![forbid(unsafe_code)]

mod arithmetic;
pub mod calibration;
mod case;
pub mod challenges;
pub mod claims;
mod code;
pub mod compare;
pub mod conduct;
pub mod controls;
mod court;
mod direction;
mod double_double;
mod draw;
mod emulated;
mod evidence;
mod examine;
mod finding;
mod hands;
mod hearing;
pub mod lead;
mod machine;
pub mod measure;
mod memory;
mod on_gpu;
mod own_tests;
#[cfg(test)]
mod pairs;
pub mod precision;
pub mod report;
pub mod resample;
pub mod rubric;
mod seed;
mod shape;
mod stand_in;
pub mod trial;
pub mod variant;
mod verdict;
pub mod workload;

pub use case::{Case, Challenge, Effort, Family, Plan};
pub use code::files::all as sources;
pub use code::{CodeFacts, Muted, SourceFile, digest, inspect, mute};
pub use court::{ArgumentRecord, CallRecord, Court, Exhibit, Record, Subject};
pub use evidence::{
    Coverage, Evidence, JudgeInfo, Machine, Measurement, Phase, Repeats, Slowest, SubmissionInfo,
};
pub use examine::{Examined, Replay, Unwatched, Watch, examine, finding, finding_about, replay};
pub use finding::{Dimension, Finding, Observation, Outcome, Severity};
pub use hearing::{Hearing, Order, Reference, describe, refuse, replay_submission};
pub use memory::Memory;
pub use rubric::{Rubric, RubricError};
pub use seed::Seed;
pub use stand_in::enter;
pub use verdict::{Contradiction, DimensionScore, Draw, RequirementMet, Ruling, Verdict};
