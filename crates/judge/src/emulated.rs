//! A CUDA submission on the emulated device: what a caged process is to the others.
//!
//! Its PTX is data to the court, run by an interpreter that reaches nothing but the buffers of a call. Calls are watched, and what they did
//! wrong is kept until the court asks for it; so is what they asked of memory, where that is measured.

mod again;
mod coverage;
mod record;
mod traffic;

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tribunal_contract::launch::{Buffer, Kernels, Launch, Plan, Role, Signature, State, Told, Value};
use tribunal_contract::{Answer, Argument, Call, Challenge, Fault, StateId, Tensor};
use tribunal_runner::{MachineError, Trouble};
use tribunal_simt::execute;
use tribunal_simt::fault::{self, Kind};
use tribunal_simt::launch::{self as simt, Refusal, Report, Schedule, Scrutiny, Settings};
use tribunal_simt::memory::{self, Memory, Pointer};
use tribunal_simt::meter::{BufferMeter, SECTOR};
use tribunal_simt::program::{Kernel, Space};
use tribunal_simt::ptx::Module;

use self::again::Made;
use self::coverage::Covered;
use self::record::Record;
pub use self::traffic::{BufferTraffic, Traffic};
use crate::evidence::{Coverage, Repeats};
use crate::measure::Weighed;
use crate::{Case, Finding, Subject};

/// Warp instructions that a call may take: a second or so, and of large buffers more, for who looks at each byte again and again. Attention over
/// a prompt of 2000 tokens takes more than 2^28.
const CALL_MOST: RangeInclusive<u64> = 1 << 24..=1 << 30;
const BYTE_MOST: u64 = 1 << 11;

/// Once a call was endless, others may take so many times what those that ended took for a byte, and so many at least: who hangs in one case
/// hangs in others.
const ENDED_TIMES: f64 = 64.0;
const ENDED_LEAST: u64 = 1 << 22;
/// As of so many bytes the instructions of a call count that do not hang on how many there are.
const FEW_BYTES: u64 = 1 << 16;

/// Bytes that the first cache of a multiprocessor holds.
const FIRST_CACHE: u64 = 256 << 10;

/// How long anybody waits for the launches of a call. It is their instructions that are judged: of what is given up here nobody knows whether it
/// would have come to its end.
const PATIENCE: Duration = Duration::from_secs(300);

/// Warp instructions a second that a slow kernel takes on a slow machine: whoever never ends is told so before patience does.
const PACE_LEAST: u64 = 4_000_000;
const _: () = assert!(*CALL_MOST.end() <= PACE_LEAST * PATIENCE.as_secs());

/// Calls whose buffers take more than that part of a submission's memory are made one at a time.
const LARGE_PART: u64 = 8;

/// What module variables may take of a submission's memory: emulated, they are there several times.
const VARIABLES_PART: u64 = 8;

/// How a call is made: in which order, with what where nobody has written, and whether races are looked for if it is made again.
#[derive(Debug, Clone, Copy)]
struct Way {
    schedule: Schedule,
    fill: u8,
    watched: bool,
    /// Whether looks may show what was there before another block wrote.
    shows_past: bool,
    /// Whether lanes of a warp go on together after a volatile write, whatever the order is.
    in_step: bool,
}

/// Why a call came to nothing.
struct Ended {
    trouble: Trouble,
    /// Whether it took more instructions than it may.
    is_endless: bool,
}

impl Ended {
    /// Whether it may have been about to end well.
    fn is_late(&self) -> bool {
        matches!(self.trouble, Trouble::Machine(_))
    }
}

impl From<Ended> for Trouble {
    fn from(ended: Ended) -> Trouble {
        ended.trouble
    }
}

impl Default for Way {
    fn default() -> Self {
        let Settings { schedule, fill, .. } = Settings::default();
        Self { schedule, fill, watched: false, shows_past: false, in_step: false }
    }
}

