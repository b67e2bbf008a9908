//! A submission in its cage, and the judge's side of the conversation with it.
//!
//! A call has two halves. [`Session::prepare`] is untimed: the host gets memory for the inputs, which holds nothing of them yet, and maps it.
//! [`Session::go`] writes them, and is then timed by the judge's own clock, from the release of the call to the word that its outputs stand in
//! the shared memory. What the host works before its release, beyond what any host does, is added. At its word a few random bytes of outputs and
//! inputs are looked at, before anything else; then all outputs are copied, what was looked at must still be the same, and all inputs
//! must be as they were written. So nothing can be known of the inputs before the clock runs, and what a submission does to
//! them is seen by the judge itself.
//!
//! Nothing a host says is believed beyond that. Lies can only make a submission's own result worse: a wrong next
//! message is [`Fault::Protocol`], an early one meets poison where the answer should be.
//!
//! # Cost
//!
//! `examples/latency.rs` measures a call of no work, all layers of the cage on. Medians on two busy cores of an AMD
//! EPYC in KVM, Linux 6.18, unoptimised judge: native 5.3 µs from GO to DONE on one core, 38 µs on two, 38 µs for
//! the whole call with its preparation; Python 20 µs, 87 µs and 160 µs. Starting takes 6 to 11 ms and 120 ms.

mod call;
mod ended;
mod start;
mod verify;

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use tribunal_contract::{Answer, Call, Challenge, Fault, StateId};

use crate::arena::Shared;
use crate::cage::{Applied, Cage, Caged, Output};
use crate::gauge::{CpuClock, Memory};
use crate::wire::{FromHost, Link, Problem, ProblemKind, ToHost};
use crate::{Artefact, Submission, Trouble};

use call::Pending;
use start::Plan;
use verify::Random;

/// What a submission may use up.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SessionLimits {
    /// Seconds for a call.
    pub call_s: f64,
    /// Seconds to load, to take up the inputs of a call, or to release a state.
    pub load_s: f64,
    /// Bytes of memory beyond what its host needs: what it allocates.
    pub memory_bytes: u64,
    /// Bytes of memory shared with the judge: the tensors of one call, and the inputs that states hold on to. It takes as much as is needed.
    pub arena_bytes: u64,
    /// Bytes it may print in a session.
    pub output_bytes: u64,
    /// Threads that its numerical libraries are told to use.
    pub threads: usize,
    /// The processors it runs on; all of the judge's if not given.
    pub cores: Option<Vec<usize>>,
    /// Whether the C library's allocator gives back at once what is freed. Memory can then be weighed to the page, and
    /// large allocations are slow.
    pub exact_memory: bool,
    /// Whether results that it returns in memory of its own are held beyond the next calls, as a caller may hold them, to see whether these
    /// change them. It takes memory and time of the submission's process.
    pub holds_results: bool,
}

impl Default for SessionLimits {
    fn default() -> Self {
        Self {
            call_s: 10.0,
            load_s: 20.0,
            memory_bytes: 2 << 30,
            arena_bytes: 2 << 30,
            output_bytes: 1 << 20,
            threads: 1,
            cores: None,
            exact_memory: false,
            holds_results: false,
        }
    }
}

/// A running submission.
///
/// After a fault that ends its process every call gives that fault again, until [`Session::restart`].
/// A refusal, a wrong result or a Python `MemoryError` does not end it.
pub struct Session {
    cage: Cage,
    plan: Plan,
    limits: SessionLimits,
    challenge: &'static Challenge,
    random: Random,
    /// Whether results that are held are let go of before the next call.
    lets_go: bool,
    host: Host,
}

/// What is new with every process.
struct Host {
    caged: Caged,
    link: Link,
    clock: CpuClock,
    runtime: String,
    operations: Vec<String>,
    arenas: Arenas,
    pending: Option<Pending>,
    states: BTreeSet<StateId>,
    /// The fault that ended it.
    dead: Option<Fault>,
}

#[derive(Default)]
struct Arenas {
    /// For calls that have nothing to do with states: nobody keeps their inputs.
    inputs: Option<Shared>,
    outputs: Option<Shared>,
    /// Large inputs that states may hold on to, and those of the last states, which are gone.
    held: Vec<Shared>,
    released: Vec<Shared>,
}

