//! Makes of a submission what a host can load.
//!
//! Compilers run in a cage as hosts do: a source can include any file, a build script is a program. A cage of the
//! building kind may start other programs and write to one folder of its own; it has no network.

pub(crate) mod cargo;
mod compiler;
mod cuda;
mod lint;
pub(crate) mod tools;

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use tribunal_contract::{Fault, Language};

use crate::cache::{cache_folder, create_open, once};
use crate::cage::{Cage, Ended, Limits, Output, Policy, Profile};
use crate::submission::walk;
use crate::{MachineError, Python, Submission, Trouble};

pub use lint::{Form, Lint, linter};

pub(crate) use cuda::{NVRTC_VARIABLE, clang, enter_if_compiler, nvrtc};

/// How long a build may take.
const DEADLINE: Duration = Duration::from_secs(600);
/// Bytes that must be free for a build: cargo takes some tens of MiB for a crate without dependencies, a C compiler less.
const ROOM_BYTES: u64 = 64 << 20;
/// Bytes of a compiler's messages that are kept.
const MESSAGE_BYTES: usize = 4000;

/// What a host loads.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Artefact {
    /// The module as it is, and the interpreter to run it with.
    Module(Python),
    /// A shared library.
    Library(Library),
    /// CUDA kernels.
    Ptx(Ptx),
}

/// A shared library, and where it is from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Library {
    /// The file.
    pub path: PathBuf,
    /// The compiler and its version; `None` for a library that came built.
    pub compiler: Option<String>,
    /// The flags it was built with.
    pub flags: Vec<String>,
}

/// Kernels as PTX, and where they are from. The text is the submission's or a compiler's that ran on it: nobody has checked it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ptx {
    /// The file.
    pub path: PathBuf,
    /// The compiler and its version; `None` for PTX that came as it is.
    pub compiler: Option<String>,
    /// The flags it was compiled with.
    pub flags: Vec<String>,
}

/// Builds submissions, and keeps what it made.
#[derive(Debug, Clone)]
pub struct Workshop {
    /// How compilers are caged.
    pub cage: Cage,
    /// Where what is made is kept.
    pub cache: PathBuf,
    /// The Python interpreter asked for, if any.
    pub python: Option<PathBuf>,
}

impl Workshop {
    /// A workshop that keeps what it makes in [`cache_folder`].
    ///
    /// # Errors
    /// As [`cache_folder`].
    pub fn new(cage: Cage) -> Result<Self, MachineError> {
        Ok(Self { cage, cache: cache_folder()?, python: None })
    }

    /// The same, with the Python interpreter that the user asked for.
    #[must_use]
    pub fn with_python(self, interpreter: PathBuf) -> Self {
        Self { python: Some(interpreter), ..self }
    }

    /// The submission where it can reach its own files and nothing else: in its folder, or in a copy if the folder holds more than
    /// its digest is over.
    ///
    /// # Errors
    /// [`MachineError::System`] if it cannot be copied.
    pub fn set_apart(&self, submission: &Submission) -> Result<Submission, MachineError> {
        if !submission.has_leftovers().map_err(MachineError::system("reading the sources"))? {
            return Ok(submission.clone());
        }
        let folder = self.build_folder().join(tools::key(&["source", &submission.sha256]));
        once(&folder, |making| copy_sources(submission, &making.join("source")))?;
        Ok(Submission { folder: folder.join("source"), ..submission.clone() })
    }

    /// Makes what a host loads, or finds it in the cache. `progress` is told in a line what takes time.
    ///
    /// # Errors
    /// [`Fault::Build`] if the submission does not build, [`MachineError::Missing`] if a tool is not here.
    pub fn make(&self, submission: &Submission, progress: &dyn Fn(&str)) -> Result<Artefact, Trouble> {
        match submission.manifest.language {
            Language::Python => {
                Ok(Artefact::Module(Python::find(self.python.as_deref(), &self.cache, progress)?))
            }
            Language::C => self.make_c(&self.set_apart(submission)?, progress).map(Artefact::Library),
            // A member of a workspace is built where it lies.
            Language::Rust => cargo::make(self, submission, progress).map(Artefact::Library),
            Language::Cuda => cuda::make(self, &self.set_apart(submission)?, progress).map(Artefact::Ptx),
        }
    }

    fn make_c(&self, submission: &Submission, progress: &dyn Fn(&str)) -> Result<Library, Trouble> {
        let entry = submission.entry();
        if entry.extension().is_some_and(|extension| extension == "so") {
            return Ok(Library { path: entry, compiler: None, flags: Vec::new() });
        }
        match compiler::Dialect::of(&entry) {
            Some(dialect) => compiler::make(self, submission, dialect, progress),
            None => Err(refusal(format!(
                "`entry` is {}: expected a .c, .cc or .cpp source or a .so library",
                submission.manifest.entry.display()
            ))),
        }
    }

    /// The folder of built things.
    fn build_folder(&self) -> PathBuf {
        self.cache.join("build")
    }

    /// The file `name` in the cache under `key`, made by `make` in a folder of its own if it is not there.
    fn cached(
        &self,
        name: &str,
        key: &str,
        make: impl FnOnce(&Path, &Path) -> Result<(), Trouble>,
    ) -> Result<PathBuf, Trouble> {
        let folder = self.build_folder().join(key);
        once::<Trouble>(&folder, |making| {
            has_room(making)?;
            let work = making.join("work");
            create_open(&work)?;
            make(&work, &making.join(name))?;
            fs::remove_dir_all(&work).map_err(MachineError::system("removing the build folder"))?;
            Ok(())
        })?;
        Ok(folder.join(name))
    }
}

