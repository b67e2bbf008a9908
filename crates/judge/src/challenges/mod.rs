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
    use crate::{Effort, Plan, Rubric, Seed};
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

    #[test]
    fn every_case_is_found_again_by_its_id() {
        for challenge in all() {
            let capabilities =
                challenge.contract().capabilities.iter().map(|capability| capability.name).collect();
            let plan = Plan { seed: Seed::PUBLIC, effort: Effort::Full, capabilities };
            for case in challenge.cases(&plan) {
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
