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
    /// Blocks of four plays (subject, reference, reference, subject) of each workload in each.
    pub blocks: usize,
    /// No further block is begun after so long in blocks of one workload.
    pub budget: Duration,
}

impl From<Effort> for Extent {
    fn from(effort: Effort) -> Self {
        let (restarts, blocks, budget_ms) = match effort {
            Effort::Quick => (2, 2, 400),
            Effort::Standard => (5, 2, 500),
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

/// Times plays of workloads in blocks A B B A, so that drift cancels, each workload in the same processes as the others. When it is a side's
/// turn it plays once untimed: after a switch it finds the other's data in the caches. What became of each workload comes back, and what ended
/// it all early.
pub fn time(
    workloads: &[&dyn Workload],
    subject: &mut dyn Subject,
    reference: Option<&mut dyn Subject>,
    extent: Extent,
    rng: &mut ChaCha8Rng,
) -> (Vec<Option<Timed>>, Result<(), Trouble>) {
    let mut timings: Vec<Timing<'_>> = workloads.iter().map(|workload| Timing::new(*workload)).collect();
    let ended = time_all(&mut timings, subject, reference, extent, rng);
    (timings.into_iter().map(Timing::finish).collect(), ended)
}

fn time_all(
    timings: &mut [Timing<'_>],
    subject: &mut dyn Subject,
    mut reference: Option<&mut dyn Subject>,
    extent: Extent,
    rng: &mut ChaCha8Rng,
) -> Result<(), Trouble> {
    // Of one restart a ratio has no interval.
    let least = if reference.is_some() { 2 } else { 1 };
    for restart in 0..extent.restarts {
        // Of two its interval is a matter of luck, so for a third there is as much time again.
        let budget = if restart == 2 { 2 * extent.budget } else { extent.budget };
        let is_due = |timing: &Timing<'_>| restart < least || timing.took < budget;
        if !timings.iter().any(is_due) {
            break;
        }
        if restart > 0 {
            subject.restart()?;
            if let Some(reference) = reference.as_deref_mut() {
                reference.restart()?;
            }
        }
        // Restarts share the budget, so that a slow play costs blocks and not restarts.
        let share = extent.budget * (restart as u32 + 1) / extent.restarts as u32;
        for timing in timings.iter_mut().filter(|timing| is_due(timing)) {
            let beside = reference.as_deref_mut().map(|reference| reference as &mut dyn Subject);
            timing
                .blocks(subject, beside, extent.blocks, share, rng)
                .inspect_err(|_| timing.samples.clear())?;
        }
    }
    Ok(())
}

/// A workload that is being timed.
struct Timing<'w> {
    workload: &'w dyn Workload,
    /// Seconds on the wall and processors of the subject's plays.
    samples: Vec<f64>,
    processors: Vec<f64>,
    wrong: Option<String>,
    /// The logarithms of the ratios to the reference, by restart and block.
    log_ratios: Vec<Vec<f64>>,
    reference_wrong: Option<String>,
    took: Duration,
}

impl<'w> Timing<'w> {
    fn new(workload: &'w dyn Workload) -> Self {
        let (samples, processors, log_ratios) = (Vec::new(), Vec::new(), Vec::new());
        let (wrong, reference_wrong, took) = (None, None, Duration::ZERO);
        Self { workload, samples, processors, wrong, log_ratios, reference_wrong, took }
    }

    /// Plays so many blocks in these processes, but for those beyond the first that would begin after `share` of the time in all.
    fn blocks(
        &mut self,
        subject: &mut dyn Subject,
        mut reference: Option<&mut dyn Subject>,
        blocks: usize,
        share: Duration,
        rng: &mut ChaCha8Rng,
    ) -> Result<(), Trouble> {
        let (started, before) = (Instant::now(), self.took);
        let mut ratios = Vec::new();
        self.workload.warm(rng, subject)?;
        for block in 0..blocks {
            if block > 0 && self.took >= share {
                break;
            }
            // The subject's turn did not end with the last block.
            let first = self.play(rng, subject)?;
            if let Some(reference) = reference.as_deref_mut() {
                self.workload.warm(rng, reference)?;
                let theirs =
                    (self.play_reference(rng, reference)? + self.play_reference(rng, reference)?) / 2.0;
                self.workload.warm(rng, subject)?;
                let second = self.play(rng, subject)?;
                ratios.push((first.ln() + second.ln()) / 2.0 - theirs);
            }
            self.took = before + started.elapsed();
        }
        if !ratios.is_empty() {
            self.log_ratios.push(ratios);
        }
        Ok(())
    }

    /// Seconds of a play of the subject.
    fn play(&mut self, rng: &mut ChaCha8Rng, subject: &mut dyn Subject) -> Result<f64, Trouble> {
        let Play { wall_s, cpu_s, wrong } = self.workload.play(rng, subject)?;
        self.wrong = self.wrong.take().or(wrong);
        self.samples.push(wall_s);
        self.processors.push(cpu_s / wall_s);
        Ok(wall_s)
    }

    /// The logarithm of the seconds of a play of the reference.
    fn play_reference(&mut self, rng: &mut ChaCha8Rng, reference: &mut dyn Subject) -> Result<f64, Trouble> {
        let play = self.workload.play(rng, reference)?;
        self.reference_wrong = self.reference_wrong.take().or(play.wrong);
        Ok(play.wall_s.ln())
    }

    /// None where nothing was seen, or trouble ended it.
    fn finish(self) -> Option<Timed> {
        let Self { samples, processors, wrong, log_ratios, reference_wrong, .. } = self;
        if samples.is_empty() {
            return None;
        }
        // A reference that answers wrongly is no measure of anything.
        let is_compared = !log_ratios.is_empty() && reference_wrong.is_none();
        let of_reference = is_compared.then(|| ratio_over_restarts(&log_ratios));
        let (time, processors) = (Estimate::of_median(&samples), super::median(&processors));
        Some(Timed { time, of_reference, samples, processors, wrong })
    }
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
                disturbed: Vec::new(),
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

    /// One workload, in which nothing goes wrong.
    fn time_one(subject: &mut dyn Subject, reference: Option<&mut dyn Subject>, extent: Extent) -> Timed {
        let (timed, ended) = time(&[&OneCall], subject, reference, extent, &mut Seed(1).rng("time"));
        ended.unwrap();
        timed.into_iter().next().unwrap().unwrap()
    }

    /// What the calls of three blocks take, on both sides, where warming ones take `warm` and each block these.
    fn three_blocks(warm: f64, [first, second]: [f64; 2], reference: [f64; 2]) -> [Vec<f64>; 2] {
        let turn = [warm, second, first];
        let subject = [&[warm, first][..], &turn, &turn, &turn[..2]].concat();
        [subject, [&[warm][..], &reference].concat()]
    }

    #[test]
    fn a_known_ratio_is_found_and_warming_plays_do_not_count() {
        let scripts = three_blocks(30.0, [3.0, 3.0], [2.0, 2.0]);
        let [mut subject, mut reference] = scripts.map(|script| Scripted::new(&script));
        let timed = time_one(&mut subject, Some(&mut reference), EXTENT);
        assert_eq!(timed.time.value, 3.0);
        assert!((timed.of_reference.unwrap().value - 1.5).abs() < 1e-12);
        assert_eq!(timed.samples, [3.0; 24]);
        assert_eq!((subject.restarts, reference.restarts), (3, 3));
        assert_eq!(timed.wrong, None);
        assert_eq!(timed.processors, 1.0);
    }

    #[test]
    fn processors_that_are_busy_are_counted() {
        let mut subject = Scripted { waits: -3.0, ..Scripted::new(&[2.0]) };
        assert_eq!(time_one(&mut subject, None, EXTENT).processors, 2.5);
    }

    #[test]
    fn drift_cancels_within_a_block() {
        // Both sides slow down together, a third over each block of four.
        let drift = |i: f64| f64::exp(0.1 * i);
        let scripts = three_blocks(1.0, [drift(0.0), drift(3.0)], [drift(1.0), drift(2.0)]);
        let [mut subject, mut reference] = scripts.map(|script| Scripted::new(&script));
        let timed = time_one(&mut subject, Some(&mut reference), EXTENT);
        assert!((timed.of_reference.unwrap().value - 1.0).abs() < 1e-12);
    }

    #[test]
    fn workloads_share_processes_and_not_budgets() {
        let (mut subject, mut reference) = (Scripted::new(&[1.0]), Scripted::new(&[1.0]));
        let mut rng = Seed(1).rng("time");
        let (timed, ended) =
            time(&[&OneCall, &OneCall], &mut subject, Some(&mut reference), EXTENT, &mut rng);
        ended.unwrap();
        let samples = timed.into_iter().map(|timed| timed.unwrap().samples.len());
        assert_eq!(samples.collect::<Vec<_>>(), [EXTENT.restarts * EXTENT.blocks * 2; 2]);
        assert_eq!((subject.restarts, reference.restarts), (3, 3));
    }

    /// A subject that ends with a call.
    struct Mortal(Scripted, usize);

    impl Subject for Mortal {
        fn call(&mut self, call: &Call<'_>) -> Result<Answer, Trouble> {
            match self.0.calls < self.1 {
                true => self.0.call(call),
                false => Err(tribunal_contract::Fault::Exited { code: 1 }.into()),
            }
        }
        fn release(&mut self, state: StateId) -> Result<(), Trouble> {
            self.0.release(state)
        }
        fn restart(&mut self) -> Result<(), Trouble> {
            self.0.restart()
        }
    }

    #[test]
    fn trouble_with_a_workload_leaves_what_was_seen_of_those_before() {
        // A warming play and three others of each.
        for (calls, samples) in [(4, [Some(3), None]), (6, [Some(3), None]), (9, [None, Some(3)])] {
            let mut subject = Mortal(Scripted::new(&[1.0]), calls);
            let mut rng = Seed(1).rng("time");
            let (timed, ended) = time(&[&OneCall, &OneCall], &mut subject, None, EXTENT, &mut rng);
            assert!(ended.is_err());
            let seen = timed.into_iter().map(|timed| timed.map(|timed| timed.samples.len()));
            assert_eq!(seen.collect::<Vec<_>>(), samples, "after {calls} calls");
        }
    }

    #[test]
    fn a_wrong_timed_result_is_told() {
        let timed = time_one(&mut Scripted::new(&[1.0, 1.0, 1.0, 101.0]), None, EXTENT);
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
        let mut subject = Scripted::new(&[1.0]);
        let timed = time_one(&mut subject, None, extent);
        assert_eq!((timed.samples.len(), subject.restarts), (1, 0));
        let mut reference = Scripted::new(&[1.0]);
        let timed = time_one(&mut subject, Some(&mut reference), extent);
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
        let timed = time_one(&mut subject, Some(&mut reference), extent);
        assert_eq!(timed.samples.len(), 2 * (subject.0.restarts + 1), "a block in each restart");
    }

    #[test]
    fn an_interval_is_of_three_restarts_if_that_takes_no_longer_than_twice_the_budget() {
        // A block lasts 80 ms at least: no restart beyond the second is within the budget, and the third within twice the first of them.
        for (budget_ms, restarts) in [(155, 3), (20, 2)] {
            let mut subject = Slow(Scripted::new(&[1.0]), Duration::from_millis(20));
            let mut reference = Scripted::new(&[1.0]);
            let extent = Extent { budget: Duration::from_millis(budget_ms), ..EXTENT };
            time_one(&mut subject, Some(&mut reference), extent);
            assert_eq!(subject.0.restarts + 1, restarts, "{budget_ms} ms");
        }
    }
}