/// Whether a build has room in `folder`. Asked before anything of the submission runs: a compiler that finds the disk full fails as it does for
/// errors in its source, and what a compiler says is the submission's word.
fn has_room(folder: &Path) -> Result<(), MachineError> {
    let space = rustix::fs::statvfs(folder).map_err(MachineError::system("asking for room to build"))?;
    let free = space.f_bavail.saturating_mul(space.f_frsize);
    if free >= ROOM_BYTES {
        return Ok(());
    }
    Err(MachineError::Missing {
        what: format!(
            "room to build in {}, where {} MiB of {} are free",
            folder.display(),
            free >> 20,
            ROOM_BYTES >> 20
        ),
        remedy: "free some, or name a folder on another disk by XDG_CACHE_HOME".into(),
    })
}

fn refusal(message: String) -> Trouble {
    Trouble::Fault(Fault::Build { message })
}

/// Runs a compiler in a cage. `folder` is what it may write to; the submission's own folder it may read.
fn run(cage: &Cage, mut policy: Policy, folder: &Path) -> Result<(), Trouble> {
    let name = name(&policy);
    policy.limits = Limits::of_compiler();
    let (ended, output) = run_to_end(cage, policy, folder, DEADLINE)?;
    let message = match ended {
        Ended::Exited(0) => return Ok(()),
        Ended::Exited(code) => words(&output, &format!("{name} ended with code {code}")),
        Ended::TimedOut => format!("{name} was not done within {} s", DEADLINE.as_secs()),
        Ended::Flooded => format!("{name} printed without end"),
        _ => words(&output, &format!("{name} {ended}")),
    };
    Err(refusal(message))
}

/// The name of a policy's program.
fn name(policy: &Policy) -> String {
    policy.program.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

/// Runs a program of the building kind until it ends or is killed at the deadline. `folder` is what it may write to.
fn run_to_end(
    cage: &Cage,
    mut policy: Policy,
    folder: &Path,
    deadline: Duration,
) -> Result<(Ended, Output), MachineError> {
    let scratch = folder.join("tmp");
    fs::create_dir_all(&scratch).map_err(MachineError::system("making a scratch folder"))?;
    policy.env.extend([
        ("PATH".into(), "/usr/bin:/bin".into()),
        ("LC_ALL".into(), "C.UTF-8".into()),
        ("HOME".into(), scratch.clone().into()),
        ("TMPDIR".into(), scratch.into()),
    ]);
    policy.executes.extend(tools::system_programs());
    policy.writes.push(folder.to_owned());
    let mut caged = cage.spawn(policy)?;
    let ended = caged.wait(Some(Instant::now() + deadline))?;
    Ok((ended, caged.output()))
}

/// What a compiler said: the beginning, since the first error causes the others.
fn words(output: &Output, otherwise: &str) -> String {
    let text = if output.stderr.trim().is_empty() { &output.stdout } else { &output.stderr };
    let text = text.trim();
    match text.char_indices().find(|(at, c)| at + c.len_utf8() > MESSAGE_BYTES) {
        _ if text.is_empty() => otherwise.to_owned(),
        Some((cut, _)) => format!("{} …", &text[..cut]),
        None => text.to_owned(),
    }
}

/// A policy of the building kind for `program`, which may read the submission.
fn policy(program: &Path, submission: &Submission) -> Policy {
    let mut policy = Policy::new(Profile::Build, program);
    policy.reads.push(submission.folder.clone());
    policy
}

/// Copies what an untrusted build made to `to`: a plain file inside `folder`, and no link out of it.
fn take_out(made: &Path, folder: &Path, to: &Path) -> Result<(), Trouble> {
    let inside = made
        .canonicalize()
        .ok()
        .zip(folder.canonicalize().ok())
        .filter(|(made, folder)| made.starts_with(folder) && made.is_file());
    let Some((made, _)) = inside else {
        return Err(refusal("the build left nothing".into()));
    };
    let bytes = fs::read(made).map_err(MachineError::system("reading what was built"))?;
    fs::write(to, bytes).map_err(MachineError::system("keeping what was built"))?;
    Ok(())
}

/// Copies what belongs to the submission, and nothing that lies beside it.
pub(crate) fn copy_sources(submission: &Submission, to: &Path) -> Result<(), MachineError> {
    fs::create_dir(to).map_err(MachineError::system("copying the sources"))?;
    let mut failure = Ok(());
    let walked = walk(&submission.folder, &mut |relative, metadata| {
        let (from, to) = (submission.folder.join(relative), to.join(relative));
        let copied = if metadata.is_dir() {
            fs::create_dir(&to)
        } else if metadata.is_symlink() {
            fs::read_link(&from).and_then(|target| symlink(target, &to))
        } else {
            fs::copy(&from, &to).map(drop)
        };
        if let (Err(error), Ok(())) = (copied, &failure) {
            failure = Err(MachineError::system("copying the sources")(error));
        }
        Ok(())
    });
    walked.map_err(MachineError::system("reading the sources"))?;
    failure
}
