//! Loads, stores and atomic operations: where each lane's address leads, whether it may go there, and what it costs.

use std::sync::Arc;

use crate::address::{self, LOCAL, PARAM, SHARED};
use crate::alu;
use crate::fault::Kind;
use crate::memory::{Bitmap, Role};
use crate::meter::{Count, SECTOR};
use crate::program::{Access, Atomic, AtomicType, Inst, Kernel, LANES, Op, Order, Reg, Scope, Space};
use crate::shadow::{Actor, LINE, Mark, Release, Row, Shadow};

use super::block::Block;
use super::warp::{Warp, lanes};
use super::{Machine, cell_bytes};

/// Where lanes of one access go to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Target {
    /// A buffer or a variable, by its place.
    Global(usize),
    Shared,
    Local,
    Param,
    /// Nothing is there.
    Nowhere,
}

/// Lanes that go to one place.
#[derive(Debug, Clone, Copy)]
pub(super) struct Group {
    target: Target,
    pub(super) mask: u32,
    pub(super) offsets: [u64; LANES],
    /// Whether the lanes lie beside one another in their order.
    row: bool,
    /// Whether all go to one address.
    one: bool,
}

impl Group {
    /// The offset of the first lane.
    fn first(&self) -> u64 {
        self.offsets[self.mask.trailing_zeros() as usize]
    }

    /// What tells where a lane goes to from all other places that threads share.
    fn location(&self, lane: usize) -> Option<u64> {
        match self.target {
            Target::Shared => Some(self.offsets[lane]),
            Target::Global(place) => Some((place as u64 + 1) << address::OFFSET_BITS | self.offsets[lane]),
            Target::Local | Target::Param | Target::Nowhere => None,
        }
    }

    /// Bytes from one lane's storage to the next one's, where that is the same for all. `size` is of what each accesses.
    fn step(&self, size: usize) -> Option<usize> {
        match self.target {
            Target::Local => None,
            _ if self.one => Some(0),
            _ => self.row.then_some(size),
        }
    }
}

