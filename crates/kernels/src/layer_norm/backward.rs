//! The backward pass.

use std::cell::Cell;

use rayon::prelude::*;

use super::sums::column_tiles;
use super::{
    BackwardInputs, BackwardOptions, BackwardOutputs, LayerNormError, Shape, check_length, check_shape, token,
};
use crate::element::{Accumulator, Element};
use crate::simd::{Arith, Op, Simd, Token};

/// Gradients of layer normalisation with respect to its input, `gamma` and `beta`.
///
/// With `xhat = (x - mean) * rstd` and `g = dy * gamma`,
///
/// - `dx[r, c] = rstd[r] * (g[r, c] - mean over c of g[r, :] - xhat[r, c] * mean over c of (g * xhat)[r, :])`
/// - `dgamma[c] = sum over r of dy[r, c] * xhat[r, c]`
/// - `dbeta[c] = sum over r of dy[r, c]`
///
/// `gamma` stands inside both means: taking it out is right for a constant `gamma` only. The form is exact for
/// `eps > 0`, as `rstd` holds it.
///
/// # Shapes
/// `dy`, `x`, `dx`: `[rows, cols]`, row-major, contiguous, at any alignment. `mean`, `rstd`: `[rows]`. `gamma`,
/// `dgamma`, `dbeta`: `[cols]`.
/// # Types
/// As for [`forward`](super::forward). Sums along a row and over blocks of rows end in f64; within a tile of 2048 columns or
/// a block of at most 128 rows they are taken in the arithmetic's type.
/// # Accuracy
/// Error from the float64 definition, given the same `mean` and `rstd`, at most twice that of the plain form in the
/// arithmetic's type, for tens of thousands of rows too (`tests/layer_norm_accuracy.rs`). Bitwise the same for any
/// number of threads, any alignment and any choice of [`Stores`](crate::Stores); not on another [`Isa`](crate::Isa).
/// # Edge cases
/// `cols == 1` gives `dx = 0` (`g - g`, and `xhat` is 0). A constant row gives `xhat = 0`, so it adds nothing to
/// `dgamma`. `rows == 0` gives `dgamma = dbeta = 0`. A NaN in a row makes that row of `dx` NaN and no other, and NaN in
/// the columns of `dgamma` and `dbeta` that it reaches.
/// # Memory
/// One row of `dgamma` and one of `dbeta` for each block of rows, kept by the calling thread from call to call.
/// # Errors
/// [`LayerNormError`] if a length does not match the shape, `cols` is 0, or the CPU lacks the instruction set asked for;
/// buffers are then untouched.
/// # Source
/// Ba, Kiros, Hinton 2016, <https://arxiv.org/abs/1607.06450>, eqs. 3 and 4, differentiated by hand.
pub fn backward<T: Element>(
    shape: Shape,
    inputs: BackwardInputs<'_, T>,
    outputs: BackwardOutputs<'_, T>,
    options: &BackwardOptions,
) -> Result<(), LayerNormError> {
    let len = check_shape(shape)?;
    check_length("dy", inputs.dy, len)?;
    check_length("x", inputs.x, len)?;
    check_length("mean", inputs.mean, shape.rows)?;
    check_length("rstd", inputs.rstd, shape.rows)?;
    check_length("gamma", inputs.gamma, shape.cols)?;
    check_length("dx", outputs.dx, len)?;
    check_length("dgamma", outputs.dgamma, shape.cols)?;
    check_length("dbeta", outputs.dbeta, shape.cols)?;
    let token = token(options.isa)?;
    let streams = options.stores.streams(size_of_val(inputs.x));
    T::backward(Pass { shape, inputs, outputs, streams, token });
    Ok(())
}

/// A backward pass whose arguments were checked.
pub(crate) struct Pass<'a, T: Element> {
    shape: Shape,
    inputs: BackwardInputs<'a, T>,
    outputs: BackwardOutputs<'a, T>,
    streams: bool,
    token: Token,
}

