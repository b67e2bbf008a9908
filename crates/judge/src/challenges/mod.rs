//! The challenges, one folder each.

pub mod fused_softmax_topk;
pub mod kv_cache;
pub mod layer_norm_backward;

use crate::Challenge;

/// Every challenge.
pub fn all() -> &'static [&'static dyn Challenge] {
    &[&layer_norm_backward::LayerNormBackward, &fused_softmax_topk::FusedSoftmaxTopk, &kv_cache::KvCache]
}

/// The challenge of that id.
pub fn find(id: &str) -> Option<&'static dyn Challenge> {
    all().iter().copied().find(|challenge| challenge.contract().id == id)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Case, Effort, Plan, Rubric, Seed};
    use tribunal_contract::challenges as contracts;

    #[test]
    fn every_contract_has_a_court_and_a_rubric() {
        for contract in contracts::ALL {
            let challenge = find(contract.id).unwrap_or_else(|| panic!("{} has no court", contract.id));
            let rubric = Rubric::parse(challenge.rubric()).unwrap();
            assert!(!rubric.requirements.is_empty());
        }
        assert_eq!(all().len(), contracts::ALL.len());
    }

    /// All cases that there are.
    fn cases(challenge: &dyn Challenge) -> Vec<Box<dyn Case>> {
        let capabilities =
            challenge.contract().capabilities.iter().map(|capability| capability.name).collect();
        challenge.cases(&Plan { seed: Seed::PUBLIC, effort: Effort::Full, capabilities, launches: true })
    }

    #[test]
    fn every_case_is_of_one_requirement() {
        for challenge in all() {
            let rubric = Rubric::parse(challenge.rubric()).unwrap();
            let cases = cases(*challenge);
            for case in &cases {
                let id = format!("{}:within_budget", case.id());
                let of = rubric.requirements.iter().filter(|requirement| requirement.is_decided_by(&id));
                let of: Vec<&str> = of.map(|requirement| &*requirement.id).collect();
                assert_eq!(of.len(), 1, "{id} is of {of:?}");
            }
            let patterns = rubric.requirements.iter().flat_map(|requirement| &requirement.decided_by);
            // The others are of what is measured, or of checks of any case.
            let others = ["*", "memory/", "precision/"];
            for pattern in patterns.filter(|pattern| !others.iter().any(|other| pattern.starts_with(other))) {
                assert!(
                    cases.iter().any(|case| case.id().starts_with(&**pattern)),
                    "no case is of {pattern}"
                );
            }
        }
    }

    #[test]
    fn every_case_is_found_again_by_its_id() {
        for challenge in all() {
            for case in cases(*challenge) {
                let again =
                    challenge.case(&case.id()).unwrap_or_else(|| panic!("{} is not found", case.id()));
                assert_eq!((again.id(), again.family()), (case.id(), case.family()));
                for smaller in case.smaller() {
                    assert!(challenge.case(&smaller.id()).is_some(), "{}", smaller.id());
                }
            }
        }
    }
}
