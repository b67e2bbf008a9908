//! What a look at memory may still show, though another block has written there since.
//!
//! A volatile or relaxed load races with no write of its kind, and gets any value that was there since what is ordered before it. Where
//! blocks take turns, all that a block wrote is there by the time another looks, in its order; on a GPU one write may be seen before an
//! earlier one, unless a fence lies between them. So, where that is asked for, the first look of a block at what another wrote with nothing
//! to order the two shows what was there before. Whoever looks again sees what was written, and so does an atomic operation.

use std::collections::HashMap;

use crate::fault::{Fault, Faults, Kind, Line};
use crate::program::LANES;
use crate::shadow::Mark;

use super::block::Block;
use super::place::{Group, Request, Target};
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
    look: Mark,
    write: Mark,
    /// Whether the block has looked there again.
    again: bool,
}

impl Past {
    /// What a buffer held before.
    pub fn of(&self, place: usize) -> &[u8] {
        &self.bytes[&place]
    }
}

impl Machine<'_> {
    /// Looks that showed what was there before, and were not repeated.
    pub(super) fn unseen_writes(&self) -> Vec<Fault> {
        let once = self.past.shown.iter().filter(|(_, shown)| !shown.again);
        let mut once: Vec<_> =
            once.map(|(&(_, location), Shown { look, write, .. })| (look, location, write)).collect();
        once.sort_by_key(|(look, location, _)| (look.tick, *location));
        let mut faults = Faults::default();
        for (look, location, write) in once {
            let first = || {
                let (target, offset) = Group::of_location(location);
                let place = self.place_name(target);
                let (by, line) =
                    (self.thread(self.place_of(write.block), write.thread), Line::of(self.kernel, write.pc));
                let detail = format!(
                    "reads byte {offset} of {place} as it was before {by} wrote there at {line}: without a fence, others may see what comes after that write first"
                );
                (self.thread(self.place_of(look.block), look.thread), detail)
            };
            faults.note(self.kernel, Kind::UnseenWrite, look.pc, Some(write.pc), 1, first);
        }
        faults.finish()
    }

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
    pub(super) fn shown_past(&mut self, group: &Group, mask: u32, request: &Request, block: &Block) -> u32 {
        let &Request { size, pc, .. } = request;
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
            let location = group.location(lane).expect("global memory is shared");
            let key = (block.index, location);
            let is_seen = write.block == block.index
                || self.releases.orders(&write, block.index, &block.acquired)
                || is_full && !self.past.shown.contains_key(&key);
            let (tick, thread) = (self.tick, request.thread(lane));
            match self.past.shown.get_mut(&key) {
                // Lanes of one instruction look at the same time.
                Some(known) if known.look.tick == tick => (),
                Some(known) if is_seen || known.write.tick == write.tick => {
                    known.again = true;
                    continue;
                }
                None if is_seen => continue,
                _ => {
                    let look = Mark { tick, block: block.index, pc, thread, ..Mark::default() };
                    self.past.shown.insert(key, Shown { look, write, again: false });
                }
            }
            lanes_shown |= 1 << lane;
        }
        lanes_shown
    }

    /// Lanes that were shown what was there before see what had been let be seen by then.
    pub(super) fn acquire_past(
        &mut self,
        group: &Group,
        addresses: &[u64; LANES],
        mask: u32,
        block: &mut Block,
    ) {
        for lane in lanes(mask) {
            let location = group.location(lane).expect("global memory is shared");
            let before = self.past.shown[&(block.index, location)].write.tick;
            self.releases.acquire(addresses[lane], before, block.index, &mut block.acquired);
        }
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
