//! What is timed and weighed: single tokens appended to a long context and attended, and the context itself.

use std::sync::Arc;

use rand_chacha::ChaCha8Rng;
use tribunal_contract::{Answer, Argument, Call, DType, StateId, Tensor, TensorSpec};
use tribunal_runner::Trouble;

use super::config::Config;
use super::model::{Model, Tokens};
use crate::compare::{Expected, compare};
use crate::lead::budgets;
use crate::measure::Rate;
use crate::workload::{KeepsState, Play, Pool, Sweep, Workload, Workloads};
use crate::{Effort, Plan, Subject};

/// Tokens of a prompt that are appended at once.
const CHUNK: usize = 512;

/// Tokens that a play decodes and times, after one that it does not.
const DECODED: usize = 4;

/// What a play's cache is made for; the context is its own.
const SHAPE: Config =
    Config { layers: 1, batch: 2, heads: 8, kv_heads: 2, head_dim: 64, max_len: 0, bits: 32, paged: None };

/// All workloads at an effort.
pub(super) fn all(plan: &Plan) -> Workloads {
    let timed: &[usize] = match plan.effort {
        Effort::Quick => &[1024],
        Effort::Standard => &[1024, 8192],
        Effort::Full => &[1024, 8192, 32_768],
    };
    let contexts = [256, 1024, 4096];
    let pool = SHAPE.batch * SHAPE.heads * CHUNK * SHAPE.head_dim;
    let pool = Arc::new(Pool::new(pool, &mut plan.seed.rng("workloads")));
    let boxed = |context: usize, part: Part| -> Box<dyn Workload> {
        let config = Config { max_len: context + DECODED + 1, ..SHAPE };
        Box::new(Decoding { config, context, part, pool: Arc::clone(&pool) })
    };
    Workloads {
        timed: timed.iter().map(|&context| boxed(context, Part::Both)).collect(),
        sweeps: vec![
            Sweep::over_elements("context", contexts.map(|context| boxed(context, Part::Both)).into()),
            // One token costs the same whatever was there before it.
            Sweep {
                axis: "context, append alone",
                sizes: [256, 2048, 16_384]
                    .map(|context| (context as f64, boxed(context, Part::Append)))
                    .into(),
                most: 0.5,
                suspect: "append_copies_the_cache",
                bytes_read_per_element: None,
            },
        ],
        weighed: Some([boxed(64, Part::Both), boxed(4096, Part::Both)]),
        scratch: None,
    }
}

/// Which calls are timed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Both,
    Append,
}

/// A context, and some tokens after it.
struct Decoding {
    config: Config,
    context: usize,
    part: Part,
    pool: Arc<Pool>,
}

/// What one play did last.
struct Last {
    q: Tensor,
    out: Tensor,
    keys: Vec<f64>,
    values: Vec<f64>,
}

impl Decoding {
    fn new_tokens(&self, t: usize) -> [usize; 4] {
        [self.config.batch, self.config.kv_heads, t, self.config.head_dim]
    }

    fn append(
        &self,
        rng: &mut ChaCha8Rng,
        subject: &mut dyn Subject,
        state: StateId,
        t: usize,
        kept: &mut Option<[Vec<f64>; 2]>,
    ) -> Result<Answer, Trouble> {
        let (k, v) = (self.pool.draw(rng, self.new_tokens(t)), self.pool.draw(rng, self.new_tokens(t)));
        let lengths = Tensor::from_f64(DType::Int64, [self.config.batch], &vec![t as f64; self.config.batch]);
        if let Some(kept) = kept {
            // Of the last sequence and its last head of keys: they stand at the end.
            for (kept, tensor) in kept.iter_mut().zip([&k, &v]) {
                let len = t * self.config.head_dim;
                kept.extend((tensor.len() - len..tensor.len()).map(|index| tensor.get(index)));
            }
        }
        subject.call(&Call {
            operation: "append",
            inputs: vec![
                Argument::State(state),
                Argument::Integer(0),
                Argument::Tensor(&k),
                Argument::Tensor(&v),
                Argument::Tensor(&lengths),
            ],
            outputs: vec![],
            makes: None,
        })
    }

    fn fill(
        &self,
        rng: &mut ChaCha8Rng,
        subject: &mut dyn Subject,
        state: StateId,
        context: usize,
        kept: &mut Option<[Vec<f64>; 2]>,
    ) -> Result<(), Trouble> {
        let call = Call {
            operation: "create",
            inputs: self.config.arguments(),
            outputs: vec![],
            makes: Some(state),
        };
        subject.call(&call)?;
        for start in (0..context).step_by(CHUNK) {
            self.append(rng, subject, state, CHUNK.min(context - start), kept)?;
        }
        Ok(())
    }

