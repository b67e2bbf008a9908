//! What a reviewer suspects, in words that a verdict decides.
//!
//! The words are the challenge's own: names of defects that its court knows, and its claims. The evidence of a verdict decides, or nobody
//! does. Where there is none, or one that was made with less than a judging would give, the contestant is judged.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tribunal_contract::{Claim, Claimed, Language};
use tribunal_judge::calibration::exposing;
use tribunal_judge::{Challenge, Effort, Outcome, Verdict, claims};

/// What the judge writes where it did not measure, before it says why.
const UNMEASURED: &str = "time and memory were not measured: ";

/// The claim that is decided by giving the same input again.
const REPEATABLE: &str = "repeatable";

/// The checks that a challenge has.
pub struct Vocabulary {
    defects: BTreeSet<&'static str>,
    claims: &'static [&'static Claim],
}

/// A check that a hypothesis names.
#[derive(Debug, Clone, PartialEq)]
pub enum Check {
    /// That it has this defect.
    Defect(&'static str),
    /// That this holds of it.
    Claim(&'static str, Claimed),
}

/// What became of a hypothesis.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct Decision {
    /// Whether it holds; null where the evidence does not tell.
    pub holds: Option<bool>,
    /// What the evidence is.
    pub why: String,
}

/// What hypotheses on one contestant are decided by.
pub struct Grounds<'a> {
    challenge: &'static dyn Challenge,
    language: Language,
    verdict: Option<&'a Verdict>,
}

impl Vocabulary {
    /// That of a challenge: the defects of its calibration, and its claims.
    pub fn of(challenge: &'static dyn Challenge) -> Self {
        let defects = challenge.variants().mutants.iter().filter_map(|mutant| mutant.suspect).collect();
        Self { defects, claims: challenge.contract().claims }
    }

    /// Every check by its name; of prose the claims alone are taken.
    pub(crate) fn names(&self, prose: bool) -> Vec<String> {
        let claims = self.claims.iter().map(|claim| format!("claim:{}", claim.name));
        let defects = self.defects.iter().filter(|_| !prose).map(|defect| format!("defect:{defect}"));
        claims.chain(defects).collect()
    }

    /// Every check, for a reader.
    pub(crate) fn listed(&self, prose: bool) -> String {
        let mut text = String::new();
        for claim in self.claims {
            text += &format!("claim:{} ({}): {}\n", claim.name, claim.takes.expected(), claim.doc);
        }
        if !prose && !self.defects.is_empty() {
            let defects: Vec<String> = self.defects.iter().map(|defect| format!("defect:{defect}")).collect();
            text += &(defects.join(", ") + "\n");
        }
        text
    }

    /// The check that an item names; none where it names none.
    pub(crate) fn read(&self, name: Option<&str>, value: &Value) -> Result<Option<Check>, String> {
        let Some(name) = name.filter(|name| !matches!(*name, "" | "none")) else { return Ok(None) };
        if let Some(defect) = name.strip_prefix("defect:") {
            let known = self.defects.get(defect).ok_or_else(|| format!("`{name}`"))?;
            return Ok(Some(Check::Defect(known)));
        }
        let claim = name.strip_prefix("claim:");
        let claim =
            self.claims.iter().find(|known| Some(known.name) == claim).ok_or_else(|| format!("`{name}`"))?;
        let claimed = written(value).and_then(|value| claim.takes.read(&value));
        let claimed = claimed.ok_or_else(|| format!("`{name}` takes {}", claim.takes.expected()))?;
        Ok(Some(Check::Claim(claim.name, claimed)))
    }
}

/// A value as a manifest would have it: models write numbers as texts and as numbers.
fn written(value: &Value) -> Option<toml::Value> {
    match value {
        Value::Bool(yes) => Some(toml::Value::Boolean(*yes)),
        Value::Number(number) => number.as_f64().map(toml::Value::Float),
        Value::String(text) => Some(match (text.parse::<bool>(), text.parse::<f64>()) {
            (Ok(yes), _) => toml::Value::Boolean(yes),
            (_, Ok(number)) => toml::Value::Float(number),
            _ => toml::Value::String(text.clone()),
        }),
        _ => None,
    }
}

impl Check {
    fn is_claim(&self) -> bool {
        matches!(self, Self::Claim(..))
    }

    /// Whether the same input, given again, is what decides it.
    pub(crate) fn is_of_repeats(&self) -> bool {
        matches!(self, Self::Claim(REPEATABLE, _))
    }
}

impl std::fmt::Display for Check {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Defect(name) => write!(f, "defect:{name}"),
            Self::Claim(name, claimed) => write!(f, "claim:{name} = {claimed}"),
        }
    }
}

impl<'a> Grounds<'a> {
    /// The evidence of a verdict, or nothing.
    pub fn new(challenge: &'static dyn Challenge, language: Language, verdict: Option<&'a Verdict>) -> Self {
        Self { challenge, language, verdict }
    }

    /// Whether a hypothesis holds.
    pub fn decide(&self, check: &Check) -> Decision {
        let Some(verdict) = self.verdict else {
            return Decision { holds: None, why: "it was not judged".to_owned() };
        };
        match check {
            Check::Defect(suspect) => self.defect(suspect, verdict),
            Check::Claim(name, claimed) => self.claim(name, *claimed, verdict),
        }
    }

