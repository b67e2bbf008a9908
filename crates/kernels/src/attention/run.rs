//! Which thread sums what, and how sums over parts of the context become results.

use std::marker::PhantomData;
use std::ops::Range;

use half::f16;
use rayon::prelude::*;

use super::Outputs;
use super::ahead::Ahead;
use super::queries::ScaledQueries;
use super::step::{
    AttentionSimd, Bf16, GROUP, Int4, Int8, Place, Plain, STEP_MAX, STRIPS_MAX, Scores, Slots, State, Step,
    Stored, add_step,
};
use crate::kv_cache::{Format, Geometry, KvCache, STRIP, Strip};
use crate::simd::{LANES_MIN, Load, Token, dispatch};

/// What is asked, checked.
pub(super) struct Problem<'a> {
    pub(super) cache: &'a KvCache,
    pub(super) layer: usize,
    /// `[sequences]`: how many tokens there are.
    pub(super) present: &'a [usize],
    pub(super) heads: usize,
    pub(super) t: usize,
    pub(super) q: &'a [f32],
    pub(super) lengths: &'a [usize],
    pub(super) window: usize,
    pub(super) scale: f32,
    pub(super) token: Token,
}

/// Tokens that are summed on their own, from a multiple of this on. Results depend on it.
const CHUNK: usize = 1024;

/// New tokens that one task answers for, while a tile is in the first level of cache.
const QUERIES: usize = 16;

/// With fewer tasks for each thread than this, if all were as large as the largest, the context is split.
const TASKS_PER_THREAD: usize = 8;

impl Problem<'_> {
    /// How many query heads share a head of keys.
    fn group(&self) -> usize {
        self.heads / self.cache.config().kv_heads
    }

    /// The same, with what it takes to fill the last group of rows that are multiplied together. One row is not padded.
    fn padded_group(&self) -> usize {
        let group = self.group();
        if group % GROUP == 1 { group } else { group.next_multiple_of(GROUP) }
    }

    fn dim(&self) -> usize {
        let config = self.cache.config();
        config.format.padded(config.head_dim)
    }

    /// The tokens that a query sees.
    fn sees(&self, sequence: usize, query: usize) -> Range<usize> {
        if query >= self.lengths[sequence] {
            return 0..0;
        }
        let end = (self.present[sequence] + query + 1).saturating_sub(self.lengths[sequence]);
        end.saturating_sub(self.window)..end
    }
}

/// Some queries of a sequence, with the heads that share one head of keys.
struct Task<'a> {
    number: usize,
    sequence: usize,
    kv_head: usize,
    /// The first of its queries.
    first: usize,
    /// For each of the heads: `[queries, head_dim]`.
    out: Vec<&'a mut [f32]>,
    /// For each of the heads, or nothing: `[queries]`.
    lse: Vec<&'a mut [f32]>,
}

/// What a thread keeps from one span to the next.
struct Worker {
    queries: ScaledQueries,
    /// Of which task these are.
    scaled: Option<usize>,
    /// Sums over a chunk that is not a span's first.
    chunk: Sums,
    /// The strip that was asked for last, as what the next span probably begins with.
    asked: *const u8,
}

impl Worker {
    fn new(problem: &Problem<'_>) -> Worker {
        let queries = ScaledQueries::new(problem.token);
        Worker { queries, scaled: None, chunk: Sums::default(), asked: std::ptr::null() }
    }
}

/// Tokens of one head of keys and values.
struct Part {
    sequence: usize,
    kv_head: usize,
    /// Not empty.
    tokens: Range<usize>,
}

