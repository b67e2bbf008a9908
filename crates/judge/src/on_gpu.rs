//! A CUDA submission on a GPU, for its time.

use std::collections::BTreeMap;
use std::path::Path;

use tribunal_contract::launch::{Kernels, State};
use tribunal_contract::{Answer, Argument, Call, Challenge, Fault, StateId};
use tribunal_runner::cage::Cage;
use tribunal_runner::gpu::{Copier, Device, Gpu, Image, Ran};
use tribunal_runner::{MachineError, Trouble};

use crate::Subject;
use crate::measure::Rate;

/// What the calls of one play have together, in sizes of the cache: what the first leaves in it is gone before the last.
const CACHES: usize = 8;
/// Calls of one play: so many that launching and waiting are little beside them.
const COPIES: std::ops::RangeInclusive<usize> = 8..=64;

/// What the clocks may differ by: so many seconds and so much of the time. Judge and device speak through sockets and interrupts.
const APART_S: f64 = 30e-6;
const APART: f64 = 0.05;

/// Runs of nothing, by which the outside clock is set to zero.
const EMPTY_RUNS: usize = 9;

/// A submission's kernels on a GPU, in a process of their own, and the states that they made.
#[derive(Debug)]
pub struct OnGpu {
    challenge: &'static Challenge,
    launches: Kernels,
    gpu: Gpu,
    states: BTreeMap<StateId, State>,
    clocks: Clocks,
    /// Seconds that a run of nothing takes by the judge's clock.
    empty_s: f64,
}

/// How far two clocks agree on what runs took.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Clocks {
    /// Runs that were timed.
    pub runs: usize,
    /// Those of which the device's clock said less than the judge's can believe.
    pub apart: usize,
    /// The run in which the judge's clock said most beyond the device's: seconds of both.
    pub widest: Option<(f64, f64)>,
}

impl Clocks {
    /// What a run took: what the device says, unless the judge's clock shows that it took longer. Waiting makes the outside time
    /// longer and nothing makes it shorter.
    fn settle(&mut self, ran: Ran, empty_s: f64) -> f64 {
        let outside_s = ran.wall_s - empty_s;
        self.runs += 1;
        let gap = |(device_s, outside_s): (f64, f64)| outside_s - device_s;
        if self.widest.is_none_or(|widest| !(gap((ran.device_s, outside_s)) <= gap(widest))) {
            self.widest = Some((ran.device_s, outside_s));
        }
        // Written so that a NaN does not pass.
        if outside_s - ran.device_s <= APART_S + APART * outside_s && ran.device_s > 0.0 {
            return ran.device_s;
        }
        self.apart += 1;
        outside_s.max(ran.device_s)
    }

    /// Whether they agree on all but a few runs, which something else on the machine may have held up.
    pub fn agree(&self) -> bool {
        3 * self.apart <= self.runs
    }
}

impl OnGpu {
    /// Has the driver compile the PTX in a process of its own, unless that was done before.
    ///
    /// # Errors
    /// [`Fault::Load`] if it refuses.
    pub fn start(
        cage: &Cage,
        driver: &Path,
        challenge: &'static Challenge,
        launches: Kernels,
        ptx: &str,
        image: Option<&Image>,
    ) -> Result<Self, Trouble> {
        let mut gpu = Gpu::start(cage, driver)?;
        match image {
            Some(image) => gpu.load_image(image.clone())?,
            None => gpu.load(ptx, &launches.names())?,
        }
        let mut started = Self {
            challenge,
            launches,
            gpu,
            states: BTreeMap::new(),
            clocks: Clocks::default(),
            empty_s: 0.0,
        };
        started.empty_s = started.time_nothing()?;
        Ok(started)
    }

    /// Whether a play of such calls leaves half of the device's memory to the submission's own scratch.
    pub fn has_room(&self, working_set_bytes: usize) -> bool {
        let device = self.gpu.device();
        // A play may count half of the working set a call, and then makes more of them.
        let bytes = 2 * copies(device, working_set_bytes / 2) * working_set_bytes;
        bytes as u64 <= device.memory_bytes / 2
    }

    /// The kernels, compiled.
    pub fn image(&self) -> Option<&Image> {
        self.gpu.image()
    }

    /// How far the clocks agreed so far.
    pub fn clocks(&self) -> &Clocks {
        &self.clocks
    }

    /// The least that going there and back takes.
    fn time_nothing(&mut self) -> Result<f64, Trouble> {
        let mut least = f64::INFINITY;
        for _ in 0..EMPTY_RUNS {
            let Ran { device_s, wall_s } = self.gpu.run()?;
            least = least.min(wall_s - device_s);
        }
        Ok(least)
    }

    fn queue(&mut self, call: &Call<'_>) -> Result<(), Trouble> {
        let used = call.inputs.iter().find_map(|argument| match argument {
            Argument::State(id) => Some(*id),
            _ => None,
        });
        let missing = || Fault::Refused { message: "the state is gone".to_owned() };
        let used = used.map(|id| self.states.get(&id).ok_or_else(missing)).transpose()?;
        let multiprocessors = self.gpu.device().multiprocessors;
        let plan = self.launches.plan(self.challenge, call, used, multiprocessors).map_err(Fault::from)?;
        let made = call.makes.zip(plan.makes.clone());
        self.gpu.queue(plan, call)?;
        self.states.extend(made);
        Ok(())
    }

