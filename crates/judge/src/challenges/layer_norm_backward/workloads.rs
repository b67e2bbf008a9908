//! What is timed and weighed: one forward and the backward from its cache, in float32.

use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use tribunal_contract::{Argument, Call, DType, StateId, Tensor, TensorSpec};
use tribunal_runner::Trouble;

use super::sampled::{Problem, Sample};
use crate::measure::Rate;
use crate::workload::{KeepsState, Play, Pool, Workload};
use crate::{Effort, Seed, Subject};

const EPS: f64 = 1e-5;

/// The sizes that are timed.
pub(super) fn timed(effort: Effort, seed: Seed) -> Vec<Box<dyn Workload>> {
    let sizes: &[(usize, usize)] = match effort {
        Effort::Quick => &[(1024, 768)],
        Effort::Standard => &[(2048, 768), (256, 4096)],
        Effort::Full => &[(8192, 768), (4096, 1024), (2048, 4096), (1024, 8192)],
    };
    sizes.iter().map(|&(rows, cols)| boxed(rows, cols, seed)).collect()
}

/// Sizes that differ in rows only, and in columns only, by powers of four: how does time grow?
pub(super) fn sweeps(seed: Seed) -> Vec<(&'static str, Vec<Box<dyn Workload>>)> {
    let sweep =
        |sizes: &[(usize, usize)]| sizes.iter().map(|&(rows, cols)| boxed(rows, cols, seed)).collect();
    vec![
        ("rows", sweep(&[(64, 512), (256, 512), (1024, 512)])),
        ("columns", sweep(&[(64, 512), (64, 2048), (64, 8192)])),
    ]
}

/// A small one to warm a process with, and one to weigh.
pub(super) fn weighed(seed: Seed) -> [Box<dyn Workload>; 2] {
    [boxed(16, 64, seed), boxed(1024, 1024, seed)]
}

fn boxed(rows: usize, cols: usize, seed: Seed) -> Box<dyn Workload> {
    Box::new(Size::new(rows, cols, seed))
}

/// One forward and one backward at a size.
struct Size {
    rows: usize,
    cols: usize,
    pool: Pool,
    gamma: Tensor,
    beta: Tensor,
}

impl Size {
    fn new(rows: usize, cols: usize, seed: Seed) -> Self {
        let mut rng = seed.rng(&format!("workload/{rows}x{cols}"));
        let mut parameters = || {
            Tensor::from_f64(
                DType::Float32,
                [cols],
                &(0..cols).map(|_| rng.random_range(-1.5..1.5)).collect::<Vec<_>>(),
            )
        };
        let (gamma, beta) = (parameters(), parameters());
        Self { rows, cols, pool: Pool::new(rows * cols, &mut rng), gamma, beta }
    }

    fn spec(&self) -> TensorSpec {
        TensorSpec::new(DType::Float32, [self.rows, self.cols])
    }

    fn parameter_spec(&self) -> TensorSpec {
        TensorSpec::new(DType::Float32, [self.cols])
    }

    /// Bytes of one tensor of x's size.
    fn tensor_bytes(&self) -> usize {
        self.spec().size_bytes()
    }

    fn forward<'a>(&'a self, x: &'a Tensor, state: StateId) -> Call<'a> {
        Call {
            operation: "forward",
            inputs: vec![
                Argument::Tensor(x),
                Argument::Tensor(&self.gamma),
                Argument::Tensor(&self.beta),
                Argument::Real(EPS),
            ],
            outputs: vec![self.spec()],
            makes: Some(state),
        }
    }
}

impl Workload for Size {
    fn name(&self) -> String {
        format!("{}x{} float32", self.rows, self.cols)
    }

    fn elements(&self) -> usize {
        self.rows * self.cols
    }

    fn working_set_bytes(&self) -> usize {
        // x, y, dy, dx
        4 * self.tensor_bytes()
    }

    fn floor_s(&self, rate: &Rate) -> f64 {
        let n = self.tensor_bytes() as f64;
        // Forward reads x and writes y; backward reads x (or xhat) and dy and writes dx.
        2.0 * n / rate.copy + 3.0 * n / rate.triad.max(rate.copy)
    }

    fn play(&self, rng: &mut ChaCha8Rng, subject: &mut dyn Subject) -> Result<Play, Trouble> {
        let state = StateId(1);
        let x = self.pool.draw(rng, [self.rows, self.cols]);
        let forward = subject.call(&self.forward(&x, state))?;
        let dy = self.pool.draw(rng, [self.rows, self.cols]);
        let backward = subject.call(&Call {
            operation: "backward",
            inputs: vec![Argument::Tensor(&dy), Argument::State(state)],
            outputs: vec![self.spec(), self.parameter_spec(), self.parameter_spec()],
            makes: None,
        })?;
        subject.release(state)?;
        let problem = Problem { x: &x, gamma: &self.gamma, beta: &self.beta, dy: &dy, eps: EPS };
        let sample = Sample::draw(rng, self.rows, self.cols);
        let wrong = if forward.changed_late || backward.changed_late {
            Some("results changed after the call was done".to_owned())
        } else {
            problem.verify(&sample, &forward.outputs[0], &backward.outputs)
        };
        Ok(Play { wall_s: forward.wall_s + backward.wall_s, cpu_s: forward.cpu_s + backward.cpu_s, wrong })
    }

    fn state(&self) -> Option<&dyn KeepsState> {
        Some(self)
    }

    fn peak_floor_bytes(&self) -> u64 {
        // What the cache keeps, and one result.
        2 * self.tensor_bytes() as u64
    }
}

impl KeepsState for Size {
    fn make(&self, rng: &mut ChaCha8Rng, subject: &mut dyn Subject, state: StateId) -> Result<(), Trouble> {
        let x = self.pool.draw(rng, [self.rows, self.cols]);
        subject.call(&self.forward(&x, state)).map(|_| ())
    }

    fn floor_bytes(&self) -> u64 {
        // One tensor (x itself or xhat), rstd, gamma.
        (self.tensor_bytes() + 4 * self.rows + 4 * self.cols) as u64
    }
}
