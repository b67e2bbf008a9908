//! Starts a host and has it load the submission.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

use super::{Arenas, Host, SessionLimits, fault_of};
use crate::cage::{Cage, Limits, Policy, Profile};
use crate::gauge::CpuClock;
use crate::wire::{FromHost, Link, PROTOCOL, ToHost};
use crate::{Artefact, MachineError, Submission, Trouble, host};

/// Processor seconds of a whole session. Single calls are bounded by the judge's deadlines.
pub(super) const CPU_S: u64 = 6 * 3600;

/// Seconds for our own program to start, before anything of the submission runs; tenths are usual.
const GREETING_S: f64 = 60.0;

/// How a host is started, any number of times.
pub(super) struct Plan {
    program: PathBuf,
    args: Vec<OsString>,
    env: Vec<(OsString, OsString)>,
    reads: Vec<PathBuf>,
    folder: PathBuf,
    entry: PathBuf,
    operations: Vec<String>,
}

impl Plan {
    pub(super) fn new(
        cage: &Cage,
        submission: &Submission,
        artefact: &Artefact,
        limits: &SessionLimits,
    ) -> Result<Self, MachineError> {
        let folder = submission.folder.clone();
        let mut reads = vec![folder.clone()];
        let (program, args, entry) = match artefact {
            Artefact::Module(python) => {
                let site = serde_json::json!([python.site]).to_string();
                // No `site`, no environment, no compiled files; output at once, so that it is there when the process dies.
                let args = ["-I", "-S", "-B", "-u", "-X", "utf8", "-c", host::PYTHON, &site];
                reads.extend(python.folders.iter().cloned());
                reads.push(python.site.clone());
                (python.interpreter.clone(), args.map(OsString::from).to_vec(), submission.entry())
            }
            Artefact::Library(library) => {
                reads.push(library.path.clone());
                (cage.launcher.clone(), vec![host::NATIVE.into()], library.path.clone())
            }
            Artefact::Ptx(_) => {
                return Err(MachineError::Missing {
                    what: "a process for CUDA kernels".into(),
                    remedy: "the judge runs them on an emulated device".into(),
                });
            }
        };
        let operations =
            submission.challenge.operations.iter().map(|operation| operation.name.into()).collect();
        Ok(Self { program, args, env: environment(limits), reads, folder, entry, operations })
    }

    fn policy(&self, limits: &SessionLimits) -> Policy {
        let mut policy = Policy::new(Profile::Run, &self.program);
        policy.args.clone_from(&self.args);
        policy.env.clone_from(&self.env);
        policy.reads.extend_from_slice(&self.reads);
        policy.working_folder = Some(self.folder.clone());
        policy.cores.clone_from(&limits.cores);
        policy.limits = Limits {
            cpu_s: CPU_S,
            output_bytes: limits.output_bytes,
            ..Limits::of_host(limits.memory_bytes, limits.threads as u64, limits.arena_bytes)
        };
        policy
    }
}

/// The whole environment of a host.
fn environment(limits: &SessionLimits) -> Vec<(OsString, OsString)> {
    let threads = limits.threads.to_string();
    let mut env: Vec<(OsString, OsString)> = [
        "OPENBLAS_NUM_THREADS",
        "OMP_NUM_THREADS",
        "MKL_NUM_THREADS",
        "BLIS_NUM_THREADS",
        "NUMEXPR_NUM_THREADS",
        "RAYON_NUM_THREADS",
    ]
    .map(|name| (name.into(), threads.clone().into()))
    .to_vec();
    env.extend(
        [
            // Workers that spin after a call would look like work done behind the judge's back: 2^18 cycles at most.
            ("OPENBLAS_THREAD_TIMEOUT", "18"),
            ("OMP_WAIT_POLICY", "passive"),
            // An arena for each thread reserves 64 MiB of address space, which is limited.
            ("MALLOC_ARENA_MAX", "2"),
            ("LC_ALL", "C.UTF-8"),
        ]
        .map(|(name, value)| (name.into(), value.into())),
    );
    if limits.exact_memory {
        // Every allocation beyond 64 KiB is a mapping of its own, gone when it is freed.
        env.push(("MALLOC_MMAP_THRESHOLD_".into(), "65536".into()));
        env.push(("MALLOC_TRIM_THRESHOLD_".into(), "65536".into()));
    }
    env
}

pub(super) fn start(cage: &Cage, plan: &Plan, limits: &SessionLimits) -> Result<Host, Trouble> {
    let (ours, theirs) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
        .map_err(MachineError::system("making a socket pair"))?;
    let mut policy = plan.policy(limits);
    policy.fds.push(theirs);
    // The cage closes our copy of the other end, so that the death of the host is the end of the connection.
    let caged = cage.spawn(policy)?;
    let clock = CpuClock::of(caged.pid())?;
    let link = Link::patient(ours, Duration::from_secs_f64(limits.load_s))
        .map_err(MachineError::system("preparing a connection"))?;
    let mut host = Host {
        caged,
        link,
        clock,
        runtime: String::new(),
        operations: Vec::new(),
        arenas: Arenas::default(),
        pending: None,
        states: BTreeSet::new(),
        dead: None,
    };
    host.greet(limits)?;
    host.load(plan, limits)?;
    Ok(host)
}

impl Host {
    /// Until the submission is loaded the host is ours: whatever goes wrong is not the submission's fault.
    fn greet(&mut self, limits: &SessionLimits) -> Result<(), MachineError> {
        match self.hear(limits, GREETING_S) {
            Ok(FromHost::Hello { protocol: PROTOCOL, runtime }) => {
                self.runtime = runtime;
                Ok(())
            }
            Ok(other) => Err(self.not_started(&format!("{other:?}"))),
            Err(Trouble::Fault(fault)) => Err(self.not_started(&fault.to_string())),
            Err(Trouble::Machine(error)) => Err(error),
        }
    }

    fn not_started(&mut self, why: &str) -> MachineError {
        self.caged.kill();
        let output = self.caged.output();
        let said = if output.stderr.trim().is_empty() { output.stdout } else { output.stderr };
        MachineError::System { doing: "starting the host".into(), error: format!("{why}: {}", said.trim()) }
    }

    fn load(&mut self, plan: &Plan, limits: &SessionLimits) -> Result<(), Trouble> {
        let text = |path: &PathBuf| {
            path.to_str().map(str::to_owned).ok_or_else(|| MachineError::System {
                doing: format!("naming {} to the host", path.display()),
                error: "the path is not UTF-8".into(),
            })
        };
        let load = ToHost::Load {
            entry: text(&plan.entry)?,
            folder: text(&plan.folder)?,
            operations: plan.operations.clone(),
            holds_results: limits.holds_results,
        };
        let sent = self.link.send_json(&load);
        self.said(limits, "talking to the host", sent)?;
        match self.hear(limits, limits.load_s)? {
            FromHost::Loaded { operations } => {
                self.operations =
                    plan.operations.iter().filter(|name| operations.contains(name)).cloned().collect();
                Ok(())
            }
            FromHost::Failed { problem } => Err(fault_of(problem, limits).into()),
            other => Err(self.tampered("the answer to load", format!("{other:?}").as_bytes())),
        }
    }
}
