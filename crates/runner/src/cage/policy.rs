//! What a caged program may do.

use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// What kind of program is caged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Profile {
    /// Runs a submission: threads, but no other process and no other program.
    Run,
    /// Compiles a submission: other processes and programs, and folders to write to.
    Build,
}

/// A program and everything that it may touch. What is not named here is out of reach.
#[derive(Debug)]
pub struct Policy {
    /// What kind of program it is.
    pub profile: Profile,
    /// The program, an ELF file; it is granted by being named here.
    pub program: PathBuf,
    /// Its arguments, the name of the program not among them.
    pub args: Vec<OsString>,
    /// Its whole environment.
    pub env: Vec<(OsString, OsString)>,
    /// Files and folders that it may read.
    pub reads: Vec<PathBuf>,
    /// Files and folders that it may read and execute.
    pub executes: Vec<PathBuf>,
    /// Folders that it may change, [`Profile::Build`] only. Under real root their files are given to the cage's user.
    pub writes: Vec<PathBuf>,
    /// Device files that it may read, write and control. A program that has any sees the machine's part of `/proc` as well, as drivers need.
    pub devices: Vec<PathBuf>,
    /// Where it starts; the root folder if not given. Must lie under something granted.
    pub working_folder: Option<PathBuf>,
    /// Become descriptors 3, 4, 5, …; besides them it has 0 (nothing to read), 1 and 2 (kept and cut by the judge).
    pub fds: Vec<OwnedFd>,
    /// What it may use up.
    pub limits: Limits,
    /// The processors that it may run on; those of the judge if not given.
    pub cores: Option<Vec<usize>>,
}

impl Policy {
    /// A policy that grants nothing but `program` and the system's shared libraries.
    pub fn new(profile: Profile, program: impl Into<PathBuf>) -> Self {
        Self {
            profile,
            program: program.into(),
            args: Vec::new(),
            env: Vec::new(),
            reads: system_libraries(),
            executes: loaders(),
            writes: Vec::new(),
            devices: Vec::new(),
            working_folder: None,
            fds: Vec::new(),
            limits: Limits::default(),
            cores: None,
        }
    }
}

/// The folders and files of this system that any dynamically linked program reads, where they exist.
pub fn system_libraries() -> Vec<PathBuf> {
    existing(&["/usr/lib", "/usr/lib64", "/usr/local/lib", "/lib", "/lib64", "/etc/ld.so.cache"])
}

/// The dynamic loaders of this system: executing a program executes its loader too.
pub fn loaders() -> Vec<PathBuf> {
    existing(&[
        "/lib64/ld-linux-x86-64.so.2",
        "/lib/ld-linux-aarch64.so.1",
        "/lib/ld-musl-x86_64.so.1",
        "/lib/ld-musl-aarch64.so.1",
    ])
}

fn existing(paths: &[&str]) -> Vec<PathBuf> {
    paths.iter().map(PathBuf::from).filter(|path| Path::exists(path)).collect()
}

const MIB: u64 = 1 << 20;

/// What a caged program may use up; a process of its own is meant by each figure, but for `tasks` and `output_bytes`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Processor seconds. A second bound: the first is the judge's deadline.
    pub cpu_s: u64,
    /// Bytes of private writable memory, asked for and not merely touched.
    pub data_bytes: Option<u64>,
    /// Bytes of address space: the only bound on shared anonymous memory. A GPU's driver needs it off.
    pub address_bytes: Option<u64>,
    /// Bytes of any one file that it writes.
    pub file_bytes: u64,
    /// Threads and processes together.
    pub tasks: u64,
    /// Open descriptors; they bound what pipes and files hold in kernel memory.
    pub open_files: u64,
    /// Bytes printed before it is killed.
    pub output_bytes: u64,
    /// Bytes kept of either stream.
    pub kept_bytes: u64,
}

impl Limits {
    /// Limits of a host that may use `budget_bytes` on `threads` threads beside `arena_bytes` of shared memory.
    ///
    /// A Python host with numpy and OpenBLAS peaks at an address space of 105 MiB and 40 MiB a thread before the
    /// submission asks for anything: that much comes on top of the budget.
    pub fn of_host(budget_bytes: u64, threads: u64, arena_bytes: u64) -> Self {
        let data_bytes = budget_bytes.saturating_add((105 + 40 * threads) * MIB);
        Self {
            data_bytes: Some(data_bytes),
            address_bytes: Some(data_bytes.saturating_add(arena_bytes).saturating_add(256 * MIB)),
            tasks: threads + 32,
            ..Self::default()
        }
    }

    /// Limits of a linter: what it prints is kept whole, or not at all.
    pub fn of_linter() -> Self {
        Self { cpu_s: 120, output_bytes: 4 * MIB, kept_bytes: 4 * MIB, ..Self::of_compiler() }
    }

    /// Limits of a compiler.
    pub fn of_compiler() -> Self {
        Self {
            cpu_s: 600,
            data_bytes: Some(4096 * MIB),
            address_bytes: Some(8192 * MIB),
            file_bytes: 512 * MIB,
            tasks: 64,
            open_files: 256,
            ..Self::default()
        }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            cpu_s: 60,
            data_bytes: Some(1024 * MIB),
            address_bytes: Some(2048 * MIB),
            file_bytes: 16 * MIB,
            tasks: 32,
            open_files: 64,
            output_bytes: MIB,
            kept_bytes: 16 << 10,
        }
    }
}