/// A submission's kernels and the states that it made.
#[derive(Debug, Clone)]
pub struct Emulated {
    challenge: &'static Challenge,
    launches: Kernels,
    kernels: BTreeMap<String, Kernel>,
    multiprocessors: u32,
    /// Holds what modules keep between launches; buffers only during a call.
    memory: Memory,
    states: BTreeMap<StateId, Held>,
    record: Record,
    covered: Covered,
    /// What calls have asked of memory, where that is counted.
    traffic: Option<Traffic>,
    /// Looks that nothing orders, when the present call was made again.
    unordered: Vec<fault::Fault>,
    scratch: u64,
    /// The most bytes that a call has written of variables of the module, by name, and what the present one has.
    variables: BTreeMap<String, u64>,
    written: BTreeMap<String, u64>,
    most_bytes: u64,
    /// The most warp instructions for a byte, and for each of [`FEW_BYTES`], that a call took which ended.
    most_a_byte: f64,
    /// Whether a call was endless.
    was_endless: bool,
    /// Bytes that the buffers of a call may have.
    limit_bytes: u64,
    /// Taken by who makes a call with large buffers, among all that are alike: the machine need not hold many such at once.
    large: Arc<Mutex<()>>,
    /// How long the next call is waited for, whichever of those that are alike makes it.
    patience: Arc<Mutex<Duration>>,
    worked_s: f64,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[derive(Debug, Clone)]
struct Held {
    state: State,
    buffers: Vec<memory::Buffer>,
}

impl Emulated {
    /// Reads the kernels that the manifest launches out of PTX. The buffers of a call may have `limit_bytes`: as much as a process of any other
    /// language may take.
    ///
    /// # Errors
    /// If the PTX is none that can be emulated, or has no such kernel.
    pub fn load(
        challenge: &'static Challenge,
        launches: Kernels,
        ptx: &str,
        limit_bytes: u64,
    ) -> Result<Self, Fault> {
        let load = |message: String| Fault::Load { message };
        let module = Module::parse(ptx).map_err(|error| load(format!("its PTX, {error}")))?;
        let mut kernels = BTreeMap::new();
        for name in launches.names() {
            let kernel = module.kernel(name).map_err(|error| {
                let source = error.line().and_then(|line| module.source(line));
                load(match source {
                    Some(source) => format!("{source}, in its PTX {error}"),
                    None => format!("its PTX, {error}"),
                })
            })?;
            kernels.insert(name.to_owned(), kernel);
        }
        let variables = kernels
            .values()
            .map(|kernel| kernel.variables.iter().map(|one| one.bytes.len() as u64).sum::<u64>());
        if variables.max().unwrap_or(0) > limit_bytes / VARIABLES_PART {
            return Err(Fault::Memory { limit_bytes });
        }
        for launched in launches.signatures() {
            check_signature(&launched, &kernels[launched.kernel]).map_err(load)?;
        }
        Ok(Self {
            challenge,
            launches,
            kernels,
            multiprocessors: simt::MULTIPROCESSORS,
            memory: Memory::new(),
            states: BTreeMap::new(),
            record: Record::default(),
            covered: Covered::default(),
            traffic: None,
            unordered: Vec::new(),
            scratch: 0,
            variables: BTreeMap::new(),
            written: BTreeMap::new(),
            most_bytes: 0,
            most_a_byte: 0.0,
            was_endless: false,
            limit_bytes,
            large: Arc::default(),
            patience: Arc::new(Mutex::new(PATIENCE)),
            worked_s: 0.0,
        })
    }

    /// Seconds that calls took, of which the submission is responsible for all; of devices that were joined, of all together.
    pub fn worked_s(&self) -> f64 {
        self.worked_s
    }

    /// Counts what calls ask of memory from now on, and what they write of variables, which is memory that they take.
    pub fn count(&mut self) {
        self.traffic = Some(Traffic::default());
    }

    /// Forgets all that is in its memory, as a new process would.
    pub fn clear(&mut self) {
        self.states.clear();
        self.variables.clear();
        self.memory = Memory::new();
    }

