//! One pass over a row: the sum of its exponentials, and the candidates for its `k` largest entries.

use super::Logit;
use super::candidates::Candidates;
use super::cut::{count_above, cut};
use crate::simd::{Compare, EXPONENT_MAX, Exp2, LANES_MAX, LANES_MIN, LogitSimd, RATE_MIN, opaque};

/// `sum * 2^exponent`: the sum of the exponentials of a part of a row.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sum {
    /// An integer.
    pub(super) exponent: f32,
    pub(super) sum: f64,
}

impl Sum {
    /// Of both parts.
    pub(super) fn merge(self, other: Sum) -> Sum {
        let exponent = self.exponent.max(other.exponent);
        let part = |part: Sum| part.sum * (f64::from(part.exponent) - f64::from(exponent)).exp2();
        Sum { exponent, sum: part(self) + part(other) }
    }
}

/// Whether sums of exponents of two at this rate, with these exponents, are what they should be.
pub(super) fn is_summable(rate: f32, exponent: f32) -> bool {
    rate >= RATE_MIN && exponent.abs() <= EXPONENT_MAX
}

/// A row of logits, or a piece of one, and how to read it.
pub(super) struct Row<'a, T> {
    pub(super) logits: &'a [T],
    /// As long as the logits, if there is one.
    pub(super) bias: Option<&'a [f32]>,
    /// The index of the first logit.
    pub(super) offset: usize,
}

impl<T: Logit> Row<'_, T> {
    /// The logit at `i`, with its bias.
    pub(super) fn get(&self, i: usize) -> f32 {
        let logit = self.logits[i].to_f32();
        self.bias.map_or(logit, |bias| logit + bias[i])
    }

    /// The sum of `exp((x - max) / temperature)` over the row, for where the vectors' way of computing it has overflowed, and
    /// for rows that have no softmax. NaN if a logit is NaN or positive infinity.
    #[inline(never)]
    pub(super) fn plain_sum(&self, max: f64, temperature: f64) -> f64 {
        let logits = (0..self.logits.len()).map(|i| f64::from(self.get(i)));
        logits.filter(|&x| x != f64::NEG_INFINITY).map(|x| ((x - max) / temperature).exp()).sum()
    }
}

/// Vectors that are loaded before the first is used, so that their common maximum decides whether the reference of the sum
/// must change.
const BLOCK: usize = 8;

/// How far the reference of the sum is above the largest exponent of two that made it change, so that it seldom changes again.
const HEADROOM: f32 = 4.0;

/// How many terms a lane adds in f32, before the sum moves on to f64.
const LANE_TERMS: usize = 64;

/// Blocks that are scanned before their candidates are looked up, which are still in the first level of cache then.
const TILE_BLOCKS: usize = 32;

/// How many groups a tile has at most: groups have [`GROUP`](LogitSimd::GROUP) vectors, which is 4 at least.
const TILE_GROUPS: usize = TILE_BLOCKS * BLOCK / 4;

/// How many logits a tile has at most.
const TILE_MAX: usize = TILE_BLOCKS * BLOCK * LANES_MAX;

/// How many logits a chunk has at most. A row's sum is that of its chunks, each scanned by itself, on whatever thread.
const CHUNK_MAX: usize = 1 << 15;

/// How many lines the prefetches, into the second level, are ahead of the loads, at least and at most: 12 and 64 KiB.
const LEAD_MIN: usize = 192;
const LEAD_MAX: usize = 1024;

/// How many lines the prefetches into the first level are ahead, for rows that do not begin at a line: each of their loads touches
/// two.
const NEAR: usize = 16;

/// A cache line, in bytes.
const LINE: usize = 64;

const _: () = assert!(CHUNK_MAX.is_multiple_of(TILE_MAX) && LANES_MAX.is_multiple_of(LANES_MIN));

/// `2^exponent` for an integer that is not positive; 0 if that is no normal number. Not the library's: a call in the loop, however seldom
/// made, would cost the constants of the loop their registers.
#[inline(always)]
fn power_of_two(exponent: f32) -> f32 {
    const BIAS: f32 = 127.0;
    f32::from_bits(((exponent + BIAS).max(0.0) as u32) << (f32::MANTISSA_DIGITS - 1))
}