/// How many rows share one partial sum of `dgamma` and `dbeta`. It follows from the shape alone, so results do not depend on
/// the number of threads. Many rows make the partial sums a small part of all traffic (two per cent at 64) and leave few groups
/// whose passes do not overlap; few rows give more threads something to do.
fn block_rows(shape: Shape) -> usize {
    (shape.rows / 32).clamp(16, 128).next_multiple_of(ROWS)
}

/// Where a block's partial sums lie in its piece of the scratch memory, counted in accumulators.
///
/// Both start at odd thirds of a page. A load waits for an earlier store that has the same lowest twelve bits of address;
/// rows of tensors often start on a page (4096 columns do), and sums that did so too would be such stores.
#[derive(Clone, Copy)]
struct PartialLayout {
    dgamma: usize,
    dbeta: usize,
    block: usize,
}

impl PartialLayout {
    const PAGE_BYTES: usize = 4096;
    const THIRD_BYTES: usize = 1344;

    fn new<A>(cols: usize) -> PartialLayout {
        let (page, third) = (Self::PAGE_BYTES / size_of::<A>(), Self::THIRD_BYTES / size_of::<A>());
        // Whole pages are whole vectors too, so there are no tails.
        let pages = cols.next_multiple_of(page);
        PartialLayout { dgamma: third, dbeta: pages + 2 * third, block: 2 * pages + page }
    }
}

/// How many columns of `dgamma` and `dbeta` a thread sums over all blocks at a time.
const REDUCE_COLS: usize = 64;

impl<T: Element> Pass<'_, T> {
    /// Both stages, on the threads of the current pool.
    pub(crate) fn run(self) {
        let Pass { shape, inputs, outputs, streams, token } = self;
        let Shape { rows, cols } = shape;
        let layout = PartialLayout::new::<T::Acc>(cols);
        let block_rows = block_rows(shape);
        with_scratch(rows.div_ceil(block_rows) * layout.block, |partials: &mut [T::Acc]| {
            let block = |first_row: usize, dx: &mut [T], partial: &mut [T::Acc]| {
                let rows = dx.len() / cols;
                let (elements, statistics) =
                    (first_row * cols..(first_row + rows) * cols, first_row..first_row + rows);
                let inputs = BackwardInputs {
                    dy: &inputs.dy[elements.clone()],
                    x: &inputs.x[elements],
                    mean: &inputs.mean[statistics.clone()],
                    rstd: &inputs.rstd[statistics],
                    gamma: inputs.gamma,
                };
                T::dispatch(token, Block { cols, inputs, dx, partial, streams });
            };
            let reduce = |first_col: usize, dgamma: &mut [T], dbeta: &mut [T], partials: &[T::Acc]| {
                T::dispatch(token, Reduce { first_col, layout, dgamma, dbeta, partials });
            };
            // Not worth a thread below some tens of microseconds of work.
            if rayon::current_num_threads() == 1 || inputs.x.len() <= 1 << 15 {
                for (i, (dx, partial)) in outputs
                    .dx
                    .chunks_mut(block_rows * cols)
                    .zip(partials.chunks_mut(layout.block))
                    .enumerate()
                {
                    block(i * block_rows, dx, partial);
                }
                reduce(0, outputs.dgamma, outputs.dbeta, partials);
            } else {
                (outputs.dx.par_chunks_mut(block_rows * cols), partials.par_chunks_mut(layout.block))
                    .into_par_iter()
                    .enumerate()
                    .for_each(|(i, (dx, partial))| block(i * block_rows, dx, partial));
                let partials = &*partials;
                (
                    outputs.dgamma.par_chunks_mut(4 * REDUCE_COLS),
                    outputs.dbeta.par_chunks_mut(4 * REDUCE_COLS),
                )
                    .into_par_iter()
                    .enumerate()
                    .for_each(|(i, (dgamma, dbeta))| reduce(i * 4 * REDUCE_COLS, dgamma, dbeta, partials));
            }
        });
    }
}

