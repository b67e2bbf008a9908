//! Softmax over a vocabulary and the k most probable entries, in one operation.

#![allow(clippy::neg_cmp_op_on_partial_ord, reason = "comparisons are written so that a NaN fails")]

mod answer;
mod cases;
mod checks;
mod denominators;
mod diagnosis;
mod directions;
mod oracle;
mod problem;
mod recipes;
mod selections;
mod variants;
mod workloads;

use tribunal_contract::DType;

use crate::variant::Variants;
use crate::workload::{Workload, Workloads};
use crate::{Case, Plan};

/// See the module.
pub struct FusedSoftmaxTopk;

impl crate::Challenge for FusedSoftmaxTopk {
    fn contract(&self) -> &'static tribunal_contract::Challenge {
        &tribunal_contract::challenges::FUSED_SOFTMAX_TOPK
    }

    fn rubric(&self) -> &'static str {
        include_str!("../../../../../challenges/fused_softmax_topk/challenge.toml")
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

    fn result_dtype(&self, result: &str, _: DType) -> DType {
        if result == "indices" { DType::Int64 } else { DType::Float32 }
    }

    fn workloads_on_gpu(&self, plan: &Plan) -> Vec<Box<dyn Workload>> {
        workloads::on_gpu(plan.effort, plan.seed)
    }
}
