//! What is timed and weighed: one call on float32 logits.

use std::sync::Arc;

use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use tribunal_contract::{Argument, Call, DType, Tensor};
use tribunal_runner::Trouble;

use super::answer::Answer;
use super::oracle::{Row, expect};
use super::problem::Problem;
use crate::compare::compare;
use crate::lead::budgets;
use crate::measure::Rate;
use crate::workload::{Play, Pool, Scratch, Sweep, Workload, Workloads, kept, looked_at};
use crate::{Effort, Seed, Subject};

/// The size whose extra memory is weighed: two rows of about a million.
const WEIGHED: Size = Size { rows: 2, vocab: 1 << 20, k: 50 };

/// Rows of a timed answer that are checked, the last among them.
const CHECKED: usize = 2;

#[derive(Clone, Copy)]
struct Size {
    rows: usize,
    vocab: usize,
    k: usize,
}

const fn size(rows: usize, vocab: usize, k: usize) -> Size {
    Size { rows, vocab, k }
}

/// All workloads at an effort.
pub(super) fn all(effort: Effort, seed: Seed) -> Workloads {
    let timed: &[Size] = match effort {
        Effort::Quick => &[size(8, 50_257, 50)],
        Effort::Standard => &[size(32, 50_257, 50), size(8, 128_256, 256)],
        Effort::Full => &[
            size(64, 32_000, 1),
            size(64, 32_000, 50),
            size(64, 50_257, 5),
            size(64, 128_256, 50),
            size(64, 128_256, 256),
            size(16, 151_936, 50),
        ],
    };
    let vocabularies = [size(2, 1 << 10, 50), size(2, 1 << 15, 50), size(2, 1 << 18, 50), WEIGHED];
    let winners = [size(8, 32_000, 1), size(8, 32_000, 16), size(8, 32_000, 256)];
    let largest = timed.iter().chain(&vocabularies).map(|size| size.rows * size.vocab).max();
    let pool = Arc::new(Pool::new(largest.expect("there are sizes"), &mut seed.rng("workloads")));
    let boxed = |&size: &Size| -> Box<dyn Workload> { Box::new(Timed { size, pool: Arc::clone(&pool) }) };
    Workloads {
        timed: timed.iter().map(boxed).collect(),
        counted: timed.iter().take(1).map(boxed).collect(),
        sweeps: vec![
            Sweep {
                bytes_read_per_element: Some(4.0),
                ..Sweep::over_elements("vocabulary", vocabularies.iter().map(boxed).collect())
            },
            // The winners of one pass are few beside the logits: all of k from 1 to 256 must cost less than growing with k.
            Sweep {
                axis: "k",
                what: "growth_with_k",
                unit: "winners",
                sizes: winners.iter().map(|size| (size.k as f64, boxed(size))).collect(),
                most: 0.5,
                suspect: "cost_grows_with_k",
                bytes_read_per_element: None,
            },
        ],
        kept: Vec::new(),
        rounds: Vec::new(),
        weighed: None,
        scratch: Some(Scratch {
            small: boxed(&size(2, 64, 8)),
            workload: boxed(&WEIGHED),
            row_bytes: 4 * WEIGHED.vocab as u64,
        }),
    }
}

/// What is timed on a GPU: sizes that fill it.
pub(super) fn on_gpu(effort: Effort, seed: Seed) -> Vec<Box<dyn Workload>> {
    let sizes: &[Size] = match effort {
        Effort::Quick => &[size(64, 128_256, 50)],
        Effort::Standard => &[size(64, 128_256, 50), size(256, 32_000, 50), size(64, 128_256, 256)],
        Effort::Full => &[
            size(64, 128_256, 50),
            size(256, 32_000, 50),
            size(64, 128_256, 256),
            size(16, 151_936, 50),
            size(512, 50_257, 50),
            size(1024, 32_000, 1),
        ],
    };
    let largest = sizes.iter().map(|size| size.rows * size.vocab).max();
    let pool = Arc::new(Pool::new(largest.expect("there are sizes"), &mut seed.rng("workloads")));
    sizes
        .iter()
        .map(|&size| -> Box<dyn Workload> { Box::new(Timed { size, pool: Arc::clone(&pool) }) })
        .collect()
}

/// One call at a size.
struct Timed {
    size: Size,
    pool: Arc<Pool>,
}

impl Timed {
    /// Asks so many times, each on contents that never were before. What is looked at comes back.
    fn ask(
        &self,
        rng: &mut ChaCha8Rng,
        subject: &mut dyn Subject,
        copies: usize,
    ) -> Result<Vec<(Tensor, tribunal_contract::Answer)>, Trouble> {
        let Size { rows, vocab, k } = self.size;
        let logits: Vec<Tensor> = (0..copies).map(|_| self.pool.draw(rng, [1, rows, vocab])).collect();
        let call = |logits| Call {
            operation: "softmax_topk",
            inputs: vec![Argument::Tensor(logits), Argument::Integer(k as i64)],
            outputs: Problem::outputs_of(logits.shape(), k),
            makes: None,
        };
        let calls: Vec<Call<'_>> = logits.iter().map(call).collect();
        let looked_at = looked_at(rng, copies);
        let answers = subject.call_all(&calls, &looked_at)?;
        drop(calls);
        Ok(kept(logits, &looked_at).zip(answers).collect())
    }

