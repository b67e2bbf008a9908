//! C and C++ sources.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::lint::{self, Form, Lint};
use super::{Library, Workshop, policy, run, take_out, tools};
use crate::{MachineError, Submission, Trouble};

/// The flags of every build: optimised for this machine, and no leave to change what a program computes beyond what
/// the language gives (no `-ffast-math`).
const FLAGS: [&str; 6] = ["-O3", "-march=native", "-fPIC", "-shared", "-pthread", "-Wall"];
const LIBRARIES: [&str; 1] = ["-lm"];
/// What is added to have the source read for its warnings, and nothing built.
pub(super) const LINT: [&str; 2] = ["-fsyntax-only", "-Wextra"];

#[derive(Debug, Clone, Copy)]
pub(super) enum Dialect {
    C,
    Cpp,
}

impl Dialect {
    /// That of a source file; none if it is no source.
    pub(super) fn of(path: &Path) -> Option<Self> {
        match path.extension()?.to_str()? {
            "c" => Some(Self::C),
            "cc" | "cpp" | "cxx" => Some(Self::Cpp),
            _ => None,
        }
    }

    fn command(self) -> &'static str {
        match self {
            Self::C => "cc",
            Self::Cpp => "c++",
        }
    }

    fn standard(self) -> &'static str {
        match self {
            Self::C => "-std=gnu17",
            Self::Cpp => "-std=gnu++20",
        }
    }

    fn package(self) -> &'static str {
        match self {
            Self::C => "gcc",
            Self::Cpp => "g++",
        }
    }
}

/// The compiler, and its version.
pub(super) fn find(dialect: Dialect) -> Result<(PathBuf, String), MachineError> {
    let program = tools::locate(dialect.command()).ok_or_else(|| MachineError::Missing {
        what: format!("a compiler named {}", dialect.command()),
        remedy: format!("apt install {}, or the like", dialect.package()),
    })?;
    let version = tools::version(&program)?;
    Ok((program, version))
}

/// What the compiler warns of. It reads the very text that it builds: the flags that macros can ask for are the same.
pub(super) fn lint(
    workshop: &Workshop,
    submission: &Submission,
    dialect: Dialect,
) -> Result<Lint, MachineError> {
    let (program, version) = find(dialect)?;
    let flags: Vec<&str> = [dialect.standard()].into_iter().chain(FLAGS).chain(LINT).collect();
    let mut policy = policy(&program, submission);
    policy.reads.extend(tools::headers());
    policy.args = flags.iter().map(OsString::from).collect();
    policy.args.extend(["-I".into(), submission.folder.clone().into(), submission.entry().into()]);
    let text = lint::run_in_scratch(workshop, |_| Ok(policy))?.stderr;
    Ok(Lint {
        linter: lint::beside_build(&version, &LINT),
        form: Form::Gcc,
        text,
        root: submission.folder.clone(),
        folder: submission.folder.clone(),
    })
}

pub(super) fn make(
    workshop: &Workshop,
    submission: &Submission,
    dialect: Dialect,
    progress: &dyn Fn(&str),
) -> Result<Library, Trouble> {
    let (program, version) = find(dialect)?;
    let flags: Vec<&str> = [dialect.standard()].into_iter().chain(FLAGS).chain(LIBRARIES).collect();
    let entry = submission.manifest.entry.to_string_lossy();
    let key =
        tools::key(&[&submission.sha256, &entry, &program.to_string_lossy(), &version, &flags.join(" ")]);
    let path = workshop.cached("lib.so", &key, |work, library| {
        progress(&format!("compiling {}", submission.manifest.name));
        let made = work.join("lib.so");
        let mut policy = policy(&program, submission);
        policy.reads.extend(tools::headers());
        policy.args = [dialect.standard()].into_iter().chain(FLAGS).map(OsString::from).collect();
        policy.args.extend(["-I".into(), submission.folder.clone().into(), "-o".into(), made.clone().into()]);
        policy.args.push(submission.entry().into());
        policy.args.extend(LIBRARIES.map(OsString::from));
        policy.working_folder = Some(work.to_owned());
        run(&workshop.cage, policy, work)?;
        take_out(&made, work, library)
    })?;
    Ok(Library { path, compiler: Some(version), flags: flags.into_iter().map(str::to_owned).collect() })
}
