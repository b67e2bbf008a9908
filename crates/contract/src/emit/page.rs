//! The contract as a page to read.

use super::{c, claims, cuda, wrap};
use crate::{Challenge, Field, Kind};

/// What `tribunal challenges <id>` prints of the contract, in Markdown.
pub fn page(challenge: &Challenge) -> String {
    let mut text = format!("# {}\n\n{}\n", challenge.title, wrap(challenge.summary, 100, ""));
    for operation in challenge.operations {
        let names = |fields: &[Field]| fields.iter().map(|field| field.name).collect::<Vec<_>>().join(", ");
        text += &format!(
            "## `{}({}){}`\n\n{}\n",
            operation.name,
            names(operation.inputs),
            if operation.outputs.is_empty() {
                String::new()
            } else {
                format!(" -> ({})", names(operation.outputs))
            },
            wrap(operation.doc, 100, "")
        );
        for field in operation.inputs.iter().chain(operation.outputs) {
            let kind = match field.kind {
                Kind::Tensor(shape) => shape,
                Kind::Real => "number",
                Kind::Integer => "integer",
                Kind::State => "opaque",
            };
            text += &format!("- `{}` {kind}: {}\n", field.name, field.doc);
        }
        text += "\n";
    }
    text += "Tensors are float32 unless a capability says more. Refuse what you cannot answer: raise an exception in \
             Python, return non-zero in C, say when with `refuse` in a manifest for CUDA. A refusal of valid input is a failure, and so is an answer to invalid input.\n";
    if !challenge.capabilities.is_empty() {
        text += "\n## Capabilities\n\n";
        for capability in challenge.capabilities {
            text += &format!("- `{}`: {}\n", capability.name, capability.doc);
        }
    }
    if !challenge.claims.is_empty() {
        text += "\n## Claims\n\nUnder `[claims]` of the manifest, all optional. Each is upheld, refuted or untestable; *analysis* is the share of the \
                 decided ones that are upheld.\n\n";
        text += &claims::list(challenge);
    }
    text += "\n## Your own tests\n\n";
    text += &wrap(TESTS, 100, "");
    text += &format!(
        "\n## In C, C++, Rust or anything with a C ABI\n\n{}\n```c\n{}```\n",
        wrap(&c::calling(), 100, ""),
        c::header(challenge)
    );
    text += &format!(
        "\n## In CUDA\n\n{}\n{}",
        wrap(
            "Device code only. The manifest says for each operation which kernels are launched, with which grid and which arguments; it \
             may name these, `status`, and what it declares itself. `rows` is the product of all axes but the last of the first tensor \
             with two or more, `multiprocessors` how many the device has. `CUDA.md`, which `tribunal new --language cuda` lays out \
             (Tribunal's `docs/cuda.md`), has the whole of it: `refuse`, `let`, `when`, \
             `shared`, `scratch`, `state`, `keeps`. Tests of your own are not weighed yet.",
            100,
            ""
        ),
        cuda::names(challenge)
    );
    text
}

/// What own tests must keep to, so that something else can be put in the implementation's place.
const TESTS: &str = "`tests` in the manifest is the command that runs them, in the submission's folder: `python -m pytest -q`, `cargo test`, `cc \
                     tests.c submission.c -lm -o t && ./t`. They are run on your code, where they must pass, and then with right and with \
                     defective code in place of `entry` (of the library's root in Rust); the share of the defects that they notice is a \
                     score. So they call operations by their names here, ask for what is said here and no more, and lie in files of their own.";
