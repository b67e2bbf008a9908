//! Time side by side: the subject and the reference in the same minute, on contents that never repeat.

use std::time::{Duration, Instant};

use rand_chacha::ChaCha8Rng;
use tribunal_runner::Trouble;

use super::statistics::{Estimate, ratio_over_restarts};
use crate::workload::{Play, Workload};
use crate::{Effort, Subject};

/// How much is measured.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Extent {
    /// Fresh processes of both sides: the unit of evidence.
    pub restarts: usize,
    /// Blocks of four plays (subject, reference, reference, subject) in each.
    pub blocks: usize,
    /// No further block is begun after so long on one workload.
    pub budget: Duration,
}

impl From<Effort> for Extent {
    fn from(effort: Effort) -> Self {
        let (restarts, blocks, budget_ms) = match effort {
            Effort::Quick => (2, 2, 400),
            Effort::Standard => (5, 2, 800),
            Effort::Full => (8, 8, 10_000),
        };
        Self { restarts, blocks, budget: Duration::from_millis(budget_ms) }
    }
}

impl Extent {
    /// How much is measured on a GPU: a play moves half a gigabyte there before it is timed.
    pub fn on_gpu(effort: Effort) -> Self {
        let (restarts, blocks, budget_s) = match effort {
            Effort::Quick => (2, 1, 8),
            Effort::Standard => (3, 2, 15),
            Effort::Full => (5, 4, 60),
        };
        Self { restarts, blocks, budget: Duration::from_secs(budget_s) }
    }
}

/// What side-by-side timing showed.
#[derive(Debug, Clone, PartialEq)]
pub struct Timed {
    /// The subject's seconds for one play.
    pub time: Estimate,
    /// The subject's time over the reference's, where there was one.
    pub of_reference: Option<Estimate>,
    /// Every timed play of the subject, in order.
    pub samples: Vec<f64>,
    /// Processors that it kept busy: the median over the timed plays.
    pub processors: f64,
    /// The first thing that was wrong with any timed result.
    pub wrong: Option<String>,
}

/// Times plays of a workload in blocks A B B A, so that drift cancels. Before each timed play, one untimed play of the
/// same side: the first after a switch finds the other's data in the caches.
pub fn time(
    workload: &dyn Workload,
    subject: &mut dyn Subject,
    mut reference: Option<&mut dyn Subject>,
    extent: Extent,
    rng: &mut ChaCha8Rng,
) -> Result<Timed, Trouble> {
    let started = Instant::now();
    // Of one restart a ratio has no interval.
    let least = if reference.is_some() { 2 } else { 1 };
    let (mut samples, mut processors) = (Vec::new(), Vec::new());
    let mut log_ratios = Vec::new();
    let mut wrong = None;
    let mut side = |subject: &mut dyn Subject, rng: &mut ChaCha8Rng| -> Result<f64, Trouble> {
        workload.warm(rng, subject)?;
        let Play { wall_s, cpu_s, wrong: why } = workload.play(rng, subject)?;
        wrong = wrong.take().or(why);
        samples.push(wall_s);
        processors.push(cpu_s / wall_s);
        Ok(wall_s)
    };
    let mut reference_wrong = None;
    for restart in 0..extent.restarts {
        if restart >= least && started.elapsed() >= extent.budget {
            break;
        }
        if restart > 0 {
            subject.restart()?;
            if let Some(reference) = reference.as_deref_mut() {
                reference.restart()?;
            }
        }
        // Restarts share the budget, so that a slow play costs blocks and not restarts.
        let due = extent.budget * (restart as u32 + 1) / extent.restarts as u32;
        let mut ratios = Vec::new();
        for block in 0..extent.blocks {
            if block > 0 && started.elapsed() >= due {
                break;
            }
            let first = side(subject, rng)?;
            if let Some(reference) = reference.as_deref_mut() {
                let mut theirs = 0.0;
                for _ in 0..2 {
                    workload.warm(rng, reference)?;
                    let play = workload.play(rng, reference)?;
                    reference_wrong = reference_wrong.take().or(play.wrong);
                    theirs += play.wall_s.ln() / 2.0;
                }
                let second = side(subject, rng)?;
                ratios.push((first.ln() + second.ln()) / 2.0 - theirs);
            }
        }
        if !ratios.is_empty() {
            log_ratios.push(ratios);
        }
    }
    // A reference that answers wrongly is no measure of anything.
    let of_reference =
        (!log_ratios.is_empty() && reference_wrong.is_none()).then(|| ratio_over_restarts(&log_ratios));
    let processors = super::median(&processors);
    Ok(Timed { time: Estimate::of_median(&samples), of_reference, samples, processors, wrong })
}

