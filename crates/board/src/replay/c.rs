//! The reproducer for a submission with a C ABI.

use std::fmt::Write;

use tribunal_contract::abi::DLDataType;
use tribunal_contract::{DType, Kind, Language, StateId, Tensor, TensorSpec, emit};
use tribunal_judge::ArgumentRecord;

use super::Replay;
use super::plan::{Plan, PlannedCall, Wanted};
use crate::clean;

const HELPERS: &str = include_str!("helpers.c");

/// With more elements than this in all arrays together, they are read from files.
const LITERAL_ELEMENTS_MAX: usize = 4096;

/// `reproduce.c` and the raw arrays that it reads.
pub(super) struct Source {
    pub(super) text: String,
    pub(super) arrays: Vec<(String, Vec<u8>)>,
}

/// Everything that one source is made of.
struct Writer {
    /// Whether arrays stand in the source.
    literal: bool,
    /// Definitions of the arrays.
    data: String,
    /// The body of `main`.
    main: String,
    arrays: Vec<(String, Vec<u8>)>,
}

pub(super) fn source(replay: &Replay<'_>, plan: &Plan<'_>) -> Source {
    let elements: usize = plan.arrays().iter().map(|array| array.tensor.len()).sum();
    let mut writer = Writer {
        literal: elements <= LITERAL_ELEMENTS_MAX,
        data: String::new(),
        main: String::new(),
        arrays: Vec::new(),
    };
    for call in &plan.calls {
        writer.call(call, plan.has_oracle());
    }
    let mut text = String::new();
    for line in super::head(replay, plan).iter().chain(&how(replay)) {
        // Quotes or a full stop end every line of ours, and never a backslash, which would swallow the next.
        let _ = writeln!(text, "// {}", clean::line(line));
    }
    text += "\n";
    text += &emit::c_header(replay.challenge);
    text += "\n";
    text += HELPERS;
    text += "\n";
    text += &writer.data;
    text += "\nint main(void) {\n    static char message[TRIBUNAL_MESSAGE_BYTES];\n    (void)message;\n";
    let states = plan.calls.iter().filter_map(|call| call.makes);
    for state in states {
        let _ = writeln!(text, "    void *state_{} = NULL;", state.0);
    }
    text += &writer.main;
    text += "    return finish();\n}\n";
    Source { text, arrays: writer.arrays }
}

fn how(replay: &Replay<'_>) -> Vec<String> {
    let run = "Run this in its own folder:".to_owned();
    let mut lines =
        vec![String::new(), run, String::new(), format!("    {} ", command(replay)), String::new()];
    lines.push("For out-of-bounds reads and writes, add -g -fsanitize=address,undefined.".to_owned());
    lines
}

/// Builds the reproducer with the submission and runs it.
pub(super) fn command(replay: &Replay<'_>) -> String {
    let folder = replay.folder.to_string_lossy();
    let entry = shell(&replay.folder.join(replay.entry).to_string_lossy());
    let cc = "cc -std=gnu17 -O3 -march=native -pthread -I.";
    let run = "-lm -o reproduce && ./reproduce";
    if replay.language == Language::Rust {
        return format!(
            "RUSTFLAGS=-Ctarget-cpu=native cargo build --release --target-dir build --manifest-path {entry} && \
             {cc} reproduce.c build/release/*.so -Wl,-rpath,\"$PWD/build/release\" {run}"
        );
    }
    match replay.entry.extension().and_then(|extension| extension.to_str()) {
        Some("so" | "dylib") => {
            let beside = replay.folder.join(replay.entry);
            let beside = beside.parent().unwrap_or(replay.folder).to_string_lossy();
            format!("{cc} reproduce.c {entry} -Wl,-rpath,{} {run}", shell(&beside))
        }
        Some("cc" | "cpp" | "cxx" | "C") => format!(
            "{cc} -c reproduce.c && c++ -std=gnu++20 -O3 -march=native -pthread -I. -I{} reproduce.o {entry} {run}",
            shell(&folder)
        ),
        _ => format!("{cc} -I{} reproduce.c {entry} {run}", shell(&folder)),
    }
}

/// A word for a shell. A path that a person could not see for what it is becomes a name to be filled in.
fn shell(word: &str) -> String {
    if clean::line(word) != word {
        return "PATH_OF_THE_SUBMISSION".to_owned();
    }
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+=:,".contains(c);
    if word.chars().all(plain) { word.to_owned() } else { format!("'{}'", word.replace('\'', "'\\''")) }
}

