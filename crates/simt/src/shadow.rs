//! Who used which word last, and what orders two threads.
//!
//! Every word of shared memory, and of global memory that may be written, remembers its last write and its last reads: by which thread, at
//! which instruction and when. *When* is a tick, counted over the whole launch, of which every instruction has its own. Two accesses of a
//! word race if they are of two threads, one writes, not both are atomic, and nothing orders the earlier before the later. What orders:
//!
//! - within a block, barriers: [`Clocks`] hold for each warp up to which tick it has seen what each other did. `__syncwarp` moves a warp's
//!   own; a shuffle orders no memory, as CUDA says, but for what is made of what it hands over: [`Exchanges`]. And a fence and an atomic operation of which another warp later sees the result, as of a
//!   lock: [`Handed`].
//! - between blocks, the same: [`Releases`].
//!
//! A plain read that the same warp goes on to try in an operation that finds out if it was too old (compare-and-swap, minimum, maximum)
//! races with no such operation.
//!
//! Two reads by two threads are remembered as one thread of a set of warps, so some races with the first of several readers go unseen. A
//! thread that is accused has raced.

mod exchanges;
mod lines;
mod releases;

use std::collections::HashMap;

use crate::program::Scope;

pub(crate) use exchanges::{Exchanged, Exchanges};
pub(crate) use lines::{LINE, Row, Shadow};
pub(crate) use releases::{Acquired, Release, Releases};

/// Nobody.
const NONE: u32 = 0;

/// An access.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Mark {
    /// When; 0 if never.
    pub tick: u32,
    /// Index of the block.
    pub block: u32,
    /// The instruction.
    pub pc: u32,
    /// The thread within the block.
    pub thread: u16,
    /// Which bytes of the word.
    pub bytes: u8,
    /// To whom it is atomic, if it is of a kind that cannot race with its like.
    pub atomic: Option<Scope>,
}

impl Mark {
    /// Whether both are atomic to each other.
    fn is_like(&self, other: &Mark) -> bool {
        let wide = |mark: &Mark| mark.atomic == Some(Scope::Device);
        self.atomic.is_some()
            && other.atomic.is_some()
            && (self.block == other.block || wide(self) && wide(other))
    }

    pub fn warp(&self) -> usize {
        usize::from(self.thread) / 32
    }
}

/// What a word remembers.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Cell {
    /// The last write that was not atomic.
    write: Mark,
    /// The last atomic operation. It hides no write before it: another atomic operation may race with that.
    atomic: Mark,
    /// The last read.
    pub read: Mark,
    /// A read by another of them than the thread that read last.
    other: Mark,
    /// Warps of the block that read, none of which is known to have read before another.
    readers: u32,
    /// When the first of them did.
    since: u32,
    /// Whether several threads of one warp are among them.
    crowd: bool,
}

/// What warps of a block have let each other see, by the location of an atomic operation: up to which tick what each did.
pub(crate) type Handed = HashMap<u64, Vec<u32>>;

/// Up to which tick each warp of a block has seen what each other did.
#[derive(Debug, Clone)]
pub(crate) struct Clocks {
    warps: usize,
    seen: Vec<u32>,
}

impl Clocks {
    pub fn new(warps: usize) -> Clocks {
        Clocks { warps, seen: vec![0; warps * warps] }
    }

    /// As new.
    pub fn clear(&mut self) {
        self.seen.fill(0);
    }

    /// A warp's lanes have met at `tick`.
    pub fn meet(&mut self, warp: usize, tick: u32) {
        self.seen[warp * self.warps + warp] = tick;
    }

    /// Warps have met at a barrier at which each arrived at its tick. Those that did not wait have seen nothing.
    pub fn barrier(&mut self, arrivals: &[(usize, u32, bool)]) {
        let mut all = vec![0; self.warps];
        for &(warp, tick, _) in arrivals {
            for (all, &seen) in all.iter_mut().zip(&self.seen[warp * self.warps..][..self.warps]) {
                *all = (*all).max(seen);
            }
            all[warp] = all[warp].max(tick);
        }
        for &(warp, _, waited) in arrivals {
            if waited {
                self.seen[warp * self.warps..][..self.warps].copy_from_slice(&all);
            }
        }
    }

    /// A warp has seen what another let it see.
    pub fn join(&mut self, warp: usize, seen: &[u32]) {
        let row = &mut self.seen[warp * self.warps..][..self.warps];
        row.iter_mut().zip(seen).for_each(|(known, &seen)| *known = (*known).max(seen));
    }

    /// Up to which tick a warp has seen what each did.
    pub fn row(&self, warp: usize) -> &[u32] {
        &self.seen[warp * self.warps..][..self.warps]
    }

    #[inline]
    pub fn sees(&self, warp: usize, mark: &Mark) -> bool {
        mark.tick < self.seen[warp * self.warps + mark.warp()]
    }

    #[inline]
    fn sees_all(&self, warp: usize, readers: u32, tick: u32) -> bool {
        let mut left = readers;
        while left != 0 {
            let reader = left.trailing_zeros() as usize;
            if tick >= self.seen[warp * self.warps + reader] {
                return false;
            }
            left &= left - 1;
        }
        true
    }
}

/// Who accesses.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Actor<'a> {
    pub tick: u32,
    pub block: u32,
    pub pc: u32,
    pub clocks: &'a Clocks,
    /// Absent for shared memory, which only one block uses.
    pub others: Option<(&'a Releases, &'a Acquired)>,
    /// By which lanes of a warp hand each other values, and when those of each warp last did.
    pub exchanges: Option<(&'a Exchanges<'a>, &'a [Vec<Exchanged>])>,
}

