//! The description of a challenge: its operations, and what may be claimed about an implementation.

use crate::Claim;

/// A challenge: what is to be implemented, described once.
#[derive(Debug)]
pub struct Challenge {
    /// Name in manifests, folders and JSON.
    pub id: &'static str,
    /// Name for people.
    pub title: &'static str,
    /// What it asks, in one sentence.
    pub summary: &'static str,
    /// The operations, in the order in which they are first called.
    pub operations: &'static [Operation],
    /// Optional parts that a submission may claim to implement.
    pub capabilities: &'static [Capability],
    /// What a submission may claim about itself under `[claims]`.
    pub claims: &'static [&'static Claim],
}

/// One function of the contract.
#[derive(Debug)]
pub struct Operation {
    /// Name of the Python function; the C symbol is `tribunal_` and this.
    pub name: &'static str,
    /// What it computes, with the formula.
    pub doc: &'static str,
    /// Arguments, in order.
    pub inputs: &'static [Field],
    /// Results, in order.
    pub outputs: &'static [Field],
}

/// An argument or a result.
#[derive(Debug)]
pub struct Field {
    /// Its name in every language.
    pub name: &'static str,
    /// What it is.
    pub kind: Kind,
    /// One line on it.
    pub doc: &'static str,
}

/// What an argument or a result is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A tensor; the text gives its shape in symbols: `(B, T, D) or (rows, D)`.
    Tensor(&'static str),
    /// A double.
    Real,
    /// A 64-bit integer.
    Integer,
    /// Something only the submission understands: any object in Python, `void *` in C. As a result it is made,
    /// as an argument it is used.
    State,
}

/// An optional part of a challenge.
#[derive(Debug)]
pub struct Capability {
    /// Name in `capabilities`.
    pub name: &'static str,
    /// What claiming it promises.
    pub doc: &'static str,
}

impl Challenge {
    /// The operation of that name.
    pub fn operation(&self, name: &str) -> Option<&'static Operation> {
        self.operations.iter().find(|operation| operation.name == name)
    }

    /// The claim of that name.
    pub fn claim(&self, name: &str) -> Option<&'static Claim> {
        self.claims.iter().copied().find(|claim| claim.name == name)
    }
}

impl Operation {
    /// Whether the operation makes a state.
    pub fn makes_state(&self) -> bool {
        self.outputs.iter().any(|field| field.kind == Kind::State)
    }

    /// Whether the operation uses a state that another one made.
    pub fn uses_state(&self) -> bool {
        self.inputs.iter().any(|field| field.kind == Kind::State)
    }

    /// Its tensors with the forms of their shapes, inputs first.
    pub fn tensors(&self) -> impl Iterator<Item = (&'static str, Vec<Vec<&'static str>>)> {
        self.inputs.iter().chain(self.outputs).filter_map(|field| match field.kind {
            Kind::Tensor(shape) => Some((field.name, forms(shape))),
            _ => None,
        })
    }
}

/// The symbols of each form of a shape: `(B, T, D) or (rows, D)` has two.
fn forms(shape: &'static str) -> Vec<Vec<&'static str>> {
    let inside = |form: &'static str| form.trim().trim_start_matches('(').trim_end_matches(')');
    let symbols = |form| inside(form).split(',').map(str::trim).filter(|symbol| !symbol.is_empty()).collect();
    shape.split(" or ").map(symbols).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_fall_apart_into_symbols() {
        assert_eq!(forms("(B, T, D) or (rows, D)"), [vec!["B", "T", "D"], vec!["rows", "D"]]);
        assert_eq!(forms("(batch,)"), [["batch"]]);
        assert_eq!(forms("()"), [[""; 0]]);
    }
}
