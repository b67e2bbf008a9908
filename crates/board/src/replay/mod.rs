//! A finding as a folder that anybody can run: its arrays, what was seen, and a program in the submission's language
//! that makes the calls again and needs nothing of Tribunal.
//!
//! - `README.md`: what, where, how to read it.
//! - `<call>_<operation>_<role>_<name>.npy`: every array, the role being `input`, `expected`, `budget` or `actual`.
//! - `reproduce.py` for Python; `reproduce.c` and `tribunal.h` for everything with a C ABI, Rust included.
//!
//! The program exits with 1 if it sees the failure again.

mod c;
mod npy;
mod plan;
mod python;
#[cfg(test)]
mod tests;

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::{fs, io};

use tribunal_contract::{Challenge, DType, Language, StateId, emit};
use tribunal_judge::{ArgumentRecord, Finding, JudgeInfo, Record};

use crate::clean;
use crate::markdown::escape::{cell, code, text};
use plan::Plan;

/// What is to be written down.
#[derive(Debug, Clone, Copy)]
pub struct Replay<'a> {
    /// The contract that the calls are made by.
    pub challenge: &'static Challenge,
    /// The submission's language.
    pub language: Language,
    /// The submission's entry, relative to its folder.
    pub entry: &'a Path,
    /// The submission's folder.
    pub folder: &'a Path,
    /// The contestant's name.
    pub name: &'a str,
    /// Who judged, and how.
    pub judge: &'a JudgeInfo,
    /// What was found.
    pub finding: &'a Finding,
    /// What the case did.
    pub record: &'a Record,
}

/// What was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Written {
    /// The files, in the order of their names.
    pub files: Vec<PathBuf>,
    /// Runs the reproducer, in its folder. `None` for a language that has none yet.
    pub command: Option<String>,
}

/// Why nothing, or not everything, was written.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// A recorded call is not one of the contract.
    #[error("call {call}, `{operation}`, is not as the contract has it")]
    Contract {
        /// Its number, from 1.
        call: usize,
        /// The operation called.
        operation: String,
    },
    /// The file system refused.
    #[error("{}: {error}", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// What the system said.
        error: io::Error,
    },
}

/// Writes the folder, which is made if need be.
pub fn write(into: &Path, replay: &Replay<'_>) -> Result<Written, ReplayError> {
    let plan = Plan::new(replay.challenge, replay.record)?;
    let mut files: Vec<(String, Vec<u8>)> = Vec::new();
    for array in plan.arrays() {
        files.push((format!("{}.npy", array.stem), npy::npy(array.tensor)));
    }
    let command = match replay.language {
        Language::Python => {
            files.push(("reproduce.py".to_owned(), python::script(replay, &plan).into_bytes()));
            Some("python3 reproduce.py".to_owned())
        }
        Language::C | Language::Rust => {
            let source = c::source(replay, &plan);
            files.push(("reproduce.c".to_owned(), source.text.into_bytes()));
            files.push(("tribunal.h".to_owned(), emit::c_header(replay.challenge).into_bytes()));
            files.extend(source.arrays);
            Some(c::command(replay))
        }
        Language::Cuda => None,
    };
    files.push(("README.md".to_owned(), readme(replay, &plan, command.as_deref()).into_bytes()));
    files.sort();

    let at = |path: &Path| {
        let path = path.to_owned();
        move |error| ReplayError::Io { path, error }
    };
    fs::create_dir_all(into).map_err(at(into))?;
    let mut written = Vec::new();
    for (name, contents) in files {
        let path = into.join(name);
        fs::write(&path, contents).map_err(at(&path))?;
        written.push(path);
    }
    Ok(Written { files: written, command })
}

/// The lines at the head of a reproducer. Not yet cleaned; none ends in a backslash.
fn head(replay: &Replay<'_>, plan: &Plan<'_>) -> Vec<String> {
    let Replay { name, judge, finding, challenge, .. } = replay;
    vec![
        format!("\"{}\", on \"{name}\" for {}.", finding.id, challenge.id),
        format!("What was seen: \"{}\".", clean::cut(&finding.message, 600)),
        format!("Judged by tribunal {}, on inputs from seed {}.", judge.version, judge.seed),
        String::new(),
        exit_rule(plan).to_owned(),
        UNCAGED.to_owned(),
    ]
}

const UNCAGED: &str =
    "It runs the submission's code without a cage: read that first, or use a machine that may be lost.";

fn exit_rule(plan: &Plan<'_>) -> &'static str {
    if plan.has_oracle() {
        "Makes the same calls again. Exits with 1 if an error is over its budget, a call is refused or an input is \
         written to, else with 0."
    } else {
        "Makes the same calls again. There are no expected values: exits with 1 if a call is refused, an input is written \
         to, or every answer is the one that was judged, else with 0."
    }
}

fn readme(replay: &Replay<'_>, plan: &Plan<'_>, command: Option<&str>) -> String {
    let Replay { name, judge, finding, challenge, folder, .. } = replay;
    let mut page = format!("# {}\n\n", code(&finding.id));
    let _ = writeln!(
        page,
        "{} for {}, judged by tribunal {} on inputs from seed {}, in {}.\n",
        code(name),
        code(challenge.id),
        text(&judge.version),
        text(&judge.seed),
        code(&folder.to_string_lossy())
    );
    let suspect = finding.suspect.as_deref().map_or(String::new(), |suspect| format!("{}: ", text(suspect)));
    let _ = writeln!(page, "{suspect}{}\n", text(&finding.message));
    match command {
        Some(command) => {
            // Four spaces rather than a fence: nothing in a command can end them, and it is one line.
            let _ =
                writeln!(page, "## Again\n\n    {}\n\n{} {UNCAGED}\n", clean::line(command), exit_rule(plan));
        }
        None => page += "There is no reproducer for this language yet; the arrays are all there.\n\n",
    }
    page += "## Calls\n\n";
    for call in &plan.calls {
        let failed = replay.record.calls[call.number - 1].answer.as_ref().err();
        let failed = failed.map_or(String::new(), |why| format!(": {}", text(why)));
        let given = call.arguments.iter().map(|(name, argument)| match argument {
            ArgumentRecord::Tensor(_) => (*name).to_owned(),
            ArgumentRecord::Real(value) => format!("{name} = {value}"),
            ArgumentRecord::Integer(value) => format!("{name} = {value}"),
            ArgumentRecord::State(StateId(number)) => format!("{name} = state {number}"),
        });
        let given = given.collect::<Vec<_>>().join(", ");
        let makes = call.makes.map_or(String::new(), |StateId(number)| format!(" makes state {number}"));
        let asked = format!("{}({given}){makes}", call.operation.name);
        let _ = writeln!(page, "{}. {}{failed}", call.number, code(&asked));
    }
    page += "\n## Arrays\n\nnumpy reads them: `numpy.load(\"NAME.npy\")`. `input` is what was given, `actual` what came back, \
             `expected` what the oracle computes in float64 from the same inputs, and `budget` how far from it each element \
             may be.\n\n| file | type and shape |\n|---|---|\n";
    let mut widened = false;
    for array in plan.arrays() {
        let of = array.tensor.spec();
        widened |= of.dtype == DType::BFloat16;
        let _ = writeln!(
            page,
            "| {} | {} |",
            cell(&code(&format!("{}.npy", array.stem))),
            cell(&code(&of.to_string()))
        );
    }
    if widened {
        page += "\nnumpy has no bfloat16: those arrays are kept as float32, which holds every bfloat16 exactly.\n";
    }
    page
}
