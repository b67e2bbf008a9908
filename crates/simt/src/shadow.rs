//! Who used which word last, and what orders two threads.
//!
//! Every word of shared memory, and of global memory that may be written, remembers its last write and its last reads: by which thread, at
//! which instruction and when. *When* is a tick, counted over the whole launch, of which every instruction has its own. Two accesses of a
//! word race if they are of two threads, one writes, not both are atomic, and nothing orders the earlier before the later. What orders:
//!
//! - within a block, barriers: [`Clocks`] hold for each warp up to which tick it has seen what each other did. `__syncwarp` moves a warp's
//!   own; a shuffle orders no memory, as CUDA says. And a fence and an atomic operation of which another warp later sees the result, as of a
//!   lock: [`Handed`].
//! - between blocks, the same: [`Releases`].
//!
//! A plain read that the same warp goes on to try in an operation that finds out if it was too old (compare-and-swap, minimum, maximum)
//! races with no such operation.
//!
//! Two reads by two threads are remembered as one thread of a set of warps, so some races with the first of several readers go unseen. A
//! thread that is accused has raced.

use std::collections::HashMap;
use std::sync::Arc;

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
    /// Whether it is of a kind that cannot race with its like.
    pub atomic: bool,
}

impl Mark {
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
    read: Mark,
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

/// What blocks have let others see, by the location of an atomic operation.
#[derive(Debug, Default)]
pub(crate) struct Releases {
    locations: HashMap<u64, Location>,
    count: usize,
}

/// Releases that are remembered in a launch.
const RELEASES_MAX: usize = 1 << 20;

#[derive(Debug, Default)]
struct Location {
    /// How many have released here.
    count: u32,
    blocks: HashMap<u32, Vec<Release>>,
}

/// What a warp has let others see.
#[derive(Debug)]
pub(crate) struct Release {
    /// As the how-manieth at its location.
    place: u32,
    tick: u32,
    warp: usize,
    /// Up to which tick the warp had seen what others of its block did.
    seen: Arc<[u32]>,
    /// What the block itself had got to see by then.
    acquired: Arc<[(u64, u32)]>,
}

impl Release {
    pub fn new(tick: u32, warp: usize, acquired: &Arc<[(u64, u32)]>, seen: &Arc<[u32]>) -> Release {
        Release { place: 0, tick, warp, seen: Arc::clone(seen), acquired: Arc::clone(acquired) }
    }

    /// Whether it lets nobody see what another at the same location does not. What was released there before, everybody sees who sees either.
    fn lets_see_what(&self, other: &Release, address: u64) -> bool {
        let elsewhere = |&&(location, _): &&(u64, u32)| location != address;
        (self.tick, self.warp, &self.seen) == (other.tick, other.warp, &other.seen)
            && self.acquired.iter().filter(elsewhere).eq(other.acquired.iter().filter(elsewhere))
    }

    /// Whether what its block did at a mark is among it.
    fn holds(&self, mark: &Mark) -> bool {
        mark.tick < if mark.warp() == self.warp { self.tick } else { self.seen[mark.warp()] }
    }
}

/// What a block has got to see: locations, and how many had released there.
pub(crate) type Acquired = Vec<(u64, u32)>;

impl Releases {
    pub fn release(&mut self, address: u64, block: u32, release: Release) {
        let location = self.locations.entry(address).or_default();
        let of_block = location.blocks.entry(block).or_default();
        // Who asks again and again lets nobody see anything new.
        if of_block.last().is_some_and(|last| last.lets_see_what(&release, address)) {
            return;
        }
        self.count += 1 + release.acquired.len() / 8;
        location.count += 1;
        of_block.push(Release { place: location.count, ..release });
    }

    pub fn is_empty(&self) -> bool {
        self.locations.is_empty()
    }

    /// Whether no more can be remembered.
    pub fn is_full(&self) -> bool {
        self.count > RELEASES_MAX
    }

