//! A call of an operation, what came of it, and the ways in which a submission can fail one.

use serde::{Deserialize, Serialize};

use crate::{Tensor, TensorSpec};

/// A state that a submission made and keeps, as the judge knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct StateId(pub u32);

/// One call of one operation.
#[derive(Debug, Clone)]
pub struct Call<'a> {
    /// The operation's name in the contract.
    pub operation: &'static str,
    /// An argument for each of the operation's inputs, in order.
    pub inputs: Vec<Argument<'a>>,
    /// What each of the operation's tensor results must be, in order.
    pub outputs: Vec<TensorSpec>,
    /// The name to keep the new state under, where the operation makes one.
    pub makes: Option<StateId>,
}

/// An argument of a call.
#[derive(Debug, Clone, Copy)]
pub enum Argument<'a> {
    /// A tensor.
    Tensor(&'a Tensor),
    /// A double.
    Real(f64),
    /// A 64-bit integer.
    Integer(i64),
    /// A state made before and not yet released.
    State(StateId),
}

/// What came of a call.
#[derive(Debug, Clone)]
pub struct Answer {
    /// The tensor results in order, as they were when the submission said it was done.
    pub outputs: Vec<Tensor>,
    /// Seconds from release of the call to its being done, by the judge's clock.
    pub wall_s: f64,
    /// Processor seconds of the whole host process over the same time.
    pub cpu_s: f64,
    /// Which inputs (by index) were different after the call.
    pub inputs_changed: Vec<usize>,
    /// Whether bytes around the outputs were written to.
    pub wrote_outside: bool,
    /// Results of earlier calls that this one changed where their caller holds them, as `y of forward`. Only those are known that a
    /// submission returns in memory of its own, where somebody looks.
    pub disturbed: Vec<String>,
    /// Whether outputs changed after the submission said it was done.
    pub changed_late: bool,
}

/// A way in which a submission failed a call. The machine's and the judge's own failures are other types.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum Fault {
    /// It could not be built. The message is the compiler's, cleaned and cut.
    #[error("does not build: {message}")]
    Build {
        /// What the compiler said.
        message: String,
    },
    /// It could not be loaded, or an operation is missing.
    #[error("does not load: {message}")]
    Load {
        /// What the loader said.
        message: String,
    },
    /// It refused the call: an exception, or a non-zero status.
    #[error("refused the call: {message}")]
    Refused {
        /// What it said, cleaned and cut.
        message: String,
    },
    /// What it returned is not what the contract asks for: type, shape or number of results.
    #[error("wrong result: {message}")]
    WrongResult {
        /// What was expected and what came.
        message: String,
    },
    /// Its process died of a signal.
    #[error("crashed with {signal}{}{}", if *at_input { ", at the address of an input" } else { "" }, behind(said))]
    Crashed {
        /// The signal's name: `SIGSEGV`.
        signal: String,
        /// Whether the faulting address lay in an input.
        at_input: bool,
        /// Where it gave up by itself, what it printed last, cleaned and cut: a panic, an assertion.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        said: String,
    },
    /// Its manifest asks for a launch that no device can do, so none of the call's kernels ran, or no further one did.
    #[error("cannot be launched: {message}")]
    Launch {
        /// Which launch of which operation, and why.
        message: String,
    },
    /// A kernel of it stopped before its end.
    #[error("stopped on the device: {message}")]
    Device {
        /// Where and why.
        message: String,
    },
    /// Its process ended by itself.
    #[error("ended its process with exit code {code}")]
    Exited {
        /// The exit code.
        code: i32,
    },
    /// It took too long.
    #[error("did not finish within {limit_s} s")]
    Deadline {
        /// Seconds allowed.
        limit_s: f64,
    },
    /// It ran out of the memory allowed to it.
    #[error("asked for more memory than the {limit_bytes} bytes allowed")]
    Memory {
        /// Bytes allowed.
        limit_bytes: u64,
    },
    /// It printed more than is allowed.
    #[error("printed more than {limit_bytes} bytes")]
    Flood {
        /// Bytes allowed.
        limit_bytes: u64,
    },
    /// Its process sent something other than the next message: only tampering does that.
    #[error("tampered with the protocol: {message}")]
    Protocol {
        /// What was expected and what came.
        message: String,
    },
}

/// Words that follow others, if there are any.
fn behind(said: &str) -> String {
    if said.is_empty() { String::new() } else { format!(": {said}") }
}

impl Fault {
    /// Whether the caller was told that the call is not done, and no harm came of it: right where a call is invalid.
    pub fn refuses(&self) -> bool {
        matches!(self, Self::Refused { .. } | Self::Launch { .. })
    }

    /// Whether the process that was called is gone.
    pub fn ends_process(&self) -> bool {
        !matches!(self, Self::Refused { .. } | Self::Launch { .. } | Self::WrongResult { .. })
    }
}
