//! What is wrong with an access: where it may not go, what nobody has written, and whom it races with.

use std::sync::Arc;

use crate::fault::{Kind, Line};
use crate::memory::Role;
use crate::program::{LANES, Op};
use crate::shadow::{Actor, Cell, LINE, Mark, Release, Row, Shadow};

use super::block::Block;
use super::place::{Group, Request, Target, Way, words};
use super::warp::{Warp, lanes};
use super::{Machine, cell_bytes};

/// A warp sees what others of its block let be seen by what they put there.
pub(super) fn take_over(group: &Group, mask: u32, warp: &Warp, block: &mut Block) {
    if block.handed.is_empty() {
        return;
    }
    for location in lanes(mask).filter_map(|lane| group.location(lane)) {
        for location in
            [Some(location), block.handed_together.then(|| together(location))].into_iter().flatten()
        {
            if let Some(seen) = block.handed.get(&location) {
                block.clocks.join(warp.index, seen);
            }
        }
    }
}

/// Locations of global memory at which warps of a block let each other see, each of which is remembered by itself.
const HANDED_MAX: usize = 1 << 12;

/// Where what is let be seen at any more of them is remembered, together with what is at others: who sees one sees all of these.
fn together(location: u64) -> u64 {
    (1 << 63) | (super::mix(location) % 1024)
}

/// Notes an access to cells of `width` bytes, and gives the lanes that race, with what. `same` are lanes that write what is there already.
fn note(
    shadow: &mut Shadow,
    width: usize,
    (group, mask, same): (&Group, u32, u32),
    request: &Request,
    actor: &Actor<'_>,
) -> Vec<(usize, Mark)> {
    let &Request { way, size, atomic, .. } = request;
    let write = way != Way::Read;
    // Whole lines that lanes share evenly.
    let begin = if group.row && size >= width { group.begin(mask, size) } else { None };
    let Some(begin) = begin.filter(|begin| begin.is_multiple_of(LINE * width)) else {
        return note_each(shadow, width, (group, mask, same), request, actor);
    };
    let (line, lines) = (begin / (LINE * width), size / width);
    let mark = actor.mark(request.thread(0), ((1u32 << width) - 1) as u8, atomic);
    let row = Row { mark, shift: lines.trailing_zeros() as u8 };
    if mask == u32::MAX && shadow.note_rows(line, lines, row, write, actor) {
        return Vec::new();
    }
    let races = if shadow.note_own(line, lines, row, mask, write) {
        Vec::new()
    } else {
        note_each(shadow, width, (group, mask, same), request, actor)
    };
    if mask == u32::MAX && write && atomic.is_none() {
        shadow.make_whole(line, lines, row);
    }
    races
}

/// Those of some lanes that change something, then those that write what is there already: they come last, so that they hide nobody.
fn changing_first(mask: u32, same: u32) -> [u32; 2] {
    [mask & !same, mask & same]
}

/// The same, lane by lane.
fn note_each(
    shadow: &mut Shadow,
    width: usize,
    (group, mut mask, same): (&Group, u32, u32),
    request: &Request,
    actor: &Actor<'_>,
) -> Vec<(usize, Mark)> {
    let &Request { way, size, atomic, .. } = request;
    let write = way != Way::Read;
    let shift = (size / width).max(1).trailing_zeros() as u8;
    let mark = |lane: usize, bytes: u8| actor.mark(request.thread(lane), bytes, atomic);
    if group.one && !write && !mask.is_power_of_two() {
        let (first, last) = (mask.trailing_zeros() as usize, 31 - mask.leading_zeros() as usize);
        let mut words = words(group.offsets[first] as usize, size, width);
        if words.all(|(word, bytes)| shadow.cell(word).may_be_read(actor, &mark(first, bytes))) {
            // The first and the last lane leave what all of them would.
            mask = 1 << first | 1 << last;
        }
    }
    let mut races = Vec::new();
    let mut note = |lane: usize, first: usize, count: usize, bytes: u8| {
        let mark = mark(lane, bytes);
        let note_cell = |cell: &mut Cell| match way {
            Way::Read => cell.read(actor, &mark),
            Way::Write | Way::Atomic => cell.write(actor, &mark, same >> lane & 1 == 1),
        };
        // A line in such pieces has no owner and falls no further apart.
        if let Some(piece) = shadow.piece(first, count) {
            if let Some(race) = note_cell(piece) {
                races.extend(std::iter::repeat_n((lane, race), count));
            }
            return;
        }
        if shadow.note_own_cells(first, count, &mark, shift, write) {
            return;
        }
        let pieces = shadow.pieces(first, count);
        let alike = count / pieces.len();
        for race in pieces.iter_mut().filter_map(note_cell) {
            races.extend(std::iter::repeat_n((lane, race), alike));
        }
    };
    let (count, bytes, log_width) =
        (1 << shift, ((1u32 << size.min(width)) - 1) as u8, width.trailing_zeros());
    for some in changing_first(mask, same) {
        for lane in lanes(some) {
            let offset = group.offsets[lane] as usize;
            if offset & (size - 1) == 0 {
                // Whole cells of one line, or a part of one cell.
                note(lane, offset >> log_width, count, bytes << (offset & (width - 1)));
            } else {
                words(offset, size, width).for_each(|(word, bytes)| note(lane, word, 1, bytes));
            }
        }
    }
    races
}

