//! A record read against its contract: which tensor is which argument, and what is known of each result.

use tribunal_contract::{Challenge, Kind, Operation, StateId, Tensor, TensorSpec};
use tribunal_judge::{ArgumentRecord, Record};

use super::ReplayError;

/// The calls to make again.
pub(super) struct Plan<'a> {
    pub(super) calls: Vec<PlannedCall<'a>>,
}

/// One of them.
pub(super) struct PlannedCall<'a> {
    /// From 1.
    pub(super) number: usize,
    pub(super) operation: &'static Operation,
    pub(super) arguments: Vec<(&'static str, &'a ArgumentRecord)>,
    pub(super) results: Vec<Wanted<'a>>,
    pub(super) makes: Option<StateId>,
    /// Whether it was refused and the case went on all the same: then that was not what failed.
    pub(super) may_refuse: bool,
}

/// A tensor result.
pub(super) struct Wanted<'a> {
    pub(super) name: &'static str,
    pub(super) spec: &'a TensorSpec,
    pub(super) expected: Option<&'a Tensor>,
    pub(super) budget: Option<&'a Tensor>,
    pub(super) actual: Option<&'a Tensor>,
}

/// A tensor of the plan, and the name of its files without their ending: `2_backward_expected_dx`.
pub(super) struct Array<'a> {
    pub(super) stem: String,
    pub(super) tensor: &'a Tensor,
}

impl<'a> Plan<'a> {
    pub(super) fn new(challenge: &'static Challenge, record: &'a Record) -> Result<Self, ReplayError> {
        let mut calls = Vec::new();
        for (index, call) in record.calls.iter().enumerate() {
            let mismatch = || ReplayError::Contract { call: index + 1, operation: call.operation.to_owned() };
            let operation = challenge.operation(call.operation).ok_or_else(mismatch)?;
            let tensors = || operation.outputs.iter().filter(|field| matches!(field.kind, Kind::Tensor(_)));
            if call.inputs.len() != operation.inputs.len() || call.outputs.len() != tensors().count() {
                return Err(mismatch());
            }
            let answers = call.answer.as_ref().ok();
            let results = tensors().zip(&call.outputs).enumerate().map(|(position, (field, spec))| {
                let known = |role| known(challenge, record, index, role, field.name);
                let known = |role| known(role).filter(|tensor| tensor.len() == spec.len());
                Wanted {
                    name: field.name,
                    spec,
                    expected: known("expected"),
                    budget: known("budget"),
                    actual: answers.and_then(|answers| answers.get(position)),
                }
            });
            calls.push(PlannedCall {
                number: index + 1,
                operation,
                arguments: operation.inputs.iter().map(|field| field.name).zip(&call.inputs).collect(),
                results: results.collect(),
                makes: call.makes,
                may_refuse: call.answer.is_err() && index + 1 < record.calls.len(),
            });
        }
        Ok(Self { calls })
    }

    /// Whether the oracle said what any result should be. Where it did not, all that can be seen is whether the
    /// answers are again those that were judged.
    pub(super) fn has_oracle(&self) -> bool {
        self.calls.iter().any(|call| call.results.iter().any(|result| result.expected.is_some()))
    }

    /// Every tensor, in the order of the calls.
    pub(super) fn arrays(&self) -> Vec<Array<'a>> {
        let mut arrays = Vec::new();
        for call in &self.calls {
            for &(name, argument) in &call.arguments {
                if let ArgumentRecord::Tensor(tensor) = argument {
                    arrays.push(Array { stem: call.stem("input", name), tensor });
                }
            }
            for result in &call.results {
                for (role, tensor) in
                    [("expected", result.expected), ("budget", result.budget), ("actual", result.actual)]
                {
                    arrays.extend(tensor.map(|tensor| Array { stem: call.stem(role, result.name), tensor }));
                }
            }
        }
        arrays
    }
}

impl PlannedCall<'_> {
    pub(super) fn stem(&self, role: &str, name: &str) -> String {
        format!("{}_{}_{role}_{name}", self.number, self.operation.name)
    }
}

/// What was said of a result. A case that compares later than it calls may mean a result of an earlier call: the
/// latest that has one of that name.
fn known<'a>(
    challenge: &Challenge,
    record: &'a Record,
    call: usize,
    role: &str,
    name: &str,
) -> Option<&'a Tensor> {
    let has = |call: usize| {
        let operation = record.calls.get(call).and_then(|call| challenge.operation(call.operation));
        operation.is_some_and(|operation| operation.outputs.iter().any(|field| field.name == name))
    };
    let meant = |shown_at: usize| (0..=shown_at).rev().find(|&call| has(call)) == Some(call);
    let exhibit = record.exhibits.iter().rev().find(|e| e.role == role && e.name == name && meant(e.call))?;
    Some(&exhibit.tensor)
}
