//! Barriers of a block.

use crate::fault::Kind;
use crate::program::{Barrier, Op, Reg};

use super::Machine;
use super::block::Block;

/// How many a block has.
const BARRIERS: usize = 16;

/// The barriers of a block.
#[derive(Debug, Default)]
pub(super) struct Barriers([State; BARRIERS]);

/// What has come to one.
#[derive(Debug, Default)]
struct State {
    arrived: Vec<Arrival>,
    /// Threads it waits for, if arrivals say so.
    count: Option<u32>,
}

/// A warp at a barrier.
#[derive(Debug, Clone, Copy)]
pub(super) struct Arrival {
    pub warp: usize,
    pub tick: u32,
    pub pc: u32,
    /// Whether it waits.
    pub waits: bool,
    /// Lanes that have come.
    pub lanes: u32,
    /// Those whose predicate holds.
    pub holds: u32,
}

impl Block {
    /// Notes a warp at a barrier. An impossible number or count is a fault, and the barrier then that of all threads.
    pub fn arrive(&mut self, number: u32, count: Option<u32>, arrival: Arrival, machine: &mut Machine<'_>) {
        let thread = (arrival.warp * 32) as u16 + arrival.lanes.trailing_zeros() as u16;
        let threads = self.warps.len() as u32 * 32;
        let bad = |what: String, machine: &mut Machine<'_>, block: &Block| {
            machine.fault(Kind::BadBarrier, arrival.pc, None, 1, (block, thread), || what);
        };
        let number = if number as usize >= BARRIERS {
            bad(format!("barrier {number} is none: a block has 16"), machine, self);
            0
        } else {
            number as usize
        };
        let count = match count {
            Some(count) if count == 0 || count % 32 != 0 || count > threads => {
                bad(format!("a barrier of {count} threads is none in a block of {threads}"), machine, self);
                None
            }
            count => count,
        };
        let state = &mut self.barriers.0[number];
        let known = state.count;
        if !state.arrived.is_empty() && known != count {
            let told = |count: Option<u32>| count.map_or("all".to_owned(), |count| count.to_string());
            let what = format!(
                "waits for {} threads at a barrier where others wait for {}",
                told(count),
                told(known)
            );
            bad(what, machine, self);
        } else {
            state.count = count;
        }
        self.barriers.0[number].arrived.push(arrival);
    }

    /// Lets go who waits at a barrier to which all have come. `running` warps are out of their places: they have not ended.
    pub fn settle(&mut self, running: usize, machine: &mut Machine<'_>) {
        for number in 0..BARRIERS {
            let state = &self.barriers.0[number];
            if state.arrived.is_empty() {
                continue;
            }
            let left = || running + self.warps.iter().filter(|warp| !warp.is_done()).count();
            if state.arrived.len() < state.count.map_or_else(left, |count| count as usize / 32) {
                continue;
            }
            let all = state.count.is_none();
            let arrived = std::mem::take(&mut self.barriers.0[number].arrived);
            machine.counts.barriers += 1;
            let seen: Vec<(usize, u32, bool)> =
                arrived.iter().map(|one| (one.warp, one.tick, one.waits)).collect();
            self.clocks.barrier(&seen);
            if all {
                self.note_ended(&arrived, machine);
            }
            let lanes: u32 = arrived.iter().map(|one| one.lanes.count_ones()).sum();
            let holding: u32 = arrived.iter().map(|one| one.holds.count_ones()).sum();
            for arrival in arrived.iter().filter(|one| one.waits) {
                self.warps[arrival.warp].pass(machine.kernel, |inst, lanes_here, regs| {
                    if inst.d == Reg::NONE {
                        return;
                    }
                    match inst.op {
                        Op::Barrier(Barrier::Popc, _) => {
                            for lane in (0..32).filter(|lane| lanes_here >> lane & 1 == 1) {
                                regs.w32[inst.d.index()][lane] = holding;
                            }
                        }
                        Op::Barrier(kind @ (Barrier::And | Barrier::Or), _) => {
                            let holds = if kind == Barrier::And { holding == lanes } else { holding > 0 };
                            let pred = &mut regs.p[inst.d.index()];
                            *pred = *pred & !lanes_here | if holds { lanes_here } else { 0 };
                        }
                        _ => {}
                    }
                });
            }
        }
    }

    /// A barrier of all threads, of which some have ended, is one only on the devices that forgive it.
    fn note_ended(&self, arrived: &[Arrival], machine: &mut Machine<'_>) {
        let ended: u32 = self.warps.iter().map(|warp| warp.ended().count_ones()).sum();
        let (Some(first), true) = (arrived.first(), ended > 0) else { return };
        let thread = (first.warp * 32) as u16 + first.lanes.trailing_zeros() as u16;
        machine.fault(Kind::BarrierAfterExit, first.pc, None, 1, (self, thread), || {
            let threads = if ended == 1 { "1 thread".to_owned() } else { format!("{ended} threads") };
            format!("waits at a barrier of all threads after {threads} of the block ended without it")
        });
    }
}