impl Task<'_> {
    fn queries(&self, problem: &Problem<'_>) -> Range<usize> {
        self.first..problem.t.min(self.first + QUERIES)
    }

    /// What one of its queries sees, or another.
    fn context(&self, problem: &Problem<'_>) -> Range<usize> {
        let seen = self.queries(problem).map(|query| problem.sees(self.sequence, query));
        seen.filter(|seen| !seen.is_empty())
            .reduce(|a, b| a.start.min(b.start)..a.end.max(b.end))
            .unwrap_or_default()
    }

    /// The chunks of the context.
    fn chunks(&self, problem: &Problem<'_>) -> Range<usize> {
        let context = self.context(problem);
        context.start / CHUNK..context.end.div_ceil(CHUNK)
    }

    /// What there is of its context in some chunks.
    fn part(&self, problem: &Problem<'_>, chunks: Range<usize>) -> Option<Part> {
        let context = self.context(problem);
        let tokens = context.start.max(chunks.start * CHUNK)..context.end.min(chunks.end * CHUNK);
        (!tokens.is_empty()).then_some(Part { sequence: self.sequence, kv_head: self.kv_head, tokens })
    }

    /// Makes `sums` those of its queries over some chunks, added in order. The same thread probably goes on with `next`.
    fn sum(
        &self,
        problem: &Problem<'_>,
        chunks: Range<usize>,
        next: Option<Part>,
        sums: &mut Sums,
        worker: &mut Worker,
    ) {
        sums.reset(self.queries(problem).len() * problem.padded_group(), problem.dim());
        let Some(part) = self.part(problem, chunks) else { return };
        let span = Span { problem, task: self, part, next };
        match problem.cache.config().format {
            Format::F32 => span.add_to::<Plain<f32>>(sums, worker),
            Format::F16 => span.add_to::<Plain<f16>>(sums, worker),
            Format::Bf16 => span.add_to::<Bf16>(sums, worker),
            Format::Int8 => span.add_to::<Int8>(sums, worker),
            Format::Int4 => span.add_to::<Int4>(sums, worker),
        }
    }

    /// Divides by the sums of exponentials.
    fn finish(mut self, problem: &Problem<'_>, sums: &Sums) {
        let head_dim = problem.cache.config().head_dim;
        let padded_group = problem.padded_group();
        for (g, out) in self.out.iter_mut().enumerate() {
            for (i, out) in out.chunks_exact_mut(head_dim).enumerate() {
                let row = i * padded_group + g;
                let state = sums.states[row];
                // Nothing was seen, or there is no query.
                let reciprocal = if state.is_empty() { 0.0 } else { (1.0 / state.sum) as f32 };
                for (out, o) in out.iter_mut().zip(&sums.o[row * sums.dim..]) {
                    *out = o * reciprocal;
                }
                if let Some(lse) = self.lse.get_mut(g) {
                    let powers = f64::from(state.exponent) + state.sum.log2();
                    lse[i] = (powers * std::f64::consts::LN_2) as f32;
                }
            }
        }
    }
}

