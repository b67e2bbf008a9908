//! What was found: outcomes, severities, dimensions.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Family, conduct};

/// The five outcomes, never mixed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// What was asked for held.
    Pass,
    /// The submission's fault.
    Fail,
    /// The evidence does not decide.
    Inconclusive,
    /// The machine's or the judge's fault; lowers no score.
    Infrastructure,
    /// A cheat, caught in the act.
    Integrity,
}

impl Outcome {
    /// The name in JSON and on pages.
    pub fn name(self) -> &'static str {
        match self {
            Self::Pass => "pass",
            Self::Fail => "fail",
            Self::Inconclusive => "inconclusive",
            Self::Infrastructure => "infrastructure",
            Self::Integrity => "integrity",
        }
    }
}

/// How much a failure weighs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// Worth knowing, costs nothing.
    Note,
    /// Costs something, spoils nothing.
    Minor,
    /// Wrong or wasteful enough to be refused.
    Major,
    /// Wrong on ordinary inputs.
    Critical,
}

impl Severity {
    /// The name in JSON and on pages.
    pub fn name(self) -> &'static str {
        match self {
            Self::Note => "note",
            Self::Minor => "minor",
            Self::Major => "major",
            Self::Critical => "critical",
        }
    }
}

/// What a score is given for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Dimension {
    /// Right answers on ordinary and awkward inputs.
    Correctness,
    /// Right answers where careless arithmetic fails.
    Stability,
    /// Every operation, shape and claimed capability.
    Completeness,
    /// Bytes kept and bytes at the peak.
    Memory,
    /// Time against the machine's floor and the reference.
    Performance,
    /// What its own tests catch.
    Tests,
    /// Whether what it claims is so.
    Analysis,
    /// Size, duplication, dead code.
    Code,
}

impl Dimension {
    /// Every dimension, in the order in which they are shown.
    pub const ALL: [Self; 8] = [
        Self::Correctness,
        Self::Stability,
        Self::Completeness,
        Self::Memory,
        Self::Performance,
        Self::Tests,
        Self::Analysis,
        Self::Code,
    ];

    /// The name in JSON and tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Correctness => "correctness",
            Self::Stability => "stability",
            Self::Completeness => "completeness",
            Self::Memory => "memory",
            Self::Performance => "performance",
            Self::Tests => "tests",
            Self::Analysis => "analysis",
            Self::Code => "code",
        }
    }
}

impl std::fmt::Display for Dimension {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// What one check of one case saw. The judge turns it into a [`Finding`].
#[derive(Debug, Clone, PartialEq)]
pub struct Observation {
    /// What was checked, as a fact that should hold: `dx_within_budget`.
    pub check: &'static str,
    /// What came of it.
    pub outcome: Outcome,
    /// How much a failure weighs.
    pub severity: Severity,
    /// For a kernel author: what, where, by how much.
    pub message: String,
    /// The defect that explains it, where one does.
    pub suspect: Option<&'static str>,
    /// The largest error in units of its budget.
    pub used: Option<f64>,
}

impl Observation {
    /// A check that held.
    pub fn pass(check: &'static str, used: Option<f64>) -> Self {
        Self {
            check,
            outcome: Outcome::Pass,
            severity: Severity::Note,
            message: String::new(),
            suspect: None,
            used,
        }
    }

    /// Puts a name to a failure, and says why. What a call did besides answering was seen, and has its name.
    pub(crate) fn blame(&mut self, suspect: &'static str, why: &str) {
        if self.outcome == Outcome::Fail && !conduct::CHECKS.contains(&self.check) {
            self.suspect = Some(suspect);
            self.message = format!("{why}; {}", self.message);
        }
    }
}

/// One piece of evidence: a check of a case, and what came of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Finding {
    /// `<case>:<check>`, unique within a verdict.
    pub id: String,
    /// The case that was tried.
    pub case: String,
    /// What was checked.
    pub check: String,
    /// The case's family.
    pub family: Family,
    /// What it counts for.
    pub dimension: Dimension,
    /// What came of it.
    pub outcome: Outcome,
    /// How much a failure weighs.
    pub severity: Severity,
    /// What was seen, in a kernel author's words.
    pub message: String,
    /// The defect that explains it, where one does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suspect: Option<String>,
    /// The largest error in units of its budget.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub used: Option<f64>,
    /// What `used` may be at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<f64>,
    /// The command that runs the case again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replay: Option<String>,
    /// The smallest case found that still fails this check.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub smallest: Option<String>,
    /// The smallest case in which it is known to have been seen of a kernel.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seen_in: Option<String>,
}

/// How the cases of what was seen of kernels begin.
pub(crate) const SANITIZER: &str = "sanitizer/";

impl Finding {
    /// Whether it is a failure or a cheat, and more than a note.
    pub fn costs(&self) -> bool {
        match self.outcome {
            Outcome::Integrity => true,
            Outcome::Fail => self.severity > Severity::Note,
            Outcome::Pass | Outcome::Inconclusive | Outcome::Infrastructure => false,
        }
    }

    /// Whether it was seen of a kernel on an emulated device: it has a line of the source in the place of a case.
    pub fn is_of_kernel(&self) -> bool {
        self.case.starts_with(SANITIZER)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_json() {
        let json = |value: serde_json::Result<String>| value.unwrap().trim_matches('"').to_owned();
        for outcome in
            [Outcome::Pass, Outcome::Fail, Outcome::Inconclusive, Outcome::Infrastructure, Outcome::Integrity]
        {
            assert_eq!(json(serde_json::to_string(&outcome)), outcome.name());
        }
        for severity in [Severity::Note, Severity::Minor, Severity::Major, Severity::Critical] {
            assert_eq!(json(serde_json::to_string(&severity)), severity.name());
        }
    }
}