/// Cuts a row of `vocab` logits into equal chunks; returns the length of all but the last, which may be shorter.
pub(super) fn chunk_len(vocab: usize) -> usize {
    vocab.div_ceil(vocab.div_ceil(CHUNK_MAX)).next_multiple_of(BLOCK * LANES_MAX)
}

/// Buffers that one thread uses for row after row.
pub(super) struct Scratch {
    pub(super) candidates: Candidates,
    /// Where the groups of the tile begin that have a candidate; one more is written than counts.
    hits: [u32; TILE_GROUPS + 1],
    /// For each of these groups, which logits are above the threshold.
    above: [u64; TILE_GROUPS],
    /// The largest of each lane, block by block, and two vectors behind them.
    maxima: [f32; TILE_BLOCKS * LANES_MAX + 2 * LANES_MAX],
    /// The larger of some of these.
    folded: [f32; TILE_BLOCKS * LANES_MAX / 2],
    /// How many lines the prefetches are ahead of the loads.
    lead: usize,
    /// Which share of the largest to expect in the first tile, if that is more than its share of the row.
    share_of_first_tile: f64,
    #[cfg(test)]
    pub(super) counts: Counts,
}

/// What the scans of some rows did.
#[cfg(test)]
#[derive(Default)]
pub(super) struct Counts {
    /// Logits above the threshold.
    pub(super) candidates: usize,
    /// Groups that were read once more.
    pub(super) groups: usize,
    /// Logits that were searched once more, for what is above a lower threshold.
    pub(super) searched_again: usize,
}

impl Scratch {
    pub(super) fn new(k: usize) -> Scratch {
        Scratch {
            candidates: Candidates::with_capacity(2 * k + TILE_MAX),
            hits: [0; TILE_GROUPS + 1],
            above: [0; TILE_GROUPS],
            maxima: [0.0; TILE_BLOCKS * LANES_MAX + 2 * LANES_MAX],
            folded: [0.0; TILE_BLOCKS * LANES_MAX / 2],
            lead: LEAD_MIN,
            share_of_first_tile: 0.0,
            #[cfg(test)]
            counts: Counts::default(),
        }
    }
}

/// Fewer values, if there are many times `rank`: the larger of each pair, and again. The `rank` largest are mostly still there.
///
/// # Safety
/// - `len` values can be read at `values`.
#[inline(always)]
unsafe fn fold<S: Compare>(
    simd: S,
    mut values: *const f32,
    mut len: usize,
    rank: usize,
    folded: &mut [f32],
) -> (*const f32, usize) {
    while len.is_multiple_of(4 * S::LANES) && len >= 16 * rank {
        len /= 2;
        for i in (0..len).step_by(S::LANES) {
            // SAFETY: the caller vouches for twice `len` values, or they were written here; half of them fit.
            unsafe {
                let larger = simd.max(simd.load(values.add(i)), simd.load(values.add(len + i)));
                simd.store_acc(folded[i..].as_mut_ptr(), larger);
            }
        }
        values = folded.as_ptr();
    }
    (values, len)
}

/// How many logits of a tile to leave above the threshold, so that some more than `k` of all are, if it has this share of the largest.
///
/// How many of the `k` largest are in the tile is nearly binomially distributed if they are in random order, and rarely more than three
/// deviations from what is expected.
#[inline(always)]
fn guess_rank(k: usize, share: f64) -> usize {
    let expected = k as f64 * share;
    let rank = (expected + 2.5 * (expected * (1.0 - share)).sqrt() + 1.5) as usize;
    rank.min(k)
}

/// How far a scan was when the candidates were last counted, and how many there were.
#[derive(Clone, Copy, Default)]
struct Looked {
    scanned: usize,
    found: usize,
}

/// A row as vectors, with its bias.
#[derive(Clone, Copy)]
struct Vectors<'a, T, S, const BIASED: bool> {
    simd: S,
    logits: &'a [T],
    /// As many as logits if `BIASED`, and none otherwise.
    bias: &'a [f32],
}

