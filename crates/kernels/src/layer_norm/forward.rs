//! The forward pass.

use rayon::prelude::*;

use super::sums::column_tiles;
use super::{
    ForwardInputs, ForwardOptions, ForwardOutputs, LayerNormError, Shape, check_length, check_shape, token,
};
use crate::element::{Accumulator, Element};
use crate::simd::{Arith, Op, Simd, Token};

/// Layer normalisation over the last axis.
///
/// `y[r, c] = (x[r, c] - mean[r]) * rstd[r] * gamma[c] + beta[c]`, with `rstd = 1 / sqrt(var + eps)` and the biased
/// variance, `var[r] = mean over c of (x[r, c] - mean[r])²`.
///
/// # Shapes
/// `x`, `y`: `[rows, cols]`, row-major, contiguous, at any alignment. `gamma`, `beta`: `[cols]`. `mean`, `rstd`:
/// `[rows]`, for [`backward`](super::backward).
/// # Types
/// f32, f64 and bf16; `gamma` and `beta` have the type of `x`. The arithmetic, `mean` and `rstd` are f32 for bf16 and
/// f32, f64 for f64; row totals are f64 always. bf16 is rounded once, at the end, to nearest even.
/// # Accuracy
/// Error from the float64 definition at most twice that of the plain two-pass form in the arithmetic's type, and far
/// smaller where the mean is large beside the deviation (`tests/layer_norm_accuracy.rs`). Rows may be a million long.
/// Bitwise the same for any number of threads, any alignment and any choice of [`Stores`](crate::Stores); not bitwise the
/// same on another [`Isa`](crate::Isa).
/// # Edge cases
/// `cols == 1` gives `beta`; so does a constant row, exactly when `cols` copies of the value sum without rounding and
/// to rounding otherwise. `rows == 0` does nothing. A NaN or an infinity in a row makes that row NaN, and no other.
/// `eps == 0` is allowed, and makes a constant row NaN. f32 and bf16 overflow in the variance from deviations of 1e18.
/// # Errors
/// [`LayerNormError`] if a length does not match the shape, `cols` is 0, `eps` is negative or not finite, or the CPU lacks
/// the instruction set asked for; buffers are then untouched.
/// # Source
/// Ba, Kiros, Hinton 2016, <https://arxiv.org/abs/1607.06450>, eqs. 3 and 4. Variance: Chan, Golub, LeVeque 1983,
/// "Algorithms for computing the sample variance", eq. 1.7.
pub fn forward<T: Element>(
    shape: Shape,
    inputs: ForwardInputs<'_, T>,
    outputs: ForwardOutputs<'_, T>,
    options: &ForwardOptions,
) -> Result<(), LayerNormError> {
    let len = check_shape(shape)?;
    check_length("x", inputs.x, len)?;
    check_length("gamma", inputs.gamma, shape.cols)?;
    check_length("beta", inputs.beta, shape.cols)?;
    check_length("y", outputs.y, len)?;
    check_length("mean", outputs.mean, shape.rows)?;
    check_length("rstd", outputs.rstd, shape.rows)?;
    if !(options.eps.is_finite() && options.eps >= 0.0) {
        return Err(LayerNormError::Eps(options.eps));
    }
    let token = token(options.isa)?;
    if len > 0 {
        let plan = Plan { eps: options.eps, streams: options.stores.streams(size_of_val(inputs.x)), token };
        T::forward(Pass { shape, inputs, outputs, plan });
    }
    Ok(())
}

/// A forward pass whose arguments were checked.
pub(crate) struct Pass<'a, T: Element> {
    shape: Shape,
    inputs: ForwardInputs<'a, T>,
    outputs: ForwardOutputs<'a, T>,
    plan: Plan,
}

#[derive(Clone, Copy)]
struct Plan {
    eps: f64,
    streams: bool,
    token: Token,
}

/// How many elements a task has at least: some tens of microseconds of work, a hundred times what handing it over costs.
const TASK_ELEMENTS_MIN: usize = 1 << 16;

/// How many tasks each thread gets, if they are large enough: more would even out better when a core is taken away, but each
/// begins and ends with a group of rows whose passes do not overlap.
const TASKS_PER_THREAD: usize = 4;

