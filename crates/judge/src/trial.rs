//! A trial: first the cases, then, if the answers deserve it, the measurements.

use std::thread;
use std::time::{Duration, Instant};

use rand_chacha::ChaCha8Rng;
use tribunal_contract::{Answer, Call, StateId, Tensor};
use tribunal_runner::Trouble;
use tribunal_simt::meter::SECTOR;

use crate::conduct;
use crate::emulated::{BufferTraffic, Emulated, Traffic};
use crate::evidence::Repeats;
use crate::examine::{Examined, Watch, examine, examine_side_by_side, finding_about};
use crate::lead::budgets;
use crate::measure::{self, Extent, Kept, Rate, Rough, Timed, Weighed, bandwidth};
use crate::on_gpu::{Clocks, Memory, OnGpu};
use crate::workload::{GROWTH, KeepsState, Scratch, StateBytes, Sweep, Workload, Workloads};
use crate::{Challenge, Dimension, Effort, Finding, Measurement, Outcome, Plan, Severity, Subject};

/// How often a sweep in which time grows too fast is repeated.
const LOOKS_AGAIN: usize = 3;

/// A play longer than this is not repeated for an interval.
const LONG_PLAY_S: f64 = 1.0;

/// Reads of the data beyond which the time says nothing about them: it goes into something else.
const MANY_PASSES: f64 = 10.0;

/// Rows beyond which a call is said to store rows that it need not.
pub(crate) const STORES_ROWS: f64 = 0.5;

/// Kept bytes over the least possible beyond which a cache is called bloated: half a tensor more than one.
const BLOATED: f64 = 1.5;

/// Kept bytes over what a cache says of itself beyond which it says too little, as the contracts say where they ask: an array of
/// numpy for each token of two heads of 64 takes 1.38 times its numbers.
const UNDERSTATED: f64 = 1.5;

/// Reads of an input beyond which it is read more than once: what does not fit a block's memory may be.
const MANY_READS: f64 = 1.5;

/// Integers with their scales over the integers alone, at most: a float32 for each eight of four bits.
const MOST_SCALES: f64 = 2.0;

/// Bytes that go through memory on their way from inputs to outputs, over those that must be moved: the sums of blocks, for a second stage,
/// may come to as much.
const MANY_INTERMEDIATES: f64 = 1.5;

/// Bytes moved in sectors for a byte asked for, beyond which accesses are scattered: odd rows alone come to 1.25.
const SCATTERED: f64 = 2.0;

/// Share of the floor beyond which a time is not believed without a second look.
const TOO_FAST: f64 = 1.5;

/// How long it is watched while nothing is asked of it.
const IDLE: Duration = Duration::from_millis(20);

/// Share of a processor that may be used meanwhile: thread pools take a moment to go to sleep.
const BUSY: f64 = 0.25;

/// Puts a subject to the challenge's cases.
pub fn hear_cases(
    challenge: &dyn Challenge,
    plan: &Plan,
    subject: &mut dyn Subject,
    watch: &dyn Watch,
) -> Examined {
    examine(&challenge.cases(plan), subject, plan.seed, watch)
}

/// How many emulated devices share the cases of a submission: always as many, since memory that a kernel keeps from call to call is of one of
/// them.
const DEVICES: usize = 2;

/// Puts an emulated device to every case, beside one that is alike.
pub fn hear_cases_on_device(
    challenge: &dyn Challenge,
    plan: &Plan,
    device: Emulated,
    watch: &dyn Watch,
) -> (Examined, Emulated) {
    let mut devices = vec![device; DEVICES];
    let examined = examine_side_by_side(&challenge.cases(plan), &mut devices, plan.seed, watch);
    let device = devices.into_iter().reduce(Emulated::join).expect("there is a device");
    (examined, device)
}

/// What was measured, and what it shows.
#[derive(Debug, Default)]
pub struct Measured {
    /// The numbers.
    pub measurements: Vec<Measurement>,
    /// What they show.
    pub findings: Vec<Finding>,
    /// What was not measured, and why.
    pub omissions: Vec<String>,
    /// Processors that the subject kept busy at most while it was timed.
    pub processors: f64,
}

/// Whether answers to ordinary inputs are wrong. They earn no speed: nothing is measured then.
pub fn is_critically_wrong<'f>(findings: impl IntoIterator<Item = &'f Finding>) -> bool {
    findings.into_iter().any(|finding| {
        matches!(finding.outcome, Outcome::Fail | Outcome::Integrity)
            && finding.severity == Severity::Critical
    })
}