impl<T: Logit, S: LogitSimd<T>, const BIASED: bool> Vectors<'_, T, S, BIASED> {
    /// Which logits of the group at `i` are above `threshold`.
    #[inline(always)]
    fn above(&self, i: usize, threshold: S::V) -> u64 {
        let whole = i + S::GROUP * S::LANES <= self.logits.len();
        self.simd.gt_mask_group(
            #[inline(always)]
            |u| {
                let at = i + u * S::LANES;
                // SAFETY: a whole group is in the row.
                if whole { unsafe { self.load(at) } } else { self.load_upto(at) }
            },
            threshold,
        )
    }

    /// # Safety
    /// - `i + LANES` is not behind the end of the row.
    #[inline(always)]
    unsafe fn load(&self, i: usize) -> S::V {
        // SAFETY: the caller vouches for the lanes; a bias is as long as the row.
        unsafe {
            let logits = self.simd.load(self.logits.as_ptr().add(i));
            if BIASED { self.simd.add(logits, self.simd.load(self.bias.as_ptr().add(i))) } else { logits }
        }
    }

    /// As [`load`](Vectors::load), with negative infinity behind the end of the row.
    #[inline(always)]
    fn load_upto(&self, i: usize) -> S::V {
        let simd = self.simd;
        let nothing = simd.splat(f32::NEG_INFINITY);
        let rest = self.logits.len().saturating_sub(i);
        // SAFETY: there are `rest` logits from `i` on, and as many in a bias.
        unsafe {
            match rest {
                0 => nothing,
                _ if rest >= S::LANES => self.load(i),
                _ => {
                    let logits = simd.load_partial(self.logits.as_ptr().add(i), rest, nothing);
                    if BIASED {
                        let zero = simd.splat(0.0);
                        simd.add(logits, simd.load_partial(self.bias.as_ptr().add(i), rest, zero))
                    } else {
                        logits
                    }
                }
            }
        }
    }
}

/// Scans one row.
pub(super) struct Scan<'a, T, S, const BIASED: bool> {
    simd: S,
    row: Vectors<'a, T, S, BIASED>,
    offset: u32,
    /// Exponents of two are logits times this.
    rate: f32,
    k: usize,
    scratch: &'a mut Scratch,
    /// Whether logits have been met that are masked, or NaN.
    masked: bool,
    /// How many entries of the scratch buffers belong to the tile.
    hits: usize,
    blocks: usize,
    /// When there were last too few candidates, or the first tile.
    looked: Looked,
    searched_again: bool,
}

/// The state of the online softmax: logit `x` counts as `2^(x * rate - exponent)`.
///
/// The exponent is an integer, so that changing it rounds nothing, and is not below the largest `x * rate` so far, nor much above.
#[derive(Clone, Copy)]
struct Running<S: Exp2> {
    exponent: f32,
    scaling: S::Scaling,
    /// Logits up to this do not change the exponent.
    limits: S::V,
    /// Only the first [`SUMS`](Compare::SUMS) are in use.
    sums: [S::V; 4],
    total: f64,
}

impl<'a, T: Logit, S: LogitSimd<T>, const BIASED: bool> Scan<'a, T, S, BIASED> {
    pub(super) const GROUP_LEN: usize = S::GROUP * S::LANES;
    const BLOCK_LEN: usize = BLOCK * S::LANES;
    const TILE_LEN: usize = TILE_BLOCKS * Self::BLOCK_LEN;
    /// How many logits are summed in f32.
    const PART_LEN: usize = LANE_TERMS * S::SUMS * S::LANES;
    /// A tile in which more groups than this have a candidate may be one of a row that rises.
    const DENSE: usize = TILE_BLOCKS * (BLOCK / S::GROUP) * 3 / 4;

    #[inline(always)]
    pub(super) fn new(simd: S, row: Row<'a, T>, rate: f32, k: usize, scratch: &'a mut Scratch) -> Self {
        let bias = row.bias.unwrap_or_default();
        assert!(bias.len() == if BIASED { row.logits.len() } else { 0 });
        let offset = row.offset as u32;
        let row = Vectors { simd, logits: row.logits, bias };
        Scan {
            simd,
            row,
            offset,
            rate,
            k,
            scratch,
            masked: false,
            hits: 0,
            blocks: 0,
            looked: Looked::default(),
            searched_again: false,
        }
    }

