//! What a kernel did wrong, and where.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::fmt;

use serde::Serialize;

use crate::program::Kernel;

/// A kind of fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// An access outside every buffer, or past the end of one.
    OutOfBounds,
    /// An address that is no multiple of the bytes accessed.
    Misaligned,
    /// A read of what nobody wrote.
    Uninitialised,
    /// A read, through a cache that sees no writes of the launch, of what the launch has written.
    StaleRead,
    /// A write to a buffer that is only to be read.
    WriteToInput,
    /// Two threads of a block use the same shared memory, one of them writes, and nothing orders them.
    SharedRace,
    /// The same in global memory, by threads of one block or of several.
    GlobalRace,
    /// A read of what was there before another block wrote, where nothing says that the write is seen before what was seen.
    UnseenWrite,
    /// A read of what another lane of the warp wrote, where nothing says that it has written by then: lanes need not go together.
    WarpSynchronous,
    /// Lanes of one instruction write different values to one place: one of them lands, and which is not said.
    ContestedWrite,
    /// Threads of a warp do not reach a barrier together.
    DivergentBarrier,
    /// A barrier of all threads is met after some have ended.
    BarrierAfterExit,
    /// A shuffle asks a lane that takes no part in it.
    InactiveLane,
    /// An operation of a warp names lanes that never come.
    MissingLanes,
    /// An operation of a warp is executed by a lane that its mask does not name, or lanes disagree about the mask.
    WrongMask,
    /// Threads wait for each other, and none goes on.
    Deadlock,
    /// The launch took more instructions than it may, or did more than can be followed.
    Endless,
    /// `__trap()`, or an assertion that does not hold.
    Trap,
    /// A barrier's number or count is not one, or there is no mbarrier where one is used.
    BadBarrier,
    /// An asynchronous copy was never waited for.
    NeverWaited,
}

impl Kind {
    /// The name in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Kind::OutOfBounds => "out_of_bounds",
            Kind::Misaligned => "misaligned",
            Kind::Uninitialised => "uninitialised",
            Kind::StaleRead => "stale_read",
            Kind::WriteToInput => "write_to_input",
            Kind::SharedRace => "shared_race",
            Kind::GlobalRace => "global_race",
            Kind::UnseenWrite => "unseen_write",
            Kind::WarpSynchronous => "warp_synchronous",
            Kind::ContestedWrite => "contested_write",
            Kind::DivergentBarrier => "divergent_barrier",
            Kind::BarrierAfterExit => "barrier_after_exit",
            Kind::InactiveLane => "inactive_lane",
            Kind::MissingLanes => "missing_lanes",
            Kind::WrongMask => "wrong_mask",
            Kind::Deadlock => "deadlock",
            Kind::Endless => "endless",
            Kind::Trap => "trap",
            Kind::BadBarrier => "bad_barrier",
            Kind::NeverWaited => "never_waited",
        }
    }

    /// Whether two accesses that nothing orders are the fault.
    pub fn is_race(self) -> bool {
        matches!(self, Kind::SharedRace | Kind::GlobalRace)
    }

    /// Whether it is the use of a value that nobody gave: it matters only where something comes of the value.
    pub fn is_of_a_value(self) -> bool {
        matches!(self, Kind::Uninitialised | Kind::InactiveLane)
    }

    /// Whether the launch cannot go on after it.
    pub fn ends(self) -> bool {
        matches!(self, Kind::Deadlock | Kind::Endless | Kind::Trap)
    }
}

/// A line of a source.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
pub struct Line {
    /// The file, where the PTX says.
    pub file: Option<String>,
    /// The line in the file, from 1; in the PTX if there is no file.
    pub line: u32,
}

impl Line {
    /// That of an instruction, by its place in the [code](Kernel::code).
    pub fn of(kernel: &Kernel, pc: u32) -> Line {
        let Some(site) = kernel.sites.get(pc as usize) else { return Line { file: None, line: 0 } };
        match kernel.files.get(site.file as usize) {
            Some(file) if site.line > 0 => Line { file: Some(file.clone()), line: site.line },
            _ => Line { file: None, line: site.ptx },
        }
    }
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.file {
            Some(file) => write!(f, "{file}:{}", self.line),
            None => write!(f, "PTX line {}", self.line),
        }
    }
}

/// A thread of a grid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Thread {
    /// `blockIdx`
    pub block: [u32; 3],
    /// `threadIdx`
    pub thread: [u32; 3],
}

