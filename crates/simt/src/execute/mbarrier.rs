//! Barriers in shared memory that count arrivals, and of which threads ask whether a phase is complete.
//!
//! CUDA says nothing of what such a word holds. Here it is, from the lowest bit: the arrivals of a phase, those that are still awaited, the
//! number of the phase, and a tag by which a word is told that is none, or was written over.
//!
//! Copies that are to arrive do so when somebody asks for the phase, or when their thread ends: as late as it can be told.

use crate::fault::Kind;
use crate::program::{COUNT_BITS, Inst, Mbarrier, PENDING_AT, Reg, Scope, Space};

use super::Machine;
use super::block::{Awaited, Block};
use super::place::{Group, Request, Target, Way, addresses};
use super::warp::{Warp, lanes};

/// Bytes of one.
const SIZE: usize = 8;
/// Most arrivals of a phase.
const COUNT_MAX: u64 = (1 << COUNT_BITS) - 1;
const PHASE_AT: u8 = 2 * COUNT_BITS;
const PHASE_MAX: u64 = (1 << (TAG_AT - PHASE_AT)) - 1;
const TAG_AT: u8 = 56;
const TAG: u64 = 0xB7;

/// What the word says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct State {
    expected: u64,
    pending: u64,
    phase: u64,
}

impl State {
    fn of(word: u64) -> Option<State> {
        (word >> TAG_AT == TAG).then_some(State {
            expected: word & COUNT_MAX,
            pending: word >> PENDING_AT & COUNT_MAX,
            phase: word >> PHASE_AT & PHASE_MAX,
        })
    }

    fn word(self) -> u64 {
        self.expected | self.pending << PENDING_AT | self.phase << PHASE_AT | TAG << TAG_AT
    }

    /// Counts arrivals, at most as many as are pending; whether the phase is complete with them.
    fn arrive(&mut self, count: u64) -> bool {
        self.pending -= count;
        let complete = self.pending == 0;
        if complete {
            self.pending = self.expected;
            self.phase = (self.phase + 1) & PHASE_MAX;
        }
        complete
    }
}

/// Where in the block's memory what arrivals let be seen lies until their phase is complete: nothing else can be there.
fn arriving(location: u64) -> u64 {
    location + 1
}

