//! PTX: from text to the [form in which kernels run](crate::program).
//!
//! The text is read whole ([`Module::parse`]): its form, its variables and the names of its kernels. Only the kernel that is
//! asked for ([`Module::kernel`]) is looked at closer, so that what is not emulated in one does not keep another from running:
//! instructions are checked (`check/`) with all their modifiers, functions are put in where they are called, lanes that go apart
//! are told where they meet again (`flow.rs`), and registers that are never in use together share a slot (`slots.rs`).
//!
//! Whatever is not known is refused by its name; nothing is ignored but what cannot change a result: hints for caches and
//! compilers, and what debuggers read.

mod build;
mod check;
mod flow;
mod lexer;
mod library;
mod parser;
mod slots;
mod syntax;
mod variables;

use std::collections::HashMap;
use std::sync::Arc;

use crate::program::{Kernel, Variable};
use syntax::{Function, Kind, Statement, Text};

/// Most bytes of a text.
pub const TEXT_BYTES_MAX: usize = 16 << 20;
/// Most instructions of a kernel, with those of the functions that it calls.
pub const INSTRUCTIONS_MAX: usize = 1 << 20;

/// Why a text is not a kernel that can be run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)]
pub enum Error {
    #[error("line {line}: {character:?} does not belong in PTX")]
    Character { line: u32, character: char },
    #[error("line {line}: a {what} does not end")]
    Open { line: u32, what: &'static str },
    #[error("line {line}: {expected} is expected, not {found}")]
    Expected { line: u32, expected: &'static str, found: String },
    #[error("line {line}: directive `.{name}` is not known")]
    Directive { line: u32, name: String },
    #[error("line {line}: addresses must be of 64 bits")]
    AddressSize { line: u32 },
    #[error("line {line}: more than {limit} {what}")]
    TooMany { line: u32, what: &'static str, limit: usize },
    #[error("line {line}: `{name}` is there twice")]
    Twice { line: u32, name: String },
    #[error("line {line}: `{name}` is not defined")]
    Undefined { line: u32, name: String },
    #[error("line {line}: initial value of `{name}`: {why}")]
    Initial { line: u32, name: String, why: &'static str },
    #[error("no kernel is called `{name}`")]
    NoKernel { name: String },
    #[error("line {line}: `{instruction}` is not known")]
    Unknown { line: u32, instruction: String },
    #[error("line {line}: `{what}` needs {needs}, which is not emulated")]
    Newer { line: u32, what: String, needs: &'static str },
    #[error("line {line}: `{what}` is not emulated")]
    NotEmulated { line: u32, what: String },
    #[error("line {line}: `{instruction}`: modifier `.{modifier}` is not known here")]
    Modifier { line: u32, instruction: String, modifier: String },
    #[error("line {line}: `{instruction}` lacks {what}")]
    Lacks { line: u32, instruction: String, what: &'static str },
    #[error("line {line}: `{instruction}`: {count} operands")]
    Operands { line: u32, instruction: String, count: usize },
    #[error("line {line}: `{instruction}`: operand {operand}: {why}")]
    Operand { line: u32, instruction: String, operand: String, why: &'static str },
    #[error("line {line}: calls `{name}`, which is not defined")]
    Call { line: u32, name: String },
    #[error("line {line}: calls `{name}`, which calls itself")]
    Recursion { line: u32, name: String },
    #[error("line {line}: calls through a pointer are not emulated")]
    Indirect { line: u32 },
}

impl Error {
    /// The line of the text that it is about.
    pub fn line(&self) -> Option<u32> {
        match *self {
            Error::NoKernel { .. } => None,
            Error::Character { line, .. }
            | Error::Open { line, .. }
            | Error::Expected { line, .. }
            | Error::Directive { line, .. }
            | Error::AddressSize { line }
            | Error::TooMany { line, .. }
            | Error::Twice { line, .. }
            | Error::Undefined { line, .. }
            | Error::Initial { line, .. }
            | Error::Unknown { line, .. }
            | Error::Newer { line, .. }
            | Error::NotEmulated { line, .. }
            | Error::Modifier { line, .. }
            | Error::Lacks { line, .. }
            | Error::Operands { line, .. }
            | Error::Operand { line, .. }
            | Error::Call { line, .. }
            | Error::Recursion { line, .. }
            | Error::Indirect { line } => Some(line),
        }
    }
}

/// A text that was read.
#[derive(Debug, Clone)]
pub struct Module {
    text: Text,
    /// Functions and kernels that have a body.
    functions: HashMap<String, usize>,
    /// Variables of the module, by index in the text.
    by_name: HashMap<String, usize>,
    /// Those in global and constant memory, and which they are in the text.
    variables: Arc<Vec<Variable>>,
    segments: HashMap<usize, u32>,
    files: Arc<Vec<String>>,
    /// Index of the file of each number.
    file_numbers: HashMap<u32, u32>,
}

impl Module {
    /// Reads a text.
    pub fn parse(text: &str) -> Result<Module, Error> {
        if text.len() > TEXT_BYTES_MAX {
            return Err(Error::TooMany { line: 1, what: "bytes", limit: TEXT_BYTES_MAX });
        }
        let mentions_environment = text.contains("%envreg");
        let text = parser::parse(text)?;
        let mut functions = HashMap::new();
        for (index, function) in text.functions.iter().enumerate() {
            if function.body.is_some() && functions.insert(function.name.clone(), index).is_some() {
                return Err(Error::Twice { line: function.line, name: shown(&function.name) });
            }
        }
        let mut variables = variables::Variables::of(&text)?;
        if mentions_environment {
            variables.placed.push(variables::environment());
        }
        let mut files = Vec::new();
        let mut file_numbers = HashMap::new();
        for (number, path) in &text.files {
            file_numbers.insert(*number, files.len() as u32);
            // As clang names what lies in the folder that it runs in.
            files.push(path.strip_prefix("./").unwrap_or(path).to_owned());
        }
        Ok(Module {
            functions,
            by_name: variables.by_name,
            variables: Arc::new(variables.placed),
            segments: variables.segments,
            files: Arc::new(files),
            file_numbers,
            text,
        })
    }

    /// Names of the kernels, in the order of the text.
    pub fn kernels(&self) -> impl Iterator<Item = &str> {
        self.text
            .functions
            .iter()
            .filter(|function| function.entry && function.body.is_some())
            .map(|function| &*function.name)
    }

    /// A kernel in the form in which it runs.
    pub fn kernel(&self, name: &str) -> Result<Kernel, Error> {
        let function = self.function(name).filter(|function| function.entry);
        let function = function.ok_or_else(|| Error::NoKernel { name: shown(name) })?;
        build::kernel(self, function)
    }

    /// The line of the source that a line of the text was made from, if the text says so: `kernel.cu:12`.
    pub fn source(&self, line: u32) -> Option<String> {
        let begun = self.text.functions.iter().filter(|function| function.line <= line);
        let body = begun.max_by_key(|function| function.line)?.body.as_ref()?;
        let (file, line) = last_location(body, line)?;
        let file = self.files.get(*self.file_numbers.get(&file)? as usize)?;
        Some(format!("{}:{line}", shown(file)))
    }

    /// A function that has a body.
    fn function(&self, name: &str) -> Option<&Function> {
        self.functions.get(name).map(|&index| &self.text.functions[index])
    }
}

/// File and line that statements up to a line of the text are of.
fn last_location(statements: &[Statement], line: u32) -> Option<(u32, u32)> {
    let before = statements.iter().rev().filter(|statement| statement.line <= line);
    before
        .filter_map(|statement| match &statement.kind {
            Kind::Location { file, line } => Some((*file, *line)),
            Kind::Scope(inner) => last_location(inner, line),
            _ => None,
        })
        .next()
}

/// A name of the text as a message may quote it: not at any length, and without control characters.
fn shown(name: &str) -> String {
    const CHARACTERS_MAX: usize = 80;
    let mut shown: String = name.chars().take(CHARACTERS_MAX).flat_map(char::escape_debug).collect();
    if name.chars().nth(CHARACTERS_MAX).is_some() {
        shown.push_str("..");
    }
    shown
}

#[cfg(test)]
mod tests;