    /// Whether a check is left open, and a judging that tries so much has more to decide it by.
    pub fn wants(&self, check: &Check, effort: Effort) -> bool {
        let Some(verdict) = self.verdict else { return true };
        let unmeasured = check.is_claim() && !verdict.judge.measured && why_unmeasured(verdict).is_none();
        let unrepeated = check.is_of_repeats() && verdict.judge.measured && verdict.repeats.is_none();
        let less = !verdict.judge.effort.includes(effort) || unmeasured || unrepeated;
        less && self.decide(check).holds.is_none()
    }

    /// A defect is there where the judge named it, and is not there where the judge would have: each known form of it fails a case that this
    /// submission passed.
    fn defect(&self, suspect: &str, verdict: &Verdict) -> Decision {
        let failed = |outcome| matches!(outcome, Outcome::Fail | Outcome::Integrity);
        let named = verdict
            .findings
            .iter()
            .find(|finding| failed(finding.outcome) && finding.suspect.as_deref() == Some(suspect));
        if let Some(finding) = named {
            return Decision { holds: Some(true), why: format!("{}: {}", finding.id, finding.message) };
        }
        let mut passed: BTreeSet<&str> =
            verdict.findings.iter().map(|finding| finding.case.as_str()).collect();
        for finding in verdict.findings.iter().filter(|finding| finding.outcome != Outcome::Pass) {
            passed.remove(finding.case.as_str());
        }
        let (effort, seed) = (verdict.judge.effort, verdict.judge.seed.parse().map(tribunal_judge::Seed));
        let exposed = seed.ok().and_then(|seed| exposing(self.challenge, suspect, &passed, effort, seed));
        match exposed {
            Some(exposed) => {
                let each: Vec<String> =
                    exposed.iter().map(|(mutant, case)| format!("`{mutant}` fails {case}")).collect();
                let why =
                    format!("what is known to have the defect fails what this passed: {}", each.join(", "));
                Decision { holds: Some(false), why }
            }
            None => Decision {
                holds: None,
                why: "the judge did not name it, and no case that was passed tells it from right answers"
                    .to_owned(),
            },
        }
    }

    fn claim(&self, name: &'static str, claimed: Claimed, verdict: &Verdict) -> Decision {
        let of_manifest = |finding: &&tribunal_judge::Finding| {
            finding.case == format!("claims/{name}")
                && finding.message.starts_with(&format!("`{name} = {claimed}` is "))
        };
        let decided = match verdict.findings.iter().find(of_manifest) {
            Some(finding) => Some(finding.clone()),
            None => self.of_evidence(name, claimed, verdict),
        };
        decided.map_or_else(
            || Decision { holds: None, why: "no rule decides it".to_owned() },
            |finding| Decision {
                holds: match finding.outcome {
                    Outcome::Pass => Some(true),
                    Outcome::Fail => Some(false),
                    _ => None,
                },
                why: finding.message,
            },
        )
    }

    /// As if the manifest had claimed it. How many processors were busy is not in a verdict: all that the machine has is the most.
    fn of_evidence(
        &self,
        name: &'static str,
        claimed: Claimed,
        verdict: &Verdict,
    ) -> Option<tribunal_judge::Finding> {
        let nobody_asked = (!verdict.judge.measured).then_some("nobody asked");
        let grounds = claims::Grounds {
            language: self.language,
            findings: &verdict.findings,
            measurements: &verdict.measurements,
            processors: verdict.machine.cores as f64,
            repeats: verdict.repeats.as_ref(),
            unmeasured: why_unmeasured(verdict).or(nobody_asked),
        };
        claims::decide(&BTreeMap::from([(name, claimed)]), &grounds).pop()
    }
}

/// Why the judge would not measure, where that was its own choice: another judging will not either.
fn why_unmeasured(verdict: &Verdict) -> Option<&str> {
    verdict.omissions.iter().find_map(|why| why.strip_prefix(UNMEASURED))
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tribunal_judge::challenges;

    use super::*;

    #[test]
    fn checks_are_those_of_the_challenge_and_take_its_values() {
        let vocabulary = Vocabulary::of(challenges::find("fused_softmax_topk").unwrap());
        let read = |name, value| {
            vocabulary.read(Some(name), &value).map(|check| check.map(|check| check.to_string()))
        };
        let some = |text: &str| Ok(Some(text.to_owned()));
        assert_eq!(read("none", json!(null)), Ok(None));
        assert_eq!(read("defect:denominator_over_topk", json!(null)), some("defect:denominator_over_topk"));
        assert_eq!(read("claim:passes", json!("2")), some("claim:passes = 2"));
        assert_eq!(read("claim:passes", json!(2)), some("claim:passes = 2"));
        assert_eq!(read("claim:extra_memory", json!("rows")), some("claim:extra_memory = \"rows\""));
        assert_eq!(read("claim:repeatable", json!("true")), some("claim:repeatable = true"));
        for (name, value) in [
            ("defect:mean_term_missing", json!(null)),
            ("claim:best", json!(1)),
            ("claim:passes", json!("two")),
            ("claim:passes", json!(-1)),
            ("claim:passes", json!("nan")),
            ("claim:extra_memory", json!("none at all")),
            ("praise", json!(null)),
        ] {
            assert!(read(name, value).is_err(), "{name}");
        }
        assert!(vocabulary.names(true).iter().all(|name| name.starts_with("claim:")));
    }

    #[test]
    fn who_was_not_judged_is_not_decided() {
        let challenge = challenges::find("layer_norm_backward").unwrap();
        let decision = Grounds::new(challenge, Language::Python, None).decide(&Check::Defect("eps_ignored"));
        assert_eq!((decision.holds, decision.why.as_str()), (None, "it was not judged"));
    }
}