    /// What was wrong with how kernels did their work in these cases, whatever their answers were; a pass if nothing was.
    pub fn findings(&self, cases: &[Box<dyn Case>]) -> Vec<Finding> {
        self.record.findings(cases)
    }

    /// What came of running calls again in another order; none if no call was.
    pub fn repeats(&self) -> Option<Repeats> {
        self.record.repeats()
    }

    /// How much of each kernel calls came to, but for those made again to see whether they come to the same.
    pub fn coverage(&self) -> Vec<Coverage> {
        self.covered.of(&self.kernels)
    }

    /// What this device and another one saw of the same kernels in other cases, as if one had seen it all. Memory and traffic are for devices
    /// that are measured, and stay this one's.
    pub fn join(mut self, other: Self) -> Self {
        self.record.join(other.record);
        self.covered.join(other.covered);
        self.most_bytes = self.most_bytes.max(other.most_bytes);
        self.worked_s += other.worked_s;
        self
    }

    fn try_call(&mut self, call: &Call<'_>) -> Result<Vec<Tensor>, Trouble> {
        let using = state_of(call);
        let missing = || Fault::Refused { message: "the state is gone".to_owned() };
        let held = using.map(|id| self.states.get(&id).cloned().ok_or_else(missing)).transpose()?;
        let state = held.as_ref().map(|held| &held.state);
        let plan = self
            .launches
            .plan(self.challenge, call, state, self.multiprocessors as i32)
            .map_err(Fault::from)?;
        let bytes: u64 = plan.buffers.iter().map(Buffer::size_bytes).sum();
        if bytes > self.limit_bytes {
            return Err(Fault::Memory { limit_bytes: self.limit_bytes }.into());
        }
        self.most_bytes = self.most_bytes.max(bytes);
        let large = Arc::clone(&self.large);
        let _alone = (bytes > self.limit_bytes / LARGE_PART).then(|| lock(&large));
        let is_scratch = |buffer: &&Buffer| buffer.role == Role::Scratch;
        let scratch: u64 = plan.buffers.iter().filter(is_scratch).map(Buffer::size_bytes).sum();
        self.scratch =
            scratch + plan.launches.iter().map(|launch| self.local_bytes(launch)).max().unwrap_or(0);
        let before = self.memory.clone();
        let states = held.as_ref().map(|held| &held.buffers[..]);
        let pointers = lay_out(&plan, call, states, &mut self.memory);
        let began = self.record.instructions;
        let during = self.describe(call);
        self.record.begin_call(call.operation);
        self.written.clear();
        self.launch_all(call.operation, &plan, &pointers, Way::default(), Some(&during))?;
        let buffers = self.memory.take();
        let took = self.record.instructions - began;
        self.most_a_byte = self.most_a_byte.max(took as f64 / (bytes + FEW_BYTES) as f64);
        let after = std::mem::take(&mut self.memory);
        let mut made = Made { call, plan, states, before, after, buffers };
        self.make_again(&mut made, took);
        let Made { plan, after, buffers, .. } = made;
        self.memory = after;
        self.finish(call, plan, using, held, buffers)
    }

