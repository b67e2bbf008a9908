//! What is timed and weighed: one forward and the backward from its cache, in float32.

use std::sync::Arc;

use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use tribunal_contract::{Answer, Argument, Call, DType, StateId, Tensor, TensorSpec};
use tribunal_runner::Trouble;

use super::sampled::{Problem, Sample};
use crate::measure::Rate;
use crate::workload::{KeepsState, Play, Pool, Proof, Sweep, Workload, Workloads, kept, looked_at};
use crate::{Effort, Seed, Subject};

const EPS: f64 = 1e-5;

/// The size that is weighed.
const WEIGHED: (usize, usize) = (1024, 1024);

/// All workloads at an effort.
pub(super) fn all(effort: Effort, seed: Seed) -> Workloads {
    let timed: &[(usize, usize)] = match effort {
        Effort::Quick => &[(1024, 768)],
        Effort::Standard => &[(2048, 768), (256, 4096)],
        Effort::Full => &[(8192, 768), (4096, 1024), (2048, 4096), (1024, 8192)],
    };
    let largest =
        timed.iter().chain(&[WEIGHED]).map(|(rows, cols)| rows * cols).max().expect("there are sizes");
    let pool = Arc::new(Pool::new(largest, &mut seed.rng("workloads")));
    let size = |&(rows, cols): &(usize, usize)| Box::new(Size::new(rows, cols, seed, Arc::clone(&pool)));
    let boxed = |at: &(usize, usize)| -> Box<dyn Workload> { size(at) };
    let sweep = |sizes: &[(usize, usize)]| sizes.iter().map(boxed).collect();
    Workloads {
        timed: timed.iter().map(boxed).collect(),
        counted: timed.iter().take(1).map(boxed).collect(),
        // By powers of four along one axis.
        sweeps: vec![
            Sweep::over_elements("rows", sweep(&[(64, 512), (256, 512), (1024, 512)])),
            Sweep::over_elements("columns", sweep(&[(64, 512), (64, 2048), (64, 8192)])),
        ],
        kept: vec![size(&WEIGHED)],
        rounds: Vec::new(),
        weighed: Some([boxed(&(16, 64)), boxed(&WEIGHED)]),
        scratch: None,
    }
}

/// What is timed on a GPU: sizes that fill it.
pub(super) fn on_gpu(effort: Effort, seed: Seed) -> Vec<Box<dyn Workload>> {
    let sizes: &[(usize, usize)] = match effort {
        Effort::Quick => &[(4096, 2048)],
        Effort::Standard => &[(4096, 2048), (16_384, 768)],
        Effort::Full => &[(4096, 2048), (16_384, 768), (8192, 1024), (4096, 4096), (1024, 8192)],
    };
    let largest = sizes.iter().map(|(rows, cols)| rows * cols).max().expect("there are sizes");
    let pool = Arc::new(Pool::new(largest, &mut seed.rng("workloads")));
    let boxed = |&(rows, cols): &(usize, usize)| -> Box<dyn Workload> {
        Box::new(Size::new(rows, cols, seed, Arc::clone(&pool)))
    };
    sizes.iter().map(boxed).collect()
}

/// One forward and one backward at a size.
struct Size {
    rows: usize,
    cols: usize,
    pool: Arc<Pool>,
    gamma: Tensor,
    beta: Tensor,
}

