//! `challenge.toml`: requirements, weights and limits, fixed in advance.

use std::collections::BTreeMap;

use serde::Deserialize;
use sha2::{Digest, Sha256};

use crate::Dimension;

/// A challenge's rubric.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rubric {
    /// What an implementation must do, and what decides whether it does.
    pub requirements: Vec<Requirement>,
    /// Share of each dimension in the score. Sums to 1.
    pub weights: BTreeMap<Dimension, f64>,
    /// What a submission may use.
    pub limits: Limits,
    /// How measurements become scores.
    pub scales: BTreeMap<String, Scale>,
    /// Which rubric it is: the beginning of the SHA-256 of its text.
    #[serde(skip)]
    pub digest: String,
}

/// Something that is asked for.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Requirement {
    /// Short name.
    pub id: String,
    /// What is asked, in words.
    pub text: String,
    /// Which findings decide it: how their ids begin, or, behind a `*`, how they end.
    pub decided_by: Vec<String>,
}

impl Requirement {
    /// Whether a finding of that id decides it.
    pub fn is_decided_by(&self, id: &str) -> bool {
        self.decided_by.iter().any(|pattern| match pattern.strip_prefix('*') {
            Some(end) => id.ends_with(end),
            None => id.starts_with(pattern),
        })
    }
}

/// What a submission may use.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limits {
    /// Seconds for one call.
    pub call_s: f64,
    /// Seconds to load.
    pub load_s: f64,
    /// Seconds to build.
    pub build_s: f64,
    /// Bytes of memory beyond what the tensors of a call take.
    pub memory_bytes: u64,
    /// Bytes of printed output.
    pub output_bytes: u64,
}

/// A measurement's score: 100 at `full` or better, 0 at `zero` or worse, linear in the logarithm between.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scale {
    /// The dimension it counts for.
    pub dimension: Dimension,
    /// The ratio worth 100.
    pub full: f64,
    /// The ratio worth 0.
    pub zero: f64,
    /// Share among the scales of its dimension.
    pub weight: f64,
}

impl Scale {
    /// The score of a ratio to the best possible (1 is perfect, more is worse).
    pub fn score(&self, ratio: f64) -> f64 {
        if !(ratio > 0.0) {
            return 0.0;
        }
        let share = (self.zero / ratio).ln() / (self.zero / self.full).ln();
        100.0 * share.clamp(0.0, 1.0)
    }
}

/// The largest weight: any number of these can be added up and multiplied by a score.
const WEIGHT_MAX: f64 = 1e6;

/// Why a rubric was refused.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum RubricError {
    /// Not the TOML it should be.
    #[error("challenge.toml: {0}")]
    Syntax(String),
    /// A number with which nothing can be computed.
    #[error(
        "challenge.toml: {0} must be a number from 0 to a million, and a scale's `full` above 0 and below its `zero`, and not 1e308 times below"
    )]
    Number(String),
    /// The weights are not shares of a whole.
    #[error("challenge.toml: weights add up to {0}, not to 1")]
    Weights(f64),
}

impl Rubric {
    /// Reads `challenge.toml`.
    pub fn parse(text: &str) -> Result<Self, RubricError> {
        let mut rubric: Self =
            toml::from_str(text).map_err(|error| RubricError::Syntax(error.to_string()))?;
        rubric.digest = Sha256::digest(text).iter().take(6).map(|byte| format!("{byte:02x}")).collect();
        let share = |share: f64| (0.0..=WEIGHT_MAX).contains(&share);
        let end = |end: f64| end.is_finite() && end > 0.0;
        if let Some((dimension, _)) = rubric.weights.iter().find(|(_, weight)| !share(**weight)) {
            return Err(RubricError::Number(format!("the weight of {dimension}")));
        }
        let sound = |scale: &Scale| {
            let ends = end(scale.full) && end(scale.zero) && scale.full < scale.zero;
            // The score is a share of the logarithm of their ratio.
            share(scale.weight) && ends && (scale.zero / scale.full).is_finite()
        };
        if let Some((name, _)) = rubric.scales.iter().find(|(_, scale)| !sound(scale)) {
            return Err(RubricError::Number(format!("the scale of {name}")));
        }
        let sum: f64 = rubric.weights.values().sum();
        if (sum - 1.0).abs() > 1e-9 { Err(RubricError::Weights(sum)) } else { Ok(rubric) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_that_nothing_can_be_computed_with_are_refused() {
        let ours = include_str!("../../../challenges/kv_cache/challenge.toml");
        assert!(Rubric::parse(ours).is_ok());
        for (good, bad) in [
            ("code = 0.05", "code = nan"),
            ("code = 0.05", "code = -0.05"),
            ("weight = 3", "weight = -3"),
            ("weight = 3", "weight = 1e308"),
            ("full = 1.1", "full = inf"),
            ("full = 1.1", "full = 20"),
            ("full = 1.1", "full = 1e-308"),
        ] {
            assert!(ours.contains(good));
            let parsed = Rubric::parse(&ours.replacen(good, bad, 1));
            assert!(matches!(parsed, Err(RubricError::Number(_))), "{bad}: {parsed:?}");
        }
    }

    #[test]
    fn a_scale_is_linear_in_the_logarithm() {
        let scale = Scale { dimension: Dimension::Performance, full: 1.0, zero: 100.0, weight: 1.0 };
        assert_eq!(scale.score(0.5), 100.0);
        assert_eq!(scale.score(1.0), 100.0);
        assert!((scale.score(10.0) - 50.0).abs() < 1e-9);
        assert_eq!(scale.score(1000.0), 0.0);
        assert_eq!(scale.score(f64::NAN), 0.0);
    }
}