#[derive(Clone, Copy)]
#[repr(C, align(4096))]
struct Page([u8; PartialLayout::PAGE_BYTES]);

/// Lends `len` accumulators of unspecified value that start on a page, from a buffer that the thread keeps: a fresh one of some hundred
/// kilobytes would be given back to the system after each call, and faulted in again page by page in the next.
fn with_scratch<A: Accumulator>(len: usize, work: impl FnOnce(&mut [A])) {
    /// More than this is given back at once.
    const KEPT_BYTES_MAX: usize = 16 << 20;
    thread_local! {
        static SCRATCH: Cell<Vec<Page>> = const { Cell::new(Vec::new()) };
    }
    // Taken out meanwhile: while this thread waits for others, rayon may have it run a second call.
    let mut pages = SCRATCH.take();
    let pages_len = (len * size_of::<A>()).div_ceil(size_of::<Page>());
    if pages.len() < pages_len {
        pages.resize(pages_len, Page([0; PartialLayout::PAGE_BYTES]));
    }
    // SAFETY:
    // - `pages` holds at least `len * size_of::<A>()` initialised bytes, by the statement above;
    // - a `Page` is at least as aligned as an `Accumulator` (f32 or f64), and any bits are a value of either;
    // - the slice ends with `work`, before `pages` is used again.
    let lent = unsafe { std::slice::from_raw_parts_mut(pages.as_mut_ptr().cast::<A>(), len) };
    work(lent);
    if size_of_val(pages.as_slice()) <= KEPT_BYTES_MAX {
        SCRATCH.set(pages);
    }
}

/// Second stage: sums the partial `dgamma` and `dbeta` of all blocks, in block order, for some columns.
struct Reduce<'a, T: Element> {
    first_col: usize,
    layout: PartialLayout,
    dgamma: &'a mut [T],
    dbeta: &'a mut [T],
    partials: &'a [T::Acc], // [blocks, layout.block]
}

impl<T: Element> Op<T> for Reduce<'_, T> {
    #[inline(always)]
    fn eval<S: Simd<T>>(self, _: S) {
        let Reduce { first_col, layout, dgamma, dbeta, partials } = self;
        for (base, outputs) in [(layout.dgamma, dgamma), (layout.dbeta, dbeta)] {
            for (tile, outputs) in outputs.chunks_mut(REDUCE_COLS).enumerate() {
                let mut sums = [0.0_f64; REDUCE_COLS];
                let start = base + first_col + tile * REDUCE_COLS;
                for block in partials.chunks_exact(layout.block) {
                    for (sum, partial) in sums.iter_mut().zip(&block[start..start + outputs.len()]) {
                        *sum += partial.to_f64();
                    }
                }
                for (output, sum) in outputs.iter_mut().zip(sums) {
                    *output = T::from_f64(sum);
                }
            }
        }
    }
}

/// How many long rows are worked on at once. Each vector of the partial sums is then read and written once for so many rows.
const ROWS: usize = 2;

/// Rows of at least so many columns are long. Shorter ones stay in the first level of cache, partial sums and all, and are
/// worked on one by one.
const LONG_COLS: usize = 2048;

/// How many columns ahead of the loads long rows are prefetched; short ones, a row. Measured on a Sapphire Rapids: at 2048
/// columns ahead, rows of 8192 take a tenth longer.
const PREFETCH_COLS: usize = 256;

/// First stage: `dx` of a block of rows, and their share of `dgamma` and `dbeta`.
struct Block<'a, T: Element> {
    cols: usize,
    inputs: BackwardInputs<'a, T>,
    dx: &'a mut [T],
    partial: &'a mut [T::Acc], // [layout.block]
    streams: bool,
}