impl Arenas {
    /// Takes what a state may hold on to. Most of what a call takes goes into clearing so much memory, so it is used again, as far as that does
    /// not take much.
    fn hold(&mut self, inputs: Shared) {
        let bytes: usize = self.held.iter().map(Shared::capacity).sum();
        if inputs.capacity() >= HELD_BYTES_MIN && bytes + inputs.capacity() <= HELD_BYTES_MAX {
            self.held.push(inputs);
        }
    }

    /// Memory of exactly this size that nobody uses: what is too large would count as the state's.
    fn take_released(&mut self, bytes: usize) -> Option<Shared> {
        let index = self.released.iter().position(|arena| arena.capacity() == bytes)?;
        Some(self.released.swap_remove(index))
    }

    /// No state is left. What the last ones did not use has a size that is not asked for any more.
    fn release_all(&mut self) {
        self.released = std::mem::take(&mut self.held);
    }
}

/// Inputs for states that are too small to be worth keeping, and all of them that are kept at most.
const HELD_BYTES_MIN: usize = 1 << 20;
const HELD_BYTES_MAX: usize = 64 << 20;

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session")
            .field("host", &self.host.caged)
            .field("dead", &self.host.dead)
            .finish_non_exhaustive()
    }
}

impl Session {
    /// Starts a host and loads the submission in it.
    ///
    /// # Errors
    /// [`Fault::Load`] and its like if loading fails, [`MachineError`](crate::MachineError) if the host cannot be started.
    pub fn start(
        cage: &Cage,
        submission: &Submission,
        artefact: &Artefact,
        limits: SessionLimits,
    ) -> Result<Self, Trouble> {
        let plan = Plan::new(cage, submission, artefact, &limits)?;
        let host = start::start(cage, &plan, &limits)?;
        let (cage, challenge) = (cage.clone(), submission.challenge);
        Ok(Self { cage, plan, limits, challenge, random: Random::new(), lets_go: false, host })
    }

    /// Ends the process and starts a new one. All states are gone.
    ///
    /// # Errors
    /// As [`Session::start`]. The session is then as before, and dead.
    pub fn restart(&mut self) -> Result<(), Trouble> {
        self.host.caged.kill();
        self.host.dead.get_or_insert(Fault::Exited { code: 0 });
        self.host = start::start(&self.cage, &self.plan, &self.limits)?;
        Ok(())
    }

    /// Prepares a call and makes it.
    ///
    /// # Errors
    /// The submission's [`Fault`], or what the machine could not do.
    pub fn call(&mut self, call: &Call<'_>) -> Result<Answer, Trouble> {
        self.prepare(call)?;
        self.go(call)
    }

    /// Lets go of the results that are held: what later calls do to them is nobody's concern any more.
    pub fn let_go_of_results(&mut self) {
        self.lets_go = true;
    }

    /// Lets the submission forget a state.
    ///
    /// # Errors
    /// As [`Session::call`].
    ///
    /// # Panics
    /// If there is no such state.
    pub fn release(&mut self, state: StateId) -> Result<(), Trouble> {
        self.alive()?;
        assert!(self.host.states.remove(&state), "a state that was made is released once");
        self.say(&ToHost::Release { id: state.0 })?;
        match self.hear(self.limits.load_s)? {
            FromHost::Released {} => {
                if self.host.states.is_empty() {
                    self.host.arenas.release_all();
                }
                Ok(())
            }
            FromHost::Failed { problem } => Err(self.failed(problem)),
            other => Err(self.tampered("the answer to a release", &other)),
        }
    }

    /// Memory of the host process at this moment and at its highest, by the kernel's books.
    ///
    /// # Errors
    /// The [`Fault`] that ended the process, if it is gone.
    pub fn memory(&mut self) -> Result<Memory, Trouble> {
        self.alive()?;
        Memory::of(self.pid()).map_err(|error| self.host.unread(&self.limits, error))
    }

    /// Processor seconds that the host uses in the next `window`, in which nothing is asked of it.
    ///
    /// # Errors
    /// The [`Fault`] that ended the process, if it is gone.
    pub fn idle_cpu_s(&mut self, window: Duration) -> Result<f64, Trouble> {
        let before = self.cpu()?;
        std::thread::sleep(window);
        Ok((self.cpu()? - before).as_secs_f64())
    }

