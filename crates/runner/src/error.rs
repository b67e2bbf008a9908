//! Whose fault it was.

use tribunal_contract::Fault;

/// Why a call gave no answer.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Trouble {
    /// The submission's doing.
    #[error(transparent)]
    Fault(#[from] Fault),
    /// The machine's or our own doing; lowers no score.
    #[error(transparent)]
    Machine(#[from] MachineError),
}

/// Something this machine could not do for us.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum MachineError {
    /// A program or a package that is needed is not here.
    #[error("{what} is missing: {remedy}")]
    Missing {
        /// What is missing.
        what: String,
        /// What to do about it, as a command where there is one.
        remedy: String,
    },
    /// The cage cannot be closed well enough to run code that nobody trusts.
    #[error("no safe cage on this machine: {why}; {remedy}")]
    NoCage {
        /// Which layers are missing and why.
        why: String,
        /// What to do about it.
        remedy: String,
    },
    /// Emulating a kernel took longer than anybody waits.
    #[error(
        "emulating kernel `{kernel}` was given up after {after_s} s, at {instructions} instructions of its warps, which are fewer than it may \
         take: it is judged where nothing else keeps the processors busy, or not at all"
    )]
    Slow {
        /// Its name.
        kernel: String,
        /// Seconds.
        after_s: u64,
        /// What was emulated until then.
        instructions: u64,
    },
    /// An operating-system call failed.
    #[error("{doing}: {error}")]
    System {
        /// What was being done.
        doing: String,
        /// What the system said.
        error: String,
    },
}

impl MachineError {
    /// For `map_err`: what was being done when the system refused.
    pub fn system<E: std::fmt::Display>(doing: impl Into<String>) -> impl FnOnce(E) -> Self {
        let doing = doing.into();
        move |error| Self::System { doing, error: error.to_string() }
    }
}
