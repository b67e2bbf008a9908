//! Runs a launch: blocks one after the other, warps of a block in turns, lanes of a warp together.
//!
//! Lanes that go apart at a branch run as fragments (`warp.rs`) and meet at the branch's immediate post-dominator. An operation of a warp waits
//! for the lanes that its mask names. A block that does not come to its end takes turns with the next, so that blocks may wait for each
//! other. Every order is a function of the [`Schedule`], so a launch repeats exactly.

mod access;
mod barrier;
mod block;
mod check;
mod copies;
mod cost;
mod in_step;
mod mbarrier;
mod past;
mod place;
mod print;
mod warp;

use std::collections::{HashSet, VecDeque};
use std::time::Instant;

use crate::fault::{Faults, Kind, Thread};
use crate::launch::{Launch, Refusal, Report, Schedule, Scrutiny, Settings};
use crate::memory::{Memory, Role};
use crate::meter::Counts;
use crate::program::{Kernel, LANES, Op, Space};
use crate::shadow::{Exchanges, Releases, Shadow};

use block::{Block, Ran};
use past::Past;
use place::Group;

/// Most threads of a block.
const THREADS_MAX: u64 = 1024;
/// Most bytes of shared memory of a block, with CUDA 8.0 to 9.0.
const SHARED_MAX: u64 = 227 * 1024;
/// Instructions after which a block lets others go on, and the most where all take turns at odd moments.
const SLICE: u32 = 1 << 21;
const SLICE_AT_RANDOM: u64 = 1 << 9;
/// Atomic operations and volatile reads of global memory after which it does so too, and how many of them one counts for that shows nothing new.
const POLLS: u64 = 1 << 12;
const POLLS_IN_VAIN: u64 = 1 << 10;
/// Instructions after which the clock is looked at, which takes as long as some of them.
const LOOK: u32 = 4096;
/// Times in a row that all blocks under way look at what others may change, and see what they saw, until it is held that they wait for ever.
const IDLE: usize = 1 << 12;
/// Bytes that they may take together, if they are more than one.
const RESIDENT_BYTES: u64 = 512 << 20;
/// What is remembered of a byte of shared memory, with itself.
const SHADOW_BYTES: u64 = 24;
/// Most bytes of registers and local memory of a block.
const BLOCK_BYTES_MAX: u64 = 1 << 30;

/// Runs a kernel.
///
/// # Errors
/// If the launch is none: then nothing was run. What goes wrong while it runs is in the report.
pub fn launch(
    kernel: &Kernel,
    launch: &Launch,
    memory: &mut Memory,
    settings: &Settings,
) -> Result<Report, Refusal> {
    let params = check(kernel, launch)?;
    memory.load(kernel);
    let shadows = (0..memory.count()).map(|place| {
        let buffer = memory.at(place);
        (buffer.role() != Role::Input && settings.scrutiny >= Scrutiny::Races)
            .then(|| Shadow::new(buffer.bytes.len().div_ceil(cell_bytes(buffer.element()))))
    });
    let mut machine = Machine {
        kernel,
        launch,
        params,
        shadows: shadows.collect(),
        counts: Counts::new(kernel, memory, settings.scrutiny >= Scrutiny::Costs),
        memory,
        faults: Faults::default(),
        releases: Releases::default(),
        exchanges: Exchanges::new(kernel),
        unfollowed: false,
        printed: String::new(),
        tick: 0,
        limit: settings.limit,
        multiprocessors: settings.multiprocessors,
        schedule: settings.schedule,
        fill: settings.fill,
        scrutiny: settings.scrutiny,
        shows_past: settings.shows_past && settings.scrutiny >= Scrutiny::Races,
        in_step: settings.in_step,
        handed_in_step: Faults::default(),
        random: match settings.schedule {
            Schedule::Random(seed) => seed,
            Schedule::Forward | Schedule::Reverse => 0,
        },
        until: Instant::now() + settings.patience,
        look_at: 0,
        late: false,
        polls: 0,
        tried: HashSet::new(),
        looks: Vec::new(),
        past: Past::default(),
        resident: 1,
        outside: 0,
        ended: false,
    };
    machine.run();
    let mut unordered = machine.unseen_writes();
    unordered.extend(std::mem::take(&mut machine.handed_in_step).finish());
    let Machine { mut faults, counts, printed, tried, ended, late, releases, unfollowed, .. } = machine;
    let finds_out = |pc: u32| matches!(kernel.code[pc as usize].op, Op::Atomic(op, ..) if op.finds_out());
    faults.retain(|pc, other| {
        !other.is_some_and(|other| {
            tried.contains(&pc) && finds_out(other) || tried.contains(&other) && finds_out(pc)
        })
    });
    Ok(Report {
        kernel: kernel.name.clone(),
        more_faults: faults.more(),
        faults: faults.finish(),
        reached: counts.code.iter().map(|count| count.lanes > 0).collect(),
        meter: counts.finish(kernel),
        printed,
        unordered,
        finished: !ended,
        late,
        followed: !unfollowed && !releases.given_up(),
    })
}

