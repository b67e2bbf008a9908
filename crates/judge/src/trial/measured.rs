//! What was measured, and what it shows.

use tribunal_runner::Trouble;
use tribunal_simt::meter::SECTOR;

use crate::conduct;
use crate::emulated::{BufferTraffic, Traffic};
use crate::examine::finding_about;
use crate::measure::{Kept, Rate, Timed};
use crate::on_gpu::Clocks;
use crate::workload::{GROWTH, KeepsState, StateBytes, Sweep, Workload};
use crate::{Dimension, Finding, Measurement, Outcome, Severity};

/// Reads of the data beyond which the time says nothing about them: it goes into something else.
const MANY_PASSES: f64 = 10.0;

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

impl Measured {
    /// A workload that was timed. `again` is its time over the floor at a second look, where one was taken.
    pub(super) fn timed(&mut self, workload: &dyn Workload, timed: Timed, floor: f64, again: Option<f64>) {
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
    pub(super) fn clocks(&mut self, clocks: &Clocks) {
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
    pub(super) fn traffic(&mut self, name: &str, traffic: &Traffic, state: Option<StateBytes>) {
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
    pub(super) fn intermediates(&mut self, about: &str, name: &str, traffic: &Traffic, floor: f64) {
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
    pub(super) fn reads(&mut self, about: &str, check: &str, short: &str, of: &str, name: &str, reads: f64) {
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

    pub(super) fn push_finding(
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
    pub(super) fn kept(&mut self, state: &dyn KeepsState, Kept { bytes, claimed, wrong }: Kept) {
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
    pub(super) fn growth(&mut self, sweep: &Sweep, points: &[(f64, f64)], exponent: f64) {
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
    pub(super) fn passes(&mut self, sweep: &Sweep, points: &[(f64, f64)], rate: &Rate) {
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

    pub(super) fn trouble(&mut self, about: &str, dimension: Dimension, trouble: &Trouble) {
        let finding = |outcome, severity, message, suspect| {
            finding_about(about, "measured", dimension, outcome, severity, message, suspect)
        };
        let seen = match trouble {
            Trouble::Fault(fault) => conduct::of_fault("a timed call", fault, Severity::Major),
            Trouble::Machine(error) => conduct::of_machine("measured", error),
        };
        self.findings.push(finding(seen.outcome, seen.severity, seen.message, seen.suspect));
    }
}

pub(super) fn judge_time(
    workload: &dyn Workload,
    of_floor: f64,
    wrong: Option<&str>,
    measured: &mut Measured,
) {
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

pub(super) fn without_floor(name: &str, workload: &str, value: f64, unit: &str) -> Measurement {
    Measurement { floor: None, of_floor: None, ..plain(name, workload, value, unit, 1.0) }
}

pub(super) fn plain(name: &str, workload: &str, value: f64, unit: &str, floor: f64) -> Measurement {
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