    /// A context of `context` tokens, and seconds and processor seconds for one token after it.
    fn decode(
        &self,
        rng: &mut ChaCha8Rng,
        subject: &mut dyn Subject,
        context: usize,
        check: bool,
    ) -> Result<(f64, f64, Option<Last>, bool), Trouble> {
        let state = StateId(1);
        let mut kept = (check && self.part == Part::Both).then(|| [Vec::new(), Vec::new()]);
        self.fill(rng, subject, state, context, &mut kept)?;
        let Config { batch, heads, head_dim, .. } = self.config;
        let (mut wall_s, mut cpu_s, mut late, mut last) = (0.0, 0.0, false, None);
        for token in 0..=DECODED {
            let appended = self.append(rng, subject, state, 1, &mut kept)?;
            let mut answers = vec![appended];
            if self.part == Part::Both {
                let q = self.pool.draw(rng, [batch, heads, 1, head_dim]);
                let lengths = Tensor::from_f64(DType::Int64, [batch], &vec![1.0; batch]);
                let mut answer = subject.call(&Call {
                    operation: "attend",
                    inputs: vec![
                        Argument::State(state),
                        Argument::Integer(0),
                        Argument::Tensor(&q),
                        Argument::Tensor(&lengths),
                    ],
                    outputs: vec![TensorSpec::new(DType::Float32, [batch, heads, 1, head_dim])],
                    makes: None,
                })?;
                last = Some((q, answer.outputs.remove(0)));
                answers.push(answer);
            }
            late |= answers.iter().any(|answer| answer.changed_late);
            if token > 0 {
                wall_s += answers.iter().map(|answer| answer.wall_s).sum::<f64>();
                cpu_s += answers.iter().map(|answer| answer.cpu_s).sum::<f64>();
            }
        }
        subject.release(state)?;
        let last = last.zip(kept).map(|((q, out), [keys, values])| Last { q, out, keys, values });
        Ok((wall_s / DECODED as f64, cpu_s / DECODED as f64, last, late))
    }

    /// The last query head of the last sequence, against the model.
    fn verify(&self, last: &Last) -> Option<String> {
        let Config { head_dim, .. } = self.config;
        let alone = Config { batch: 1, heads: 1, kv_heads: 1, ..self.config };
        let mut model = Model::new(alone, None);
        let count = last.keys.len() / head_dim;
        model.append(0, &Tokens { k: &last.keys, v: &last.values, t: count }, &[count]);
        let end = |tensor: &Tensor| -> Vec<f64> {
            (tensor.len() - head_dim..tensor.len()).map(|index| tensor.get(index)).collect()
        };
        let right = model.attend(0, &end(&last.q), 1, &[1]);
        let expected = Expected { values: right.values, budget: right.budget };
        let comparison = compare(&Tensor::from_f64(DType::Float64, [head_dim], &end(&last.out)), &expected);
        (!comparison.holds())
            .then(|| format!("out of the last head after {count} tokens is {} off", budgets(comparison.used)))
    }

    /// Bytes of keys and values of the context.
    fn context_bytes(&self) -> usize {
        2 * 4 * self.new_tokens(self.context).iter().product::<usize>()
    }
}

impl Workload for Decoding {
    fn name(&self) -> String {
        let Config { batch, heads, kv_heads, head_dim, .. } = self.config;
        let part = if self.part == Part::Append { " append" } else { "" };
        format!("{batch}x{heads}x{kv_heads}x{head_dim}c{}{part} float32", self.context)
    }

    fn elements(&self) -> usize {
        self.context_bytes() / 4
    }

    fn working_set_bytes(&self) -> usize {
        self.context_bytes()
    }

    fn floor_s(&self, rate: &Rate) -> f64 {
        match self.part {
            // Every key and every value is read once.
            Part::Both => self.context_bytes() as f64 / rate.read,
            Part::Append => 2.0 * 4.0 * self.new_tokens(1).iter().product::<usize>() as f64 / rate.copy,
        }
    }

    fn slow_over_floor(&self) -> f64 {
        match self.part {
            Part::Both => 1000.0,
            // A call costs some microseconds whatever it moves.
            Part::Append => f64::INFINITY,
        }
    }

    fn play(&self, rng: &mut ChaCha8Rng, subject: &mut dyn Subject) -> Result<Play, Trouble> {
        let (wall_s, cpu_s, last, late) = self.decode(rng, subject, self.context, true)?;
        let wrong = if late {
            Some("results changed after the call was done".to_owned())
        } else {
            last.and_then(|last| self.verify(&last))
        };
        Ok(Play { wall_s, cpu_s, wrong })
    }

    fn warm(&self, rng: &mut ChaCha8Rng, subject: &mut dyn Subject) -> Result<(), Trouble> {
        self.decode(rng, subject, self.context.min(64), false).map(drop)
    }

    fn state(&self) -> Option<&dyn KeepsState> {
        Some(self)
    }

    fn peak_floor_bytes(&self) -> u64 {
        self.context_bytes() as u64
    }
}

impl KeepsState for Decoding {
    fn make(&self, rng: &mut ChaCha8Rng, subject: &mut dyn Subject, state: StateId) -> Result<(), Trouble> {
        self.fill(rng, subject, state, self.context, &mut None)
    }

    fn floor_bytes(&self) -> u64 {
        self.context_bytes() as u64
    }
}
