//! A trial: first the cases, then, if the answers deserve it, the measurements.

mod measured;
mod repeats;
mod steps;

use std::collections::BTreeSet;
use std::slice;

use rand_chacha::ChaCha8Rng;
use rayon::prelude::*;
use tribunal_runner::Trouble;

pub use self::measured::Measured;
pub use self::repeats::hear_repeats;
pub(crate) use self::steps::STORES_ROWS;
use self::steps::{memory, rounding, time, traffic, weigh_peak, weigh_scratch, weigh_states};
use crate::emulated::Emulated;
use crate::examine::{Examined, Watch, examine, examine_side_by_side};
use crate::measure::{self, Extent, Weighed};
use crate::on_gpu::{Memory, OnGpu};
use crate::workload::Workloads;
use crate::{Challenge, Dimension, Effort, Finding, Outcome, Plan, Severity, Subject};

/// A play longer than this is not repeated for an interval.
const LONG_PLAY_S: f64 = 1.0;

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
    if let Err(trouble) = rounding(&workloads.rounds, subject, &mut rng, watch, &mut measured) {
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

/// What is measured of an emulated device: a part that needs no other.
struct Part<'w> {
    /// What trouble with it is about, and where that counts. Of several troubles about one thing the first is told.
    about: (&'static str, Dimension),
    name: String,
    measure: Box<Measure<'w>>,
}

type Measure<'w> = dyn Fn(&mut Emulated, &mut ChaCha8Rng, &mut Measured) -> Result<(), Trouble> + Sync + 'w;

fn parts<'w>(workloads: &'w Workloads, watch: &'w dyn Watch) -> Vec<Part<'w>> {
    let mut parts = Vec::new();
    let mut part = |about, name, measure| parts.push(Part { about, name, measure });
    let precision = ("precision", Dimension::Completeness);
    for rounds in &workloads.rounds {
        let rounded = slice::from_ref(rounds);
        let measure = |device: &mut Emulated, rng: &mut _, measured: &mut _| {
            rounding(rounded, device, rng, watch, measured)
        };
        part(precision, rounds.name(), Box::new(measure) as Box<Measure<'_>>);
    }
    let memory = ("memory", Dimension::Memory);
    if let Some(scratch) = &workloads.scratch {
        let measure = |device: &mut Emulated, rng: &mut _, measured: &mut _| {
            weigh_scratch(scratch, device, rng, watch, measured)
        };
        part(memory, "scratch".to_owned(), Box::new(measure));
    }
    for state in &workloads.kept {
        let kept = slice::from_ref(state);
        let measure = |device: &mut Emulated, rng: &mut _, measured: &mut _| {
            weigh_states(kept, device, rng, watch, measured)
        };
        part(memory, state.name(), Box::new(measure));
    }
    if let Some(weighed) = &workloads.weighed {
        let measure = |device: &mut Emulated, rng: &mut _, measured: &mut _| {
            weigh_peak(weighed, device, rng, watch, measured)
        };
        part(memory, "peak".to_owned(), Box::new(measure));
    }
    for workload in &workloads.counted {
        let counted = slice::from_ref(workload);
        let measure = |device: &mut Emulated, rng: &mut _, measured: &mut _| {
            traffic(counted, device, rng, watch, measured)
        };
        part(("traffic", Dimension::Memory), workload.name(), Box::new(measure));
    }
    parts
}

/// All that can be measured on an emulated device: what fewer bits cost, what is kept, and what kernels ask of the memory; each on a device
/// of its own, side by side. The device that comes back has seen it all.
pub fn hear_device(
    challenge: &dyn Challenge,
    plan: &Plan,
    device: Emulated,
    watch: &dyn Watch,
) -> (Measured, Emulated) {
    // What is counted does not depend on chance, and one size tells.
    let workloads = challenge.workloads(&Plan { effort: Effort::Quick, ..plan.clone() });
    let parts = parts(&workloads, watch);
    watch.phase("measurements", None);
    let heard: Vec<_> = parts
        .par_iter()
        .map(|Part { about: (about, _), name, measure }| {
            let (mut device, mut measured) = (device.clone(), Measured::default());
            let mut rng = plan.seed.rng(&format!("{about} of {name}"));
            let trouble = measure(&mut device, &mut rng, &mut measured).err();
            (measured, device, trouble)
        })
        .collect();
    let (mut all, mut whole, mut troubled) = (Measured::default(), device, BTreeSet::new());
    for (Part { about: (about, dimension), .. }, (mut measured, device, trouble)) in parts.iter().zip(heard) {
        if let Some(trouble) = trouble.filter(|_| troubled.insert(*about)) {
            measured.trouble(about, *dimension, &trouble);
        }
        all.append(measured);
        whole = whole.join(device);
    }
    (all, whole)
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

#[cfg(test)]
mod tests;
