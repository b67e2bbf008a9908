//! A variant where a submission would stand.

use tribunal_contract::{Answer, Argument, Call, DType, Fault, StateId, Tensor, TensorSpec};
use tribunal_runner::Trouble;

use super::batch::{Batch, Ranks};
use super::{Defect, Topk};
use crate::Subject;

/// A variant on trial.
pub(super) struct InProcess {
    topk: Topk,
    before: Option<Vec<Tensor>>,
}

impl InProcess {
    /// Puts a variant where a submission would stand.
    pub(super) fn new(topk: Topk) -> Self {
        Self { topk, before: None }
    }

    fn answer(&mut self, call: &Call<'_>) -> Result<Vec<Tensor>, Fault> {
        let &[Argument::Tensor(logits), Argument::Integer(k)] = call.inputs.as_slice() else {
            panic!("the court called with other arguments than the contract's");
        };
        let batch = Batch::new(&self.topk, logits, usize::try_from(k).expect("k is at least 1"));
        let ranks = if self.topk.wide { batch.ranks::<f64>()? } else { batch.ranks::<f32>()? };
        let misfit = match self.topk.defect {
            Some(Defect::WideProbs) => Some(("probs", &call.outputs[0], DType::Float64)),
            Some(Defect::FloatIndices) => Some(("indices", &call.outputs[1], DType::Float32)),
            _ => None,
        };
        if let Some((name, due, dtype)) = misfit {
            let got = TensorSpec::new(dtype, due.shape.clone());
            return Err(Fault::WrongResult { message: format!("{name}: expected {due}, got {got}") });
        }
        let answer = tensors(call, &ranks);
        let before =
            self.before.replace(answer.clone()).filter(|before| before[0].spec() != answer[0].spec());
        Ok(match before {
            Some(before) if self.topk.has(Defect::AnswersBefore) => {
                let specs = &call.outputs;
                before.into_iter().zip(specs).map(|(before, spec)| resized(&before, spec)).collect()
            }
            _ => answer,
        })
    }
}

/// Results as the caller gets them.
fn tensors(call: &Call<'_>, ranks: &Ranks) -> Vec<Tensor> {
    let probs = ranks.iter().flat_map(|(prob, _)| prob.to_ne_bytes()).collect();
    let indices = ranks.iter().flat_map(|(_, index)| index.to_ne_bytes()).collect();
    let results = call.outputs.iter().zip([probs, indices]);
    results.map(|(spec, bytes)| Tensor::from_bytes(spec.clone(), bytes)).collect()
}

/// The same elements in another shape, again and again.
fn resized(tensor: &Tensor, spec: &TensorSpec) -> Tensor {
    let bytes = tensor.bytes().iter().copied().cycle().take(spec.size_bytes()).collect();
    Tensor::from_bytes(spec.clone(), bytes)
}

impl Subject for InProcess {
    fn call(&mut self, call: &Call<'_>) -> Result<Answer, Trouble> {
        Ok(Answer {
            outputs: self.answer(call)?,
            wall_s: 0.0,
            cpu_s: 0.0,
            inputs_changed: if self.topk.has(Defect::InputModified) { vec![0] } else { Vec::new() },
            wrote_outside: self.topk.has(Defect::WritesOutside),
            disturbed: Vec::new(),
            changed_late: self.topk.has(Defect::WritesLate),
        })
    }

    fn release(&mut self, _: StateId) -> Result<(), Trouble> {
        Ok(())
    }

    fn restart(&mut self) -> Result<(), Trouble> {
        self.before = None;
        Ok(())
    }
}