/// Cuts the work into tasks for the threads of the current pool.
pub(super) fn run(problem: &Problem<'_>, outputs: Outputs<'_>) {
    if problem.t == 0 {
        return;
    }
    let tasks = tasks(problem, outputs);
    let threads = rayon::current_num_threads();
    let sizes = || tasks.iter().map(|task| task.context(problem).len() * task.queries(problem).len());
    let (total, largest) = (sizes().sum::<usize>(), sizes().max().unwrap_or(0));
    if threads == 1 || largest <= CHUNK || largest * threads * TASKS_PER_THREAD <= total {
        let worker = || (Worker::new(problem), Sums::default());
        let whole = |(worker, sums): &mut (Worker, Sums), (task, next): (Task<'_>, Option<Part>)| {
            task.sum(problem, task.chunks(problem), next, sums, worker);
            task.finish(problem, sums);
        };
        let parts = tasks.iter().map(|task| task.part(problem, task.chunks(problem)));
        let nexts: Vec<Option<Part>> = parts.skip(1).chain([None]).collect();
        if threads == 1 {
            let mut worker = worker();
            tasks.into_iter().zip(nexts).for_each(|task| whole(&mut worker, task));
        } else {
            tasks.into_par_iter().zip(nexts).for_each_init(worker, whole);
        }
        return;
    }
    let chunks: Vec<(&Task<'_>, usize)> =
        tasks.iter().flat_map(|task| task.chunks(problem).map(move |chunk| (task, chunk))).collect();
    let counts: Vec<usize> = tasks.iter().map(|task| task.chunks(problem).len()).collect();
    let sum = |worker: &mut Worker, (i, &(task, chunk)): (usize, &(&Task<'_>, usize))| {
        let next = chunks.get(i + 1).and_then(|&(task, chunk)| task.part(problem, chunk..chunk + 1));
        let mut sums = Sums::default();
        task.sum(problem, chunk..chunk + 1, next, &mut sums, worker);
        sums
    };
    let parts: Vec<Sums> = chunks.par_iter().enumerate().map_init(|| Worker::new(problem), sum).collect();
    let mut parts = parts.as_slice();
    let parts = counts.into_iter().map(|count| parts.split_off(..count).expect("as many as were counted"));
    let parts: Vec<&[Sums]> = parts.collect();
    tasks.into_par_iter().zip(parts).for_each(|(task, parts)| {
        let mut sums = Sums::default();
        sums.reset(task.queries(problem).len() * problem.padded_group(), problem.dim());
        dispatch!(problem.token, Merge { parts, sums: &mut sums });
        task.finish(problem, &sums);
    });
}

fn tasks<'a>(problem: &Problem<'_>, outputs: Outputs<'a>) -> Vec<Task<'a>> {
    let (t, group) = (problem.t, problem.group());
    let (sequences, head_dim) = (problem.lengths.len(), problem.cache.config().head_dim);
    let groups = sequences * problem.heads / group;
    let spans = t.div_ceil(QUERIES);
    let mut tasks: Vec<Task<'_>> = (0..groups * spans)
        .map(|i| Task {
            number: i,
            sequence: i / spans * group / problem.heads,
            kv_head: i / spans % (problem.heads / group),
            first: i % spans * QUERIES,
            out: Vec::with_capacity(group),
            lse: Vec::new(),
        })
        .collect();
    for (head, out) in outputs.out.chunks_exact_mut(t * head_dim).enumerate() {
        let tasks = &mut tasks[head / group * spans..];
        for (task, out) in tasks.iter_mut().zip(out.chunks_mut(QUERIES * head_dim)) {
            task.out.push(out);
        }
    }
    for (head, lse) in outputs.lse.into_iter().flat_map(|lse| lse.chunks_exact_mut(t)).enumerate() {
        let tasks = &mut tasks[head / group * spans..];
        for (task, lse) in tasks.iter_mut().zip(lse.chunks_mut(QUERIES)) {
            task.lse.push(lse);
        }
    }
    tasks
}

/// Weighed sums of values over some tokens, `[rows, dim]`, and the sums of their weights.
#[derive(Default)]
struct Sums {
    dim: usize,
    o: Vec<f32>,
    states: Vec<State>,
}

impl Sums {
    /// Sums over nothing.
    fn reset(&mut self, rows: usize, dim: usize) {
        self.dim = dim;
        self.o.clear();
        self.o.resize(rows * dim, 0.0);
        self.states.clear();
        self.states.resize(rows, State::EMPTY);
    }

    /// Clears rows that have seen nothing but negative infinity, whose powers of two may not be quite zero.
    fn clear_empty(&mut self) {
        for (state, o) in self.states.iter_mut().zip(self.o.chunks_exact_mut(self.dim)) {
            if state.is_empty() {
                *state = State::EMPTY;
                o.fill(0.0);
            }
        }
    }

    /// Adds sums over other tokens.
    #[inline(always)]
    fn add<S: AttentionSimd>(&mut self, simd: S, other: &Sums) {
        let rows = self.o.chunks_exact_mut(self.dim).zip(other.o.chunks_exact(self.dim));
        for ((state, other), (o, other_o)) in self.states.iter_mut().zip(&other.states).zip(rows) {
            if other.is_empty() {
                continue;
            }
            // In this order NaN gets through.
            let exponent = if state.exponent >= other.exponent { state.exponent } else { other.exponent };
            let (factor, other_factor) =
                ((state.exponent - exponent).exp2(), (other.exponent - exponent).exp2());
            state.sum = state.sum * f64::from(factor) + other.sum * f64::from(other_factor);
            state.exponent = exponent;
            let (factor, other_factor) = (simd.splat(factor), simd.splat(other_factor));
            for (o, other) in o.chunks_exact_mut(S::LANES).zip(other_o.chunks_exact(S::LANES)) {
                // SAFETY: the chunks have `LANES` values.
                unsafe {
                    let other = simd.mul(simd.load_acc(other.as_ptr()), other_factor);
                    simd.store_acc(o.as_mut_ptr(), simd.mul_add(simd.load_acc(o.as_ptr()), factor, other));
                }
            }
        }
    }
}

/// The sums of chunks, to be added in order.
struct Merge<'a> {
    parts: &'a [Sums],
    sums: &'a mut Sums,
}

impl Merge<'_> {
    #[inline(always)]
    fn eval<S: AttentionSimd>(self, simd: S) {
        for part in self.parts {
            self.sums.add(simd, part);
        }
    }
}