/// Times and weighs a subject, beside a reference where there is one. `scales` is the same submission in a process whose memory
/// can be weighed.
pub fn hear_measurements(
    challenge: &dyn Challenge,
    plan: &Plan,
    subject: &mut dyn Weighed,
    scales: &mut dyn Weighed,
    reference: Option<&mut (dyn Subject + '_)>,
    watch: &dyn Watch,
) -> Measured {
    let mut measured = Measured::default();
    let workloads = challenge.workloads(plan);
    let mut rng = plan.seed.rng("measurements");
    watch.phase("measurements", None);
    if let Err(trouble) = rounding(&workloads, subject, &mut rng, watch, &mut measured) {
        measured.trouble("precision", Dimension::Completeness, &trouble);
    }
    if let Err(trouble) = memory(&workloads, scales, &mut rng, watch, &mut measured) {
        measured.trouble("memory", Dimension::Memory, &trouble);
    }
    if let Err(trouble) = time(&workloads, plan, subject, reference, &mut rng, watch, &mut measured) {
        measured.trouble("performance", Dimension::Performance, &trouble);
    }
    measured
}

/// All that can be measured on an emulated device: what fewer bits cost, what is kept, and what kernels ask of the memory. The device that
/// comes back has seen it all.
pub fn hear_device(
    challenge: &dyn Challenge,
    plan: &Plan,
    mut device: Emulated,
    watch: &dyn Watch,
) -> (Measured, Emulated) {
    // What is counted does not depend on chance, and one size tells.
    let workloads = challenge.workloads(&Plan { effort: Effort::Quick, ..plan.clone() });
    watch.phase("measurements", None);
    let mut scales = device.clone();
    let [mut measured, mut weighed, mut counted] = [(); 3].map(|()| Measured::default());
    // States that are weighed are about half of the work.
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut rng = plan.seed.rng("memory");
            if let Err(trouble) = memory(&workloads, &mut scales, &mut rng, watch, &mut weighed) {
                weighed.trouble("memory", Dimension::Memory, &trouble);
            }
        });
        let mut rng = plan.seed.rng("precision");
        if let Err(trouble) = rounding(&workloads, &mut device, &mut rng, watch, &mut measured) {
            measured.trouble("precision", Dimension::Completeness, &trouble);
        }
        let mut rng = plan.seed.rng("traffic");
        if let Err(trouble) = traffic(&workloads, &mut device, &mut rng, watch, &mut counted) {
            counted.trouble("traffic", Dimension::Memory, &trouble);
        }
    });
    measured.append(weighed);
    measured.append(counted);
    (measured, device.join(scales))
}

/// Times kernels on a GPU, beside the reference where there is one. `memory` is of the same GPU.
pub fn hear_gpu(
    challenge: &dyn Challenge,
    plan: &Plan,
    subject: &mut OnGpu,
    mut reference: Option<&mut OnGpu>,
    memory: &mut Memory,
    watch: &dyn Watch,
) -> Measured {
    let mut measured = Measured::default();
    let mut rng = plan.seed.rng("measurements on a gpu");
    let extent = Extent::on_gpu(plan.effort);
    for workload in challenge.workloads_on_gpu(plan) {
        let (name, bytes) = (workload.name(), workload.working_set_bytes());
        watch.step(&format!("time of {name} on the GPU"));
        // Beyond that, what has no room would be our doing; below, the submission's.
        if !subject.has_room(bytes) {
            measured.omissions.push(format!("{name} was not timed: the GPU's memory is too small for it"));
            continue;
        }
        if let Some(Err(trouble)) =
            reference.as_deref_mut().map(|reference| workload.warm(&mut rng, reference))
        {
            measured.omissions.push(format!("time was not compared: the reference: {trouble}"));
            reference = None;
        }
        let mut attempt = || -> Result<(), Trouble> {
            let floor = workload.floor_s(&memory.rate(bytes)?);
            let beside = reference.as_deref_mut().map(|reference| reference as &mut dyn Subject);
            let timed = measure::time(workload.as_ref(), subject, beside, extent, &mut rng)?;
            measured.timed(workload.as_ref(), timed, floor, None);
            Ok(())
        };
        if let Err(trouble) = attempt() {
            let about = format!("performance/{}", name.replace(' ', "/"));
            measured.trouble(&about, Dimension::Performance, &trouble);
            break;
        }
    }
    measured.clocks(subject.clocks());
    measured
}

/// Plays the same calls on the same contents twice in each of two processes: the smallest size and one that is timed.
///
/// # Errors
/// What kept the subject from answering.
pub fn hear_repeats(
    challenge: &dyn Challenge,
    plan: &Plan,
    subject: &mut dyn Subject,
    watch: &dyn Watch,
) -> Result<Repeats, Trouble> {
    let workloads = challenge.workloads(&Plan { effort: Effort::Quick, ..plan.clone() });
    let rng = plan.seed.rng("repeats");
    watch.step("the same input again");
    subject.restart()?;
    let mut sizes: Vec<&dyn Workload> = Vec::new();
    let smallest =
        workloads.sweeps.first().and_then(|sweep| sweep.sizes.first()).map(|(_, workload)| workload);
    if let Some(smallest) = smallest {
        sizes.push(smallest.as_ref());
        let pace = smallest.play(&mut rng.clone(), subject)?.wall_s / smallest.elements() as f64;
        let timed = workloads.timed.first().map(AsRef::as_ref);
        sizes.extend(timed.filter(|workload| pace * workload.elements() as f64 <= LONG_PLAY_S));
    }
    let write_down = |subject: &mut dyn Subject| -> Result<Vec<Written>, Trouble> {
        let mut scribe = Scribe { subject, written: Vec::new() };
        for workload in &sizes {
            workload.play(&mut rng.clone(), &mut scribe)?;
        }
        Ok(scribe.written)
    };
    let first = write_down(subject)?;
    let mut differs = unlike(&first, &write_down(subject)?, "the same process");
    subject.restart()?;
    for _ in 0..2 {
        differs = differs.or(unlike(&first, &write_down(subject)?, "another process"));
    }
    let names: Vec<String> = sizes.iter().map(|workload| workload.name()).collect();
    Ok(Repeats { tried: format!("{}, twice in each of two processes", names.join(" and ")), differs })
}

