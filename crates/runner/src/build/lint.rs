//! The languages' own linters, run on a submission as compilers are: in a cage, for they read what nobody trusts, and cargo runs build
//! scripts first.
//!
//! Which there are differs between machines. What there is is told in the same way everywhere: flags are fixed, and no file or
//! comment of the submission changes them so far as the linter can be told not to look (see `docs/code.md`).

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tribunal_contract::{FrontEnd, Language};

use super::compiler::{self, Dialect};
use super::{Workshop, cargo, cuda, name, policy, run_to_end, tools};
use crate::cache::create_open;
use crate::cage::{Ended, Limits, Output, Policy};
use crate::{MachineError, Submission, Trouble};

/// How long a linter may take.
const DEADLINE: Duration = Duration::from_secs(60);
/// Characters of a failed linter's words that are told.
const WORDS_MAX: usize = 200;

/// Rules that find mistakes, of those that ruff has: errors of syntax, pyflakes, pylint's errors, bugbear's without three that ask for style.
/// Every construct is taken as known: what the interpreter does not know fails to load.
const RUFF: [&str; 11] = [
    "check",
    "--isolated",
    "--no-cache",
    "--ignore-noqa",
    "--no-respect-gitignore",
    "--exit-zero",
    "--output-format=json-lines",
    "--config=exclude=[]",
    "--select=E9,F,PLE,B",
    "--ignore=B028,B904,B905",
    "--target-version=py312",
];

/// What a linter said of a submission. It is no more to be believed than the submission.
#[derive(Debug, Clone)]
pub struct Lint {
    /// The linter's name, version and flags.
    pub linter: String,
    /// How it writes.
    pub form: Form,
    /// What it printed, cleaned.
    pub text: String,
    /// The folder that relative paths in it start from.
    pub root: PathBuf,
    /// The submission's folder as the linter saw it.
    pub folder: PathBuf,
}

/// How a linter writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// A JSON object a line, ruff's.
    Ruff,
    /// `path:line:column: warning: message [-Wname]`, among other lines.
    Gcc,
    /// A JSON object a line, cargo's messages.
    Cargo,
}

impl Workshop {
    /// What the linter of its language says of a submission that builds; none where there is no source.
    ///
    /// # Errors
    /// [`MachineError::Missing`] if there is no linter here, [`MachineError::System`] if it failed, whatever the reason.
    pub fn lint(&self, submission: &Submission, progress: &dyn Fn(&str)) -> Result<Option<Lint>, Trouble> {
        let linted = match submission.manifest.language {
            Language::Python => lint_python(self, &self.set_apart(submission)?)?,
            Language::C => match Dialect::of(&submission.entry()) {
                Some(dialect) => compiler::lint(self, &self.set_apart(submission)?, dialect)?,
                None => return Ok(None),
            },
            Language::Rust => cargo::lint(self, submission, progress)?,
            Language::Cuda => {
                if submission.entry().extension().is_none_or(|extension| extension != "cu") {
                    return Ok(None);
                }
                if submission.manifest.compiler == Some(FrontEnd::Nvrtc) {
                    let (what, remedy) =
                        ("a linter for NVRTC", "clang's warnings are for sources that it compiles");
                    return Err(MachineError::Missing { what: what.into(), remedy: remedy.into() }.into());
                }
                cuda::lint(self, &self.set_apart(submission)?)?
            }
        };
        Ok(Some(linted))
    }
}

/// The linter of a language on this machine: its name and version.
///
/// # Errors
/// [`MachineError::Missing`] with what to do about it.
pub fn linter(language: Language) -> Result<String, MachineError> {
    match language {
        Language::Python => ruff().map(|(_, version)| version),
        Language::C => compiler::find(Dialect::C).map(|(_, version)| version),
        Language::Rust => cargo::linter(),
        Language::Cuda => cuda::clang().map(|(_, version)| version),
    }
}

fn ruff() -> Result<(PathBuf, String), MachineError> {
    let program = tools::locate_program("ruff").ok_or_else(|| MachineError::Missing {
        what: "ruff".into(),
        remedy: "pip install ruff (the program itself must be in PATH, and no shim)".into(),
    })?;
    let version = tools::version(&program)?;
    Ok((program, version))
}

fn lint_python(workshop: &Workshop, submission: &Submission) -> Result<Lint, MachineError> {
    let (program, version) = ruff()?;
    let mut policy = policy(&program, submission);
    policy.args = RUFF.map(Into::into).to_vec();
    policy.args.push(submission.folder.clone().into());
    let text = run_in_scratch(workshop, |_| Ok(policy))?.stdout;
    let folder = submission.folder.clone();
    let linter = format!("{version} {}", RUFF.join(" "));
    Ok(Lint { linter, form: Form::Ruff, text, root: folder.clone(), folder })
}

/// The name of a linter that is the compiler: the flags of the build are recorded with what was built.
pub(super) fn beside_build(version: &str, flags: &[&str]) -> String {
    format!("{version} {} beside the flags of the build", flags.join(" "))
}

/// Runs a linter by the policy that is made for a folder which it may write to and which is gone after.
pub(super) fn run_in_scratch(
    workshop: &Workshop,
    policy: impl FnOnce(&Path) -> Result<Policy, MachineError>,
) -> Result<Output, MachineError> {
    let parent = workshop.cache.join("lint");
    create_open(&parent)?;
    let doing = || MachineError::system("making a folder for a linter");
    let work = tempfile::Builder::new().prefix("run-").tempdir_in(&parent).map_err(doing())?;
    fs::set_permissions(work.path(), fs::Permissions::from_mode(0o755)).map_err(doing())?;
    run(workshop, policy(work.path())?, work.path())
}

/// Runs a linter, which must end as one does that found something or nothing.
pub(super) fn run(workshop: &Workshop, mut policy: Policy, work: &Path) -> Result<Output, MachineError> {
    let doing = format!("running {}", name(&policy));
    policy.limits = Limits::of_linter();
    let (ended, output) = run_to_end(&workshop.cage, policy, work, DEADLINE)?;
    if ended == Ended::Exited(0) {
        return Ok(output);
    }
    let said: String = output.stderr.lines().next().unwrap_or("").chars().take(WORDS_MAX).collect();
    let error = if said.is_empty() { ended.to_string() } else { format!("{ended}: {said}") };
    Err(MachineError::System { doing, error })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_says_what_linters_are_asked() {
        let page = include_str!("../../../../docs/code.md");
        for flags in [
            RUFF.join(" "),
            compiler::LINT.join(" "),
            [cargo::FORCED.as_slice(), &cargo::CLIPPY].concat().join(" "),
        ] {
            assert!(page.contains(&flags), "docs/code.md does not say: {flags}");
        }
    }
}
