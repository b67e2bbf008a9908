//! Memory from outside: what states keep alive, and what a play needs at its peak.

use std::time::Duration;

use rand_chacha::ChaCha8Rng;
use tribunal_contract::{Answer, Call, StateId};
use tribunal_runner::Trouble;

use super::median;
use crate::Subject;
use crate::emulated::Traffic;
use crate::workload::{KeepsState, Workload};

/// A subject whose memory can be read from outside.
pub trait Weighed: Subject {
    /// Bytes of memory in use now that belong to no file, whether other processes could see them or not.
    fn own_bytes(&mut self) -> Result<u64, Trouble>;

    /// Bytes of all memory at the highest point since the process began.
    fn peak_bytes(&mut self) -> Result<u64, Trouble>;

    /// Bytes of all memory in use now.
    fn resident_bytes(&mut self) -> Result<u64, Trouble>;

    /// Makes one call, and tells the bytes that it took at its peak beyond what was in use when its inputs and outputs were in
    /// place.
    fn call_weighed(&mut self, call: &Call<'_>) -> Result<(Answer, u64), Trouble>;

    /// How many states are kept at once to be weighed. The median over the steps forgives an allocator its first and its odd ones.
    fn states(&self) -> u32 {
        7
    }

    /// What was asked of the memory since this was asked last, where the subject can tell.
    fn take_traffic(&mut self) -> Option<Traffic> {
        None
    }

    /// Processor seconds that it uses in a while in which nothing is asked of it.
    fn idle_cpu_s(&mut self, window: Duration) -> Result<f64, Trouble>;
}

/// What a state keeps alive.
#[derive(Debug, Clone, PartialEq)]
pub struct Kept {
    /// Bytes, weighed from outside.
    pub bytes: f64,
    /// What the subject says of the last state, if it is asked.
    pub claimed: Option<f64>,
    /// What was wrong with an answer out of a state that had been weighed.
    pub wrong: Option<String>,
}

/// Bytes that one more state keeps alive: how its own memory grows from state to state, all of them held.
pub fn kept_bytes(
    workload: &dyn KeepsState,
    subject: &mut dyn Weighed,
    rng: &mut ChaCha8Rng,
) -> Result<Kept, Trouble> {
    subject.restart()?;
    let (mut steps, mut proofs) = (Vec::new(), Vec::new());
    let (mut before, mut claimed) = (None, None);
    let states = subject.states();
    for state in 1..=states {
        proofs.push(workload.make(rng, subject, StateId(state))?);
        // A host may hold the inputs of a call until the next one; this one has none to speak of.
        claimed = workload.claimed_bytes(subject, StateId(state))?;
        let now = subject.own_bytes()? as f64;
        steps.extend(before.replace(now).map(|before| now - before));
    }
    let mut wrong = None;
    for (state, proof) in (1..=states).zip(proofs) {
        let why = proof(subject)?;
        wrong = wrong.or(why);
        subject.release(StateId(state))?;
    }
    Ok(Kept { bytes: median(&steps).max(0.0), claimed, wrong })
}

/// Bytes at the peak of one play beyond what the process held before it, in a fresh process warmed by a small play.
pub fn peak_bytes(
    small: &dyn Workload,
    workload: &dyn Workload,
    subject: &mut dyn Weighed,
    rng: &mut ChaCha8Rng,
) -> Result<f64, Trouble> {
    subject.restart()?;
    small.warm(rng, subject)?;
    let before = subject.resident_bytes()?;
    workload.play(rng, subject)?;
    Ok(subject.peak_bytes()?.saturating_sub(before) as f64)
}

/// Bytes that a call of one play takes at most beyond its inputs and outputs, in a fresh process warmed by a small play:
/// what a process keeps from a call of the same size would hide what the next one takes.
pub fn scratch_bytes(
    small: &dyn Workload,
    workload: &dyn Workload,
    subject: &mut dyn Weighed,
    rng: &mut ChaCha8Rng,
) -> Result<f64, Trouble> {
    subject.restart()?;
    small.warm(rng, subject)?;
    let mut scales = Scales { subject, most: 0 };
    workload.warm(rng, &mut scales)?;
    Ok(scales.most as f64)
}

/// A subject every call of which is weighed.
struct Scales<'a> {
    subject: &'a mut dyn Weighed,
    most: u64,
}

impl Subject for Scales<'_> {
    fn call(&mut self, call: &Call<'_>) -> Result<Answer, Trouble> {
        let (answer, bytes) = self.subject.call_weighed(call)?;
        self.most = self.most.max(bytes);
        Ok(answer)
    }

    fn release(&mut self, state: StateId) -> Result<(), Trouble> {
        self.subject.release(state)
    }

    fn restart(&mut self) -> Result<(), Trouble> {
        self.subject.restart()
    }
}