impl Machine<'_> {
    /// Does it; whether a lane asked for a phase that is not complete.
    #[allow(clippy::too_many_arguments)]
    pub(super) fn mbarrier(
        &mut self,
        inst: &Inst,
        kind: Mbarrier,
        wide_address: bool,
        pc: u32,
        active: u32,
        warp: &mut Warp,
        block: &mut Block,
    ) -> bool {
        let addresses = addresses(warp, inst.a, wide_address, 0);
        let way = match kind {
            Mbarrier::Init | Mbarrier::Invalidate => Way::Write,
            Mbarrier::Arrive { .. } | Mbarrier::ArriveAfterCopies { .. } => Way::Atomic,
            Mbarrier::Test { .. } => Way::Read,
        };
        let atomic = (way != Way::Write).then_some(Scope::Block);
        let request = Request { way, size: SIZE, pc, atomic, warp: warp.index };
        if matches!(kind, Mbarrier::Test { .. }) {
            self.let_all_copies_arrive(warp, block);
        }
        let mut waits = false;
        let mut left = active;
        while left != 0 {
            let group = self.group(Space::Shared, &addresses, left, SIZE);
            left &= !group.mask;
            let mask = self.admit(&group, &request, block);
            if mask == 0 {
                continue;
            }
            self.count(&group, mask, &request);
            let starts = self.starts(&group, warp.index);
            if way != Way::Write {
                self.check_written(&group, &starts, mask, &request, warp, block);
            }
            self.check_races(&group, mask, 0, &request, block);
            for lane in lanes(mask) {
                match kind {
                    Mbarrier::Init => self.init(lane, inst, &group, &request, warp, block),
                    Mbarrier::Invalidate => put(block, group.offsets[lane], 0),
                    Mbarrier::Arrive { drop, completes } => {
                        self.arrive(lane, (drop, completes), inst, &group, &request, warp, block);
                    }
                    Mbarrier::ArriveAfterCopies { counted } => {
                        let Some(mut state) = self.state(lane, &group, &request, block) else { continue };
                        if warp.copies.is_full_of_arrivals() {
                            let what = "copies of a warp are to arrive more often, and nobody asks for it, than can be followed";
                            self.give_up(pc, (block, request.thread(lane)), what);
                            return true;
                        }
                        if !counted {
                            state.pending = (state.pending + 1).min(COUNT_MAX);
                            put(block, group.offsets[lane], state.word());
                        }
                        warp.copies.arrive(lane, group.offsets[lane], pc);
                    }
                    Mbarrier::Test { parity } => {
                        let Some(state) = self.state(lane, &group, &request, block) else { continue };
                        let asked = match parity {
                            true => Some(u64::from(warp.regs.w32[inst.b.index()][lane])),
                            false => State::of(warp.regs.w64[inst.b.index()][lane]).map(|asked| asked.phase),
                        };
                        let Some(asked) = asked else {
                            self.bad_mbarrier(lane, &request, block, || {
                                "asks for a state that no arrival gave".to_owned()
                            });
                            continue;
                        };
                        let complete =
                            if parity { state.phase & 1 != asked & 1 } else { state.phase != asked };
                        if complete && let Some(seen) = block.handed.get(&group.offsets[lane]) {
                            block.clocks.join(warp.index, seen);
                        }
                        if !complete {
                            let State { expected, pending, phase } = state;
                            let at = group.offsets[lane];
                            block.awaited = Some(Awaited { at, phase, pending, expected });
                        }
                        waits |= !complete;
                        if inst.d != Reg::NONE {
                            let pred = &mut warp.regs.p[inst.d.index()];
                            *pred = *pred & !(1 << lane) | u32::from(complete) << lane;
                        }
                    }
                }
            }
        }
        waits
    }

    fn bad_mbarrier(&mut self, lane: usize, request: &Request, block: &Block, what: impl FnOnce() -> String) {
        self.fault(Kind::BadBarrier, request.pc, None, 1, (block, request.thread(lane)), what);
    }

    /// The state of the mbarrier that a lane uses. A fault if there is none.
    fn state(&mut self, lane: usize, group: &Group, request: &Request, block: &Block) -> Option<State> {
        let offset = group.offsets[lane];
        let state = State::of(get(block, offset));
        if state.is_none() {
            let spot = self.spot(Target::Shared, offset);
            self.bad_mbarrier(lane, request, block, || {
                format!("uses {spot} as an mbarrier, which it is not, or no more")
            });
        }
        state
    }

    fn init(
        &mut self,
        lane: usize,
        inst: &Inst,
        group: &Group,
        request: &Request,
        warp: &Warp,
        block: &mut Block,
    ) {
        let expected = u64::from(warp.regs.w32[inst.b.index()][lane]);
        if !(1..=COUNT_MAX).contains(&expected) {
            self.bad_mbarrier(lane, request, block, || {
                format!("makes an mbarrier of {expected} arrivals: 1 to {COUNT_MAX} can be")
            });
        }
        let expected = expected.clamp(1, COUNT_MAX);
        put(block, group.offsets[lane], State { expected, pending: expected, phase: 0 }.word());
    }

    #[allow(clippy::too_many_arguments)]
    fn arrive(
        &mut self,
        lane: usize,
        (drop, completes): (bool, bool),
        inst: &Inst,
        group: &Group,
        request: &Request,
        warp: &mut Warp,
        block: &mut Block,
    ) {
        let Some(mut state) = self.state(lane, group, request, block) else { return };
        let before = state;
        let count = if inst.b == Reg::NONE { 1 } else { u64::from(warp.regs.w32[inst.b.index()][lane]) };
        if count == 0 || count > state.pending {
            self.bad_mbarrier(lane, request, block, || {
                format!("arrives {count} times at an mbarrier whose phase waits for {}", before.pending)
            });
        }
        let count = count.min(state.pending);
        if drop {
            state.expected -= count.min(state.expected);
        }
        if !completes && count == state.pending {
            self.bad_mbarrier(lane, request, block, || {
                "completes a phase with an arrival that says it does not".to_owned()
            });
        }
        let location = group.offsets[lane];
        block.let_see(arriving(location), warp.index, self.tick);
        if count > 0 && state.arrive(count) {
            block.complete(location);
        }
        put(block, location, state.word());
        if inst.d != Reg::NONE {
            warp.regs.w64[inst.d.index()][lane] = before.word();
        }
    }

    /// Lets all copies of a block arrive where their threads said that they are to. `warp` is out of its place.
    fn let_all_copies_arrive(&mut self, warp: &mut Warp, block: &mut Block) {
        self.let_copies_arrive(u32::MAX, warp, block);
        for index in 0..block.warps.len() {
            if block.warps[index].copies.is_to_arrive() {
                let mut other = std::mem::take(&mut block.warps[index]);
                self.let_copies_arrive(u32::MAX, &mut other, block);
                block.warps[index] = other;
            }
        }
    }

    /// The same, of some lanes of a warp.
    pub(super) fn let_copies_arrive(&mut self, of: u32, warp: &mut Warp, block: &mut Block) {
        for arrival in warp.copies.take_arrivals(of) {
            self.land(|copy| copy.before(&arrival), warp, block);
            // What has landed is what the arrival lets be seen.
            self.tick += 1;
            let Some(mut state) = State::of(get(block, arrival.at)) else {
                let who = (&*block, (32 * warp.index) as u16 + arrival.lanes.trailing_zeros() as u16);
                self.fault(Kind::BadBarrier, arrival.pc, None, 1, who, || {
                    "copies arrive at an mbarrier that is none any more".to_owned()
                });
                continue;
            };
            for _ in lanes(arrival.lanes) {
                block.let_see(arriving(arrival.at), warp.index, self.tick);
                if state.pending > 0 && state.arrive(1) {
                    block.complete(arrival.at);
                }
            }
            put(block, arrival.at, state.word());
        }
    }
}

impl Block {
    /// What a warp did before `tick`, and has seen, is there for those who see what is at a location.
    pub(super) fn let_see(&mut self, location: u64, warp: usize, tick: u32) {
        let row = self.clocks.row(warp);
        let seen = self.handed.entry(location).or_insert_with(|| vec![0; row.len()]);
        seen.iter_mut().zip(row).for_each(|(seen, &row)| *seen = (*seen).max(row));
        seen[warp] = seen[warp].max(tick);
    }

    /// What came with the arrivals of a phase is there for those who see that it is complete.
    fn complete(&mut self, location: u64) {
        let Some(arrived) = self.handed.remove(&arriving(location)) else { return };
        match self.handed.get_mut(&location) {
            Some(seen) => seen.iter_mut().zip(arrived).for_each(|(seen, tick)| *seen = (*seen).max(tick)),
            None => drop(self.handed.insert(location, arrived)),
        }
    }
}

fn get(block: &Block, offset: u64) -> u64 {
    let bytes = &block.shared[offset as usize..][..SIZE];
    u64::from_le_bytes(bytes.try_into().expect("as long"))
}

fn put(block: &mut Block, offset: u64, word: u64) {
    block.shared[offset as usize..][..SIZE].copy_from_slice(&word.to_le_bytes());
    block.shared_written.set(offset as usize, SIZE);
}