    pub fn acquire(&self, address: u64, acquired: &mut Acquired) {
        let Some(location) = self.locations.get(&address) else { return };
        match acquired.iter_mut().find(|(known, _)| *known == address) {
            Some((_, count)) => *count = location.count,
            None => acquired.push((address, location.count)),
        }
    }

    /// Whether who has acquired this sees what was done at a mark.
    fn orders(&self, mark: &Mark, acquired: &Acquired) -> bool {
        let direct = |&(address, count): &(u64, u32)| {
            let releases = self.locations[&address].blocks.get(&mark.block);
            releases.is_some_and(|all| all.iter().any(|one| one.place <= count && one.holds(mark)))
        };
        if acquired.iter().any(direct) {
            return true;
        }
        // By way of other blocks.
        let mut left = acquired.clone();
        let mut known: HashMap<u64, u32> = left.iter().copied().collect();
        while let Some((address, count)) = left.pop() {
            let location = &self.locations[&address];
            for release in location.blocks.values().flatten().filter(|one| one.place <= count) {
                for &(address, count) in release.acquired.iter() {
                    if direct(&(address, count)) {
                        return true;
                    }
                    let seen = known.entry(address).or_default();
                    if *seen < count {
                        *seen = count;
                        left.push((address, count));
                    }
                }
            }
        }
        false
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
}

impl Actor<'_> {
    #[inline]
    fn races(&self, mark: &Mark, thread: u16, bytes: u8) -> bool {
        mark.tick != NONE && mark.bytes & bytes != 0 && !self.ordered(mark, thread)
    }

    pub fn mark(&self, thread: u16, bytes: u8, atomic: bool) -> Mark {
        Mark { tick: self.tick, block: self.block, pc: self.pc, thread, bytes, atomic }
    }

    /// Whether every thread of a warp comes after.
    fn all_ordered(&self, mark: &Mark, warp: usize) -> bool {
        if mark.block != self.block {
            return self.others.is_none_or(|(releases, acquired)| releases.orders(mark, acquired));
        }
        self.clocks.sees(warp, mark)
    }

    #[inline]
    fn ordered(&self, mark: &Mark, thread: u16) -> bool {
        mark.block == self.block && mark.thread == thread || self.all_ordered(mark, usize::from(thread) / 32)
    }
}

impl Cell {
    /// Notes a read; gives the write with which it races. An atomic one races with no atomic write.
    #[inline]
    pub fn read(&mut self, actor: &Actor<'_>, thread: u16, bytes: u8, atomic: bool) -> Option<Mark> {
        let mut race = actor.races(&self.write, thread, bytes).then_some(self.write);
        if race.is_none() && !atomic && actor.races(&self.atomic, thread, bytes) {
            race = Some(self.atomic);
        }
        let warp = 1 << (thread / 32);
        // Each of the readers has read at least the bytes that the last one did: who read others of the word may not be held against who writes
        // these.
        let others = bytes & !self.read.bytes != 0;
        if self.read.tick == NONE
            || others
            || self.read.block != actor.block
            || self.reads_ordered(actor, thread)
        {
            (self.readers, self.since, self.crowd) = (warp, actor.tick, false);
        } else {
            self.crowd |= self.read.thread != thread && self.readers & warp != 0;
            self.readers |= warp;
        }
        self.read = actor.mark(thread, bytes, atomic);
        race
    }

    /// Whether every thread of a warp may read without a race.
    #[inline]
    pub fn may_be_read(&self, actor: &Actor<'_>, warp: usize, bytes: u8, atomic: bool) -> bool {
        let may = |mark: &Mark| mark.tick == NONE || mark.bytes & bytes == 0 || actor.all_ordered(mark, warp);
        may(&self.write) && (atomic || may(&self.atomic))
    }

