//! Runs code that nobody trusts.
//!
//! A submission is built and run in a [`cage`]: a process of its own behind every layer of isolation that the
//! machine offers. The judge speaks to it through a [`Session`], by framed messages and shared memory, times it with its own clock and
//! reads its memory from the kernel's books.
//!
//! [`Fault`](tribunal_contract::Fault) is what the submission did wrong, [`MachineError`] what this machine could not
//! do; the two never mix.

mod arena;
mod build;
mod cache;
pub mod cage;
pub mod doctor;
mod error;
pub mod gauge;
pub mod gpu;
mod host;
pub mod python;
mod session;
pub mod submission;
pub mod suite;
mod wire;

pub use build::{Artefact, Form, Library, Lint, Ptx, Workshop, linter};
pub use cache::cache_folder;
pub use error::{MachineError, Trouble};
pub use gauge::Memory;
pub use gpu::Gpu;
pub use python::Python;
pub use session::{Session, SessionLimits};
pub use submission::{Submission, SubmissionError};

/// Turns this process into the launcher of a cage, into a host or into a compiler, if it was started as one; returns at once otherwise.
///
/// Must come first in `main` of any program that judges: it starts itself again as these, and no thread may run yet.
pub fn enter() {
    cage::enter_if_launched();
    host::enter_if_host();
    build::enter_if_compiler();
}
