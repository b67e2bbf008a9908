//! Which thread scans what, and what becomes of the candidates.

use rayon::prelude::*;

use super::candidates::Candidates;
use super::cut::order;
use super::scan::{Row, Scan, Scratch, Sum, chunk_len, is_summable};
use super::{Logit, Outputs, Shape};
use crate::simd::{Features, LogitOp, LogitSimd, Ranking, Token};

#[derive(Clone, Copy)]
pub(super) enum Bias<'a> {
    None,
    /// `[vocab]`
    Shared(&'a [f32]),
    /// `[rows, vocab]`
    PerRow(&'a [f32]),
}

/// What is asked, checked.
pub(super) struct Problem<'a, T> {
    pub(super) shape: Shape,
    pub(super) k: usize,
    pub(super) logits: &'a [T],
    pub(super) bias: Bias<'a>,
    pub(super) temperature: f32,
    pub(super) token: Token,
}

impl<'a, T: Logit> Problem<'a, T> {
    /// Entries `start..end` of row `r`.
    fn row(&self, r: usize, start: usize, end: usize) -> Row<'a, T> {
        let range = r * self.shape.vocab + start..r * self.shape.vocab + end;
        let bias = match self.bias {
            Bias::None => None,
            Bias::Shared(bias) => Some(&bias[start..end]),
            Bias::PerRow(bias) => Some(&bias[range.clone()]),
        };
        Row { logits: &self.logits[range], bias, offset: start }
    }

    /// The factor from logits to exponents of two; finite, so that it makes no NaN of zero.
    fn rate(&self) -> f32 {
        (std::f64::consts::LOG2_E / f64::from(self.temperature)).min(f64::from(f32::MAX)) as f32
    }
}

/// How many tasks each thread gets, if there are enough rows.
const TASKS_PER_THREAD: usize = 4;

/// How many logits a task has at least, unless it is a whole row: some microseconds of work.
const TASK_LOGITS_MIN: usize = 1 << 15;

/// Cuts the work into tasks for the threads of the current pool. A row's result does not depend on its task, and if it is
/// scanned in pieces these are the same as without threads; so their number may decide.
pub(super) fn run<T: Logit>(problem: &Problem<'_, T>, outputs: Outputs<'_>) {
    let Shape { rows, vocab } = problem.shape;
    let threads = rayon::current_num_threads();
    if threads > 1 && rows < 2 * threads && chunk_len(vocab) < vocab {
        return run_in_chunks(problem, outputs);
    }
    let task_rows = TASK_LOGITS_MIN.div_ceil(vocab).max(rows.div_ceil(threads * TASKS_PER_THREAD));
    let task = |first, outputs| T::dispatch(problem.token, Rows { problem, first, outputs });
    if threads == 1 || task_rows >= rows {
        return task(0, outputs);
    }
    let Outputs { probs, indices, lse } = outputs;
    let outputs =
        probs.par_chunks_mut(task_rows * problem.k).zip(indices.par_chunks_mut(task_rows * problem.k));
    match lse {
        None => outputs
            .enumerate()
            .for_each(|(i, (probs, indices))| task(i * task_rows, Outputs { probs, indices, lse: None })),
        Some(lse) => {
            outputs.zip(lse.par_chunks_mut(task_rows)).enumerate().for_each(|(i, ((probs, indices), lse))| {
                task(i * task_rows, Outputs { probs, indices, lse: Some(lse) })
            })
        }
    }
}

/// Few rows: the chunks of each are scanned by different threads.
fn run_in_chunks<T: Logit>(problem: &Problem<'_, T>, mut outputs: Outputs<'_>) {
    let Shape { rows, vocab } = problem.shape;
    let chunk_len = chunk_len(vocab);
    let chunks = vocab.div_ceil(chunk_len);
    let parts: Vec<Part> = (0..rows * chunks)
        .into_par_iter()
        .map(|task| {
            let (r, start) = (task / chunks, task % chunks * chunk_len);
            let row = problem.row(r, start, vocab.min(start + chunk_len));
            let mut part = None;
            T::dispatch(problem.token, Chunk { problem, row, part: &mut part });
            part.expect("a chunk leaves a part")
        })
        .collect();
    for (r, parts) in parts.chunks(chunks).enumerate() {
        let range = r * problem.k..(r + 1) * problem.k;
        let outputs = Outputs {
            probs: &mut outputs.probs[range.clone()],
            indices: &mut outputs.indices[range],
            lse: outputs.lse.as_deref_mut().map(|lse| &mut lse[r..=r]),
        };
        T::dispatch(problem.token, Merge { problem, row: r, parts, outputs });
    }
}

