//! What is asked of memory while something else is summed.

use super::tile::{LINE, TILES_MAX};
use crate::simd::Caches;

/// The lines of the tiles that come next, asked for in pairs all through a step: where nothing is asked for, memory soon has
/// nothing to do, and that time is lost.
///
/// Where the CPU follows [two streams](Caches::two_streams), a pair is a line of each half of the tiles. Elsewhere it is two
/// lines that are next to each other, and all of them are asked for in the order of their addresses.
pub(super) struct Ahead {
    /// Where stretches of memory begin, for both of a pair. In this array, the last so many.
    stretches: [[*const u8; 2]; TILES_MAX],
    /// The number of the stretch that comes next.
    stretch: usize,
    /// How many pairs a stretch has.
    stretch_pairs: usize,
    /// From a line to the one that is asked for after it.
    stride: usize,
    next: [*const u8; 2],
    /// How many pairs are left of the stretch that `next` is in.
    left: usize,
}

impl Ahead {
    /// For `tiles` of two planes each, 0, 1, 2 or 4 of them.
    #[inline(always)]
    pub(super) fn new<S: Caches>(simd: S, tiles: &[*const u8], plane_bytes: usize) -> Ahead {
        let nowhere = [std::ptr::null(); 2];
        let mut ahead = Ahead {
            stretches: [nowhere; TILES_MAX],
            stretch: TILES_MAX - tiles.len(),
            stretch_pairs: plane_bytes / LINE,
            stride: LINE,
            next: nowhere,
            left: 0,
        };
        if !simd.two_streams() {
            ahead.stride = 2 * LINE;
            for (stretch, &tile) in ahead.stretches[ahead.stretch..].iter_mut().zip(tiles) {
                *stretch = [tile, tile.wrapping_add(LINE)];
            }
        } else if let &[tile] = tiles {
            ahead.stretches[ahead.stretch] = [tile, tile.wrapping_add(plane_bytes)];
        } else {
            let (first, second) = tiles.split_at(tiles.len() / 2);
            ahead.stretch = TILES_MAX - first.len();
            ahead.stretch_pairs *= 2;
            for (stretch, (&first, &second)) in
                ahead.stretches[ahead.stretch..].iter_mut().zip(first.iter().zip(second))
            {
                *stretch = [first, second];
            }
        }
        ahead
    }

    /// Asks for as many pairs, or for those that are left.
    #[inline(always)]
    pub(super) fn prefetch<S: Caches>(&mut self, simd: S, pairs: usize) {
        for _ in 0..pairs {
            if self.left == 0 && !self.turn() {
                return;
            }
            self.left -= 1;
            for next in &mut self.next {
                simd.prefetch(*next);
                *next = next.wrapping_add(self.stride);
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

    /// What is asked for of tiles of six lines, by reading sixteen and by what is left.
    fn asked(tiles: &[usize], two_streams: bool) -> (Vec<usize>, Vec<usize>) {
        let asked = RefCell::new(Vec::new());
        let simd = Written { asked: &asked, two_streams };
        let tiles: Vec<*const u8> =
            tiles.iter().map(|&line| std::ptr::without_provenance(line * LINE)).collect();
        let mut ahead = Ahead::new(simd, &tiles, 3 * LINE);
        for line in 0..16 {
            ahead.keep_up(simd, 3, line * LINE);
        }
        let kept_up = asked.take();
        ahead.finish(simd);
        ahead.prefetch(simd, 1);
        let lines = |asked: Vec<usize>| asked.into_iter().map(|address| address / LINE).collect();
        (lines(kept_up), lines(asked.take()))
    }

    #[test]
    fn one_stream_is_in_the_order_of_addresses() {
        let (kept_up, rest) = asked(&[10, 20, 50, 30], false);
        assert_eq!(kept_up, [10, 11, 12, 13, 14, 15, 20, 21, 22, 23, 24, 25]);
        assert_eq!(rest, [50, 51, 52, 53, 54, 55, 30, 31, 32, 33, 34, 35]);
    }

    #[test]
    fn two_streams_take_turns() {
        let (kept_up, rest) = asked(&[10, 20, 50, 30], true);
        assert_eq!(kept_up, [10, 50, 11, 51, 12, 52, 13, 53, 14, 54, 15, 55]);
        assert_eq!(rest, [20, 30, 21, 31, 22, 32, 23, 33, 24, 34, 25, 35]);
        // The keys and the values of one tile, and of no tile nothing.
        assert_eq!(asked(&[10], true), (vec![10, 13, 11, 14, 12, 15], vec![]));
        assert_eq!(asked(&[], true), (vec![], vec![]));
    }
}
