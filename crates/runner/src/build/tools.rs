//! Where this system's compilers are, what they are, and what they need.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Command;

use sha2::{Digest, Sha256};

use crate::MachineError;
use crate::submission::hexadecimal;

/// Folders of programs that compilers start, and of the libraries that these load.
pub(crate) fn system_programs() -> Vec<PathBuf> {
    existing(&["/usr/bin", "/usr/lib", "/usr/lib64", "/usr/libexec", "/usr/local/bin", "/usr/local/lib"])
}

/// Folders of system headers, and of the links by which some systems choose a compiler.
pub(crate) fn headers() -> Vec<PathBuf> {
    existing(&["/usr/include", "/usr/local/include", "/etc/alternatives"])
}

fn existing(paths: &[&str]) -> Vec<PathBuf> {
    paths.iter().map(PathBuf::from).filter(|path| path.is_dir()).collect()
}

/// The file that a command is, all links followed.
pub(super) fn locate(command: &str) -> Option<PathBuf> {
    locate_where(command, |_| true)
}

/// The same for a command that is a program of its own: a script cannot be caged, and may be a shim that looks around.
pub(super) fn locate_program(command: &str) -> Option<PathBuf> {
    locate_where(command, |path| {
        let mut magic = [0; 4];
        let read = fs::File::open(path).and_then(|mut file| file.read_exact(&mut magic));
        read.is_ok() && magic == *b"\x7fELF"
    })
}

fn locate_where(command: &str, fits: impl Fn(&Path) -> bool) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).find_map(|folder| {
        let candidate = folder.join(command);
        let found = candidate.is_file().then(|| candidate.canonicalize().ok()).flatten();
        found.filter(|path| fits(path))
    })
}

/// What a command prints. It is run in the root folder: a submission's own folder can change what a tool does.
pub(super) fn ask(program: &Path, args: &[&str]) -> Result<String, MachineError> {
    let doing = format!("running {} {}", program.display(), args.join(" "));
    let output =
        Command::new(program).args(args).current_dir("/").output().map_err(MachineError::system(&doing))?;
    if output.status.success() {
        Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    } else {
        let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        Err(MachineError::System { doing, error: said })
    }
}

/// The first line of what `--version` prints.
pub(super) fn version(program: &Path) -> Result<String, MachineError> {
    Ok(ask(program, &["--version"])?.lines().next().unwrap_or_default().to_owned())
}

/// A name for exactly this compilation on this kind of processor: what is built for the machine at hand may not run on another
/// that shares the cache.
pub(super) fn key(parts: &[&str]) -> String {
    let processor = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let features = processor.lines().find(|line| line.starts_with("flags") || line.starts_with("Features"));
    let mut hasher = Sha256::new();
    for part in parts.iter().copied().chain(features) {
        hasher.update((part.len() as u64).to_le_bytes());
        hasher.update(part);
    }
    hexadecimal(&hasher.finalize()[..16])
}