    /// Processor time of the host so far.
    fn cpu(&mut self) -> Result<Duration, Trouble> {
        self.alive()?;
        self.host.clock.read().map_err(|error| self.host.unread(&self.limits, error))
    }

    /// The host's process id, in the judge's namespace.
    pub fn pid(&self) -> crate::cage::Pid {
        self.host.caged.pid()
    }

    /// The layers of the cage that hold.
    pub fn applied(&self) -> &Applied {
        self.host.caged.applied()
    }

    /// The host's program and versions, as it said before the submission was loaded.
    pub fn runtime(&self) -> &str {
        &self.host.runtime
    }

    /// The operations of the contract that the submission has, as it says.
    pub fn operations(&self) -> &[String] {
        &self.host.operations
    }

    /// The limits it runs under.
    pub fn limits(&self) -> &SessionLimits {
        &self.limits
    }

    /// The fault that ended the process, if one did.
    pub fn dead(&self) -> Option<&Fault> {
        self.host.dead.as_ref()
    }

    /// What it printed so far, cleaned and cut.
    pub fn output(&self) -> Output {
        self.host.caged.output()
    }

    /// Ends the process, gently at first. Dropping a session does it the hard way.
    pub fn stop(mut self) {
        if self.host.dead.is_none() {
            // If it does not listen it is killed below.
            let _ = self.host.link.send_json(&ToHost::Bye);
            let _ = self.host.caged.wait(Some(Instant::now() + Duration::from_millis(200)));
        }
    }

    fn alive(&self) -> Result<(), Trouble> {
        self.host.dead.clone().map_or(Ok(()), |fault| Err(fault.into()))
    }

    fn say(&mut self, message: &ToHost) -> Result<(), Trouble> {
        let sent = self.host.link.send_json(message);
        self.host.said(&self.limits, "talking to the host", sent)
    }

    fn hear(&mut self, limit_s: f64) -> Result<FromHost, Trouble> {
        self.host.hear(&self.limits, limit_s)
    }

    /// A fault that leaves the session alive.
    fn failed(&self, problem: Problem) -> Trouble {
        fault_of(problem, &self.limits).into()
    }

    fn tampered(&mut self, expected: &str, got: &FromHost) -> Trouble {
        let got = serde_json::to_string(got).unwrap_or_default();
        self.host.tampered(expected, got.as_bytes())
    }
}

fn fault_of(Problem { kind, message }: Problem, limits: &SessionLimits) -> Fault {
    let message = ended::presentable(message.as_bytes());
    match kind {
        ProblemKind::Load => Fault::Load { message },
        ProblemKind::Refused => Fault::Refused { message },
        ProblemKind::WrongResult => Fault::WrongResult { message },
        ProblemKind::Memory => Fault::Memory { limit_bytes: limits.memory_bytes },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arena::Access;

    #[test]
    fn what_states_may_hold_on_to_is_used_again_when_none_is_left() {
        let arena = |bytes| Shared::new(bytes, Access::Write).unwrap();
        let mut arenas = Arenas::default();
        for bytes in [HELD_BYTES_MIN, 3 * HELD_BYTES_MIN, HELD_BYTES_MIN / 2, HELD_BYTES_MAX] {
            arenas.hold(arena(bytes));
        }
        assert!(arenas.take_released(HELD_BYTES_MIN).is_none(), "a state may still look at it");
        arenas.release_all();
        assert!(arenas.take_released(2 * HELD_BYTES_MIN).is_none(), "only what fits exactly");
        for (bytes, is_there) in [
            (HELD_BYTES_MIN, true),
            (HELD_BYTES_MIN, false),
            (HELD_BYTES_MIN / 2, false),
            (HELD_BYTES_MAX, false),
        ] {
            assert_eq!(arenas.take_released(bytes).is_some(), is_there, "{bytes}");
        }
        arenas.hold(arena(HELD_BYTES_MIN));
        arenas.release_all();
        assert!(arenas.take_released(3 * HELD_BYTES_MIN).is_none(), "nobody wanted it");
        assert!(arenas.take_released(HELD_BYTES_MIN).is_some());
    }
}
