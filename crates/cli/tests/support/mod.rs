//! The program as its users run it.
#![allow(dead_code, reason = "each test file uses its part")]

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

/// The program with a store and a working folder of its own.
pub struct Tribunal {
    folder: TempDir,
}

/// What a run came to.
pub struct Output {
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
}

impl Tribunal {
    pub fn new() -> Self {
        Self { folder: tempfile::tempdir().expect("a temporary folder") }
    }

    /// The working folder.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Runs it to its end.
    pub fn run<A: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = A>) -> Output {
        self.run_with(&[], arguments)
    }

    /// Runs it to its end with more in its environment.
    pub fn run_with<A: AsRef<OsStr>>(
        &self,
        more: &[(&str, &OsStr)],
        arguments: impl IntoIterator<Item = A>,
    ) -> Output {
        let output = Command::new(env!("CARGO_BIN_EXE_tribunal"))
            .arg("--store")
            .arg(self.folder.path().join("store"))
            .args(arguments)
            .current_dir(self.folder.path())
            .env("NO_COLOR", "1")
            .envs(more.iter().copied())
            .output()
            .expect("the program starts");
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        Output {
            code: output.status.code().unwrap_or(-1),
            stdout: text(output.stdout),
            stderr: text(output.stderr),
        }
    }
}

/// The project's folder.
pub fn house() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the project's folder")
}

/// The bar's kernels as PTX that is committed: no compiler is asked for.
pub fn cuda_submission(folder: &Path, challenge: &str, ptx: &str) -> PathBuf {
    let manifest = house().join("specimens").join(challenge).join("cuda-reference/tribunal.toml");
    let manifest = std::fs::read_to_string(manifest).expect("it is in the tree");
    let entry = manifest.lines().find(|line| line.starts_with("entry")).expect("an entry").to_owned();
    let folder = folder.join(challenge);
    std::fs::create_dir(&folder).expect("a folder of our own");
    std::fs::write(folder.join("tribunal.toml"), manifest.replace(&entry, &format!("entry = \"{ptx}\"")))
        .expect("room");
    std::fs::copy(house().join("crates/kernels/cuda").join(ptx), folder.join(ptx))
        .expect("it is in the tree");
    folder
}
