//! A block: its warps, its shared memory, its barriers.

use crate::fault::{Kind, Line};
use crate::launch::Schedule;
use crate::memory::Bitmap;
use crate::shadow::{Acquired, Clocks, Handed, Shadow};

use super::Machine;
use super::barrier::Barriers;
use super::warp::{Pause, Warp};

/// Instructions after which a warp lets others go on.
const TURN: u32 = 4096;

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
    pub acquired: Acquired,
    pub handed: Handed,
    pub barriers: Barriers,
}

impl Block {
    pub fn new(machine: &Machine<'_>) -> Block {
        let threads: u32 = machine.launch.block.iter().product();
        let warps = threads.div_ceil(32) as usize;
        let shared = (machine.kernel.shared_bytes + machine.launch.shared) as usize;
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
            acquired: Acquired::new(),
            handed: Handed::new(),
            barriers: Barriers::default(),
        }
    }

    /// Makes this the block of an index, before its first instruction.
    pub fn begin(&mut self, index: u32, machine: &Machine<'_>) {
        let [x, y, _] = machine.launch.grid;
        self.index = index;
        self.ctaid = [index % x, index / x % y, index / x / y];
        self.shared.fill(machine.fill);
        self.shared_written.clear();
        self.shared_shadow.clear();
        self.local.fill(machine.fill);
        self.local_written.clear();
        self.clocks.clear();
        self.acquired.clear();
        self.handed.clear();
        self.barriers = Barriers::default();
        for warp in &mut self.warps {
            warp.begin(self.ctaid, machine);
        }
    }

    /// Runs for about so many instructions; whether all threads have come to their end.
    pub fn run(&mut self, slice: u32, machine: &mut Machine<'_>) -> bool {
        let (begin, polls) = (machine.tick, machine.polls);
        loop {
            let mut advanced = false;
            let mut done = true;
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
                    Schedule::Forward | Schedule::Reverse => TURN,
                };
                advanced = true;
                let mut warp = std::mem::take(&mut self.warps[index]);
                let pause = warp.run(turn, self, machine);
                self.warps[index] = warp;
                match pause {
                    Pause::Turn => {}
                    Pause::Barrier | Pause::Done => self.settle(0, machine),
                }
                if machine.ended {
                    return false;
                }
                if machine.tick >= machine.limit || machine.is_late() {
                    self.give_up(machine);
                    return false;
                }
            }
            if done {
                return true;
            }
            if !advanced {
                self.deadlock(machine);
                return false;
            }
            // Who looks again and again may wait for another.
            if machine.tick - begin >= slice || machine.polls - polls >= super::POLLS {
                return false;
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

    fn deadlock(&self, machine: &mut Machine<'_>) {
        let (thread, pc) = self.remaining();
        let done = self.warps.iter().filter(|warp| warp.is_done()).count();
        let whereabouts = self.whereabouts(machine);
        machine.fault(Kind::Deadlock, pc, None, 1, (self, thread), || {
            let ended = match done {
                0 => String::new(),
                1 => ", and 1 warp has ended".to_owned(),
                _ => format!(", and {done} warps have ended"),
            };
            format!("a block waits for ever: {whereabouts}{ended}")
        });
    }

    fn give_up(&self, machine: &mut Machine<'_>) {
        let (thread, pc) = self.remaining();
        let whereabouts = self.whereabouts(machine);
        let (taken, late) = (machine.tick, machine.tick < machine.limit);
        machine.fault(Kind::Endless, pc, None, 1, (self, thread), || {
            let late = if late { "too long, and " } else { "" };
            format!("the launch has taken {late}{taken} instructions of warps: {whereabouts}")
        });
    }
}
