//! What is asked of memory while something else is summed.

use super::step::{LINE, Place, STRIPS_MAX};
use crate::simd::Caches;

/// The lines of the strips that come next, asked for in pairs all through a step: where nothing is asked for, memory soon has
/// nothing to do, and that time is lost.
///
/// Where the CPU follows [two streams](Caches::two_streams), a pair is a line of keys and one of values, or, of a tile whose
/// [keys come first](Ahead::tile), one of either half of its keys, and then of its values. Elsewhere it is two lines that are next to
/// each other, and all of them are asked for in the order of their addresses.
pub(super) struct Ahead {
    /// Where stretches of memory begin, for both of a pair. In this array, the last so many.
    stretches: [[*const u8; 2]; 2 * STRIPS_MAX],
    /// The number of the stretch that comes next.
    stretch: usize,
    /// How many pairs a stretch has.
    stretch_pairs: usize,
    next: [*const u8; 2],
    /// How many pairs are left of the stretch that `next` is in.
    left: usize,
}

/// What a CPU follows a stream in.
const PAGE: usize = 4096;

impl Ahead {
    /// For nothing.
    #[inline(always)]
    pub(super) fn nothing() -> Ahead {
        let nowhere = [std::ptr::null(); 2];
        let stretches = [nowhere; 2 * STRIPS_MAX];
        Ahead { stretches, stretch: 2 * STRIPS_MAX, stretch_pairs: 0, next: nowhere, left: 0 }
    }

    /// For strips of keys and values of `plane_bytes` each. Of the values of a tile, each of its strips asks for as large a share, of what lies
    /// in line.
    #[inline(always)]
    pub(super) fn strips<S: Caches>(simd: S, strips: &[Place], plane_bytes: usize) -> Ahead {
        let mut ahead = Ahead::nothing();
        let values = |strip: &Place| strip.values.wrapping_add(strip.number * plane_bytes);
        if simd.two_streams() {
            ahead.stretch_pairs = plane_bytes / LINE;
            ahead.stretch -= strips.len();
            for (stretch, strip) in ahead.stretches[ahead.stretch..].iter_mut().zip(strips) {
                *stretch = [strip.keys, values(strip)];
            }
        } else {
            ahead.stretch_pairs = plane_bytes / (2 * LINE);
            ahead.stretch -= 2 * strips.len();
            let starts = strips.iter().map(|strip| strip.keys).chain(strips.iter().map(values));
            for (stretch, start) in ahead.stretches[ahead.stretch..].iter_mut().zip(starts) {
                *stretch = [start, start.wrapping_add(LINE)];
            }
        }
        ahead
    }

    /// For a tile, whose keys are `plane_bytes`, as are its values, right behind them.
    ///
    /// Keys are needed sooner than values, and `keys_first` asks for them so if either half has a page of its own. Keys and values
    /// in turn are better for what is computed so fast that it waits for neither.
    #[inline(always)]
    pub(super) fn tile<S: Caches>(simd: S, keys: *const u8, plane_bytes: usize, keys_first: bool) -> Ahead {
        let mut ahead = Ahead::nothing();
        let values = keys.wrapping_add(plane_bytes);
        if simd.two_streams() && keys_first && plane_bytes >= 2 * PAGE {
            let half = plane_bytes / 2;
            ahead.next = [keys, keys.wrapping_add(half)];
            ahead.stretches[2 * STRIPS_MAX - 1] = [values, values.wrapping_add(half)];
            ahead.stretch -= 1;
            ahead.stretch_pairs = half / LINE;
            ahead.left = half / LINE;
        } else {
            ahead.next = [keys, if simd.two_streams() { values } else { keys.wrapping_add(LINE) }];
            ahead.left = plane_bytes / LINE;
        }
        ahead
    }

    /// Asks for as many pairs, or for those that are left.
    #[inline(always)]
    pub(super) fn prefetch<S: Caches>(&mut self, simd: S, pairs: usize) {
        let stride = if simd.two_streams() { LINE } else { 2 * LINE };
        for _ in 0..pairs {
            if self.left == 0 && !self.turn() {
                return;
            }
            self.left -= 1;
            for next in &mut self.next {
                simd.prefetch(*next);
                *next = next.wrapping_add(stride);
            }
        }
    }

    /// Goes on with the next stretch, if there is one.
    #[inline(always)]
    fn turn(&mut self) -> bool {
        let Some(&stretch) = self.stretches.get(self.stretch) else { return false };
        self.next = stretch;
        self.left = self.stretch_pairs;
        self.stretch += 1;
        true
    }