/// Where results are not the same to the bit.
fn unlike(first: &[Written], again: &[Written], place: &str) -> Option<String> {
    let changed = first.iter().zip(again).find(|(first, again)| first != again);
    changed.map(|((operation, _), _)| format!("{operation} gives other bits in {place}"))
}

/// An operation and its results.
type Written = (&'static str, Vec<Tensor>);

/// A subject whose results are written down.
struct Scribe<'a> {
    subject: &'a mut dyn Subject,
    written: Vec<Written>,
}

impl Subject for Scribe<'_> {
    fn call(&mut self, call: &Call<'_>) -> Result<Answer, Trouble> {
        let answer = self.subject.call(call)?;
        self.written.push((call.operation, answer.outputs.clone()));
        Ok(answer)
    }

    fn release(&mut self, state: StateId) -> Result<(), Trouble> {
        self.subject.release(state)
    }

    fn restart(&mut self) -> Result<(), Trouble> {
        self.subject.restart()
    }
}

fn traffic(
    workloads: &Workloads,
    device: &mut Emulated,
    rng: &mut ChaCha8Rng,
    watch: &dyn Watch,
    measured: &mut Measured,
) -> Result<(), Trouble> {
    for workload in &workloads.counted {
        let name = workload.name();
        watch.step(&format!("traffic of {name}"));
        device.restart()?;
        device.take_traffic();
        let play = workload.play(rng, device)?;
        if let Some(why) = play.wrong {
            let message = format!("the answer that was counted on is wrong: {why}");
            measured.push_finding(
                &format!("memory/traffic/{}", name.replace(' ', "/")),
                "counted_results_right",
                Dimension::Memory,
                Some((Severity::Major, message, None)),
            );
        }
        measured.traffic(&name, &device.take_traffic(), workload.state_bytes());
    }
    Ok(())
}

impl Measured {
    /// A workload that was timed. `again` is its time over the floor at a second look, where one was taken.
    fn timed(&mut self, workload: &dyn Workload, timed: Timed, floor: f64, again: Option<f64>) {
        let of_floor = timed.time.value / floor;
        judge_time(workload, of_floor.min(again.unwrap_or(of_floor)), timed.wrong.as_deref(), self);
        self.processors = self.processors.max(timed.processors);
        self.measurements.push(Measurement {
            name: "time".to_owned(),
            workload: workload.name(),
            value: timed.time.value,
            unit: "s".to_owned(),
            interval: Some(timed.time.interval),
            floor: Some(floor),
            of_floor: Some(floor / timed.time.value),
            of_reference: timed.of_reference.map(|ratio| ratio.value),
            of_reference_interval: timed
                .of_reference
                .map(|ratio| ratio.interval)
                .filter(|interval| interval.iter().all(|bound| bound.is_finite())),
            samples: timed.samples,
        });
    }

    /// Whether the device's clock told the truth.
    fn clocks(&mut self, clocks: &Clocks) {
        let Some((device_s, outside_s)) = clocks.widest else { return };
        let (device_us, outside_us) = (1e6 * device_s, 1e6 * outside_s);
        let (outcome, message) = if clocks.agree() {
            let message = format!(
                "over {} runs; at the widest the GPU's events say {device_us:.0} µs and the judge's clock {outside_us:.0} µs",
                clocks.runs
            );
            (Outcome::Pass, message)
        } else {
            let message = format!(
                "in {} of {} runs the GPU's events say less than the judge's clock, which is what counts then: at the widest \
                 {device_us:.0} µs and {outside_us:.0} µs",
                clocks.apart, clocks.runs
            );
            (Outcome::Inconclusive, message)
        };
        self.findings.push(finding_about(
            "performance/clocks",
            "agree",
            Dimension::Performance,
            outcome,
            if outcome == Outcome::Pass { Severity::Note } else { Severity::Major },
            message,
            None,
        ));
    }

    /// What was asked of the memory, against what had to be: inputs and outputs once, and of states so much, or what was used where the
    /// challenge leaves that open.
    fn traffic(&mut self, name: &str, traffic: &Traffic, state: Option<StateBytes>) {
        let floor = traffic.given + state.map_or(traffic.used, |state| state.read + state.written);
        self.measurements.push(plain("traffic", name, traffic.bytes(), "B", floor));
        self.measurements.push(plain(
            "sectors",
            name,
            traffic.moved() / SECTOR as f64,
            "sectors",
            floor / SECTOR as f64,
        ));
        let about = format!("memory/traffic/{}", name.replace(' ', "/"));
        if let Some(state) = state.filter(|state| state.read > 0.0) {
            let buffers = traffic.buffers.values().filter(|buffer| buffer.state);
            let with_scales = traffic.used / (state.read + state.written);
            let once = if state.scaled { with_scales.clamp(1.0, MOST_SCALES) } else { 1.0 };
            let reads = buffers.map(|buffer| buffer.read).sum::<f64>() / (once * state.read);
            self.reads(&about, "reads_state_once", "kept", "what is kept", name, reads);
        }
        let inputs = || traffic.buffers.iter().filter(|(_, buffer)| buffer.input && buffer.size > 0.0);
        let largest = inputs().map(|(_, buffer)| buffer.size).fold(0.0, f64::max);
        // What is small may come from a cache.
        let large = inputs().filter(|(_, buffer)| buffer.size >= largest / 2.0);
        let most_read = large.map(|(input, buffer)| (input, buffer.read / buffer.size));
        let Some((input, reads)) = most_read.max_by(|a, b| a.1.total_cmp(&b.1)) else { return };
        self.reads(&about, "reads_inputs_once", input, &format!("`{input}`"), name, reads);
        self.intermediates(&about, name, traffic, floor);
        let scattered = traffic.moved() / traffic.bytes();
        // Written so that a NaN fails.
        let failed = (!(scattered <= SCATTERED)).then(|| {
            let message = format!(
                "moves {scattered:.1} bytes in sectors of {SECTOR} for each byte that it asks for in {name}: lanes of a warp access memory far apart"
            );
            (Severity::Minor, message, Some("uncoalesced"))
        });
        self.push_finding(&about, "accesses_are_coalesced", Dimension::Memory, failed);
    }