/// Bytes that a word of the shadow stands for.
pub(crate) fn cell_bytes(element: u8) -> usize {
    usize::from(element.clamp(1, 4))
}

fn check(kernel: &Kernel, launch: &Launch) -> Result<Vec<u8>, Refusal> {
    let size = |what, size, why| Err(Refusal::Size { what, size, why });
    let threads: u64 = launch.block.iter().map(|&axis| u64::from(axis)).product();
    if threads == 0 || threads > THREADS_MAX || launch.block[2] > 64 {
        return size("block", launch.block, "it may have 1 to 1024 threads, and 64 along z");
    }
    if launch.grid.contains(&0)
        || launch.grid[0] > i32::MAX as u32
        || launch.grid[1..].iter().any(|&axis| axis > 65_535)
    {
        return size(
            "grid",
            launch.grid,
            "it may have 1 to 2147483647 blocks along x, and 65535 along y and z",
        );
    }
    if launch.grid.iter().try_fold(1u32, |blocks, &axis| blocks.checked_mul(axis)).is_none() {
        return size("grid", launch.grid, "more than 4294967295 blocks are not emulated");
    }
    let asked = u64::from(kernel.shared.bytes) + u64::from(launch.shared);
    if asked > SHARED_MAX {
        return Err(Refusal::Shared { asked, most: SHARED_MAX });
    }
    let asked = block_bytes(kernel, launch);
    if asked > BLOCK_BYTES_MAX {
        return Err(Refusal::Threadwise { asked, most: BLOCK_BYTES_MAX });
    }
    let threads = threads as u32;
    let refuse = |what| Err(Refusal::Threads { kernel: kernel.name.clone(), what, threads });
    if let Some(required) = kernel.required_threads
        && required != launch.block
    {
        return refuse(format!("blocks of {} x {} x {}", required[0], required[1], required[2]));
    }
    if let Some(most) = kernel.max_threads
        && threads > most
    {
        return refuse(format!("at most {most} threads"));
    }
    if launch.arguments.len() != kernel.params.len() {
        return Err(Refusal::Arguments {
            kernel: kernel.name.clone(),
            expected: kernel.params.len(),
            got: launch.arguments.len(),
        });
    }
    let mut params = vec![0; kernel.param_bytes as usize];
    for (index, (param, argument)) in kernel.params.iter().zip(&launch.arguments).enumerate() {
        let bytes = argument.bytes();
        if bytes.len() != param.size as usize {
            return Err(Refusal::ArgumentSize {
                kernel: kernel.name.clone(),
                index,
                expected: param.size as usize,
                got: bytes.len(),
            });
        }
        params[param.offset as usize..][..bytes.len()].copy_from_slice(&bytes);
    }
    Ok(params)
}

/// Bytes that a block's threads take: registers, and local memory with a bit for each byte that was written.
fn block_bytes(kernel: &Kernel, launch: &Launch) -> u64 {
    let threads: u64 = launch.block.iter().map(|&axis| u64::from(axis)).product();
    let registers = 4 * u64::from(kernel.regs32) + 8 * u64::from(kernel.regs64);
    threads.next_multiple_of(LANES as u64) * (registers + u64::from(kernel.local_bytes) * 9 / 8)
}

/// What all blocks share.
pub(crate) struct Machine<'a> {
    kernel: &'a Kernel,
    launch: &'a Launch,
    params: Vec<u8>,
    memory: &'a mut Memory,
    /// By place; inputs have none.
    shadows: Vec<Option<Shadow>>,
    releases: Releases,
    exchanges: Exchanges<'a>,
    /// Whether somebody did more than can be remembered, to a buffer or at places where warps let each other see.
    unfollowed: bool,
    faults: Faults,
    counts: Counts,
    printed: String,
    /// Instructions so far, over all blocks. The first has 1.
    tick: u32,
    limit: u32,
    multiprocessors: u32,
    schedule: Schedule,
    /// What memory holds that nobody has written.
    fill: u8,
    scrutiny: Scrutiny,
    /// Whether looks at what another block wrote may show what was there before.
    shows_past: bool,
    /// Whether lanes go on together after a volatile write, and what they handed each other that way.
    in_step: bool,
    handed_in_step: Faults,
    random: u64,
    until: Instant,
    /// Whether it has taken longer than that.
    late: bool,
    /// When the clock is looked at next.
    look_at: u32,
    /// Atomic operations and volatile reads of global memory so far.
    polls: u64,
    /// Plain reads that their warp went on to try in an operation that finds out if they were too old.
    tried: HashSet<u32>,
    /// Where a look at what others may change goes to, until it is known whether it shows anything new.
    looks: Vec<(Group, u32)>,
    past: Past,
    /// Blocks that may be under way at a time, and those that have no room yet where others wait for ever.
    resident: usize,
    outside: u32,
    /// Whether nothing goes on.
    ended: bool,
}