    /// Notes a write; gives the access with which it races. A write of `same` bytes as were there races with no other write.
    #[inline]
    pub fn write(
        &mut self,
        actor: &Actor<'_>,
        thread: u16,
        bytes: u8,
        atomic: bool,
        same: bool,
    ) -> Option<Mark> {
        let mut race = None;
        // Two lanes of one instruction write at the same time, and race; what one instruction read comes before.
        if !same && actor.races(&self.write, thread, bytes) {
            race = Some(self.write);
        }
        if race.is_none() && !same && !atomic && actor.races(&self.atomic, thread, bytes) {
            race = Some(self.atomic);
        }
        if race.is_none()
            && self.read.tick != NONE
            && self.read.tick != actor.tick
            && self.read.bytes & bytes != 0
            && !(atomic && self.read.atomic)
            && !self.reads_ordered(actor, thread)
        {
            race = Some(self.read);
        }
        let mark = actor.mark(thread, bytes, atomic);
        if atomic {
            self.atomic = mark;
        } else {
            self.write = mark;
        }
        (self.read, self.readers, self.crowd) = (Mark::default(), 0, false);
        race
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

/// Cells of a buffer, 32 to a line.
///
/// What warps mostly do is to access whole lines, lane by lane. Such a line remembers one mark for all of its cells, until somebody accesses
/// a part of it.
#[derive(Debug, Default)]
pub(crate) struct Shadow {
    lines: Vec<Line>,
    /// How many of them have fallen apart into cells.
    apart: usize,
}

/// Lines of a buffer that may fall apart: a gigabyte of cells.
const APART_MAX: usize = 1 << 19;

/// Cells of a line.
pub(crate) const LINE: usize = 32;

#[derive(Debug, Default)]
enum Line {
    /// Nobody was here.
    #[default]
    Clean,
    Whole(Whole),
    Cells(Box<[Cell; LINE]>),
}

/// A line that warps access as a whole.
#[derive(Debug, Default)]
struct Whole {
    write: Row,
    atomic: Row,
    read: Row,
}

/// An access of a warp to the whole line. The mark's thread is that of the first cell.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Row {
    pub mark: Mark,
    /// Cells of a thread, as a power of two.
    pub shift: u8,
}

impl Row {
    fn cell(&self, index: usize) -> Mark {
        Mark { thread: self.mark.thread + (index as u16 >> self.shift), ..self.mark }
    }

    /// Whether each cell is surely ordered before the same cell of another.
    fn is_before(&self, later: &Row, actor: &Actor<'_>) -> bool {
        let (one, other) = (&self.mark, &later.mark);
        one.tick == NONE
            || (one.block, one.thread, self.shift) == (other.block, other.thread, later.shift)
            || actor.ordered(one, other.thread) && (one.block != other.block || one.thread != other.thread)
    }
}

impl Line {
    fn whole(&mut self) -> Option<&mut Whole> {
        if let Line::Clean = self {
            *self = Line::Whole(Whole::default());
        }
        match self {
            Line::Whole(whole) => Some(whole),
            Line::Clean | Line::Cells(_) => None,
        }
    }

    fn cells(&mut self) -> &mut [Cell; LINE] {
        let cell = |whole: &Whole, index| {
            let mut cell = Cell::default();
            if whole.write.mark.tick != NONE {
                cell.write = whole.write.cell(index);
            }
            if whole.atomic.mark.tick != NONE {
                cell.atomic = whole.atomic.cell(index);
            }
            if whole.read.mark.tick != NONE {
                cell.read = whole.read.cell(index);
                (cell.readers, cell.since) = (1 << cell.read.warp(), cell.read.tick);
            }
            cell
        };
        match self {
            Line::Clean => *self = Line::Cells(Box::new([Cell::default(); LINE])),
            Line::Whole(whole) => {
                *self = Line::Cells(Box::new(std::array::from_fn(|index| cell(whole, index))))
            }
            Line::Cells(_) => {}
        }
        match self {
            Line::Cells(cells) => cells,
            Line::Clean | Line::Whole(_) => unreachable!("it was made cells"),
        }
    }
}

impl Shadow {
    pub fn new(cells: usize) -> Shadow {
        let mut lines = Vec::new();
        lines.resize_with(cells.div_ceil(LINE), Line::default);
        Shadow { lines, apart: 0 }
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.lines.fill_with(Line::default);
        self.apart = 0;
    }