    /// The sum of the row's exponentials. Afterwards the `k` largest entries are among the candidates, except for entries of
    /// negative infinity.
    #[inline(always)]
    pub(super) fn run(&mut self) -> Sum {
        let len = self.row.logits.len();
        let chunk_len = chunk_len(len);
        self.scratch.candidates.clear();
        let mut sum = Sum { exponent: -EXPONENT_MAX, sum: 0.0 };
        for start in (0..len).step_by(chunk_len) {
            self.scratch.candidates.prune(self.simd, self.k, self.k);
            sum = sum.merge(self.chunk(start, len.min(start + chunk_len)));
        }
        if self.scratch.candidates.len() < self.k && self.has_threshold() {
            self.scratch.candidates.clear();
            self.search_again(len);
        }
        if self.searched_again || self.scratch.share_of_first_tile > 0.0 {
            self.note_share_of_first_tile();
        }
        sum
    }

    /// Notes which share of the candidates is in the first tile. If the row was searched again, what was noted before is of no use;
    /// otherwise the mean of both is noted, and nothing once it is what a row in random order would have.
    fn note_share_of_first_tile(&mut self) {
        let again = self.searched_again;
        self.scratch.candidates.prune(self.simd, self.k, if again { 0 } else { self.k });
        let (_, indices) = self.scratch.candidates.entries();
        // Where fewer logits are finite, nothing follows from where they are.
        if indices.len() < self.k {
            return;
        }
        let first = indices.partition_point(|&i| i - self.offset < Self::TILE_LEN as u32);
        let share = first as f64 / indices.len() as f64;
        let noted = &mut self.scratch.share_of_first_tile;
        *noted = if again { share } else { 0.5 * (*noted + share) };
        if *noted * self.row.logits.len() as f64 <= Self::TILE_LEN as f64 {
            *noted = 0.0;
        }
    }

    /// Makes candidates of all logits before `end` that are above the threshold; there are none so far.
    #[inline(never)]
    fn search_again(&mut self, end: usize) {
        #[cfg(test)]
        {
            self.scratch.counts.searched_again += end;
        }
        self.searched_again = true;
        let (simd, row) = (self.simd, self.row);
        for tile in (0..end).step_by(Self::TILE_LEN) {
            self.hits = 0;
            for i in (tile..end.min(tile + Self::TILE_LEN)).step_by(Self::GROUP_LEN) {
                self.scratch.hits[self.hits] = i as u32;
                self.hits += 1;
            }
            let threshold = self.scratch.candidates.threshold();
            let dense = simd.call(
                #[inline(always)]
                || 2 * row.above(tile, simd.splat(threshold)).count_ones() as usize > Self::GROUP_LEN,
            );
            if dense {
                self.visit_many();
            } else {
                simd.call(
                    #[inline(always)]
                    || self.visit_few(end),
                );
            }
        }
    }

    /// Lowers the threshold if there will be too few candidates at the end of the row, should they go on coming as they did since this was
    /// last asked, and makes candidates of what was missed before `tile_end`. The lower threshold is a guess by the tile before that.
    #[inline(never)]
    fn keep_pace(&mut self, tile: usize, tile_end: usize) {
        let (found, last) = (self.scratch.candidates.len(), self.looked);
        self.looked = Looked { scanned: tile_end, found };
        let (new, lacking) = ((found - last.found) as f64, self.k - found);
        // Two deviations more, so that little is searched again in vain.
        let rate = (new + 2.0 * new.sqrt() + 1.0) / (tile_end - last.scanned) as f64;
        let len = self.row.logits.len();
        if rate * (len - tile_end) as f64 >= lacking as f64 {
            return;
        }
        let threshold =
            self.threshold_above(guess_rank(lacking, (tile_end - tile) as f64 / (len - tile) as f64));
        if threshold >= self.scratch.candidates.threshold() {
            return;
        }
        self.scratch.candidates.clear();
        self.scratch.candidates.raise_threshold(threshold);
        self.search_again(tile_end);
        self.looked.found = self.scratch.candidates.len();
    }