    /// Runs all launches of a call, and notes what they did unless it is done again.
    fn launch_all(
        &mut self,
        operation: &str,
        plan: &Plan,
        pointers: &[Pointer],
        way: Way,
        during: Option<&str>,
    ) -> Result<(), Ended> {
        let mut used: BTreeMap<usize, f64> = BTreeMap::new();
        let bytes: u64 = plan.buffers.iter().map(Buffer::size_bytes).sum();
        let mut left = u32::try_from(self.call_most(bytes)).expect("the most there may be fits");
        let most = *lock(&self.patience);
        let until = Instant::now() + most;
        for launch in &plan.launches {
            let patience = until.saturating_duration_since(Instant::now());
            let Way { schedule, fill, watched, shows_past, in_step } = way;
            let scrutiny = match during {
                None if !watched => Scrutiny::Results,
                Some(_) if self.traffic.is_some() => Scrutiny::Costs,
                _ => Scrutiny::Races,
            };
            let multiprocessors = self.multiprocessors;
            let settings = Settings {
                multiprocessors,
                schedule,
                limit: left,
                patience,
                fill,
                scrutiny,
                shows_past,
                in_step,
            };
            let report = self.launch(launch, pointers, &settings).map_err(|refusal| {
                let message =
                    format!("tribunal.toml, [operation.{operation}] `{}`: {refusal}", launch.kernel);
                Ended { trouble: Fault::Launch { message }.into(), is_endless: false }
            })?;
            left = left.saturating_sub(u32::try_from(report.meter.instructions).unwrap_or(u32::MAX));
            let Some(during) = during else {
                self.record.note_races(&report);
                self.unordered.extend_from_slice(&report.unordered);
                if report.finished {
                    continue;
                }
                return Err(self.stopped(&report, most));
            };
            if let Some(traffic) = &mut self.traffic {
                for (index, (buffer, meter)) in plan.buffers.iter().zip(&report.meter.buffers).enumerate() {
                    let traffic = traffic.buffers.entry(buffer.name.clone()).or_default();
                    traffic.add(meter);
                    traffic.input |= matches!(buffer.role, Role::Input(_));
                    traffic.state |= matches!(buffer.role, Role::State(_));
                    let unique = SECTOR * (meter.unique_sectors_read + meter.unique_sectors_written);
                    let used = used.entry(index).or_default();
                    *used = used.max(unique as f64);
                }
            }
            self.count_variables(&launch.kernel, &report.meter.buffers[plan.buffers.len()..]);
            self.record.note(&report, during);
            self.covered.note(&report);
            self.was_endless |= report.faults.iter().any(|fault| fault.kind == Kind::Endless);
            if !report.finished {
                return Err(self.stopped(&report, most));
            }
        }
        if let Some(traffic) = &mut self.traffic
            && during.is_some()
        {
            for (index, buffer) in plan.buffers.iter().enumerate() {
                let size = buffer.size_bytes() as f64;
                traffic.buffers.entry(buffer.name.clone()).or_default().size += size;
                match buffer.role {
                    Role::Input(_) | Role::Output(_) => traffic.given += size,
                    Role::State(_) => traffic.used += used.get(&index).copied().unwrap_or(0.0),
                    Role::Scratch | Role::Status => (),
                }
            }
        }
        Ok(())
    }

    /// Bytes of local memory of the blocks that run at once, but for what the first cache of a multiprocessor could hold of each.
    fn local_bytes(&self, launch: &Launch) -> u64 {
        let product = |axes: [u32; 3]| axes.iter().fold(1u64, |all, &axis| all.saturating_mul(axis.into()));
        let kernel = &self.kernels[&launch.kernel];
        let of_block = product(launch.block).saturating_mul(kernel.local_bytes.into());
        let at_once = launched(launch, Vec::new()).blocks_at_once(kernel);
        of_block.saturating_sub(FIRST_CACHE).saturating_mul(product(launch.grid).min(at_once))
    }

    /// What ends a launch is to a call.
    fn stopped(&self, report: &Report, waited: Duration) -> Ended {
        if report.late {
            let (kernel, instructions) = (report.kernel.clone(), report.meter.instructions);
            let slow = MachineError::Slow { kernel, after_s: waited.as_secs(), instructions };
            // Who is slow in one call is slow in others.
            let mut patience = lock(&self.patience);
            *patience = (waited / 4).min(*patience);
            return Ended { trouble: slow.into(), is_endless: false };
        }
        let fault = report.faults.iter().find(|fault| fault.kind.ends());
        let message = fault.map_or_else(|| "it did not finish".to_owned(), ToString::to_string);
        let message = format!("kernel `{}`, {message}", report.kernel);
        let is_endless = fault.is_some_and(|fault| fault.kind == Kind::Endless);
        Ended { trouble: Fault::Device { message }.into(), is_endless }
    }

