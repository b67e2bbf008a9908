//! Asynchronous copies from global to shared memory.
//!
//! What is copied is read when the copy is asked for, and appears in shared memory when the thread waits for it. A real copy may land at
//! any moment between: so who reads too early finds what was there before, or whatever is asked for where nobody wrote, as what is there is
//! not known; and both moments are writes to whoever might race.

use crate::alu::ballot;
use crate::fault::Kind;
use crate::memory::POISON;
use crate::program::{AsyncCopy, Inst, LANES, Reg, Space};

use super::Machine;
use super::block::Block;
use super::place::{Request, Way, addresses};
use super::warp::{Warp, lanes};

/// Copies of lanes of a warp that may be under way, beyond any that shared memory has room for.
const PENDING_MAX: usize = 1 << 16;

/// Copies under way that lanes asked for together, and that are in the same group of each.
#[derive(Debug)]
pub(super) struct Copy {
    pc: u32,
    size: u8,
    /// The how-manieth of its warp.
    number: u32,
    /// The how-manieth group of its lanes it belongs to.
    group: u32,
    /// Whose they are.
    lanes: u32,
    /// Where to, of these lanes in order, and what.
    to: Box<[u64]>,
    rows: Box<[[u8; 16]]>,
}

impl Copy {
    /// The lanes for which an arrival is to wait for it.
    pub fn before(&self, arrival: &Arrival) -> u32 {
        if self.number < arrival.number { arrival.lanes } else { 0 }
    }

    /// What each lane copies where.
    fn each(&self) -> ([u64; LANES], [[u8; 16]; LANES]) {
        (spread(&self.to, self.lanes), spread(&self.rows, self.lanes))
    }

    /// Forgets those of some lanes.
    fn forget(&mut self, of: u32) {
        let left = self.lanes & !of;
        if left != self.lanes && left != 0 {
            let (to, rows) = self.each();
            (self.to, self.rows) = (gathered(&to, left), gathered(&rows, left));
        }
        self.lanes = left;
    }
}

/// What some lanes have, in order.
fn gathered<T: core::marker::Copy>(each: &[T; LANES], mask: u32) -> Box<[T]> {
    match mask {
        u32::MAX => Box::from(each.as_slice()),
        _ => lanes(mask).map(|lane| each[lane]).collect(),
    }
}

/// The same as each lane has it.
fn spread<T: core::marker::Copy + Default>(some: &[T], mask: u32) -> [T; LANES] {
    let mut each = [T::default(); LANES];
    match mask {
        u32::MAX => each.copy_from_slice(some),
        _ => lanes(mask).zip(some).for_each(|(lane, one)| each[lane] = *one),
    }
    each
}

/// Lanes whose copies are to arrive at an mbarrier.
#[derive(Debug, Clone, Copy)]
pub(super) struct Arrival {
    pub lanes: u32,
    pub pc: u32,
    /// The first copy that is not meant.
    number: u32,
    /// Where the mbarrier is.
    pub at: u64,
}

/// The copies of a warp that have not been waited for.
#[derive(Debug, Default)]
pub(super) struct Copies {
    pending: Vec<Copy>,
    /// How many they are, each lane's for itself.
    count: usize,
    arrivals: Vec<Arrival>,
    /// Copies that the warp has asked for.
    asked: u32,
    /// Groups that each lane has made.
    groups: [u32; LANES],
}

impl Copies {
    pub fn commit(&mut self, active: u32) {
        for lane in lanes(active) {
            self.groups[lane] += 1;
        }
    }

    /// All copies of a lane until now are to arrive at an mbarrier.
    pub fn arrive(&mut self, lane: usize, at: u64, pc: u32) {
        let (lanes, number) = (1 << lane, self.asked);
        match self.arrivals.last_mut() {
            Some(last) if (last.pc, last.number, last.at) == (pc, number, at) && last.lanes & lanes == 0 => {
                last.lanes |= lanes;
            }
            _ => self.arrivals.push(Arrival { lanes, pc, number, at }),
        }
    }

    /// Whether more copies are to arrive than can be followed.
    pub fn is_full_of_arrivals(&self) -> bool {
        self.arrivals.len() > PENDING_MAX
    }

    pub fn is_to_arrive(&self) -> bool {
        !self.arrivals.is_empty()
    }

    /// What is to arrive of some lanes.
    pub fn take_arrivals(&mut self, of: u32) -> Vec<Arrival> {
        let those = |arrival: &Arrival| Arrival { lanes: arrival.lanes & of, ..*arrival };
        let taken = self.arrivals.iter().map(those).filter(|arrival| arrival.lanes != 0).collect();
        self.arrivals.retain_mut(|arrival| {
            arrival.lanes &= !of;
            arrival.lanes != 0
        });
        taken
    }

    /// The instruction that asked for a copy to some of these bytes of shared memory.
    pub fn under_way(&self, bytes: std::ops::Range<u64>) -> Option<u32> {
        let meets = |copy: &Copy, to: u64| to < bytes.end && bytes.start < to + u64::from(copy.size);
        let copy = self.pending.iter().find(|copy| copy.to.iter().any(|&to| meets(copy, to)));
        copy.map(|copy| copy.pc)
    }