    /// What is moved of outputs beyond writing them, and of memory that is neither given nor kept.
    fn intermediates(&mut self, about: &str, name: &str, traffic: &Traffic, floor: f64) {
        let inputs = traffic.buffers.values().filter(|buffer| buffer.input).map(|buffer| buffer.size);
        let outputs = traffic.given - inputs.sum::<f64>();
        let bytes = |buffer: &BufferTraffic| buffer.read + buffer.written;
        let own = || traffic.buffers.iter().filter(|(_, buffer)| !buffer.input && !buffer.state);
        let beside = own().map(|(_, buffer)| bytes(buffer)).sum::<f64>() - outputs;
        let most = own().max_by(|a, b| bytes(a.1).total_cmp(&bytes(b.1)));
        // Written so that a NaN fails.
        let failed = (!(beside / floor <= MANY_INTERMEDIATES)).then(|| {
            let of = most.map_or(String::new(), |(buffer, _)| format!(", most of it of `{buffer}`"));
            let message = format!(
                "moves {:.1} MB beside inputs and outputs in {name}, {:.1} times what must be moved at all{of}: what is not done yet can stay in registers or shared memory",
                beside / 1e6,
                beside / floor
            );
            (Severity::Minor, message, Some("intermediates_in_memory"))
        });
        self.push_finding(about, "intermediates_stay_on_chip", Dimension::Memory, failed);
    }

    /// How often each element of something is read.
    fn reads(&mut self, about: &str, check: &str, short: &str, of: &str, name: &str, reads: f64) {
        self.measurements.push(plain("reads_per_element", &format!("{short}, {name}"), reads, "reads", 1.0));
        // Written so that a NaN fails.
        let failed = (!(reads <= MANY_READS)).then(|| {
            let message = format!("reads each element of {of} {reads:.1} times in {name}; once would do");
            (Severity::Minor, message, Some("extra_passes"))
        });
        self.push_finding(about, check, Dimension::Memory, failed);
    }

    /// Adds what another measured.
    pub fn append(&mut self, mut other: Self) {
        self.measurements.append(&mut other.measurements);
        self.findings.append(&mut other.findings);
        self.omissions.append(&mut other.omissions);
        self.processors = self.processors.max(other.processors);
    }

    fn push_finding(
        &mut self,
        about: &str,
        check: &str,
        dimension: Dimension,
        failed: Option<(Severity, String, Option<&str>)>,
    ) {
        let finding = match failed {
            None => {
                finding_about(about, check, dimension, Outcome::Pass, Severity::Note, String::new(), None)
            }
            Some((severity, message, suspect)) => {
                finding_about(about, check, dimension, Outcome::Fail, severity, message, suspect)
            }
        };
        self.findings.push(finding);
    }

    /// What a state keeps, against the least it could, and against what it says of itself.
    fn kept(&mut self, state: &dyn KeepsState, Kept { bytes, claimed, wrong }: Kept) {
        let (name, floor) = (state.name(), state.floor_bytes() as f64);
        let about = format!("memory/cache/{}", name.replace(' ', "/"));
        let (what, each) = match state.pieces() {
            Some((piece, count)) => (format!("bytes_per_{piece}"), count as f64),
            None => ("cache_bytes".to_owned(), 1.0),
        };
        self.measurements.push(plain(&what, &name, bytes / each, "B", floor / each));
        let ratio = bytes / floor;
        let failed = (ratio > BLOATED).then(|| {
            let message = format!(
                "a state of {name} keeps {:.2} MB alive, {ratio:.1} times the {:.2} MB it needs",
                bytes / 1e6,
                floor / 1e6
            );
            (Severity::Minor, message, Some("cache_bloat"))
        });
        self.push_finding(&about, "cache_is_minimal", Dimension::Memory, failed);
        let failed = wrong
            .map(|why| (Severity::Major, format!("a state that was weighed answers wrongly: {why}"), None));
        self.push_finding(&about, "weighed_results_right", Dimension::Memory, failed);
        let Some(claimed) = claimed else { return };
        let what = format!("claimed_{what}");
        self.measurements.push(plain(&what, &name, claimed / each, "B", floor / each));
        // So that a NaN fails.
        let covers = bytes <= UNDERSTATED * claimed;
        let failed = (!covers).then(|| {
            let message = format!(
                "a state of {name} says that it takes {:.2} MB, and keeps {:.2} MB alive",
                claimed / 1e6,
                bytes / 1e6
            );
            (Severity::Minor, message, Some("nbytes_understated"))
        });
        self.push_finding(&about, "says_what_it_keeps", Dimension::Memory, failed);
    }

