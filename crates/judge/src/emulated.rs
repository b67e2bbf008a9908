//! A CUDA submission on the emulated device: what a caged process is to the others.
//!
//! Its PTX is data to the court, run by an interpreter that reaches nothing but the buffers of a call. Every launch is watched, and what
//! it did wrong or asked of the memory is kept until the court asks for it.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;
use std::time::{Duration, Instant};

use tribunal_contract::launch::{Buffer, Kernels, Launch, Plan, Role, Signature, State, Value};
use tribunal_contract::{Answer, Argument, Call, Challenge, Fault, StateId, Tensor};
use tribunal_runner::Trouble;
use tribunal_simt::execute;
use tribunal_simt::fault::{self, Kind};
use tribunal_simt::launch::{self as simt, Refusal, Report, Schedule, Settings};
use tribunal_simt::memory::{self, Memory, Pointer};
use tribunal_simt::meter::{BufferMeter, SECTOR};
use tribunal_simt::program::{Kernel, Space};
use tribunal_simt::ptx::Module;

use crate::evidence::Repeats;
use crate::finding::SANITIZER;
use crate::measure::Weighed;
use crate::{Case, Dimension, Finding, Outcome, Severity, Subject, examine::finding_about};

/// Warp instructions that a call may take: some seconds, and of large buffers more, for who looks at each byte again and again.
const CALL_MOST: RangeInclusive<u64> = 1 << 24..=1 << 28;
const BYTE_MOST: u64 = 1 << 11;

/// How long the launches of a call may take, whatever their instructions are.
const PATIENCE: Duration = Duration::from_secs(60);

/// What module variables may take of a submission's memory: emulated, they are there several times.
const VARIABLES_PART: u64 = 8;

/// Characters that are kept of what a launch printed.
const PRINTED_MOST: usize = 400;

/// A call that took more is not made again in another order, or with other contents of what nobody has written.
const AGAIN_MOST: u64 = 1 << 22;

/// What nobody has written may hold: nothing set, as flags and counters like it; numbers larger than any other; NaN and -1.
const FILLS: [u8; 3] = [0x00, 0x7B, 0xFF];

/// Calls that are made again with each of them for a place in a kernel.
const FILLED_WHOLLY: usize = 16;

/// What a call asked of the device's memory.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Traffic {
    /// Of every buffer, over all launches of the calls.
    pub buffers: BTreeMap<String, BufferTraffic>,
    /// Bytes of inputs and outputs, once each.
    pub given: f64,
    /// Bytes of the sectors of states that calls used.
    pub used: f64,
}

/// What calls asked of a buffer.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct BufferTraffic {
    /// Its size, summed over calls.
    pub size: f64,
    /// Bytes that loads asked for.
    pub read: f64,
    /// Bytes that stores asked for.
    pub written: f64,
    /// Bytes of the sectors that both touched.
    pub moved: f64,
    /// Whether it is an input of the operation.
    pub input: bool,
    /// Whether it is of a state.
    pub state: bool,
}

impl Traffic {
    /// Bytes that loads and stores asked for.
    pub fn bytes(&self) -> f64 {
        self.buffers.values().map(|buffer| buffer.read + buffer.written).sum()
    }

    /// Bytes of the sectors that they touched, request by request.
    pub fn moved(&self) -> f64 {
        self.buffers.values().map(|buffer| buffer.moved).sum()
    }
}

/// How a call is made: in which order, and with what where nobody has written.
#[derive(Debug, Clone, Copy)]
struct Way {
    schedule: Schedule,
    fill: u8,
}

impl Default for Way {
    fn default() -> Self {
        let Settings { schedule, fill, .. } = Settings::default();
        Self { schedule, fill }
    }
}

/// A fault, the cases in which it came up, and the call in which it did first.
#[derive(Debug, Clone)]
struct Seen {
    fault: fault::Fault,
    cases: BTreeSet<usize>,
    /// Its turn among what the device of the first case saw.
    turn: usize,
    during: String,
    /// Of the use of a value that nobody gave, whether results hang on it; none where that was not tried.
    matters: Option<bool>,
    /// In how many calls that was tried.
    tried: usize,
    /// Whether it only came up in calls that must be refused.
    invalid: bool,
}

impl Seen {
    /// What comes before what, by the first case and the turn in it.
    fn order(&self) -> (Option<usize>, usize) {
        (self.cases.first().copied(), self.turn)
    }

    /// How much it weighs. What is undefined may come out right here and wrong on a GPU.
    fn severity(&self) -> Severity {
        match (self.fault.kind, self.matters) {
            (_, Some(false)) => Severity::Note,
            // It is not to answer, however it does that.
            _ if self.invalid => Severity::Minor,
            (Kind::BarrierAfterExit, _) => Severity::Major,
            (Kind::NeverWaited, _) => Severity::Minor,
            _ => Severity::Critical,
        }
    }

