//! Which thread sums what, and how sums over parts of the context become results.

use std::marker::PhantomData;
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use half::f16;

use super::Outputs;
use super::ahead::Ahead;
use super::queries::ScaledQueries;
use super::share::share;
use super::step::{
    AttentionSimd, Bf16, GROUP, Int4, Int8, Place, Plain, STEP_MAX, STRIPS_MAX, Scores, Slots, State, Step,
    Stored, Strips, add_step,
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
struct Task {
    number: usize,
    sequence: usize,
    kv_head: usize,
    /// The first of its queries.
    first: usize,
}

/// What a task comes to.
struct Results<'a> {
    /// For each of the heads: `[queries, head_dim]`.
    out: Vec<&'a mut [f32]>,
    /// For each of the heads, or nothing: `[queries]`.
    lse: Vec<&'a mut [f32]>,
    /// The sums of its pieces; nothing in place of those that are in the sums before them.
    pieces: Vec<Sums>,
    /// How many pieces are still to come.
    left: usize,
}

/// What a thread keeps from one span to the next.
struct Worker {
    queries: ScaledQueries,
    /// Of which task these are.
    scaled: Option<usize>,
    /// Sums over a piece of work.
    sums: Sums,
    /// Sums over a chunk that is not a span's first.
    chunk: Sums,
    /// The strip that was asked for last, as what the next span probably begins with.
    asked: *const u8,
}

impl Worker {
    fn new(problem: &Problem<'_>) -> Worker {
        let queries = ScaledQueries::new(problem.token);
        let (sums, chunk) = (Sums::default(), Sums::default());
        Worker { queries, scaled: None, sums, chunk, asked: std::ptr::null() }
    }
}

/// Tokens of one head of keys and values.
struct Part {
    sequence: usize,
    kv_head: usize,
    /// Not empty.
    tokens: Range<usize>,
}

impl Task {
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

    /// Makes the sums of `worker` those of its queries over some chunks, added in order. The same thread probably goes on with `next`.
    fn sum(&self, problem: &Problem<'_>, chunks: Range<usize>, next: Option<Part>, worker: &mut Worker) {
        worker.sums.reset(self.queries(problem).len() * problem.padded_group(), problem.dim());
        let Some(part) = self.part(problem, chunks) else { return };
        let span = Span { problem, task: self, part, next };
        match problem.cache.config().format {
            Format::F32 => span.add_to::<Plain<f32>>(worker),
            Format::F16 => span.add_to::<Plain<f16>>(worker),
            Format::Bf16 => span.add_to::<Bf16>(worker),
            Format::Int8 => span.add_to::<Int8>(worker),
            Format::Int4 => span.add_to::<Int4>(worker),
        }
    }
}

