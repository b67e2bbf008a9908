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
