//! Memory from outside: what states keep alive, and what a play needs at its peak.

use std::time::{Duration, Instant};

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

    /// How many states are kept at once to be weighed, at most. The median over the steps forgives an allocator its first and its odd ones.
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

/// Steps from state to state of which the median still forgives an odd one: there are no fewer, however long states take to make.
const STEPS_LEAST: usize = 3;

/// Bytes that one more state keeps alive: how its own memory grows from state to state, all of them held. Once states have taken `patience` to
/// make, fewer will do.
pub fn kept_bytes(
    workload: &dyn KeepsState,
    subject: &mut dyn Weighed,
    patience: Duration,
    rng: &mut ChaCha8Rng,
) -> Result<Kept, Trouble> {
    subject.restart()?;
    let started = Instant::now();
    let (mut steps, mut proofs) = (Vec::new(), Vec::new());
    let (mut before, mut claimed) = (None, None);
    for state in 1..=subject.states() {
        if steps.len() >= STEPS_LEAST && started.elapsed() >= patience {
            break;
        }
        proofs.push(workload.make(rng, subject, StateId(state))?);
        // A host may hold the inputs of a call until the next one; this one has none to speak of.
        claimed = workload.claimed_bytes(subject, StateId(state))?;
        let now = subject.own_bytes()? as f64;
        steps.extend(before.replace(now).map(|before| now - before));
    }
    let mut wrong = None;
    for (state, proof) in (1..).zip(proofs) {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Seed;
    use crate::workload::Proof;

    /// Whose memory grows by what is listed from state to state.
    struct Grows<'a> {
        by: &'a [u64],
        states: usize,
        released: usize,
    }

    impl Subject for Grows<'_> {
        fn call(&mut self, _: &Call<'_>) -> Result<Answer, Trouble> {
            unreachable!("its states are made without calls")
        }
        fn release(&mut self, _: StateId) -> Result<(), Trouble> {
            self.released += 1;
            Ok(())
        }
        fn restart(&mut self) -> Result<(), Trouble> {
            Ok(())
        }
    }

    impl Weighed for Grows<'_> {
        fn own_bytes(&mut self) -> Result<u64, Trouble> {
            self.states += 1;
            Ok(1000 + self.by[..self.states].iter().sum::<u64>())
        }
        fn peak_bytes(&mut self) -> Result<u64, Trouble> {
            unreachable!()
        }
        fn resident_bytes(&mut self) -> Result<u64, Trouble> {
            unreachable!()
        }
        fn call_weighed(&mut self, _: &Call<'_>) -> Result<(Answer, u64), Trouble> {
            unreachable!()
        }
        fn idle_cpu_s(&mut self, _: Duration) -> Result<f64, Trouble> {
            unreachable!()
        }
    }

    struct States;

    impl KeepsState for States {
        fn name(&self) -> String {
            "one".to_owned()
        }
        fn make(&self, _: &mut ChaCha8Rng, _: &mut dyn Subject, _: StateId) -> Result<Proof<'_>, Trouble> {
            Ok(Box::new(|_| Ok(None)))
        }
        fn floor_bytes(&self) -> u64 {
            100
        }
    }

    #[test]
    fn an_odd_step_is_forgiven_and_fewer_states_do_where_they_take_long() {
        let weigh = |by: &[u64], patience| {
            let mut subject = Grows { by, states: 0, released: 0 };
            let kept = kept_bytes(&States, &mut subject, patience, &mut Seed::PUBLIC.rng("states")).unwrap();
            assert_eq!(subject.released, subject.states, "every state is let go");
            (subject.states, kept.bytes)
        };
        // What comes before the first state's memory is known is no step.
        assert_eq!(weigh(&[900, 5000, 100, 100, 0, 100, 100], Duration::MAX), (7, 100.0));
        assert_eq!(weigh(&[900, 5000, 100, 100, 0, 0, 0], Duration::ZERO), (4, 100.0));
    }
}