/// Some rows, for one thread.
struct Rows<'a, T> {
    problem: &'a Problem<'a, T>,
    first: usize,
    outputs: Outputs<'a>,
}

impl<T: Logit> LogitOp<T> for Rows<'_, T> {
    #[inline(always)]
    fn eval<S: LogitSimd<T>>(self, simd: S) {
        let Rows { problem, first, mut outputs } = self;
        let k = problem.k;
        let mut scratch = Scratch::new(k);
        let mut sorter = Sorter::default();
        for i in 0..outputs.probs.len() / k {
            let row = problem.row(first + i, 0, problem.shape.vocab);
            let sum = scan(simd, problem, row, k, &mut scratch);
            let outputs = Outputs {
                probs: &mut outputs.probs[i * k..(i + 1) * k],
                indices: &mut outputs.indices[i * k..(i + 1) * k],
                lse: outputs.lse.as_deref_mut().map(|lse| &mut lse[i..=i]),
            };
            finish(simd, problem, first + i, sum, &mut scratch.candidates, &mut sorter, outputs);
        }
    }
}

/// What is left of a chunk.
struct Part {
    sum: Sum,
    values: Vec<f32>,
    indices: Vec<u32>,
}

/// A chunk of a row, for one thread.
struct Chunk<'a, T> {
    problem: &'a Problem<'a, T>,
    row: Row<'a, T>,
    part: &'a mut Option<Part>,
}

impl<T: Logit> LogitOp<T> for Chunk<'_, T> {
    #[inline(always)]
    fn eval<S: LogitSimd<T>>(self, simd: S) {
        let k = self.problem.k.min(self.row.logits.len());
        let mut scratch = Scratch::new(k);
        let sum = scan(simd, self.problem, self.row, k, &mut scratch);
        scratch.candidates.prune(simd, k, 0);
        let (values, indices) = scratch.candidates.entries();
        *self.part = Some(Part { sum, values: values.to_vec(), indices: indices.to_vec() });
    }
}

/// Puts the chunks of a row together.
struct Merge<'a, T> {
    problem: &'a Problem<'a, T>,
    row: usize,
    parts: &'a [Part],
    outputs: Outputs<'a>,
}

impl<T: Logit> LogitOp<T> for Merge<'_, T> {
    #[inline(always)]
    fn eval<S: LogitSimd<T>>(self, simd: S) {
        let all = |of: fn(&Part) -> usize| self.parts.iter().map(of).sum::<usize>();
        let mut candidates = Candidates::with_capacity(all(|part| part.values.len()));
        for part in self.parts {
            candidates.extend(&part.values, &part.indices);
        }
        let sum = self.parts.iter().map(|part| part.sum).reduce(Sum::merge).expect("a row has chunks");
        finish(simd, self.problem, self.row, sum, &mut candidates, &mut Sorter::default(), self.outputs);
    }
}

fn scan<T: Logit, S: LogitSimd<T>>(
    simd: S,
    problem: &Problem<'_, T>,
    row: Row<'_, T>,
    k: usize,
    scratch: &mut Scratch,
) -> Sum {
    let rate = problem.rate();
    match row.bias {
        None => simd.call(
            #[inline(always)]
            || Scan::<T, S, false>::new(simd, row, rate, k, scratch).run(),
        ),
        Some(_) => simd.call(
            #[inline(always)]
            || Scan::<T, S, true>::new(simd, row, rate, k, scratch).run(),
        ),
    }
}