    /// Whether fewer candidates than their share of `k` were found so far, with a threshold. After it was so, not before twice as much has
    /// been scanned, and not at the end.
    #[inline(always)]
    fn is_behind(&self, scanned: usize) -> bool {
        let (found, len) = (self.scratch.candidates.len(), self.row.logits.len());
        let product = |a: usize, b: usize| a as u64 * b as u64;
        product(found, len) < product(self.k, scanned)
            && scanned < len
            && scanned >= 2 * self.looked.scanned
            && self.has_threshold()
    }

    /// Whether candidates were made of some of the finite logits only.
    #[inline(always)]
    fn has_threshold(&self) -> bool {
        self.scratch.candidates.threshold() > f32::NEG_INFINITY
    }

    #[inline(always)]
    fn chunk(&mut self, start: usize, end: usize) -> Sum {
        let simd = self.simd;
        let zero = simd.splat(0.0);
        let (exponent, scaling) = (-EXPONENT_MAX, simd.scaling(self.rate, -EXPONENT_MAX));
        // Finite, so that masked logits do not change the exponent.
        let limits = simd.splat(f32::MIN);
        let mut running = Running { exponent, scaling, limits, sums: [zero; 4], total: 0.0 };
        for tile in (start..end).step_by(Self::TILE_LEN) {
            let tile_end = end.min(tile + Self::TILE_LEN);
            (self.hits, self.blocks) = (0, 0);
            let first = tile == 0;
            let threshold = if first { f32::INFINITY } else { self.scratch.candidates.threshold() };
            self.tile(tile, tile_end, &mut running, threshold);
            if first {
                let share = tile_end as f64 / self.row.logits.len() as f64;
                self.raise_threshold(guess_rank(self.k, share.max(self.scratch.share_of_first_tile)));
                self.list_hits();
            }
            #[cfg(test)]
            let before = {
                self.scratch.counts.groups += self.hits;
                self.scratch.candidates.len()
            };
            if self.hits > Self::DENSE && self.most_lanes_above() {
                self.raise_threshold(self.k);
                self.visit_many();
            } else {
                self.visit_few(tile_end);
            }
            #[cfg(test)]
            {
                self.scratch.counts.candidates += self.scratch.candidates.len().saturating_sub(before);
            }
            if first {
                self.looked = Looked { scanned: tile_end, found: self.scratch.candidates.len() };
            } else if self.is_behind(tile_end) {
                self.keep_pace(tile, tile_end);
            }
        }
        Sum { exponent: running.exponent, sum: running.total / S::SCALE }
    }

    /// Adds logits `start..end` to the sum, and lists the groups that have one above the threshold.
    #[inline(always)]
    fn tile(&mut self, start: usize, end: usize, running: &mut Running<S>, threshold: f32) {
        if Self::PART_LEN == Self::TILE_LEN {
            return self.part(start, end, running, threshold);
        }
        for part in (start..end).step_by(Self::PART_LEN) {
            self.part(part, end.min(part + Self::PART_LEN), running, threshold);
        }
    }

    /// As [`tile`](Scan::tile), for no more than can be summed in f32.
    #[inline(always)]
    fn part(&mut self, start: usize, end: usize, running: &mut Running<S>, threshold: f32) {
        if S::MASKS && !self.masked {
            let before = (*running, self.hits, self.blocks);
            self.add_part::<false>(start, end, running, threshold);
            if !running.total.is_nan() {
                return;
            }
            (*running, self.hits, self.blocks) = before;
            self.masked = true;
        }
        self.add_part::<true>(start, end, running, threshold);
    }

