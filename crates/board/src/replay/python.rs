//! The reproducer for a submission in Python.

use std::fmt::Write;

use tribunal_contract::{DType, Kind, TensorSpec};
use tribunal_judge::ArgumentRecord;

use super::Replay;
use super::plan::{Plan, PlannedCall, Wanted};
use crate::clean;

const HELPERS: &str = include_str!("helpers.py");

/// `reproduce.py`.
pub(super) fn script(replay: &Replay<'_>, plan: &Plan<'_>) -> String {
    let mut text = "#!/usr/bin/env python3\n".to_owned();
    for line in super::head(replay, plan) {
        let _ = writeln!(text, "# {}", clean::line(&line));
    }
    text +=
        "#\n#     python3 reproduce.py [FOLDER OF THE SUBMISSION]\n#\n# Needs numpy and nothing else.\n\n";
    text += "import importlib.util\nimport pathlib\nimport sys\nimport traceback\n\nimport numpy as np\n\n";
    let folder = literal(&replay.folder.to_string_lossy());
    let _ = writeln!(text, "FOLDER = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else {folder})");
    let _ = writeln!(text, "ENTRY = {}", literal(&replay.entry.to_string_lossy()));
    text += HELPERS;
    text += "\n\nsubmission = load_submission(FOLDER, ENTRY)\n";
    for call in &plan.calls {
        text += &made(call, plan.has_oracle());
    }
    text += "\nfinish()\n";
    text
}

fn made(call: &PlannedCall<'_>, oracle: bool) -> String {
    let (number, name) = (call.number, call.operation.name);
    let mut text = String::from("\n");
    let mut arguments = Vec::new();
    for (field, argument) in &call.arguments {
        let value = match argument {
            ArgumentRecord::Tensor(_) => format!("load({})", literal(&call.stem("input", field))),
            ArgumentRecord::Real(value) if value.is_finite() => format!("{value:?}"),
            ArgumentRecord::Real(value) => format!("float(\"{value}\")"),
            ArgumentRecord::Integer(value) => value.to_string(),
            ArgumentRecord::State(state) => format!("state_{}", state.0),
        };
        arguments.push(format!("    \"{field}\": {value},\n"));
    }
    let results: Vec<_> = call
        .operation
        .outputs
        .iter()
        .map(|field| match (field.kind, call.makes) {
            (Kind::State, Some(state)) => format!("state_{}", state.0),
            _ => format!("{}_{number}", field.name),
        })
        .collect();
    let refuse = if call.may_refuse { ", may_refuse=True" } else { "" };
    let _ = writeln!(
        text,
        "({},) = call(\"call {number}, {name}\", submission.{name}, {{\n{}}}, {}{refuse})",
        results.join(", "),
        arguments.concat(),
        results.len()
    );
    for result in &call.results {
        text += &checked(call, result, oracle);
    }
    text
}

fn checked(call: &PlannedCall<'_>, result: &Wanted<'_>, oracle: bool) -> String {
    let (number, name) = (call.number, result.name);
    let mut text = format!("check(\"call {number}, {name}\", {name}_{number}, {}", like(result.spec));
    let mut give = |keyword: &str, role: &str| {
        let _ = write!(text, ", {keyword}=load(\"{}\")", call.stem(role, name));
    };
    if result.expected.is_some() {
        give("expected", "expected");
        if result.budget.is_some() {
            give("budget", "budget");
        }
    } else if result.actual.is_some() && !oracle {
        give("recorded", "actual");
    }
    text + ")\n"
}

fn like(spec: &TensorSpec) -> String {
    let dtype = if spec.dtype == DType::BFloat16 { DType::Float32 } else { spec.dtype };
    let extents: String = spec.shape.iter().map(|extent| format!("{extent}, ")).collect();
    format!("(\"{dtype}\", ({}))", extents.trim_end())
}

/// A string literal in ASCII, so that no character can reorder the source that a person reads.
fn literal(text: &str) -> String {
    let mut literal = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => literal.extend(['\\', c]),
            ' '..='~' => literal.push(c),
            c => {
                let _ = write!(literal, "\\U{:08x}", u32::from(c));
            }
        }
    }
    literal + "\""
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_cannot_leave_its_literal() {
        assert_eq!(literal("a\"b\\c\nd\u{202e}é"), r#""a\"b\\c\U0000000ad\U0000202e\U000000e9""#);
    }
}