    /// The first thing that is wrong in a few rows.
    fn verify(&self, rng: &mut ChaCha8Rng, logits: &Tensor, results: &[Tensor]) -> Option<String> {
        let Size { rows, vocab, k } = self.size;
        let looked_at = (1..CHECKED).map(|_| rng.random_range(0..rows)).chain([rows - 1]);
        looked_at.into_iter().find_map(|row| {
            let one_of = |tensor: &Tensor, width: usize| {
                let bytes = tensor.dtype().size_bytes() * width;
                let spec = tribunal_contract::TensorSpec::new(tensor.dtype(), [1, 1, width]);
                Tensor::from_bytes(spec, tensor.bytes()[row * bytes..(row + 1) * bytes].to_vec())
            };
            let problem = Problem::of(one_of(logits, vocab), k);
            let answer = Answer::new(&problem, &[one_of(&results[0], k), one_of(&results[1], k)]);
            let Some(Row::Winners(right)) = expect(&problem).pop() else { return None };
            if let Some(invalid) = answer.invalid(0, vocab) {
                return Some(format!("row {row}: {invalid}"));
            }
            let probs = Tensor::from_f64(DType::Float64, [k], answer.probs(0));
            let comparison = compare(&probs, &right.expected());
            if !comparison.holds() {
                return Some(format!(
                    "probs at row {row}, rank {} is {} off",
                    comparison.worst,
                    budgets(comparison.used)
                ));
            }
            let named = answer.named(&problem, 0);
            let misplaced = (0..k).find(|&rank| !(right.misplacement(rank, named[rank]) <= 1.0))?;
            Some(format!("the index at row {row}, rank {misplaced} names another entry"))
        })
    }
}

impl Workload for Timed {
    fn name(&self) -> String {
        let Size { rows, vocab, k } = self.size;
        format!("{rows}x{vocab}k{k} {}", DType::Float32)
    }

    fn elements(&self) -> usize {
        self.size.rows * self.size.vocab
    }

    fn working_set_bytes(&self) -> usize {
        4 * self.elements()
    }

    fn floor_s(&self, rate: &Rate) -> f64 {
        // Every logit is read once. What is written is nothing beside it.
        self.working_set_bytes() as f64 / rate.read
    }

    fn slow_over_floor(&self) -> f64 {
        // A full, stable sort of every row stays well below this.
        6000.0
    }

    fn play(&self, rng: &mut ChaCha8Rng, subject: &mut dyn Subject) -> Result<Play, Trouble> {
        let copies = subject.copies(self.working_set_bytes());
        let asked = self.ask(rng, subject, copies)?;
        let wrong = asked.iter().find_map(|(logits, answer)| {
            if answer.changed_late {
                Some("results changed after the call was done".to_owned())
            } else {
                self.verify(rng, logits, &answer.outputs)
            }
        });
        let mean = |seconds: fn(&tribunal_contract::Answer) -> f64| {
            asked.iter().map(|(_, answer)| seconds(answer)).sum::<f64>() / asked.len() as f64
        };
        Ok(Play { wall_s: mean(|answer| answer.wall_s), cpu_s: mean(|answer| answer.cpu_s), wrong })
    }

    fn warm(&self, rng: &mut ChaCha8Rng, subject: &mut dyn Subject) -> Result<(), Trouble> {
        self.ask(rng, subject, 1).map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_rank_of_the_last_row_is_seen() {
        let mut rng = Seed::PUBLIC.rng("workloads");
        let timed = Timed { size: size(3, 40, 2), pool: Arc::new(Pool::new(120, &mut rng)) };
        let logits = timed.pool.draw(&mut rng, [1, 3, 40]);
        let problem = Problem::of(logits.clone(), 2);
        let (mut probs, mut indices) = (Vec::new(), Vec::new());
        for (row, right) in expect(&problem).iter().enumerate() {
            let Row::Winners(right) = right else { panic!("the pool has no masks") };
            probs.extend(right.expected().values);
            let place = |due: &f64| problem.row(row).iter().position(|logit| logit == due).unwrap() as f64;
            indices.extend(right.logits.iter().map(place));
        }
        let verify = |probs: &[f64], indices: &[f64]| {
            let results = [
                Tensor::from_f64(DType::Float32, [1, 3, 2], probs),
                Tensor::from_f64(DType::Int64, [1, 3, 2], indices),
            ];
            timed.verify(&mut Seed::PUBLIC.rng("places"), &logits, &results)
        };
        assert_eq!(verify(&probs, &indices), None);
        let mut swapped = indices.clone();
        swapped.swap(4, 5);
        assert!(verify(&probs, &swapped).unwrap().contains("names another entry"));
        let mut repeated = indices.clone();
        repeated[5] = repeated[4];
        assert!(verify(&probs, &repeated).unwrap().contains("both have index"));
        probs[5] *= 1.01;
        assert!(verify(&probs, &indices).unwrap().starts_with("probs at row 2, rank 1"));
    }
}
