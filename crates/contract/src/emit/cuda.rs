//! The CUDA starter: kernels, and what the manifest says of them.

use super::wrap;
use crate::launch::{Names, STATUS};
use crate::{Challenge, Field, Kind, Operation};

/// Kernels that refuse every call.
pub(super) fn starter(challenge: &Challenge) -> String {
    let mut text = format!("// {}: {}\n", challenge.title, challenge.summary);
    text += &wrap(
        "Device code only: the manifest says with which grid and which arguments each kernel is launched. Tensors lie in device memory, \
         row-major. Inputs are not to be written to; write every element of the outputs.",
        110,
        "// ",
    );
    for operation in challenge.operations {
        text += "\n";
        text += &wrap(operation.doc, 110, "// ");
        let parameters: Vec<_> = arguments(operation).iter().map(|argument| argument.parameter()).collect();
        text += &format!(
            "extern \"C\" __global__ void {}({}) {{\n    // Not written yet: a status that is not zero refuses the call.\n    \
             if (blockIdx.x == 0 && threadIdx.x == 0) *{STATUS} = 1;\n}}\n",
            operation.name,
            parameters.join(", ")
        );
    }
    text
}

/// The part of the manifest that launches them.
pub(super) fn launches(challenge: &Challenge) -> String {
    let mut text = "\n# What is launched for each operation, in order. Sizes are expressions of its numbers and of `multiprocessors`, how many the\n\
                    # device has: + - * / %, comparisons, c ? a : b, min, max, ceil_div(a, b), dtype(x), elements(x).\n"
        .to_owned();
    for operation in challenge.operations {
        let names = Names::of(operation);
        let listed = |names: &std::collections::BTreeSet<String>| {
            names.iter().map(String::as_str).collect::<Vec<_>>().join(", ")
        };
        text += &format!("\n[operation.{}]\n", operation.name);
        if !names.numbers.is_empty() {
            text += &format!("# numbers: {}\n", listed(&names.numbers));
        }
        text += "# refuse = [\"…\"]   # calls that are not to be answered: sizes that do not fit each other, dtypes that you do not claim\n";
        text += "# scratch.NAME = { dtype = \"float32\", elements = \"…\" }   # memory for one call\n";
        if operation.makes_state() {
            text += "# state.NAME = { dtype = \"float32\", elements = \"…\", zeroed = true }   # memory that the state is made of\n";
        }
        let kept = operation.inputs.iter().find(|field| matches!(field.kind, Kind::Tensor(_)));
        if let Some(kept) = kept.filter(|_| operation.makes_state()) {
            text += &format!("# keeps = [\"{}\"]   # inputs that the state refers to\n", kept.name);
        }
        let grid = if names.numbers.contains("rows") { "\"rows\"" } else { "1" };
        let arguments: Vec<_> =
            arguments(operation).iter().map(|argument| format!("\"{}\"", argument.name)).collect();
        text += &format!(
            "[[operation.{0}.launch]]\nkernel = \"{0}\"\ngrid = [{grid}]\nblock = [256]\narguments = [{1}]\n",
            operation.name,
            arguments.join(", ")
        );
    }
    text
}

/// What there is to name, for the contract's page.
pub(super) fn names(challenge: &Challenge) -> String {
    let mut text = String::new();
    for operation in challenge.operations {
        let names = Names::of(operation);
        let all: Vec<_> = names
            .tensors
            .iter()
            .chain(&names.numbers)
            .chain(&names.reals)
            .map(|name| format!("`{name}`"))
            .collect();
        text += &format!(
            "- `{}`: {}\n",
            operation.name,
            if all.is_empty() { "–".to_owned() } else { all.join(", ") }
        );
    }
    text
}

struct KernelArgument {
    name: String,
    /// The C type, with what stands before the name.
    before: &'static str,
}

impl KernelArgument {
    fn parameter(&self) -> String {
        format!("{}{}", self.before, self.name)
    }
}

/// The tensors in order, the numbers, the status.
fn arguments(operation: &Operation) -> Vec<KernelArgument> {
    let tensor = |field: &Field, types: [&'static str; 2]| KernelArgument {
        name: field.name.to_owned(),
        before: types[usize::from(field.doc.contains("int64"))],
    };
    let is_tensor = |field: &&Field| matches!(field.kind, Kind::Tensor(_));
    let inputs = operation.inputs.iter().filter(is_tensor);
    let outputs = operation.outputs.iter().filter(is_tensor);
    let names = Names::of(operation);
    let mut arguments: Vec<_> = inputs
        .map(|field| tensor(field, ["const float *", "const long long *"]))
        .chain(outputs.map(|field| tensor(field, ["float *", "long long *"])))
        .collect();
    let scalars = |names: std::collections::BTreeSet<String>, before| {
        names.into_iter().map(move |name| KernelArgument { name, before })
    };
    arguments.extend(scalars(names.numbers, "int "));
    arguments.extend(scalars(names.reals, "float "));
    arguments.push(KernelArgument { name: STATUS.to_owned(), before: "int *" });
    arguments
}