impl<T: Element> Op<T> for Block<'_, T> {
    #[inline(always)]
    fn eval<S: Simd<T>>(self, simd: S) {
        if self.streams {
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
        let Block { cols, inputs, dx, partial, .. } = self;
        let rows = inputs.mean.len();
        assert!(inputs.x.len() == rows * cols && inputs.dy.len() == rows * cols && dx.len() == rows * cols);
        assert!(inputs.rstd.len() == rows && inputs.gamma.len() == cols);
        let layout = PartialLayout::new::<T::Acc>(cols);
        let vectors = cols.next_multiple_of(<S as Arith<T::Acc>>::LANES);
        let (dgamma, dbeta) = partial.split_at_mut(layout.dbeta);
        let (dgamma, dbeta) = (&mut dgamma[layout.dgamma..][..vectors], &mut dbeta[..vectors]);
        dgamma.fill(T::Acc::default());
        dbeta.fill(T::Acc::default());
        let kernel = Kernel::<T, S, STREAM> {
            simd,
            cols,
            dy: inputs.dy.as_ptr(),
            x: inputs.x.as_ptr(),
            gamma: inputs.gamma.as_ptr(),
            dx: dx.as_mut_ptr(),
            dgamma: dgamma.as_mut_ptr(),
            dbeta: dbeta.as_mut_ptr(),
            mean: inputs.mean,
            rstd: inputs.rstd,
        };
        let grouped = if cols >= LONG_COLS { rows / ROWS * ROWS } else { 0 };
        // SAFETY: the pointers of `kernel` come from slices of `rows` rows, `cols` columns, or `cols` columns rounded up
        // to whole vectors, as asserted above; those written to are borrowed mutably, so nobody else touches them; the
        // ranges end at `rows` or before.
        unsafe {
            kernel.rows::<ROWS>(0..grouped);
            kernel.rows::<1>(grouped..rows);
        }
    }
}

/// The kernel's view of its buffers.
///
/// The `unsafe` functions below ask of their caller:
/// - `dy`, `x` and `dx` point to all rows that are named, `gamma` to `cols` elements, `dgamma` and `dbeta` to as many or up to
///   the next whole vector;
/// - nobody else touches `dgamma`, `dbeta` and those rows of `dx` meanwhile.
struct Kernel<'a, T: Element, S, const STREAM: bool> {
    simd: S,
    cols: usize,
    dy: *const T,        // [rows, cols]
    x: *const T,         // [rows, cols]
    gamma: *const T,     // [cols]
    dx: *mut T,          // [rows, cols]
    dgamma: *mut T::Acc, // [cols, rounded up to vectors]
    dbeta: *mut T::Acc,  // [cols, rounded up to vectors]
    mean: &'a [T::Acc],  // [rows]
    rstd: &'a [T::Acc],  // [rows]
}

/// What the first pass finds out about a row, and the second applies.
#[derive(Clone, Copy, Default)]
struct Projector<A> {
    mean: A,
    rstd: A,
    /// The mean of `g`.
    g_mean: A,
    /// `rstd` times the mean of `g * xhat`.
    slope: A,
}

/// The sums along one row that the first pass takes: of `g` and of `g * xhat`.
#[derive(Clone, Copy)]
struct RowSums<V> {
    g: V,
    g_xhat: V,
}

