//! A submission's own tests, run in a cage: against its own code, or against what stands in for it.
//!
//! Each run gets a copy of the submission's folder and an empty scratch folder, and nothing that an earlier run wrote. For a stand-in the
//! file that implements the contract is replaced, and a socket leads to whoever answers in its place (see
//! [`stand_in`]).

use std::ffi::OsStr;
use std::fs;
use std::os::fd::{FromRawFd, OwnedFd};
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use tribunal_contract::Language;
use tribunal_contract::emit::{c_header, stand_in};

use crate::build::cargo::Toolchain;
use crate::build::{copy_sources, tools};
use crate::cache::create_open;
use crate::cage::{Ended, Limits, Output, Policy, Profile};
use crate::{MachineError, Python, Submission, Trouble, Workshop};

/// The descriptor at which a stand-in, and whoever answers for it, finds the socket.
const SOCKET: i32 = 3;
const PYTEST: &str = "pytest==8.4.2";
const SHELL: &str = "/bin/sh";

/// The tests of a submission, ready to run.
#[derive(Debug)]
pub struct Suite<'a> {
    workshop: &'a Workshop,
    submission: &'a Submission,
    command: &'a str,
    python: Python,
    /// Folders with packages for it.
    packages: Vec<PathBuf>,
    toolchain: Option<Toolchain>,
}

/// What came of a run.
#[derive(Debug, Clone)]
pub struct Ran {
    /// How it ended: tests that pass end with 0.
    pub ended: Ended,
    /// What it printed.
    pub output: Output,
    /// Seconds it took.
    pub took_s: f64,
}

impl Ran {
    /// Whether all tests passed, as they say.
    pub fn passed(&self) -> bool {
        self.ended == Ended::Exited(0)
    }
}

impl<'a> Suite<'a> {
    /// The tests that a manifest names; none where it names none.
    ///
    /// # Errors
    /// [`MachineError::Missing`] if a tool that they need is not here.
    pub fn of(
        workshop: &'a Workshop,
        submission: &'a Submission,
        progress: &dyn Fn(&str),
    ) -> Result<Option<Self>, MachineError> {
        let Some(command) = &submission.manifest.tests else { return Ok(None) };
        let python = Python::find(workshop.python.as_deref(), &workshop.cache, progress)?;
        let mut packages = vec![python.site.clone()];
        if command.contains("pytest") {
            packages.push(python.package(PYTEST, &workshop.cache, progress)?);
        }
        let is_rust = submission.manifest.language == Language::Rust;
        let toolchain = is_rust.then(Toolchain::find).transpose()?;
        Ok(Some(Self { workshop, submission, command, python, packages, toolchain }))
    }

    /// The command that runs them.
    pub fn command(&self) -> &str {
        self.command
    }

    /// The file that implements the contract, relative to the folder: what a stand-in replaces.
    ///
    /// # Errors
    /// Why nothing can stand in for it.
    pub fn implementation(&self) -> Result<PathBuf, String> {
        let entry = &self.submission.manifest.entry;
        let text = |path: &Path| fs::read_to_string(self.submission.folder.join(path)).unwrap_or_default();
        let tests_in = |path: &Path, marks: &[&str]| {
            let text = text(path);
            marks.iter().any(|mark| text.contains(mark)).then(|| {
                format!(
                    "its tests lie in {}, which is what would be replaced: put them into a file of their own",
                    path.display()
                )
            })
        };
        let (path, mixed) =
            match (self.submission.manifest.language, entry.extension().and_then(OsStr::to_str)) {
                (Language::Python, _) => (entry.clone(), tests_in(entry, &["def test_", "unittest"])),
                (Language::C, Some("so")) => {
                    return Err(format!(
                        "{} is built already, and tests may have it inside",
                        entry.display()
                    ));
                }
                (Language::C, _) => (entry.clone(), tests_in(entry, &["main("])),
                (Language::Rust, _) => {
                    if let Some(root) = self.workspace()? {
                        return Err(format!("it is a member of the workspace in {}", root.display()));
                    }
                    let folder = entry.parent().unwrap_or(Path::new(""));
                    let files = self.submission.files().map_err(|error| error.to_string())?;
                    let of_library = files.iter().filter(|file| file.starts_with(folder.join("src")));
                    let mixed =
                        of_library.filter_map(|file| tests_in(file, &["#[test]", "#[cfg(test)]"])).next();
                    (folder.join(library_root(&text(entry))), mixed)
                }
                (Language::Cuda, _) => return Err("nothing can stand in for kernels in CUDA yet".to_owned()),
            };
        mixed.map_or(Ok(path), Err)
    }

    /// Runs the tests until the deadline. With a socket, what stands in for the implementation is asked over it.
    ///
    /// # Errors
    /// [`MachineError`] if they cannot be run here.
    pub fn run(&self, socket: Option<OwnedFd>, deadline: Duration) -> Result<Ran, Trouble> {
        let parent = self.workshop.cache.join("tests");
        create_open(&parent)?;
        let doing = || MachineError::system("making a folder for tests");
        let work = tempfile::Builder::new().prefix("run-").tempdir_in(&parent).map_err(doing())?;
        let permissions = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        fs::set_permissions(work.path(), permissions).map_err(doing())?;
        let copy = work.path().join("submission");
        copy_sources(self.submission, &copy)?;
        if socket.is_some() {
            self.replace(&copy).map_err(MachineError::system("putting a stand-in in place"))?;
        }
        let mut policy = self.policy(work.path(), &copy)?;
        if let Some(socket) = socket {
            policy.env.push((stand_in::SOCKET_VARIABLE.into(), SOCKET.to_string().into()));
            policy.fds.push(socket);
        }
        let started = Instant::now();
        let mut caged = self.workshop.cage.spawn(policy)?;
        let ended = caged.wait(Some(started + deadline))?;
        Ok(Ran { ended, output: caged.output(), took_s: started.elapsed().as_secs_f64() })
    }