    /// Forgets the copies of lanes that end; which is a fault.
    pub fn abandon(&mut self, ending: u32, warp: usize, pc: u32, block: &Block, machine: &mut Machine<'_>) {
        let ends = |copy: &&Copy| copy.lanes & ending != 0;
        if let Some(first) = self.pending.iter().find(ends) {
            let count = self.pending.iter().map(|copy| u64::from((copy.lanes & ending).count_ones())).sum();
            let who = (block, (32 * warp) as u16 + (first.lanes & ending).trailing_zeros() as u16);
            machine.fault(Kind::NeverWaited, first.pc, Some(pc), count, who, || {
                "ends before it has waited for a copy that it asked for".to_owned()
            });
        }
        self.retain(|copy| copy.forget(ending));
    }

    /// Changes copies, and drops those that are no lane's any more.
    fn retain(&mut self, mut change: impl FnMut(&mut Copy)) {
        let count = &mut self.count;
        self.pending.retain_mut(|copy| {
            let before = copy.lanes.count_ones();
            change(copy);
            *count -= (before - copy.lanes.count_ones()) as usize;
            copy.lanes != 0
        });
    }
}

impl Machine<'_> {
    /// `cp.async`
    pub(super) fn copy_async(
        &mut self,
        inst: &Inst,
        AsyncCopy { bytes, bypass, wide_address }: AsyncCopy,
        pc: u32,
        active: u32,
        warp: &mut Warp,
        block: &mut Block,
    ) {
        if warp.copies.count > PENDING_MAX {
            let thread = (32 * warp.index) as u16 + active.trailing_zeros() as u16;
            self.give_up(
                pc,
                (block, thread),
                "a warp has asked for more copies, and waited for none, than can be followed",
            );
            return;
        }
        let from = warp.regs.w64[inst.b.index()];
        // Lanes by how many bytes they take from memory.
        let takes = |lane: usize| match inst.c {
            Reg::NONE => bytes,
            reg => warp.regs.w32[reg.index()][lane].min(bytes.into()) as u8,
        };
        let whole = if inst.c == Reg::NONE { active } else { ballot(|lane| takes(lane) == bytes) & active };
        let partial: Vec<(usize, u8)> =
            lanes(active & !whole).map(|lane| (lane, takes(lane))).filter(|&(_, size)| size > 0).collect();
        let mut rows = [[0; 16]; LANES];
        if whole != 0 {
            rows = self.read_rows(Space::Global, &from, (whole, bytes.into()), pc, warp, block);
        }
        for (lane, size) in partial {
            let mut at = from;
            for to in rows[lane].iter_mut().take(size.into()) {
                let row = self.read_rows(Space::Global, &at, (1 << lane, 1), pc, warp, block);
                *to = row[lane][0];
                at[lane] = at[lane].wrapping_add(1);
            }
        }
        // It may land from now on, so whoever is not done with what is there races.
        let to = addresses(warp, inst.a, wide_address, 0);
        let request = Request { way: Way::Write, size: bytes.into(), pc, atomic: None, warp: warp.index };
        let group = self.group(Space::Shared, &to, active, bytes.into());
        let mask = self.admit(&group, &request, block);
        if mask != 0 {
            self.check_races(&group, mask, 0, &request, block);
            // Until it is waited for, nobody knows what is there.
            let mut forget = |at: usize, size: usize| {
                block.shared_written.unset_range(at, size);
                if self.fill != POISON {
                    block.shared[at..][..size].fill(self.fill);
                }
            };
            let size = usize::from(bytes);
            if group.row && mask == u32::MAX {
                forget(group.offsets[0] as usize, LANES * size);
            } else {
                lanes(mask).for_each(|lane| forget(group.offsets[lane] as usize, size));
            }
        }
        if bypass {
            self.count_torn(&from, &to, mask & whole, pc);
        }
        let copies = &mut warp.copies;
        let mut left = mask;
        while left != 0 {
            let group = copies.groups[left.trailing_zeros() as usize];
            let those = ballot(|lane| copies.groups[lane] == group) & left;
            left &= !those;
            copies.count += those.count_ones() as usize;
            let (to, rows) = (gathered(&to, those), gathered(&rows, those));
            copies.pending.push(Copy {
                pc,
                size: bytes,
                number: copies.asked,
                group,
                lanes: those,
                to,
                rows,
            });
        }
        copies.asked += 1;
    }

    /// `cp.async.wait_group` and `cp.async.wait_all`
    pub(super) fn wait_group(
        &mut self,
        groups: Option<u16>,
        active: u32,
        warp: &mut Warp,
        block: &mut Block,
    ) {
        let made = warp.copies.groups;
        let lands = |copy: &Copy| match groups {
            // Copies that are in no group yet are waited for by `wait_all` only.
            None => active,
            Some(under_way) => {
                let last = copy.group + u32::from(under_way);
                ballot(|lane| last < made[lane]) & active
            }
        };
        self.land(lands, warp, block);
    }

    /// Puts copies of some lanes where they are to be.
    pub(super) fn land(&mut self, lands: impl Fn(&Copy) -> u32, warp: &mut Warp, block: &mut Block) {
        let index = warp.index;
        warp.copies.retain(|copy| {
            let mask = lands(copy) & copy.lanes;
            if mask == 0 {
                return;
            }
            // Those that were asked for together land together.
            let (to, rows) = copy.each();
            self.write_rows(&to, &rows, (mask, copy.size.into()), copy.pc, index, block);
            copy.forget(mask);
        });
    }
}