/// A warp sees what others of its block let be seen by what they put there.
fn take_over(group: &Group, mask: u32, warp: &Warp, block: &mut Block) {
    if block.handed.is_empty() {
        return;
    }
    for location in lanes(mask).filter_map(|lane| group.location(lane)) {
        if let Some(seen) = block.handed.get(&location) {
            block.clocks.join(warp.index, seen);
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    Read,
    Write,
    Atomic,
}

impl Way {
    fn verb(self) -> &'static str {
        match self {
            Way::Read => "reads",
            Way::Write => "writes",
            Way::Atomic => "changes",
        }
    }
}

/// What is accessed, by whom.
#[derive(Debug, Clone, Copy)]
pub(super) struct Request {
    pub(super) way: Way,
    /// Bytes of a lane.
    pub(super) size: usize,
    pub(super) pc: u32,
    /// Whether it cannot race with its like.
    pub(super) strong: bool,
    pub(super) warp: usize,
}

impl Request {
    pub(super) fn thread(&self, lane: usize) -> u16 {
        (32 * self.warp + lane) as u16
    }
}

/// Addresses of all lanes, whether active or not.
#[inline(always)]
fn addresses(warp: &Warp, reg: Reg, wide: bool, offset: i32) -> [u64; LANES] {
    if wide {
        let values = &warp.regs.w64[reg.index()];
        alu::each_lane(|lane| values[lane].wrapping_add(offset as i64 as u64))
    } else {
        let values = &warp.regs.w32[reg.index()];
        alu::each_lane(|lane| u64::from(values[lane].wrapping_add(offset as u32)))
    }
}

/// Whether the lanes lie beside one another in their order.
#[inline(always)]
fn is_contiguous(offsets: &[u64; LANES], mask: u32, size: usize) -> bool {
    let first = mask.trailing_zeros() as usize;
    let begin = offsets[first].wrapping_sub((first * size) as u64);
    if mask == u32::MAX {
        let mut off = 0;
        for (lane, &offset) in offsets.iter().enumerate() {
            off |= offset ^ begin.wrapping_add((lane * size) as u64);
        }
        return off == 0;
    }
    // From the first lane to the last, without gaps.
    let span = mask >> first;
    span & span.wrapping_add(1) == 0
        && lanes(mask).all(|lane| offsets[lane] == begin.wrapping_add((lane * size) as u64))
}

/// Whether all lanes go to one address.
#[inline(always)]
fn is_one(offsets: &[u64; LANES], mask: u32) -> bool {
    let first = offsets[mask.trailing_zeros() as usize];
    let mut off = 0;
    for (lane, &offset) in offsets.iter().enumerate() {
        off |= (offset ^ first) & u64::from(mask >> lane & 1).wrapping_neg();
    }
    off == 0
}

/// The words of `cell` bytes that an access touches, and which bytes of each.
#[inline(always)]
fn words(offset: usize, size: usize, cell: usize) -> impl Iterator<Item = (usize, u8)> {
    let mut at = offset;
    std::iter::from_fn(move || {
        let (word, begin) = (at / cell, at % cell);
        let count = (cell - begin).min((offset + size).saturating_sub(at));
        at += count;
        (count > 0).then_some((word, (((1u32 << count) - 1) << begin) as u8))
    })
}

/// Different values among those of the lanes, shifted right: sorted, in the front of the array.
fn distinct(offsets: &[u64; LANES], mask: u32, shift: u32, out: &mut [u64; LANES]) -> usize {
    let mut count = 0;
    let mut sorted = true;
    for lane in lanes(mask) {
        let value = offsets[lane] >> shift;
        if count > 0 && out[count - 1] == value {
            continue;
        }
        sorted &= count == 0 || out[count - 1] < value;
        out[count] = value;
        count += 1;
    }
    if !sorted {
        out[..count].sort_unstable();
        let mut kept = 1;
        for index in 1..count {
            if out[index] != out[kept - 1] {
                out[kept] = out[index];
                kept += 1;
            }
        }
        count = kept;
    }
    count
}

/// Waves that shared memory takes for a request: each phase moves at most 128 bytes, a word of each bank.
fn waves(offsets: &[u64; LANES], mask: u32, size: usize) -> u64 {
    let lanes_at_once = if size <= 4 { 32 } else { 128 / size };
    let mut waves = 0;
    for phase in 0..LANES / lanes_at_once {
        let part = mask & (((1u64 << lanes_at_once) - 1) << (phase * lanes_at_once)) as u32;
        if part == 0 {
            continue;
        }
        let mut banks = [0u32; 32];
        let mut out = [0; LANES];
        if size <= 4 {
            let count = distinct(offsets, part, 2, &mut out);
            for &word in &out[..count] {
                banks[(word % 32) as usize] += 1;
            }
        } else {
            // Aligned values of several words: all words of a value are in other banks.
            let count = distinct(offsets, part, size.trailing_zeros(), &mut out);
            let words = size as u64 / 4;
            for &value in &out[..count] {
                for word in 0..words {
                    banks[((value * words + word) % 32) as usize] += 1;
                }
            }
        }
        waves += u64::from(*banks.iter().max().expect("there are 32"));
    }
    waves
}

impl Machine<'_> {
    /// The first lane of a mask, and those that go to the same place. Each accesses `size` bytes.
    #[inline(always)]
    pub(super) fn group(&self, space: Space, addresses: &[u64; LANES], mask: u32, size: usize) -> Group {
        let row = is_contiguous(addresses, mask, size);
        let one = if row { mask.is_power_of_two() } else { is_one(addresses, mask) };
        let target = match space {
            Space::Shared => Target::Shared,
            Space::Local => Target::Local,
            Space::Param => Target::Param,
            Space::Global | Space::Const | Space::Generic => {
                let first = addresses[mask.trailing_zeros() as usize];
                let last = addresses[31 - mask.leading_zeros() as usize];
                let segment = address::segment(first);
                // No buffer is so long that a row could leave a segment and come back.
                let same = if one || row && address::segment(last) == segment {
                    u32::MAX
                } else {
                    let mut same = 0;
                    for (lane, &address) in addresses.iter().enumerate() {
                        same |= u32::from(address::segment(address) == segment) << lane;
                    }
                    same
                };
                let target = match segment {
                    SHARED if space == Space::Generic => Target::Shared,
                    LOCAL if space == Space::Generic => Target::Local,
                    PARAM if space == Space::Generic => Target::Param,
                    segment => self.memory.place(segment).map_or(Target::Nowhere, Target::Global),
                };
                let offsets = match target {
                    Target::Nowhere => *addresses,
                    _ => alu::each_lane(|lane| address::offset(addresses[lane])),
                };
                let row = row && same == u32::MAX;
                return Group { target, mask: mask & same, offsets, row, one };
            }
        };
        Group { target, mask, offsets: *addresses, row, one }
    }

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
            let first = group.first();
            let bytes = if group.one { size } else { u64::from(group.mask.count_ones()) * size };
            if first & (size - 1) == 0 && length >= bytes && first <= length - bytes {
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
        outside = if length < size { u32::MAX } else { outside } & group.mask;
        askew &= group.mask & !outside;
        if outside != 0 {
            self.outside(group, request, outside, length, block);
        }
        if askew != 0 {
            let lane = askew.trailing_zeros() as usize;
            let place = self.place_name(group.target);
            let offset = group.offsets[lane];
            let who = (block, request.thread(lane));
            self.fault(Kind::Misaligned, request.pc, None, askew.count_ones().into(), who, || {
                format!(
                    "{} {size} bytes at byte {offset} of {place}, which is no multiple of {size}",
                    request.way.verb()
                )
            });
        }
        // What is askew is fetched as it lies there, so that no other fault follows from it.
        let mut admitted = group.mask & !outside;
        if closed && admitted != 0 {
            let lane = admitted.trailing_zeros() as usize;
            let place = self.place_name(group.target);
            let who = (block, request.thread(lane));
            self.fault(Kind::WriteToInput, request.pc, None, admitted.count_ones().into(), who, || {
                format!(
                    "{} byte {} of {place}, which is only to be read",
                    request.way.verb(),
                    group.offsets[lane]
                )
            });
            admitted = 0;
        }
        admitted
    }

    fn outside(&mut self, group: &Group, request: &Request, outside: u32, length: u64, block: &Block) {
        let lane = outside.trailing_zeros() as usize;
        let place = self.place_name(group.target);
        let offset = group.offsets[lane];
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
                _ => format!("{verb} {size} bytes at byte {offset} of {place}, which has {length}"),
            }
        });
    }

    fn place_name(&self, target: Target) -> String {
        match target {
            Target::Global(place) => format!("`{}`", self.memory.at(place).name()),
            Target::Shared => "shared memory".to_owned(),
            Target::Local => "local memory".to_owned(),
            Target::Param => "the parameters".to_owned(),
            Target::Nowhere => "no buffer".to_owned(),
        }
    }

    /// Counts what a request costs.
    #[inline(always)]
    pub(super) fn count(&mut self, group: &Group, mask: u32, request: &Request) {
        let bytes = u64::from(mask.count_ones()) * request.size as u64;
        match group.target {
            Target::Global(place) => {
                let write = request.way != Way::Read;
                let (asked, sectors) = if (group.row || group.one) && mask == group.mask {
                    let first = group.first();
                    let bytes = if group.one { request.size as u64 } else { bytes };
                    let (first, last) = (first / SECTOR, (first + bytes - 1) / SECTOR);
                    self.counts.touch(place, write, first, last - first + 1);
                    (bytes, last - first + 1)
                } else {
                    // An aligned access of at most 16 bytes lies in one sector, and is the same as another or apart from it.
                    let mut places = [0; LANES];
                    let count = distinct(&group.offsets, mask, 0, &mut places);
                    let mut sectors = 0;
                    for of_sector in places[..count].chunk_by(|a, b| a / SECTOR == b / SECTOR) {
                        self.counts.touch(place, write, of_sector[0] / SECTOR, 1);
                        sectors += 1;
                    }
                    ((count * request.size) as u64, sectors)
                };
                // Of atomics every lane's counts, whatever the others do.
                let bytes = if request.way == Way::Atomic { bytes } else { asked };
                self.counts.code[request.pc as usize].global.add(bytes, sectors);
                let meter = &mut self.counts.buffers[place];
                match request.way {
                    Way::Read => meter.read.add(bytes, sectors),
                    Way::Write => meter.written.add(bytes, sectors),
                    Way::Atomic => {
                        meter.read.add(bytes, sectors);
                        meter.written.add(bytes, sectors);
                        self.counts.touch_also_read(place, &group.offsets, mask);
                    }
                }
            }
            Target::Shared => {
                let waves = if group.row && mask == u32::MAX {
                    request.size.div_ceil(4) as u64
                } else if group.one && request.size <= 4 {
                    1
                } else {
                    waves(&group.offsets, mask, request.size)
                };
                let Count { shared, .. } = &mut self.counts.code[request.pc as usize];
                shared.requests += 1;
                shared.bytes += bytes;
                shared.waves += waves;
                shared.ideal_waves += waves.min(bytes.div_ceil(128));
            }
            Target::Local => {
                // A GPU lays the same word of all lanes side by side.
                let mut words = [0; LANES];
                for lane in lanes(mask) {
                    words[lane] = group.offsets[lane] / 4 * 128 + 4 * lane as u64;
                }
                let mut out = [0; LANES];
                let sectors =
                    distinct(&words, mask, SECTOR.trailing_zeros(), &mut out) * request.size.div_ceil(4);
                self.counts.local.add(bytes, sectors as u64);
            }
            Target::Param | Target::Nowhere => {}
        }
    }

    /// Where the bytes of a target lie, and which of them are known. Local memory begins where a lane's does.
    fn storage<'m>(
        &'m mut self,
        block: &'m mut Block,
        target: Target,
    ) -> (&'m mut [u8], Option<&'m mut Bitmap>) {
        match target {
            Target::Global(place) => {
                let buffer = self.memory.at_mut(place);
                (&mut buffer.bytes, buffer.written.as_mut())
            }
            Target::Shared => (&mut block.shared, Some(&mut block.shared_written)),
            Target::Local => (&mut block.local, Some(&mut block.local_written)),
            Target::Param => (&mut self.params, None),
            Target::Nowhere => unreachable!("nobody is admitted to nowhere"),
        }
    }

    /// The offset of each lane in the storage of its target.
    #[inline(always)]
    pub(super) fn starts(&self, group: &Group, warp: usize) -> [usize; LANES] {
        let stride = if group.target == Target::Local { self.kernel.local_bytes as usize } else { 0 };
        alu::each_lane(|lane| (group.offsets[lane] as usize).wrapping_add((32 * warp + lane) * stride))
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
            if group.one && written.has(first, size)
                || mask == u32::MAX && group.row && written.has_range(first, LANES * size)
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
            let place = self.place_name(group.target);
            let offset = group.offsets[lane];
            let who = (block, request.thread(lane));
            let kernel = self.kernel;
            let shared = group.target == Target::Shared;
            self.fault(Kind::Uninitialised, request.pc, None, unwritten.count_ones().into(), who, || {
                let mut warps = block.warps.iter().chain([warp]).filter(|_| shared);
                let copy = warps.find_map(|warp| warp.copies.under_way(offset..offset + size as u64));
                let why = match copy {
                    Some(pc) => {
                        let line = crate::fault::Line::of(kernel, pc);
                        format!("where the copy of {line} has not been waited for")
                    }
                    None => "which nobody has written".to_owned(),
                };
                format!("reads {size} bytes at byte {offset} of {place}, {why}")
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
        let strong = request.strong;
        let mut races: Vec<(usize, Mark)> = Vec::new();
        let size = request.size;
        let tick = self.tick;
        let mut visit = |shadow: &mut Shadow, actor: &Actor<'_>, cell: usize| {
            let first = group.offsets[0] as usize;
            if group.row && mask == u32::MAX && size >= cell && first.is_multiple_of(LINE * cell) {
                let shift = (size / cell).trailing_zeros() as u8;
                let mark = actor.mark(request.thread(0), ((1u32 << cell) - 1) as u8, strong);
                let write = request.way != Way::Read;
                if shadow.rows(first / (LINE * cell), size / cell, Row { mark, shift }, write, actor) {
                    return;
                }
            }
            let mut mask = mask;
            if group.one && request.way == Way::Read && !mask.is_power_of_two() {
                let (first, last) = (mask.trailing_zeros() as usize, 31 - mask.leading_zeros() as usize);
                let mut words = words(group.offsets[first] as usize, size, cell);
                if words
                    .all(|(word, bytes)| shadow.cell(word).may_be_read(actor, request.warp, bytes, strong))
                {
                    // The first and the last lane leave what all of them would.
                    mask = 1 << first | 1 << last;
                }
            }
            for lane in lanes(mask) {
                let thread = request.thread(lane);
                for (word, bytes) in words(group.offsets[lane] as usize, size, cell) {
                    let cell = shadow.cell(word);
                    let race = match request.way {
                        Way::Read => cell.read(actor, thread, bytes, strong),
                        Way::Write | Way::Atomic => {
                            cell.write(actor, thread, bytes, strong, same >> lane & 1 == 1)
                        }
                    };
                    if let Some(race) = race {
                        races.push((lane, race));
                    }
                }
            }
        };
        match group.target {
            Target::Shared => {
                let Block { shared_shadow, clocks, index, .. } = block;
                let actor = Actor { tick, block: *index, pc: request.pc, clocks, others: None };
                visit(shared_shadow, &actor, 4);
            }
            Target::Global(place) => {
                let Some(shadow) = &mut self.shadows[place] else { return };
                let others = Some((&self.releases, &block.acquired));
                let actor = Actor { tick, block: block.index, pc: request.pc, clocks: &block.clocks, others };
                visit(shadow, &actor, cell_bytes(self.memory.at(place).element()));
            }
            Target::Local | Target::Param | Target::Nowhere => return,
        }
        if let Target::Global(place) = group.target
            && self.shadows[place].as_ref().is_some_and(Shadow::is_full)
        {
            let who = (&*block, request.thread(mask.trailing_zeros() as usize));
            self.give_up(request.pc, who, "parts of more lines of memory are accessed than can be followed");
        }
        for (lane, other) in races {
            self.note_race(group, lane, &other, request, block);
        }
    }

    /// Faults for lanes that read, through a cache that sees no writes, what this launch has written. Gives these lanes.
    fn check_stale(&mut self, group: &Group, mask: u32, request: &Request, block: &Block) -> u32 {
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
        let place = self.place_name(group.target);
        let (offset, kernel) = (group.offsets[lane], self.kernel);
        self.fault(Kind::StaleRead, request.pc, Some(by.pc), stale.len() as u64, who, || {
            let line = crate::fault::Line::of(kernel, by.pc);
            format!(
                "reads byte {offset} of {place} through a cache that need not see what this launch writes (`__ldg`, or a pointer that is both \
                 `const` and `__restrict__`), and {line} has written it"
            )
        });
        stale.iter().fold(0, |lanes, (lane, _)| lanes | 1 << lane)
    }

    fn note_race(&mut self, group: &Group, lane: usize, other: &Mark, request: &Request, block: &Block) {
        let kind = if group.target == Target::Shared { Kind::SharedRace } else { Kind::GlobalRace };
        let place = self.place_name(group.target);
        let offset = group.offsets[lane];
        let who = (block, request.thread(lane));
        let (other_block, other_thread, other_pc) = (other.block, other.thread, other.pc);
        let same_block = other_block == block.index;
        let kernel = self.kernel;
        self.fault(kind, request.pc, Some(other_pc), 1, who, || {
            let line = crate::fault::Line::of(kernel, other_pc);
            let whom = if same_block {
                format!("thread {other_thread}")
            } else {
                format!("thread {other_thread} of block {other_block}")
            };
            let did = match kernel.code[other_pc as usize].op {
                Op::Load(_) | Op::LoadMatrix { .. } => "read",
                Op::Store(_) => "wrote",
                Op::Atomic(..) => "changed",
                _ => "used",
            };
            format!(
                "{} byte {offset} of {place}, which {whom} {did} at {line} with nothing to order them",
                request.way.verb()
            )
        });
    }

    /// `ld`
    #[inline(always)]
    pub(super) fn load(
        &mut self,
        inst: &Inst,
        access: &Access,
        pc: u32,
        active: u32,
        warp: &mut Warp,
        block: &mut Block,
    ) {
        let addresses = addresses(warp, inst.a, access.wide_address, access.offset);
        let kernel = self.kernel;
        let size = usize::from(access.bytes) * usize::from(access.count);
        let strong = access.order != Order::Weak;
        let request = Request { way: Way::Read, size, pc, strong, warp: warp.index };
        let mut left = active;
        while left != 0 {
            let group = self.group(access.space, &addresses, left, size);
            left &= !group.mask;
            let mask = self.admit(&group, &request, block);
            if mask == 0 {
                continue;
            }
            self.count(&group, mask, &request);
            let starts = self.starts(&group, warp.index);
            self.check_written(&group, &starts, mask, &request, warp, block);
            let stale = if access.noncoherent { self.check_stale(&group, mask, &request, block) } else { 0 };
            if stale != mask {
                self.check_races(&group, mask & !stale, 0, &request, block);
            }
            if strong {
                take_over(&group, mask, warp, block);
                if matches!(group.target, Target::Global(_)) {
                    self.polls += 1;
                    self.acquire(&addresses, mask, block);
                }
            }
            let (bytes, _) = self.storage(block, group.target);
            let from = Source { bytes, starts: &starts, mask, step: group.step(size) };
            for part in 0..usize::from(access.count) {
                let reg = part_of(kernel, inst.d, access.count, part);
                if reg == Reg::NONE {
                    continue;
                }
                let at = part * usize::from(access.bytes);
                fetch(&from, at, access, reg, warp);
            }
        }
    }

    /// `st`
    #[inline(always)]
    pub(super) fn store(
        &mut self,
        inst: &Inst,
        access: &Access,
        pc: u32,
        active: u32,
        warp: &mut Warp,
        block: &mut Block,
    ) {
        let addresses = addresses(warp, inst.a, access.wide_address, access.offset);
        let (bytes, count) = (usize::from(access.bytes), usize::from(access.count));
        let kernel = self.kernel;
        let size = bytes * count;
        let strong = access.order != Order::Weak;
        let request = Request { way: Way::Write, size, pc, strong, warp: warp.index };
        let mut left = active;
        while left != 0 {
            let group = self.group(access.space, &addresses, left, size);
            left &= !group.mask;
            let mask = self.admit(&group, &request, block);
            if mask != 0 {
                let step = group.step(size);
                self.put(&group, mask, &request, block, |to, starts| {
                    let mut same = u32::MAX;
                    for part in 0..count {
                        let reg = part_of(kernel, inst.b, access.count, part);
                        let mut to = Sink { bytes: to, starts, mask, step };
                        same &= spill(&mut to, part * bytes, access, reg, warp);
                    }
                    same
                });
                if strong {
                    let release = matches!(access.order, Order::Release | Order::AcquireRelease);
                    self.hand_over(&group, mask, release, warp, block);
                    if matches!(group.target, Target::Global(_)) {
                        self.release(&addresses, mask, release, pc, warp, block);
                    }
                }
            }
        }
    }

    /// Within a block, what a warp did before is visible to whoever sees what was put there: all of it by an operation that releases, what
    /// came before its last fence by any other.
    fn hand_over(&self, group: &Group, mask: u32, releases: bool, warp: &Warp, block: &mut Block) {
        let ticks = if releases { [self.tick; LANES] } else { warp.fenced_for_block };
        for lane in lanes(mask).filter(|&lane| ticks[lane] != 0) {
            let Some(location) = group.location(lane) else { return };
            block.let_see(location, warp.index, ticks[lane]);
        }
    }

    /// Notes plain reads of the same words that the warp did since it last met.
    fn note_tried(&mut self, group: &Group, mask: u32, warp: &Warp, block: &Block) {
        let (shadow, cell) = match group.target {
            Target::Shared => (&block.shared_shadow, 4),
            Target::Global(place) => match &self.shadows[place] {
                Some(shadow) => (shadow, cell_bytes(self.memory.at(place).element())),
                None => return,
            },
            Target::Local | Target::Param | Target::Nowhere => return,
        };
        for lane in lanes(mask) {
            let read = shadow.reader(group.offsets[lane] as usize / cell);
            let own = read.tick != 0 && read.block == block.index && read.warp() == warp.index;
            if own && !read.atomic && !block.clocks.sees(warp.index, &read) {
                self.tried.insert(read.pc);
            }
        }
    }

    /// A block sees what others let be seen by what they put at these addresses.
    fn acquire(&self, addresses: &[u64; LANES], mask: u32, block: &mut Block) {
        if !self.releases.is_empty() {
            lanes(mask).for_each(|lane| self.releases.acquire(addresses[lane], &mut block.acquired));
        }
    }

    /// What a block did before is visible to whoever sees what was put at these addresses: all of it by an operation that releases, what came
    /// before its last fence by any other.
    fn release(
        &mut self,
        addresses: &[u64; LANES],
        mask: u32,
        releases: bool,
        pc: u32,
        warp: &Warp,
        block: &Block,
    ) {
        let ticks = if releases { [self.tick; LANES] } else { warp.fenced };
        let mut shared = None;
        for lane in lanes(mask).filter(|&lane| ticks[lane] != 0) {
            let (acquired, seen) = shared.get_or_insert_with(|| {
                (Arc::from(&block.acquired[..]), Arc::from(block.clocks.row(warp.index)))
            });
            let release = Release::new(ticks[lane], warp.index, acquired, seen);
            self.releases.release(addresses[lane], block.index, release);
        }
        if self.releases.is_full() {
            let thread = (32 * warp.index) as u16 + mask.trailing_zeros() as u16;
            self.give_up(
                pc,
                (block, thread),
                "blocks have let others see what they did more often than can be followed",
            );
        }
    }

    /// Lets lanes write. `write` gets the bytes of the target and where each lane's begin, and says which lanes write what is there already.
    #[inline(always)]
    fn put(
        &mut self,
        group: &Group,
        mask: u32,
        request: &Request,
        block: &mut Block,
        write: impl FnOnce(&mut [u8], &[usize; LANES]) -> u32,
    ) {
        let size = request.size;
        self.count(group, mask, request);
        let starts = self.starts(group, request.warp);
        let whole = mask == u32::MAX && group.row && group.target != Target::Local;
        let (bytes, written) = self.storage(block, group.target);
        let same = write(bytes, &starts);
        if let Some(written) = written {
            if whole {
                written.set_range(starts[0], LANES * size);
            } else {
                for lane in lanes(mask) {
                    written.set(starts[lane], size);
                }
            }
        }
        self.check_races(group, mask, same, request, block);
    }

    /// `atom` and `red`
    #[allow(clippy::too_many_arguments)]
    pub(super) fn atomic(
        &mut self,
        inst: &Inst,
        (op, ty): (Atomic, AtomicType),
        access: &Access,
        scope: Scope,
        pc: u32,
        active: u32,
        warp: &mut Warp,
        block: &mut Block,
    ) {
        let addresses = addresses(warp, inst.a, access.wide_address, access.offset);
        let size = usize::from(access.bytes);
        let request = Request { way: Way::Atomic, size, pc, strong: true, warp: warp.index };
        let operand = |warp: &Warp, reg: Reg, lane: usize| match reg {
            Reg::NONE => 0,
            reg if access.wide => warp.regs.w64[reg.index()][lane],
            reg => warp.regs.w32[reg.index()][lane].into(),
        };
        let mut left = active;
        while left != 0 {
            let group = self.group(access.space, &addresses, left, size);
            left &= !group.mask;
            let mask = self.admit(&group, &request, block);
            if mask == 0 {
                continue;
            }
            self.count(&group, mask, &request);
            if let Target::Global(place) = group.target {
                let meter = &mut self.counts.buffers[place];
                meter.atomics += u64::from(mask.count_ones());
                meter.atomic_depth += match (group.row, group.one) {
                    (_, true) => mask.count_ones().into(),
                    (true, _) => 1,
                    _ => depth(&group.offsets, mask),
                };
            }
            let starts = self.starts(&group, warp.index);
            self.check_written(&group, &starts, mask, &request, warp, block);
            let global = matches!(group.target, Target::Global(_));
            let release = matches!(access.order, Order::Release | Order::AcquireRelease);
            take_over(&group, mask, warp, block);
            self.hand_over(&group, mask, release, warp, block);
            if global && scope == Scope::Device {
                self.polls += 1;
                self.acquire(&addresses, mask, block);
                self.release(&addresses, mask, release, pc, warp, block);
            }
            if op.finds_out() {
                self.note_tried(&group, mask, warp, block);
            }
            self.check_races(&group, mask, 0, &request, block);
            let (bytes, mut written) = self.storage(block, group.target);
            for lane in lanes(mask) {
                let place = &mut bytes[starts[lane]..][..size];
                let (b, c) = (operand(warp, inst.b, lane), operand(warp, inst.c, lane));
                let old = number(place);
                let new = alu::atomic(op, ty, (old, b, c), global);
                put_number(place, new);
                if let Some(written) = &mut written {
                    written.set(starts[lane], size);
                }
                if inst.d != Reg::NONE {
                    match access.wide {
                        true => warp.regs.w64[inst.d.index()][lane] = old,
                        false => warp.regs.w32[inst.d.index()][lane] = old as u32,
                    }
                }
            }
        }
    }

    /// Reads a row of bytes for each lane, of a size that a register cannot hold. What may not be read is zeros.
    pub(super) fn read_rows(
        &mut self,
        space: Space,
        addresses: &[u64; LANES],
        (mask, size): (u32, usize),
        pc: u32,
        warp: &Warp,
        block: &mut Block,
    ) -> [[u8; 16]; LANES] {
        let request = Request { way: Way::Read, size, pc, strong: false, warp: warp.index };
        let mut rows = [[0; 16]; LANES];
        let mut left = mask;
        while left != 0 {
            let group = self.group(space, addresses, left, size);
            left &= !group.mask;
            let mask = self.admit(&group, &request, block);
            if mask == 0 {
                continue;
            }
            self.count(&group, mask, &request);
            let starts = self.starts(&group, warp.index);
            self.check_written(&group, &starts, mask, &request, warp, block);
            self.check_races(&group, mask, 0, &request, block);
            let (bytes, _) = self.storage(block, group.target);
            for lane in lanes(mask) {
                rows[lane][..size].copy_from_slice(&bytes[starts[lane]..][..size]);
            }
        }
        rows
    }

    /// Writes a row of bytes for each lane to shared memory.
    pub(super) fn write_rows(
        &mut self,
        addresses: &[u64; LANES],
        rows: &[[u8; 16]; LANES],
        (mask, size): (u32, usize),
        pc: u32,
        warp: usize,
        block: &mut Block,
    ) {
        let request = Request { way: Way::Write, size, pc, strong: false, warp };
        let group = self.group(Space::Shared, addresses, mask, size);
        let mask = self.admit(&group, &request, block);
        if mask != 0 {
            self.put(&group, mask, &request, block, |bytes, starts| {
                let mut same = 0;
                for lane in lanes(mask) {
                    let (place, value) = (&mut bytes[starts[lane]..][..size], &rows[lane][..size]);
                    same |= u32::from(place == value) << lane;
                    place.copy_from_slice(value);
                }
                same
            });
        }
    }

    /// `ldmatrix`
    pub(super) fn load_matrix(
        &mut self,
        inst: &Inst,
        (count, transposed, wide_address): (u8, bool, bool),
        pc: u32,
        active: u32,
        warp: &mut Warp,
        block: &mut Block,
    ) {
        let addresses = addresses(warp, inst.a, wide_address, 0);
        let given = active & (u32::MAX >> (32 - 8 * u32::from(count)));
        let rows = self.read_rows(Space::Shared, &addresses, (given, 16), pc, warp, block);
        let list = &self.kernel.lists[inst.d.index()];
        for (matrix, &reg) in list.iter().enumerate().take(count.into()) {
            let value = |row: usize, column: usize| {
                let bytes = &rows[8 * matrix + row][2 * column..][..2];
                u16::from_le_bytes([bytes[0], bytes[1]])
            };
            let values = std::array::from_fn(|row| std::array::from_fn(|column| value(row, column)));
            alu::spread_matrix(&values, transposed, reg, &mut warp.regs, active);
        }
    }

    /// `printf`
    pub(super) fn printf(&mut self, inst: &Inst, text: &str, active: u32, warp: &Warp, block: &mut Block) {
        for lane in lanes(active) {
            if super::print::is_full(&self.printed) {
                break;
            }
            let mut arguments = Vec::new();
            if inst.b != Reg::NONE {
                let address = warp.regs.w64[inst.b.index()][lane];
                let local = self.kernel.local_bytes as usize;
                let begin = (32 * warp.index + lane) * local;
                let offset = (address::offset(address) as usize).min(local);
                arguments.extend_from_slice(&block.local[begin..begin + local][offset..]);
            }
            let memory = &*self.memory;
            let bytes_at = |at: u64| {
                let place = memory.place(address::segment(at))?;
                memory.at(place).bytes().get(address::offset(at) as usize..)
            };
            super::print::print(&mut self.printed, text, &arguments, &bytes_at);
        }
    }
}