    /// As [`part`](Scan::part); the sum may be NaN if a logit is masked and `MASKED` is not set.
    #[inline(always)]
    fn add_part<const MASKED: bool>(
        &mut self,
        start: usize,
        end: usize,
        running: &mut Running<S>,
        threshold: f32,
    ) {
        let simd = self.simd;
        let threshold = simd.splat(threshold);
        let whole = start + (end - start) / Self::BLOCK_LEN * Self::BLOCK_LEN;
        // SAFETY: these blocks are whole, and in the row.
        let mut at = unsafe { self.add_blocks::<MASKED>(start, whole, false, running, threshold) };
        while at < whole {
            // SAFETY: as above.
            at = unsafe {
                let (_, largest) = self.maxima(self.block(at));
                self.raise_exponent(largest, running);
                self.add_blocks::<MASKED>(at, whole, true, running, threshold)
            };
        }
        if whole < end {
            let mut v = [threshold; BLOCK];
            for (u, v) in v.iter_mut().enumerate() {
                *v = self.row.load_upto(whole + u * S::LANES);
            }
            let (halves, largest) = self.maxima(v);
            if simd.gt_mask(largest, running.limits) != 0 {
                self.raise_exponent(largest, running);
            }
            self.list(whole, halves, largest, threshold);
            // Behind the end of the row all is masked.
            self.add::<true>(v, running);
        }
        let [a, b, c, d] = running.sums;
        running.total += f64::from(simd.reduce_add(simd.add(simd.add(a, b), simd.add(c, d))));
        running.sums = [simd.splat(0.0); 4];
    }

    /// Adds blocks from `start` on, up to `end` or the first for which the exponent must be raised; returns where that is. If it was
    /// `raised` for the first, that one is added whatever it holds: a NaN or a rounding may leave the exponent below.
    ///
    /// A loop that raises the exponent would have the compiler keep some of its constants in memory.
    ///
    /// # Safety
    /// - From `start` to `end` there are whole blocks, and all of them are in the row.
    #[inline(always)]
    unsafe fn add_blocks<const MASKED: bool>(
        &mut self,
        start: usize,
        end: usize,
        raised: bool,
        running: &mut Running<S>,
        threshold: S::V,
    ) -> usize {
        let simd = self.simd;
        let mut lead = self.scratch.lead;
        let mut i = start;
        while i < end {
            // SAFETY: the caller vouches for the block.
            let v = unsafe { self.block(i) };
            let (halves, largest) = self.maxima(v);
            if simd.gt_mask(largest, running.limits) != 0 && (i > start || !raised) {
                break;
            }
            let here = self.row.logits.as_ptr().wrapping_add(i);
            for line in 0..Self::BLOCK_LEN * size_of::<T>() / LINE {
                simd.prefetch(here.wrapping_byte_add((lead + line) * LINE));
            }
            if !here.addr().is_multiple_of(LINE) {
                for line in 0..Self::BLOCK_LEN * size_of::<T>() / LINE {
                    simd.prefetch_near(here.wrapping_byte_add((NEAR + line) * LINE));
                }
            }
            lead -= usize::from(lead > LEAD_MIN);
            self.list(i, halves, largest, threshold);
            if S::MANY_REGISTERS {
                self.add::<MASKED>(v, running);
            } else {
                let i = opaque(i);
                for u in 0..BLOCK {
                    // SAFETY: as above.
                    let v = unsafe { self.row.load(i + u * S::LANES) };
                    let sum = &mut running.sums[u % S::SUMS];
                    *sum = simd.add_exp2_scaled::<MASKED>(*sum, v, running.scaling);
                }
            }
            i += Self::BLOCK_LEN;
        }
        self.scratch.lead = lead;
        i
    }

    /// The vectors of the block at `i`.
    ///
    /// # Safety
    /// - All of it is in the row.
    #[inline(always)]
    unsafe fn block(&self, i: usize) -> [S::V; BLOCK] {
        let mut v = [self.simd.splat(0.0); BLOCK];
        for (u, v) in v.iter_mut().enumerate() {
            // SAFETY: the caller vouches for the block.
            *v = unsafe { self.row.load(i + u * S::LANES) };
        }
        v
    }

    /// The largest of each lane, of both halves of a block and of all of it.
    #[inline(always)]
    fn maxima(&self, v: [S::V; BLOCK]) -> ([S::V; 2], S::V) {
        let simd = self.simd;
        let halves = [simd.max4([v[0], v[1], v[2], v[3]]), simd.max4([v[4], v[5], v[6], v[7]])];
        (halves, simd.max(halves[0], halves[1]))
    }