    /// How time grows along a sweep.
    fn growth(&mut self, sweep: &Sweep, points: &[(f64, f64)], exponent: f64) {
        let Sweep { axis, unit, .. } = *sweep;
        let span = format!("{axis}, {:.0} to {:.0} {unit}", points[0].0, points[points.len() - 1].0);
        // Only growth with the data has a floor: reading them all.
        self.measurements.push(if sweep.what == GROWTH {
            plain(GROWTH, &span, exponent, "1", 1.0)
        } else {
            without_floor(sweep.what, &span, exponent, "1")
        });
        let failed = (exponent > sweep.most).then(|| {
            let message =
                format!("time grows with the number of {unit} to the power {exponent:.2} over {span}");
            (Severity::Minor, message, Some(sweep.suspect))
        });
        let about = format!("performance/growth/{axis}");
        self.push_finding(&about, "time_grows_as_it_should", Dimension::Performance, failed);
    }

    /// How often the data can have been read at most: the time for more data, over the time of reading them once.
    fn passes(&mut self, sweep: &Sweep, points: &[(f64, f64)], rate: &Rate) {
        let (Some(bytes), [.., (few, short), (many, long)]) = (sweep.bytes_read_per_element, points) else {
            return;
        };
        let passes = (long - short) / (many - few) * rate.read / bytes;
        if passes > MANY_PASSES {
            self.omissions.push(format!(
                "how often the {} is read cannot be told from the time, which would allow for {passes:.0} reads",
                sweep.axis
            ));
        } else if passes > 0.0 {
            let span = format!("{}, {few:.0} to {many:.0} elements", sweep.axis);
            self.measurements.push(plain("passes_at_most", &span, passes, "reads", 1.0));
        }
    }

    fn trouble(&mut self, about: &str, dimension: Dimension, trouble: &Trouble) {
        let finding = |outcome, severity, message, suspect| {
            finding_about(about, "measured", dimension, outcome, severity, message, suspect)
        };
        self.findings.push(match trouble {
            Trouble::Fault(fault) => {
                let seen = conduct::of_fault("a timed call", fault, Severity::Major);
                finding(seen.outcome, seen.severity, seen.message, seen.suspect)
            }
            Trouble::Machine(error) => {
                finding(Outcome::Infrastructure, Severity::Minor, error.to_string(), None)
            }
        });
    }
}

/// What fewer bits cost.
fn rounding(
    workloads: &Workloads,
    subject: &mut dyn Subject,
    rng: &mut ChaCha8Rng,
    watch: &dyn Watch,
    measured: &mut Measured,
) -> Result<(), Trouble> {
    for rounds in &workloads.rounds {
        let (what, name) = (rounds.what(), rounds.name());
        watch.step(&format!("error of {name}"));
        let error = rounds.error(rng, subject)?;
        measured.measurements.push(without_floor(what, &name, error.mean, "1"));
        let failed = (!(error.used <= 1.0)).then(|| {
            let message =
                format!("{name}: answers are off by {} of what the bits explain", budgets(error.used));
            (Severity::Major, message, None)
        });
        let about = format!("precision/{}", name.replace(", ", "/").replace(' ', "_"));
        measured.push_finding(&about, "no_coarser_than_its_bits", Dimension::Completeness, failed);
        let finding = measured.findings.last_mut().expect("it was just pushed");
        (finding.used, finding.limit) = (error.used.is_finite().then_some(error.used), Some(1.0));
    }
    Ok(())
}

fn memory(
    workloads: &Workloads,
    subject: &mut dyn Weighed,
    rng: &mut ChaCha8Rng,
    watch: &dyn Watch,
    measured: &mut Measured,
) -> Result<(), Trouble> {
    if let Some(scratch) = &workloads.scratch {
        watch.step("memory beyond inputs and outputs");
        weigh_scratch(scratch, subject, rng, measured)?;
    }
    for state in &workloads.kept {
        watch.step(&format!("memory a state of {} keeps", state.name()));
        let kept = measure::kept_bytes(state.as_ref(), subject, rng)?;
        measured.kept(state.as_ref(), kept);
    }
    let Some([small, weighed]) = &workloads.weighed else { return Ok(()) };
    watch.step("memory at the peak");
    let peak = measure::peak_bytes(small.as_ref(), weighed.as_ref(), subject, rng)?;
    let floor = weighed.peak_floor_bytes() as f64;
    measured.measurements.push(plain("peak_bytes", &weighed.name(), peak, "B", floor));
    Ok(())
}

fn weigh_scratch(
    scratch: &Scratch,
    subject: &mut dyn Weighed,
    rng: &mut ChaCha8Rng,
    measured: &mut Measured,
) -> Result<(), Trouble> {
    let bytes = measure::scratch_bytes(scratch.small.as_ref(), scratch.workload.as_ref(), subject, rng)?;
    let rows = bytes / scratch.row_bytes as f64;
    let about = scratch.workload.name();
    measured.measurements.push(without_floor("scratch_rows", &about, rows, "rows"));
    let failed = (rows > STORES_ROWS).then(|| {
        let message = format!(
            "a call of {about} takes {:.1} MB beyond its inputs and outputs, {rows:.1} rows of float32, none of which need be \
             stored",
            bytes / 1e6
        );
        (Severity::Minor, message, Some("row_materialised"))
    });
    measured.push_finding("memory/scratch", "no_row_is_stored", Dimension::Memory, failed);
    Ok(())
}

