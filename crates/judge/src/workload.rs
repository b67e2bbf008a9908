//! What is timed and weighed.

use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use tribunal_contract::{DType, StateId, Tensor, TensorSpec};
use tribunal_runner::Trouble;

use crate::Subject;
use crate::measure::Rate;

/// A size of problem, and how to put it to a subject.
pub trait Workload: Send + Sync {
    /// `2048x768 float32`.
    fn name(&self) -> String;

    /// Elements of the largest tensor: the size that growth is measured against.
    fn elements(&self) -> usize;

    /// Bytes of all tensors of one play, for choosing the rate that the floor is computed from.
    fn working_set_bytes(&self) -> usize;

    /// Seconds that moving the bytes which must be moved takes at those rates.
    fn floor_s(&self, rate: &Rate) -> f64;

    /// Makes every call once, with contents that never were before, and checks a sample of every result.
    fn play(&self, rng: &mut ChaCha8Rng, subject: &mut dyn Subject) -> Result<Play, Trouble>;

    /// The same calls, to warm what a play finds cold. Nothing is timed, so nothing is checked.
    fn warm(&self, rng: &mut ChaCha8Rng, subject: &mut dyn Subject) -> Result<(), Trouble>;

    /// Time over floor beyond which a subject is called slow: nothing that leaves the loops to compiled code is. Array
    /// libraries are seen at 10 to 180 times the floor of a layer norm, by how fast the machine's caches are; a loop over elements
    /// in Python at more than 400. A loop over rows with sums in compiled code is on one side or the other: at 150 to 180 where the floor is
    /// high, at more than 500 elsewhere.
    fn slow_over_floor(&self) -> f64 {
        300.0
    }

    /// What a play has to read and write of states, where it is not for the submission to choose what they keep.
    fn state_bytes(&self) -> Option<StateBytes> {
        None
    }

    /// The least memory at the peak of a play beyond its inputs, for workloads that are weighed.
    fn peak_floor_bytes(&self) -> u64 {
        0
    }
}

/// What has to be moved of states, in bytes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StateBytes {
    /// Read by all calls together.
    pub read: f64,
    /// Written by all of them.
    pub written: f64,
    /// Whether numbers may have scales beside them, which are not in these bytes: how many is the submission's own affair.
    pub scaled: bool,
}

/// A challenge's workloads.
#[derive(Default)]
pub struct Workloads {
    /// Timed beside the reference, with an interval.
    pub timed: Vec<Box<dyn Workload>>,
    /// Whose traffic is counted, where a device can tell it.
    pub counted: Vec<Box<dyn Workload>>,
    /// Sizes that grow along one axis.
    pub sweeps: Vec<Sweep>,
    /// States whose memory is weighed.
    pub kept: Vec<Box<dyn KeepsState>>,
    /// Answers out of numbers that are kept in fewer bits, whose error is measured.
    pub rounds: Vec<Box<dyn Rounds>>,
    /// A small one to warm a process with, and one whose peak is weighed.
    pub weighed: Option<[Box<dyn Workload>; 2]>,
    /// What calls take beyond their inputs and outputs, where that should be next to nothing.
    pub scratch: Option<Scratch>,
}

/// Growth with the data.
pub const GROWTH: &str = "growth";

/// Sizes that grow along one axis: how does time grow?
pub struct Sweep {
    /// The axis's name.
    pub axis: &'static str,
    /// What is measured: `growth` with the data, which has a floor, or another.
    pub what: &'static str,
    /// What there is more and more of.
    pub unit: &'static str,
    /// How large, and the workload.
    pub sizes: Vec<(f64, Box<dyn Workload>)>,
    /// The power of the size beyond which time grows too fast.
    pub most: f64,
    /// The name of that.
    pub suspect: &'static str,
    /// Bytes read for one element more, where the time for them tells how often they are read at most.
    pub bytes_read_per_element: Option<f64>,
}

impl Sweep {
    /// Time over the number of elements. Noise adds a few tenths to an honest power of 1.
    pub fn over_elements(axis: &'static str, workloads: Vec<Box<dyn Workload>>) -> Self {
        let sizes = workloads.into_iter().map(|workload| (workload.elements() as f64, workload)).collect();
        Self {
            axis,
            what: GROWTH,
            unit: "elements",
            sizes,
            most: 1.3,
            suspect: "superlinear_cost",
            bytes_read_per_element: None,
        }
    }
}

/// Extra memory of calls, counted in rows that need not be stored.
pub struct Scratch {
    /// Warms a process.
    pub small: Box<dyn Workload>,
    /// Is weighed.
    pub workload: Box<dyn Workload>,
    /// Bytes of one row.
    pub row_bytes: u64,
}

/// Asks a state for something that only what was put in can answer, and tells what is wrong with the answer.
pub type Proof<'a> = Box<dyn FnOnce(&mut dyn Subject) -> Result<Option<String>, Trouble> + 'a>;

/// Something that leaves a state behind.
pub trait KeepsState: Send + Sync {
    /// `2048x768 float32`.
    fn name(&self) -> String;

