//! How a subject is measured: what fewer bits cost, what it keeps, how long it takes and how that grows, what it asks of memory.

use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use rand_chacha::ChaCha8Rng;
use tribunal_runner::Trouble;

use super::LONG_PLAY_S;
use super::measured::{Measured, judge_time, plain, without_floor};
use crate::examine::Watch;
use crate::lead::budgets;
use crate::measure::{self, Extent, Rate, Rough, Weighed, bandwidth};
use crate::workload::{KeepsState, Rounds, Scratch, Sweep, Workload, Workloads};
use crate::{Dimension, Plan, Severity, Subject};

/// Rows beyond which a call is said to store rows that it need not.
pub(crate) const STORES_ROWS: f64 = 0.5;

/// How often a sweep in which time grows too fast is repeated.
const LOOKS_AGAIN: usize = 3;

/// How long states may take to make before fewer are weighed.
const PATIENCE: Duration = Duration::from_secs(3);

/// How long it is watched while nothing is asked of it.
const IDLE: Duration = Duration::from_millis(20);

/// Share of a processor that may be used meanwhile: thread pools take a moment to go to sleep.
const BUSY: f64 = 0.25;

/// What is measured by itself, whatever else is; no clock has a part in it.
pub(super) enum Part<'w> {
    Rounds(&'w dyn Rounds),
    Scratch(&'w Scratch),
    Kept(&'w dyn KeepsState),
    Peak(&'w [Box<dyn Workload>; 2]),
    Traffic(&'w dyn Workload),
}

impl<'w> Part<'w> {
    /// What fewer bits cost.
    pub fn of_precision(workloads: &'w Workloads) -> impl Iterator<Item = Self> {
        workloads.rounds.iter().map(|rounds| Part::Rounds(rounds.as_ref()))
    }

    /// What calls take beyond their inputs and outputs, what states keep, and what is needed at the peak.
    pub fn of_memory(workloads: &'w Workloads) -> impl Iterator<Item = Self> {
        let kept = workloads.kept.iter().map(|state| Part::Kept(state.as_ref()));
        let scratch = workloads.scratch.iter().map(Part::Scratch);
        scratch.chain(kept).chain(workloads.weighed.iter().map(Part::Peak))
    }

    /// What kernels ask of the memory.
    pub fn of_traffic(workloads: &'w Workloads) -> impl Iterator<Item = Self> {
        workloads.counted.iter().map(|workload| Part::Traffic(workload.as_ref()))
    }

    /// Whether it asks what calls take of memory, or ask of it.
    pub fn is_of_memory(&self) -> bool {
        !matches!(self, Part::Rounds(_))
    }

    /// What trouble with it is about, and where that counts.
    pub fn topic(&self) -> (&'static str, Dimension) {
        match self {
            Part::Rounds(_) => ("precision", Dimension::Completeness),
            Part::Scratch(_) | Part::Kept(_) | Part::Peak(_) => ("memory", Dimension::Memory),
            Part::Traffic(_) => ("traffic", Dimension::Memory),
        }
    }

    /// Of no other of its topic.
    fn name(&self) -> String {
        match self {
            Part::Rounds(rounds) => rounds.name(),
            Part::Scratch(_) => "calls".to_owned(),
            Part::Kept(state) => format!("a state, {}", state.name()),
            Part::Peak(_) => "the peak".to_owned(),
            Part::Traffic(workload) => workload.name(),
        }
    }

    /// Measures it. Whether it came to nothing is told, and noted.
    pub fn hear(
        &self,
        plan: &Plan,
        subject: &mut dyn Weighed,
        watch: &dyn Watch,
        measured: &mut Measured,
    ) -> ControlFlow<()> {
        let (topic, dimension) = self.topic();
        let mut rng = plan.seed.rng(&format!("{topic} of {}", self.name()));
        match self.measure(subject, &mut rng, watch, measured) {
            Ok(()) => ControlFlow::Continue(()),
            Err(trouble) => {
                measured.trouble(topic, dimension, &trouble);
                ControlFlow::Break(())
            }
        }
    }

    fn measure(
        &self,
        subject: &mut dyn Weighed,
        rng: &mut ChaCha8Rng,
        watch: &dyn Watch,
        measured: &mut Measured,
    ) -> Result<(), Trouble> {
        match self {
            Part::Rounds(rounds) => rounding(*rounds, subject, rng, watch, measured)?,
            Part::Scratch(scratch) => {
                watch.step("memory beyond inputs and outputs");
                weigh_scratch(scratch, subject, rng, measured)?;
            }
            Part::Kept(state) => {
                watch.step(&format!("memory a state of {} keeps", state.name()));
                measured.kept(*state, measure::kept_bytes(*state, subject, PATIENCE, rng)?);
            }
            Part::Peak([small, weighed]) => {
                watch.step("memory at the peak");
                let peak = measure::peak_bytes(small.as_ref(), weighed.as_ref(), subject, rng)?;
                let floor = weighed.peak_floor_bytes() as f64;
                measured.measurements.push(plain("peak_bytes", &weighed.name(), peak, "B", floor));
            }
            Part::Traffic(workload) => traffic(*workload, subject, rng, watch, measured)?,
        }
        Ok(())
    }
}

/// What kernels ask of the memory.
fn traffic(
    workload: &dyn Workload,
    device: &mut dyn Weighed,
    rng: &mut ChaCha8Rng,
    watch: &dyn Watch,
    measured: &mut Measured,
) -> Result<(), Trouble> {
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
    if let Some(traffic) = device.take_traffic() {
        measured.traffic(&name, &traffic, workload.state_bytes());
    }
    Ok(())
}

/// What fewer bits cost.
fn rounding(
    rounds: &dyn Rounds,
    subject: &mut dyn Weighed,
    rng: &mut ChaCha8Rng,
    watch: &dyn Watch,
    measured: &mut Measured,
) -> Result<(), Trouble> {
    let (what, name) = (rounds.what(), rounds.name());
    watch.step(&format!("error of {name}"));
    let error = rounds.error(rng, subject)?;
    measured.measurements.push(without_floor(what, &name, error.mean, "1"));
    let failed = (!(error.used <= 1.0)).then(|| {
        let message = format!("{name}: answers are off by {} of what the bits explain", budgets(error.used));
        (Severity::Major, message, None)
    });
    let about = format!("precision/{}", name.replace(", ", "/").replace(' ', "_"));
    measured.push_finding(&about, "no_coarser_than_its_bits", Dimension::Completeness, failed);
    let finding = measured.findings.last_mut().expect("it was just pushed");
    (finding.used, finding.limit) = (error.used.is_finite().then_some(error.used), Some(1.0));
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

pub(super) fn time(
    workloads: &Workloads,
    plan: &Plan,
    subject: &mut dyn Weighed,
    reference: Option<&mut (dyn Subject + '_)>,
    rng: &mut ChaCha8Rng,
    watch: &dyn Watch,
    measured: &mut Measured,
) -> Result<(), Trouble> {
    let seconds_per_element = sweeps(workloads, subject, rng, watch, measured)?;
    rest(subject, measured)?;
    let (mut timed, mut floors) = (Vec::new(), Vec::new());
    for workload in &workloads.timed {
        if seconds_per_element * workload.elements() as f64 > LONG_PLAY_S {
            measured.omissions.push(format!(
                "{} was not timed: at the pace seen on smaller sizes one call would take {:.0} s",
                workload.name(),
                seconds_per_element * workload.elements() as f64
            ));
            continue;
        }
        // The machine's pace changes by the minute, so the floor is measured beside.
        floors.push(workload.floor_s(&bandwidth(workload.working_set_bytes(), 0.08)));
        timed.push(workload.as_ref());
    }
    if timed.is_empty() {
        return Ok(());
    }
    let names: Vec<String> = timed.iter().map(|workload| workload.name()).collect();
    watch.step(&format!("time of {}", names.join(" and ")));
    let reference = reference.map(|reference| reference as &mut dyn Subject);
    let (seen, ended) = measure::time(&timed, subject, reference, Extent::from(plan.effort), rng);
    for ((workload, floor), seen) in timed.into_iter().zip(floors).zip(seen) {
        let Some(seen) = seen else { continue };
        let mut again = None;
        if seen.time.value / floor > workload.slow_over_floor() && ended.is_ok() {
            // It may have waited for processors that others keep busy: what is slow is slow when one looks again, at its work alone.
            let rough = measure::time_roughly(workload, subject, rng)?;
            let floor = workload.floor_s(&bandwidth(workload.working_set_bytes(), 0.08));
            again = Some(rough.working_s / floor);
        }
        measured.timed(workload, seen, floor, again);
    }
    ended
}

/// Times sizes that grow along one axis at a time. Returns the seconds an element took at the largest size tried.
pub(super) fn sweeps(
    workloads: &Workloads,
    subject: &mut dyn Weighed,
    rng: &mut ChaCha8Rng,
    watch: &dyn Watch,
    measured: &mut Measured,
) -> Result<f64, Trouble> {
    let mut seconds_per_element = 0.0f64;
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
pub(super) fn rest(subject: &mut dyn Weighed, measured: &mut Measured) -> Result<(), Trouble> {
    let busy = subject.idle_cpu_s(IDLE)? / IDLE.as_secs_f64();
    let failed = (busy > BUSY).then(|| {
        let message = format!("kept {:.0} % of a processor busy while nothing was asked of it", 100.0 * busy);
        (Severity::Major, message, Some("work_after_done"))
    });
    measured.push_finding("performance/between_calls", "rests_between_calls", Dimension::Performance, failed);
    Ok(())
}