/// The register of a part of a value.
fn part_of(kernel: &Kernel, reg: Reg, count: u8, part: usize) -> Reg {
    if count == 1 { reg } else { kernel.lists[reg.index()][part] }
}

/// The number that some bytes are; read at once, as a CPU waits for what it puts together of parts.
#[inline(always)]
fn number(bytes: &[u8]) -> u64 {
    match *bytes {
        [a, b] => u16::from_le_bytes([a, b]).into(),
        [a, b, c, d] => u32::from_le_bytes([a, b, c, d]).into(),
        _ => u64::from_le_bytes(bytes.try_into().expect("words have 2, 4 or 8 bytes")),
    }
}

/// Puts a number into some bytes, without what has no room there.
#[inline(always)]
fn put_number(bytes: &mut [u8], number: u64) {
    match bytes {
        [a, b] => [*a, *b] = (number as u16).to_le_bytes(),
        [a, b, c, d] => [*a, *b, *c, *d] = (number as u32).to_le_bytes(),
        _ => bytes.copy_from_slice(&number.to_le_bytes()),
    }
}

/// Most lanes at one address.
fn depth(offsets: &[u64; LANES], mask: u32) -> u64 {
    let most =
        lanes(mask).map(|lane| lanes(mask).filter(|&other| offsets[other] == offsets[lane]).count()).max();
    most.unwrap_or(0) as u64
}