/// What a few plays took.
#[derive(Debug, Clone, PartialEq)]
pub struct Rough {
    /// Median seconds by the wall's clock.
    pub wall_s: f64,
    /// Median seconds in which the subject worked: those on the wall, or those of its processors where they are fewer. Who waits for
    /// a processor that others keep busy does not work, and long plays wait more than short ones.
    pub working_s: f64,
    /// What was wrong with the results.
    pub wrong: Option<String>,
}

/// Times a few plays, for a slope. Stops early when one takes long.
pub fn time_roughly(
    workload: &dyn Workload,
    subject: &mut dyn Subject,
    rng: &mut ChaCha8Rng,
) -> Result<Rough, Trouble> {
    let (mut walls, mut working) = (Vec::new(), Vec::new());
    let mut wrong = None;
    workload.warm(rng, subject)?;
    for _ in 0..5 {
        let play = workload.play(rng, subject)?;
        wrong = wrong.or(play.wrong);
        walls.push(play.wall_s);
        working.push(play.wall_s.min(play.cpu_s));
        if play.wall_s > 0.2 {
            break;
        }
    }
    Ok(Rough { wall_s: super::median(&walls), working_s: super::median(&working), wrong })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Seed;
    use crate::measure::Rate;
    use tribunal_contract::{Answer, Call, StateId};

    /// A subject whose every call takes what the script says.
    struct Scripted {
        times: Vec<f64>,
        /// Seconds of each call in which it waits for a processor.
        waits: f64,
        calls: usize,
        restarts: usize,
    }

    impl Scripted {
        fn new(times: &[f64]) -> Self {
            Self { times: times.to_vec(), waits: 0.0, calls: 0, restarts: 0 }
        }
    }

    impl Subject for Scripted {
        fn call(&mut self, _: &Call<'_>) -> Result<Answer, Trouble> {
            let wall_s = self.times[self.calls % self.times.len()];
            self.calls += 1;
            Ok(Answer {
                outputs: vec![],
                wall_s,
                cpu_s: wall_s - self.waits,
                inputs_changed: vec![],
                wrote_outside: false,
                changed_late: false,
            })
        }
        fn release(&mut self, _: StateId) -> Result<(), Trouble> {
            Ok(())
        }
        fn restart(&mut self) -> Result<(), Trouble> {
            self.restarts += 1;
            Ok(())
        }
    }

    struct OneCall;

    impl Workload for OneCall {
        fn name(&self) -> String {
            "one call".to_owned()
        }
        fn elements(&self) -> usize {
            1
        }
        fn working_set_bytes(&self) -> usize {
            1
        }
        fn floor_s(&self, _: &Rate) -> f64 {
            1.0
        }
        fn play(&self, _: &mut ChaCha8Rng, subject: &mut dyn Subject) -> Result<Play, Trouble> {
            let call = Call { operation: "forward", inputs: vec![], outputs: vec![], makes: None };
            let answer = subject.call(&call)?;
            let wrong = (answer.wall_s > 100.0).then(|| "late".to_owned());
            Ok(Play { wall_s: answer.wall_s, cpu_s: answer.cpu_s, wrong })
        }
        fn warm(&self, rng: &mut ChaCha8Rng, subject: &mut dyn Subject) -> Result<(), Trouble> {
            self.play(rng, subject).map(|_| ())
        }
        fn peak_floor_bytes(&self) -> u64 {
            1
        }
    }

    const EXTENT: Extent = Extent { restarts: 4, blocks: 3, budget: Duration::from_secs(60) };

    #[test]
    fn a_known_ratio_is_found_and_warming_plays_do_not_count() {
        // Every second play is the timed one; the warming ones are ten times slower.
        let mut subject = Scripted::new(&[30.0, 3.0]);
        let mut reference = Scripted::new(&[20.0, 2.0]);
        let mut rng = Seed(1).rng("time");
        let timed = time(&OneCall, &mut subject, Some(&mut reference), EXTENT, &mut rng).unwrap();
        assert_eq!(timed.time.value, 3.0);
        assert!((timed.of_reference.unwrap().value - 1.5).abs() < 1e-12);
        assert_eq!(timed.samples.len(), EXTENT.restarts * EXTENT.blocks * 2);
        assert_eq!((subject.restarts, reference.restarts), (3, 3));
        assert_eq!(timed.wrong, None);
        assert_eq!(timed.processors, 1.0);
    }

    #[test]
    fn processors_that_are_busy_are_counted() {
        let mut subject = Scripted { waits: -3.0, ..Scripted::new(&[2.0]) };
        let mut rng = Seed(1).rng("time");
        assert_eq!(time(&OneCall, &mut subject, None, EXTENT, &mut rng).unwrap().processors, 2.5);
    }

    #[test]
    fn drift_cancels_within_a_block() {
        // Both sides slow down together, a third over each block of four.
        let drift = |side: usize| -> Vec<f64> {
            let order = [0, 3, 1, 2];
            let at = if side == 0 { [order[0], order[1]] } else { [order[2], order[3]] };
            at.iter().flat_map(|&i| [1.0, f64::exp(0.1 * f64::from(i))]).collect()
        };
        let mut subject = Scripted::new(&drift(0));
        let mut reference = Scripted::new(&drift(1));
        let mut rng = Seed(1).rng("time");
        let timed = time(&OneCall, &mut subject, Some(&mut reference), EXTENT, &mut rng).unwrap();
        assert!((timed.of_reference.unwrap().value - 1.0).abs() < 1e-12);
    }

    #[test]
    fn a_wrong_timed_result_is_told() {
        let mut subject = Scripted::new(&[1.0, 1.0, 1.0, 101.0]);
        let mut rng = Seed(1).rng("time");
        let timed = time(&OneCall, &mut subject, None, EXTENT, &mut rng).unwrap();
        assert_eq!(timed.wrong.as_deref(), Some("late"));
        assert_eq!(timed.of_reference, None);
    }

    #[test]
    fn who_waits_for_a_processor_does_not_work() {
        let mut rng = Seed(1).rng("time");
        let mut subject = Scripted { waits: 0.05, ..Scripted::new(&[0.15]) };
        let rough = time_roughly(&OneCall, &mut subject, &mut rng).unwrap();
        assert_eq!((rough.wall_s, rough.working_s), (0.15, 0.15 - 0.05));
        // Two processors' seconds in one on the wall are one second of work.
        let mut parallel = Scripted { waits: -0.15, ..Scripted::new(&[0.15]) };
        assert_eq!(time_roughly(&OneCall, &mut parallel, &mut rng).unwrap().working_s, 0.15);
    }

    #[test]
    fn a_spent_budget_ends_it_as_soon_as_there_is_an_interval() {
        let extent = Extent { budget: Duration::ZERO, ..EXTENT };
        let mut rng = Seed(1).rng("time");
        let mut subject = Scripted::new(&[1.0]);
        let timed = time(&OneCall, &mut subject, None, extent, &mut rng).unwrap();
        assert_eq!((timed.samples.len(), subject.restarts), (1, 0));
        let mut reference = Scripted::new(&[1.0]);
        let timed = time(&OneCall, &mut subject, Some(&mut reference), extent, &mut rng).unwrap();
        assert_eq!((timed.samples.len(), subject.restarts, reference.restarts), (4, 1, 1));
        assert_eq!(timed.of_reference.unwrap().interval, [1.0, 1.0]);
    }

    /// Another subject, whose every call lasts.
    struct Slow(Scripted, Duration);

    impl Subject for Slow {
        fn call(&mut self, call: &Call<'_>) -> Result<Answer, Trouble> {
            std::thread::sleep(self.1);
            self.0.call(call)
        }
        fn release(&mut self, state: StateId) -> Result<(), Trouble> {
            self.0.release(state)
        }
        fn restart(&mut self) -> Result<(), Trouble> {
            self.0.restart()
        }
    }

    #[test]
    fn slow_plays_cost_blocks_and_not_restarts() {
        // A block lasts longer than a restart's share.
        let mut subject = Slow(Scripted::new(&[1.0]), Duration::from_millis(20));
        let mut reference = Scripted::new(&[1.0]);
        let extent = Extent { budget: Duration::from_millis(240), ..EXTENT };
        let mut rng = Seed(1).rng("time");
        let timed = time(&OneCall, &mut subject, Some(&mut reference), extent, &mut rng).unwrap();
        assert_eq!(timed.samples.len(), 2 * (subject.0.restarts + 1), "a block in each restart");
    }
}
