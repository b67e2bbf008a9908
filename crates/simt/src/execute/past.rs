//! What a look at memory may still show, though another block has written there since.
//!
//! A volatile or relaxed load races with no write of its kind, and gets any value that was there since what is ordered before it. Where
//! blocks take turns, all that a block wrote is there by the time another looks, in its order; on a GPU one write may be seen before an
//! earlier one, unless a fence lies between them. So, where that is asked for, the first look of a block at what another wrote with nothing
//! to order the two shows what was there before. Whoever looks again sees what was written, and so does an atomic operation.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use crate::fault::Line;
use crate::launch::Earlier;
use crate::program::Kernel;

use super::block::Block;
use super::place::{Group, Target};
use super::warp::lanes;
use super::{Machine, cell_bytes};

/// Looks that are remembered in a launch. Beyond them all show what is there.
const SHOWN_MAX: usize = 1 << 16;

/// What was in memory before.
#[derive(Debug, Default)]
pub(super) struct Past {
    /// By place, of buffers that were written so: each byte as it was before its last such write.
    bytes: HashMap<usize, Vec<u8>>,
    /// By block and location.
    shown: HashMap<(u32, u64), Shown>,
}

/// A look that showed what was there before a write.
#[derive(Debug)]
struct Shown {
    /// When it was, by which instruction.
    look: (u32, u32),
    /// The same of the write.
    write: (u32, u32),
    /// Whether the block has looked there again.
    again: bool,
}

impl Past {
    /// What a buffer held before.
    pub fn of(&self, place: usize) -> &[u8] {
        &self.bytes[&place]
    }

    /// Looks that were not repeated, each pair of instructions once.
    pub fn finish(self, kernel: &Kernel) -> Vec<Earlier> {
        let once = self.shown.into_values().filter(|shown| !shown.again);
        let mut places: Vec<(u32, u32)> = once.map(|Shown { look, write, .. }| (look.1, write.1)).collect();
        places.sort_unstable();
        places.dedup();
        let earlier =
            |(read, written)| Earlier { read: Line::of(kernel, read), written: Line::of(kernel, written) };
        places.into_iter().map(earlier).collect()
    }
}

impl Machine<'_> {
    /// Keeps what is there before lanes write, in a way that races with none of its like.
    pub(super) fn keep_past(&mut self, group: &Group, mask: u32, size: usize) {
        let Target::Global(place) = group.target else { return };
        if !self.shows_past {
            return;
        }
        let now = &self.memory.at(place).bytes;
        let past = self.past.bytes.entry(place).or_insert_with(|| now.clone());
        for lane in lanes(mask) {
            let range = group.offsets[lane] as usize..group.offsets[lane] as usize + size;
            past[range.clone()].copy_from_slice(&now[range]);
        }
    }

    /// The lanes whose look shows what was there before.
    pub(super) fn shown_past(
        &mut self,
        group: &Group,
        mask: u32,
        size: usize,
        pc: u32,
        block: &Block,
    ) -> u32 {
        let Target::Global(place) = group.target else { return 0 };
        let (true, Some(shadow)) = (self.past.bytes.contains_key(&place), &self.shadows[place]) else {
            return 0;
        };
        let cell = cell_bytes(self.memory.at(place).element());
        let is_full = self.past.shown.len() >= SHOWN_MAX;
        let mut lanes_shown = 0;
        for lane in lanes(mask) {
            let offset = group.offsets[lane] as usize;
            let Some(write) = shadow.last_atomic_write(offset / cell..(offset + size).div_ceil(cell)) else {
                continue;
            };
            if write.block == block.index || self.releases.orders(&write, block.index, &block.acquired) {
                continue;
            }
            let location = group.location(lane).expect("global memory is shared");
            let anew = Shown { look: (self.tick, pc), write: (write.tick, write.pc), again: false };
            match self.past.shown.entry((block.index, location)) {
                Entry::Occupied(mut known) if known.get().write.0 != write.tick => drop(known.insert(anew)),
                // Lanes of one instruction look at the same time.
                Entry::Occupied(known) if known.get().look.0 == self.tick => (),
                Entry::Occupied(mut known) => {
                    known.get_mut().again = true;
                    continue;
                }
                Entry::Vacant(_) if is_full => continue,
                Entry::Vacant(free) => drop(free.insert(anew)),
            }
            lanes_shown |= 1 << lane;
        }
        lanes_shown
    }

    /// Lanes see what is there now.
    pub(super) fn sees_present(&mut self, group: &Group, mask: u32, block: &Block) {
        if self.past.shown.is_empty() {
            return;
        }
        for location in lanes(mask).filter_map(|lane| group.location(lane)) {
            if let Some(shown) = self.past.shown.get_mut(&(block.index, location)) {
                shown.again = true;
            }
        }
    }
}