fn time(
    workloads: &Workloads,
    plan: &Plan,
    subject: &mut dyn Weighed,
    mut reference: Option<&mut (dyn Subject + '_)>,
    rng: &mut ChaCha8Rng,
    watch: &dyn Watch,
    measured: &mut Measured,
) -> Result<(), Trouble> {
    let seconds_per_element = sweeps(workloads, subject, rng, watch, measured)?;
    rest(subject, measured)?;
    let extent = Extent::from(plan.effort);
    for workload in &workloads.timed {
        watch.step(&format!("time of {}", workload.name()));
        if seconds_per_element * workload.elements() as f64 > LONG_PLAY_S {
            measured.omissions.push(format!(
                "{} was not timed: at the pace seen on smaller sizes one call would take {:.0} s",
                workload.name(),
                seconds_per_element * workload.elements() as f64
            ));
            continue;
        }
        // The machine's pace changes by the minute, so the floor is measured beside.
        let floor = workload.floor_s(&bandwidth(workload.working_set_bytes(), 0.08));
        let reference = reference.as_deref_mut().map(|reference| reference as &mut dyn Subject);
        let timed = measure::time(workload.as_ref(), subject, reference, extent, rng)?;
        let mut again = None;
        if timed.time.value / floor > workload.slow_over_floor() {
            // It may have waited for processors that others keep busy: what is slow is slow when one looks again, at its work alone.
            let rough = measure::time_roughly(workload.as_ref(), subject, rng)?;
            let floor = workload.floor_s(&bandwidth(workload.working_set_bytes(), 0.08));
            again = Some(rough.working_s / floor);
        }
        measured.timed(workload.as_ref(), timed, floor, again);
    }
    Ok(())
}

/// Times sizes that grow along one axis at a time. Returns the seconds an element took at the largest size tried.
fn sweeps(
    workloads: &Workloads,
    subject: &mut dyn Weighed,
    rng: &mut ChaCha8Rng,
    watch: &dyn Watch,
    measured: &mut Measured,
) -> Result<f64, Trouble> {
    let mut seconds_per_element = 0.0f64;
    subject.restart()?;
    for sweep in &workloads.sweeps {
        let axis = sweep.axis;
        watch.step(&format!("growth over {axis}"));
        let Some(mut climb) = Climb::along(sweep, subject, rng)? else { continue };
        // A machine that is busy with something else for a moment is no defect: a defect is there when one looks again.
        for _ in 0..LOOKS_AGAIN {
            if climb.points.len() < 2 || climb.wrong.is_some() || climb.exponent() <= sweep.most {
                break;
            }
            let Some(again) = Climb::along(sweep, subject, rng)? else { break };
            if again.wrong.is_some() || again.points.len() >= 2 && again.exponent() < climb.exponent() {
                climb = again;
            }
        }
        let Climb { workload, rate, wrong, .. } = &climb;
        let (seconds, worked_s) =
            (climb.wall_s, climb.points.last().map_or(climb.wall_s, |&(_, worked_s)| worked_s));
        seconds_per_element = seconds_per_element.max(seconds / workload.elements() as f64);
        judge_time(*workload, worked_s / workload.floor_s(rate), wrong.as_deref(), measured);
        if climb.points.len() < 2 {
            measured
                .omissions
                .push(format!("growth over {axis} was not measured: one size took {seconds:.1} s"));
            continue;
        }
        measured.growth(sweep, &climb.points, climb.exponent());
        measured.passes(sweep, &climb.points, &climb.rate);
    }
    Ok(seconds_per_element)
}

/// The sizes of a sweep, timed.
struct Climb<'w> {
    /// Sizes, and the seconds in which the subject worked.
    points: Vec<(f64, f64)>,
    /// What every size takes longer at the pace of the largest. What leaves a cache slows down, and that is not the submission's:
    /// the bytes of every size are counted at one pace, whatever else the time went into.
    slower: Vec<f64>,
    /// The last one that was timed, the bandwidth at its size, what it took by the wall's clock, and what was wrong with its results.
    workload: &'w dyn Workload,
    rate: Rate,
    wall_s: f64,
    wrong: Option<String>,
}

impl<'w> Climb<'w> {
    /// Up to the first size that takes long.
    fn along(
        sweep: &'w Sweep,
        subject: &mut dyn Subject,
        rng: &mut ChaCha8Rng,
    ) -> Result<Option<Self>, Trouble> {
        let (mut points, mut rates) = (Vec::new(), Vec::new());
        let mut last = None;
        for (size, workload) in &sweep.sizes {
            let started = Instant::now();
            let rough = measure::time_roughly(workload.as_ref(), subject, rng)?;
            points.push((*size, rough.working_s));
            rates.push(bandwidth(workload.working_set_bytes(), 0.02));
            last = Some((workload.as_ref(), rough));
            if started.elapsed().as_secs_f64() > LONG_PLAY_S {
                break;
            }
        }
        let (Some((workload, Rough { wall_s, wrong, .. })), Some(rate)) = (last, rates.last().cloned())
        else {
            return Ok(None);
        };
        let slower = sweep.sizes.iter().zip(&rates).map(|((_, w), own)| w.floor_s(&rate) - w.floor_s(own));
        let slower = slower.map(|slower| slower.max(0.0)).collect();
        Ok(Some(Self { points, slower, workload, rate, wall_s, wrong }))
    }

