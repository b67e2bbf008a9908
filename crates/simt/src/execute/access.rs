//! Loads, stores and atomic operations: what they do to memory, once it is known [where](super::place) each lane goes, whether it
//! [may](super::check), and what that [costs](super::cost).

use std::ops::Range;

use crate::address;
use crate::alu::{self, Value};
use crate::launch::Schedule;
use crate::memory::{Bitmap, Role};
use crate::program::{Access, Atomic, AtomicType, Inst, Kernel, LANES, Order, Reg, Scope, Space};

use super::block::Block;
use super::check::take_over;
use super::place::{Group, Request, Target, Way, addresses};
use super::warp::{Warp, lanes, lanes_in_turn};
use super::{Machine, POLLS_IN_VAIN};

/// Values beside one another that an access may have.
const PARTS_MAX: usize = 4;

impl Machine<'_> {
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
        let request =
            Request { way: Way::Read, size, pc, atomic: strong.then_some(Scope::Device), warp: warp.index };
        if !strong {
            warp.worked();
        }
        let mut left = active;
        while left != 0 {
            let group = self.group(access.space, &addresses, left, size);
            left &= !group.mask;
            let mask = self.admit(&group, &request, block);
            if mask == 0 {
                continue;
            }
            if strong {
                self.looks.push((group, mask));
            } else {
                self.count(&group, mask, &request);
            }
            let starts = self.starts(&group, warp.index);
            self.check_written(&group, &starts, mask, &request, warp, block);
            let stale = if access.noncoherent { self.check_stale(&group, mask, &request, block) } else { 0 };
            if stale != mask {
                self.check_races(&group, mask & !stale, 0, &request, block);
            }
            let past = if strong {
                self.see_others(access, &group, (&addresses, mask), &request, warp, block)
            } else {
                [0; PARTS_MAX]
            };
            let (bytes, _) = self.storage(block, group.target);
            let from = Source { bytes, starts: &starts, mask, step: group.step(size) };
            match (access.count, access.bytes, access.wide) {
                (4, 4, false) => fetch_words::<4, 16>(&from, &kernel.lists[inst.d.index()], warp),
                (2, 4, false) => fetch_words::<2, 8>(&from, &kernel.lists[inst.d.index()], warp),
                _ => {
                    for part in 0..usize::from(access.count) {
                        let reg = part_of(kernel, inst.d, access.count, part);
                        if reg != Reg::NONE {
                            fetch(&from, part * usize::from(access.bytes), access, reg, warp);
                        }
                    }
                }
            }
            if strong && past != [0; PARTS_MAX] {
                self.fetch_past(inst, access, &group, (&starts, past), warp);
            }
        }
        if strong {
            let seen = lanes(active).fold(0, |seen, lane| {
                mixed(mixed(seen, addresses[lane]), warp.loaded(inst.d, access, kernel, lane))
            });
            self.settle_looks(warp.look(pc, active, seen), &request);
        }
    }

    /// Lanes that look at what others may change see what those have let be seen by it. Gives, of each part of the access, the lanes that are shown what
    /// was there before.
    #[inline(never)]
    fn see_others(
        &mut self,
        access: &Access,
        group: &Group,
        (addresses, mask): (&[u64; LANES], u32),
        request: &Request,
        warp: &Warp,
        block: &mut Block,
    ) -> [u32; PARTS_MAX] {
        let global = matches!(group.target, Target::Global(_));
        self.polls += u64::from(global);
        // Each part may be a flag of its own.
        let of_part = Request { size: access.bytes.into(), ..*request };
        let part_at = |part: usize| moved(group, addresses, (part * usize::from(access.bytes)) as u64);
        let mut past = [0; PARTS_MAX];
        for (part, past) in past.iter_mut().enumerate().take(access.count.into()) {
            let group = part_at(part).0;
            self.note_handed_in_step(&group, mask, &of_part, block);
            *past = self.shown_past(&group, mask, &of_part, block);
        }
        for (part, past) in past.iter().enumerate().take(access.count.into()) {
            let (group, addresses) = part_at(part);
            take_over(&group, mask, warp, block);
            if global {
                self.acquire(&addresses, mask & !past, block);
                self.acquire_past(&group, &addresses, *past, block);
            }
        }
        past
    }

    /// Loads what was there before, of each part by so many lanes.
    #[inline(never)]
    fn fetch_past(
        &mut self,
        inst: &Inst,
        access: &Access,
        group: &Group,
        (starts, past): (&[usize; LANES], [u32; PARTS_MAX]),
        warp: &mut Warp,
    ) {
        let Target::Global(place) = group.target else { unreachable!("other memory is no other block's") };
        let bytes = self.past.of(place);
        for (part, mask) in past.into_iter().enumerate().filter(|(_, mask)| *mask != 0) {
            let reg = part_of(self.kernel, inst.d, access.count, part);
            let from = Source {
                bytes,
                starts,
                mask,
                step: group.step(usize::from(access.bytes) * usize::from(access.count)),
            };
            if reg != Reg::NONE {
                fetch(&from, part * usize::from(access.bytes), access, reg, warp);
            }
        }
    }

    /// Counts what was looked at, unless it shows the same `again`: whoever waits looks as often as it is let, so only the first time costs. Nobody
    /// waits for an input to change.
    fn settle_looks(&mut self, again: bool, request: &Request) {
        let mut looks = std::mem::take(&mut self.looks);
        for (group, mask) in looks.drain(..) {
            let (is_global, is_input) = match group.target {
                Target::Global(place) => (true, self.memory.at(place).role() == Role::Input),
                _ => (false, false),
            };
            if !again || is_input {
                self.count(&group, mask, request);
            }
            if again && is_global {
                self.polls += POLLS_IN_VAIN;
            }
        }
        self.looks = looks;
    }

    /// Whether lanes write from the last to the first. Of those that write to one place what the last to do so writes is seen, and CUDA says of none
    /// that it is the last.
    fn lanes_write_backward(&self) -> bool {
        self.schedule != Schedule::Forward
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
        let backward = self.lanes_write_backward();
        let request =
            Request { way: Way::Write, size, pc, atomic: strong.then_some(Scope::Device), warp: warp.index };
        warp.worked();
        let mut left = active;
        while left != 0 {
            let group = self.group(access.space, &addresses, left, size);
            left &= !group.mask;
            let mask = self.admit(&group, &request, block);
            if mask != 0 {
                if strong {
                    self.keep_past(&group, mask, size);
                }
                let step = group.step(size);
                self.put(&group, mask, &request, block, |to, starts| {
                    let mut to = Sink { bytes: to, starts, mask, step, backward };
                    match (count, bytes, access.wide) {
                        (4, 4, false) => {
                            to.put::<16, 16>(&words::<4, 16>(&kernel.lists[inst.b.index()], warp))
                        }
                        (2, 4, false) => to.put::<8, 8>(&words::<2, 8>(&kernel.lists[inst.b.index()], warp)),
                        _ => (0..count).fold(u32::MAX, |same, part| {
                            let reg = part_of(kernel, inst.b, access.count, part);
                            same & spill(&mut to, part * bytes, access, reg, warp)
                        }),
                    }
                });
                if strong {
                    let release = matches!(access.order, Order::Release | Order::AcquireRelease);
                    for part in 0..count {
                        let (group, addresses) = moved(&group, &addresses, (part * bytes) as u64);
                        self.hand_over(&group, mask, release, warp, block);
                        if matches!(group.target, Target::Global(_)) {
                            self.release(&addresses, mask, release, warp, block);
                        }
                    }
                }
            }
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

    /// `atom` and `red`; whether lanes that ask for what was there have changed nothing, as who waits for others to change it.
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
    ) -> bool {
        let addresses = addresses(warp, inst.a, access.wide_address, access.offset);
        let size = usize::from(access.bytes);
        let request = Request { way: Way::Atomic, size, pc, atomic: Some(scope), warp: warp.index };
        let operand = |warp: &Warp, reg: Reg, lane: usize| match reg {
            Reg::NONE => 0,
            reg if access.wide => warp.regs.w64[reg.index()][lane],
            reg => warp.regs.w32[reg.index()][lane].into(),
        };
        // Who asks for no result sees nothing, and a minimum that is none is no look.
        let may_look = inst.d != Reg::NONE && !matches!(op, Atomic::Min | Atomic::Max);
        let (mut changes, mut seen) = (false, 0);
        let mut left = active;
        while left != 0 {
            let group = self.group(access.space, &addresses, left, size);
            left &= !group.mask;
            let mask = self.admit(&group, &request, block);
            if mask == 0 {
                continue;
            }
            if may_look {
                self.looks.push((group, mask));
            } else {
                self.count(&group, mask, &request);
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
                self.release(&addresses, mask, release, warp, block);
            }
            self.sees_present(&group, mask, block);
            self.keep_past(&group, mask, size);
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
                changes |= new != old;
                seen = mixed(mixed(seen, addresses[lane]), old);
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
        let again = may_look && !changes && warp.look(pc, active, seen);
        if !may_look || changes {
            warp.worked();
        }
        self.settle_looks(again, &request);
        inst.d != Reg::NONE && !changes
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
        let request = Request { way: Way::Read, size, pc, atomic: None, warp: warp.index };
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
            let from = Source { bytes, starts: &starts, mask, step: group.step(size) };
            match size {
                16 => from.rows(&mut rows),
                _ => lanes(mask).for_each(|lane| {
                    rows[lane][..size].copy_from_slice(&from.bytes[starts[lane]..][..size]);
                }),
            }
        }
        rows
    }

    /// Writes a row of bytes for each lane to shared memory. The lanes were admitted when this was asked for.
    pub(super) fn write_rows(
        &mut self,
        addresses: &[u64; LANES],
        rows: &[[u8; 16]; LANES],
        (mask, size): (u32, usize),
        pc: u32,
        warp: usize,
        block: &mut Block,
    ) {
        let backward = self.lanes_write_backward();
        let request = Request { way: Way::Write, size, pc, atomic: None, warp };
        let group = self.group(Space::Shared, addresses, mask, size);
        let step = group.step(size);
        self.put(&group, mask, &request, block, |bytes, starts| {
            let mut to = Sink { bytes, starts, mask, step, backward };
            // A size that is known makes a comparison and a copy of it, and not two calls.
            match size {
                16 => to.put::<16, 16>(rows),
                8 => to.put::<8, 16>(rows),
                _ => to.put::<4, 16>(rows),
            }
        });
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

/// Where a part of what each lane accesses is.
fn moved(group: &Group, addresses: &[u64; LANES], by: u64) -> (Group, [u64; LANES]) {
    let offsets = group.offsets.map(|offset| offset.wrapping_add(by));
    (Group { offsets, ..*group }, addresses.map(|address| address.wrapping_add(by)))
}

/// A number that tells one list of values from another.
fn mixed(list: u64, value: u64) -> u64 {
    (list.rotate_left(5) ^ value).wrapping_mul(0x517C_C1B7_2722_0A95)
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

/// Where the values of all 32 lanes are, if those of some lie side by side.
#[inline(always)]
fn row(step: Option<usize>, starts: &[usize; LANES], mask: u32, size: usize) -> Option<Range<usize>> {
    let step = step.filter(|step| *step == size)?;
    let first = mask.trailing_zeros() as usize;
    let begin = starts[first].checked_sub(first * step)?;
    Some(begin..begin + LANES * step)
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
    /// Reads a row of bytes for each lane that takes part.
    #[inline(always)]
    fn rows<const SIZE: usize>(&self, rows: &mut [[u8; SIZE]; LANES]) {
        if self.step == Some(SIZE) && self.mask == u32::MAX {
            rows.as_flattened_mut().copy_from_slice(&self.bytes[self.starts[0]..][..LANES * SIZE]);
        } else {
            for lane in lanes(self.mask) {
                rows[lane].copy_from_slice(&self.bytes[self.starts[lane]..][..SIZE]);
            }
        }
    }

    /// Reads a value that lies `at` bytes behind where each lane's bytes begin.
    #[inline(always)]
    fn read<const N: usize, T: Value>(&self, at: usize, out: &mut [T; LANES], value: impl Fn([u8; N]) -> T) {
        let value_at = |start: usize| value(self.bytes[start + at..][..N].try_into().expect("as long"));
        match self.step {
            Some(0) => {
                let value = value_at(self.starts[self.mask.trailing_zeros() as usize]);
                let ones = alu::ones(self.mask);
                for (out, one) in out.iter_mut().zip(ones) {
                    *out = T::choose(one, value, *out);
                }
            }
            Some(step) if self.mask == u32::MAX => {
                let row = self.bytes[self.starts[0]..][..LANES * step].chunks_exact(step);
                for (out, bytes) in out.iter_mut().zip(row) {
                    *out = value(bytes[at..][..N].try_into().expect("as long"));
                }
            }
            _ => match row(self.step, self.starts, self.mask, N).and_then(|row| self.bytes.get(row)) {
                // Some lanes take no part, but could.
                Some(row) => {
                    assert_eq!(at, 0, "a value as long as the step is all of it");
                    let ones = alu::ones(self.mask);
                    for ((out, bytes), one) in out.iter_mut().zip(row.chunks_exact(N)).zip(ones) {
                        *out = T::choose(one, value(bytes.try_into().expect("as long")), *out);
                    }
                }
                None => lanes(self.mask).for_each(|lane| out[lane] = value_at(self.starts[lane])),
            },
        }
    }
}

/// Words that lie side by side, of each lane, from memory into a register each.
#[inline(always)]
fn fetch_words<const COUNT: usize, const SIZE: usize>(from: &Source<'_>, regs: &[Reg], warp: &mut Warp) {
    let mut rows = [[0; SIZE]; LANES];
    from.rows(&mut rows);
    let mut parts = [[0; LANES]; COUNT];
    for (lane, row) in rows.iter().enumerate() {
        for (part, word) in row.as_chunks::<4>().0.iter().enumerate() {
            parts[part][lane] = u32::from_le_bytes(*word);
        }
    }
    for (values, &reg) in parts.into_iter().zip(regs) {
        alu::put32(&mut warp.regs, reg, from.mask, values);
    }
}

/// The words of some registers side by side, of each lane.
#[inline(always)]
fn words<const COUNT: usize, const SIZE: usize>(regs: &[Reg], warp: &Warp) -> [[u8; SIZE]; LANES] {
    let mut parts = [[0; LANES]; COUNT];
    for (part, reg) in parts.iter_mut().zip(regs) {
        *part = warp.regs.w32[reg.index()];
    }
    let mut rows = [[0; SIZE]; LANES];
    for (lane, row) in rows.iter_mut().enumerate() {
        for (part, word) in row.as_chunks_mut::<4>().0.iter_mut().enumerate() {
            *word = parts[part][lane].to_le_bytes();
        }
    }
    rows
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
    /// Whether the last lane is the first to write.
    backward: bool,
}

impl Sink<'_> {
    /// Writes the first bytes of a row for each lane; gives the lanes that write what is there already.
    #[inline(always)]
    fn put<const SIZE: usize, const ROW: usize>(&mut self, rows: &[[u8; ROW]; LANES]) -> u32 {
        let mut same = 0;
        let mut put = |place: &mut [u8], lane: usize| {
            let row = &rows[lane][..SIZE];
            same |= u32::from(place == row) << lane;
            place.copy_from_slice(row);
        };
        if self.step == Some(SIZE) && self.mask == u32::MAX {
            let places = self.bytes[self.starts[0]..][..LANES * SIZE].as_chunks_mut::<SIZE>().0;
            places.iter_mut().enumerate().for_each(|(lane, place)| put(place, lane));
        } else {
            lanes_in_turn(self.mask, self.backward)
                .for_each(|lane| put(&mut self.bytes[self.starts[lane]..][..SIZE], lane));
        }
        same
    }

    /// Writes a value `at` bytes behind where each lane's bytes begin; gives the lanes that write what is there already. `value` undoes
    /// `bytes`: what it makes of any bytes is made into these again.
    #[inline(always)]
    fn write<const N: usize, T: Value + PartialEq>(
        &mut self,
        at: usize,
        from: &[T; LANES],
        bytes: impl Fn(T) -> [u8; N],
        value: impl Fn([u8; N]) -> T,
    ) -> u32 {
        let (mask, mut same) = (self.mask, 0);
        let mut put = |place: &mut [u8], lane: usize| {
            let place: &mut [u8; N] = (&mut place[at..][..N]).try_into().expect("as long");
            let value = bytes(from[lane]);
            same |= u32::from(*place == value) << lane;
            *place = value;
        };
        match self.step {
            Some(step) if step > 0 && mask == u32::MAX => {
                let row = self.bytes[self.starts[0]..][..LANES * step].chunks_exact_mut(step);
                row.enumerate().for_each(|(lane, place)| put(place, lane));
            }
            _ => match row(self.step, self.starts, mask, N).and_then(|row| self.bytes.get_mut(row)) {
                // Some lanes take no part, but could: they write what is there.
                Some(row) => {
                    assert_eq!(at, 0, "a value as long as the step is all of it");
                    let ones = alu::ones(mask);
                    for (lane, place) in row.chunks_exact_mut(N).enumerate() {
                        let place: &mut [u8; N] = place.try_into().expect("as long");
                        let (old, new) = (value(*place), value(bytes(from[lane])));
                        same |= u32::from(old == new) << lane;
                        *place = bytes(T::choose(ones[lane], new, old));
                    }
                    same &= mask;
                }
                None => lanes_in_turn(mask, self.backward)
                    .for_each(|lane| put(&mut self.bytes[self.starts[lane]..], lane)),
            },
        }
        same
    }
}

/// Values of lanes from a register into memory; gives the lanes whose values are there already.
#[inline(always)]
fn spill(to: &mut Sink<'_>, at: usize, access: &Access, reg: Reg, warp: &Warp) -> u32 {
    macro_rules! write {
        ($file:ident: $of:ty, $ty:ty) => {
            to.write(
                at,
                &warp.regs.$file[reg.index()],
                |value| (value as $ty).to_le_bytes(),
                |bytes| <$of>::from(<$ty>::from_le_bytes(bytes)),
            )
        };
    }
    match (access.wide, access.bytes) {
        (false, 1) => write!(w32: u32, u8),
        (false, 2) => write!(w32: u32, u16),
        (false, _) => write!(w32: u32, u32),
        (true, 1) => write!(w64: u64, u8),
        (true, 2) => write!(w64: u64, u16),
        (true, 4) => write!(w64: u64, u32),
        (true, _) => write!(w64: u64, u64),
    }
}

impl Warp {
    /// What a lane has loaded, as a number that tells it from anything else.
    fn loaded(&self, reg: Reg, access: &Access, kernel: &Kernel, lane: usize) -> u64 {
        let parts = (0..usize::from(access.count)).map(|part| part_of(kernel, reg, access.count, part));
        parts.filter(|reg| *reg != Reg::NONE).fold(0, |list, reg| {
            let value = if access.wide {
                self.regs.w64[reg.index()][lane]
            } else {
                self.regs.w32[reg.index()][lane].into()
            };
            mixed(list, value)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rows with and without gaps that begin anywhere in a buffer of 300 bytes, some before it and some ending behind it, with the lanes that are inside.
    fn rows(size: usize) -> impl Iterator<Item = ([usize; LANES], u32)> {
        (0..400usize).filter_map(move |begin| {
            let starts: [usize; LANES] = std::array::from_fn(|lane| (begin + lane * size).wrapping_sub(60));
            let inside = lanes(u32::MAX)
                .filter(|&lane| starts[lane] <= 300 - size)
                .fold(0, |inside, lane| inside | 1 << lane);
            let drawn = (begin as u32).wrapping_mul(0x9E37_79B9).rotate_left(7);
            let mask = inside & if begin % 3 == 0 { u32::MAX } else { drawn };
            (mask != 0).then_some((starts, mask))
        })
    }

    /// Rows of bytes go to and from the places of lanes, at once and lane by lane, and so do the first bytes of longer ones.
    #[test]
    fn rows_of_bytes_are_read_and_written_as_lanes_would() {
        fn tried<const SIZE: usize>() {
            let bytes: Vec<u8> = (0..300u32).map(|place| (place * 7) as u8).collect();
            let bytes = [&bytes[..], &bytes[..]].concat();
            let rows: [[u8; 16]; LANES] =
                std::array::from_fn(|lane| std::array::from_fn(|at| (lane * 5 + at * 3) as u8));
            for begin in 0..bytes.len() - LANES * SIZE {
                let starts: [usize; LANES] = std::array::from_fn(|lane| begin + lane * SIZE);
                let read = |step| {
                    let mut rows = [[9; SIZE]; LANES];
                    Source { bytes: &bytes, starts: &starts, mask: u32::MAX, step }.rows(&mut rows);
                    rows
                };
                let due: [[u8; SIZE]; LANES] =
                    std::array::from_fn(|lane| bytes[starts[lane]..][..SIZE].try_into().expect("as long"));
                assert_eq!(read(Some(SIZE)), due);
                assert_eq!(read(None), due);
                for backward in [false, true] {
                    let write = |step| {
                        let mut bytes = bytes.clone();
                        // One lane writes what is there, and another all but its last byte.
                        bytes[starts[3]..][..SIZE].copy_from_slice(&rows[3][..SIZE]);
                        bytes[starts[4]..][..SIZE - 1].copy_from_slice(&rows[4][..SIZE - 1]);
                        bytes[starts[4] + SIZE - 1] = !rows[4][SIZE - 1];
                        let mut to =
                            Sink { bytes: &mut bytes, starts: &starts, mask: u32::MAX, step, backward };
                        (to.put::<SIZE, 16>(&rows), bytes)
                    };
                    let (same, written) = write(Some(SIZE));
                    assert!(same & 1 << 3 != 0 && same & 1 << 4 == 0);
                    assert_eq!((same, &written), (write(None).0, &write(None).1), "to {begin}");
                    let at = |lane: usize| &written[starts[lane]..][..SIZE];
                    assert!((0..LANES).all(|lane| at(lane) == &rows[lane][..SIZE]), "to {begin}");
                }
            }
            // Some lanes, and all of them to one place: of those the last in turn is seen.
            let starts = [40; LANES];
            let mut kept = [[9; SIZE]; LANES];
            Source { bytes: &bytes, starts: &starts, mask: 0b110, step: Some(0) }.rows(&mut kept);
            assert!(kept[0] == [9; SIZE] && kept[1] == kept[2] && kept[2] == bytes[40..][..SIZE]);
            for (backward, seen) in [(false, 31), (true, 2)] {
                let mut bytes = bytes.clone();
                let step = Some(0);
                let mut to = Sink { bytes: &mut bytes, starts: &starts, mask: !0b11, step, backward };
                to.put::<SIZE, 16>(&rows);
                assert_eq!(bytes[40..][..SIZE], rows[seen][..SIZE]);
            }
        }
        tried::<16>();
        tried::<8>();
        tried::<4>();
    }

    #[test]
    fn a_row_is_read_and_written_as_its_lanes_would() {
        let bytes: Vec<u8> = (0..300u32).map(|place| (place * 7) as u8).collect();
        for (starts, mask) in rows(4) {
            let read = |step| {
                let mut out = [7u32; LANES];
                Source { bytes: &bytes, starts: &starts, mask, step }.read(0, &mut out, u32::from_le_bytes);
                out
            };
            assert_eq!(read(Some(4)), read(None), "{mask:#x} from {}", starts[0]);
            let values: [u32; LANES] = std::array::from_fn(|lane| match lane % 5 {
                0 => 0,
                _ => lane as u32 * 0x0101_0101,
            });
            let write = |step| {
                let mut bytes = bytes.clone();
                // One lane writes what is there.
                let first = mask.trailing_zeros() as usize;
                bytes[starts[first]..][..4].copy_from_slice(&values[first].to_le_bytes());
                let mut to = Sink { bytes: &mut bytes, starts: &starts, mask, step, backward: false };
                let same = to.write(0, &values, u32::to_le_bytes, u32::from_le_bytes);
                assert!(same & 1 << first != 0 && same & !mask == 0);
                (same, bytes)
            };
            assert_eq!(write(Some(4)), write(None), "{mask:#x} to {}", starts[0]);
        }
        // The second half of a pair.
        for (starts, mask) in rows(8).filter(|(_, mask)| *mask != u32::MAX) {
            let read = |step| {
                let mut out = [7u64; LANES];
                let from = Source { bytes: &bytes, starts: &starts, mask, step };
                from.read(4, &mut out, |bytes| u32::from_le_bytes(bytes).into());
                out
            };
            assert_eq!(read(Some(8)), read(None), "{mask:#x} from {}", starts[0]);
        }
        for (starts, mask) in rows(2) {
            let write = |step| {
                let mut bytes = bytes.clone();
                let values: [u64; LANES] = std::array::from_fn(|lane| 0xABCD_0001 * lane as u64);
                let mut to = Sink { bytes: &mut bytes, starts: &starts, mask, step, backward: true };
                let bytes_of = |value: u64| (value as u16).to_le_bytes();
                (to.write(0, &values, bytes_of, |bytes| u16::from_le_bytes(bytes).into()), bytes)
            };
            assert_eq!(write(Some(2)), write(None), "{mask:#x} to {}", starts[0]);
        }
    }
}