/// Buffers to sort candidates with.
#[derive(Default)]
struct Sorter {
    orders: Vec<u32>,
    ranking: Ranking,
}

/// Writes the outputs of row `r`, from its sum and a superset of its `k` largest finite entries.
#[inline(always)]
fn finish<T: Logit, S: LogitSimd<T>>(
    simd: S,
    problem: &Problem<'_, T>,
    r: usize,
    sum: Sum,
    candidates: &mut Candidates,
    sorter: &mut Sorter,
    outputs: Outputs<'_>,
) {
    let Outputs { probs, indices, lse } = outputs;
    let (k, temperature) = (problem.k, f64::from(problem.temperature));
    candidates.prune(simd, k, S::room(k) - k);
    let (values, from) = candidates.entries();
    let Sorter { orders, ranking } = sorter;
    orders.clear();
    // Adding zero makes minus zero equal to zero.
    orders.extend(values.iter().map(
        #[inline(always)]
        |&value| order(value + 0.0),
    ));
    simd.rank_falling(orders, ranking);
    let places = &ranking.places[..values.len().min(k)];
    let max = places.first().map_or(f64::NEG_INFINITY, |&first| f64::from(values[first as usize]));
    let rate = problem.rate();
    let summed = max > f64::NEG_INFINITY && is_summable(rate, sum.exponent);
    let mut sum = sum.sum * exp2::<S>(f64::from(sum.exponent) - max * f64::from(rate));
    if !(summed && sum > 0.5 && sum < f64::INFINITY) {
        sum = problem.row(r, 0, problem.shape.vocab).plain_sum(max, temperature);
    }
    if let Some(lse) = lse {
        lse[0] = (max / temperature + sum.ln()) as f32;
    }
    if !(max > f64::NEG_INFINITY && sum < f64::INFINITY) {
        probs.fill(f32::NAN);
        indices.iter_mut().zip(0..).for_each(|(index, i)| *index = i);
        return;
    }
    for ((prob, index), &place) in probs.iter_mut().zip(&mut *indices).zip(places) {
        // SAFETY: places are those of values, and each value has its index.
        unsafe {
            (*prob, *index) = (*values.get_unchecked(place as usize), *from.get_unchecked(place as usize))
        };
    }
    let found = places.len();
    let (rate, scale) = (std::f64::consts::LOG2_E / temperature, 1.0 / sum);
    for prob in &mut probs[..found] {
        *prob = (exp2::<S>((f64::from(*prob) - max) * rate) * scale) as f32;
    }
    if found < k {
        probs[found..].fill(0.0);
        let row = problem.row(r, 0, problem.shape.vocab);
        let masked = (0..problem.shape.vocab).filter(|&i| row.get(i) == f32::NEG_INFINITY);
        indices[found..].iter_mut().zip(masked).for_each(|(index, i)| *index = i as u32);
    }
}

/// `2^t` for `t <= 0`, to some units in the last place of f32; 0 far below the normal numbers of f32.
#[inline(always)]
fn exp2<S: Features>(t: f64) -> f64 {
    /// Adding this rounds to an integer, which is then in the low bits.
    const TO_INTEGER: f64 = (3_u64 << 51) as f64;
    const SMALLEST: f64 = -1000.0;
    /// `1 / n!`, from 8 down.
    const TAYLOR: [f64; 9] =
        [1.0 / 40_320.0, 1.0 / 5040.0, 1.0 / 720.0, 1.0 / 120.0, 1.0 / 24.0, 1.0 / 6.0, 1.0 / 2.0, 1.0, 1.0];
    let t = if t < SMALLEST { SMALLEST } else { t };
    let integer = t + TO_INTEGER;
    let z = (t - (integer - TO_INTEGER)) * std::f64::consts::LN_2;
    // Taylor's, of degree 8: off by 2e-10 at most.
    let p = TAYLOR.iter().fold(
        0.0_f64,
        #[inline(always)]
        |p, &c| if S::FUSED { p.mul_add(z, c) } else { p * z + c },
    );
    f64::from_bits(p.to_bits().wrapping_add(integer.to_bits() << 52))
}
