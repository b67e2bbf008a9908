//! A cache of keys and values, and causal attention over it.

#![allow(clippy::neg_cmp_op_on_partial_ord, reason = "comparisons are written so that a NaN fails")]

mod blocks;
mod calls;
mod cases;
mod checks;
mod config;
mod directions;
mod known;
mod model;
mod recipes;
mod rounding;
mod script;
mod spread;
mod storage;
mod variants;
mod workloads;

use tribunal_contract::DType;

use crate::variant::Variants;
use crate::workload::{Workload, Workloads};
use crate::{Case, Plan};

/// See the module.
pub struct KvCache;

impl crate::Challenge for KvCache {
    fn contract(&self) -> &'static tribunal_contract::Challenge {
        &tribunal_contract::challenges::KV_CACHE
    }

    fn rubric(&self) -> &'static str {
        include_str!("../../../../../challenges/kv_cache/challenge.toml")
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
        workloads::all(plan)
    }

    fn result_dtype(&self, result: &str, _: DType) -> DType {
        if result == "out" { DType::Float32 } else { DType::Int64 }
    }

    fn workloads_on_gpu(&self, plan: &Plan) -> Vec<Box<dyn Workload>> {
        workloads::on_gpu(plan)
    }
}
