//! Layer normalisation, forward with a cache and backward from it.

#![allow(clippy::neg_cmp_op_on_partial_ord, reason = "comparisons are written so that a NaN fails")]

mod behaviours;
mod cases;
mod checks;
mod directions;
mod experiments;
mod fits;
mod oracle;
mod problem;
mod recipes;
mod report;
mod sampled;
mod suspects;
mod variants;
mod workloads;

use crate::variant::Variants;
use crate::workload::{Workload, Workloads};
use crate::{Case, Plan};

/// See the module.
pub struct LayerNormBackward;

impl crate::Challenge for LayerNormBackward {
    fn contract(&self) -> &'static tribunal_contract::Challenge {
        &tribunal_contract::challenges::LAYER_NORM_BACKWARD
    }

    fn rubric(&self) -> &'static str {
        include_str!("../../../../../challenges/layer_norm_backward/challenge.toml")
    }

    fn cases(&self, plan: &Plan) -> Vec<Box<dyn Case>> {
        cases::list(plan).into_iter().map(|case| Box::new(case) as Box<dyn Case>).collect()
    }

    fn case(&self, id: &str) -> Option<Box<dyn Case>> {
        cases::parse(id).map(|case| Box::new(case) as Box<dyn Case>)
    }

    fn variants(&self) -> Variants {
        variants::all()
    }

    fn workloads(&self, plan: &Plan) -> Workloads {
        workloads::all(plan.effort, plan.seed)
    }

    fn workloads_on_gpu(&self, plan: &Plan) -> Vec<Box<dyn Workload>> {
        workloads::on_gpu(plan.effort, plan.seed)
    }
}