    fn policy(&self, work: &Path, copy: &Path) -> Result<Policy, Trouble> {
        let programs = work.join("bin");
        let scratch = work.join("tmp");
        for folder in [&programs, &scratch] {
            create_open(folder)?;
        }
        let mut path = vec![programs.clone(), PathBuf::from("/usr/bin"), PathBuf::from("/bin")];
        for name in ["python", "python3"] {
            symlink(&self.python.interpreter, programs.join(name))
                .map_err(MachineError::system("linking the interpreter"))?;
        }
        let shell = Path::new(SHELL).canonicalize().map_err(MachineError::system("looking for a shell"))?;
        let mut policy = Policy::new(Profile::Build, shell);
        policy.args = vec!["-c".into(), self.command.into()];
        policy.reads.extend(tools::headers());
        policy.reads.extend(self.python.folders.iter().cloned());
        policy.reads.extend(self.packages.iter().cloned());
        policy.executes.extend(tools::system_programs());
        policy.executes.push(self.python.interpreter.clone());
        policy.writes.push(work.to_owned());
        policy.limits = Limits::of_compiler();
        policy.working_folder = Some(copy.to_owned());
        if let Some(toolchain) = &self.toolchain {
            toolchain.equip(&mut policy, &work.join("cargo"), &work.join("target"))?;
            path.extend(toolchain.programs().map(Path::to_owned));
            policy.env.extend([
                ("CARGO_NET_OFFLINE".into(), "true".into()),
                // Each run compiles anew, and nobody debugs it.
                ("CARGO_PROFILE_DEV_DEBUG".into(), "false".into()),
                ("CARGO_PROFILE_TEST_DEBUG".into(), "false".into()),
            ]);
        }
        let joined = |paths: &[PathBuf]| {
            std::env::join_paths(paths).map_err(MachineError::system("putting paths together"))
        };
        policy.env.extend([
            ("PATH".into(), joined(&path)?),
            ("PYTHONPATH".into(), joined(&self.packages)?),
            ("PYTHONDONTWRITEBYTECODE".into(), "1".into()),
            // A line for each test, with its name.
            ("PYTEST_ADDOPTS".into(), "-rpfE --tb=line -p no:cacheprovider".into()),
            ("OPENBLAS_NUM_THREADS".into(), "1".into()),
            ("LC_ALL".into(), "C.UTF-8".into()),
            ("HOME".into(), scratch.clone().into()),
            ("TMPDIR".into(), scratch.into()),
        ]);
        Ok(policy)
    }

    fn replace(&self, copy: &Path) -> std::io::Result<()> {
        let challenge = self.submission.challenge;
        let path = copy.join(self.implementation().map_err(std::io::Error::other)?);
        let text = match self.submission.manifest.language {
            Language::Python => stand_in::python(challenge),
            Language::Rust => stand_in::rust_library(challenge),
            Language::C | Language::Cuda => {
                let header = path.with_file_name("tribunal.h");
                write_anew(&header, &c_header(challenge))?;
                stand_in::c_source(challenge)
            }
        };
        write_anew(&path, &text)
    }

    /// The workspace that a Rust submission belongs to, if that is more than itself.
    fn workspace(&self) -> Result<Option<PathBuf>, String> {
        let toolchain = self.toolchain.as_ref().expect("a Rust submission has one");
        toolchain.workspace_above(&self.submission.entry()).map_err(|trouble| trouble.to_string())
    }
}

/// Writes a file that may be there: never through a link.
fn write_anew(path: &Path, text: &str) -> std::io::Result<()> {
    if fs::symlink_metadata(path).is_ok() {
        fs::remove_file(path)?;
    }
    fs::write(path, text)
}

/// Where the library of a cargo project begins, relative to its manifest.
fn library_root(manifest: &str) -> PathBuf {
    let document: Option<toml::Table> = manifest.parse().ok();
    let path = document.as_ref().and_then(|document| document.get("lib")?.get("path")?.as_str());
    // A path that leads elsewhere is not followed: then the project's own tests will not build, which says so.
    let inside = path.filter(|path| !Path::new(path).is_absolute() && !path.contains(".."));
    PathBuf::from(inside.unwrap_or("src/lib.rs"))
}

/// Both ends of a stand-in's socket: for the tests, and for who answers.
///
/// # Errors
/// [`MachineError::System`] if the system has none.
pub fn sockets() -> Result<(OwnedFd, OwnedFd), MachineError> {
    let (tests, answers) = UnixStream::pair().map_err(MachineError::system("making a socket pair"))?;
    Ok((tests.into(), answers.into()))
}

/// The socket of a process that was caged to answer for a stand-in. To be called once, by such a process.
pub fn inherited_socket() -> UnixStream {
    // SAFETY: such a process got the socket as its only descriptor beyond the standard ones, and nobody else here uses it.
    unsafe { UnixStream::from_raw_fd(SOCKET) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_begins_where_its_manifest_says() {
        assert_eq!(library_root(""), Path::new("src/lib.rs"));
        assert_eq!(library_root("[lib]\npath = \"kernel.rs\""), Path::new("kernel.rs"));
        assert_eq!(library_root("[lib]\npath = \"../kernel.rs\""), Path::new("src/lib.rs"));
        assert_eq!(library_root("not toml ["), Path::new("src/lib.rs"));
    }
}