impl<T: Element> Pass<'_, T> {
    /// Cuts the rows into tasks for the threads of the current pool.
    pub(crate) fn run(self) {
        let Pass { shape, inputs, outputs, plan } = self;
        let block = |x, outputs| {
            T::dispatch(
                plan.token,
                Block { cols: shape.cols, inputs: ForwardInputs { x, ..inputs }, outputs, plan },
            )
        };
        let threads = rayon::current_num_threads();
        // A row's result does not depend on its task, so the number of threads may decide.
        let task_rows =
            TASK_ELEMENTS_MIN.div_ceil(shape.cols).max(shape.rows.div_ceil(threads * TASKS_PER_THREAD));
        let task_rows = task_rows.next_multiple_of(LONG_ROWS);
        if task_rows >= shape.rows || threads == 1 {
            return block(inputs.x, outputs);
        }
        let task_len = task_rows * shape.cols;
        (inputs.x.par_chunks(task_len), outputs.y.par_chunks_mut(task_len))
            .into_par_iter()
            .zip((outputs.mean.par_chunks_mut(task_rows), outputs.rstd.par_chunks_mut(task_rows)))
            .for_each(|((x, y), (mean, rstd))| block(x, ForwardOutputs { y, mean, rstd }));
    }
}

/// How many rows are worked on at once, by the number of columns. The latency of one row's horizontal sums, root and division
/// is hidden behind the others; measured on a Sapphire Rapids, long rows gain a fifth from four at a time. Rows so long that
/// four do not fit into the second level of cache go one by one.
const SHORT_ROWS: usize = 2;
const LONG_ROWS: usize = 4;
const LONG_COLS: std::ops::RangeInclusive<usize> = 2048..=32768;

/// How many accumulators a sum along a row uses. The same for any number of rows at once, so that a row's result does
/// not depend on where it stands.
const UNROLL: usize = 4;

/// Some rows, for one thread.
struct Block<'a, T: Element> {
    cols: usize,
    inputs: ForwardInputs<'a, T>,
    outputs: ForwardOutputs<'a, T>,
    plan: Plan,
}

impl<T: Element> Op<T> for Block<'_, T> {
    #[inline(always)]
    fn eval<S: Simd<T>>(self, simd: S) {
        if self.plan.streams {
            self.rows::<S, true>(simd);
            simd.fence();
        } else {
            self.rows::<S, false>(simd);
        }
    }
}

impl<T: Element> Block<'_, T> {
    #[inline(always)]
    fn rows<S: Simd<T>, const STREAM: bool>(self, simd: S) {
        let Block { cols, inputs, outputs, plan } = self;
        let rows = outputs.mean.len();
        assert!(
            inputs.x.len() == rows * cols && outputs.y.len() == rows * cols && outputs.rstd.len() == rows
        );
        assert!(inputs.gamma.len() == cols && inputs.beta.len() == cols);
        let kernel = Kernel::<T, S, STREAM> {
            simd,
            cols,
            x: inputs.x.as_ptr(),
            gamma: inputs.gamma.as_ptr(),
            beta: inputs.beta.as_ptr(),
            y: outputs.y.as_mut_ptr(),
            eps: plan.eps,
        };
        let group_rows = match cols {
            _ if LONG_COLS.contains(&cols) => LONG_ROWS,
            _ if cols < *LONG_COLS.start() => SHORT_ROWS,
            _ => 1,
        };
        let grouped = rows / group_rows * group_rows;
        let (mean, rstd) = (outputs.mean, outputs.rstd);
        // SAFETY: the pointers of `kernel` come from slices of `rows` rows or `cols` columns, as asserted above; `y` is
        // borrowed mutably, so nobody else touches it; the ranges end at `rows` or before, and `grouped` is a multiple of
        // the rows of a group.
        unsafe {
            match group_rows {
                LONG_ROWS => kernel.rows::<LONG_ROWS>(0..grouped, mean, rstd),
                SHORT_ROWS => kernel.rows::<SHORT_ROWS>(0..grouped, mean, rstd),
                _ => kernel.rows::<1>(0..grouped, mean, rstd),
            }
            kernel.rows::<1>(grouped..rows, mean, rstd);
        }
    }
}