    /// Warp instructions that a call on so many bytes may take.
    fn call_most(&self, bytes: u64) -> u64 {
        let most = CALL_MOST.start().saturating_add(BYTE_MOST.saturating_mul(bytes)).min(*CALL_MOST.end());
        if !self.was_endless || self.most_a_byte == 0.0 {
            return most;
        }
        let ended = ENDED_TIMES * self.most_a_byte * (bytes + FEW_BYTES) as f64;
        most.min((ended as u64).max(ENDED_LEAST))
    }

    /// Variables of a module are memory like any other.
    fn count_variables(&mut self, kernel: &str, meters: &[BufferMeter]) {
        let Some(traffic) = &mut self.traffic else { return };
        let variables = self.kernels[kernel].variables.iter().zip(meters);
        for (variable, meter) in variables.filter(|(variable, _)| variable.space != Space::Const) {
            let name = format!("__device__ {}", variable.name);
            traffic.buffers.entry(name.clone()).or_default().add(meter);
            // Launches of a call may write one part of it each.
            let written = self.written.entry(name.clone()).or_default();
            *written += SECTOR * meter.unique_sectors_written;
            let most = self.variables.entry(name).or_default();
            *most = (*written).min(variable.bytes.len().next_multiple_of(SECTOR as usize) as u64).max(*most);
        }
    }

    /// A call in words: `softmax_topk of float32(1, 2, 50257), 10`.
    fn describe(&self, call: &Call<'_>) -> String {
        let inputs: Vec<String> = call
            .inputs
            .iter()
            .filter_map(|input| match input {
                Argument::Tensor(tensor) => Some(tensor.spec().to_string()),
                Argument::Integer(value) => Some(value.to_string()),
                Argument::Real(_) | Argument::State(_) => None,
            })
            .collect();
        let device = self.unusual_device().map_or(String::new(), |device| format!(", {device}"));
        format!("{} of {}{device}", call.operation, inputs.join(", "))
    }

    fn launch(
        &mut self,
        launch: &Launch,
        pointers: &[Pointer],
        settings: &Settings,
    ) -> Result<Report, Refusal> {
        let argument = |value: &Value| match value {
            Value::Pointer(index) => simt::Argument::Pointer(pointers[*index]),
            Value::Scalar(bytes) => match <[u8; 4]>::try_from(&bytes[..]) {
                Ok(four) => simt::Argument::U32(u32::from_le_bytes(four)),
                Err(_) => {
                    let eight = bytes[..].try_into().expect("a scalar has 4 bytes or 8");
                    simt::Argument::U64(u64::from_le_bytes(eight))
                }
            },
        };
        let asked = launched(launch, launch.arguments.iter().map(argument).collect());
        execute::launch(&self.kernels[&launch.kernel], &asked, &mut self.memory, settings)
    }

