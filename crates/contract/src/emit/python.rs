//! The Python starter.

use super::wrap;
use crate::{Challenge, Field, Kind};

/// A module whose functions all refuse.
pub(super) fn starter(challenge: &Challenge) -> String {
    let mut text = format!("\"\"\"{}.\n\n", challenge.title);
    text += &wrap(challenge.summary, 100, "");
    text += "\nArrays are numpy arrays, row-major. Do not write to an argument, nor to what you returned before. Raise an exception to refuse an input.\n\"\"\"\n\nimport numpy as np\n";
    for operation in challenge.operations {
        let names = |fields: &[Field]| fields.iter().map(|field| field.name).collect::<Vec<_>>().join(", ");
        text += &format!("\n\ndef {}({}):\n    \"\"\"", operation.name, names(operation.inputs));
        text += wrap(operation.doc, 100, "    ").trim_start();
        text += "\n";
        for field in operation.inputs {
            text += &line(field);
        }
        text += &match operation.outputs {
            [] => "\n    Returns nothing.\n".to_owned(),
            outputs => format!("\n    Returns ({}):\n", names(outputs)),
        };
        for field in operation.outputs {
            text += &line(field);
        }
        text += "    \"\"\"\n    raise NotImplementedError\n";
    }
    text
}

fn line(field: &Field) -> String {
    let kind = match field.kind {
        Kind::Tensor(shape) => format!("array {shape}"),
        Kind::Real => "float".to_owned(),
        Kind::Integer => "int".to_owned(),
        Kind::State => "any object".to_owned(),
    };
    format!("    {}: {kind}; {}\n", field.name, field.doc)
}