impl<T: Element, S: Simd<T>, const STREAM: bool> Kernel<'_, T, S, STREAM> {
    const LANES: usize = <S as Arith<T::Acc>>::LANES;

    /// Works on `range`, whose length is a multiple of `R`, in groups of `R` rows.
    ///
    /// Two passes over each group: sums, then `dx`. The second runs in the same loop as the first of the *next* group, so
    /// that memory is read and written at an even rate.
    ///
    /// # Safety
    /// - See [`Kernel`].
    #[inline(always)]
    unsafe fn rows<const R: usize>(&self, range: std::ops::Range<usize>) {
        if range.is_empty() {
            return;
        }
        // SAFETY: the rows lie in `range`, for which the caller vouches.
        let mut projectors = unsafe { self.sum_rows::<R>(range.start) };
        let mut row = range.start;
        while row < range.end {
            let has_next = row + R < range.end;
            // SAFETY: as above; and so do the next, if there are any.
            projectors = unsafe { self.write_rows_and_sum_next::<R>(row, projectors, has_next) };
            row += R;
        }
    }

    /// First pass, by itself, over rows `row..row + R`.
    ///
    /// # Safety
    /// - See [`Kernel`].
    #[inline(always)]
    unsafe fn sum_rows<const R: usize>(&self, row: usize) -> [Projector<T::Acc>; R] {
        let mut totals = [RowSums { g: 0.0, g_xhat: 0.0 }; R];
        for (start, end) in column_tiles(self.cols) {
            let mut sums = self.zero_sums::<R>();
            // SAFETY: `end <= cols`, in rows that the caller vouches for.
            unsafe { self.add_columns(row, start, end, &mut sums) };
            self.fold(&sums, &mut totals);
        }
        self.projectors(row, totals)
    }

    #[inline(always)]
    fn zero_sums<const R: usize>(&self) -> [RowSums<S::V>; R] {
        let zero = self.simd.splat(T::Acc::default());
        [RowSums { g: zero, g_xhat: zero }; R]
    }

    /// Moves the sums of a column tile to f64.
    #[inline(always)]
    fn fold<const R: usize>(&self, sums: &[RowSums<S::V>; R], totals: &mut [RowSums<f64>; R]) {
        for (sums, totals) in sums.iter().zip(totals) {
            totals.g += self.simd.reduce_add(sums.g).to_f64();
            totals.g_xhat += self.simd.reduce_add(sums.g_xhat).to_f64();
        }
    }

    #[inline(always)]
    fn projectors<const R: usize>(&self, row: usize, totals: [RowSums<f64>; R]) -> [Projector<T::Acc>; R] {
        let mut projectors = [Projector::default(); R];
        for r in 0..R {
            let (mean, rstd) = (self.mean[row + r], self.rstd[row + r]);
            let cols = self.cols as f64;
            let g_mean = T::Acc::from_f64(totals[r].g / cols);
            let slope = T::Acc::from_f64(totals[r].g_xhat / cols * rstd.to_f64());
            projectors[r] = Projector { mean, rstd, g_mean, slope };
        }
        projectors
    }

    /// First pass over columns `c..end` of rows `row..row + R`; the last vector may be a part of one.
    ///
    /// # Safety
    /// - See [`Kernel`]; `end <= cols`, and `c` is a multiple of `LANES`.
    #[inline(always)]
    unsafe fn add_columns<const R: usize>(
        &self,
        row: usize,
        mut c: usize,
        end: usize,
        sums: &mut [RowSums<S::V>; R],
    ) {
        while c + Self::LANES <= end {
            // SAFETY: `c + LANES <= cols`, in rows that the caller vouches for.
            unsafe { self.add_vector(row, c, Self::LANES, sums) };
            c += Self::LANES;
        }
        if c < end {
            // SAFETY: `end <= cols`, and fewer than `LANES` columns are left, in rows that the caller vouches for.
            unsafe { self.add_vector(row, c, end - c, sums) };
        }
    }

    /// First pass over columns `c..c + n` of rows `row..row + R`, a vector or a part of one.
    ///
    /// # Safety
    /// - See [`Kernel`]; `0 < n <= LANES` and `c + n <= cols`, and `c` is a multiple of `LANES`.
    #[inline(always)]
    unsafe fn add_vector<const R: usize>(
        &self,
        row: usize,
        c: usize,
        n: usize,
        sums: &mut [RowSums<S::V>; R],
    ) {
        let simd = self.simd;
        let zero = simd.splat(T::Acc::default());
        // SAFETY:
        // - `gamma` holds `n` elements from column `c` on, as the caller vouches;
        // - `dgamma` and `dbeta` hold whole vectors up to the one that column `c` begins.
        let (gamma, mut dgamma, mut dbeta) = unsafe {
            (
                self.load_upto(self.gamma.add(c), n, zero),
                simd.load_acc(self.dgamma.add(c)),
                simd.load_acc(self.dbeta.add(c)),
            )
        };
        for (r, sums) in sums.iter_mut().enumerate() {
            let mean = simd.splat(self.mean[row + r]);
            let index = (row + r) * self.cols + c;
            // Lanes past the end hold `dy = 0` and `x = mean`, so they add nothing.
            // SAFETY: the caller vouches for `n` elements of each row from column `c` on.
            let (dy, x) = unsafe {
                (self.load_upto(self.dy.add(index), n, zero), self.load_upto(self.x.add(index), n, mean))
            };
            let xhat = simd.mul(simd.sub(x, mean), simd.splat(self.rstd[row + r]));
            let g = simd.mul(dy, gamma);
            sums.g = simd.add(sums.g, g);
            sums.g_xhat = simd.mul_add(g, xhat, sums.g_xhat);
            dgamma = simd.mul_add(dy, xhat, dgamma);
            dbeta = simd.add(dbeta, dy);
        }
        // SAFETY: as for the loads.
        unsafe {
            simd.store_acc(self.dgamma.add(c), dgamma);
            simd.store_acc(self.dbeta.add(c), dbeta);
        }
    }

    /// Reads a vector of which only the first `n` lanes may exist; the others are those of `fill`.
    ///
    /// # Safety
    /// - `n` elements can be read at `p`.
    #[inline(always)]
    unsafe fn load_upto(&self, p: *const T, n: usize, fill: S::V) -> S::V {
        // SAFETY: the caller vouches for `n` elements: a whole vector in the first case, fewer in the second.
        unsafe { if n >= Self::LANES { self.simd.load(p) } else { self.simd.load_partial(p, n, fill) } }
    }

    /// Second pass over rows `row..row + R` and, if there are such rows, first pass over the `R` after them.
    ///
    /// # Safety
    /// - See [`Kernel`]; if `has_next`, that goes for rows up to `row + 2 * R`.
    #[inline(always)]
    unsafe fn write_rows_and_sum_next<const R: usize>(
        &self,
        row: usize,
        projectors: [Projector<T::Acc>; R],
        has_next: bool,
    ) -> [Projector<T::Acc>; R] {
        let heads = self.heads::<R>(row);
        // Vectors of a row that starts with a head begin `head` columns later, so the last of them may not fit.
        let whole = if heads == [0; R] { self.cols } else { self.cols.saturating_sub(Self::LANES) };
        let mut totals = [RowSums { g: 0.0, g_xhat: 0.0 }; R];
        let mut written = 0;
        for (start, end) in column_tiles(if has_next { self.cols } else { 0 }) {
            let mut sums = self.zero_sums::<R>();
            let mut c = start;
            let both = end.min(whole);
            while c + Self::LANES <= both {
                self.prefetch_ahead::<R>(row + R, c);
                // SAFETY: `c + LANES <= whole`, so `head + c + LANES <= cols`; the caller vouches for both groups of rows.
                unsafe {
                    self.add_vector(row + R, c, Self::LANES, &mut sums);
                    for r in 0..R {
                        self.write_vector(row + r, heads[r] + c, &projectors[r]);
                    }
                }
                c += Self::LANES;
                written = c;
            }
            // SAFETY: `end <= cols`, in rows that the caller vouches for.
            unsafe { self.add_columns(row + R, c, end, &mut sums) };
            self.fold(&sums, &mut totals);
        }
        for r in 0..R {
            // SAFETY: `head + written <= cols`, in rows that the caller vouches for.
            unsafe { self.write_rest(row + r, heads[r], written, &projectors[r]) };
        }
        if has_next { self.projectors(row + R, totals) } else { projectors }
    }

    /// How many columns of each row come before the first at which a vector can be streamed.
    #[inline(always)]
    fn heads<const R: usize>(&self, row: usize) -> [usize; R] {
        let mut heads = [0; R];
        if STREAM {
            let vector_bytes = Self::LANES * size_of::<T>();
            for (r, head) in heads.iter_mut().enumerate() {
                let misaligned = self.dx.wrapping_add((row + r) * self.cols).addr() % vector_bytes;
                *head = ((vector_bytes - misaligned) % vector_bytes / size_of::<T>()).min(self.cols);
            }
        }
        heads
    }

    /// Prefetches what the first pass will need a little after column `c` of the `R` rows from `row` on, which may belong to
    /// the group after.
    #[inline(always)]
    fn prefetch_ahead<const R: usize>(&self, row: usize, c: usize) {
        let ahead = c + if self.cols >= LONG_COLS { PREFETCH_COLS } else { self.cols };
        let (row, c) = if ahead < self.cols { (row, ahead) } else { (row + R, ahead - self.cols) };
        for r in 0..R {
            self.simd.prefetch(self.dy.wrapping_add((row + r) * self.cols + c));
            self.simd.prefetch(self.x.wrapping_add((row + r) * self.cols + c));
        }
    }

    /// Writes what the common loop left of `row`: its head, and all from column `c` after it.
    ///
    /// # Safety
    /// - See [`Kernel`].
    #[inline(always)]
    unsafe fn write_rest(&self, row: usize, head: usize, c: usize, projector: &Projector<T::Acc>) {
        let mut c = head + c;
        // SAFETY: `c + LANES <= cols` in the loop; a head is shorter than a vector and ends within the row, and so does the
        // tail, which starts at `c` (a row that ends within its head has none).
        unsafe {
            while c + Self::LANES <= self.cols {
                self.write_vector(row, c, projector);
                c += Self::LANES;
            }
            self.write_part(row, 0, head, projector);
            self.write_part(row, c, self.cols - c, projector);
        }
    }

    /// Writes the vector at column `c` of `row`.
    ///
    /// # Safety
    /// - See [`Kernel`]; `c + LANES <= cols`.
    /// - If `STREAM`, the address in `dx` is aligned to a vector.
    #[inline(always)]
    unsafe fn write_vector(&self, row: usize, c: usize, projector: &Projector<T::Acc>) {
        let index = row * self.cols + c;
        // SAFETY: the caller vouches for `LANES` elements in each buffer, and for the alignment.
        unsafe {
            let (dy, x, gamma) = (
                self.simd.load(self.dy.add(index)),
                self.simd.load(self.x.add(index)),
                self.simd.load(self.gamma.add(c)),
            );
            let dx = self.project(dy, x, gamma, projector);
            if STREAM {
                self.simd.stream(self.dx.add(index), dx)
            } else {
                self.simd.store(self.dx.add(index), dx)
            }
        }
    }

    /// Writes columns `c..c + n` of `row`, fewer than a vector holds.
    ///
    /// # Safety
    /// - See [`Kernel`]; `n < LANES` and `c + n <= cols`.
    #[inline(always)]
    unsafe fn write_part(&self, row: usize, c: usize, n: usize, projector: &Projector<T::Acc>) {
        if n == 0 {
            return;
        }
        let index = row * self.cols + c;
        let zero = self.simd.splat(T::Acc::default());
        // SAFETY: the caller vouches for `n` elements in each buffer, and `n < LANES`.
        unsafe {
            let dy = self.simd.load_partial(self.dy.add(index), n, zero);
            let x = self.simd.load_partial(self.x.add(index), n, zero);
            let gamma = self.simd.load_partial(self.gamma.add(c), n, zero);
            self.simd.store_partial(self.dx.add(index), n, self.project(dy, x, gamma, projector));
        }
    }

    #[inline(always)]
    fn project(&self, dy: S::V, x: S::V, gamma: S::V, projector: &Projector<T::Acc>) -> S::V {
        let Projector { mean, rstd, g_mean, slope } = *projector;
        let simd = self.simd;
        let centred = simd.sub(simd.mul(dy, gamma), simd.splat(g_mean));
        let d = simd.sub(x, simd.splat(mean));
        simd.mul(simd.neg_mul_add(d, simd.splat(slope), centred), simd.splat(rstd))
    }
}