impl Thread {
    /// As another thread of its block calls it.
    pub(crate) fn in_block(self) -> String {
        let [x, y, z] = self.thread;
        format!("thread ({x}, {y}, {z})")
    }
}

impl fmt::Display for Thread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ([x, y, z], [a, b, c]) = (self.block, self.thread);
        write!(f, "block ({x}, {y}, {z}), thread ({a}, {b}, {c})")
    }
}

/// A fault, told once for each place.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Fault {
    /// Which.
    pub kind: Kind,
    /// The kernel.
    pub kernel: String,
    /// Where.
    pub line: Line,
    /// The other access of a race.
    pub other: Option<Line>,
    /// How many threads did it, over all executions.
    pub count: u64,
    /// By whom first.
    pub thread: Thread,
    /// The first in words: `reads 4 bytes at 4096 of x, which has 4096`.
    pub detail: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} ({}", self.line, self.detail, self.thread)?;
        if self.count > 1 {
            write!(f, "; {} times in all", self.count)?;
        }
        write!(f, ")")
    }
}

/// Faults as they come.
#[derive(Debug, Default)]
pub(crate) struct Faults {
    list: Vec<(u32, Fault)>,
    known: HashMap<(Kind, u32, u32), usize>,
    kinds: HashSet<Kind>,
    /// Threads that did what is not told.
    more: u64,
}

/// Kinds and places that are told. The first of each kind is, in any case.
const TOLD_MAX: usize = 1 << 12;

impl Faults {
    /// Whether one that is not known is told; otherwise `count` threads did it.
    fn is_told(&mut self, kind: Kind, count: u64) -> bool {
        let told = self.kinds.insert(kind) || self.list.len() < TOLD_MAX;
        self.more += if told { 0 } else { count };
        told
    }

    /// Notes `count` threads at an instruction, the first of which is told about only if the fault is new.
    pub fn note(
        &mut self,
        kernel: &Kernel,
        kind: Kind,
        pc: u32,
        other: Option<u32>,
        count: u64,
        first: impl FnOnce() -> (Thread, String),
    ) {
        let key = (kind, pc, other.unwrap_or(u32::MAX));
        if let Some(&index) = self.known.get(&key) {
            self.list[index].1.count += count;
            return;
        }
        if !self.is_told(kind, count) {
            return;
        }
        let (thread, detail) = first();
        self.known.insert(key, self.list.len());
        let fault = Fault {
            kind,
            kernel: kernel.name.clone(),
            line: Line::of(kernel, pc),
            other: other.map(|pc| Line::of(kernel, pc)),
            count,
            thread,
            detail,
        };
        self.list.push((pc, fault));
    }

    /// Whether it is known already; then `count` more threads did it.
    pub fn again(&mut self, kind: Kind, pc: u32, other: Option<u32>, count: u64) -> bool {
        let known = self.known.get(&(kind, pc, other.unwrap_or(u32::MAX))).copied();
        if let Some(index) = known {
            self.list[index].1.count += count;
        }
        known.is_some()
    }

    /// Forgets those that were none, by instruction and that of the other access.
    pub fn retain(&mut self, mut keep: impl FnMut(u32, Option<u32>) -> bool) {
        let known = std::mem::take(&mut self.known);
        let kept =
            known.into_iter().filter(|((_, pc, other), _)| keep(*pc, (*other != u32::MAX).then_some(*other)));
        let mut kept: Vec<usize> = kept.map(|(_, index)| index).collect();
        kept.sort_unstable();
        let mut index = 0;
        self.list.retain(|_| {
            index += 1;
            kept.binary_search(&(index - 1)).is_ok()
        });
    }

    /// How many threads did something wrong of a kind and at a place that is not told.
    pub fn more(&self) -> u64 {
        self.more
    }

    /// All, by kind and place. Instructions of one line are told together.
    pub fn finish(self) -> Vec<Fault> {
        let mut faults: Vec<Fault> = Vec::new();
        let mut places: HashMap<(Kind, Line, Option<Line>), usize> = HashMap::new();
        for (_, fault) in self.list {
            match places.entry((fault.kind, fault.line.clone(), fault.other.clone())) {
                Entry::Occupied(known) => faults[*known.get()].count += fault.count,
                Entry::Vacant(place) => {
                    place.insert(faults.len());
                    faults.push(fault);
                }
            }
        }
        faults.sort_by(|a, b| (a.kind, &a.line).cmp(&(b.kind, &b.line)));
        faults
    }
}
