//! What is remembered of the words of a buffer, its cells: of whole lines where warps access whole lines, of lines of owners where each thread
//! has cells of its own, and of pieces of lines elsewhere.

use super::{Actor, Cell, Mark, NONE};

/// Cells of a buffer, 32 to a line.
///
/// What warps mostly do is to access whole lines, lane by lane. Such a line remembers one mark for all of its cells. Next to that they let each
/// thread access cells of its own; such a line remembers once whose they are, and of each cell when it was used and by which instruction. As
/// soon as somebody does something else with a part of a line, it remembers all of each piece, as small as the smallest access, until the whole
/// is written again.
#[derive(Debug, Default)]
pub(crate) struct Shadow {
    lines: Vec<Line>,
    /// How many of them have fallen apart, into cells or into what is whose.
    apart: usize,
}

/// Lines of a buffer that may fall apart: 1.3 GB if all do so into single cells.
const APART_MAX: usize = 1 << 19;

/// Cells of a line.
pub(crate) const LINE: usize = 32;

#[derive(Debug, Default)]
enum Line {
    /// Nobody was here.
    #[default]
    Clean,
    Whole(Whole),
    Own(Box<Own>),
    Pieces(Pieces),
}

/// A line whose cells were only accessed so many together, as a power of two, and remember the same.
#[derive(Debug)]
struct Pieces {
    shift: u8,
    each: Box<[Cell]>,
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

/// Cells that only one thread each accessed, and nobody in a way that cannot race with its like.
#[derive(Debug)]
struct Own {
    owner: Owner,
    cells: [Uses; LINE],
}

/// Whose the cells of a line are.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Owner {
    block: u32,
    /// The first cell's.
    thread: u16,
    /// Cells of a thread, as a power of two.
    shift: u8,
    /// Which bytes of each cell were accessed.
    bytes: u8,
}

/// When a cell was written and read last.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Uses {
    write: Use,
    read: Use,
}

/// When, and by which instruction.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Use {
    tick: u32,
    pc: u32,
}

impl Use {
    fn of(mark: &Mark) -> Use {
        Use { tick: mark.tick, pc: mark.pc }
    }
}

impl Owner {
    fn of(row: &Row) -> Owner {
        let Row { mark: Mark { block, thread, bytes, .. }, shift } = *row;
        Owner { block, thread, shift, bytes }
    }

    fn thread_of(&self, cell: usize) -> u16 {
        self.thread + (cell as u16 >> self.shift)
    }

    /// Whether a cell is a thread's, who accesses these bytes of it.
    #[inline]
    fn owns(&self, cell: usize, by: &Mark) -> bool {
        (self.block, self.thread_of(cell), self.bytes) == (by.block, by.thread, by.bytes)
    }

    fn mark(&self, Use { tick, pc }: Use, cell: usize) -> Mark {
        let Owner { block, bytes, .. } = *self;
        if tick == NONE {
            return Mark::default();
        }
        Mark { tick, block, pc, thread: self.thread_of(cell), bytes, atomic: None }
    }
}

impl Own {
    /// Whether cells next to one another, so many as a power of two, were used together.
    fn is_in_pieces(&self, shift: u8) -> bool {
        let together = |piece: &[Uses]| piece.iter().all(|one| *one == piece[0]);
        self.owner.shift >= shift && self.cells.chunks_exact(1 << shift).all(together)
    }

    #[inline]
    fn note(&mut self, cells: u32, mark: &Mark, write: bool) {
        let now = Use::of(mark);
        let mut left = cells;
        while left != 0 {
            let uses = &mut self.cells[left.trailing_zeros() as usize];
            if write {
                *uses = Uses { write: now, read: Use::default() };
            } else {
                uses.read = now;
            }
            left &= left - 1;
        }
    }

    fn cell(&self, index: usize) -> Cell {
        let Uses { write, read } = self.cells[index];
        let [write, read] = [write, read].map(|one| self.owner.mark(one, index));
        let readers = if read.tick == NONE { 0 } else { 1 << read.warp() };
        Cell { write, read, readers, since: read.tick, ..Cell::default() }
    }
}