impl Machine<'_> {
    /// The lanes that may access what they ask for. The others have a fault.
    #[inline(always)]
    pub(super) fn admit(&mut self, group: &Group, request: &Request, block: &Block) -> u32 {
        let size = request.size as u64;
        let length = match group.target {
            Target::Global(place) => self.memory.at(place).bytes.len() as u64,
            Target::Shared => block.shared.len() as u64,
            Target::Local => self.kernel.local_bytes.into(),
            Target::Param => self.params.len() as u64,
            Target::Nowhere => 0,
        };
        let closed = request.way != Way::Read
            && match group.target {
                Target::Global(place) => {
                    self.memory.at(place).role() == Role::Input || self.is_constant(place)
                }
                Target::Param => true,
                Target::Shared | Target::Local | Target::Nowhere => false,
            };
        if (group.one || group.row && group.target != Target::Local) && !closed {
            let (first, last) = group.ends(group.mask);
            if first & (size - 1) == 0
                && length >= size
                && first <= last
                && last <= length - size
                && !(group.target == Target::Shared && self.kernel.shared.has_gap_in(first, last + size))
            {
                return group.mask;
            }
        }
        let (mut outside, mut askew) = (0u32, 0u32);
        let last = length.wrapping_sub(size);
        for lane in 0..LANES {
            let offset = group.offsets[lane];
            outside |= u32::from(offset > last) << lane;
            askew |= u32::from(offset & (size - 1) != 0) << lane;
        }
        if group.target == Target::Shared {
            outside |= self.kernel.shared.in_gaps(&group.offsets, size);
        }
        outside = if length < size { u32::MAX } else { outside } & group.mask;
        askew &= group.mask & !outside;
        if outside != 0 {
            self.outside(group, request, outside, length, block);
        }
        if askew != 0 {
            let lane = askew.trailing_zeros() as usize;
            let spot = self.spot(group.target, group.offsets[lane]);
            let who = (block, request.thread(lane));
            self.fault(Kind::Misaligned, request.pc, None, askew.count_ones().into(), who, || {
                format!("{} {size} bytes at {spot}, which is no multiple of {size}", request.way.verb())
            });
        }
        // What is askew is fetched as it lies there, so that no other fault follows from it.
        let mut admitted = group.mask & !outside;
        if closed && admitted != 0 {
            let lane = admitted.trailing_zeros() as usize;
            let spot = self.spot(group.target, group.offsets[lane]);
            let who = (block, request.thread(lane));
            self.fault(Kind::WriteToInput, request.pc, None, admitted.count_ones().into(), who, || {
                format!("{} {spot}, which is only to be read", request.way.verb())
            });
            admitted = 0;
        }
        admitted
    }

    fn outside(&mut self, group: &Group, request: &Request, outside: u32, length: u64, block: &Block) {
        let lane = outside.trailing_zeros() as usize;
        let place = self.place_name(group.target);
        let offset = group.offsets[lane];
        let spot = match group.target {
            Target::Shared => self.kernel.shared.spot(offset).with_length(length),
            _ => format!("byte {offset} of {place}, which has {length}"),
        };
        let target = group.target;
        let who = (block, request.thread(lane));
        self.fault(Kind::OutOfBounds, request.pc, None, outside.count_ones().into(), who, || {
            let verb = request.way.verb();
            let size = request.size;
            match target {
                Target::Nowhere if offset >> 16 == 0 => {
                    format!("{verb} {size} bytes at address {offset}: a null pointer")
                }
                Target::Nowhere => format!("{verb} {size} bytes at {offset:#x}, where there is no buffer"),
                _ if (offset as i64) < 0 => {
                    format!("{verb} {size} bytes {} bytes before {place}", (offset as i64).unsigned_abs())
                }
                _ => format!("{verb} {size} bytes at {spot}"),
            }
        });
    }

    /// Faults for lanes that read what nobody wrote.
    #[inline(always)]
    pub(super) fn check_written(
        &mut self,
        group: &Group,
        starts: &[usize; LANES],
        mask: u32,
        request: &Request,
        warp: &Warp,
        block: &Block,
    ) {
        if !self.seeks_races() {
            return;
        }
        let size = request.size;
        let written = match group.target {
            Target::Global(place) => match &self.memory.at(place).written {
                Some(written) => written,
                None => return,
            },
            Target::Shared => &block.shared_written,
            Target::Local => &block.local_written,
            Target::Param | Target::Nowhere => return,
        };
        if group.target != Target::Local {
            let first = starts[mask.trailing_zeros() as usize];
            let last = starts[31 - mask.leading_zeros() as usize];
            if group.one && written.has(first, size)
                || group.row && written.has_range(first, last + size - first)
            {
                return;
            }
        }
        let mut unwritten = 0u32;
        for lane in lanes(mask) {
            unwritten |= u32::from(!written.has(starts[lane], size)) << lane;
        }
        if unwritten != 0 {
            let lane = unwritten.trailing_zeros() as usize;
            let offset = group.offsets[lane];
            let spot = self.spot(group.target, offset);
            let who = (block, request.thread(lane));
            let kernel = self.kernel;
            let shared = group.target == Target::Shared;
            self.fault(Kind::Uninitialised, request.pc, None, unwritten.count_ones().into(), who, || {
                let mut warps = block.warps.iter().chain([warp]).filter(|_| shared);
                let copy = warps.find_map(|warp| warp.copies.under_way(offset..offset + size as u64));
                let why = match copy {
                    Some(pc) => {
                        let line = Line::of(kernel, pc);
                        format!("where the copy of {line} has not been waited for")
                    }
                    None => "which nobody has written".to_owned(),
                };
                format!("reads {size} bytes at {spot}, {why}")
            });
        }
    }

    /// Notes an access for those who come later, and races with those before. `same` are lanes that write what is there already.
    #[inline(always)]
    pub(super) fn check_races(
        &mut self,
        group: &Group,
        mask: u32,
        same: u32,
        request: &Request,
        block: &mut Block,
    ) {
        if !self.seeks_races() {
            return;
        }
        let (tick, pc) = (self.tick, request.pc);
        let races = match group.target {
            Target::Shared => {
                let Block { shared_shadow, clocks, index, exchanged, .. } = block;
                let exchanges = Some((&self.exchanges, &**exchanged));
                let actor = Actor { tick, block: *index, pc, clocks, others: None, exchanges };
                note(shared_shadow, 4, (group, mask, same), request, &actor)
            }
            Target::Global(place) => {
                let Some(shadow) = &mut self.shadows[place] else { return };
                let others = Some((&self.releases, &block.acquired));
                let exchanges = Some((&self.exchanges, &*block.exchanged));
                let actor = Actor { tick, block: block.index, pc, clocks: &block.clocks, others, exchanges };
                let cell = cell_bytes(self.memory.at(place).element());
                note(shadow, cell, (group, mask, same), request, &actor)
            }
            Target::Local | Target::Param | Target::Nowhere => return,
        };
        if let Target::Global(place) = group.target
            && self.shadows[place].as_ref().is_some_and(Shadow::is_full)
        {
            // Parts of more lines are accessed than can be remembered, which is no fault.
            self.shadows[place] = None;
            self.unfollowed = true;
        }
        for (lane, other) in races {
            self.note_race(group, lane, &other, request, block);
        }
    }

    /// Faults for lanes that read, through a cache that sees no writes, what this launch has written. Gives these lanes.
    pub(super) fn check_stale(&mut self, group: &Group, mask: u32, request: &Request, block: &Block) -> u32 {
        let Target::Global(place) = group.target else { return 0 };
        let Some(shadow) = &self.shadows[place] else { return 0 };
        let cell = cell_bytes(self.memory.at(place).element());
        let writer = |lane: usize| {
            let mut words = words(group.offsets[lane] as usize, request.size, cell);
            words.find_map(|(word, bytes)| shadow.writer(word, bytes))
        };
        let stale: Vec<(usize, Mark)> = lanes(mask).filter_map(|lane| Some((lane, writer(lane)?))).collect();
        let Some(&(lane, by)) = stale.first() else { return 0 };
        let who = (block, request.thread(lane));
        let spot = self.spot(group.target, group.offsets[lane]);
        let kernel = self.kernel;
        self.fault(Kind::StaleRead, request.pc, Some(by.pc), stale.len() as u64, who, || {
            let line = Line::of(kernel, by.pc);
            format!(
                "reads {spot} through a cache that need not see what this launch writes (`__ldg`, or a pointer that is both \
                 `const` and `__restrict__`), and {line} has written it"
            )
        });
        stale.iter().fold(0, |lanes, (lane, _)| lanes | 1 << lane)
    }

    fn note_race(&mut self, group: &Group, lane: usize, other: &Mark, request: &Request, block: &Block) {
        // One of them lands, whatever else lanes of one instruction do at the same time.
        let at_once = (other.tick, other.pc) == (self.tick, request.pc);
        let kind = match group.target {
            _ if at_once => Kind::ContestedWrite,
            Target::Shared => Kind::SharedRace,
            _ => Kind::GlobalRace,
        };
        let with = (!at_once).then_some(other.pc);
        if self.faults.again(kind, request.pc, with, 1) {
            return;
        }
        let spot = self.spot(group.target, group.offsets[lane]);
        let who = (block, request.thread(lane));
        let (others, other_pc) = (self.thread(self.place_of(other.block), other.thread), other.pc);
        let same_block = other.block == block.index;
        let kernel = self.kernel;
        self.fault(kind, request.pc, with, 1, who, || {
            if at_once {
                return format!(
                    "writes {spot} at the same time as {}, and another value: one of them lands, and nothing says which",
                    others.in_block()
                );
            }
            let line = Line::of(kernel, other_pc);
            let whom = if same_block { others.in_block() } else { others.to_string() };
            let did = match kernel.code[other_pc as usize].op {
                Op::Load(_) | Op::LoadMatrix { .. } => "read",
                Op::Store(_) => "wrote",
                Op::Atomic(..) => "changed",
                Op::CopyAsync(_) => "copied to",
                _ => "used",
            };
            let same_warp = same_block && other.warp() == request.warp;
            let hint = match (same_warp, request.atomic, other.atomic) {
                (true, ..) => " (a shuffle or a vote does not, `__syncwarp()` does)",
                (_, Some(_), Some(_)) => " (what is atomic in the scope of a block is not atomic to other blocks)",
                _ => "",
            };
            format!(
                "{} {spot}, which {whom} {did} at {line} with nothing to order them{hint}",
                request.way.verb()
            )
        });
    }

    /// Notes plain reads of the same words that the warp did since it last met.
    pub(super) fn note_tried(&mut self, group: &Group, mask: u32, warp: &Warp, block: &Block) {
        let (shadow, cell) = match group.target {
            Target::Shared => (&block.shared_shadow, 4),
            Target::Global(place) => match &self.shadows[place] {
                Some(shadow) => (shadow, cell_bytes(self.memory.at(place).element())),
                None => return,
            },
            Target::Local | Target::Param | Target::Nowhere => return,
        };
        for lane in lanes(mask) {
            let read = shadow.cell(group.offsets[lane] as usize / cell).read;
            let own = read.tick != 0 && read.block == block.index && read.warp() == warp.index;
            if own && read.atomic.is_none() && !block.clocks.sees(warp.index, &read) {
                self.tried.insert(read.pc);
            }
        }
    }

    /// Within a block, what a warp did before is visible to whoever sees what was put there: all of it by an operation that releases, what
    /// came before its last fence by any other.
    pub(super) fn hand_over(
        &mut self,
        group: &Group,
        mask: u32,
        releases: bool,
        warp: &Warp,
        block: &mut Block,
    ) {
        if !self.seeks_races() {
            return;
        }
        let ticks = if releases { [self.tick; LANES] } else { warp.fenced_for_block };
        for lane in lanes(mask).filter(|&lane| ticks[lane] != 0) {
            let Some(mut location) = group.location(lane) else { return };
            let is_global = matches!(group.target, Target::Global(_));
            if is_global && block.handed.len() >= HANDED_MAX && !block.handed.contains_key(&location) {
                location = together(location);
                block.handed_together = true;
                self.unfollowed = true;
            }
            block.let_see(location, warp.index, ticks[lane]);
        }
    }

    /// A block sees what others let be seen by what they put at these addresses.
    pub(super) fn acquire(&mut self, addresses: &[u64; LANES], mask: u32, block: &mut Block) {
        if !self.releases.is_empty() {
            let Block { index, acquired, .. } = block;
            let now = self.tick;
            lanes(mask).for_each(|lane| self.releases.acquire(addresses[lane], now, *index, acquired));
        }
    }

    /// What a block did before is visible to whoever sees what was put at these addresses: all of it by an operation that releases, what came
    /// before its last fence by any other.
    pub(super) fn release(
        &mut self,
        addresses: &[u64; LANES],
        mask: u32,
        releases: bool,
        warp: &Warp,
        block: &Block,
    ) {
        if !self.seeks_races() || self.releases.given_up() {
            return;
        }
        let ticks = if releases { [self.tick; LANES] } else { warp.fenced };
        let mut shared = None;
        for lane in lanes(mask).filter(|&lane| ticks[lane] != 0) {
            let seen = shared.get_or_insert_with(|| {
                let row = block.clocks.row(warp.index);
                if releases { Arc::from(row) } else { Arc::from(block.fenced(warp.index)) }
            });
            let release = Release::new(ticks[lane], self.tick, warp.index, block.index, seen);
            self.releases.release(addresses[lane], release);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::place::pattern;
    use super::*;
    use crate::program::Scope;
    use crate::shadow::Clocks;

    /// Warps of a block.
    const WARPS: usize = 3;
    /// Cells of the buffer.
    const CELLS: usize = 4 * LINE;

    struct Draw(u64);

    impl Draw {
        fn below(&mut self, most: usize) -> usize {
            self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
            (super::super::mix(self.0) % most as u64) as usize
        }
    }

    /// An access of lanes as a kernel makes them: in rows with and without gaps, that may begin before the buffer or end behind it, of one
    /// place, of columns, and anywhere, now and then askew; and the lanes that are admitted.
    fn access(draw: &mut Draw, size: usize, warp: usize, length: usize) -> (Group, u32) {
        let most = length - size;
        let mask = match draw.below(3) {
            0 => u32::MAX,
            1 => (draw.below(usize::MAX) as u32).max(1),
            _ => 1 << draw.below(LANES),
        };
        let begin = (size * LANES * draw.below((length / (size * LANES)).max(1))) as u64;
        let own = begin as usize / size;
        let offsets: [u64; LANES] = match draw.below(7) {
            0..=2 => std::array::from_fn(|lane| begin + (size * lane) as u64),
            3 => [begin; LANES],
            // A place of a list of each lane's own, whose lists may lie side by side or one behind the other.
            4 => std::array::from_fn(|lane| {
                let place = own + lane + LANES * draw.below(4) + warp;
                (size * (place % (length / size))) as u64
            }),
            5 => {
                let begin = (size * draw.below(2 * length / size)) as u64;
                std::array::from_fn(|lane| (begin + (size * lane) as u64).wrapping_sub(length as u64 / 2))
            }
            _ => std::array::from_fn(|_| (draw.below(most) / size * size) as u64),
        };
        let askew = if draw.below(8) == 0 { draw.below(size) as u64 } else { 0 };
        let offsets = offsets.map(|offset| offset.wrapping_add(askew));
        let (row, one) = pattern(&offsets, mask, size);
        let inside = lanes(mask).filter(|&lane| offsets[lane] <= most as u64);
        let admitted = inside.fold(0, |admitted, lane| admitted | 1 << lane);
        (Group { target: Target::Shared, mask, offsets, row, one }, admitted)
    }

    /// What cells find that remember each by itself, whatever was done to their neighbours.
    fn note_apart(
        cells: &mut [Cell],
        width: usize,
        (group, mask, same): (&Group, u32, u32),
        request: &Request,
        actor: &Actor<'_>,
    ) -> Vec<(usize, Mark)> {
        let mut races = Vec::new();
        for lane in changing_first(mask, same).into_iter().flat_map(lanes) {
            let thread = request.thread(lane);
            for (word, bytes) in words(group.offsets[lane] as usize, request.size, width) {
                let (cell, mark) = (&mut cells[word], actor.mark(thread, bytes, request.atomic));
                let race = match request.way {
                    Way::Read => cell.read(actor, &mark),
                    Way::Write | Way::Atomic => cell.write(actor, &mark, same >> lane & 1 == 1),
                };
                races.extend(race.map(|race| (lane, race)));
            }
        }
        races
    }

    #[test]
    fn lines_find_the_races_that_their_cells_would() {
        let mut raced = 0;
        for seed in 0..1200 {
            let mut draw = Draw(seed);
            let width = [4, 4, 2, 1][draw.below(4)];
            let mut clocks = Clocks::new(WARPS);
            let (mut shadow, mut cells) = (Shadow::new(CELLS), vec![Cell::default(); CELLS]);
            // Most of a kernel's accesses are to what is a thread's own, or after a barrier.
            let (others, orders) = (1 + draw.below(40), 1 + draw.below(4));
            let (mut warp, mut block) = (0, 0);
            let mut reads = Vec::new();
            for tick in 1..120 {
                if draw.below(others) == 0 {
                    warp = draw.below(WARPS);
                    block = draw.below(8) as u32 / 7;
                    if draw.below(orders) != 0 {
                        let all: Vec<_> = (0..WARPS).map(|warp| (warp, tick, true)).collect();
                        clocks.barrier(&all);
                    }
                }
                if draw.below(4) == 0 {
                    clocks.meet(warp, tick);
                }
                let size = [4, 4, 4, 8, 16, 2, 1][draw.below(7)].min(4 * width);
                let (group, mask) = access(&mut draw, size, warp, CELLS * width);
                if mask == 0 {
                    continue;
                }
                let scope = [Scope::Block, Scope::Device, Scope::Device][draw.below(3)];
                let (way, atomic) = match draw.below(20) {
                    0 => (Way::Atomic, Some(scope)),
                    1 => (Way::Read, Some(scope)),
                    2..=9 => (Way::Read, None),
                    _ => (Way::Write, None),
                };
                let same = [0, 0, 0, u32::MAX, 0x5555_5555][draw.below(5)];
                if way == Way::Read {
                    reads.push(tick);
                }
                let was_read = |mark: &Mark| reads.contains(&mark.pc);
                let request = Request { way, size, pc: tick, atomic, warp };
                let actor = Actor { tick, block, pc: tick, clocks: &clocks, others: None, exchanges: None };
                let found = note(&mut shadow, width, (&group, mask, same), &request, &actor);
                let due = note_apart(&mut cells, width, (&group, mask, same), &request, &actor);
                // Of several who read any may be named.
                let racing = |races: &[(usize, Mark)]| -> Vec<_> {
                    let named = |mark: &Mark| (!was_read(mark)).then_some((mark.pc, mark.thread));
                    races.iter().map(|(lane, mark)| (*lane, named(mark))).collect()
                };
                assert_eq!(racing(&found), racing(&due), "seed {seed}, {request:?}, {group:?}");
                for (lane, mark) in &found {
                    let itself = mark.block == block && mark.thread == request.thread(*lane);
                    assert!(!itself, "seed {seed}, lane {lane} of {request:?}, {group:?}");
                }
                raced += due.len();
            }
        }
        assert!(raced > 1000, "{raced}");
    }
}
