//! C and C++ sources.

use std::ffi::OsString;

use super::{Library, Workshop, policy, run, take_out, tools};
use crate::{MachineError, Submission, Trouble};

/// The flags of every build: optimised for this machine, and no leave to change what a program computes beyond what
/// the language gives (no `-ffast-math`).
const FLAGS: [&str; 6] = ["-O3", "-march=native", "-fPIC", "-shared", "-pthread", "-Wall"];
const LIBRARIES: [&str; 1] = ["-lm"];

#[derive(Debug, Clone, Copy)]
pub(super) enum Dialect {
    C,
    Cpp,
}

impl Dialect {
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

pub(super) fn make(
    workshop: &Workshop,
    submission: &Submission,
    dialect: Dialect,
    progress: &dyn Fn(&str),
) -> Result<Library, Trouble> {
    let program = tools::locate(dialect.command()).ok_or_else(|| MachineError::Missing {
        what: format!("a compiler named {}", dialect.command()),
        remedy: format!("apt install {}, or the like", dialect.package()),
    })?;
    let version = tools::version(&program)?;
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