/// How far ahead of the loads lines are prefetched, in columns: 8 KiB of f32.
const PREFETCH_COLS: usize = 2048;

/// The kernel's view of its buffers.
///
/// The `unsafe` functions below ask of their caller:
/// - `x` and `y` point to all rows that are named, `gamma` and `beta` to `cols` elements;
/// - nobody else touches those rows of `y` meanwhile.
struct Kernel<T, S, const STREAM: bool> {
    simd: S,
    cols: usize,
    x: *const T,     // [rows, cols]
    gamma: *const T, // [cols]
    beta: *const T,  // [cols]
    y: *mut T,       // [rows, cols]
    eps: f64,
}

/// What the second pass finds out about a row, and the third applies: `xhat = (x - shift) * rstd + offset`.
#[derive(Clone, Copy, Default)]
struct Normaliser<A> {
    /// The mean as the first pass saw it.
    shift: A,
    rstd: A,
    /// What rounding left of the mean, times `-rstd`.
    offset: A,
}

impl<T: Element, S: Simd<T>, const STREAM: bool> Kernel<T, S, STREAM> {
    const LANES: usize = <S as Arith<T::Acc>>::LANES;

    /// Normalises `range`, whose length is a multiple of `R`, in groups of `R` rows.
    ///
    /// Three passes over each group: mean, variance, output. The last runs in the same loop as the first of the *next*
    /// group, so that memory is read and written at an even rate, as a copy would; the second prefetches a quarter of what
    /// that loop will read, so that memory does not rest meanwhile.
    ///
    /// # Safety
    /// - See [`Kernel`].
    #[inline(always)]
    unsafe fn rows<const R: usize>(
        &self,
        range: std::ops::Range<usize>,
        mean: &mut [T::Acc],
        rstd: &mut [T::Acc],
    ) {
        if range.is_empty() {
            return;
        }
        // SAFETY: the rows lie in `range`, for which the caller vouches.
        let mut totals = unsafe { self.sum_rows::<R>(range.start) };
        let mut row = range.start;
        while row < range.end {
            // SAFETY: as above.
            let normalisers = unsafe {
                self.normalisers::<R>(row, totals, &mut mean[row..row + R], &mut rstd[row..row + R])
            };
            let has_next = row + R < range.end;
            // SAFETY: as above; and so do the next, if there are any.
            totals = unsafe { self.write_rows_and_sum_next::<R>(row, normalisers, has_next) };
            row += R;
        }
    }

    /// First pass, by itself: the sums of rows `row..row + R`.
    ///
    /// # Safety
    /// - See [`Kernel`].
    #[inline(always)]
    unsafe fn sum_rows<const R: usize>(&self, row: usize) -> [f64; R] {
        let mut totals = [0.0; R];
        for (start, end) in column_tiles(self.cols) {
            let mut sums = [[self.simd.splat(T::Acc::default()); UNROLL]; R];
            let mut c = start;
            while c + UNROLL * Self::LANES <= end {
                // SAFETY: `c + UNROLL * LANES <= cols`, in rows that the caller vouches for.
                unsafe { self.add_vectors(row, c, &mut sums) };
                c += UNROLL * Self::LANES;
            }
            // SAFETY: `end <= cols`, in rows that the caller vouches for.
            unsafe { self.add_rest(row, c, end, &mut sums) };
            self.fold(&sums, &mut totals);
        }
        totals
    }

    /// Adds `UNROLL` vectors from column `c` of each row.
    ///
    /// # Safety
    /// - See [`Kernel`]; `c + UNROLL * LANES <= cols`.
    #[inline(always)]
    unsafe fn add_vectors<const R: usize>(&self, row: usize, c: usize, sums: &mut [[S::V; UNROLL]; R]) {
        for (r, sums) in sums.iter_mut().enumerate() {
            for (u, sum) in sums.iter_mut().enumerate() {
                // SAFETY: the caller vouches for the row, and for the columns up to `c + UNROLL * LANES`.
                *sum = self.simd.add(*sum, unsafe {
                    self.simd.load(self.x.add((row + r) * self.cols + c + u * Self::LANES))
                });
            }
        }
    }