    /// The power of the size with which time grows.
    fn exponent(&self) -> f64 {
        let at_one_pace = self.points.iter().zip(&self.slower);
        let at_one_pace: Vec<(f64, f64)> =
            at_one_pace.map(|(&(size, seconds), slower)| (size, seconds + slower)).collect();
        measure::growth(&at_one_pace)
    }
}

/// Between calls there is nothing to do. Work there is work that the clock does not see.
fn rest(subject: &mut dyn Weighed, measured: &mut Measured) -> Result<(), Trouble> {
    let busy = subject.idle_cpu_s(IDLE)? / IDLE.as_secs_f64();
    let failed = (busy > BUSY).then(|| {
        let message = format!("kept {:.0} % of a processor busy while nothing was asked of it", 100.0 * busy);
        (Severity::Major, message, Some("work_after_done"))
    });
    measured.push_finding("performance/between_calls", "rests_between_calls", Dimension::Performance, failed);
    Ok(())
}

fn judge_time(workload: &dyn Workload, of_floor: f64, wrong: Option<&str>, measured: &mut Measured) {
    let about = &format!("performance/{}", workload.name().replace(' ', "/"));
    let failed = wrong.map(|why| (Severity::Major, format!("a timed call answered wrongly: {why}"), None));
    measured.push_finding(about, "timed_results_right", Dimension::Performance, failed);
    let failed = (of_floor > workload.slow_over_floor()).then(|| {
        let message = format!("takes {of_floor:.0} times as long as moving the bytes that must be moved");
        (Severity::Minor, message, Some("slow"))
    });
    measured.push_finding(about, "no_slower_than_loops_in_compiled_code", Dimension::Performance, failed);
    if of_floor * TOO_FAST < 1.0 {
        let message = format!(
            "takes {of_floor:.2} of the time that moving its bytes should take: work was avoided, or the floor is wrong"
        );
        measured.findings.push(finding_about(
            about,
            "no_faster_than_the_floor",
            Dimension::Performance,
            Outcome::Inconclusive,
            Severity::Major,
            message,
            None,
        ));
    }
}

fn without_floor(name: &str, workload: &str, value: f64, unit: &str) -> Measurement {
    Measurement { floor: None, of_floor: None, ..plain(name, workload, value, unit, 1.0) }
}