impl Writer {
    fn call(&mut self, call: &PlannedCall<'_>, oracle: bool) {
        let (number, operation) = (call.number, call.operation);
        let args = format!("args_{number}");
        let title = format!("\"call {number}, {}\"", operation.name);
        let mut setting = String::new();
        let mut inputs = Vec::new();
        for &(field, argument) in &call.arguments {
            let value = match argument {
                ArgumentRecord::Tensor(tensor) => {
                    let name = format!("{field}_{number}");
                    self.input(&name, &call.stem("input", field), tensor);
                    inputs.push((field, name.clone()));
                    format!("&{name}")
                }
                ArgumentRecord::Real(value) => double(*value),
                ArgumentRecord::Integer(value) => integer(*value),
                ArgumentRecord::State(state) => format!("state_{}", state.0),
            };
            let _ = writeln!(setting, "    {args}.{field} = {value};");
        }
        for result in &call.results {
            let name = format!("{}_{number}", result.name);
            self.tensor(&name, result.spec, None);
            let _ = writeln!(setting, "    memset({name}_data, 0xff, sizeof {name}_data);");
            let _ = writeln!(setting, "    {args}.{} = &{name};", result.name);
        }
        let _ = write!(self.main, "\n    tribunal_{0}_args {args} = {{0}};\n{setting}", operation.name);
        let _ = writeln!(self.main, "    {args}.message = message;");
        for (_, name) in &inputs {
            let _ = writeln!(self.main, "    memcpy({name}_before, {name}_data, sizeof {name}_data);");
        }
        let _ = writeln!(self.main, "    if (tribunal_{}(&{args}) != 0) {{", operation.name);
        let _ = writeln!(
            self.main,
            "        printf(\"%s: refused: %.*s\\n\", {title}, TRIBUNAL_MESSAGE_BYTES, message);"
        );
        if !call.may_refuse {
            let _ = writeln!(self.main, "        problem({title}, \"refused\");\n        return finish();");
        }
        self.main += "    } else {\n";
        self.answered(call, &args, &title, oracle);
        self.main += "    }\n";
        self.take_back(call, &args, &title, &inputs);
    }

    /// What is done with the answer of a call.
    fn answered(&mut self, call: &PlannedCall<'_>, args: &str, title: &str, oracle: bool) {
        if let Some((field, StateId(state))) = made_state(call) {
            let _ = writeln!(self.main, "        state_{state} = {args}.{field};");
        }
        for result in &call.results {
            self.check(call, result, title, oracle);
        }
    }

    fn check(&mut self, call: &PlannedCall<'_>, result: &Wanted<'_>, title: &str, oracle: bool) {
        let name = format!("{}_{}", result.name, call.number);
        let length = result.spec.len();
        if let Some(expected) = result.expected {
            self.doubles(&format!("{name}_expected"), &call.stem("expected", result.name), expected);
            let budget = result.budget.map_or("NULL".to_owned(), |budget| {
                self.doubles(&format!("{name}_budget"), &call.stem("budget", result.name), budget);
                format!("{name}_budget_data")
            });
            let _ = writeln!(
                self.main,
                "        check({title}, \"{}\", &{name}, {length}, {name}_expected_data, {budget});",
                result.name
            );
        } else if let (Some(actual), false) = (result.actual, oracle) {
            self.array(&format!("{name}_recorded"), &call.stem("actual", result.name), actual);
            let _ = writeln!(
                self.main,
                "        repeat({title}, \"{}\", {name}_data, {name}_recorded_data, {});",
                result.name,
                result.spec.size_bytes()
            );
        }
    }

    /// Inputs are to be left as they were, and are gone after a call that does not keep them.
    fn take_back(&mut self, call: &PlannedCall<'_>, args: &str, title: &str, inputs: &[(&str, String)]) {
        for (field, name) in inputs {
            let _ =
                writeln!(self.main, "    if (memcmp({name}_before, {name}_data, sizeof {name}_data) != 0)");
            let _ = writeln!(self.main, "        problem({title}, \"wrote to its input {field}\");");
        }
        let keeps = if call.operation.makes_state() {
            format!("if ({args}.keeps_inputs != 1) ")
        } else {
            String::new()
        };
        if !inputs.is_empty() {
            let _ = writeln!(self.main, "    {keeps}{{");
            for (_, name) in inputs {
                let _ = writeln!(self.main, "        memset({name}_data, 0xff, sizeof {name}_data);");
            }
            self.main += "    }\n";
        }
    }

    fn input(&mut self, name: &str, stem: &str, tensor: &Tensor) {
        self.tensor(name, tensor.spec(), Some((stem, tensor)));
        let _ = writeln!(self.data, "static unsigned char {name}_before[sizeof {name}_data];");
    }

    /// The array, and a `DLTensor` on it.
    fn tensor(&mut self, name: &str, spec: &TensorSpec, contents: Option<(&str, &Tensor)>) {
        match contents {
            Some((stem, tensor)) => self.array(name, stem, tensor),
            None => {
                let (ctype, length) = (ctype(spec.dtype), spec.len().max(1));
                let _ = writeln!(self.data, "static ALIGNED {ctype} {name}_data[{length}];");
            }
        }
        let DLDataType { code, bits, lanes } = spec.dtype.into();
        let mut strides = vec![1usize; spec.shape.len()];
        for axis in (1..spec.shape.len()).rev() {
            strides[axis - 1] = strides[axis] * spec.shape[axis];
        }
        let list = |extents: &[usize]| match extents {
            [] => "0".to_owned(),
            extents => extents.iter().map(usize::to_string).collect::<Vec<_>>().join(", "),
        };
        let (shape, strides) = (list(&spec.shape), list(&strides));
        let _ = writeln!(
            self.data,
            "static int64_t {name}_shape[] = {{{shape}}}, {name}_strides[] = {{{strides}}};"
        );
        let _ = writeln!(
            self.data,
            "static DLTensor {name} = {{{name}_data, {{1, 0}}, {}, {{{code}, {bits}, {lanes}}}, {name}_shape, {name}_strides, 0}};",
            spec.shape.len()
        );
    }

