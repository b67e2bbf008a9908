//! A trial: first the cases, then, if the answers deserve it, the measurements.

mod measured;
mod repeats;
mod steps;

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use tribunal_runner::Trouble;

pub use self::measured::Measured;
pub use self::repeats::hear_repeats;
pub(crate) use self::steps::STORES_ROWS;
use self::steps::{Part, time};
use crate::emulated::Emulated;
use crate::examine::{Examined, Watch, examine, examine_side_by_side};
use crate::hands::share;
use crate::measure::{self, Extent, Weighed};
use crate::on_gpu::{Memory, OnGpu};
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

/// How many emulated devices the cases of a submission are dealt to: on every machine as many, since memory that a kernel keeps from call to
/// call is of one of them. They are more than most machines have processors, so that none of these waits long for the last.
pub(crate) const DEVICES: usize = 16;

/// Puts an emulated device to every case, beside others that are alike.
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

/// All that can be measured of a subject beside others, without a clock: what fewer bits cost, and what is kept, stored and needed at the peak.
/// `scales` is the same submission in a process whose memory can be weighed.
pub fn hear_weight(
    challenge: &dyn Challenge,
    plan: &Plan,
    subject: &mut dyn Weighed,
    scales: &mut dyn Weighed,
    watch: &dyn Watch,
) -> Measured {
    let mut measured = Measured::default();
    let workloads = challenge.workloads(plan);
    watch.phase("weighing", None);
    // What comes after the first trouble of a topic would say the same again.
    let _ =
        Part::of_precision(&workloads).try_for_each(|part| part.hear(plan, subject, watch, &mut measured));
    let _ = Part::of_memory(&workloads).try_for_each(|part| part.hear(plan, scales, watch, &mut measured));
    measured
}

/// How long a fresh subject takes, beside a reference where there is one. Nothing else may run meanwhile, or it says little.
pub fn hear_time(
    challenge: &dyn Challenge,
    plan: &Plan,
    subject: &mut dyn Weighed,
    reference: Option<&mut (dyn Subject + '_)>,
    watch: &dyn Watch,
) -> Measured {
    let mut measured = Measured::default();
    let workloads = challenge.workloads(plan);
    let mut rng = plan.seed.rng("time");
    watch.phase("timing", None);
    if let Err(trouble) = time(&workloads, plan, subject, reference, &mut rng, watch, &mut measured) {
        measured.trouble("performance", Dimension::Performance, &trouble);
    }
    measured
}

/// All that can be measured on an emulated device that is fresh: what fewer bits cost, what is kept, and what kernels ask of the memory; each
/// part on a device of its own. The device that comes back has seen it all.
pub fn hear_device(
    challenge: &dyn Challenge,
    plan: &Plan,
    device: Emulated,
    watch: &dyn Watch,
) -> (Measured, Emulated) {
    // What is counted does not depend on chance, and one size tells.
    let workloads = challenge.workloads(&Plan { effort: Effort::Quick, ..plan.clone() });
    watch.phase("weighing", None);
    let parts = Part::of_precision(&workloads).chain(Part::of_memory(&workloads));
    let parts: Vec<Part<'_>> = parts.chain(Part::of_traffic(&workloads)).collect();
    // The first part of each topic that came to nothing: those behind it are left out, whether they were begun or not.
    let troubled = Mutex::new(BTreeMap::new());
    let is_left_out = |index: usize| {
        let troubled = troubled.lock().unwrap_or_else(PoisonError::into_inner);
        troubled.get(parts[index].topic().0).is_some_and(|first| *first < index)
    };
    let hear = |index: usize| {
        if is_left_out(index) {
            return None;
        }
        let (mut device, mut measured) = (device.clone(), Measured::default());
        if parts[index].is_of_memory() {
            device.count();
        }
        if parts[index].hear(plan, &mut device, watch, &mut measured).is_break() {
            let mut troubled = troubled.lock().unwrap_or_else(PoisonError::into_inner);
            let first = troubled.entry(parts[index].topic().0).or_insert(index);
            *first = index.min(*first);
        }
        device.clear();
        Some((index, measured, device))
    };
    let heard = share((0..parts.len()).collect(), hear);
    let (mut all, mut whole) = (Measured::default(), device.clone());
    for (_, measured, device) in heard.into_iter().flatten().filter(|(index, ..)| !is_left_out(*index)) {
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
            let (timed, ended) = measure::time(&[workload.as_ref()], subject, beside, extent, &mut rng);
            for timed in timed.into_iter().flatten() {
                measured.timed(workload.as_ref(), timed, floor, None);
            }
            ended
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