    /// Whether it is the same fault at the same place.
    fn is(&self, other: &fault::Fault) -> bool {
        let fault::Fault { kind, kernel, line, other: with, .. } = &self.fault;
        (kind, kernel, line, with) == (&other.kind, &other.kernel, &other.line, &other.other)
    }
}

/// A submission's kernels and the states that it made.
#[derive(Debug, Clone)]
pub struct Emulated {
    challenge: &'static Challenge,
    launches: Kernels,
    kernels: BTreeMap<String, Kernel>,
    /// Holds what modules keep between launches; buffers only during a call.
    memory: Memory,
    states: BTreeMap<StateId, Held>,
    seen: Vec<Seen>,
    /// Which of them the present call used values in that nobody gave.
    of_values: Vec<usize>,
    /// The case that is tried.
    case: usize,
    /// Whether calls are such that must be refused.
    invalid: bool,
    /// Operations whose results differ between two orders, and in which case and by which buffer first.
    unordered: BTreeMap<&'static str, (usize, String)>,
    /// Calls whose results were compared between two orders.
    reordered: usize,
    traffic: Traffic,
    scratch: u64,
    /// What kernels printed first, by kernel: in which case, in which call, and the text.
    printed: BTreeMap<String, (usize, String, String)>,
    /// Bytes that were written of variables of the module, by name.
    variables: BTreeMap<String, u64>,
    instructions: u64,
    launched: bool,
    most_bytes: u64,
    /// Bytes that the buffers of a call may have.
    limit_bytes: u64,
    worked_s: f64,
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
            memory: Memory::new(),
            states: BTreeMap::new(),
            seen: Vec::new(),
            of_values: Vec::new(),
            case: 0,
            invalid: false,
            unordered: BTreeMap::new(),
            reordered: 0,
            traffic: Traffic::default(),
            scratch: 0,
            printed: BTreeMap::new(),
            variables: BTreeMap::new(),
            instructions: 0,
            launched: false,
            most_bytes: 0,
            limit_bytes,
            worked_s: 0.0,
        })
    }

    /// What the calls since the last time asked of the memory.
    pub fn take_traffic(&mut self) -> Traffic {
        std::mem::take(&mut self.traffic)
    }

    /// Seconds that calls took, of which the submission is responsible for all.
    pub fn worked_s(&self) -> f64 {
        self.worked_s
    }

    /// What was wrong with how kernels did their work in these cases, whatever their answers were; a pass if nothing was.
    pub fn findings(&self, cases: &[Box<dyn Case>]) -> Vec<Finding> {
        let failed = |about: &str, check: &str, dimension, severity, message, suspect| {
            finding_about(about, check, dimension, Outcome::Fail, severity, message, Some(suspect))
        };
        // What was seen only while a failure was shrunk, or measured, was in none of them.
        let smallest = |seen: &mut dyn Iterator<Item = usize>| {
            seen.filter_map(|at| cases.get(at)).min_by_key(|case| case.weight()).map(|case| case.id())
        };
        let mut findings = Vec::new();
        for seen in &self.seen {
            let Seen { fault, during, cases, .. } = seen;
            let (kernel, name) = (&fault.kernel, fault.kind.name());
            let line = fault.line.to_string();
            let about = format!("{SANITIZER}{kernel}/{}", line.replace(' ', "_"));
            let check = match &fault.other {
                // Two races at one line are with two others.
                Some(other) => format!("{name}_with_line_{}", other.line),
                None => name.to_owned(),
            };
            let effect = match seen.matters {
                Some(false) => "; no result hangs on it: they are the same whatever is there",
                _ if seen.invalid => "; such a call must be refused",
                _ => "",
            };
            let message = format!("kernel `{kernel}`, {fault}, first in {during}{effect}");
            let dimension = Dimension::Correctness;
            findings.push(Finding {
                seen_in: smallest(&mut cases.iter().copied()),
                ..failed(&about, &check, dimension, seen.severity(), message, name)
            });
        }
        if self.seen.is_empty() && self.launched {
            let message = format!("{} instructions of warps", self.instructions);
            let (dimension, note) = (Dimension::Correctness, Severity::Note);
            findings.push(finding_about("sanitizer", "clean", dimension, Outcome::Pass, note, message, None));
        }
        for (kernel, (case, during, text)) in &self.printed {
            let message = format!("kernel `{kernel}` printed, first in {during}: {text:?}");
            // In a dimension that counts no cases: who prints gains nothing by it.
            let (dimension, note) = (Dimension::Code, Severity::Note);
            let about = format!("{SANITIZER}{kernel}");
            findings.push(Finding {
                seen_in: smallest(&mut [*case].into_iter()),
                ..finding_about(&about, "printed", dimension, Outcome::Pass, note, message, None)
            });
        }
        for (operation, (case, buffer)) in &self.unordered {
            let message = format!(
                "{operation} gives another `{buffer}` when blocks, warps and lanes run in another order, as they may on a GPU at any time"
            );
            let about = format!("{SANITIZER}{operation}");
            let (dimension, minor) = (Dimension::Stability, Severity::Minor);
            findings.push(Finding {
                seen_in: smallest(&mut [*case].into_iter()),
                ..failed(&about, "same_in_any_order", dimension, minor, message, "order_dependent")
            });
        }
        findings
    }

    fn try_call(&mut self, call: &Call<'_>) -> Result<Vec<Tensor>, Trouble> {
        let using = call.inputs.iter().find_map(|input| match input {
            Argument::State(id) => Some(*id),
            _ => None,
        });
        let missing = || Fault::Refused { message: "the state is gone".to_owned() };
        let held = using.map(|id| self.states.get(&id).cloned().ok_or_else(missing)).transpose()?;
        let plan = self.launches.plan(self.challenge, call, held.as_ref().map(|held| &held.state));
        let plan = plan.map_err(Fault::from)?;
        let bytes: u64 = plan.buffers.iter().map(Buffer::size_bytes).sum();
        if bytes > self.limit_bytes {
            return Err(Fault::Memory { limit_bytes: self.limit_bytes }.into());
        }
        self.most_bytes = self.most_bytes.max(bytes);
        let is_scratch = |buffer: &&Buffer| buffer.role == Role::Scratch;
        self.scratch = plan.buffers.iter().filter(is_scratch).map(Buffer::size_bytes).sum();
        let before = self.memory.clone();
        let lay_out = |memory: &mut Memory| -> Vec<Pointer> {
            let states = held.as_ref().map(|held| &held.buffers);
            plan.buffers.iter().map(|buffer| memory.add(lay_out(buffer, call, states))).collect()
        };
        let pointers = lay_out(&mut self.memory);
        let began = self.instructions;
        let during = describe(call);
        self.of_values.clear();
        self.launch_all(call.operation, &plan, &pointers, Way::default(), Some(&during))?;
        let buffers = self.memory.take();
        if self.instructions - began < AGAIN_MOST {
            let after = std::mem::replace(&mut self.memory, before.clone());
            if !self.invalid && !self.unordered.contains_key(call.operation) {
                let pointers = lay_out(&mut self.memory);
                let reverse = Way { schedule: Schedule::Reverse, ..Way::default() };
                if self.launch_all(call.operation, &plan, &pointers, reverse, None).is_ok() {
                    self.compare(call.operation, &plan, &buffers);
                }
            }
            let open = |index: &&usize| self.seen[**index].matters != Some(true);
            if let Some(tried) = self.of_values.iter().filter(open).map(|index| self.seen[*index].tried).min()
            {
                let mut matters = false;
                for &fill in fills(tried) {
                    self.memory = before.clone();
                    let pointers = lay_out(&mut self.memory);
                    self.memory.refill(fill);
                    let way = Way { fill, ..Way::default() };
                    let ran = self.launch_all(call.operation, &plan, &pointers, way, None);
                    // What modules keep comes into the next call.
                    matters |= ran.is_err()
                        || self.differing(&plan, &buffers).is_some()
                        || !self.memory.keeps_what(&after);
                }
                for index in &self.of_values {
                    let seen = &mut self.seen[*index];
                    seen.matters = Some(matters || seen.matters == Some(true));
                    seen.tried += 1;
                }
            }
            self.memory = after;
        }
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
    ) -> Result<(), Trouble> {
        let mut used: BTreeMap<usize, f64> = BTreeMap::new();
        let bytes: u64 = plan.buffers.iter().map(Buffer::size_bytes).sum();
        let most = CALL_MOST.start().saturating_add(BYTE_MOST.saturating_mul(bytes)).min(*CALL_MOST.end());
        let mut left = u32::try_from(most).expect("the most there may be fits");
        let until = Instant::now() + PATIENCE;
        for launch in &plan.launches {
            let patience = until.saturating_duration_since(Instant::now());
            let Way { schedule, fill } = way;
            let settings = Settings { schedule, limit: left, patience, fill };
            let report = self.launch(launch, pointers, &settings).map_err(|refusal| Fault::Launch {
                message: format!("tribunal.toml, [operation.{operation}] `{}`: {refusal}", launch.kernel),
            })?;
            left = left.saturating_sub(u32::try_from(report.meter.instructions).unwrap_or(u32::MAX));
            let Some(during) = during else {
                if report.finished {
                    continue;
                }
                return Err(stopped(&report).into());
            };
            self.instructions += report.meter.instructions;
            self.launched = true;
            for (index, (buffer, meter)) in plan.buffers.iter().zip(&report.meter.buffers).enumerate() {
                let traffic = self.traffic.buffers.entry(buffer.name.clone()).or_default();
                traffic.read += meter.read.bytes as f64;
                traffic.written += meter.written.bytes as f64;
                traffic.moved += (SECTOR * (meter.read.sectors + meter.written.sectors)) as f64;
                traffic.input |= matches!(buffer.role, Role::Input(_));
                traffic.state |= matches!(buffer.role, Role::State(_));
                let unique = SECTOR * (meter.unique_sectors_read + meter.unique_sectors_written);
                let used = used.entry(index).or_default();
                *used = used.max(unique as f64);
            }
            self.count_variables(&launch.kernel, &report.meter.buffers[plan.buffers.len()..]);
            self.note(&report, during);
            if !report.finished {
                return Err(stopped(&report).into());
            }
        }
        if during.is_some() {
            for (index, buffer) in plan.buffers.iter().enumerate() {
                let size = buffer.size_bytes() as f64;
                self.traffic.buffers.entry(buffer.name.clone()).or_default().size += size;
                match buffer.role {
                    Role::Input(_) | Role::Output(_) => self.traffic.given += size,
                    Role::State(_) => self.traffic.used += used.get(&index).copied().unwrap_or(0.0),
                    Role::Scratch | Role::Status => (),
                }
            }
        }
        Ok(())
    }

    /// Variables of a module are memory like any other.
    fn count_variables(&mut self, kernel: &str, meters: &[BufferMeter]) {
        let variables = self.kernels[kernel].variables.iter().zip(meters);
        for (variable, meter) in variables.filter(|(variable, _)| variable.space != Space::Const) {
            let name = format!("__device__ {}", variable.name);
            let traffic = self.traffic.buffers.entry(name.clone()).or_default();
            traffic.read += meter.read.bytes as f64;
            traffic.written += meter.written.bytes as f64;
            traffic.moved += (SECTOR * (meter.read.sectors + meter.written.sectors)) as f64;
            let written = self.variables.entry(name).or_default();
            *written = (*written).max(SECTOR * meter.unique_sectors_written);
        }
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
        let asked = simt::Launch {
            grid: launch.grid,
            block: launch.block,
            shared: launch.shared_bytes,
            arguments: launch.arguments.iter().map(argument).collect(),
        };
        execute::launch(&self.kernels[&launch.kernel], &asked, &mut self.memory, settings)
    }

    /// Keeps the faults that are new, and what a kernel printed first.
    fn note(&mut self, report: &Report, during: &str) {
        if !report.printed.is_empty() && !self.printed.contains_key(&report.kernel) {
            let printed = (self.case, during.to_owned(), start_of(&report.printed));
            self.printed.insert(report.kernel.clone(), printed);
        }
        for fault in &report.faults {
            let index = match self.seen.iter().position(|seen| seen.is(fault)) {
                Some(index) => {
                    let seen = &mut self.seen[index];
                    seen.fault.count += fault.count;
                    seen.cases.insert(self.case);
                    seen.invalid &= self.invalid;
                    index
                }
                None => {
                    self.seen.push(Seen {
                        fault: fault.clone(),
                        cases: BTreeSet::from([self.case]),
                        turn: self.seen.len(),
                        during: during.to_owned(),
                        matters: None,
                        tried: 0,
                        invalid: self.invalid,
                    });
                    self.seen.len() - 1
                }
            };
            if fault.kind.is_of_a_value() {
                self.of_values.push(index);
            }
        }
    }

    /// What this device and another one saw of the same kernels in other cases, as if one had seen it all. Memory and traffic are for devices
    /// that are measured, and stay this one's.
    pub fn join(mut self, other: Self) -> Self {
        for seen in other.seen {
            match self.seen.iter_mut().find(|known| known.is(&seen.fault)) {
                Some(known) => {
                    let count = known.fault.count + seen.fault.count;
                    let cases = &known.cases | &seen.cases;
                    let (matters, invalid) = (known.matters.max(seen.matters), known.invalid && seen.invalid);
                    if seen.order() < known.order() {
                        *known = seen;
                    }
                    (known.fault.count, known.cases) = (count, cases);
                    (known.matters, known.invalid) = (matters, invalid);
                }
                None => self.seen.push(seen),
            }
        }
        self.seen.sort_by_key(Seen::order);
        for (operation, found) in other.unordered {
            let known = self.unordered.entry(operation).or_insert_with(|| found.clone());
            *known = found.min(known.clone());
        }
        for (kernel, found) in other.printed {
            let known = self.printed.entry(kernel).or_insert_with(|| found.clone());
            *known = found.min(known.clone());
        }
        self.reordered += other.reordered;
        self.instructions += other.instructions;
        self.launched |= other.launched;
        self.most_bytes = self.most_bytes.max(other.most_bytes);
        // They were busy side by side.
        self.worked_s = self.worked_s.max(other.worked_s);
        self
    }

    /// What came of running calls again in another order; none if no call was.
    pub fn repeats(&self) -> Option<Repeats> {
        let tried =
            format!("{} calls, run again with blocks, warps and lanes in reverse order", self.reordered);
        let differs = self.unordered.iter().next();
        let differs = differs.map(|(operation, (_, buffer))| format!("{operation} gives another `{buffer}`"));
        (self.reordered > 0).then_some(Repeats { tried, differs })
    }

    /// Notes what another order makes different.
    fn compare(&mut self, operation: &'static str, plan: &Plan, first: &[memory::Buffer]) {
        self.reordered += 1;
        if let Some(buffer) = self.differing(plan, first) {
            self.unordered.insert(operation, (self.case, buffer));
        }
    }

    /// A buffer that holds something else than it did at first, of those that anybody sees afterwards.
    fn differing(&self, plan: &Plan, first: &[memory::Buffer]) -> Option<String> {
        let mut buffers = plan.buffers.iter().zip(first).zip(self.memory.buffers());
        buffers.find_map(|((buffer, first), second)| {
            let seen = matches!(buffer.role, Role::Output(_) | Role::State(_) | Role::Status);
            (seen && !first.holds_what(second)).then(|| buffer.name.clone())
        })
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
                        let element = buffer.dtype.size_bytes() as u8;
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

/// What is tried in a call where nobody has written, after so many calls: all in the first, later one after the other.
fn fills(tried: usize) -> &'static [u8] {
    if tried < FILLED_WHOLLY { &FILLS } else { &FILLS[tried % FILLS.len()..][..1] }
}