    fn doubles(&mut self, name: &str, stem: &str, tensor: &Tensor) {
        self.array(name, stem, &Tensor::from_f64(DType::Float64, tensor.shape(), &tensor.to_f64()));
    }

    /// An array as literals, or read from a file before the first call.
    fn array(&mut self, name: &str, stem: &str, tensor: &Tensor) {
        let (ctype, length) = (ctype(tensor.dtype()), tensor.len().max(1));
        let _ = write!(self.data, "static ALIGNED {ctype} {name}_data[{length}]");
        if self.literal && !tensor.is_empty() {
            self.data += " = {";
            for (index, element) in literals(tensor).into_iter().enumerate() {
                self.data += if index % 8 == 0 { "\n    " } else { " " };
                self.data += &element;
                self.data += ",";
            }
            self.data += "\n}";
        } else if !tensor.is_empty() {
            let file = format!("{stem}.bin");
            let _ = writeln!(self.main, "    read_array(\"{file}\", {name}_data, sizeof {name}_data);");
            self.arrays.push((file, tensor.bytes().to_vec()));
        }
        self.data += ";\n";
    }
}

fn made_state(call: &PlannedCall<'_>) -> Option<(&'static str, StateId)> {
    let field = call.operation.outputs.iter().find(|field| field.kind == Kind::State)?;
    Some((field.name, call.makes?))
}

fn ctype(dtype: DType) -> &'static str {
    match dtype {
        DType::Float16 | DType::BFloat16 => "uint16_t",
        DType::Float32 => "float",
        DType::Float64 => "double",
        DType::Int32 => "int32_t",
        DType::Int64 => "int64_t",
    }
}

fn literals(tensor: &Tensor) -> Vec<String> {
    let size = tensor.dtype().size_bytes();
    let elements = tensor.bytes().chunks_exact(size);
    match tensor.dtype() {
        DType::Float16 | DType::BFloat16 => {
            elements.map(|bytes| format!("{:#06x}", u16::from_ne_bytes([bytes[0], bytes[1]]))).collect()
        }
        DType::Float32 => tensor.to_f64().into_iter().map(|value| double(value) + suffix(value)).collect(),
        DType::Float64 => tensor.to_f64().into_iter().map(double).collect(),
        DType::Int32 => tensor.to_f64().into_iter().map(|value| integer(value as i64)).collect(),
        DType::Int64 => elements
            .map(|bytes| integer(i64::from_ne_bytes(bytes.try_into().expect("eight bytes"))))
            .collect(),
    }
}

fn suffix(value: f64) -> &'static str {
    if value.is_finite() { "f" } else { "" }
}

fn integer(value: i64) -> String {
    // The least has no literal of its own: C reads a minus and a number that is too large.
    if value == i64::MIN { "INT64_MIN".to_owned() } else { value.to_string() }
}

/// A double, exactly: a hexadecimal literal.
fn double(value: f64) -> String {
    let sign = if value.is_sign_negative() { "-" } else { "" };
    if value.is_nan() {
        return "NAN".to_owned();
    }
    if value.is_infinite() {
        return format!("{sign}INFINITY");
    }
    let bits = value.to_bits();
    let (biased, mantissa) = (((bits >> 52) & 0x7ff) as i32, bits & ((1 << 52) - 1));
    if biased == 0 && mantissa == 0 {
        return format!("{sign}0x0p+0");
    }
    let (lead, exponent) = if biased == 0 { (0, -1022) } else { (1, biased - 1023) };
    let digits = format!("{mantissa:013x}");
    let digits = digits.trim_end_matches('0');
    let point = if digits.is_empty() { "" } else { "." };
    format!("{sign}0x{lead}{point}{digits}p{exponent:+}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubles_are_written_exactly() {
        for (value, shown) in [
            (1.0, "0x1p+0"),
            (-1.5, "-0x1.8p+0"),
            (0.1, "0x1.999999999999ap-4"),
            (-0.0, "-0x0p+0"),
            (f64::from_bits(1), "0x0.0000000000001p-1022"),
            (f64::MAX, "0x1.fffffffffffffp+1023"),
            (f64::NEG_INFINITY, "-INFINITY"),
            (f64::NAN, "NAN"),
        ] {
            assert_eq!(double(value), shown);
        }
    }

    #[test]
    fn a_path_is_one_word_of_a_shell() {
        assert_eq!(shell("/home/a/b.c"), "/home/a/b.c");
        assert_eq!(shell("/x/it's; rm -rf $HOME"), "'/x/it'\\''s; rm -rf $HOME'");
        assert_eq!(shell("/x/\n#include"), "PATH_OF_THE_SUBMISSION");
        assert_eq!(shell("/x/\u{202e}c.b"), "PATH_OF_THE_SUBMISSION");
    }
}