    /// The last write to some bytes of a cell, if there is one.
    pub fn writer(&self, index: usize, bytes: u8) -> Option<Mark> {
        let (write, atomic) = match &self.lines[index / LINE] {
            Line::Clean => return None,
            Line::Whole(whole) => (whole.write.cell(index % LINE), whole.atomic.cell(index % LINE)),
            Line::Cells(cells) => (cells[index % LINE].write, cells[index % LINE].atomic),
        };
        [write, atomic].into_iter().find(|mark| mark.tick != NONE && mark.bytes & bytes != 0)
    }

    /// The last read of a cell.
    pub fn reader(&self, index: usize) -> Mark {
        match &self.lines[index / LINE] {
            Line::Clean => Mark::default(),
            Line::Whole(whole) => whole.read.cell(index % LINE),
            Line::Cells(cells) => cells[index % LINE].read,
        }
    }

    #[inline]
    pub fn cell(&mut self, index: usize) -> &mut Cell {
        let line = &mut self.lines[index / LINE];
        self.apart += usize::from(!matches!(line, Line::Cells(_)));
        &mut line.cells()[index % LINE]
    }

    /// Whether no more can be remembered.
    pub fn is_full(&self) -> bool {
        self.apart > APART_MAX
    }

    /// Notes an access of a warp to whole lines, from the first of them on: `row` is that of the first. Notes nothing, and says so, where
    /// it may race or somebody accessed a part of a line: then each cell is to be looked at.
    #[inline]
    pub fn rows(&mut self, first: usize, count: usize, row: Row, write: bool, actor: &Actor<'_>) -> bool {
        let lines = &mut self.lines[first..first + count];
        let at = |line: usize| Row { mark: row.cell(line * LINE), ..row };
        // No atomic access races with another.
        let atomic = row.mark.atomic;
        let clear = lines.iter_mut().enumerate().all(|(index, line)| {
            let row = at(index);
            let is_before = |earlier: &Row| atomic && earlier.mark.atomic || earlier.is_before(&row, actor);
            line.whole().is_some_and(|whole| {
                // A read takes the place of the one before it, which must not be forgotten.
                let read = if write { is_before(&whole.read) } else { whole.read.is_before(&row, actor) };
                is_before(&whole.write) && is_before(&whole.atomic) && read
            })
        });
        if clear {
            for (index, line) in lines.iter_mut().enumerate() {
                let Line::Whole(whole) = line else { unreachable!("all are whole") };
                match (write, atomic) {
                    (true, true) => (whole.atomic, whole.read) = (at(index), Row::default()),
                    (true, false) => (whole.write, whole.read) = (at(index), Row::default()),
                    (false, _) => whole.read = at(index),
                }
            }
        }
        clear
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn actor(tick: u32, clocks: &Clocks) -> Actor<'_> {
        Actor { tick, block: 0, pc: tick, clocks, others: None }
    }

    fn row(actor: &Actor<'_>, thread: u16, shift: u8) -> Row {
        Row { mark: actor.mark(thread, 0xF, false), shift }
    }

    #[test]
    fn a_whole_line_falls_apart_into_what_its_cells_would_remember() {
        let clocks = Clocks::new(4);
        let mut shadow = Shadow::new(64);
        let one = actor(1, &clocks);
        assert!(shadow.rows(0, 2, row(&one, 32, 1), true, &one), "two lines of pairs");
        // The threads that wrote may read; others race.
        let two = actor(2, &clocks);
        for cell in 0..64 {
            let own = 32 + cell as u16 / 2;
            assert!(shadow.cell(cell).read(&two, own, 0xF, false).is_none());
            let race = shadow.cell(cell).read(&two, 0, 0xF, false).expect("nothing orders them");
            assert_eq!((race.thread, race.pc), (own, 1));
        }
    }

