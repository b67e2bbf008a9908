//! clang as a compiler of CUDA: found, and told what to do.

use std::path::{Path, PathBuf};

use super::tools;
use crate::MachineError;

/// The oldest version that compiles for compute capability 8.0 as we ask it to.
const VERSION_MIN: u32 = 14;

/// What is included before every source.
const PRELUDE: &str = "tribunal/prelude.h";

/// Keeps the compiler from loading in every lane what the source reads in some: no GPU minds, but who watches each access would take it
/// for a read of what nobody wrote, or for a race.
const UNSPECULATIVE: [&str; 4] = [
    "-bonus-inst-threshold=0",
    "-two-entry-phi-node-folding-threshold=0",
    "-phi-node-folding-threshold=0",
    "-spec-exec-max-speculation-cost=0",
];

/// What every source gets. Products and sums are fused, as nvcc does; nothing else departs from IEEE arithmetic. What C++ leaves undefined and
/// kernels do, as nvcc lets them, is not made use of: values of one type are looked at as another, a loop waits for what another thread writes,
/// a pointer is held against null after it was used, a function ends without a result in a case that never comes.
const FLAGS: [&str; 21] = [
    "-x",
    "cuda",
    "--cuda-device-only",
    "--cuda-gpu-arch=sm_80",
    "-nocudainc",
    "-nocudalib",
    "-nostdinc",
    "-nostdinc++",
    // Otherwise clang lays headers of its own over those of a C++ library, which is not there.
    "-nobuiltininc",
    "-std=c++17",
    "-O3",
    "-ffp-contract=fast",
    "-fno-strict-aliasing",
    "-fno-finite-loops",
    "-fno-delete-null-pointer-checks",
    "-fno-strict-return",
    "-gline-tables-only",
    "-fdebug-compilation-dir=.",
    "-fno-crash-diagnostics",
    "-Wno-unused-command-line-argument",
    "-S",
];

/// What has a source read for its warnings, in the place of `-S`.
pub(super) const LINT: [&str; 5] =
    ["-fsyntax-only", "-Wall", "-Wextra", "-Wno-extern-c-compat", "-Wno-unknown-pragmas"];

pub(super) struct Clang {
    pub(super) program: PathBuf,
    /// The first line of what `--version` prints.
    pub(super) version: String,
    major: u32,
}

impl Clang {
    /// The newest in `PATH` that can make PTX.
    pub(super) fn find() -> Result<Self, MachineError> {
        let mut found: Vec<Self> = candidates().into_iter().filter_map(Self::of).collect();
        found.sort_by_key(|clang| clang.major);
        // Which targets a clang was built with, only it can tell.
        let makes_ptx = |clang: &Self| {
            tools::ask(&clang.program, &["--print-targets"]).is_ok_and(|targets| targets.contains("nvptx64"))
        };
        found.into_iter().rev().find(makes_ptx).ok_or_else(|| MachineError::Missing {
            what: format!("a clang that makes PTX, version {VERSION_MIN} or newer"),
            remedy: "apt install clang-19, or the like".into(),
        })
    }

    fn of(program: PathBuf) -> Option<Self> {
        let version = tools::version(&program).ok()?;
        let major = major(&version).filter(|major| *major >= VERSION_MIN)?;
        Some(Self { program, version, major })
    }

    pub(super) fn flags(&self) -> Vec<String> {
        // Instructions need it, not the device. Tried with 14, 16 and 19.
        let ptx = match self.major {
            ..16 => "+ptx75",
            16 => "+ptx78",
            _ => "+ptx80",
        };
        let mut flags: Vec<String> = FLAGS.map(str::to_owned).to_vec();
        // `--cuda-feature` says the same, from version 15 on.
        flags.extend(UNSPECULATIVE.iter().flat_map(|option| ["-mllvm", option]).map(str::to_owned));
        flags.extend(["-Xclang", "-target-feature", "-Xclang", ptx, "-include", PRELUDE].map(str::to_owned));
        // What a lane hands to a shuffle may be nothing, where another's counts: `if (lane == leader) base = atomicAdd(…)` before
        // `__shfl_sync(mask, base, leader)` would otherwise be done by every lane.
        let undefined =
            if self.major > 14 { "-no-enable-noundef-analysis" } else { "-disable-noundef-analysis" };
        flags.extend(["-Xclang", undefined].map(str::to_owned));
        flags
    }

    /// Where its libraries lie, if it is none of the system's.
    pub(super) fn folders(&self) -> Vec<PathBuf> {
        let prefix = self.program.parent().and_then(Path::parent);
        let libraries = prefix.map(|prefix| prefix.join("lib"));
        libraries.into_iter().filter(|folder| folder.is_dir()).collect()
    }
}

/// `clang` and `clang-NN` of every folder in `PATH`, each file once.
fn candidates() -> Vec<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut found = Vec::new();
    for folder in std::env::split_paths(&path) {
        let entries = std::fs::read_dir(&folder).into_iter().flatten().flatten();
        for entry in entries {
            let name = entry.file_name();
            let suffix = name.to_str().and_then(|name| name.strip_prefix("clang"));
            let is_clang = suffix.is_some_and(|suffix| {
                suffix.is_empty()
                    || suffix.strip_prefix('-').is_some_and(|number| number.parse::<u32>().is_ok())
            });
            let program = is_clang.then(|| entry.path().canonicalize().ok()).flatten();
            found.extend(program.filter(|program| program.is_file()));
        }
    }
    found.sort();
    found.dedup();
    found
}

/// The number after "clang version".
fn major(version: &str) -> Option<u32> {
    let (_, number) = version.split_once("clang version ")?;
    number.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_as_distributions_write_them() {
        assert_eq!(major("Debian clang version 19.1.7 (3~deb12u1)"), Some(19));
        assert_eq!(major("clang version 14.0.0"), Some(14));
        assert_eq!(major("Apple LLVM 9"), None);
    }
}