impl Machine<'_> {
    fn run(&mut self) {
        let blocks: u32 = self.launch.grid.iter().product();
        let order = Order::new(self.schedule, blocks);
        let mut next = 0;
        let mut waiting: VecDeque<Block> = VecDeque::new();
        let mut spare: Option<Block> = None;
        let shared = u64::from(self.kernel.shared.room(self.launch.shared));
        let bytes = block_bytes(self.kernel, self.launch) + SHADOW_BYTES * shared;
        self.resident =
            (RESIDENT_BYTES / bytes.max(1)).clamp(1, self.launch.blocks_at_once(self.kernel)) as usize;
        let mut idle = 0;
        loop {
            if next < blocks && waiting.len() < self.resident {
                let mut block = spare.take().unwrap_or_else(|| Block::new(self));
                block.begin(order.block(next), self);
                waiting.push_front(block);
                next += 1;
                idle = 0;
            }
            let Some(mut block) = waiting.pop_front() else { break };
            let slice = match self.schedule {
                Schedule::Forward | Schedule::Reverse => SLICE,
                Schedule::Random(_) => 1 + (self.draw() % SLICE_AT_RANDOM) as u32,
            };
            let ran = block.run(slice, self);
            if self.ended {
                break;
            }
            idle = if ran == Ran::Idle { idle + 1 } else { 0 };
            if idle > IDLE * (waiting.len() + 1) {
                self.outside = blocks - next;
                block.deadlock(self);
                break;
            }
            match ran {
                Ran::ToTheEnd => spare = Some(block),
                Ran::On | Ran::Idle => waiting.push_back(block),
            }
        }
    }

    /// Whether races are looked for, and reads of what nobody has written.
    fn seeks_races(&self) -> bool {
        self.scrutiny >= Scrutiny::Races
    }

    /// A number from the seed of the schedule.
    fn draw(&mut self) -> u64 {
        self.random = self.random.wrapping_add(0x9E37_79B9_7F4A_7C15);
        mix(self.random)
    }

    /// `blockIdx` of a block.
    fn place_of(&self, index: u32) -> [u32; 3] {
        let [x, y, _] = self.launch.grid;
        [index % x, index / x % y, index / x / y]
    }

    /// The multiprocessor that a block runs on: all on one, as they may, or, where they run in another order, on any.
    fn multiprocessor(&self, block: [u32; 3]) -> u32 {
        let [x, y, _] = self.launch.grid;
        let index = block[0] + x * (block[1] + y * block[2]);
        match self.schedule {
            Schedule::Forward => 0,
            Schedule::Reverse | Schedule::Random(_) => {
                (mix(u64::from(index)) % u64::from(self.multiprocessors.max(1))) as u32
            }
        }
    }

    /// A thread in words.
    fn thread(&self, block: [u32; 3], thread: u16) -> Thread {
        let [x, y, _] = self.launch.block;
        let thread = u32::from(thread);
        Thread { block, thread: [thread % x, thread / x % y, thread / x / y] }
    }

    fn fault(
        &mut self,
        kind: Kind,
        pc: u32,
        other: Option<u32>,
        count: u64,
        who: (&Block, u16),
        detail: impl FnOnce() -> String,
    ) {
        let thread = self.thread(who.0.ctaid, who.1);
        self.faults.note(self.kernel, kind, pc, other, count, || (thread, detail()));
        self.ended |= kind.ends();
    }

    /// Ends a launch that does more than can be followed.
    fn give_up(&mut self, pc: u32, who: (&Block, u16), what: &str) {
        self.fault(Kind::Endless, pc, None, 1, who, || what.to_owned());
    }

    /// Whether nobody waits for the launch any longer, which ends it.
    fn is_late(&mut self) -> bool {
        if self.tick >= self.look_at {
            self.look_at = self.tick.saturating_add(LOOK);
            self.late = Instant::now() >= self.until;
            self.ended |= self.late;
        }
        self.late
    }

    fn is_constant(&self, place: usize) -> bool {
        place
            .checked_sub(self.memory.buffers.len())
            .is_some_and(|variable| self.kernel.variables[variable].space == Space::Const)
    }
}

/// The finaliser of SplitMix64.
fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// The order of blocks.
enum Order {
    Forward,
    Reverse(u32),
    Shuffled(Vec<u32>),
}

impl Order {
    fn new(schedule: Schedule, blocks: u32) -> Order {
        match schedule {
            Schedule::Forward => Order::Forward,
            Schedule::Reverse => Order::Reverse(blocks),
            Schedule::Random(seed) => {
                let mut order: Vec<u32> = (0..blocks).collect();
                order.sort_by_key(|&block| mix(seed ^ mix(u64::from(block) + 1)));
                Order::Shuffled(order)
            }
        }
    }

    fn block(&self, index: u32) -> u32 {
        match self {
            Order::Forward => index,
            Order::Reverse(blocks) => blocks - 1 - index,
            Order::Shuffled(order) => order[index as usize],
        }
    }
}