    /// Makes one state under this name.
    fn make(
        &self,
        rng: &mut ChaCha8Rng,
        subject: &mut dyn Subject,
        state: StateId,
    ) -> Result<Proof<'_>, Trouble>;

    /// The fewest bytes that a state can keep alive.
    fn floor_bytes(&self) -> u64;

    /// What a state holds many of, if its memory is told by the piece: `token`, and how many.
    fn pieces(&self) -> Option<(&'static str, usize)> {
        None
    }

    /// What the subject itself says that a state takes, where the contract has an operation for it.
    fn claimed_bytes(&self, _: &mut dyn Subject, _: StateId) -> Result<Option<f64>, Trouble> {
        Ok(None)
    }
}

/// Something that is answered out of numbers that are kept in fewer bits than they came in.
pub trait Rounds: Send + Sync {
    /// What is measured: `attention_error`.
    fn what(&self) -> &'static str;

    /// In which bits, on which contents: `int8, outlier keys`.
    fn name(&self) -> String;

    /// Asks once, on contents that never were before.
    fn error(&self, rng: &mut ChaCha8Rng, subject: &mut dyn Subject) -> Result<Error, Trouble>;
}

/// How far off answers are.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Error {
    /// The mean of the absolute errors.
    pub mean: f64,
    /// All of them together, over the most that the bits explain.
    pub used: f64,
}

/// Calls of a play whose answers are looked at, where there are more.
const LOOKED_AT: usize = 4;

/// Which of so many calls are looked at, in their order; nobody can foresee it.
pub fn looked_at(rng: &mut ChaCha8Rng, calls: usize) -> Vec<usize> {
    let mut left: Vec<usize> = (0..calls).collect();
    while left.len() > LOOKED_AT {
        left.remove(rng.random_range(0..left.len()));
    }
    left
}

/// Those of the things that are looked at.
pub fn kept<T>(things: Vec<T>, looked_at: &[usize]) -> impl Iterator<Item = T> {
    things.into_iter().enumerate().filter(|(index, _)| looked_at.contains(index)).map(|(_, thing)| thing)
}

/// What one play took and whether it was right.
#[derive(Debug, Clone, PartialEq)]
pub struct Play {
    /// Seconds of all calls together, by the judge's clock.
    pub wall_s: f64,
    /// Processor seconds of the host in them.
    pub cpu_s: f64,
    /// The first thing that was wrong with a result.
    pub wrong: Option<String>,
}

/// A supply of tensors whose contents differ from call to call at the price of a copy: windows into a larger field
/// of normally distributed numbers, at offsets nobody can foresee.
pub struct Pool {
    values: Vec<f32>,
}

impl Pool {
    /// A pool for tensors of up to `elements` elements.
    pub fn new(elements: usize, rng: &mut ChaCha8Rng) -> Self {
        // A window can start at any element, so even a small margin gives more offsets than there are calls.
        let margin = (elements / 4).max(1 << 16);
        Self { values: (0..elements + margin).map(|_| normal(rng)).collect() }
    }

    /// A float32 tensor nobody has seen before.
    pub fn draw(&self, rng: &mut ChaCha8Rng, shape: impl Into<Vec<usize>>) -> Tensor {
        let spec = TensorSpec::new(DType::Float32, shape);
        let start = rng.random_range(0..=self.values.len() - spec.len());
        let bytes = bytemuck::cast_slice(&self.values[start..start + spec.len()]).to_vec();
        Tensor::from_bytes(spec, bytes)
    }
}

/// The sum of eight bytes of one draw, centred and scaled to variance 1: near enough to normal for contents, and
/// cheap.
fn normal(rng: &mut ChaCha8Rng) -> f32 {
    let sum: u32 = rng.random::<u64>().to_le_bytes().iter().map(|&byte| u32::from(byte)).sum();
    // Eight bytes, each uniform on 0..=255: mean 127.5, variance (256² - 1) / 12. A byte's worth of dither removes the
    // ties that a lattice would leave.
    let dither: f32 = rng.random::<f32>() - 0.5;
    (sum as f32 + dither - 8.0 * 127.5) / (8.0 * 65535.0 / 12.0f32).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Seed;

    #[test]
    fn no_two_draws_are_alike() {
        let mut rng = Seed(1).rng("pool");
        let pool = Pool::new(4096, &mut rng);
        let mut seen = std::collections::HashSet::new();
        for _ in 0..200 {
            assert!(seen.insert(pool.draw(&mut rng, [64, 64]).bytes().to_vec()), "a repeated draw");
        }
    }

    #[test]
    fn the_pool_is_about_normal() {
        let mut rng = Seed(2).rng("pool");
        let values = Pool::new(100_000, &mut rng).values;
        let n = values.len() as f64;
        let mean = values.iter().map(|&v| f64::from(v)).sum::<f64>() / n;
        let variance = values.iter().map(|&v| (f64::from(v) - mean).powi(2)).sum::<f64>() / n;
        assert!(mean.abs() < 0.02 && (variance - 1.0).abs() < 0.02, "mean {mean}, variance {variance}");
    }
}
