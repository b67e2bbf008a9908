//! A block: its warps, its shared memory, its barriers.

use crate::fault::{Kind, Line};
use crate::launch::Schedule;
use crate::memory::Bitmap;
use crate::shadow::{Acquired, Clocks, Exchanged, Handed, Shadow};

use super::Machine;
use super::barrier::Barriers;
use super::warp::{Pause, Warp};

/// Instructions after which a warp lets others go on.
const TURN: u32 = 4096;
/// In reverse a warp gets far ahead of the others, unless it waits for them: being late is no barrier.
const LONG_TURN: u32 = 1 << 17;

/// What came of letting a block run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ran {
    /// All threads have come to their end.
    ToTheEnd,
    /// It goes on.
    On,
    /// All that it does is to look at what others may change, and it sees the same again and again.
    Idle,
}

/// A phase of an mbarrier that is not complete.
#[derive(Debug, Clone, Copy)]
pub(super) struct Awaited {
    /// Where in shared memory it is.
    pub at: u64,
    pub phase: u64,
    /// Arrivals that it lacks, of so many.
    pub pending: u64,
    pub expected: u64,
}

/// A block of threads.
pub(super) struct Block {
    pub index: u32,
    pub ctaid: [u32; 3],
    pub warps: Vec<Warp>,
    pub shared: Vec<u8>,
    pub shared_written: Bitmap,
    pub shared_shadow: Shadow,
    /// Local memory of one thread after the other.
    pub local: Vec<u8>,
    pub local_written: Bitmap,
    pub clocks: Clocks,
    /// By warp: its last exchanges.
    pub exchanged: Vec<Vec<Exchanged>>,
    pub acquired: Acquired,
    pub handed: Handed,
    /// Whether some of it is remembered together, as there is so much.
    pub handed_together: bool,
    /// What the last thread that asked for a phase of an mbarrier waits for.
    pub awaited: Option<Awaited>,
    /// When a thread of each warp last made what it had done visible to the device, and up to which tick the warp had seen then what each other did.
    fences: Vec<(u32, Vec<u32>)>,
    pub barriers: Barriers,
}

impl Block {
    pub fn new(machine: &Machine<'_>) -> Block {
        let threads: u32 = machine.launch.block.iter().product();
        let warps = threads.div_ceil(32) as usize;
        let shared = machine.kernel.shared.room(machine.launch.shared) as usize;
        let local = machine.kernel.local_bytes as usize * warps * 32;
        Block {
            index: 0,
            ctaid: [0; 3],
            warps: (0..warps).map(|warp| Warp::new(warp, threads, machine.kernel)).collect(),
            shared: vec![machine.fill; shared],
            shared_written: Bitmap::new(shared),
            shared_shadow: Shadow::new(shared.div_ceil(4)),
            local: vec![machine.fill; local],
            local_written: Bitmap::new(local),
            clocks: Clocks::new(warps),
            exchanged: vec![vec![(0, 0); machine.exchanges.count()]; warps],
            acquired: Acquired::default(),
            handed: Handed::new(),
            handed_together: false,
            awaited: None,
            fences: vec![(0, vec![0; warps]); warps],
            barriers: Barriers::default(),
        }
    }

    /// Makes this the block of an index, before its first instruction.
    pub fn begin(&mut self, index: u32, machine: &Machine<'_>) {
        self.index = index;
        self.ctaid = machine.place_of(index);
        self.shared.fill(machine.fill);
        self.shared_written.clear();
        self.shared_shadow.clear();
        self.local.fill(machine.fill);
        self.local_written.clear();
        self.clocks.clear();
        self.acquired.clear();
        self.handed.clear();
        self.handed_together = false;
        self.awaited = None;
        self.fences.iter_mut().for_each(|(tick, seen)| {
            *tick = 0;
            seen.fill(0);
        });
        self.barriers = Barriers::default();
        for warp in &mut self.warps {
            warp.begin(self.ctaid, machine);
        }
    }

    /// A thread of a warp makes what it did, and what it has seen, visible to the device.
    pub fn fence(&mut self, warp: usize, tick: u32) {
        let (last, seen) = &mut self.fences[warp];
        *last = tick;
        seen.copy_from_slice(self.clocks.row(warp));
    }

    /// Up to which tick the device sees what each warp did, once it sees what a warp does now: what that had seen at its last fence, and of what it
    /// has seen since, what others have fenced themselves.
    pub fn fenced(&self, warp: usize) -> Vec<u32> {
        let known = self.clocks.row(warp).iter().zip(&self.fences);
        known
            .zip(&self.fences[warp].1)
            .map(|((&seen, (fence, _)), &then)| then.max(seen.min(*fence)))
            .collect()
    }