/// As much of what a launch printed as a finding has room for.
fn start_of(printed: &str) -> String {
    let text = printed.trim_end();
    let mut start: String = text.chars().take(PRINTED_MOST).collect();
    if start.len() < text.len() {
        start.push('…');
    }
    start
}

/// A buffer as a call finds it.
fn lay_out(buffer: &Buffer, call: &Call<'_>, states: Option<&Vec<memory::Buffer>>) -> memory::Buffer {
    let element = buffer.dtype.size_bytes() as u8;
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

/// A call in words: `softmax_topk of float32(1, 2, 50257), k 10`.
fn describe(call: &Call<'_>) -> String {
    let inputs: Vec<String> = call
        .inputs
        .iter()
        .filter_map(|input| match input {
            Argument::Tensor(tensor) => Some(tensor.spec().to_string()),
            Argument::Integer(value) => Some(value.to_string()),
            Argument::Real(_) | Argument::State(_) => None,
        })
        .collect();
    format!("{} of {}", call.operation, inputs.join(", "))
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
    for (place, ((argument, bytes), param)) in arguments.iter().zip(&kernel.params).enumerate() {
        if *bytes != param.size as usize {
            return Err(format!(
                "`{operation}` launches `{name}` with `{}`, of {bytes} bytes, as argument {}, where the kernel has one of {}",
                argument.trim(),
                place + 1,
                param.size
            ));
        }
    }
    Ok(())
}

/// What a fault that ends a launch is to a call.
fn stopped(report: &Report) -> Fault {
    let fault = report.faults.iter().find(|fault| fault.kind.ends());
    let message = fault.map_or_else(|| "it did not finish".to_owned(), ToString::to_string);
    Fault::Device { message: format!("kernel `{}`, {message}", report.kernel) }
}

impl Subject for Emulated {
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
            changed_late: false,
        })
    }

    fn release(&mut self, state: StateId) -> Result<(), Trouble> {
        self.states.remove(&state);
        Ok(())
    }

    fn begin(&mut self, case: usize) {
        self.case = case;
    }

    fn doubt(&mut self, invalid: bool) {
        self.invalid = invalid;
    }

    fn restart(&mut self) -> Result<(), Trouble> {
        self.states.clear();
        self.variables.clear();
        self.memory = Memory::new();
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

    fn idle_cpu_s(&mut self, _: Duration) -> Result<f64, Trouble> {
        Ok(0.0)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use tribunal_contract::{DType, Manifest, TensorSpec, challenges};

    use super::*;
    use crate::examine::{Examined, Unwatched};
    use crate::trial::{hear_cases, hear_cases_on_device};
    use crate::{Effort, Plan, Seed};

    /// The bar's softmax, as it is judged, but from PTX that lies beside its source: no compiler is asked for.
    fn softmax_topk(change: impl FnOnce(String) -> String, limit_bytes: u64) -> Emulated {
        softmax_topk_of(change, limit_bytes).expect("kernels")
    }

    fn softmax_topk_of(change: impl FnOnce(String) -> String, limit_bytes: u64) -> Result<Emulated, Fault> {
        let house = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let read = |path: &str| std::fs::read_to_string(house.join(path)).expect("it is in the tree");
        let manifest = read("specimens/fused_softmax_topk/cuda-reference/tribunal.toml");
        let manifest = Manifest::parse(&manifest, "tribunal.toml").expect("a manifest");
        let ptx = change(read("crates/kernels/cuda/softmax_topk.ptx"));
        let challenge = challenges::find(manifest.challenge).expect("a contract");
        Emulated::load(challenge, manifest.kernels.expect("launches"), &ptx, limit_bytes)
    }

    fn plan() -> Plan {
        Plan { seed: Seed::PUBLIC, effort: Effort::Quick, capabilities: vec!["float16", "bfloat16"] }
    }

    fn court() -> &'static dyn crate::Challenge {
        crate::challenges::find("fused_softmax_topk").expect("a court")
    }

    fn try_cases(device: &mut Emulated) -> Examined {
        hear_cases(court(), &plan(), device, &Unwatched)
    }

    fn failures(findings: &[Finding]) -> Vec<&str> {
        let failed = findings.iter().filter(|finding| finding.outcome != Outcome::Pass);
        failed.map(|finding| finding.id.as_str()).collect()
    }

    #[test]
    fn the_bar_is_right_and_clean() {
        let mut device = softmax_topk(|ptx| ptx, 1 << 30);
        assert_eq!(failures(&try_cases(&mut device).findings), [""; 0]);
        let findings = device.findings(&[]);
        assert_eq!(
            findings.iter().map(|finding| finding.id.as_str()).collect::<Vec<_>>(),
            ["sanitizer:clean"]
        );
        assert_eq!(
            device.repeats().map(|repeats| repeats.differs),
            Some(None),
            "some calls, and none differs"
        );
    }

    /// What a kernel of one thread is found to do whose body this is: `%rd0` are the logits, and `%rd1` the probabilities.
    fn seen(body: &str, invalid: bool) -> Vec<(String, Severity, String)> {
        let manifest = "name = \"t\"\nchallenge = \"fused_softmax_topk\"\nlanguage = \"cuda\"\nentry = \"t.ptx\"\n\
            [[operation.softmax_topk.launch]]\nkernel = \"k\"\ngrid = [1]\nblock = [32]\narguments = [\"logits\", \"probs\"]\n";
        let ptx = format!(
            ".version 7.0\n.target sm_80\n.address_size 64\n.global .align 4 .u32 kept;\n.visible .entry k(.param .u64 p0, .param .u64 p1) {{\n\
             .reg .b32 %r<8>; .reg .f32 %f<4>; .reg .b64 %rd<8>; .reg .pred %p<4>; .shared .align 4 .b8 s[64];\n\
             ld.param.u64 %rd0, [p0]; ld.param.u64 %rd1, [p1]; mov.u32 %r0, %tid.x; mov.u64 %rd2, s;\n{body}\nret;\n}}\n"
        );
        let manifest = Manifest::parse(manifest, "tribunal.toml").expect("a manifest");
        let challenge = challenges::find(manifest.challenge).expect("a contract");
        let launches = manifest.kernels.expect("launches");
        let mut device = Emulated::load(challenge, launches, &ptx, 1 << 20).expect("kernels");
        let logits = Tensor::from_f64(DType::Float32, [1, 1, 4], &[0.0; 4]);
        let output = |dtype| TensorSpec::new(dtype, [1, 1, 2]);
        let call = Call {
            operation: "softmax_topk",
            inputs: vec![Argument::Tensor(&logits), Argument::Integer(2)],
            outputs: vec![output(DType::Float32), output(DType::Int64)],
            makes: None,
        };
        device.doubt(invalid);
        device.call(&call).expect("an answer");
        device.doubt(false);
        let findings = device.findings(&[]).into_iter().filter(|finding| finding.outcome == Outcome::Fail);
        findings
            .map(|finding| (finding.suspect.expect("a name").clone(), finding.severity, finding.message))
            .collect()
    }

    #[test]
    fn a_value_that_nobody_gave_is_a_fault_where_results_hang_on_it() {
        let one = |body: &str| {
            let seen = seen(body, false);
            let [(suspect, severity, message)] = &seen[..] else { panic!("{seen:?}") };
            assert_eq!(message.ends_with("whatever is there"), *severity == Severity::Note, "{message}");
            (suspect.clone(), *severity)
        };
        let uninitialised = |severity| ("uninitialised".to_owned(), severity);
        let load = "ld.shared.f32 %f0, [%rd2];";
        assert_eq!(one(load), uninitialised(Severity::Note), "it is thrown away");
        assert_eq!(one(&format!("{load} st.global.f32 [%rd1], %f0;")), uninitialised(Severity::Critical));
        let kept = "ld.shared.u32 %r1, [%rd2]; st.global.u32 [kept], %r1;";
        assert_eq!(one(kept), uninitialised(Severity::Critical), "it is there for the next call");
        // A branch on it, and a product with zero, which is none where a NaN is.
        let branch = "ld.shared.u32 %r1, [%rd2]; setp.ne.u32 %p0, %r1, 0;\n@%p0 st.global.u32 [%rd1], 1;";
        assert_eq!(one(branch), uninitialised(Severity::Critical));
        let product = "mul.f32 %f1, %f0, 0f00000000; mul.f32 %f1, %f1, %f1; st.global.f32 [%rd1], %f1;";
        assert_eq!(one(&format!("{load} {product}")), uninitialised(Severity::Critical));
        // The second stage of a sum over a block: lane 0 is right, and what the others get is of no use.
        let sum = "setp.gt.u32 %p0, %r0, 3;\n@%p0 ret;\nmov.u32 %r2, %r0;\n\
            shfl.sync.down.b32 %r3, %r2, 2, 31, 15; add.u32 %r2, %r2, %r3; shfl.sync.down.b32 %r3, %r2, 1, 31, 15; add.u32 %r2, %r2, %r3;\n";
        let inactive = |severity| ("inactive_lane".to_owned(), severity);
        let first = "setp.eq.u32 %p1, %r0, 0;\n@%p1 st.global.u32 [%rd1], %r2;";
        assert_eq!(one(&format!("{sum}{first}")), inactive(Severity::Note));
        let last = "setp.eq.u32 %p1, %r0, 3;\n@%p1 st.global.u32 [%rd1], %r2;";
        assert_eq!(one(&format!("{sum}{last}")), inactive(Severity::Critical));
    }

    #[test]
    fn what_goes_wrong_in_a_call_that_must_be_refused_weighs_little() {
        let overrun = "ld.global.f32 %f0, [%rd0+16];";
        let told = |invalid| seen(overrun, invalid).pop().expect("a fault");
        let (suspect, severity, _) = told(false);
        assert_eq!((suspect.as_str(), severity), ("out_of_bounds", Severity::Critical));
        let (suspect, severity, message) = told(true);
        assert_eq!((suspect.as_str(), severity), ("out_of_bounds", Severity::Minor));
        assert!(message.ends_with("; such a call must be refused"), "{message}");
    }

    /// What is not emulated is told with the line of the source that it was made from.
    #[test]
    fn what_is_not_emulated_is_told_with_its_line() {
        let house = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let source =
            std::fs::read_to_string(house.join("crates/kernels/cuda/softmax_topk.cu")).expect("it is there");
        let message = |from: &str, to: &str| {
            let changed = softmax_topk_of(|ptx| ptx.replace(from, to), 1 << 30);
            match changed {
                Err(Fault::Load { message }) => message,
                other => panic!("{:?}", other.map(|_| ())),
            }
        };
        let refused = message("bar.sync", "barrier.cluster.wait");
        let (place, rest) = refused.split_once(", in its PTX line ").expect("a place and a line");
        let (file, line) = place.split_once(':').expect("a file and a line");
        assert_eq!(file, "softmax_topk.cu");
        let line: usize = line.parse().expect("a number");
        assert!(source.lines().nth(line - 1).is_some_and(|text| text.contains("sync")), "{refused}");
        assert!(rest.contains("barrier.cluster.wait"), "{refused}");
    }

    /// One call, of one row of logits in no order.
    fn call(device: &mut Emulated, vocab: usize, k: usize) -> Result<Answer, Trouble> {
        let values: Vec<f64> = (0..vocab).map(|i| (i * 7919 % 1009) as f64 / 100.0).collect();
        let logits = Tensor::from_f64(DType::Float32, [1, 1, vocab], &values);
        let outputs = [DType::Float32, DType::Int64].map(|dtype| TensorSpec::new(dtype, [1, 1, k]));
        device.call(&Call {
            operation: "softmax_topk",
            inputs: vec![Argument::Tensor(&logits), Argument::Integer(k as i64)],
            outputs: outputs.to_vec(),
            makes: None,
        })
    }

    /// PTX without one barrier of a kernel; none where it has no more.
    fn without_barrier(ptx: &str, kernel: &str, index: usize) -> Option<String> {
        let begin = ptx.find(&format!(".entry {kernel}(")).expect("it has the kernel");
        let end = ptx[begin + 1..].find(".entry").map_or(ptx.len(), |at| begin + 1 + at);
        let (at, _) = ptx[begin..end].match_indices("bar.sync").nth(index)?;
        Some([&ptx[..begin + at], "// ", &ptx[begin + at..]].concat())
    }

    #[test]
    fn a_barrier_that_is_left_out_is_told_as_races_with_their_lines() {
        // Not every barrier is one that this call comes to, or that nothing else stands in for.
        let mut told = 0;
        for index in 0.. {
            let mut left = true;
            let without = |ptx: String| {
                without_barrier(&ptx, "softmax_topk_f32", index).unwrap_or_else(|| {
                    left = false;
                    ptx
                })
            };
            let mut device = softmax_topk(without, 1 << 30);
            if !left {
                break;
            }
            // What comes of it, if anything does, is not the question.
            drop(call(&mut device, 2000, 8));
            let findings = device.findings(&[]);
            let races: Vec<&Finding> =
                findings.iter().filter(|finding| finding.suspect.as_deref() == Some("shared_race")).collect();
            told += usize::from(!races.is_empty());
            assert!(races.iter().all(|race| race.severity == Severity::Critical));
            assert!(
                races.iter().all(|race| race.message.contains("softmax_topk.cu:")),
                "{:?}",
                races.first().map(|race| &race.message)
            );
        }
        assert!(told >= 5, "{told}");
    }

    #[test]
    fn what_a_kernel_prints_is_noted_and_costs_nothing() {
        let prints = |ptx: String| {
            let declared = ".address_size 64
                .extern .func (.param .b32 r) vprintf(.param .b64 a, .param .b64 b);
                .global .b8 said[5] = {104, 105, 27, 10, 0};";
            let ptx = ptx.replacen(".address_size 64", declared, 1);
            let entry = ptx.find(".entry softmax_topk_f32(").expect("it has the kernel");
            let body = entry + ptx[entry..].find("\n{").expect("it has a body") + 2;
            let call = "{ .reg .b64 %says<4>; .reg .b32 %said; .local .align 8 .b8 room[8]; .param .b64 format; .param .b64 values;
                .param .b32 printed; mov.u64 %says0, said; cvta.global.u64 %says1, %says0; st.param.b64 [format], %says1;
                mov.u64 %says2, room; cvta.local.u64 %says3, %says2; st.param.b64 [values], %says3;
                call.uni (printed), vprintf, (format, values); ld.param.b32 %said, [printed]; }";
            [&ptx[..body], call, &ptx[body..]].concat()
        };
        let mut device = softmax_topk(prints, 1 << 30);
        call(&mut device, 2000, 8).unwrap();
        let findings = device.findings(&[]);
        assert!(findings.iter().all(|finding| finding.outcome == Outcome::Pass), "{findings:?}");
        let printed = findings.iter().find(|finding| finding.id.ends_with("printed")).expect("a note");
        assert_eq!((printed.severity, printed.dimension), (Severity::Note, Dimension::Code));
        assert!(
            printed.message.starts_with("kernel `softmax_topk_f32` printed, first in "),
            "{}",
            printed.message
        );
        // As much as there is room for, with nothing that a terminal would obey.
        assert!(printed.message.contains("\"hi\\u{1b}\\nhi"), "{}", printed.message);
        assert!(
            printed.message.ends_with("…\"") && printed.message.len() < 8 * PRINTED_MOST,
            "{}",
            printed.message
        );
    }

    #[test]
    fn two_devices_see_what_one_does() {
        let racing = |index| {
            let without = |ptx: String| without_barrier(&ptx, "softmax_topk_f32", index).expect("a barrier");
            let mut device = softmax_topk(without, 1 << 30);
            drop(call(&mut device, 2000, 8));
            let seen = !device.seen.is_empty();
            device.seen.clear();
            seen.then_some(device)
        };
        let device = (0..).find_map(racing).expect("some barrier is needed");
        // How often a fault was seen depends on how much was shrunk; where, and in which case first, does not.
        let told = |findings: Vec<Finding>| -> Vec<(String, String, Option<String>)> {
            let first = |message: &str| message.split(", first in ").nth(1).unwrap_or_default().to_owned();
            let of = |finding: Finding| (finding.id, first(&finding.message), finding.seen_in);
            findings.into_iter().map(of).collect()
        };
        let ruled = |examined: &Examined| -> Vec<(String, Outcome)> {
            examined.findings.iter().map(|finding| (finding.id.clone(), finding.outcome)).collect()
        };
        let mut alone = device.clone();
        let examined = try_cases(&mut alone);
        let (shared, joined) = hear_cases_on_device(court(), &plan(), device, &Unwatched);
        assert_eq!(ruled(&shared), ruled(&examined));
        assert_eq!(
            told(joined.findings(&court().cases(&plan()))),
            told(alone.findings(&court().cases(&plan())))
        );
        assert!(joined.seen.len() > 1, "{:?}", joined.seen);
        let differs = |device: &Emulated| device.repeats().map(|repeats| repeats.differs);
        assert_eq!(differs(&joined), differs(&alone));
    }

    #[test]
    fn a_call_that_wants_too_much_memory_gets_none() {
        let mut device = softmax_topk(|ptx| ptx, 1000);
        let Err(Trouble::Fault(fault)) = call(&mut device, 512, 1) else {
            panic!("2 KiB of logits in 1000 bytes")
        };
        assert_eq!(fault, Fault::Memory { limit_bytes: 1000 });
    }
}