/// Where values of lanes are read from.
#[derive(Clone, Copy)]
struct Source<'m> {
    bytes: &'m [u8],
    /// Where each lane's bytes begin.
    starts: &'m [usize; LANES],
    mask: u32,
    /// Bytes from one lane to the next, where that is the same for all.
    step: Option<usize>,
}

impl Source<'_> {
    /// Reads a value that lies `at` bytes behind where each lane's bytes begin.
    #[inline(always)]
    fn read<const N: usize, T: Copy>(&self, at: usize, out: &mut [T; LANES], value: impl Fn([u8; N]) -> T) {
        let value_at = |start: usize| value(self.bytes[start + at..][..N].try_into().expect("as long"));
        match self.step {
            Some(0) => {
                let value = value_at(self.starts[self.mask.trailing_zeros() as usize]);
                for (lane, out) in out.iter_mut().enumerate() {
                    *out = if self.mask >> lane & 1 == 1 { value } else { *out };
                }
            }
            Some(step) if self.mask == u32::MAX => {
                let row = self.bytes[self.starts[0]..][..LANES * step].chunks_exact(step);
                for (out, bytes) in out.iter_mut().zip(row) {
                    *out = value(bytes[at..][..N].try_into().expect("as long"));
                }
            }
            _ => lanes(self.mask).for_each(|lane| out[lane] = value_at(self.starts[lane])),
        }
    }
}