    /// What comes of a call: its results, or that it was refused; and the state that it made or changed.
    fn finish(
        &mut self,
        call: &Call<'_>,
        plan: Plan,
        using: Option<StateId>,
        held: Option<Held>,
        buffers: Vec<memory::Buffer>,
    ) -> Result<Vec<Tensor>, Trouble> {
        let mut outputs: Vec<Option<Tensor>> = vec![None; call.outputs.len()];
        let mut own: Vec<Option<memory::Buffer>> = Vec::new();
        let mut status = 0;
        for (planned, buffer) in plan.buffers.iter().zip(buffers) {
            match planned.role {
                Role::Output(index) => {
                    let spec = call.outputs[index].clone();
                    outputs[index] = Some(Tensor::from_bytes(spec, buffer.bytes().to_vec()));
                }
                Role::State(index) => {
                    own.resize_with(own.len().max(index + 1), || None);
                    own[index] = Some(buffer);
                }
                Role::Status => status = i32::from_le_bytes(buffer.bytes().try_into().expect("an int32")),
                Role::Input(_) | Role::Scratch => {}
            }
        }
        if let (Some(id), Some(held)) = (using, held) {
            let buffers = own.iter_mut().map(|buffer| buffer.take().expect("all of the state's")).collect();
            self.states.insert(id, Held { buffers, ..held });
        }
        if status != 0 {
            return Err(Fault::Refused { message: format!("status {status}") }.into());
        }
        if let (Some(id), Some(state)) = (call.makes, plan.makes) {
            own.resize_with(state.buffers.len(), || None);
            let kept =
                state.kept.iter().zip(&state.buffers).zip(own).map(|((kept, buffer), own)| match kept {
                    Some(input) => {
                        let Argument::Tensor(tensor) = call.inputs[*input] else {
                            unreachable!("a kept input is a tensor")
                        };
                        let element = buffer.element_bytes;
                        memory::Buffer::with(
                            &buffer.name,
                            memory::Role::Input,
                            element,
                            tensor.bytes().to_vec(),
                        )
                    }
                    None => own.expect("every buffer of the state's own is planned"),
                });
            let buffers = kept.collect();
            self.states.insert(id, Held { state, buffers });
        }
        Ok(outputs.into_iter().map(|output| output.expect("every output is planned")).collect())
    }
}

/// Puts the buffers of a call into memory, each as it is before the first launch.
fn lay_out(
    plan: &Plan,
    call: &Call<'_>,
    states: Option<&[memory::Buffer]>,
    memory: &mut Memory,
) -> Vec<Pointer> {
    plan.buffers.iter().map(|buffer| memory.add(laid_out(buffer, call, states))).collect()
}

/// A launch as the emulator is asked for it.
fn launched(launch: &Launch, arguments: Vec<simt::Argument>) -> simt::Launch {
    simt::Launch { grid: launch.grid, block: launch.block, shared: launch.shared_bytes, arguments }
}

/// A buffer as a call finds it.
fn laid_out(buffer: &Buffer, call: &Call<'_>, states: Option<&[memory::Buffer]>) -> memory::Buffer {
    let element = buffer.element_bytes;
    let size = buffer.size_bytes() as usize;
    let role = match buffer.role {
        Role::Output(_) => memory::Role::Output,
        Role::State(_) | Role::Status => memory::Role::InOut,
        Role::Scratch => memory::Role::Scratch,
        Role::Input(_) => memory::Role::Input,
    };
    match (buffer.role, states) {
        (Role::Input(index), _) => {
            let Argument::Tensor(tensor) = call.inputs[index] else {
                unreachable!("an input buffer is a tensor")
            };
            memory::Buffer::with(&buffer.name, role, element, tensor.bytes().to_vec())
        }
        (Role::State(index), Some(states)) => states[index].clone(),
        _ if buffer.zeroed => memory::Buffer::with(&buffer.name, role, element, vec![0; size]),
        _ => memory::Buffer::empty(&buffer.name, role, element, size),
    }
}

/// Holds what the manifest calls a kernel with against the parameters that it has.
fn check_signature(launched: &Signature<'_>, kernel: &Kernel) -> Result<(), String> {
    let Signature { operation, kernel: name, arguments } = launched;
    if arguments.len() != kernel.params.len() {
        return Err(format!(
            "`{operation}` launches `{name}` with arguments, {} of them, and it takes {}",
            arguments.len(),
            kernel.params.len()
        ));
    }
    let kind = |is_float| if is_float { "a floating-point number" } else { "an integer" };
    for (place, (Told { text, size, is_float }, param)) in arguments.iter().zip(&kernel.params).enumerate() {
        let (text, place) = (text.trim(), place + 1);
        if *size != param.size as usize {
            return Err(format!(
                "`{operation}` launches `{name}` with `{text}`, of {size} bytes, as argument {place}, where the kernel has one of {}",
                param.size
            ));
        }
        if param.is_float.is_some_and(|due| due != *is_float) {
            return Err(format!(
                "`{operation}` launches `{name}` with `{text}`, {}, as argument {place}, where the kernel has {}",
                kind(*is_float),
                kind(!is_float)
            ));
        }
    }
    Ok(())
}

/// The state that a call uses.
fn state_of(call: &Call<'_>) -> Option<StateId> {
    call.inputs.iter().find_map(|input| match input {
        Argument::State(id) => Some(*id),
        _ => None,
    })
}

impl Subject for Emulated {
    fn plan(&self, calls: &[Call<'_>]) -> Option<Result<(), (usize, Fault)>> {
        let mut states = BTreeMap::new();
        let each = calls.iter().enumerate().map(|(index, call)| {
            let state = state_of(call).map(|id| &states[&id]);
            let plan = self.launches.plan(self.challenge, call, state, self.multiprocessors as i32);
            let made = call.makes.zip(plan.map_err(|error| (index, error.into()))?.makes);
            states.extend(made);
            Ok(())
        });
        Some(each.collect())
    }

    fn refusal(&self, operation: &str, condition: &str) -> Option<String> {
        Some(format!("`refuse = [\"{condition}\"]` under `[operation.{operation}]` does that"))
    }

    fn call(&mut self, call: &Call<'_>) -> Result<Answer, Trouble> {
        let started = Instant::now();
        let result = self.try_call(call);
        self.memory.take();
        let wall_s = started.elapsed().as_secs_f64();
        self.worked_s += wall_s;
        let outputs = result?;
        Ok(Answer {
            outputs,
            wall_s,
            cpu_s: wall_s,
            // A write to an input is a fault of its own, and does not happen.
            inputs_changed: Vec::new(),
            wrote_outside: false,
            disturbed: Vec::new(),
            changed_late: false,
        })
    }

    fn release(&mut self, state: StateId) -> Result<(), Trouble> {
        self.states.remove(&state);
        Ok(())
    }

    fn let_go(&mut self) {
        self.run_on(simt::MULTIPROCESSORS);
    }

    fn run_on(&mut self, multiprocessors: u32) {
        if multiprocessors != self.multiprocessors {
            // What modules keep is on the device that they were loaded on.
            self.clear();
            self.multiprocessors = multiprocessors;
        }
    }

    fn begin(&mut self, case: usize) {
        self.record.begin(case);
    }

    fn unusual_device(&self) -> Option<String> {
        (self.multiprocessors != simt::MULTIPROCESSORS)
            .then(|| format!("on {} multiprocessors", self.multiprocessors))
    }

    fn take_cause(&mut self) -> Option<(&'static str, String)> {
        self.record.cause.take()
    }

    fn doubt(&mut self, invalid: bool) {
        self.record.invalid = invalid;
    }

    fn restart(&mut self) -> Result<(), Trouble> {
        self.clear();
        Ok(())
    }
}

impl Weighed for Emulated {
    fn own_bytes(&mut self) -> Result<u64, Trouble> {
        let states: u64 = self.states.values().map(|held| held.state.size_bytes()).sum();
        Ok(states + self.variables.values().sum::<u64>())
    }

    fn peak_bytes(&mut self) -> Result<u64, Trouble> {
        Ok(self.own_bytes()? + self.most_bytes)
    }

    fn resident_bytes(&mut self) -> Result<u64, Trouble> {
        self.own_bytes()
    }

    fn call_weighed(&mut self, call: &Call<'_>) -> Result<(Answer, u64), Trouble> {
        let answer = self.call(call)?;
        Ok((answer, self.scratch + self.variables.values().sum::<u64>()))
    }

    /// What a state takes is counted, and no allocator has a say in it.
    fn states(&self) -> u32 {
        2
    }

    fn take_traffic(&mut self) -> Option<Traffic> {
        self.traffic.as_mut().map(std::mem::take)
    }

    fn idle_cpu_s(&mut self, _: Duration) -> Result<f64, Trouble> {
        Ok(0.0)
    }
}

#[cfg(test)]
mod tests;
