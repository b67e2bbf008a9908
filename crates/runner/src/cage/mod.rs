//! The cage: a process of its own behind every layer of isolation that the machine offers.
//!
//! The judge runs itself again as a launcher, a process with one thread, which puts on the layers and then becomes the
//! program. Each layer does without the others: where a container refuses namespaces, the rest still holds.
//! [`Applied`] says what holds, and where a layer is missing why, what that costs and how to turn it on; a [`Tier`] that is
//! not safe is refused.
//!
//! # Processes
//!
//! ```text
//! judge ── supervisor ── init (only with namespaces: process 1 in there) ── program
//! ```
//!
//! The supervisor and init hold no secret and no privilege that the program could use; they wait, end the program when
//! the judge is gone, and end whatever the program leaves behind. What the program says is never asked: its process id comes from
//! the kernel with the launcher's last message, and its end from `wait`.
//!
//! # What stays with the user
//!
//! Under real root the program runs as a user made up for it, who owns nothing. Files that only root can reach (a home folder of
//! mode 0700, say) are granted all the same where namespaces are on, by mounting them elsewhere before the privileges go. Where
//! namespaces are refused, or the granted folder is itself closed, the program keeps the judge's user, without its
//! capabilities, and [`Applied`] says so: system calls and access rules hold as before, but the limit on tasks does not
//! bind the superuser.
//!
//! # Cost
//!
//! From start to end of a C program that does nothing, fastest of 40 on two busy cores (AMD EPYC, KVM, Linux 6.18; the test
//! `start_up_cost_is_small` prints it, with medians): bare 0.7 ms; caged 3.9 ms, of which 0.9 ms are for namespaces. Medians
//! there were 8 to 15 ms: starts take turns with whatever else runs, and a caged one is four processes long.

mod applied;
mod caged;
mod calls;
mod identity;
mod inmate;
mod landlock;
mod launcher;
mod limits;
mod namespaces;
mod output;
mod policy;
mod rig;
mod seccomp;
mod selftest;
mod wire;

use std::ffi::OsStr;
use std::path::PathBuf;

pub use applied::{Applied, Layer, LayerState, Tier};
pub use caged::{Caged, Ended};
pub use output::{Output, clean};
pub use policy::{Limits, Policy, Profile, loaders, system_libraries};
pub use rustix::process::Pid;
pub use selftest::{Attempt, SELF_TEST};

use crate::MachineError;

/// The first argument of a launcher.
const LAUNCH: &str = "__tribunal-cage";

/// Turns this process into what the judge started it as, if it did; returns at once otherwise.
///
/// Must come first in `main` of any program whose [`Cage::launcher`] is itself: no thread may run yet.
pub fn enter_if_launched() {
    let mut args = std::env::args_os().skip(1);
    match args.next() {
        Some(word) if word == OsStr::new(LAUNCH) => launcher::launch(),
        Some(word) if word == OsStr::new(SELF_TEST) => selftest::attempt_all(args),
        _ => {}
    }
}

/// How programs are caged on this machine.
#[derive(Debug, Clone)]
pub struct Cage {
    /// The program that is run as launcher: it must call [`enter_if_launched`]. The running program itself by default.
    pub launcher: PathBuf,
    /// Layers to leave off.
    pub without: Vec<Layer>,
    /// Whether to run even where files are readable ([`Tier::D`]): for submissions that the user trusts.
    pub trust: bool,
}

impl Default for Cage {
    fn default() -> Self {
        // Without /proc there is no way to find the program again; starting it then fails and says so.
        let launcher = std::env::current_exe().unwrap_or_else(|_| PathBuf::from("/proc/self/exe"));
        Self { launcher, without: Vec::new(), trust: false }
    }
}

impl Cage {
    /// Starts a program in a cage.
    ///
    /// Makes the judge's own process unreadable to others of its user (`PR_SET_DUMPABLE`), for good.
    ///
    /// # Errors
    /// [`MachineError::NoCage`] where the layers that hold are too few, [`MachineError::System`] where something granted is not
    /// there or the program cannot be started. Nothing of the program has run then.
    pub fn spawn(&self, policy: Policy) -> Result<Caged, MachineError> {
        rig::harden();
        caged::start(self, policy)
    }

    /// Puts on every layer in a child, as [`Profile::Run`] does, and attacks the judge from inside it.
    ///
    /// # Errors
    /// As [`Cage::spawn`].
    pub fn probe(&self) -> Result<(Applied, Vec<Attempt>), MachineError> {
        selftest::probe(self)
    }
}