    /// Asks for as many pairs with every eighth line that is read, when `read` bytes have been. Asked for one by one they would
    /// cost more than evenness gains.
    #[inline(always)]
    pub(super) fn keep_up<S: Caches>(&mut self, simd: S, pairs: usize, read: usize) {
        if read.is_multiple_of(8 * LINE) {
            self.prefetch(simd, pairs);
        }
    }

    /// Asks for all that is left.
    pub(super) fn finish<S: Caches>(&mut self, simd: S) {
        while self.left > 0 || self.turn() {
            self.prefetch(simd, self.left);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    /// Writes down what is asked for.
    #[derive(Clone, Copy)]
    struct Written<'a> {
        asked: &'a RefCell<Vec<usize>>,
        two_streams: bool,
    }

    impl Caches for Written<'_> {
        fn fence(self) {}
        fn prefetch<T>(self, p: *const T) {
            self.asked.borrow_mut().push(p.addr());
        }
        fn two_streams(self) -> bool {
            self.two_streams
        }
    }

    /// What is asked for by reading sixteen lines, and what is left then.
    fn asked(two_streams: bool, ahead: impl FnOnce(Written<'_>) -> Ahead) -> (Vec<usize>, Vec<usize>) {
        let asked = RefCell::new(Vec::new());
        let simd = Written { asked: &asked, two_streams };
        let mut ahead = ahead(simd);
        for line in 0..16 {
            ahead.keep_up(simd, 3, line * LINE);
        }
        let kept_up = asked.take();
        ahead.finish(simd);
        ahead.prefetch(simd, 1);
        let lines = |asked: Vec<usize>| asked.into_iter().map(|address| address / LINE).collect();
        (lines(kept_up), lines(asked.take()))
    }

    /// The same of strips of four lines of keys and four of values.
    fn asked_of(strips: &[Place], two_streams: bool) -> (Vec<usize>, Vec<usize>) {
        asked(two_streams, |simd| Ahead::strips(simd, strips, 4 * LINE))
    }

    /// A strip whose keys begin at one line, and the values of its tile at another.
    fn strip(keys: usize, values: usize, of: usize, number: usize) -> Place {
        let [keys, values] = [keys, values].map(|line| std::ptr::without_provenance(line * LINE));
        Place { keys, values, of, number }
    }

    #[test]
    fn one_stream_is_in_the_order_of_addresses() {
        // A tile of two strips.
        let (kept_up, rest) = asked_of(&[strip(10, 18, 2, 0), strip(14, 18, 2, 1)], false);
        assert_eq!(kept_up, [10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21]);
        assert_eq!(rest, [22, 23, 24, 25]);
        // Tiles in two places.
        let (kept_up, rest) = asked_of(&[strip(50, 54, 1, 0), strip(30, 34, 1, 0)], false);
        assert_eq!(kept_up, [50, 51, 52, 53, 30, 31, 32, 33, 54, 55, 56, 57]);
        assert_eq!(rest, [34, 35, 36, 37]);
    }

    #[test]
    fn two_streams_take_turns() {
        let (kept_up, rest) = asked_of(&[strip(10, 18, 2, 0), strip(14, 18, 2, 1)], true);
        assert_eq!(kept_up, [10, 18, 11, 19, 12, 20, 13, 21, 14, 22, 15, 23]);
        assert_eq!(rest, [16, 24, 17, 25]);
    }

    #[test]
    fn a_tile_is_its_keys_and_then_its_values() {
        let tile = |two_streams, lines: usize, keys_first| {
            let keys = std::ptr::without_provenance(1000 * LINE);
            let (kept_up, rest) =
                asked(two_streams, |simd| Ahead::tile(simd, keys, lines * LINE, keys_first));
            [kept_up, rest].concat()
        };
        let one_after_the_other: Vec<usize> = (1000..1256).collect();
        let in_turn = |starts: [usize; 2], count: usize| -> Vec<usize> {
            (0..count).flat_map(|i| starts.map(|start| start + i)).collect()
        };
        assert_eq!(tile(false, 128, true), one_after_the_other);
        assert_eq!(tile(true, 128, false), in_turn([1000, 1128], 128));
        let (keys, values) = (in_turn([1000, 1064], 64), in_turn([1128, 1192], 64));
        assert_eq!(tile(true, 128, true), [keys, values].concat());
        // Half of the keys is less than a page.
        assert_eq!(tile(true, 126, true), in_turn([1000, 1126], 126));
    }

    #[test]
    fn of_no_strips_nothing_is_asked_for() {
        assert_eq!(asked_of(&[], true), (vec![], vec![]));
        assert_eq!(asked_of(&[], false), (vec![], vec![]));
    }
}