    /// Adds columns `c..end` of each row, fewer than [`UNROLL`] vectors; the last may be a part of one.
    ///
    /// # Safety
    /// - See [`Kernel`]; `end <= cols`.
    #[inline(always)]
    unsafe fn add_rest<const R: usize>(
        &self,
        row: usize,
        mut c: usize,
        end: usize,
        sums: &mut [[S::V; UNROLL]; R],
    ) {
        while c < end {
            for (r, sums) in sums.iter_mut().enumerate() {
                // SAFETY: the caller vouches for the row, and `c < end <= cols`.
                let x = unsafe {
                    self.load_upto((row + r) * self.cols + c, end - c, self.simd.splat(T::Acc::default()))
                };
                sums[0] = self.simd.add(sums[0], x);
            }
            c += Self::LANES;
        }
    }

    /// Reads a vector of `x` at `index`, of which only the first `n` lanes may exist; the others are those of `fill`.
    ///
    /// # Safety
    /// - `n` elements can be read at `x + index`.
    #[inline(always)]
    unsafe fn load_upto(&self, index: usize, n: usize, fill: S::V) -> S::V {
        // SAFETY: the caller vouches for `n` elements: a whole vector in the first case, fewer in the second.
        unsafe {
            if n >= Self::LANES {
                self.simd.load(self.x.add(index))
            } else {
                self.simd.load_partial(self.x.add(index), n, fill)
            }
        }
    }

    /// Moves the sums of a column tile to f64.
    #[inline(always)]
    fn fold<const R: usize>(&self, sums: &[[S::V; UNROLL]; R], totals: &mut [f64; R]) {
        for (sums, total) in sums.iter().zip(totals) {
            let pairs = self.simd.add(self.simd.add(sums[0], sums[1]), self.simd.add(sums[2], sums[3]));
            *total += self.simd.reduce_add(pairs).to_f64();
        }
    }

    /// Second pass: mean and reciprocal deviation of rows `row..row + R`, whose sums are `totals`.
    ///
    /// # Safety
    /// - See [`Kernel`].
    #[inline(always)]
    unsafe fn normalisers<const R: usize>(
        &self,
        row: usize,
        totals: [f64; R],
        mean: &mut [T::Acc],
        rstd: &mut [T::Acc],
    ) -> [Normaliser<T::Acc>; R] {
        let simd = self.simd;
        let zero = simd.splat(T::Acc::default());
        let mut shifts = [T::Acc::default(); R];
        let (mut first, mut second) = ([0.0; R], [0.0; R]);
        for r in 0..R {
            shifts[r] = T::Acc::from_f64(totals[r] / self.cols as f64);
        }
        for (start, end) in column_tiles(self.cols) {
            let (mut d_sums, mut d2_sums) = ([[zero; UNROLL]; R], [[zero; UNROLL]; R]);
            let mut c = start;
            while c + UNROLL * Self::LANES <= end {
                self.prefetch::<R>(row + R, self.lead() + c / 4, 1);
                for r in 0..R {
                    let shift = simd.splat(shifts[r]);
                    for u in 0..UNROLL {
                        // SAFETY: `c + UNROLL * LANES <= cols`, in rows that the caller vouches for.
                        let x = unsafe { simd.load(self.x.add((row + r) * self.cols + c + u * Self::LANES)) };
                        let d = simd.sub(x, shift);
                        d_sums[r][u] = simd.add(d_sums[r][u], d);
                        d2_sums[r][u] = simd.mul_add(d, d, d2_sums[r][u]);
                    }
                }
                c += UNROLL * Self::LANES;
            }
            while c < end {
                for r in 0..R {
                    let shift = simd.splat(shifts[r]);
                    // A lane past the end holds the shift, so it adds nothing to either sum.
                    // SAFETY: `c < end <= cols`, in rows that the caller vouches for.
                    let x = unsafe { self.load_upto((row + r) * self.cols + c, end - c, shift) };
                    let d = simd.sub(x, shift);
                    d_sums[r][0] = simd.add(d_sums[r][0], d);
                    d2_sums[r][0] = simd.mul_add(d, d, d2_sums[r][0]);
                }
                c += Self::LANES;
            }
            self.fold(&d_sums, &mut first);
            self.fold(&d2_sums, &mut second);
        }
        let mut normalisers = [Normaliser::default(); R];
        for r in 0..R {
            let correction = first[r] / self.cols as f64;
            // Rounding can push the variance of an almost constant row below zero. `f64::max` would turn NaN into 0.
            let var = second[r] / self.cols as f64 - correction * correction;
            let var = if var < 0.0 { 0.0 } else { var };
            let scale = 1.0 / (var + self.eps).sqrt();
            mean[r] = T::Acc::from_f64(shifts[r].to_f64() + correction);
            rstd[r] = T::Acc::from_f64(scale);
            normalisers[r] =
                Normaliser { shift: shifts[r], rstd: rstd[r], offset: T::Acc::from_f64(-correction * scale) };
        }
        normalisers
    }