    /// Adds a block to the sums.
    #[inline(always)]
    fn add<const MASKED: bool>(&self, v: [S::V; BLOCK], running: &mut Running<S>) {
        for (u, v) in v.into_iter().enumerate() {
            let sum = &mut running.sums[u % S::SUMS];
            *sum = self.simd.add_exp2_scaled::<MASKED>(*sum, v, running.scaling);
        }
    }

    /// Lists the groups of the block at `i` that have a logit above the threshold, and keeps its maxima.
    #[inline(always)]
    fn list(&mut self, i: usize, halves: [S::V; 2], largest: S::V, threshold: S::V) {
        let simd = self.simd;
        let groups = BLOCK / S::GROUP;
        for (g, half) in halves.into_iter().enumerate().take(groups) {
            let group = if groups == 1 { largest } else { half };
            // SAFETY: a tile has no more groups than there is room for, and `hits` counts some of those before this one.
            unsafe { *self.scratch.hits.get_unchecked_mut(self.hits) = (i + g * Self::GROUP_LEN) as u32 };
            self.hits += usize::from(simd.gt_mask(group, threshold) != 0);
        }
        // SAFETY: a tile has no more blocks than there is room for.
        unsafe { simd.store_acc(self.scratch.maxima.as_mut_ptr().add(self.blocks * S::LANES), largest) };
        self.blocks += 1;
    }

    /// Raises the exponent to suit the maxima of a block.
    #[inline(always)]
    fn raise_exponent(&self, largest: S::V, running: &mut Running<S>) {
        let simd = self.simd;
        let exponent = (simd.reduce_max(largest) * self.rate).ceil() + HEADROOM;
        let factor = power_of_two(running.exponent - exponent);
        for sum in &mut running.sums[..S::SUMS] {
            *sum = simd.mul(*sum, simd.splat(factor));
        }
        running.total *= f64::from(factor);
        running.exponent = exponent;
        running.scaling = simd.scaling(self.rate, exponent);
        running.limits = simd.splat(exponent / self.rate);
    }

    /// Raises the threshold so that `rank` logits of the tile are above it, going by the maxima of lanes.
    #[inline(always)]
    fn raise_threshold(&mut self, rank: usize) {
        let threshold = self.threshold_above(rank);
        self.scratch.candidates.raise_threshold(threshold);
    }

    /// The threshold that `rank` logits of the tile are above, going by the maxima of lanes; negative infinity if they say nothing.
    /// If there is a NaN among them, any will do.
    #[inline(always)]
    fn threshold_above(&mut self, rank: usize) -> f32 {
        let len = self.pad_maxima();
        if rank > len {
            return f32::NEG_INFINITY;
        }
        let simd = self.simd;
        let (maxima, folded) = (self.scratch.maxima.as_ptr(), &mut self.scratch.folded);
        let cut = simd.call(
            #[inline(always)]
            // SAFETY: filled up to two vectors behind `len`, and `rank` is not zero.
            || unsafe {
                let (values, len) = fold(simd, maxima, len, rank, folded);
                cut(simd, values, len, rank, rank / 16, f32::NEG_INFINITY)
            },
        );
        if cut.above >= rank { cut.threshold } else { cut.threshold.next_down() }
    }

    /// Whether more than half of the maxima of lanes are above the threshold, which they are not in a row in random order.
    #[inline(always)]
    fn most_lanes_above(&mut self) -> bool {
        let (simd, len) = (self.simd, self.pad_maxima());
        let (maxima, threshold) = (self.scratch.maxima.as_ptr(), self.scratch.candidates.threshold());
        // SAFETY: filled up to two vectors behind the maxima.
        let above = unsafe { count_above(simd, maxima, len.next_multiple_of(2 * S::LANES), threshold) };
        2 * above > len
    }

    /// Fills two vectors behind the maxima of lanes, and says how many there are.
    #[inline(always)]
    fn pad_maxima(&mut self) -> usize {
        let len = self.blocks * S::LANES;
        self.scratch.maxima[len..len + 2 * S::LANES].fill(f32::NEG_INFINITY);
        len
    }