/// Values of lanes from memory into a register.
#[inline(always)]
fn fetch(from: &Source<'_>, at: usize, access: &Access, reg: Reg, warp: &mut Warp) {
    macro_rules! narrow {
        ($ty:ty, $to:ty) => {
            from.read(at, &mut warp.regs.w32[reg.index()], |bytes| <$ty>::from_le_bytes(bytes) as $to as u32)
        };
    }
    macro_rules! wide {
        ($ty:ty, $to:ty) => {
            from.read(at, &mut warp.regs.w64[reg.index()], |bytes| <$ty>::from_le_bytes(bytes) as $to as u64)
        };
    }
    match (access.wide, access.bytes, access.signed) {
        (false, 1, false) => narrow!(u8, u32),
        (false, 1, true) => narrow!(i8, i32),
        (false, 2, false) => narrow!(u16, u32),
        (false, 2, true) => narrow!(i16, i32),
        (false, _, _) => narrow!(u32, u32),
        (true, 1, false) => wide!(u8, u64),
        (true, 1, true) => wide!(i8, i64),
        (true, 2, false) => wide!(u16, u64),
        (true, 2, true) => wide!(i16, i64),
        (true, 4, false) => wide!(u32, u64),
        (true, 4, true) => wide!(i32, i64),
        (true, _, _) => wide!(u64, u64),
    }
}