    #[test]
    fn rows_of_other_warps_need_a_barrier() {
        let mut clocks = Clocks::new(2);
        let mut shadow = Shadow::new(32);
        let one = actor(1, &clocks);
        assert!(shadow.rows(0, 1, row(&one, 0, 0), true, &one));
        let two = actor(2, &clocks);
        assert!(!shadow.rows(0, 1, row(&two, 32, 0), false, &two), "it may race, so cells are asked");
        assert!(shadow.cell(3).read(&two, 35, 0xF, false).is_some());
        let mut shadow = Shadow::new(32);
        assert!(shadow.rows(0, 1, row(&one, 0, 0), true, &one));
        clocks.barrier(&[(0, 3, true), (1, 3, true)]);
        let four = actor(4, &clocks);
        assert!(shadow.rows(0, 1, row(&four, 32, 0), false, &four));
        // What was read by the other warp since may not be overwritten.
        let five = actor(5, &clocks);
        assert!(!shadow.rows(0, 1, row(&five, 0, 0), true, &five));
        assert!(shadow.cell(0).write(&five, 0, 0xF, false, false).is_some());
    }

    #[test]
    fn atomic_rows_race_with_all_but_their_like() {
        let clocks = Clocks::new(2);
        let atomic = |actor: &Actor<'_>, thread| Row { mark: actor.mark(thread, 0xF, true), shift: 0 };
        let mut shadow = Shadow::new(32);
        let one = actor(1, &clocks);
        assert!(shadow.rows(0, 1, atomic(&one, 0), true, &one));
        let two = actor(2, &clocks);
        assert!(shadow.rows(0, 1, atomic(&two, 32), true, &two), "another warp may add as well");
        assert!(shadow.rows(0, 1, atomic(&two, 32), false, &two), "and may look, if it does so atomically");
        // Of two that look, both are remembered.
        let mut looked_at = Shadow::new(32);
        assert!(looked_at.rows(0, 1, atomic(&one, 0), false, &one));
        assert!(!looked_at.rows(0, 1, atomic(&two, 32), false, &two));
        for cell in 0..32 {
            assert!(looked_at.cell(cell).read(&two, 32 + cell as u16, 0xF, true).is_none());
        }
        let later = actor(3, &clocks);
        assert!(looked_at.cell(0).write(&later, 32, 0xF, false, false).is_some());
        // Whoever only reads races, once the line has fallen apart as well.
        let three = actor(3, &clocks);
        assert!(!shadow.rows(0, 1, row(&three, 0, 0), false, &three));
        let race = shadow.cell(5).read(&three, 5, 0xF, false).expect("nothing orders them");
        assert_eq!((race.thread, race.pc, race.atomic), (37, 2, true));
        // An atomic write hides no plain one before it.
        let mut shadow = Shadow::new(32);
        assert!(shadow.rows(0, 1, row(&one, 0, 0), true, &one));
        assert!(!shadow.rows(0, 1, atomic(&two, 32), true, &two));
        assert!(shadow.rows(0, 1, atomic(&two, 0), true, &two), "the same threads are in order");
        assert!(!shadow.rows(0, 1, atomic(&three, 32), true, &three));
        assert_eq!(shadow.cell(0).write(&three, 32, 0xF, true, false).expect("a race").pc, 1);
    }

    #[test]
    fn other_threads_of_a_warp_need_an_order_as_well() {
        let clocks = Clocks::new(1);
        let mut shadow = Shadow::new(64);
        let one = actor(1, &clocks);
        assert!(shadow.rows(0, 1, row(&one, 0, 0), true, &one));
        let two = actor(2, &clocks);
        assert!(!shadow.rows(0, 1, row(&two, 0, 1), false, &two), "cell 1 is now of thread 0");
    }
}