fn plain(name: &str, workload: &str, value: f64, unit: &str, floor: f64) -> Measurement {
    Measurement {
        name: name.to_owned(),
        workload: workload.to_owned(),
        value,
        unit: unit.to_owned(),
        interval: None,
        floor: Some(floor),
        of_floor: (value > 0.0).then(|| floor / value),
        of_reference: None,
        of_reference_interval: None,
        samples: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::Proof;

    /// Eight tokens of a hundred bytes.
    struct EightTokens;

    impl KeepsState for EightTokens {
        fn name(&self) -> String {
            "8 tokens".to_owned()
        }
        fn make(&self, _: &mut ChaCha8Rng, _: &mut dyn Subject, _: StateId) -> Result<Proof<'_>, Trouble> {
            Ok(Box::new(|_| Ok(None)))
        }
        fn floor_bytes(&self) -> u64 {
            800
        }
        fn pieces(&self) -> Option<(&'static str, usize)> {
            Some(("token", 8))
        }
    }

    /// What is said of 100 bytes given, and a state of which 1000 had to be read and 200 written; or of which nothing is known but that so
    /// much was used.
    fn traffic_of(read: f64, used: f64, state: Option<StateBytes>) -> (f64, Vec<(String, Outcome)>) {
        let kept = BufferTraffic {
            size: 5000.0,
            read,
            written: 200.0,
            moved: read + 200.0,
            state: true,
            ..Default::default()
        };
        let x = BufferTraffic { size: 100.0, read: 100.0, moved: 100.0, input: true, ..Default::default() };
        let buffers = [("keys".to_owned(), kept), ("x".to_owned(), x)].into();
        let mut measured = Measured::default();
        measured.traffic("8x8 float32", &Traffic { buffers, given: 100.0, used }, state);
        let findings = measured.findings.iter();
        let findings = findings.map(|finding| (finding.check.clone(), finding.outcome)).collect();
        (measured.measurements[0].floor.unwrap(), findings)
    }

    #[test]
    fn what_is_kept_is_read_once() {
        let state = Some(StateBytes { read: 1000.0, written: 200.0, scaled: false });
        let scaled = Some(StateBytes { read: 1000.0, written: 200.0, scaled: true });
        let said = |reads| {
            let kept = ("reads_state_once".to_owned(), reads);
            let others = ["reads_inputs_once", "intermediates_stay_on_chip", "accesses_are_coalesced"];
            [vec![kept], others.map(|check| (check.to_owned(), Outcome::Pass)).to_vec()].concat()
        };
        // What was used does not count where it is known what has to be.
        assert_eq!(traffic_of(1000.0, 5000.0, state), (1300.0, said(Outcome::Pass)));
        assert_eq!(traffic_of(4000.0, 5000.0, state), (1300.0, said(Outcome::Fail)));
        assert_eq!(traffic_of(4000.0, 1500.0, None), (1600.0, said(Outcome::Pass)[1..].to_vec()));
        // Scales come with what they scale, up to some.
        assert_eq!(traffic_of(2000.0, 2400.0, state), (1300.0, said(Outcome::Fail)));
        assert_eq!(traffic_of(2000.0, 2400.0, scaled), (1300.0, said(Outcome::Pass)));
        assert_eq!(traffic_of(4000.0, 9600.0, scaled), (1300.0, said(Outcome::Fail)));
    }

    /// Of inputs of the same size, that is named which is read most often; of memory that is neither given nor kept, how much is moved.
    #[test]
    fn what_is_read_again_and_what_goes_through_memory_are_named() {
        let input =
            |read| BufferTraffic { size: 100.0, read, moved: read, input: true, ..Default::default() };
        let own = |size, read: f64, written| BufferTraffic {
            size,
            read,
            written,
            moved: read + written,
            ..Default::default()
        };
        let said = |k: f64, lists: f64| -> Vec<String> {
            let buffers = [
                ("gamma".to_owned(), BufferTraffic { size: 4.0, ..input(400.0) }),
                ("k".to_owned(), input(k)),
                ("lists".to_owned(), own(1000.0, lists, lists)),
                ("out".to_owned(), own(46.0, 0.0, 46.0)),
                ("v".to_owned(), input(100.0)),
            ];
            let mut measured = Measured::default();
            measured.traffic("8x8", &Traffic { buffers: buffers.into(), given: 250.0, used: 0.0 }, None);
            let failed = measured.findings.into_iter().filter(|finding| finding.outcome == Outcome::Fail);
            failed.map(|finding| finding.message).collect()
        };
        assert_eq!(said(100.0, 187.0), Vec::<String>::new());
        assert_eq!(said(300.0, 0.0), ["reads each element of `k` 3.0 times in 8x8; once would do"]);
        assert_eq!(
            said(100.0, 500.0),
            [
                "moves 0.0 MB beside inputs and outputs in 8x8, 4.0 times what must be moved at all, most of it of `lists`: what is not done yet can stay in registers or shared memory"
            ]
        );
    }

    /// An honest layer norm, a bit of whose results changes from a process and a call on.
    struct Drifting {
        honest: Box<dyn Subject>,
        from: (usize, usize),
        processes: usize,
        calls: usize,
    }

    impl Subject for Drifting {
        fn call(&mut self, call: &Call<'_>) -> Result<Answer, Trouble> {
            let mut answer = self.honest.call(call)?;
            self.calls += 1;
            if (self.processes, self.calls) >= self.from {
                let result = &mut answer.outputs[0];
                let mut bytes = result.bytes().to_vec();
                bytes[0] ^= 1;
                *result = Tensor::from_bytes(result.spec().clone(), bytes);
            }
            Ok(answer)
        }
        fn release(&mut self, state: StateId) -> Result<(), Trouble> {
            self.honest.release(state)
        }
        fn restart(&mut self) -> Result<(), Trouble> {
            (self.processes, self.calls) = (self.processes + 1, 0);
            self.honest.restart()
        }
    }

    fn differs(from: (usize, usize)) -> Option<String> {
        let challenge = crate::challenges::find("layer_norm_backward").unwrap();
        let plan = Plan { seed: crate::Seed::PUBLIC, effort: Effort::Standard, capabilities: vec![] };
        let honest = challenge.variants().honest[0].stand();
        let mut subject = Drifting { honest, from, processes: 0, calls: 0 };
        let repeats = hear_repeats(challenge, &plan, &mut subject, &crate::Unwatched).unwrap();
        assert_eq!(subject.processes, 2);
        assert_eq!(repeats.tried, "64x512 float32 and 1024x768 float32, twice in each of two processes");
        repeats.differs
    }

    #[test]
    fn a_bit_that_changes_is_seen_wherever_it_does() {
        assert_eq!(differs((3, 0)), None);
        // Two calls tell how large a size may be; four are the first time; the last of the second time is a backward.
        assert_eq!(differs((1, 10)).as_deref(), Some("backward gives other bits in the same process"));
        assert_eq!(differs((2, 0)).as_deref(), Some("forward gives other bits in another process"));
        assert_eq!(differs((2, 8)).as_deref(), Some("backward gives other bits in another process"));
    }

    fn charges(bytes: f64, claimed: f64) -> Vec<String> {
        let mut measured = Measured::default();
        measured.kept(&EightTokens, Kept { bytes, claimed: Some(claimed), wrong: None });
        let numbers: Vec<(&str, f64)> =
            measured.measurements.iter().map(|m| (m.name.as_str(), m.value)).collect();
        assert_eq!(numbers[0], ("bytes_per_token", bytes / 8.0));
        assert_eq!(
            (numbers[1].0, numbers[1].1.to_bits()),
            ("claimed_bytes_per_token", (claimed / 8.0).to_bits())
        );
        measured.findings.into_iter().filter_map(|finding| finding.suspect).collect()
    }

    #[test]
    fn what_a_state_says_of_itself_is_held_against_what_is_weighed() {
        assert_eq!(charges(900.0, 900.0), [""; 0]);
        assert_eq!(charges(900.0, 800.0), [""; 0], "an allocator takes its share");
        assert_eq!(charges(900.0, 5000.0), [""; 0], "room for what has not come may be counted");
        assert_eq!(charges(1100.0, 800.0), [""; 0], "and so does what a language puts before objects");
        assert_eq!(charges(1100.0, 700.0), ["nbytes_understated"]);
        assert_eq!(charges(1100.0, f64::NAN), ["nbytes_understated"]);
        assert_eq!(charges(1600.0, 1600.0), ["cache_bloat"]);
        assert_eq!(charges(1600.0, 800.0), ["cache_bloat", "nbytes_understated"]);
    }
}