impl Results<'_> {
    /// Takes the sums of `count` pieces of `task` from one on, which `worker` has. With the last of them they are added up.
    fn take(&mut self, problem: &Problem<'_>, task: &Task, piece: usize, count: usize, worker: &mut Worker) {
        self.left -= count;
        if self.left > 0 || !self.pieces.is_empty() {
            self.pieces.resize_with(self.pieces.len().max(piece + 1), Sums::default);
            std::mem::swap(&mut self.pieces[piece], &mut worker.sums);
        }
        if self.left > 0 {
            return;
        }
        if !self.pieces.is_empty() {
            worker.sums.reset(task.queries(problem).len() * problem.padded_group(), problem.dim());
            dispatch!(problem.token, Merge { pieces: &self.pieces, sums: &mut worker.sums });
        }
        self.finish(problem, &worker.sums);
    }

    /// Divides by the sums of exponentials.
    fn finish(&mut self, problem: &Problem<'_>, sums: &Sums) {
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

/// Cuts the work into pieces for the threads of the current pool: tasks, or, where these are few, their chunks.
pub(super) fn run(problem: &Problem<'_>, outputs: Outputs<'_>) {
    if problem.t == 0 {
        return;
    }
    let tasks = tasks(problem);
    let threads = rayon::current_num_threads();
    let sizes = || tasks.iter().map(|task| task.context(problem).len() * task.queries(problem).len());
    let (total, largest) = (sizes().sum::<usize>(), sizes().max().unwrap_or(0));
    let split = threads > 1 && largest > CHUNK && largest * threads * TASKS_PER_THREAD > total;
    // What sees nothing is a piece as well.
    let count = |task: &Task| if split { task.chunks(problem).len().max(1) } else { 1 };
    let results = results(problem, tasks.iter().map(count), outputs);
    let pieces: Vec<(&Task, usize)> =
        tasks.iter().flat_map(|task| (0..count(task)).map(move |piece| (task, piece))).collect();
    let chunks = |i: usize, count: usize| {
        let (task, piece) = pieces[i];
        let Range { start, end } = task.chunks(problem);
        if split { start + piece..start + piece + count } else { start..end }
    };
    share(
        pieces.len(),
        |i| count(pieces[i].0) - pieces[i].1,
        || Worker::new(problem),
        |worker, taken, next| {
            let (task, first) = pieces[taken.start];
            // Chunks from the first on are added as they come; others have to wait for those before them.
            let at_once = if first == 0 { taken.len() } else { 1 };
            for i in taken.clone().step_by(at_once) {
                let next = if i + at_once < taken.end { Some(i + at_once) } else { next };
                let next = next.and_then(|next| pieces[next].0.part(problem, chunks(next, 1)));
                task.sum(problem, chunks(i, at_once), next, worker);
                // Nobody uses results after a panic.
                let mut results = results[task.number].lock().unwrap_or_else(PoisonError::into_inner);
                results.take(problem, task, pieces[i].1, at_once, worker);
            }
        },
    );
}

fn tasks(problem: &Problem<'_>) -> Vec<Task> {
    let (kv_heads, spans) = (problem.heads / problem.group(), problem.t.div_ceil(QUERIES));
    let task = |number: usize| Task {
        number,
        sequence: number / spans / kv_heads,
        kv_head: number / spans % kv_heads,
        first: number % spans * QUERIES,
    };
    (0..problem.lengths.len() * kv_heads * spans).map(task).collect()
}

/// Where the tasks of [`tasks`] leave what they come to, each of so many pieces.
fn results<'a>(
    problem: &Problem<'_>,
    counts: impl Iterator<Item = usize>,
    outputs: Outputs<'a>,
) -> Vec<Mutex<Results<'a>>> {
    let (t, group, head_dim) = (problem.t, problem.group(), problem.cache.config().head_dim);
    let spans = t.div_ceil(QUERIES);
    let nothing = |count: usize| Results {
        out: Vec::with_capacity(group),
        lse: Vec::new(),
        pieces: Vec::new(),
        left: count,
    };
    let mut results: Vec<Results<'_>> = counts.map(nothing).collect();
    for (head, out) in outputs.out.chunks_exact_mut(t * head_dim).enumerate() {
        let results = &mut results[head / group * spans..];
        for (results, out) in results.iter_mut().zip(out.chunks_mut(QUERIES * head_dim)) {
            results.out.push(out);
        }
    }
    for (head, lse) in outputs.lse.into_iter().flat_map(|lse| lse.chunks_exact_mut(t)).enumerate() {
        let results = &mut results[head / group * spans..];
        for (results, lse) in results.iter_mut().zip(lse.chunks_mut(QUERIES)) {
            results.lse.push(lse);
        }
    }
    results.into_iter().map(Mutex::new).collect()
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

/// The sums of pieces, to be added in order.
struct Merge<'a> {
    pieces: &'a [Sums],
    sums: &'a mut Sums,
}

impl Merge<'_> {
    #[inline(always)]
    fn eval<S: AttentionSimd>(self, simd: S) {
        for piece in self.pieces {
            self.sums.add(simd, piece);
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
    fn nowhere() -> Places {
        Places {
            first: 0,
            strips: [Place::NOWHERE; STRIPS_MAX],
            scales: [[std::ptr::null(); 2]; STRIPS_MAX],
            tokens: [0; STRIPS_MAX],
            lens: [0; STRIPS_MAX],
            behind: 0,
        }
    }
}

/// Where a step's strips are: at one of two places, or in a tile in line behind it. Going on to the next tile writes nothing that the
/// addresses of its strips would have to be read from: the CPU can begin with it before the last one is done.
#[derive(Clone, Copy)]
struct Cursor {
    places: usize,
    /// How many tiles behind.
    tile: usize,
}

/// What a task sums up in one go.
struct Span<'a> {
    problem: &'a Problem<'a>,
    task: &'a Task,
    part: Part,
    /// What to prefetch at the end.
    next: Option<Part>,
}

/// A span of rows that are stored as `F`, on its way to where it is compiled for an instruction set.
struct Stretch<'a, F> {
    span: &'a Span<'a>,
    worker: &'a mut Worker,
    stored: PhantomData<F>,
}

impl<F: Stored> Stretch<'_, F> {
    #[inline(always)]
    fn eval<S: AttentionSimd>(self, simd: S) {
        self.span.add::<F, S>(simd, self.worker);
    }
}