/// Where values of lanes are written to.
struct Sink<'m> {
    bytes: &'m mut [u8],
    /// Where each lane's bytes begin.
    starts: &'m [usize; LANES],
    mask: u32,
    /// Bytes from one lane to the next, where that is the same for all.
    step: Option<usize>,
}

impl Sink<'_> {
    /// Writes a value `at` bytes behind where each lane's bytes begin; gives the lanes that write what is there already.
    #[inline(always)]
    fn write<const N: usize, T: Copy>(
        &mut self,
        at: usize,
        from: &[T; LANES],
        bytes: impl Fn(T) -> [u8; N],
    ) -> u32 {
        let mut same = 0;
        let mut put = |place: &mut [u8], lane: usize| {
            let place: &mut [u8; N] = (&mut place[at..][..N]).try_into().expect("as long");
            let value = bytes(from[lane]);
            same |= u32::from(*place == value) << lane;
            *place = value;
        };
        match self.step {
            Some(step) if step > 0 && self.mask == u32::MAX => {
                let row = self.bytes[self.starts[0]..][..LANES * step].chunks_exact_mut(step);
                row.enumerate().for_each(|(lane, place)| put(place, lane));
            }
            _ => lanes(self.mask).for_each(|lane| put(&mut self.bytes[self.starts[lane]..], lane)),
        }
        same
    }
}

