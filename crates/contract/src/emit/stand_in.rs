//! What stands in for an implementation while a submission's tests are on trial: a file with the contract's names in it and nothing
//! behind them. Every call goes through a socket to a process that holds a right or a defective implementation, so there is no source
//! by which tests could tell the two apart.
//!
//! A frame is its length in a `u32` and then, numbers in the machine's byte order:
//!
//! - there: the operation's index in a `u32`, [`RELEASE`] to free a state; the inputs in order; 1 and the types and shapes of the tensors
//!   among the outputs, or 0 where the caller does not know them;
//! - back: 0, which input is to be spoilt (from 1; 0 for none), and the outputs in order; or 1 and the text of a refusal.
//!
//! A tensor is its dtype (an index into [`DType::ALL`](crate::DType::ALL)), its number of axes, an `i64` for each extent, and its elements; a
//! state is a `u32`.

use super::rust;
use crate::{Challenge, Field, Kind, Operation};

/// In place of an operation's index: frees the state that follows.
pub const RELEASE: u32 = u32::MAX;

/// The variable that names the socket's descriptor.
pub const SOCKET_VARIABLE: &str = "TRIBUNAL_STAND_IN";

/// A Python module.
pub fn python(challenge: &Challenge) -> String {
    let mut text = PYTHON.replace("SOCKET_VARIABLE", SOCKET_VARIABLE);
    for (index, operation) in challenge.operations.iter().enumerate() {
        let names: Vec<&str> = operation.inputs.iter().map(|field| field.name).collect();
        let kinds = |fields: &[Field]| fields.iter().map(|field| letter(field.kind)).collect::<String>();
        text += &format!(
            "\n\ndef {}({}):\n    return _call({index}, \"{}\", ({}), \"{}\")\n",
            operation.name,
            names.join(", "),
            kinds(operation.inputs),
            names.iter().map(|name| format!("{name},")).collect::<Vec<_>>().join(" "),
            kinds(operation.outputs)
        );
    }
    text
}

fn letter(kind: Kind) -> char {
    match kind {
        Kind::Tensor(_) => 't',
        Kind::Real => 'r',
        Kind::Integer => 'i',
        Kind::State => 's',
    }
}

/// A source in C, which is one in C++ too; it includes the [header](super::c_header).
pub fn c_source(challenge: &Challenge) -> String {
    let mut text = C.replace("SOCKET_VARIABLE", SOCKET_VARIABLE);
    for (index, operation) in challenge.operations.iter().enumerate() {
        text += &format!(
            "\nint32_t tribunal_{0}(tribunal_{0}_args *args) {{\n    stand_in_frame f = stand_in_begin({index});\n",
            operation.name
        );
        text += &calls(operation, "    stand_in_", "args->", "&f", ";\n");
        text += "    return stand_in_end(&f);\n}\n";
    }
    if makes_states(challenge) {
        text += "\nvoid tribunal_release(void *state) {\n    stand_in_frame f = stand_in_begin(UINT32_MAX);\n    \
                 stand_in_put_state(&f, state);\n    stand_in_go(&f, NULL);\n    stand_in_end(&f);\n}\n";
    }
    text
}

/// The root of a Rust library, the contract in it.
pub fn rust_library(challenge: &Challenge) -> String {
    let contract = rust::contract(challenge).replace("//! ", "// ").replace("//!\n", "\n");
    let contract = contract.replace("#![allow(dead_code)]\n", "");
    let mut text = format!(
        "#![allow(warnings, clippy::all)]\npub mod contract {{\n{contract}}}\npub use contract::*;\n{}",
        RUST.replace("SOCKET_VARIABLE", SOCKET_VARIABLE)
    );
    for (index, operation) in challenge.operations.iter().enumerate() {
        text += &format!(
            "\n#[unsafe(no_mangle)]\npub unsafe extern \"C\" fn tribunal_{}(args: *mut {}Args) -> i32 {{\n    \
             let args = unsafe {{ &mut *args }};\n    let mut f = Frame::begin({index});\n",
            operation.name,
            rust::camel(operation.name)
        );
        text += &calls(operation, "    unsafe { stand_in_", "args.", "&mut f", " };\n");
        text += "    f.status\n}\n";
    }
    if makes_states(challenge) {
        text += "\n#[unsafe(no_mangle)]\npub unsafe extern \"C\" fn tribunal_release(state: *mut std::ffi::c_void) {\n    \
                 let mut f = Frame::begin(u32::MAX);\n    unsafe { stand_in_put_state(&mut f, state) };\n    \
                 unsafe { stand_in_go(&mut f, std::ptr::null_mut()) };\n}\n";
    }
    text
}

fn makes_states(challenge: &Challenge) -> bool {
    challenge.operations.iter().any(Operation::makes_state)
}

/// What is put, asked and taken, the same in C and in Rust.
fn calls(operation: &Operation, before: &str, args: &str, frame: &str, after: &str) -> String {
    let mut text = String::new();
    let mut call = |what: String| text += &format!("{before}{what}{after}");
    for field in operation.inputs {
        let kind = name(field.kind);
        call(format!("put_{kind}({frame}, {args}{})", field.name));
    }
    call(format!("put_known({frame})"));
    let outputs = || operation.outputs.iter().filter(|field| matches!(field.kind, Kind::Tensor(_)));
    outputs().for_each(|field| call(format!("put_spec({frame}, {args}{})", field.name)));
    call(format!("go({frame}, {args}message)"));
    let inputs = operation.inputs.iter().enumerate();
    for (index, field) in inputs.filter(|(_, field)| matches!(field.kind, Kind::Tensor(_))) {
        call(format!("spoil({frame}, {}, {args}{})", index + 1, field.name));
    }
    for field in operation.outputs {
        let reference = if field.kind == Kind::State && before.contains("unsafe") {
            "&mut "
        } else if field.kind == Kind::State {
            "&"
        } else {
            ""
        };
        call(format!("take_{}({frame}, {reference}{args}{})", name(field.kind), field.name));
    }
    text
}

fn name(kind: Kind) -> &'static str {
    match kind {
        Kind::Tensor(_) => "tensor",
        Kind::Real => "real",
        Kind::Integer => "integer",
        Kind::State => "state",
    }
}

const PYTHON: &str = include_str!("stand_in.py");
const C: &str = include_str!("stand_in.c");
const RUST: &str = include_str!("stand_in.rs.txt");

#[cfg(test)]
mod tests {
    use super::*;
    use crate::challenges;

    #[test]
    fn every_name_of_the_contract_is_there() {
        for challenge in challenges::ALL {
            let (python, c, rust) = (python(challenge), c_source(challenge), rust_library(challenge));
            for operation in challenge.operations {
                assert!(python.contains(&format!("\ndef {}(", operation.name)));
                assert!(c.contains(&format!("int32_t tribunal_{}(", operation.name)));
                assert!(rust.contains(&format!("fn tribunal_{}(", operation.name)));
            }
        }
    }
}