impl Span<'_> {
    fn add_to<F: Stored>(&self, worker: &mut Worker) {
        dispatch!(self.problem.token, Stretch::<F> { span: self, worker, stored: PhantomData })
    }

    #[inline(always)]
    fn add<F: Stored, S: AttentionSimd>(&self, simd: S, worker: &mut Worker) {
        let Span { problem, task, part: Part { ref tokens, .. }, .. } = *self;
        let Geometry { plane_bytes, strip_bytes, .. } = *problem.cache.geometry();
        let (dim, padded_group) = (problem.dim(), problem.padded_group());
        let queries = task.queries(problem);
        let seen: [Range<usize>; QUERIES] =
            std::array::from_fn(|i| problem.sees(task.sequence, queries.start + i));
        let seen = &seen[..queries.len()];
        let last = self.strip_of(tokens.end - 1);
        let tile_bytes = F::STRIPS * strip_bytes;
        let nowhere = Places::nowhere();
        let mut places = [self.places::<F>(&self.part, self.first_strip::<F>(tokens.start), last), nowhere];
        let mut ahead = Cursor { places: 0, tile: 0 };
        let in_line = reads_in_line::<F, S>(simd);
        let Worker { queries, scaled, sums, chunk, asked } = worker;
        if !in_line && places[0].strips[0].keys != *asked {
            Ahead::strips(simd, &places[0].strips[..F::STRIPS], plane_bytes).finish(simd);
        }
        // Of what comes after the first step, some is asked for while queries are made ready.
        let mut begun = None;
        if *scaled != Some(task.number) {
            if F::INTEGER && places[0].behind > 0 {
                let second = places[0].strips[0].keys.wrapping_add(tile_bytes);
                begun = Some(Ahead::tile(simd, second, F::STRIPS * plane_bytes, F::INTEGER));
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
                if places[ahead.places].first.wrapping_add(ahead.tile * F::STRIPS) != number {
                    ahead = Cursor { places: 1 - ahead.places, tile: 0 };
                    places[ahead.places] = self.places::<F>(&self.part, number, last);
                }
                let here = ahead;
                let is_in_line = here.tile < places[here.places].behind;
                if is_in_line {
                    ahead.tile += 1;
                } else {
                    ahead = Cursor { places: 1 - here.places, tile: 0 };
                    places[ahead.places] = match &self.next {
                        Some(next) if number + F::STRIPS > last => {
                            let (first, last) = (
                                self.first_strip::<F>(next.tokens.start),
                                self.strip_of(next.tokens.end - 1),
                            );
                            Places { first: usize::MAX, ..self.places::<F>(next, first, last) }
                        }
                        _ => self.places::<F>(&self.part, number + F::STRIPS, last),
                    };
                }
                let offset = here.tile * tile_bytes;
                let (places, coming) = (&places[here.places], &places[ahead.places]);
                if F::INTEGER {
                    read_scales::<F, S>(
                        simd,
                        [&places.scales, &coming.scales],
                        [offset, ahead.tile * tile_bytes],
                        &mut scales,
                    );
                }
                let mut lines = begun.take().unwrap_or_else(
                    #[inline(always)]
                    || {
                        if !is_in_line {
                            Ahead::strips(simd, &coming.strips[..F::STRIPS], plane_bytes)
                        } else if in_line {
                            Ahead::nothing()
                        } else {
                            let keys = coming.strips[0].keys.wrapping_add(ahead.tile * tile_bytes);
                            Ahead::tile(simd, keys, F::STRIPS * plane_bytes, F::INTEGER)
                        }
                    },
                );
                for (i, seen) in seen.iter().enumerate() {
                    let (from, to) = (seen.start.max(chunk_tokens.start), seen.end.min(chunk_tokens.end));
                    let slots: [Slots; STRIPS_MAX] = std::array::from_fn(
                        #[inline(always)]
                        |strip| {
                            let slot = |token: usize| {
                                token
                                    .saturating_sub(places.tokens[strip] + here.tile * F::STRIPS * STRIP)
                                    .min(places.lens[strip])
                            };
                            Slots { from: slot(from), to: slot(to).max(slot(from)) }
                        },
                    );
                    if slots.iter().all(|slots| slots.from == slots.to) {
                        continue;
                    }
                    let step = Step {
                        strips: Strips { places: &places.strips, offset },
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
        *asked = if self.next.is_some() {
            places[ahead.places].strips[0].keys.wrapping_add(ahead.tile * tile_bytes)
        } else {
            std::ptr::null()
        };
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
        let mut places = Places { first, ..Places::nowhere() };
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
    [places, ahead]: [&[[*const u8; 2]; STRIPS_MAX]; 2],
    [offset, ahead_offset]: [usize; 2],
    scales: &mut [[f32; STEP_MAX]; 2],
) {
    for i in 0..F::STRIPS {
        for (plane, scales) in scales.iter_mut().enumerate() {
            simd.prefetch(ahead[i][plane].wrapping_add(ahead_offset));
            for slot in (0..STRIP).step_by(S::LANES) {
                // SAFETY: a strip of integers has a scale of its keys for each of its tokens, and of its values, and `LANES` divides that.
                unsafe {
                    let scale = places[i][plane].wrapping_add(offset).cast::<f16>().add(slot);
                    let read = <S as Load<f16, f32>>::load(simd, scale);
                    simd.store_acc(scales.as_mut_ptr().add(i * STRIP + slot), read);
                }
            }
        }
    }
}
