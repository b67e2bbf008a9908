//! What expressions and arguments may name, and what the names stand for in a call.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::expression::{Expression, ExpressionError, Term};
use crate::{Argument, Call, DType, Kind, Operation, TensorSpec};

/// The product of all axes but the last of the first tensor that has two axes or more.
const ROWS: &str = "rows";
/// How many multiprocessors the device has that the kernels run on.
const MULTIPROCESSORS: &str = "multiprocessors";

/// The names of an operation, before any call.
#[derive(Debug, Clone, Default)]
pub(crate) struct Names {
    pub(crate) numbers: BTreeSet<String>,
    pub(crate) reals: BTreeSet<String>,
    pub(crate) tensors: BTreeSet<String>,
}

impl Names {
    pub(crate) fn of(operation: &Operation) -> Self {
        let mut names = Self::default();
        for (name, forms) in operation.tensors() {
            names.tensors.insert(name.to_owned());
            if forms.iter().all(|form| form.len() >= 2) {
                names.numbers.insert(ROWS.to_owned());
            }
            let (first, others) = forms.split_first().expect("a shape has a form");
            let common = first.iter().filter(|symbol| others.iter().all(|form| form.contains(symbol)));
            names.numbers.extend(common.map(|&symbol| symbol.to_owned()));
        }
        for field in operation.inputs {
            match field.kind {
                Kind::Integer => drop(names.numbers.insert(field.name.to_owned())),
                Kind::Real => drop(names.reals.insert(field.name.to_owned())),
                Kind::Tensor(_) | Kind::State => {}
            }
        }
        names
    }

    /// Those that a manifest may use: what is known of the device too.
    pub(super) fn on_a_device(mut self) -> Self {
        self.numbers.insert(MULTIPROCESSORS.to_owned());
        self
    }

    pub(super) fn extend(&mut self, other: &Self) {
        self.numbers.extend(other.numbers.iter().cloned());
        self.reals.extend(other.reals.iter().cloned());
        self.tensors.extend(other.tensors.iter().cloned());
    }

    /// Requires that the expression names nothing else.
    pub(super) fn check(&self, expression: &Expression) -> Result<(), ExpressionError> {
        let knows = |term: Term<'_>| match term {
            Term::Name(name) => self.numbers.contains(name) || dtype_number(name).is_some(),
            Term::DType(name) | Term::Elements(name) => self.tensors.contains(name),
        };
        expression.check(&knows, &|term| match term {
            Term::Name(name) if self.reals.contains(name) => {
                format!("`{name}` is no integer: it can only be an argument")
            }
            Term::Name(name) => format!("unknown number `{name}`, expected {}", listed(&self.numbers)),
            Term::DType(name) | Term::Elements(name) => {
                format!("unknown tensor `{name}`, expected {}", listed(&self.tensors))
            }
        })
    }
}

pub(super) fn listed<'a>(names: impl IntoIterator<Item = &'a String>) -> String {
    let names: Vec<_> = names.into_iter().map(|name| format!("`{name}`")).collect();
    if names.is_empty() { "none: there are none here".to_owned() } else { names.join(", ") }
}

/// What the names stand for in a call.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Values {
    pub(super) numbers: BTreeMap<String, i64>,
    pub(super) reals: BTreeMap<String, f64>,
    tensors: BTreeMap<String, (DType, i64)>,
}

impl Values {
    /// Those of a call on a device, and behind them those of the call that made its state.
    ///
    /// # Panics
    /// If the call is none of this operation, or its state is of another device.
    pub(super) fn of(
        operation: &'static Operation,
        call: &Call<'_>,
        state: Option<&Self>,
        multiprocessors: i32,
    ) -> Self {
        let mut values = Self::default();
        values.numbers.insert(MULTIPROCESSORS.to_owned(), multiprocessors.into());
        assert_eq!(operation.inputs.len(), call.inputs.len(), "arguments of {}", operation.name);
        for (field, argument) in operation.inputs.iter().zip(&call.inputs) {
            match argument {
                Argument::Tensor(_) | Argument::State(_) => {}
                Argument::Real(value) => drop(values.reals.insert(field.name.to_owned(), *value)),
                Argument::Integer(value) => drop(values.numbers.insert(field.name.to_owned(), *value)),
            }
        }
        let specs = call.inputs.iter().filter_map(|argument| match argument {
            Argument::Tensor(tensor) => Some(tensor.spec()),
            _ => None,
        });
        for ((name, forms), spec) in operation.tensors().zip(specs.chain(&call.outputs)) {
            values.add_tensor(name, &forms, spec);
        }
        if let Some(state) = state {
            let [before, now] = [state, &values].map(|values| values.numbers[MULTIPROCESSORS]);
            assert_eq!(before, now, "multiprocessors of the state's device");
            for (name, value) in &state.numbers {
                values.numbers.entry(name.clone()).or_insert(*value);
            }
            for (name, value) in &state.reals {
                values.reals.entry(name.clone()).or_insert(*value);
            }
            for (name, value) in &state.tensors {
                values.tensors.entry(name.clone()).or_insert(*value);
            }
        }
        values
    }

    fn add_tensor(&mut self, name: &str, forms: &[Vec<&str>], spec: &TensorSpec) {
        let extent = |extent: usize| i64::try_from(extent).unwrap_or(i64::MAX);
        self.tensors.insert(name.to_owned(), (spec.dtype, extent(spec.len())));
        if let Some((_, leading)) = spec.shape.split_last().filter(|(_, leading)| !leading.is_empty()) {
            self.numbers.entry(ROWS.to_owned()).or_insert(extent(leading.iter().product()));
        }
        if let Some(form) = forms.iter().find(|form| form.len() == spec.shape.len()) {
            for (symbol, &axis) in form.iter().zip(&spec.shape) {
                self.numbers.entry((*symbol).to_owned()).or_insert(extent(axis));
            }
        }
    }

    pub(super) fn look_up(&self, term: Term<'_>) -> Option<i64> {
        match term {
            Term::Name(name) => self.numbers.get(name).copied().or_else(|| dtype_number(name)),
            Term::DType(name) => self.tensors.get(name).and_then(|(dtype, _)| dtype_number(dtype.name())),
            Term::Elements(name) => self.tensors.get(name).map(|(_, elements)| *elements),
        }
    }

    pub(super) fn evaluate(&self, expression: &Expression) -> Result<i64, ExpressionError> {
        expression.evaluate(&|term| self.look_up(term))
    }

    pub(super) fn dtype(&self, tensor: &str) -> Option<DType> {
        self.tensors.get(tensor).map(|(dtype, _)| *dtype)
    }
}

/// The number that stands for an element type in expressions; only good for being compared.
fn dtype_number(name: &str) -> Option<i64> {
    DType::ALL.iter().position(|dtype| dtype.name() == name).map(|index| index as i64)
}