impl Size {
    fn new(rows: usize, cols: usize, seed: Seed, pool: Arc<Pool>) -> Self {
        let mut rng = seed.rng(&format!("workload/{rows}x{cols}"));
        let mut parameters = || {
            let values: Vec<f64> = (0..cols).map(|_| rng.random_range(-1.5..1.5)).collect();
            Tensor::from_f64(DType::Float32, [cols], &values)
        };
        let (gamma, beta) = (parameters(), parameters());
        Self { rows, cols, pool, gamma, beta }
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

    /// Makes both calls so many times, each on contents that never were before: first all of the one, then all of the other. What is looked at
    /// comes back.
    fn ask(
        &self,
        rng: &mut ChaCha8Rng,
        subject: &mut dyn Subject,
        copies: usize,
    ) -> Result<Vec<Answers>, Trouble> {
        let states: Vec<StateId> = (1..=copies as u32).map(StateId).collect();
        let draw = |rng: &mut ChaCha8Rng| -> Vec<Tensor> {
            states.iter().map(|_| self.pool.draw(rng, [self.rows, self.cols])).collect()
        };
        let xs = draw(rng);
        let calls: Vec<Call<'_>> = xs.iter().zip(&states).map(|(x, &state)| self.forward(x, state)).collect();
        let looked_at = looked_at(rng, copies);
        let forwards = subject.call_all(&calls, &looked_at)?;
        drop(calls);
        let dys = draw(rng);
        let calls: Vec<Call<'_>> =
            dys.iter().zip(&states).map(|(dy, &state)| self.backward(dy, state)).collect();
        let backwards = subject.call_all(&calls, &looked_at)?;
        drop(calls);
        states.iter().try_for_each(|&state| subject.release(state))?;
        let pairs = kept(xs, &looked_at).zip(kept(dys, &looked_at)).zip(forwards.into_iter().zip(backwards));
        Ok(pairs.map(|((x, dy), (forward, backward))| Answers { x, dy, forward, backward }).collect())
    }

    fn backward<'a>(&self, dy: &'a Tensor, state: StateId) -> Call<'a> {
        Call {
            operation: "backward",
            inputs: vec![Argument::Tensor(dy), Argument::State(state)],
            outputs: vec![self.spec(), self.parameter_spec(), self.parameter_spec()],
            makes: None,
        }
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

/// One forward and one backward: what was asked and what was answered.
struct Answers {
    x: Tensor,
    dy: Tensor,
    forward: Answer,
    backward: Answer,
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
        // A call reads one tensor and writes another.
        let copies = subject.copies(2 * self.tensor_bytes());
        let asked = self.ask(rng, subject, copies)?;
        let wrong = asked.iter().find_map(|Answers { x, dy, forward, backward }| {
            let problem = Problem { x, gamma: &self.gamma, beta: &self.beta, dy, eps: EPS };
            let sample = Sample::draw(rng, self.rows, self.cols);
            if forward.changed_late || backward.changed_late {
                Some("results changed after the call was done".to_owned())
            } else {
                problem.verify(&sample, &forward.outputs[0], &backward.outputs)
            }
        });
        let mean = |seconds: fn(&Answer) -> f64| {
            let both = asked.iter().map(|each| seconds(&each.forward) + seconds(&each.backward));
            both.sum::<f64>() / asked.len() as f64
        };
        Ok(Play { wall_s: mean(|answer| answer.wall_s), cpu_s: mean(|answer| answer.cpu_s), wrong })
    }

    fn warm(&self, rng: &mut ChaCha8Rng, subject: &mut dyn Subject) -> Result<(), Trouble> {
        self.ask(rng, subject, 1).map(drop)
    }

    fn peak_floor_bytes(&self) -> u64 {
        // What the cache keeps, and one result.
        2 * self.tensor_bytes() as u64
    }
}

impl KeepsState for Size {
    fn name(&self) -> String {
        Workload::name(self)
    }

    fn make(
        &self,
        rng: &mut ChaCha8Rng,
        subject: &mut dyn Subject,
        state: StateId,
    ) -> Result<Proof<'_>, Trouble> {
        let x = self.pool.draw(rng, [self.rows, self.cols]);
        let forward = subject.call(&self.forward(&x, state))?;
        let dy = self.pool.draw(rng, [self.rows, self.cols]);
        let sample = Sample::draw(rng, self.rows, self.cols);
        Ok(Box::new(move |subject| {
            let backward = subject.call(&self.backward(&dy, state))?;
            let problem = Problem { x: &x, gamma: &self.gamma, beta: &self.beta, dy: &dy, eps: EPS };
            Ok(problem.verify(&sample, &forward.outputs[0], &backward.outputs))
        }))
    }

    fn floor_bytes(&self) -> u64 {
        // One tensor (x itself or xhat), rstd, gamma.
        (self.tensor_bytes() + 4 * self.rows + 4 * self.cols) as u64
    }
}