    fn run(&mut self, calls: &[Call<'_>], looked_at: &[usize]) -> Result<Vec<Answer>, Trouble> {
        calls.iter().try_for_each(|call| self.queue(call))?;
        let ran = self.gpu.run()?;
        let each_s = self.clocks.settle(ran, self.empty_s) / calls.len() as f64;
        let answer = |&index: &usize| {
            Ok(Answer {
                outputs: self.gpu.fetch(index, &calls[index])?,
                wall_s: each_s,
                cpu_s: each_s,
                // The emulated device watches what is written, and where.
                inputs_changed: Vec::new(),
                wrote_outside: false,
                disturbed: Vec::new(),
                changed_late: false,
            })
        };
        looked_at.iter().map(answer).collect()
    }
}

impl Subject for OnGpu {
    fn call(&mut self, call: &Call<'_>) -> Result<Answer, Trouble> {
        let mut answers = self.call_all(std::slice::from_ref(call), &[0])?;
        Ok(answers.pop().expect("an answer for each call that is looked at"))
    }

    fn call_all(&mut self, calls: &[Call<'_>], looked_at: &[usize]) -> Result<Vec<Answer>, Trouble> {
        let answers = self.run(calls, looked_at);
        match &answers {
            Err(Trouble::Fault(fault)) if fault.ends_process() => {}
            _ => self.gpu.clear()?,
        }
        answers
    }

    fn copies(&self, bytes: usize) -> usize {
        copies(self.gpu.device(), bytes)
    }

    fn release(&mut self, state: StateId) -> Result<(), Trouble> {
        self.states.remove(&state);
        self.gpu.release(state)
    }

    fn restart(&mut self) -> Result<(), Trouble> {
        self.states.clear();
        self.gpu.restart()?;
        self.empty_s = self.time_nothing()?;
        Ok(())
    }
}

/// How many calls of so many bytes make a play.
fn copies(device: &Device, bytes: usize) -> usize {
    let least = CACHES * device.l2_bytes as usize;
    least.div_ceil(bytes.max(1)).clamp(*COPIES.start(), *COPIES.end())
}

/// A GPU's memory, measured by copies in a process that holds nobody's kernels.
#[derive(Debug)]
pub struct Memory {
    gpu: Gpu,
}

impl Memory {
    /// Starts the process.
    ///
    /// # Errors
    /// If there is no GPU that works in a cage.
    pub fn start(cage: &Cage, driver: &Path) -> Result<Self, MachineError> {
        Ok(Self { gpu: Gpu::start(cage, driver)? })
    }

    /// The GPU.
    pub fn device(&self) -> &Device {
        self.gpu.device()
    }

    /// The rate of copies whose buffers have so many bytes together, bytes read and written counted, by whoever copies fastest. What is only
    /// read is held to the same rate.
    ///
    /// # Errors
    /// If the device has no room for them, or fails: nobody's kernels are there.
    pub fn rate(&mut self, working_set_bytes: usize) -> Result<Rate, MachineError> {
        self.best_copy(working_set_bytes).map_err(|trouble| match trouble {
            Trouble::Machine(error) => error,
            Trouble::Fault(fault) => MachineError::system("measuring the GPU's memory")(fault),
        })
    }

    fn best_copy(&mut self, working_set_bytes: usize) -> Result<Rate, Trouble> {
        let bytes = (working_set_bytes as u64 / 2).max(1).next_multiple_of(16);
        let copies = copies(self.gpu.device(), working_set_bytes);
        let mut best = 0.0f64;
        for by in Copier::ALL {
            (0..copies).try_for_each(|_| self.gpu.queue_copy(bytes, by))?;
            for _ in 0..5 {
                let Ran { device_s, .. } = self.gpu.run()?;
                if device_s > 0.0 {
                    best = best.max((2 * bytes * copies as u64) as f64 / device_s);
                }
            }
            self.gpu.clear()?;
        }
        if best == 0.0 {
            return Err(Fault::Device { message: "by its events copies take no time".to_owned() }.into());
        }
        Ok(Rate { working_set_bytes, read: best, copy: best, triad: best })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_judges_clock_bounds_what_a_device_says() {
        let mut clocks = Clocks::default();
        let ran = |device_s, wall_s| Ran { device_s, wall_s };
        assert_eq!(clocks.settle(ran(300e-6, 350e-6), 20e-6), 300e-6, "sockets take their time");
        assert_eq!(
            clocks.settle(ran(310e-6, 320e-6), 20e-6),
            310e-6,
            "an outside time may be a little short"
        );
        assert_eq!((clocks.runs, clocks.apart), (2, 0));
        let outside = 320e-6 - 20e-6;
        assert_eq!(clocks.settle(ran(30e-6, 320e-6), 20e-6), outside, "who says a tenth is not believed");
        assert_eq!(clocks.settle(ran(0.0, 320e-6), 20e-6), outside);
        assert_eq!(clocks.settle(ran(f64::NAN, 320e-6), 20e-6), outside);
        assert_eq!(clocks.settle(ran(-1.0, 320e-6), 20e-6), outside);
        assert_eq!((clocks.runs, clocks.apart), (6, 4));
        assert!(!clocks.agree());
        assert!(Clocks { runs: 30, apart: 3, widest: None }.agree());
    }
}
