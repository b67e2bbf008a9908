//! Where a case meets its subject.

use std::time::Instant;

use tribunal_contract::{Answer, Argument, Call, Fault, StateId, Tensor, TensorSpec};
use tribunal_runner::{MachineError, Trouble};

use crate::{Memory, Seed};

/// Something that answers the operations of a contract: a caged submission, or a function in a test.
pub trait Subject {
    /// Makes one call.
    fn call(&mut self, call: &Call<'_>) -> Result<Answer, Trouble>;

    /// Makes calls that ask nothing of each other, and gives the answers to those that are `looked_at`. What runs them one right after the
    /// other times them together, and learns only afterwards which those are.
    fn call_all(&mut self, calls: &[Call<'_>], looked_at: &[usize]) -> Result<Vec<Answer>, Trouble> {
        let answers: Vec<Answer> = calls.iter().map(|call| self.call(call)).collect::<Result<_, _>>()?;
        let is_looked_at = |(index, answer)| looked_at.contains(&index).then_some(answer);
        Ok(answers.into_iter().enumerate().filter_map(is_looked_at).collect())
    }

    /// How many calls of so many bytes make a play, each on contents of its own: several where one is too short to be timed.
    fn copies(&self, _bytes: usize) -> usize {
        1
    }

    /// What would be launched for calls, one after the other, without running any of it: which of them cannot be made, and why. `None` where that
    /// is not to be told.
    fn plan(&self, _calls: &[Call<'_>]) -> Option<Result<(), (usize, Fault)>> {
        None
    }

    /// Lets go of a state.
    fn release(&mut self, state: StateId) -> Result<(), Trouble>;

    /// Told before a case begins which of all it is; before failures are shrunk, one more than there are.
    fn begin(&mut self, _case: usize) {}

    /// Told before each case, so that what comes of it can be replayed alone: nobody holds results of earlier calls any more, and its device is the
    /// usual one.
    fn let_go(&mut self) {}

    /// Told in a case on a device of how many multiprocessors the rest of it runs, for subjects whose device is what one likes.
    fn run_on(&mut self, _multiprocessors: u32) {}

    /// Asked after a case: what answers hung on beside their inputs, by the name of the defect, and how. What is wrong with them is put down to it.
    fn take_cause(&mut self) -> Option<(&'static str, String)> {
        None
    }

    /// How the device of the present case is unlike that of others, to be told with what fails.
    fn unusual_device(&self) -> Option<String> {
        None
    }

    /// Told before calls that must be refused, and after them.
    fn doubt(&mut self, _invalid: bool) {}

    /// What would refuse calls of an operation for which a condition holds, where something beside the implementation can.
    fn refusal(&self, _operation: &str, _condition: &str) -> Option<String> {
        None
    }

    /// Starts afresh, without any state, after a fault that ended the subject.
    fn restart(&mut self) -> Result<(), Trouble>;
}

/// Everything that passed between a case and its subject, kept for a replay.
#[derive(Debug, Default)]
pub struct Record {
    /// The calls, in order.
    pub calls: Vec<CallRecord>,
    /// What each result should have been, where a check said so.
    pub exhibits: Vec<Exhibit>,
}

/// One call, as it was made.
#[derive(Debug)]
pub struct CallRecord {
    /// The operation's name.
    pub operation: &'static str,
    /// The arguments, in the contract's order.
    pub inputs: Vec<ArgumentRecord>,
    /// What each tensor result had to be, in the contract's order.
    pub outputs: Vec<TensorSpec>,
    /// The state it made.
    pub makes: Option<StateId>,
    /// The tensor results, or why there are none.
    pub answer: Result<Vec<Tensor>, String>,
}

/// An argument, as it was given.
#[derive(Debug)]
pub enum ArgumentRecord {
    /// A tensor.
    Tensor(Tensor),
    /// A double.
    Real(f64),
    /// A 64-bit integer.
    Integer(i64),
    /// A state made by an earlier call.
    State(StateId),
}

/// What a result of a call should have been.
#[derive(Debug, Clone)]
pub struct Exhibit {
    /// Index into [`Record::calls`].
    pub call: usize,
    /// What it is: `expected` or `budget`.
    pub role: &'static str,
    /// The result's name in the contract.
    pub name: String,
    /// Its contents.
    pub tensor: Tensor,
}

/// Fewer multiprocessors than any board has on which kernels of today run; but they hold for any number of them.
const FEW_MULTIPROCESSORS: u32 = 2;

/// One case's hold on its subject: calls go through here, and are recorded where somebody wants to see them.
pub struct Court<'a> {
    subject: &'a mut dyn Subject,
    /// Where inputs come from.
    pub seed: Seed,
    record: Option<Record>,
    memory: Option<&'a Memory>,
    states: u32,
    live: Vec<StateId>,
    calls: usize,
    lost_s: f64,
    unreleased: Option<Fault>,
}

impl<'a> Court<'a> {
    /// A court that keeps nothing.
    pub fn new(subject: &'a mut dyn Subject, seed: Seed) -> Self {
        subject.let_go();
        Self {
            subject,
            seed,
            record: None,
            memory: None,
            states: 0,
            live: Vec::new(),
            calls: 0,
            lost_s: 0.0,
            unreleased: None,
        }
    }

    /// A court that keeps every call it hears.
    pub fn recording(subject: &'a mut dyn Subject, seed: Seed) -> Self {
        Self { record: Some(Record::default()), ..Self::new(subject, seed) }
    }

    /// A court that knows what others before it have worked out, of the same case under the same seed.
    pub fn remembering(subject: &'a mut dyn Subject, seed: Seed, memory: &'a Memory) -> Self {
        Self { memory: Some(memory), ..Self::new(subject, seed) }
    }

    /// Whether what is worked out serves whoever comes next.
    pub(crate) fn remembers(&self) -> bool {
        self.memory.is_some()
    }

    /// What hangs on no subject: worked out, unless it is remembered.
    pub(crate) fn recall<Q, A>(&self, question: &Q, answer: impl FnOnce() -> A) -> A
    where
        Q: PartialEq + Clone + 'static,
        A: Clone + 'static,
    {
        match self.memory {
            Some(memory) => memory.recall(question, answer),
            None => answer(),
        }
    }

    /// Makes the calls of the case on a device of few multiprocessors, if the subject is on an emulated one. Blocks of 256 threads, as many as there is
    /// room for, are 16 then: a few dozen rows are several for each, and no sequence is shared out among blocks.
    pub fn run_on_few_multiprocessors(&mut self) {
        self.subject.run_on(FEW_MULTIPROCESSORS);
    }

    /// A name for a state to be made.
    pub fn new_state(&mut self) -> StateId {
        self.states += 1;
        StateId(self.states)
    }

    /// Says whether the calls that follow are such that must be refused: what comes of one that is not weighs less.
    pub fn doubt(&mut self, invalid: bool) {
        self.subject.doubt(invalid);
    }

    /// What would refuse calls of an operation for which a condition holds, where something beside the implementation can.
    pub fn refusal(&self, operation: &str, condition: &str) -> Option<String> {
        self.subject.refusal(operation, condition)
    }

    /// What would be launched for calls, [without running any of it](Subject::plan): sizes that an emulated device is not done with while anybody waits.
    pub fn plan(&self, calls: &[Call<'_>]) -> Option<Result<(), (usize, Fault)>> {
        self.subject.plan(calls)
    }

    /// Makes a call. After a fault that ended the subject's process it is started afresh, so that the next case
    /// finds it well; its states are gone.
    pub fn call(&mut self, call: &Call<'_>) -> Result<Answer, Trouble> {
        let started = Instant::now();
        let answer = self.subject.call(call);
        self.calls += 1;
        if let Some(record) = &mut self.record {
            record.calls.push(CallRecord::new(call, &answer));
        }
        match &answer {
            Ok(_) => self.live.extend(call.makes),
            Err(Trouble::Fault(fault)) => {
                self.lost_s += lost_s(fault, started);
                if fault.ends_process() {
                    self.live.clear();
                    self.subject.restart()?;
                }
            }
            Err(Trouble::Machine(_)) => {}
        }
        answer
    }

    /// Seconds in calls and releases that came to nothing.
    pub fn lost_s(&self) -> f64 {
        self.lost_s
    }

    /// Lets go of a state.
    pub fn release(&mut self, state: StateId) -> Result<(), MachineError> {
        self.live.retain(|&live| live != state);
        let started = Instant::now();
        match self.subject.release(state) {
            Err(Trouble::Machine(error)) => Err(error),
            Err(Trouble::Fault(fault)) => {
                self.lost_s += lost_s(&fault, started);
                self.unreleased.get_or_insert(fault);
                self.live.clear();
                match self.subject.restart() {
                    Err(Trouble::Machine(error)) => Err(error),
                    _ => Ok(()),
                }
            }
            Ok(()) => Ok(()),
        }
    }

    /// The first fault that letting go of a state came to.
    pub fn unreleased(&self) -> Option<&Fault> {
        self.unreleased.as_ref()
    }

    /// Lets go of every state still held.
    pub fn release_all(&mut self) -> Result<(), MachineError> {
        while let Some(&state) = self.live.last() {
            self.release(state)?;
        }
        Ok(())
    }

    /// Says what a result of the latest call should have been, where somebody wants to know. `role` is `expected` or
    /// `budget`; `tensor` is only called where it is kept.
    pub fn exhibit(
        &mut self,
        _operation: &'static str,
        role: &'static str,
        name: &str,
        tensor: impl FnOnce() -> Tensor,
    ) {
        if let Some(record) = &mut self.record {
            let call = self.calls.saturating_sub(1);
            record.exhibits.push(Exhibit { call, role, name: name.to_owned(), tensor: tensor() });
        }
    }

    /// What was kept; empty unless recording.
    pub fn into_record(self) -> Record {
        self.record.unwrap_or_default()
    }
}

/// Seconds that came to nothing: a deadline's count as it allows, however busy the machine.
fn lost_s(fault: &Fault, started: Instant) -> f64 {
    match fault {
        Fault::Deadline { limit_s } => *limit_s,
        _ => started.elapsed().as_secs_f64(),
    }
}

impl CallRecord {
    fn new(call: &Call<'_>, answer: &Result<Answer, Trouble>) -> Self {
        Self {
            operation: call.operation,
            inputs: call
                .inputs
                .iter()
                .map(|input| match *input {
                    Argument::Tensor(tensor) => ArgumentRecord::Tensor(tensor.clone()),
                    Argument::Real(value) => ArgumentRecord::Real(value),
                    Argument::Integer(value) => ArgumentRecord::Integer(value),
                    Argument::State(state) => ArgumentRecord::State(state),
                })
                .collect(),
            outputs: call.outputs.clone(),
            makes: call.makes,
            answer: answer.as_ref().map(|answer| answer.outputs.clone()).map_err(ToString::to_string),
        }
    }
}
