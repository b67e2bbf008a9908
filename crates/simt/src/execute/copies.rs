//! Asynchronous copies from global to shared memory.
//!
//! What is copied is read when the copy is asked for, and appears in shared memory when the thread waits for it. A real copy may land at
//! any moment between: so who reads too early finds what was there before, and both moments are writes to whoever might race.

use crate::fault::Kind;
use crate::program::{AsyncCopy, Inst, LANES, Reg, Space};

use super::Machine;
use super::block::Block;
use super::place::{Request, Way, addresses};
use super::warp::{Warp, lanes};

/// Copies of a warp that may be under way, beyond any that shared memory has room for.
const PENDING_MAX: usize = 1 << 16;

/// A copy under way.
#[derive(Debug, Clone, Copy)]
pub(super) struct Copy {
    lane: u8,
    size: u8,
    pc: u32,
    /// The how-manieth of its warp.
    number: u32,
    /// The how-manieth group of the lane it belongs to.
    group: u32,
    to: u64,
    bytes: [u8; 16],
}

impl Copy {
    /// Whether an arrival is to wait for it.
    pub fn is_before(&self, arrival: &Arrival) -> bool {
        arrival.lanes >> self.lane & 1 == 1 && self.number < arrival.number
    }
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
        let meets = |copy: &&Copy| copy.to < bytes.end && bytes.start < copy.to + u64::from(copy.size);
        self.pending.iter().find(meets).map(|copy| copy.pc)
    }

    /// Forgets the copies of lanes that end; which is a fault.
    pub fn abandon(&mut self, ending: u32, warp: usize, pc: u32, block: &Block, machine: &mut Machine<'_>) {
        if self.pending.is_empty() {
            return;
        }
        let ends = |copy: &Copy| ending >> copy.lane & 1 == 1;
        if let Some(first) = self.pending.iter().find(|copy| ends(copy)).copied() {
            let count = self.pending.iter().filter(|copy| ends(copy)).count() as u64;
            let who = (block, (32 * warp) as u16 + u16::from(first.lane));
            machine.fault(Kind::NeverWaited, first.pc, Some(pc), count, who, || {
                "ends before it has waited for a copy that it asked for".to_owned()
            });
        }
        self.pending.retain(|copy| !ends(copy));
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
        if warp.copies.pending.len() > PENDING_MAX {
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
        let whole = lanes(active).filter(|&lane| takes(lane) == bytes).fold(0, |mask, lane| mask | 1 << lane);
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
                at[lane] += 1;
            }
        }
        // It may land from now on, so whoever is not done with what is there races.
        let to = addresses(warp, inst.a, wide_address, 0);
        let request = Request { way: Way::Write, size: bytes.into(), pc, strong: false, warp: warp.index };
        let group = self.group(Space::Shared, &to, active, bytes.into());
        let mask = self.admit(&group, &request, block);
        if mask != 0 {
            self.check_races(&group, mask, 0, &request, block);
        }
        if bypass {
            self.count_torn(&from, &to, mask & whole, pc);
        }
        for lane in lanes(mask) {
            let (group, number) = (warp.copies.groups[lane], warp.copies.asked);
            warp.copies.asked += 1;
            warp.copies.pending.push(Copy {
                lane: lane as u8,
                size: bytes,
                pc,
                number,
                group,
                to: to[lane],
                bytes: rows[lane],
            });
        }
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
        let lands = |copy: &Copy| {
            let under_way = groups.map_or(0, u32::from);
            // Copies that are in no group yet are waited for by `wait_all` only.
            active >> copy.lane & 1 == 1
                && (groups.is_none() || copy.group + under_way < made[usize::from(copy.lane)])
        };
        self.land(lands, warp, block);
    }

    /// Puts some copies where they are to be.
    pub(super) fn land(&mut self, lands: impl Fn(&Copy) -> bool, warp: &mut Warp, block: &mut Block) {
        let landing: Vec<Copy> = warp.copies.pending.extract_if(.., |copy| lands(copy)).collect();
        let mut rest = &landing[..];
        while let Some(first) = rest.first() {
            // Those that were asked for together land together.
            let together = rest.iter().take_while(|copy| copy.pc == first.pc && copy.size == first.size);
            let mut mask = 0u32;
            let mut count = 0;
            let (mut to, mut rows) = ([0; LANES], [[0; 16]; LANES]);
            for copy in together.take_while(|copy| {
                let fresh = mask >> copy.lane & 1 == 0;
                mask |= 1 << copy.lane;
                fresh
            }) {
                to[usize::from(copy.lane)] = copy.to;
                rows[usize::from(copy.lane)] = copy.bytes;
                count += 1;
            }
            let mask = rest[..count].iter().fold(0, |mask, copy| mask | 1 << copy.lane);
            let size = usize::from(first.size);
            self.write_rows(&to, &rows, (mask, size), first.pc, warp.index, block);
            rest = &rest[count..];
        }
    }
}