impl Actor<'_> {
    #[inline]
    fn races(&self, mark: &Mark, thread: u16, bytes: u8) -> bool {
        mark.tick != NONE && mark.bytes & bytes != 0 && !self.ordered(mark, thread)
    }

    pub fn mark(&self, thread: u16, bytes: u8, atomic: Option<Scope>) -> Mark {
        Mark { tick: self.tick, block: self.block, pc: self.pc, thread, bytes, atomic }
    }

    /// Whether every thread of a warp comes after.
    fn all_ordered(&self, mark: &Mark, warp: usize) -> bool {
        if mark.block != self.block {
            return self
                .others
                .is_none_or(|(releases, acquired)| releases.orders(mark, self.block, acquired));
        }
        self.clocks.sees(warp, mark)
    }

    #[inline]
    fn ordered(&self, mark: &Mark, thread: u16) -> bool {
        mark.block == self.block && mark.thread == thread || self.all_ordered(mark, usize::from(thread) / 32)
    }

    /// Whether a write comes of what another lane of its warp read, or all of a `crowd` did.
    #[cold]
    #[inline(never)]
    fn comes_of(&self, read: &Mark, write: &Mark, crowd: bool) -> bool {
        let Some((exchanges, last)) = self.exchanges else { return false };
        let same_warp = read.block == write.block && read.warp() == write.warp();
        same_warp && exchanges.lead((read, crowd), write, &last[write.warp()])
    }
}

impl Cell {
    /// Notes a read; gives the write with which it races. An atomic one races with no atomic write.
    #[inline]
    pub fn read(&mut self, actor: &Actor<'_>, mark: &Mark) -> Option<Mark> {
        let &Mark { thread, bytes, atomic, .. } = mark;
        let mut race = actor.races(&self.write, thread, bytes).then_some(self.write);
        if race.is_none() && !mark.is_like(&self.atomic) && actor.races(&self.atomic, thread, bytes) {
            race = Some(self.atomic);
        }
        let warp = 1 << (thread / 32);
        // Each of the readers has read at least the bytes that the last one did: who read others of the word may not be held against who writes
        // these. Nor may who looked at it atomically be held against who writes it so.
        let others = bytes & !self.read.bytes != 0;
        let anew = self.read.tick == NONE
            || others
            || self.read.atomic != atomic
            || self.read.block != actor.block
            || self.reads_ordered(actor, thread);
        if anew {
            (self.readers, self.since, self.crowd, self.other) = (warp, actor.tick, false, Mark::default());
        } else {
            if self.read.thread != thread {
                self.crowd |= self.readers & warp != 0;
                if self.other.tick == NONE || self.other.thread == thread {
                    self.other = self.read;
                }
            }
            self.readers |= warp;
        }
        self.read = *mark;
        race
    }

    /// Whether every thread of a warp may read without a race.
    #[inline]
    pub fn may_be_read(&self, actor: &Actor<'_>, read: &Mark) -> bool {
        let may = |mark: &Mark| {
            mark.tick == NONE || mark.bytes & read.bytes == 0 || actor.all_ordered(mark, read.warp())
        };
        may(&self.write) && (read.is_like(&self.atomic) || may(&self.atomic))
    }

    /// Notes a write; gives the access with which it races. A write of `same` bytes as were there races with no other write.
    #[inline]
    pub fn write(&mut self, actor: &Actor<'_>, mark: &Mark, same: bool) -> Option<Mark> {
        let &Mark { thread, bytes, atomic, .. } = mark;
        let mut race = None;
        // Of two lanes of one instruction that write, it is for the caller to say what that is; what one instruction read comes before.
        if !same && actor.races(&self.write, thread, bytes) {
            race = Some(self.write);
        }
        if race.is_none() && !same && !mark.is_like(&self.atomic) && actor.races(&self.atomic, thread, bytes)
        {
            race = Some(self.atomic);
        }
        if race.is_none()
            && self.read.tick != NONE
            && self.read.tick != actor.tick
            && self.read.bytes & bytes != 0
            && !mark.is_like(&self.read)
            && !self.reads_ordered(actor, thread)
            && !self.reads_lead(actor, mark)
        {
            let is_before = |read: &Mark| actor.ordered(read, thread) || actor.comes_of(read, mark, false);
            let by_other = self.other.tick != NONE && self.other.thread != thread && is_before(&self.read);
            race = Some(if by_other { self.other } else { self.read });
        }
        if atomic.is_some() {
            self.atomic = *mark;
        } else {
            self.write = *mark;
        }
        (self.read, self.other, self.readers, self.crowd) = (Mark::default(), Mark::default(), 0, false);
        race
    }

    /// Whether a write comes of what all reads got: known if they were all of one thread, or of one instruction.
    #[cold]
    #[inline(never)]
    fn reads_lead(&self, actor: &Actor<'_>, mark: &Mark) -> bool {
        self.readers == 1 << mark.warp()
            && (!self.crowd || self.since == self.read.tick)
            && actor.comes_of(&self.read, mark, self.crowd)
    }

    /// Whether the reads may all be ordered before. Of the last that is known; the others came between the first and it, and are only
    /// held against a warp that has not even seen the first.
    fn reads_ordered(&self, actor: &Actor<'_>, thread: u16) -> bool {
        if !actor.ordered(&self.read, thread) {
            return false;
        }
        if self.read.block != actor.block {
            return true;
        }
        let (warp, own) = (usize::from(thread) / 32, 1 << (thread / 32));
        // Own reads need no order, unless another thread of the warp read as well.
        let others = if self.crowd { self.readers } else { self.readers & !own };
        actor.clocks.sees_all(warp, others, self.since)
    }
}
