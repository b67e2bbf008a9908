//! In which order numbers come by their size.

use super::Features;

/// The result of [`Rank::rank_falling`], and a buffer for it.
#[derive(Default)]
pub(crate) struct Ranking {
    /// Where the largest number stands, then the next, and so on.
    pub(crate) places: Vec<u32>,
    keys: Vec<u64>,
}

/// Ranks numbers.
pub(crate) trait Rank: Features {
    /// How many take as long as `len` do; not fewer than these.
    fn room(len: usize) -> usize {
        len
    }

    /// Finds the places of all numbers in falling order; of equal ones the first comes first.
    fn rank_falling(self, numbers: &[u32], ranking: &mut Ranking) {
        ranking.rank_plainly(numbers);
    }
}

impl Ranking {
    /// By sorting keys, each a number before its inverted place.
    pub(super) fn rank_plainly(&mut self, numbers: &[u32]) {
        self.keys.clear();
        self.keys
            .extend(numbers.iter().zip(0_u32..).map(|(&number, i)| u64::from(number) << 32 | u64::from(!i)));
        self.keys.sort_unstable_by(|a, b| b.cmp(a));
        self.places.clear();
        self.places.extend(self.keys.iter().map(|&key| !(key as u32)));
    }

    /// Makes an order right that nearly is. Of equal numbers the first comes first already.
    #[cfg(target_arch = "x86_64")]
    pub(super) fn settle(&mut self, numbers: &[u32]) {
        let number = |place: u32| numbers[place as usize];
        // Insertion takes a step for each pair in the wrong order.
        let mut steps = 8 * numbers.len();
        for i in 1..self.places.len() {
            let mut j = i;
            while j > 0 && number(self.places[j - 1]) < number(self.places[j]) {
                if steps == 0 {
                    return self.rank_plainly(numbers);
                }
                self.places.swap(j - 1, j);
                (j, steps) = (j - 1, steps - 1);
            }
        }
    }
}