/// Some strips in a row, and which tokens are in them.
#[derive(Clone, Copy)]
struct Places {
    /// The number of the first, among those of the sequence.
    first: usize,
    strips: [Place; STRIPS_MAX],
    /// The scales of keys and of values of each.
    scales: [[*const u8; 2]; STRIPS_MAX],
    /// The first token of each.
    tokens: [usize; STRIPS_MAX],
    /// How many it has room for; zero for what stands in behind the last strip.
    lens: [usize; STRIPS_MAX],
    /// How many tiles of the same head lie right behind, where these strips are one.
    behind: usize,
}

impl Places {
    /// The tile right behind this one.
    #[inline(always)]
    fn next<F: Stored>(mut self, strip_bytes: usize) -> Places {
        let tile_bytes = F::STRIPS * strip_bytes;
        self.first += F::STRIPS;
        self.behind -= 1;
        for i in 0..F::STRIPS {
            let Place { keys, values, .. } = &mut self.strips[i];
            for p in [keys, values].into_iter().chain(&mut self.scales[i]) {
                *p = p.wrapping_add(tile_bytes);
            }
            self.tokens[i] += F::STRIPS * STRIP;
        }
        self
    }
}

/// What a task sums up in one go.
struct Span<'a> {
    problem: &'a Problem<'a>,
    task: &'a Task<'a>,
    part: Part,
    /// What to prefetch at the end.
    next: Option<Part>,
}

/// A span of rows that are stored as `F`, on its way to where it is compiled for an instruction set.
struct Stretch<'a, F> {
    span: &'a Span<'a>,
    sums: &'a mut Sums,
    worker: &'a mut Worker,
    stored: PhantomData<F>,
}

impl<F: Stored> Stretch<'_, F> {
    #[inline(always)]
    fn eval<S: AttentionSimd>(self, simd: S) {
        self.span.add::<F, S>(simd, self.sums, self.worker);
    }
}

