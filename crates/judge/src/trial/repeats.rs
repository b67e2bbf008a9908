//! The same input, given again.

use tribunal_contract::{Answer, Call, StateId, Tensor};
use tribunal_runner::Trouble;

use super::LONG_PLAY_S;
use crate::evidence::Repeats;
use crate::examine::Watch;
use crate::workload::Workload;
use crate::{Challenge, Effort, Plan, Subject};

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
