//! Who holds which block.

use std::collections::BTreeMap;
use std::ops::Range;

use super::prefixes::{Name, Prefixes};

/// A pool of blocks, and the table of each sequence.
#[derive(Debug)]
pub(super) struct Blocks {
    block_len: usize,
    /// Those that nobody holds or remembers; the next one to be taken is last.
    free: Vec<u32>,
    /// How many tables name each block.
    holders: Vec<u32>,
    /// The blocks of each sequence, in the order of its tokens: as many as its longest layer needs.
    tables: Vec<Vec<u32>>,
    prefixes: Prefixes,
}

impl Blocks {
    pub(super) fn new(block_len: usize, blocks: u32, sequences: usize) -> Blocks {
        Blocks {
            block_len,
            free: (0..blocks).rev().collect(),
            holders: vec![0; blocks as usize],
            tables: vec![Vec::new(); sequences],
            prefixes: Prefixes::default(),
        }
    }

    pub(super) fn free(&self) -> usize {
        self.free.len() + self.prefixes.idle()
    }

    pub(super) fn table(&self, sequence: usize) -> &[u32] {
        &self.tables[sequence]
    }

    /// The block of a token, and the token's place in it.
    pub(super) fn locate(&self, sequence: usize, token: usize) -> (u32, usize) {
        (self.tables[sequence][token / self.block_len], token % self.block_len)
    }

    /// The blocks of some tokens, in their order, and the places that these have in them.
    pub(super) fn runs(
        &self,
        sequence: usize,
        tokens: &Range<usize>,
    ) -> impl Iterator<Item = (u32, Range<usize>)> {
        self.entries(tokens).map(move |entry| {
            let start = entry * self.block_len;
            let slots = tokens.start.max(start) - start..(tokens.end - start).min(self.block_len);
            (self.tables[sequence][entry], slots)
        })
    }

    /// Which entries of a table some tokens lie in.
    fn entries(&self, tokens: &Range<usize>) -> Range<usize> {
        if tokens.is_empty() {
            return 0..0;
        }
        tokens.start / self.block_len..tokens.end.div_ceil(self.block_len)
    }

    /// How many free blocks it takes to write to `spans`, the tokens of each sequence, one sequence after the other.
    ///
    /// A shared block is copied for every writer but the last holder, if all of them write.
    pub(super) fn needed(&self, spans: &[Range<usize>]) -> usize {
        let mut new = 0;
        let mut writers = BTreeMap::<u32, u32>::new();
        for (table, span) in self.tables.iter().zip(spans) {
            for entry in self.entries(span) {
                match table.get(entry) {
                    Some(&block) => *writers.entry(block).or_default() += 1,
                    None => new += 1,
                }
            }
        }
        let copies =
            writers.into_iter().map(|(block, writers)| writers.min(self.holders[block as usize] - 1));
        new + copies.sum::<u32>() as usize
    }

    /// Sees to it that a sequence has blocks of its own for `tokens`. Returns which blocks are to be copied, from where to where.
    ///
    /// There must be as many free blocks as [`needed`](Blocks::needed) says.
    pub(super) fn make_writable(&mut self, sequence: usize, tokens: &Range<usize>) -> Vec<(u32, u32)> {
        let mut copies = Vec::new();
        for entry in self.entries(tokens) {
            match self.tables[sequence].get(entry).copied() {
                None => {
                    let block = self.take();
                    self.tables[sequence].push(block);
                }
                Some(shared) if self.holders[shared as usize] > 1 => {
                    let block = self.take();
                    self.holders[shared as usize] -= 1;
                    self.tables[sequence][entry] = block;
                    copies.push((shared, block));
                }
                Some(_) => {}
            }
        }
        copies
    }

    fn take(&mut self) -> u32 {
        let block = self.free.pop().or_else(|| self.prefixes.evict());
        let block = block.expect("the caller has counted the free blocks");
        self.holders[block as usize] = 1;
        block
    }

    pub(super) fn release(&mut self, sequence: usize) {
        // From the end on, as a block is of no use when those before it are forgotten.
        for block in std::mem::take(&mut self.tables[sequence]).into_iter().rev() {
            let holders = &mut self.holders[block as usize];
            *holders -= 1;
            if *holders == 0 && !self.prefixes.rest(block) {
                self.free.push(block);
            }
        }
    }

    /// Gives `to`, which holds nothing, the blocks of `from`.
    pub(super) fn share(&mut self, from: usize, to: usize) {
        debug_assert!(self.tables[to].is_empty());
        let table = self.tables[from].clone();
        for &block in &table {
            self.holders[block as usize] += 1;
        }
        self.tables[to] = table;
    }
    /// Remembers the full blocks of a sequence, which holds the tokens `ids`. Of blocks that hold the same, the first stays.
    pub(super) fn remember(&mut self, sequence: usize, ids: &[u32]) {
        let mut before = Name::NOTHING;
        for (&block, ids) in self.tables[sequence].iter().zip(ids.chunks_exact(self.block_len)) {
            let known = self.prefixes.find(before, ids);
            before = known.map_or_else(|| self.prefixes.insert(block, before, ids), |(_, name)| name);
        }
    }

    /// Gives a sequence, which holds nothing, the blocks that hold the first of `ids`. Returns how many tokens these are.
    pub(super) fn recall(&mut self, sequence: usize, ids: &[u32]) -> usize {
        debug_assert!(self.tables[sequence].is_empty());
        let mut before = Name::NOTHING;
        for ids in ids.chunks_exact(self.block_len) {
            let Some((block, name)) = self.prefixes.find(before, ids) else { break };
            self.prefixes.wake(block);
            self.holders[block as usize] += 1;
            self.tables[sequence].push(block);
            before = name;
        }
        self.tables[sequence].len() * self.block_len
    }
}