    /// Runs for about so many instructions.
    pub fn run(&mut self, slice: u32, machine: &mut Machine<'_>) -> Ran {
        let (begin, polls) = (machine.tick, machine.polls);
        loop {
            let (mut advanced, mut done, mut idle) = (false, true, true);
            let count = self.warps.len();
            let start = match machine.schedule {
                Schedule::Random(_) => machine.draw() as usize % count,
                Schedule::Forward | Schedule::Reverse => 0,
            };
            for turn in 0..count {
                let index = match machine.schedule {
                    Schedule::Forward => turn,
                    Schedule::Reverse => count - 1 - turn,
                    Schedule::Random(_) => (start + turn) % count,
                };
                if self.warps[index].is_done() {
                    continue;
                }
                done = false;
                if self.warps[index].waits() {
                    continue;
                }
                let turn = match machine.schedule {
                    Schedule::Random(_) => 1 + machine.draw() as u32 % 256,
                    Schedule::Forward => TURN,
                    Schedule::Reverse => LONG_TURN,
                };
                advanced = true;
                let mut warp = std::mem::take(&mut self.warps[index]);
                let pause = warp.run(turn, self, machine);
                self.warps[index] = warp;
                idle &= pause == Pause::Idle;
                match pause {
                    Pause::Turn | Pause::Idle => {}
                    Pause::Barrier | Pause::Done => self.settle(0, machine),
                }
                if machine.ended {
                    return Ran::On;
                }
                if machine.tick >= machine.limit {
                    self.give_up(machine);
                    return Ran::On;
                }
                if machine.is_late() {
                    return Ran::On;
                }
            }
            if done {
                return Ran::ToTheEnd;
            }
            if !advanced {
                self.deadlock(machine);
                return Ran::On;
            }
            if idle {
                return Ran::Idle;
            }
            // Who looks again and again may wait for another.
            if machine.tick - begin >= slice || machine.polls - polls >= super::POLLS {
                return Ran::On;
            }
        }
    }

    /// A warp that is not done, to name a thread of.
    fn remaining(&self) -> (u16, u32) {
        let warp = self.warps.iter().find(|warp| !warp.is_done());
        warp.map_or((0, 0), |warp| (warp.first_thread(), warp.pc()))
    }

    fn whereabouts(&self, machine: &Machine<'_>) -> String {
        let mut lines: Vec<(Line, usize)> = Vec::new();
        for warp in self.warps.iter().filter(|warp| !warp.is_done()) {
            let line = Line::of(machine.kernel, warp.pc());
            match lines.iter_mut().find(|(known, _)| *known == line) {
                Some((_, count)) => *count += 1,
                None => lines.push((line, 1)),
            }
        }
        let told: Vec<String> = lines
            .iter()
            .map(|(line, count)| format!("{count} {} at {line}", if *count == 1 { "warp" } else { "warps" }))
            .collect();
        told.join(", ")
    }

    pub fn deadlock(&self, machine: &mut Machine<'_>) {
        let (thread, pc) = self.remaining();
        let done = self.warps.iter().filter(|warp| warp.is_done()).count();
        let whereabouts = self.whereabouts(machine);
        let kernel = machine.kernel;
        let (outside, resident, awaited) = (machine.outside, machine.resident, self.awaited);
        machine.fault(Kind::Deadlock, pc, None, 1, (self, thread), || {
            let ended = match done {
                0 => String::new(),
                1 => ", and 1 warp has ended".to_owned(),
                _ => format!(", and {done} warps have ended"),
            };
            let outside = match (outside, resident) {
                (0, _) => String::new(),
                (more, at_once) => {
                    format!(", and {more} more blocks have not begun: {at_once} are emulated at a time")
                }
            };
            let awaited = awaited.map_or_else(String::new, |Awaited { at, phase, pending, expected }| {
                let spot = kernel.shared.spot(at);
                format!(
                    "; the mbarrier at {spot} is in phase {phase} and lacks {pending} of {expected} arrivals"
                )
            });
            format!("a block waits for ever: {whereabouts}{ended}{outside}{awaited}")
        });
    }

    fn give_up(&self, machine: &mut Machine<'_>) {
        let (thread, pc) = self.remaining();
        let whereabouts = self.whereabouts(machine);
        let taken = machine.tick;
        machine.fault(Kind::Endless, pc, None, 1, (self, thread), || {
            format!(
                "the launch has taken {taken} instructions of warps, and no more are followed: {whereabouts}"
            )
        });
    }
}