    /// Third pass over rows `row..row + R` and, if there are such rows, first pass over the `R` after them.
    ///
    /// # Safety
    /// - See [`Kernel`]; if `has_next`, that goes for rows up to `row + 2 * R`.
    #[inline(always)]
    unsafe fn write_rows_and_sum_next<const R: usize>(
        &self,
        row: usize,
        normalisers: [Normaliser<T::Acc>; R],
        has_next: bool,
    ) -> [f64; R] {
        let heads = self.heads::<R>(row);
        // Vectors of a row that starts with a head begin `head` columns later, so the last of them may not fit.
        let whole = if heads == [0; R] { self.cols } else { self.cols.saturating_sub(Self::LANES) };
        let mut totals = [0.0; R];
        let mut written = 0;
        let lead = self.lead() + self.cols / 4;
        for (start, end) in column_tiles(if has_next { self.cols } else { 0 }) {
            let mut sums = [[self.simd.splat(T::Acc::default()); UNROLL]; R];
            let mut c = start;
            let both = end.min(whole);
            while c + UNROLL * Self::LANES <= both {
                self.prefetch::<R>(row + R, lead + c / 4 * 3, 3);
                // SAFETY: `c + UNROLL * LANES <= whole`, so `head + c + UNROLL * LANES <= cols`; the caller vouches for both
                // groups of rows.
                unsafe {
                    self.add_vectors(row + R, c, &mut sums);
                    self.write_vectors(row, c, &heads, &normalisers);
                }
                c += UNROLL * Self::LANES;
                written = c;
            }
            // SAFETY: as in `sum_rows`.
            unsafe {
                if c + UNROLL * Self::LANES <= end {
                    self.add_vectors(row + R, c, &mut sums);
                    c += UNROLL * Self::LANES;
                }
                self.add_rest(row + R, c, end, &mut sums);
            }
            self.fold(&sums, &mut totals);
        }
        // SAFETY: `written + head <= cols`, in rows that the caller vouches for.
        unsafe { self.write_rest(row, written, &heads, &normalisers) };
        totals
    }

    /// How many columns of each row come before the first at which a vector can be streamed.
    #[inline(always)]
    fn heads<const R: usize>(&self, row: usize) -> [usize; R] {
        let mut heads = [0; R];
        if STREAM {
            let vector_bytes = Self::LANES * size_of::<T>();
            for (r, head) in heads.iter_mut().enumerate() {
                let misaligned = self.y.wrapping_add((row + r) * self.cols).addr() % vector_bytes;
                *head = ((vector_bytes - misaligned) % vector_bytes / size_of::<T>()).min(self.cols);
            }
        }
        heads
    }

    /// Prefetches `lines` vectors of each of the `R` rows from `row` on, from column `c`; columns past the end are those of
    /// the group after.
    #[inline(always)]
    fn prefetch<const R: usize>(&self, row: usize, c: usize, lines: usize) {
        let (row, c) = if c < self.cols { (row, c) } else { (row + R, c - self.cols) };
        for r in 0..R {
            for u in 0..lines {
                self.simd.prefetch(self.x.wrapping_add((row + r) * self.cols + c + u * Self::LANES));
            }
        }
    }

