//! What a CUDA submission launches for each operation.
//!
//! Its manifest says it, since a kernel alone does not tell with which grid it is to be started, or what memory it needs besides
//! inputs and outputs. [`Kernels`] is that part of the manifest, checked against the challenge: every name in it is a tensor, a
//! scalar or a dimension of the operation, or declared. [`Kernels::plan`] makes of it and a [`Call`](crate::Call) the launches of that call.
//!
//! ```toml
//! [operation.softmax_topk]
//! let = { splits = "ceil_div(V, 8192)" }                # numbers with a name
//! refuse = ["k > V"]                                    # calls that are refused before anything is launched
//! scratch.partial = { dtype = "float32", elements = "rows * splits * k" }
//!
//! [[operation.softmax_topk.launch]]                     # in order
//! kernel = "softmax_topk"                               # an `extern "C"` function of the entry
//! when = "dtype(logits) == float32 && k <= 32"          # left out: always
//! grid = ["rows", "splits"]
//! block = [256]
//! shared = "256 * 8"                                    # dynamic bytes; left out: 0
//! arguments = ["logits", "probs", "indices", "rows", "V", "int64: rows * V"]
//! ```
//!
//! An operation that makes a state says what it is made of: `state.NAME = { dtype, elements }` for memory of its own, and `keeps`
//! for inputs that stay where they are. Operations that use the state see these buffers under their names, and the numbers that
//! the making call knew.
//!
//! The names of an operation are its tensors, its scalars, the symbols in its shapes that every form of a shape has, `rows`: the product
//! of all axes but the last of its first tensor of two axes or more, and `multiprocessors`: how many the device has. `status` is an
//! `int32` of the judge's, zero before the call; what kernels leave there, if it is not zero, refuses the call.

mod expression;
mod names;
mod plan;
mod read;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::collections::BTreeMap;

pub use expression::{Expression, ExpressionError};
pub(crate) use names::Names;
pub use plan::{Buffer, GRID_MAX, Launch, Plan, PlanError, Role, State, Value};
pub(crate) use read::OperationDocument;

use crate::DType;

/// Name of the buffer by which kernels refuse a call.
pub const STATUS: &str = "status";
/// Most launches that a manifest may list for an operation.
pub const LAUNCHES_MAX: usize = 64;

/// What a CUDA submission launches, and the memory it needs for that.
#[derive(Debug, Clone, PartialEq)]
pub struct Kernels {
    procedures: BTreeMap<&'static str, Procedure>,
}

impl Kernels {
    /// The names of all kernels that may be launched, each once.
    pub fn names(&self) -> Vec<&str> {
        let mut names: Vec<_> = self
            .procedures
            .values()
            .flat_map(|procedure| procedure.launches.iter().map(|rule| rule.kernel.as_str()))
            .collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    /// What kernels are launched with, for all launches.
    pub fn signatures(&self) -> impl Iterator<Item = Signature<'_>> {
        self.procedures.iter().flat_map(|(operation, procedure)| {
            procedure.launches.iter().map(|rule| Signature {
                operation,
                kernel: &rule.kernel,
                arguments: rule.arguments.iter().map(Operand::told).collect(),
            })
        })
    }
}

/// What a kernel is launched with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Signature<'a> {
    /// The operation.
    pub operation: &'static str,
    /// The kernel.
    pub kernel: &'a str,
    /// The arguments.
    pub arguments: Vec<Told<'a>>,
}

/// What a kernel is launched with in one place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Told<'a> {
    /// As the manifest has it.
    pub text: Cow<'a, str>,
    /// Its bytes.
    pub size: usize,
    /// Whether it is a floating-point number.
    pub is_float: bool,
}

/// What is done for one operation.
#[derive(Debug, Clone, PartialEq)]
struct Procedure {
    /// Numbers with a name, in order; later ones may use earlier ones.
    constants: Vec<(String, Expression)>,
    /// Conditions under which a call is refused.
    refuses: Vec<Expression>,
    scratch: Vec<Declared>,
    state: Vec<Declared>,
    /// Inputs that the state refers to.
    keeps: Vec<String>,
    launches: Vec<Rule>,
}

/// Memory that the manifest asks for.
#[derive(Debug, Clone, PartialEq)]
struct Declared {
    name: String,
    element: Element,
    elements: Expression,
    zeroed: bool,
}

#[derive(Debug, Clone, PartialEq)]
enum Element {
    Of {
        bytes: u8,
    },
    /// That of a tensor.
    Like(String),
}

/// A launch, not yet for particular sizes.
#[derive(Debug, Clone, PartialEq)]
struct Rule {
    kernel: String,
    when: Option<Expression>,
    grid: Vec<Expression>,
    block: Vec<Expression>,
    shared: Option<Expression>,
    arguments: Vec<Operand>,
}

#[derive(Debug, Clone, PartialEq)]
enum Operand {
    Buffer(String),
    /// A scalar of the call that is no integer.
    Real {
        name: String,
        dtype: DType,
    },
    Number {
        value: Expression,
        dtype: DType,
    },
}

impl Operand {
    fn told(&self) -> Told<'_> {
        let (text, dtype) = match self {
            Self::Buffer(name) => (name.into(), DType::Int64),
            Self::Real { name, dtype } => (name.into(), *dtype),
            Self::Number { value, dtype } => (value.to_string().into(), *dtype),
        };
        let is_float = matches!(dtype, DType::Float32 | DType::Float64);
        Told { text, size: dtype.size_bytes(), is_float }
    }
}