impl Span<'_> {
    fn add_to<F: Stored>(&self, sums: &mut Sums, worker: &mut Worker) {
        dispatch!(self.problem.token, Stretch::<F> { span: self, sums, worker, stored: PhantomData })
    }

    #[inline(always)]
    fn add<F: Stored, S: AttentionSimd>(&self, simd: S, sums: &mut Sums, worker: &mut Worker) {
        let Span { problem, task, part: Part { ref tokens, .. }, .. } = *self;
        let Geometry { plane_bytes, strip_bytes, .. } = *problem.cache.geometry();
        let (dim, padded_group) = (problem.dim(), problem.padded_group());
        let queries = task.queries(problem);
        let seen: [Range<usize>; QUERIES] =
            std::array::from_fn(|i| problem.sees(task.sequence, queries.start + i));
        let seen = &seen[..queries.len()];
        let last = self.strip_of(tokens.end - 1);
        let mut ahead = self.places::<F>(&self.part, self.first_strip::<F>(tokens.start), last);
        let in_line = reads_in_line::<F, S>(simd);
        let Worker { queries, scaled, chunk, asked } = worker;
        if !in_line && ahead.strips[0].keys != *asked {
            Ahead::new(simd, &ahead.strips[..F::STRIPS], plane_bytes).finish(simd);
        }
        // Of what comes after the first step, some is asked for while queries are made ready.
        let mut begun = None;
        if *scaled != Some(task.number) {
            if F::INTEGER && ahead.behind > 0 {
                let second = ahead.next::<F>(strip_bytes);
                begun = Some(Ahead::new(simd, &second.strips[..F::STRIPS], plane_bytes));
            }
            let rate = (f64::from(problem.scale) * std::f64::consts::LOG2_E) as f32;
            queries.fill::<F, S>(simd, self.rows(), [padded_group, dim], rate, begun.as_mut());
            *scaled = Some(task.number);
        }
        let mut scores: Scores = [[0.0; STEP_MAX]; GROUP];
        let mut scales = [[0.0; STEP_MAX]; 2];
        for start in (tokens.start / CHUNK * CHUNK..tokens.end).step_by(CHUNK) {
            let chunk_tokens = tokens.start.max(start)..tokens.end.min(start + CHUNK);
            let is_first = chunk_tokens.start == tokens.start;
            // The first chunk's sums are the sums.
            let of_chunk = if is_first {
                &mut *sums
            } else {
                chunk.reset(seen.len() * padded_group, dim);
                &mut *chunk
            };
            let first = self.first_strip::<F>(chunk_tokens.start);
            for number in (first..=self.strip_of(chunk_tokens.end - 1)).step_by(F::STRIPS) {
                let places =
                    if ahead.first == number { ahead } else { self.places::<F>(&self.part, number, last) };
                ahead = match &self.next {
                    _ if places.behind > 0 => places.next::<F>(strip_bytes),
                    Some(next) if number + F::STRIPS > last => {
                        let (first, last) =
                            (self.first_strip::<F>(next.tokens.start), self.strip_of(next.tokens.end - 1));
                        Places { first: usize::MAX, ..self.places::<F>(next, first, last) }
                    }
                    _ => self.places::<F>(&self.part, number + F::STRIPS, last),
                };
                if F::INTEGER {
                    read_scales::<F, S>(simd, &places, &ahead, &mut scales);
                }
                let strips: &[Place] =
                    if in_line && places.behind > 0 { &[] } else { &ahead.strips[..F::STRIPS] };
                let mut lines = begun.take().unwrap_or_else(
                    #[inline(always)]
                    || Ahead::new(simd, strips, plane_bytes),
                );
                for (i, seen) in seen.iter().enumerate() {
                    let (from, to) = (seen.start.max(chunk_tokens.start), seen.end.min(chunk_tokens.end));
                    let slots: [Slots; STRIPS_MAX] = std::array::from_fn(
                        #[inline(always)]
                        |strip| {
                            let slot = |token: usize| {
                                token.saturating_sub(places.tokens[strip]).min(places.lens[strip])
                            };
                            Slots { from: slot(from), to: slot(to).max(slot(from)) }
                        },
                    );
                    if slots.iter().all(|slots| slots.from == slots.to) {
                        continue;
                    }
                    let step = Step {
                        strips: places.strips,
                        seen: slots,
                        whole: slots[..F::STRIPS].iter().all(|slots| slots.from == 0 && slots.to == STRIP),
                        key_scales: &scales[0],
                        value_scales: &scales[1],
                        plane_bytes,
                        dim,
                    };
                    for row in (i * padded_group..(i + 1) * padded_group).step_by(GROUP) {
                        let count = GROUP.min((i + 1) * padded_group - row);
                        let states = &mut of_chunk.states[row..row + count];
                        let group = queries.group(row, count, dim);
                        let o = of_chunk.o[row * dim..(row + count) * dim].as_mut_ptr();
                        let scores = &mut scores;
                        // SAFETY:
                        // - queries, sums and states have been cut to `count` rows, which is `GROUP`, or 1 as
                        //   `padded_group` leaves no other rest;
                        // - strips are those of the cache, and what dispatched to `F` is the cache's format.
                        unsafe {
                            if count == GROUP {
                                simd.call(
                                    #[inline(always)]
                                    || {
                                        add_step::<F, S, GROUP>(
                                            simd, &step, group, o, states, scores, &mut lines,
                                        )
                                    },
                                );
                            } else {
                                simd.call(
                                    #[inline(always)]
                                    || add_step::<F, S, 1>(simd, &step, group, o, states, scores, &mut lines),
                                );
                            }
                        }
                        lines.finish(simd);
                    }
                }
            }
            if is_first {
                sums.clear_empty();
            } else {
                sums.add(simd, chunk);
            }
        }
        *asked = if self.next.is_some() { ahead.strips[0].keys } else { std::ptr::null() };
    }

    /// The number of the strip that a token is in, among those of its sequence.
    fn strip_of(&self, token: usize) -> usize {
        let Geometry { block_len, block_strips, .. } = *self.problem.cache.geometry();
        token / block_len * block_strips + token % block_len / STRIP
    }

    /// The first strip of the step that a token is in.
    fn first_strip<F: Stored>(&self, token: usize) -> usize {
        self.strip_of(token) / F::STRIPS * F::STRIPS
    }

    /// Where a step's strips are, of which none is behind strip `last`.
    #[inline(always)]
    fn places<F: Stored>(&self, part: &Part, first: usize, last: usize) -> Places {
        let Span { problem, .. } = *self;
        let geometry = problem.cache.geometry();
        let Geometry { block_len, block_strips, .. } = *geometry;
        let mut places = Places {
            first,
            strips: [Place::NOWHERE; STRIPS_MAX],
            scales: [[std::ptr::null(); 2]; STRIPS_MAX],
            tokens: [0; STRIPS_MAX],
            lens: [0; STRIPS_MAX],
            behind: 0,
        };
        for i in 0..F::STRIPS {
            let wanted = (first + i).min(last);
            let (entry, strip) = (wanted / block_strips, wanted % block_strips);
            let head = problem.cache.head(problem.layer, part.sequence, part.kv_head, entry);
            let Strip { keys, values, scales, of, number } = geometry.strip(strip);
            let at = |offset: usize| head[offset..].as_ptr();
            places.strips[i] = Place { keys: at(keys), values: at(values), of, number };
            places.scales[i] = scales.map(at);
            places.tokens[i] = entry * block_len + strip * STRIP;
            places.lens[i] = if wanted == first + i { STRIP.min(block_len - strip * STRIP) } else { 0 };
        }
        let Place { of, number, .. } = places.strips[0];
        if (of, number) == (F::STRIPS, 0) {
            // The last strip may have room for fewer tokens, and is not like the others then.
            let in_block = (block_len / STRIP).saturating_sub(first % block_strips);
            let left = in_block.min((last + 1).saturating_sub(first)) / F::STRIPS;
            places.behind = left.saturating_sub(1);
        }
        places
    }

    /// The rows of the heads that share a head of keys, of each query.
    fn rows(&self) -> impl Iterator<Item = impl Iterator<Item = &[f32]>> {
        let Span { problem, task, .. } = *self;
        let head_dim = problem.cache.config().head_dim;
        let first = task.sequence * problem.heads + task.kv_head * problem.group();
        task.queries(problem).map(move |query| {
            (first..first + problem.group()).map(move |head| {
                let at = (head * problem.t + query) * head_dim;
                &problem.q[at..at + head_dim]
            })
        })
    }
}