/// Values of lanes from a register into memory; gives the lanes whose values are there already.
#[inline(always)]
fn spill(to: &mut Sink<'_>, at: usize, access: &Access, reg: Reg, warp: &Warp) -> u32 {
    let narrow = || &warp.regs.w32[reg.index()];
    let wide = || &warp.regs.w64[reg.index()];
    match (access.wide, access.bytes) {
        (false, 1) => to.write(at, narrow(), |value| (value as u8).to_le_bytes()),
        (false, 2) => to.write(at, narrow(), |value| (value as u16).to_le_bytes()),
        (false, _) => to.write(at, narrow(), u32::to_le_bytes),
        (true, 1) => to.write(at, wide(), |value| (value as u8).to_le_bytes()),
        (true, 2) => to.write(at, wide(), |value| (value as u16).to_le_bytes()),
        (true, 4) => to.write(at, wide(), |value| (value as u32).to_le_bytes()),
        (true, _) => to.write(at, wide(), u64::to_le_bytes),
    }
}

impl Warp {
    /// `cvta`
    pub(super) fn convert_address(
        &mut self,
        inst: &Inst,
        space: Space,
        to_space: bool,
        wide: bool,
        active: u32,
    ) {
        let base = match space {
            Space::Shared => address::generic(SHARED, 0),
            Space::Local => address::generic(LOCAL, 0),
            Space::Param => address::generic(PARAM, 0),
            Space::Global | Space::Const | Space::Generic => 0,
        };
        for lane in lanes(active) {
            if wide {
                let from = self.regs.w64[inst.a.index()][lane];
                self.regs.w64[inst.d.index()][lane] =
                    if to_space { from.wrapping_sub(base) } else { from.wrapping_add(base) };
            } else {
                // 32 bits have no room for a segment: only the offset remains.
                self.regs.w32[inst.d.index()][lane] = self.regs.w32[inst.a.index()][lane];
            }
        }
    }

