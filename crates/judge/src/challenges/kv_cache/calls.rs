//! The calls, as they are made.

use tribunal_contract::{Argument, Call, DType, StateId, Tensor, TensorSpec};

use super::config::Config;

pub(super) fn create(config: &Config, cache: StateId) -> Call<'static> {
    Call { operation: "create", inputs: config.arguments(), outputs: vec![], makes: Some(cache) }
}

pub(super) fn append<'a>(
    cache: StateId,
    layer: usize,
    [k, v]: [&'a Tensor; 2],
    lengths: &'a Tensor,
) -> Call<'a> {
    let inputs = [k, v, lengths].map(Argument::Tensor);
    let inputs =
        [Argument::State(cache), Argument::Integer(layer as i64)].into_iter().chain(inputs).collect();
    Call { operation: "append", inputs, outputs: vec![], makes: None }
}

/// The output is like the queries.
pub(super) fn attend<'a>(cache: StateId, layer: usize, q: &'a Tensor, lengths: &'a Tensor) -> Call<'a> {
    let inputs = [q, lengths].map(Argument::Tensor);
    let inputs =
        [Argument::State(cache), Argument::Integer(layer as i64)].into_iter().chain(inputs).collect();
    let outputs = vec![TensorSpec::new(DType::Float32, q.shape())];
    Call { operation: "attend", inputs, outputs, makes: None }
}

/// A call with a cache and numbers, which answers with a tensor of integers of that shape, or nothing.
pub(super) fn of_cache(
    operation: &'static str,
    cache: StateId,
    numbers: &[usize],
    answer: Option<&[usize]>,
) -> Call<'static> {
    let numbers = numbers.iter().map(|&number| Argument::Integer(number as i64));
    let inputs = std::iter::once(Argument::State(cache)).chain(numbers).collect();
    let outputs = answer.into_iter().map(|shape| TensorSpec::new(DType::Int64, shape)).collect();
    Call { operation, inputs, outputs, makes: None }
}

/// How many tokens of each sequence are meant.
pub(super) fn lengths(counts: &[usize]) -> Tensor {
    let values: Vec<f64> = counts.iter().map(|&count| count as f64).collect();
    Tensor::from_f64(DType::Int64, [counts.len()], &values)
}