    /// Lists the groups of blocks that have a lane above the threshold.
    #[inline(always)]
    fn list_hits(&mut self) {
        let threshold = self.simd.splat(self.scratch.candidates.threshold());
        for block in 0..self.blocks {
            // SAFETY: so many vectors of maxima have been written.
            let maxima = unsafe { self.simd.load(self.scratch.maxima.as_ptr().add(block * S::LANES)) };
            let hit = self.simd.gt_mask(maxima, threshold) != 0;
            for group in 0..BLOCK / S::GROUP {
                let i = block * Self::BLOCK_LEN + group * Self::GROUP_LEN;
                self.scratch.hits[self.hits] = i as u32;
                self.hits += usize::from(hit && i < self.row.logits.len());
            }
        }
    }

    /// Makes candidates of what is above the threshold in the groups listed, all before `tile_end`, if they are few.
    #[inline(always)]
    fn visit_few(&mut self, tile_end: usize) {
        self.make_room();
        let (simd, row) = (self.simd, self.row);
        let threshold = simd.splat(self.scratch.candidates.threshold());
        // First all comparisons, then all that depends on how they came out, as that may be mispredicted.
        let mut lead = self.scratch.lead;
        let hits = self.hits.min(TILE_GROUPS);
        for hit in 0..hits {
            lead = self.prefetch_some(tile_end, lead);
            let start = self.scratch.hits[hit];
            self.scratch.above[hit] = row.above(start as usize, threshold);
            self.scratch.hits[hit] = self.offset + start;
        }
        self.scratch.lead = lead;
        let (starts, masks) = (&self.scratch.hits[..hits], &self.scratch.above[..hits]);
        let offset = self.offset as usize;
        let (logits, bias) =
            (self.row.logits.as_ptr().wrapping_sub(offset), self.row.bias.as_ptr().wrapping_sub(offset));
        // SAFETY: there is room for a whole tile. Groups begin in the row, and what is behind the end of the row is not above; a bias is
        // as long.
        unsafe {
            self.scratch.candidates.push(
                simd,
                starts,
                masks,
                #[inline(always)]
                |i| {
                    let logit = (*logits.wrapping_add(i as usize)).to_f32();
                    if BIASED { logit + *bias.wrapping_add(i as usize) } else { logit }
                },
            )
        };
    }

    /// For tiles full of candidates, as in rows that rise: those of some groups may rule out those of the others.
    fn visit_many(&mut self) {
        let simd = self.simd;
        simd.call(
            #[inline(always)]
            || self.visit_in_order(simd),
        );
    }

    #[inline(always)]
    fn visit_in_order(&mut self, simd: S) {
        const SOME: usize = 8;
        for (hit, group) in (0..self.hits).zip((0..SOME).cycle()) {
            if group == 0 {
                self.make_room();
            }
            let threshold = simd.splat(self.scratch.candidates.threshold());
            for u in 0..S::GROUP {
                let i = self.scratch.hits[hit] as usize + u * S::LANES;
                let v = self.row.load_upto(i);
                let above = simd.gt_mask(v, threshold);
                // In order, candidates come all at once or not at all.
                if above != 0 {
                    // SAFETY: there is room for a whole tile; what is behind the end of the row is not above.
                    unsafe { self.scratch.candidates.push_vector(simd, self.offset + i as u32, above, v) };
                }
            }
        }
    }

    /// Makes room for a tile.
    #[inline(always)]
    fn make_room(&mut self) {
        if self.scratch.candidates.room() < TILE_MAX {
            self.scratch.candidates.prune(self.simd, self.k, self.k / 4);
        }
    }

    /// Prefetches some lines more than the loads up to `i` have asked for, without a branch: from one lead to the next.
    #[inline(always)]
    fn prefetch_some(&self, i: usize, lead: usize) -> usize {
        const SOME: usize = 2;
        let ahead = self.row.logits.as_ptr().wrapping_add(i).wrapping_byte_add(lead * LINE);
        for line in 0..SOME {
            self.simd.prefetch(ahead.wrapping_byte_add(line * LINE));
        }
        LEAD_MAX.min(lead + SOME)
    }
}
