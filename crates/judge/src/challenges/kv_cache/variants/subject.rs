//! A variant where a submission would stand.

use std::collections::HashMap;

use tribunal_contract::{Answer, Argument, Call, DType, Fault, StateId, Tensor};
use tribunal_runner::Trouble;

use super::attention::Query;
use super::cache::Cache;
use super::{Defect, Style};
use crate::Subject;

/// A variant on trial.
pub(super) struct InProcess {
    style: Style,
    defect: Option<Defect>,
    caches: HashMap<StateId, Cache>,
}

impl InProcess {
    /// Puts a variant where a submission would stand.
    pub(super) fn new(style: Style, defect: Option<Defect>) -> Self {
        Self { style, defect, caches: HashMap::new() }
    }

    fn answer(&mut self, call: &Call<'_>) -> Result<Vec<Tensor>, Fault> {
        let refused = |message: String| Fault::Refused { message };
        if call.operation == "create" {
            let numbers: Vec<i64> = call.inputs.iter().map(integer).collect();
            let cache = Cache::new(&numbers, self.style, self.defect)
                .ok_or_else(|| refused("no such cache".to_owned()))?;
            self.caches.insert(call.makes.expect("create makes a state"), cache);
            return Ok(Vec::new());
        }
        let Argument::State(state) = call.inputs[0] else { panic!("{} is of a cache", call.operation) };
        let state = match self.defect {
            Some(Defect::NewestCacheForAll) => self.caches.keys().copied().max().unwrap_or(state),
            _ => state,
        };
        let cache = self.caches.get_mut(&state).expect("the state was made");
        let inputs = &call.inputs[1..];
        match call.operation {
            "append" => {
                let (k, v, counts) = (floats(&inputs[1]), floats(&inputs[2]), counts(&inputs[3]));
                if self.defect == Some(Defect::RefusesRagged)
                    && counts.iter().any(|&count| count != counts[0])
                {
                    return Err(refused("lengths differ".to_owned()));
                }
                let t = k.len() / (cache.batch * cache.kv_heads * cache.dim);
                cache.append(integer(&inputs[0]) as usize, &k, &v, t, &counts).map_err(refused)?;
                Ok(Vec::new())
            }
            "attend" => {
                let (q, counts) = (floats(&inputs[1]), counts(&inputs[2]));
                let layer = integer(&inputs[0]) as usize;
                let out = attend(cache, layer, &q, &counts, self.style, self.defect);
                if let Some(Defect::MergedOnce(most)) = self.defect {
                    cache.merged |= cache.lengths[layer].iter().any(|&length| length > most);
                }
                let bytes = out.iter().flat_map(|out| out.to_ne_bytes()).collect();
                Ok(vec![Tensor::from_bytes(call.outputs[0].clone(), bytes)])
            }
            "lengths" => {
                let lengths = if self.defect == Some(Defect::LengthsOfFirstLayer) {
                    cache.lengths[0].repeat(cache.layers)
                } else {
                    cache.lengths.concat()
                };
                let lengths: Vec<f64> = lengths.iter().map(|&length| length as f64).collect();
                Ok(vec![Tensor::from_f64(DType::Int64, call.outputs[0].shape.clone(), &lengths)])
            }
            "clear" => {
                cache.clear(integer(&inputs[0]) as usize);
                Ok(Vec::new())
            }
            "fork" => {
                cache.fork(integer(&inputs[0]) as usize, integer(&inputs[1]) as usize);
                Ok(Vec::new())
            }
            "nbytes" => Ok(vec![Tensor::from_f64(DType::Int64, [], &[cache.bytes() as f64])]),
            other => panic!("{other} is not in the contract"),
        }
    }
}

fn attend(
    cache: &Cache,
    layer: usize,
    q: &[f32],
    counts: &[usize],
    style: Style,
    defect: Option<Defect>,
) -> Vec<f32> {
    let Cache { batch, heads, dim, .. } = *cache;
    let t = q.len() / (batch * heads * dim);
    // Nobody looks behind the queries.
    let mut out = vec![f32::NAN; q.len()];
    for (sequence, &count) in counts.iter().enumerate() {
        for head in 0..heads {
            for index in 0..count {
                let start = ((sequence * heads + head) * t + index) * dim;
                let range = start..start + dim;
                let query = Query { q: &q[range.clone()], layer, sequence, head, index, count };
                let row = match defect {
                    Some(Defect::Zeros) => vec![0.0; dim],
                    Some(Defect::MergedOnce(most))
                        if cache.merged && cache.lengths[layer][sequence] > most =>
                    {
                        vec![0.0; dim]
                    }
                    _ if style.wide => query.answer::<f64>(cache, style, defect),
                    _ => query.answer::<f32>(cache, style, defect),
                };
                // No keys, no output.
                for (out, value) in out[range].iter_mut().zip(row.into_iter().chain(std::iter::repeat(0.0))) {
                    *out = value;
                }
            }
        }
    }
    out
}

fn integer(argument: &Argument<'_>) -> i64 {
    let Argument::Integer(value) = argument else { panic!("expected an integer") };
    *value
}

fn floats(argument: &Argument<'_>) -> Vec<f32> {
    let Argument::Tensor(tensor) = argument else { panic!("expected a tensor") };
    tensor.to_f64().into_iter().map(|value| value as f32).collect()
}

fn counts(argument: &Argument<'_>) -> Vec<usize> {
    floats(argument).into_iter().map(|count| count as usize).collect()
}

impl Subject for InProcess {
    fn call(&mut self, call: &Call<'_>) -> Result<Answer, Trouble> {
        let modified = self.defect == Some(Defect::WritesKeys) && call.operation == "append";
        Ok(Answer {
            outputs: self.answer(call)?,
            wall_s: 0.0,
            cpu_s: 0.0,
            inputs_changed: if modified { vec![2] } else { Vec::new() },
            wrote_outside: false,
            disturbed: Vec::new(),
            changed_late: false,
        })
    }

    fn release(&mut self, state: StateId) -> Result<(), Trouble> {
        self.caches.remove(&state);
        Ok(())
    }

    fn restart(&mut self) -> Result<(), Trouble> {
        self.caches.clear();
        Ok(())
    }
}