impl Whole {
    /// As of a [line](Line::owner).
    fn owner(&self) -> Result<Option<Owner>, ()> {
        let Whole { write, atomic, read } = self;
        let mut rows = [write, atomic, read].into_iter().filter(|row| row.mark.tick != NONE);
        let Some(first) = rows.next() else { return Ok(None) };
        let alike = |row: &Row| row.mark.atomic.is_none() && Owner::of(row) == Owner::of(first);
        if alike(first) && rows.all(alike) { Ok(Some(Owner::of(first))) } else { Err(()) }
    }

    /// Into how large pieces it can fall apart, as a power of two.
    fn shift(&self) -> u8 {
        let rows = [&self.write, &self.atomic, &self.read].into_iter();
        rows.filter(|row| row.mark.tick != NONE).map(|row| row.shift).min().unwrap_or(u8::MAX)
    }

    fn cell(&self, index: usize) -> Cell {
        let [write, atomic, read] = [&self.write, &self.atomic, &self.read].map(|row| match row.mark.tick {
            NONE => Mark::default(),
            _ => row.cell(index),
        });
        let readers = if read.tick == NONE { 0 } else { 1 << read.warp() };
        Cell { write, atomic, read, readers, since: read.tick, ..Cell::default() }
    }
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
            Line::Clean | Line::Own(_) | Line::Pieces(_) => None,
        }
    }

    /// Whether it has not fallen apart.
    fn is_together(&self) -> bool {
        matches!(self, Line::Clean | Line::Whole(_))
    }

    /// Whose the cells are, if each was only accessed by one thread and in one way; none where nobody was.
    #[inline]
    fn owner(&self) -> Result<Option<Owner>, ()> {
        match self {
            Line::Clean => Ok(None),
            Line::Whole(whole) => whole.owner(),
            Line::Own(own) => Ok(Some(own.owner)),
            Line::Pieces(_) => Err(()),
        }
    }

    /// Makes it a line of this owner's cells, who was found to be theirs if they had one.
    #[inline]
    fn own(&mut self, owner: Owner) -> &mut Own {
        if let Line::Clean | Line::Whole(_) = self {
            self.become_own(owner);
        }
        match self {
            Line::Own(own) => own,
            _ => unreachable!("pieces have no owner"),
        }
    }

    /// Happens once a line.
    #[inline(never)]
    fn become_own(&mut self, owner: Owner) {
        let own = match self {
            Line::Clean => Own { owner, cells: [Uses::default(); LINE] },
            Line::Whole(Whole { write, read, .. }) => {
                let uses = Uses { write: Use::of(&write.mark), read: Use::of(&read.mark) };
                Own { owner, cells: [uses; LINE] }
            }
            Line::Own(_) | Line::Pieces(_) => return,
        };
        *self = Line::Own(Box::new(own));
    }

    /// What a cell remembers.
    fn cell(&self, index: usize) -> Cell {
        match self {
            Line::Clean => Cell::default(),
            Line::Whole(whole) => whole.cell(index),
            Line::Own(own) => own.cell(index),
            Line::Pieces(Pieces { shift, each }) => each[index >> shift],
        }
    }

    /// Falls apart into pieces of so many cells, as a power of two, or of fewer.
    fn pieces(&mut self, shift: u8) -> &mut Pieces {
        let shift = match self {
            Line::Pieces(pieces) if pieces.shift <= shift => None,
            Line::Clean | Line::Pieces(_) => Some(shift),
            Line::Whole(whole) => Some(shift.min(whole.shift())),
            Line::Own(own) => Some(if own.is_in_pieces(shift) { shift } else { 0 }),
        };
        if let Some(shift) = shift {
            let each = (0..LINE).step_by(1 << shift).map(|first| self.cell(first)).collect();
            *self = Line::Pieces(Pieces { shift, each });
        }
        match self {
            Line::Pieces(pieces) => pieces,
            Line::Clean | Line::Whole(_) | Line::Own(_) => unreachable!("it fell into pieces"),
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
        let Cell { write, atomic, .. } = self.cell(index);
        [write, atomic].into_iter().find(|mark| mark.tick != NONE && mark.bytes & bytes != 0)
    }

    /// The last write to so many bytes, if it is one of just these, of a kind that cannot race with its like. Cells have `width` bytes.
    pub fn last_atomic_write(&self, offset: usize, size: usize, width: usize) -> Option<Mark> {
        let last = |index: usize| {
            let Cell { write, atomic, .. } = self.cell(index);
            (atomic.tick > write.tick).then_some(atomic)
        };
        let first = last(offset / width)?;
        let is_it = |index: usize| {
            last(index).is_some_and(|mark| (mark.tick, mark.thread) == (first.tick, first.thread))
        };
        let (begin, end) = (offset / width, (offset + size).div_ceil(width));
        let bytes = if size < width { ((1 << size) - 1) << (offset % width) } else { (1 << width) - 1 };
        let whole =
            (begin..end).all(|index| is_it(index) && u32::from(self.cell(index).atomic.bytes) == bytes);
        let beside = [begin.checked_sub(1), Some(end).filter(|end| end / LINE < self.lines.len())];
        (whole && !beside.into_iter().flatten().any(is_it)).then_some(first)
    }

    /// What a cell remembers.
    #[inline]
    pub fn cell(&self, index: usize) -> Cell {
        self.lines[index / LINE].cell(index % LINE)
    }

    /// What some cells of one line remember that are accessed together: in pieces of as many cells each. How many they are is a power of two, of
    /// which the first is a multiple.
    #[inline]
    pub fn pieces(&mut self, first: usize, count: usize) -> &mut [Cell] {
        let line = &mut self.lines[first / LINE];
        self.apart += usize::from(line.is_together());
        let Pieces { shift, each } = line.pieces(count.trailing_zeros() as u8);
        &mut each[(first % LINE) >> *shift..][..count >> *shift]
    }

    /// What so many cells remember as one, if they are such a piece of a line.
    #[inline]
    pub fn piece(&mut self, first: usize, count: usize) -> Option<&mut Cell> {
        match &mut self.lines[first / LINE] {
            Line::Pieces(Pieces { shift, each }) if 1 << *shift == count => {
                Some(&mut each[(first % LINE) >> *shift])
            }
            _ => None,
        }
    }

    /// Whether no more can be remembered.
    pub fn is_full(&self) -> bool {
        self.apart > APART_MAX
    }

    /// Notes an access of a warp to whole lines, from the first of them on: `row` is that of the first. Notes nothing, and says so, where
    /// it may race or somebody accessed a part of a line: then each cell is to be looked at.
    #[inline]
    pub fn note_rows(
        &mut self,
        first: usize,
        count: usize,
        row: Row,
        write: bool,
        actor: &Actor<'_>,
    ) -> bool {
        let lines = &mut self.lines[first..first + count];
        let at = |line: usize| Row { mark: row.cell(line * LINE), ..row };
        let atomic = row.mark.atomic.is_some();
        let clear = lines.iter_mut().enumerate().all(|(index, line)| {
            let row = at(index);
            let is_before = |earlier: &Row| row.mark.is_like(&earlier.mark) || earlier.is_before(&row, actor);
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

    /// Notes an access of some threads of a warp, `lanes`, to cells of their own, from the first line on: `row` is that of all threads to all of
    /// the lines. Notes nothing, and says so, where a cell may be of another thread as well.
    #[inline]
    pub fn note_own(&mut self, first: usize, count: usize, row: Row, lanes: u32, write: bool) -> bool {
        if row.mark.atomic.is_some() {
            return false;
        }
        let of = |line: usize| Owner::of(&Row { mark: row.cell(line * LINE), ..row });
        let cells = |line: usize| spread(lanes >> (line * (LINE >> row.shift)), row.shift);
        let is_own = |line: usize| {
            cells(line) == 0
                || self.lines[first + line].owner().is_ok_and(|owner| owner.is_none_or(|it| it == of(line)))
        };
        if !(0..count).all(is_own) {
            return false;
        }
        for index in (0..count).filter(|&index| cells(index) != 0) {
            let line = &mut self.lines[first + index];
            self.apart += usize::from(line.is_together());
            line.own(of(index)).note(cells(index), &row.mark, write);
        }
        true
    }

    /// The same for a thread and cells of a line, so many from `first` on; `shift` says of how many cells the access is.
    #[inline]
    pub fn note_own_cells(
        &mut self,
        first: usize,
        count: usize,
        mark: &Mark,
        shift: u8,
        write: bool,
    ) -> bool {
        if mark.atomic.is_some() {
            return false;
        }
        let (line, cell) = (&mut self.lines[first / LINE], first % LINE);
        let cells = u32::MAX >> (LINE - count) << cell;
        let is_of = |owner: &Owner| owner.owns(cell, mark) && owner.owns(cell + count - 1, mark);
        if let Line::Own(own) = line {
            let is_own = is_of(&own.owner);
            if is_own {
                own.note(cells, mark, write);
            }
            return is_own;
        }
        let Mark { block, thread, bytes, .. } = *mark;
        let owner = match line.owner() {
            Err(()) => return false,
            Ok(Some(owner)) => owner,
            Ok(None) => {
                // It is guessed that lanes lie side by side, or else that a thread has all to itself.
                let lane = usize::from(thread) % LINE;
                let beside = (first % (LINE << shift)) >> shift == lane;
                let shift = if beside { shift } else { LINE.ilog2() as u8 };
                Owner { block, thread: thread - (cell as u16 >> shift), shift, bytes }
            }
        };
        if !is_of(&owner) {
            return false;
        }
        self.apart += usize::from(line.is_together());
        line.own(owner).note(cells, mark, write);
        true
    }

    /// Lines that were written as a whole remember that alone.
    #[inline]
    pub fn make_whole(&mut self, first: usize, count: usize, row: Row) {
        for (index, line) in self.lines[first..first + count].iter_mut().enumerate() {
            let only_written = match line {
                Line::Clean | Line::Whole(_) => false,
                Line::Own(_) => true,
                // What was done atomically is not forgotten: it may race with other things than a write does.
                Line::Pieces(Pieces { each, .. }) => each.iter().all(|cell| cell.atomic.tick == NONE),
            };
            if only_written {
                let write = Row { mark: row.cell(index * LINE), ..row };
                *line = Line::Whole(Whole { write, ..Whole::default() });
                self.apart -= 1;
            }
        }
    }
}

/// The cells of lanes, each of which has so many, as a power of two.
#[inline]
fn spread(lanes: u32, shift: u8) -> u32 {
    if shift == 0 {
        return lanes;
    }
    let (width, each) = (1u32 << shift, u32::MAX >> (32 - (1u32 << shift)));
    let of_lane = |lane: u32| if lanes >> lane & 1 == 1 { each << (lane * width) } else { 0 };
    (0..LINE as u32 >> shift).fold(0, |cells, lane| cells | of_lane(lane))
}

#[cfg(test)]
mod tests {
    use super::super::Clocks;
    use super::*;
    use crate::program::Scope;

    fn actor(tick: u32, clocks: &Clocks) -> Actor<'_> {
        Actor { tick, block: 0, pc: tick, clocks, others: None, exchanges: None }
    }

    fn row(actor: &Actor<'_>, thread: u16, shift: u8) -> Row {
        Row { mark: actor.mark(thread, 0xF, None), shift }
    }

    fn read(shadow: &mut Shadow, cell: usize, actor: &Actor<'_>, thread: u16, atomic: bool) -> Option<Mark> {
        shadow.pieces(cell, 1)[0].read(actor, &actor.mark(thread, 0xF, atomic.then_some(Scope::Device)))
    }

    fn write(shadow: &mut Shadow, cell: usize, actor: &Actor<'_>, thread: u16, atomic: bool) -> Option<Mark> {
        shadow.pieces(cell, 1)[0].write(
            actor,
            &actor.mark(thread, 0xF, atomic.then_some(Scope::Device)),
            false,
        )
    }

    #[test]
    fn a_whole_line_falls_apart_into_what_its_cells_would_remember() {
        let clocks = Clocks::new(4);
        let mut shadow = Shadow::new(64);
        let one = actor(1, &clocks);
        assert!(shadow.note_rows(0, 2, row(&one, 32, 1), true, &one), "two lines of pairs");
        // The threads that wrote may read; others race.
        let two = actor(2, &clocks);
        for cell in 0..64 {
            let own = 32 + cell as u16 / 2;
            assert!(read(&mut shadow, cell, &two, own, false).is_none());
            let race = read(&mut shadow, cell, &two, 0, false).expect("nothing orders them");
            assert_eq!((race.thread, race.pc), (own, 1));
        }
    }

    #[test]
    fn rows_of_other_warps_need_a_barrier() {
        let mut clocks = Clocks::new(2);
        let mut shadow = Shadow::new(32);
        let one = actor(1, &clocks);
        assert!(shadow.note_rows(0, 1, row(&one, 0, 0), true, &one));
        let two = actor(2, &clocks);
        assert!(!shadow.note_rows(0, 1, row(&two, 32, 0), false, &two), "it may race, so cells are asked");
        assert!(read(&mut shadow, 3, &two, 35, false).is_some());
        let mut shadow = Shadow::new(32);
        assert!(shadow.note_rows(0, 1, row(&one, 0, 0), true, &one));
        clocks.barrier(&[(0, 3, true), (1, 3, true)]);
        let four = actor(4, &clocks);
        assert!(shadow.note_rows(0, 1, row(&four, 32, 0), false, &four));
        // What was read by the other warp since may not be overwritten.
        let five = actor(5, &clocks);
        assert!(!shadow.note_rows(0, 1, row(&five, 0, 0), true, &five));
        assert!(write(&mut shadow, 0, &five, 0, false).is_some());
    }

    #[test]
    fn atomic_rows_race_with_all_but_their_like() {
        let clocks = Clocks::new(2);
        let atomic =
            |actor: &Actor<'_>, thread| Row { mark: actor.mark(thread, 0xF, Some(Scope::Device)), shift: 0 };
        let mut shadow = Shadow::new(32);
        let one = actor(1, &clocks);
        assert!(shadow.note_rows(0, 1, atomic(&one, 0), true, &one));
        let two = actor(2, &clocks);
        assert!(shadow.note_rows(0, 1, atomic(&two, 32), true, &two), "another warp may add as well");
        assert!(
            shadow.note_rows(0, 1, atomic(&two, 32), false, &two),
            "and may look, if it does so atomically"
        );
        // Of two that look, both are remembered.
        let mut looked_at = Shadow::new(32);
        assert!(looked_at.note_rows(0, 1, atomic(&one, 0), false, &one));
        assert!(!looked_at.note_rows(0, 1, atomic(&two, 32), false, &two));
        for cell in 0..32 {
            assert!(read(&mut looked_at, cell, &two, 32 + cell as u16, true).is_none());
        }
        let later = actor(3, &clocks);
        assert!(write(&mut looked_at, 0, &later, 32, false).is_some());
        // Whoever only reads races, once the line has fallen apart as well.
        let three = actor(3, &clocks);
        assert!(!shadow.note_rows(0, 1, row(&three, 0, 0), false, &three));
        let race = read(&mut shadow, 5, &three, 5, false).expect("nothing orders them");
        assert_eq!((race.thread, race.pc, race.atomic), (37, 2, Some(Scope::Device)));
        // An atomic write hides no plain one before it.
        let mut shadow = Shadow::new(32);
        assert!(shadow.note_rows(0, 1, row(&one, 0, 0), true, &one));
        assert!(!shadow.note_rows(0, 1, atomic(&two, 32), true, &two));
        assert!(shadow.note_rows(0, 1, atomic(&two, 0), true, &two), "the same threads are in order");
        assert!(!shadow.note_rows(0, 1, atomic(&three, 32), true, &three));
        assert_eq!(write(&mut shadow, 0, &three, 32, true).expect("a race").pc, 1);
    }

    #[test]
    fn other_threads_of_a_warp_need_an_order_as_well() {
        let clocks = Clocks::new(1);
        let mut shadow = Shadow::new(64);
        let one = actor(1, &clocks);
        assert!(shadow.note_rows(0, 1, row(&one, 0, 0), true, &one));
        let two = actor(2, &clocks);
        assert!(!shadow.note_rows(0, 1, row(&two, 0, 1), false, &two), "cell 1 is now of thread 0");
    }
}
