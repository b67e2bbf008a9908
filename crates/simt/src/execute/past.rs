//! What a look at memory may still show, though another block has written there since.
//!
//! A volatile or relaxed load races with no write of its kind, and gets any value that was there since what is ordered before it. Where
//! blocks take turns, all that a block wrote is there by the time another looks, in its order; on a GPU one write may be seen before an
//! earlier one, unless a fence lies between them. So, where that is asked for, the first look of a block at what another wrote with nothing
//! to order the two shows what was there before. Whoever looks again sees what was written, and so does an atomic operation.
//!
//! Nobody is shown what a GPU would not show. A write is seen if it is ordered before the look, if somebody's look that saw it is, or if both
//! blocks had a fence in between, of which the writer's came first; and so is one that is not looked at as it was written: by bytes next to
//! one another, no more and no less.

use std::collections::HashMap;

use crate::fault::{Fault, Faults, Kind, Line};
use crate::program::LANES;
use crate::shadow::Mark;

use super::block::Block;
use super::place::{Group, Request, Target};
use super::warp::lanes;
use super::{Machine, cell_bytes};

/// Looks, and fences, that are remembered in a launch. Beyond them all show what is there.
const REMEMBERED_MAX: usize = 1 << 17;

/// Blocks that saw a write as of which all do.
const OBSERVERS: usize = 8;

/// What was in memory before.
#[derive(Debug, Default)]
pub(super) struct Past {
    /// By place, of buffers that were written so: each byte as it was before its last such write.
    bytes: HashMap<usize, Vec<u8>>,
    /// By block and location.
    shown: HashMap<(u32, u64), Shown>,
    /// By location: the last write that somebody was seen to see, by its tick, and the first look at it of each block that saw it.
    seen: HashMap<u64, (u32, Vec<Mark>)>,
    /// By block: when its threads made what they had done visible to the device.
    fences: HashMap<u32, Vec<u32>>,
    /// How much is remembered.
    count: usize,
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

    /// Whether a block made a write of its own visible, and another one's fence came after that.
    fn is_fenced(&self, write: &Mark, block: u32) -> bool {
        let [Some(writers), Some(own)] = [write.block, block].map(|block| self.fences.get(&block)) else {
            return false;
        };
        let first = writers.get(writers.partition_point(|&fence| fence <= write.tick));
        first.is_some_and(|first| own.last() > Some(first))
    }

    /// Notes that a look saw a write.
    fn see(&mut self, location: u64, write: &Mark, look: Mark) {
        let (tick, looks) = self.seen.entry(location).or_default();
        if *tick != write.tick {
            *tick = write.tick;
            looks.clear();
        }
        if looks.len() < OBSERVERS && looks.iter().all(|known| known.block != look.block) {
            looks.push(look);
            self.count += 1;
        }
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
                let spot = self.spot(target, offset);
                let (by, line) =
                    (self.thread(self.place_of(write.block), write.thread), Line::of(self.kernel, write.pc));
                let detail = format!(
                    "reads {spot} as it was before {by} wrote there at {line}: without a fence, others may see what comes after that write first"
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

    /// A thread of a block makes what it did visible to the device.
    pub(super) fn fence_past(&mut self, block: u32) {
        if self.shows_past {
            self.past.fences.entry(block).or_default().push(self.tick);
            self.past.count += 1;
        }
    }

    /// Whether a block has to see a write.
    fn is_to_see(&self, location: u64, write: &Mark, block: &Block) -> bool {
        let is_ordered = |mark: &Mark| {
            mark.block == block.index || self.releases.orders(mark, block.index, &block.acquired)
        };
        let seen = self.past.seen.get(&location).filter(|(tick, _)| *tick == write.tick);
        is_ordered(write)
            || self.past.is_fenced(write, block.index)
            || seen.is_some_and(|(_, looks)| looks.len() >= OBSERVERS || looks.iter().any(is_ordered))
    }

    /// The lanes whose look shows what was there before.
    pub(super) fn shown_past(&mut self, group: &Group, mask: u32, request: &Request, block: &Block) -> u32 {
        let &Request { size, pc, .. } = request;
        let Target::Global(place) = group.target else { return 0 };
        if !self.past.bytes.contains_key(&place) || self.past.count > REMEMBERED_MAX {
            return 0;
        }
        let cell = cell_bytes(self.memory.at(place).element());
        let mut lanes_shown = 0;
        for lane in lanes(mask) {
            let Some(shadow) = &self.shadows[place] else { return 0 };
            let Some(write) = shadow.last_atomic_write(group.offsets[lane] as usize, size, cell) else {
                continue;
            };
            let location = group.location(lane).expect("global memory is shared");
            let key = (block.index, location);
            let (tick, thread) = (self.tick, request.thread(lane));
            let look = Mark { tick, block: block.index, pc, thread, ..Mark::default() };
            let is_to_see = self.is_to_see(location, &write, block);
            match self.past.shown.get_mut(&key) {
                // Lanes of one instruction look at the same time.
                Some(known) if known.look.tick == tick => (),
                Some(known) if is_to_see || known.write.tick == write.tick => {
                    known.again = true;
                    self.past.see(location, &write, look);
                    continue;
                }
                None if is_to_see => {
                    self.past.see(location, &write, look);
                    continue;
                }
                _ => {
                    self.past.count += 1;
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