    /// How far the loads of the next group are ahead when its first pass begins.
    #[inline(always)]
    fn lead(&self) -> usize {
        PREFETCH_COLS.min(self.cols)
    }

    /// Writes `UNROLL` vectors of each row, from column `c` after its head.
    ///
    /// # Safety
    /// - See [`Kernel`]; `head + c + UNROLL * LANES <= cols` for each row.
    #[inline(always)]
    unsafe fn write_vectors<const R: usize>(
        &self,
        row: usize,
        c: usize,
        heads: &[usize; R],
        normalisers: &[Normaliser<T::Acc>; R],
    ) {
        for r in 0..R {
            for u in 0..UNROLL {
                // SAFETY: the caller vouches for the columns up to `head + c + UNROLL * LANES`.
                unsafe { self.write_vector(row + r, heads[r] + c + u * Self::LANES, &normalisers[r]) };
            }
        }
    }

    /// Writes what [`write_vectors`](Kernel::write_vectors) left: the head of each row, and all from column `c` after it.
    ///
    /// # Safety
    /// - See [`Kernel`].
    #[inline(always)]
    unsafe fn write_rest<const R: usize>(
        &self,
        row: usize,
        c: usize,
        heads: &[usize; R],
        normalisers: &[Normaliser<T::Acc>; R],
    ) {
        for r in 0..R {
            let mut c = heads[r] + c;
            // SAFETY: `c + LANES <= cols` in the loop; a head is shorter than a vector and ends within the row, and so does
            // the tail, which starts at `c` (a row that ends within its head has none).
            unsafe {
                while c + Self::LANES <= self.cols {
                    self.write_vector(row + r, c, &normalisers[r]);
                    c += Self::LANES;
                }
                self.write_part(row + r, 0, heads[r], &normalisers[r]);
                self.write_part(row + r, c, self.cols - c, &normalisers[r]);
            }
        }
    }

    /// Writes the vector at column `c` of `row`.
    ///
    /// # Safety
    /// - See [`Kernel`]; `c + LANES <= cols`.
    /// - If `STREAM`, the address in `y` is aligned to a vector.
    #[inline(always)]
    unsafe fn write_vector(&self, row: usize, c: usize, normaliser: &Normaliser<T::Acc>) {
        let index = row * self.cols + c;
        // SAFETY: the caller vouches for `LANES` elements in each buffer, and for the alignment.
        unsafe {
            let (x, gamma, beta) = (
                self.simd.load(self.x.add(index)),
                self.simd.load(self.gamma.add(c)),
                self.simd.load(self.beta.add(c)),
            );
            let y = self.normalise(x, gamma, beta, normaliser);
            if STREAM {
                self.simd.stream(self.y.add(index), y)
            } else {
                self.simd.store(self.y.add(index), y)
            }
        }
    }

    /// Writes columns `c..c + n` of `row`, fewer than a vector holds.
    ///
    /// # Safety
    /// - See [`Kernel`]; `n < LANES` and `c + n <= cols`.
    #[inline(always)]
    unsafe fn write_part(&self, row: usize, c: usize, n: usize, normaliser: &Normaliser<T::Acc>) {
        if n == 0 {
            return;
        }
        let index = row * self.cols + c;
        let zero = self.simd.splat(T::Acc::default());
        // SAFETY: the caller vouches for `n` elements in each buffer, and `n < LANES`.
        unsafe {
            let x = self.simd.load_partial(self.x.add(index), n, zero);
            let gamma = self.simd.load_partial(self.gamma.add(c), n, zero);
            let beta = self.simd.load_partial(self.beta.add(c), n, zero);
            self.simd.store_partial(self.y.add(index), n, self.normalise(x, gamma, beta, normaliser));
        }
    }

    #[inline(always)]
    fn normalise(&self, x: S::V, gamma: S::V, beta: S::V, normaliser: &Normaliser<T::Acc>) -> S::V {
        let Normaliser { shift, rstd, offset } = *normaliser;
        let d = self.simd.sub(x, self.simd.splat(shift));
        let xhat = self.simd.mul_add(d, self.simd.splat(rstd), self.simd.splat(offset));
        self.simd.mul_add(xhat, gamma, beta)
    }
}