/// Whether what comes next is best left to the CPU's own prefetchers where it lies right behind what is being read. On a Zen 4 it is: what is
/// asked for takes places in the first level that reads then wait for, and a core gets 20 GB/s instead of 35. Integers take longer to
/// compute than that, and are better asked for evenly. Intel's CPUs, which follow two streams, are not to be left alone; NEON's have not
/// been measured.
#[inline(always)]
fn reads_in_line<F: Stored, S: AttentionSimd>(simd: S) -> bool {
    !F::INTEGER && S::LANES > LANES_MIN && !simd.two_streams()
}

/// Reads the scales of keys and values.
#[inline(always)]
fn read_scales<F: Stored, S: AttentionSimd>(
    simd: S,
    places: &Places,
    ahead: &Places,
    scales: &mut [[f32; STEP_MAX]; 2],
) {
    for i in 0..F::STRIPS {
        for (plane, scales) in scales.iter_mut().enumerate() {
            simd.prefetch(ahead.scales[i][plane]);
            for slot in (0..STRIP).step_by(S::LANES) {
                // SAFETY: a strip of integers has a scale of its keys for each of its tokens, and of its values, and `LANES` divides that.
                unsafe {
                    let scale = places.scales[i][plane].cast::<f16>().add(slot);
                    let read = <S as Load<f16, f32>>::load(simd, scale);
                    simd.store_acc(scales.as_mut_ptr().add(i * STRIP + slot), read);
                }
            }
        }
    }
}
