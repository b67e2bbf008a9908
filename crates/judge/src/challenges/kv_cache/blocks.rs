//! Which blocks sequences have, some of them in common, and how many caches may need for that.

use std::collections::HashSet;
use std::ops::Range;

/// Whether so many new tokens have room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Room {
    Suffices,
    Lacks,
    /// A cache that shares what can be shared has room, and one may refuse that copies the last block of a fork at once, or keeps
    /// one for every copy that might come.
    Depends,
}

/// The blocks of all sequences, with as few as can be: what sequences have in common stands once, until one of them writes there.
#[derive(Debug, Clone)]
pub(super) struct Blocks {
    size: usize,
    /// The blocks of each sequence, by numbers that never come again.
    tables: Vec<Vec<usize>>,
    handed_out: usize,
    /// Blocks that stay in use for ever, for a flaw.
    kept: Vec<usize>,
}

impl Blocks {
    pub(super) fn new(size: usize, batch: usize) -> Self {
        Self { size, tables: vec![Vec::new(); batch], handed_out: 0, kept: Vec::new() }
    }

    /// Tokens are written there. How many blocks of others had to be copied for that.
    pub(super) fn write(&mut self, sequence: usize, positions: Range<usize>) -> usize {
        let mut copies = 0;
        if positions.is_empty() {
            return copies;
        }
        let end = positions.end.div_ceil(self.size);
        for index in positions.start / self.size..end.min(self.tables[sequence].len()) {
            if self.users(self.tables[sequence][index]) > 1 {
                copies += 1;
                self.tables[sequence][index] = self.hand_out();
            }
        }
        while self.tables[sequence].len() < end {
            let block = self.hand_out();
            self.tables[sequence].push(block);
        }
        copies
    }

    pub(super) fn clear(&mut self, sequence: usize) {
        self.tables[sequence].clear();
    }

    /// The same, and blocks that nobody else has are not used again.
    pub(super) fn clear_and_keep(&mut self, sequence: usize) {
        let blocks = std::mem::take(&mut self.tables[sequence]);
        let kept: Vec<usize> = blocks.into_iter().filter(|&block| self.users(block) == 0).collect();
        self.kept.extend(kept);
    }

    /// How many have a block.
    fn users(&self, block: usize) -> usize {
        self.tables.iter().filter(|table| table.contains(&block)).count()
    }

    pub(super) fn fork(&mut self, source: usize, target: usize) {
        self.tables[target] = self.tables[source].clone();
    }

    /// The blocks that are in use.
    pub(super) fn least(&self) -> usize {
        self.tables.iter().flatten().chain(&self.kept).collect::<HashSet<_>>().len()
    }

    /// The same where only full blocks are shared: the first `full[b]` tokens of sequence `b` stand in every layer.
    pub(super) fn most(&self, full: &[usize]) -> usize {
        // A cache with a flaw may hold more than it has blocks for.
        let parts = || {
            let each = self.tables.iter().zip(full);
            each.map(|(table, full)| table.split_at((full / self.size).min(table.len())))
        };
        let shared: HashSet<&usize> = parts().flat_map(|(full, _)| full).collect();
        self.kept.len() + shared.len() + parts().map(|(_, rest)| rest.len()).sum::<usize>()
    }

    fn hand_out(&mut self) -> usize {
        self.handed_out += 1;
        self.handed_out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shared_block_is_copied_by_all_but_the_last_that_write_to_it() {
        let mut blocks = Blocks::new(8, 3);
        blocks.write(0, 0..11);
        blocks.fork(0, 1);
        blocks.fork(0, 2);
        assert_eq!((blocks.least(), blocks.most(&[11; 3])), (2, 4));
        assert_eq!([1, 0, 2].map(|sequence| blocks.write(sequence, 11..12)), [1, 1, 0]);
        assert_eq!((blocks.least(), blocks.most(&[12; 3])), (4, 4));
        // A block that is full in one layer and not in another cannot be left to others by who copies early.
        assert_eq!(blocks.most(&[3; 3]), 6);
        // Whoever has a flaw may say that there is more than has blocks.
        assert_eq!(blocks.most(&[99; 3]), 4);
        blocks.clear(0);
        assert_eq!((blocks.least(), blocks.write(1, 12..17), blocks.least()), (3, 0, 4));
    }

    #[test]
    fn what_is_kept_is_lost_once_nobody_has_it() {
        let mut blocks = Blocks::new(8, 2);
        blocks.write(0, 0..11);
        blocks.fork(0, 1);
        blocks.clear_and_keep(0);
        assert_eq!((blocks.write(1, 11..12), blocks.least()), (0, 2));
        blocks.clear_and_keep(1);
        blocks.write(0, 0..1);
        assert_eq!(blocks.least(), 3);
    }
}