    /// `isspacep`
    pub(super) fn is_space(&mut self, inst: &Inst, space: Space, active: u32, machine: &Machine<'_>) {
        let pred = &mut self.regs.p[inst.d.index()];
        for lane in lanes(active) {
            let segment = address::segment(self.regs.w64[inst.a.index()][lane]);
            let holds = match space {
                Space::Shared => segment == SHARED,
                Space::Local => segment == LOCAL,
                Space::Param => segment == PARAM,
                Space::Const => machine.memory.place(segment).is_some_and(|place| machine.is_constant(place)),
                Space::Global | Space::Generic => segment > PARAM,
            };
            *pred = *pred & !(1 << lane) | u32::from(holds) << lane;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offsets(f: impl Fn(u64) -> u64) -> [u64; LANES] {
        std::array::from_fn(|lane| f(lane as u64))
    }

    #[test]
    fn contiguous_with_and_without_all_lanes() {
        let row = offsets(|lane| 64 + 4 * lane);
        assert!(is_contiguous(&row, u32::MAX, 4));
        assert!(is_contiguous(&row, 0x0000_00F0, 4));
        assert!(!is_contiguous(&row, 0x0000_00F5, 4), "a gap");
        assert!(!is_contiguous(&row, u32::MAX, 8));
        assert!(!is_contiguous(&offsets(|lane| 4 * (31 - lane)), u32::MAX, 4), "backwards");
    }

    #[test]
    fn waves_of_shared_memory() {
        assert_eq!(waves(&offsets(|lane| 4 * lane), u32::MAX, 4), 1);
        assert_eq!(waves(&offsets(|_| 400), u32::MAX, 4), 1, "one word for all");
        assert_eq!(waves(&offsets(|lane| 128 * lane), u32::MAX, 4), 32, "a column of 32 words a row");
        assert_eq!(waves(&offsets(|lane| 132 * lane), u32::MAX, 4), 1, "the same with padding");
        assert_eq!(waves(&offsets(|lane| 8 * lane), u32::MAX, 4), 2, "every second word");
        assert_eq!(waves(&offsets(|lane| 8 * lane), u32::MAX, 8), 2);
        assert_eq!(waves(&offsets(|lane| 16 * lane), u32::MAX, 16), 4);
        assert_eq!(waves(&offsets(|lane| 2 * lane), u32::MAX, 2), 1);
        assert_eq!(waves(&offsets(|lane| 16 * lane), 0xFF, 16), 1, "one quarter of a warp");
    }

    #[test]
    fn distinct_values_in_any_order() {
        let mut out = [0; LANES];
        assert_eq!(distinct(&offsets(|lane| 4 * lane), u32::MAX, 5, &mut out), 4);
        assert_eq!(distinct(&offsets(|lane| 4 * (31 - lane)), u32::MAX, 5, &mut out), 4);
        assert_eq!(distinct(&offsets(|lane| 128 * (lane % 3)), u32::MAX, 5, &mut out), 3);
        assert_eq!(&out[..3], &[0, 4, 8]);
    }

    #[test]
    fn depth_is_of_the_busiest_address() {
        assert_eq!(depth(&offsets(|lane| lane % 4), u32::MAX), 8);
        assert_eq!(depth(&offsets(|lane| lane), u32::MAX), 1);
    }
}
