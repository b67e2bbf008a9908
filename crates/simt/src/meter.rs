//! What a launch asked of the machine: bytes, sectors, waves, instructions.
//!
//! A *request* is one access of a warp. Global memory is moved in *sectors* of 32 bytes: the sectors of a request are those that its lanes
//! touch, and the ideal is as few as its bytes would fill. The sectors that a whole launch touches, each counted once, are what has to come
//! from memory even with a perfect cache. Shared memory serves a request in *waves*: as many as there are different words in the busiest of
//! its 32 banks, for each half of a warp that accesses 8 bytes a lane, and each quarter that accesses 16.

use std::collections::HashMap;

use serde::Serialize;

use crate::fault::Line;
use crate::memory::{Bitmap, Memory};
use crate::program::{Float, Kernel, LANES, Op, Space};

/// Bytes of a sector.
pub const SECTOR: u64 = 32;

/// Accesses in one direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Traffic {
    /// Accesses of a warp.
    pub requests: u64,
    /// Bytes that its lanes asked for; what several ask for at once, but by atomics, is one.
    pub bytes: u64,
    /// Sectors touched, request by request.
    pub sectors: u64,
    /// The fewest sectors that could hold as many bytes, request by request.
    pub ideal_sectors: u64,
}

impl Traffic {
    pub(crate) fn add(&mut self, bytes: u64, sectors: u64) {
        self.requests += 1;
        self.bytes += bytes;
        self.sectors += sectors;
        self.ideal_sectors += sectors.min(bytes.div_ceil(SECTOR));
    }
}

/// What a launch did with a buffer.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct BufferMeter {
    /// The buffer.
    pub name: String,
    /// Its bytes.
    pub size: u64,
    /// Loads.
    pub read: Traffic,
    /// Stores.
    pub written: Traffic,
    /// Atomic operations, one a lane.
    pub atomics: u64,
    /// Most atomic operations on one address by one request, summed over requests: how often the memory had to serve one after another.
    pub atomic_depth: u64,
    /// Sectors that were read, each counted once.
    pub unique_sectors_read: u64,
    /// Sectors that were written, each counted once.
    pub unique_sectors_written: u64,
}

/// Accesses to shared memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct SharedMeter {
    /// Accesses of a warp.
    pub requests: u64,
    /// Bytes that lanes asked for.
    pub bytes: u64,
    /// Waves that it took.
    pub waves: u64,
    /// The fewest that could have moved as many bytes.
    pub ideal_waves: u64,
}

/// Instructions of warps, by what they do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[allow(missing_docs)]
pub struct Classes {
    /// Arithmetic of f32.
    pub float32: u64,
    /// Arithmetic of f16 and bf16.
    pub half: u64,
    /// Arithmetic of f64.
    pub float64: u64,
    pub integer: u64,
    /// Conversions.
    pub convert: u64,
    /// Moves, comparisons, choices.
    pub moves: u64,
    /// Shuffles, votes and their kind.
    pub warp: u64,
    /// Matrix products.
    pub matrix: u64,
    pub global: u64,
    pub shared: u64,
    pub local: u64,
    pub constant: u64,
    pub atomic: u64,
    pub barrier: u64,
    pub control: u64,
}

/// What one line of the source did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LineMeter {
    /// The line.
    pub line: Line,
    /// Instructions of warps.
    pub instructions: u64,
    /// Global memory, both directions.
    pub global: Traffic,
    /// Shared memory.
    pub shared: SharedMeter,
}

/// What a launch did.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Meter {
    /// Instructions of warps.
    pub instructions: u64,
    /// Lanes that took part in them, summed.
    pub lanes: u64,
    /// Branches at which lanes of a warp went apart.
    pub divergent_branches: u64,
    /// By what they do.
    pub classes: Classes,
    /// Each buffer that was given, and the module's variables, in order.
    pub buffers: Vec<BufferMeter>,
    /// Shared memory.
    pub shared: SharedMeter,
    /// Local memory, both directions; sectors as if lanes lay beside one another, as they do on a GPU.
    pub local: Traffic,
    /// Waves of barriers: how often a block's threads met.
    pub barriers: u64,
    /// Lines that accessed memory or took most instructions, by bytes and then instructions.
    pub lines: Vec<LineMeter>,
}

impl Meter {
    /// Bytes asked of global memory by loads.
    pub fn bytes_read(&self) -> u64 {
        self.buffers.iter().map(|buffer| buffer.read.bytes).sum()
    }

    /// Bytes asked of global memory by stores.
    pub fn bytes_written(&self) -> u64 {
        self.buffers.iter().map(|buffer| buffer.written.bytes).sum()
    }

    /// Bytes that must go between memory and a perfect cache.
    pub fn unique_bytes(&self) -> u64 {
        self.buffers.iter().map(|one| SECTOR * (one.unique_sectors_read + one.unique_sectors_written)).sum()
    }
}

/// Counts of one instruction.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Count {
    pub executed: u64,
    pub lanes: u64,
    pub global: Traffic,
    pub shared: SharedMeter,
}

/// Counts while a launch runs.
#[derive(Debug)]
pub(crate) struct Counts {
    pub code: Vec<Count>,
    pub buffers: Vec<BufferMeter>,
    touched: Vec<(Bitmap, Bitmap)>,
    pub local: Traffic,
    pub divergent_branches: u64,
    pub barriers: u64,
}

impl Counts {
    /// Of what accesses cost nothing, unless it `counts` them.
    pub fn new(kernel: &Kernel, memory: &Memory, counts: bool) -> Counts {
        let buffers = (0..memory.count()).map(|place| memory.at(place));
        Counts {
            code: vec![Count::default(); kernel.code.len()],
            touched: buffers
                .clone()
                .map(|buffer| {
                    let sectors = if counts { buffer.bytes.len().div_ceil(SECTOR as usize) } else { 0 };
                    (Bitmap::new(sectors), Bitmap::new(sectors))
                })
                .collect(),
            buffers: buffers
                .map(|buffer| BufferMeter {
                    name: buffer.name().to_owned(),
                    size: buffer.bytes.len() as u64,
                    ..BufferMeter::default()
                })
                .collect(),
            local: Traffic::default(),
            divergent_branches: 0,
            barriers: 0,
        }
    }

    #[inline]
    pub fn touch(&mut self, place: usize, write: bool, first: u64, count: u64) {
        let (read, written) = &mut self.touched[place];
        let sectors = if write { written } else { read };
        sectors.set_range(first as usize, count as usize);
    }

    /// Notes that what was written was read as well.
    pub fn touch_also_read(&mut self, place: usize, offsets: &[u64; LANES], mask: u32) {
        for (lane, offset) in offsets.iter().enumerate() {
            if mask >> lane & 1 == 1 {
                self.touched[place].0.set((offset / SECTOR) as usize, 1);
            }
        }
    }

    pub fn finish(mut self, kernel: &Kernel) -> Meter {
        for (meter, (read, written)) in self.buffers.iter_mut().zip(&self.touched) {
            (meter.unique_sectors_read, meter.unique_sectors_written) = (read.count(), written.count());
        }
        let mut classes = Classes::default();
        let mut shared = SharedMeter::default();
        let (mut instructions, mut lanes) = (0, 0);
        let mut lines: Vec<LineMeter> = Vec::new();
        let mut places: HashMap<Line, usize> = HashMap::new();
        for (pc, (inst, count)) in kernel.code.iter().zip(&self.code).enumerate() {
            if inst.op == Op::Meet || count.executed == 0 {
                continue;
            }
            instructions += count.executed;
            lanes += count.lanes;
            *class(&mut classes, &inst.op) += count.executed;
            add_shared(&mut shared, &count.shared);
            let line = Line::of(kernel, pc as u32);
            let index = *places.entry(line).or_insert_with_key(|line| {
                let (global, shared) = (Traffic::default(), SharedMeter::default());
                lines.push(LineMeter { line: line.clone(), instructions: 0, global, shared });
                lines.len() - 1
            });
            let known = &mut lines[index];
            known.instructions += count.executed;
            known.global.requests += count.global.requests;
            known.global.bytes += count.global.bytes;
            known.global.sectors += count.global.sectors;
            known.global.ideal_sectors += count.global.ideal_sectors;
            add_shared(&mut known.shared, &count.shared);
        }
        lines.sort_by_key(|one| std::cmp::Reverse((one.global.sectors, one.shared.waves, one.instructions)));
        Meter {
            instructions,
            lanes,
            divergent_branches: self.divergent_branches,
            classes,
            buffers: self.buffers,
            shared,
            local: self.local,
            barriers: self.barriers,
            lines,
        }
    }
}

fn add_shared(sum: &mut SharedMeter, one: &SharedMeter) {
    sum.requests += one.requests;
    sum.bytes += one.bytes;
    sum.waves += one.waves;
    sum.ideal_waves += one.ideal_waves;
}

fn class<'a>(classes: &'a mut Classes, op: &Op) -> &'a mut u64 {
    let float = |float: &Float| match float {
        Float::F32 => 0,
        Float::F64 => 1,
        Float::F16 | Float::Bf16 | Float::F16x2 | Float::Bf16x2 => 2,
    };
    let of_float = match op {
        Op::Float2(_, ty, _) | Op::Float1(_, ty, _) | Op::Fma(ty, ..) => Some(float(ty)),
        _ => None,
    };
    match (of_float, op) {
        (Some(0), _) => &mut classes.float32,
        (Some(1), _) => &mut classes.float64,
        (Some(_), _) => &mut classes.half,
        (None, Op::Convert(..) | Op::ConvertPair(..)) => &mut classes.convert,
        (
            None,
            Op::Mov(_)
            | Op::Pack(..)
            | Op::Unpack(..)
            | Op::Setp(_)
            | Op::Set(..)
            | Op::Selp(_)
            | Op::Slct(..)
            | Op::Testp(..),
        ) => &mut classes.moves,
        (
            None,
            Op::ActiveMask | Op::Shuffle(_) | Op::Vote(..) | Op::Match { .. } | Op::Redux(..) | Op::WarpSync,
        ) => &mut classes.warp,
        (None, Op::Mma(_) | Op::LoadMatrix { .. }) => &mut classes.matrix,
        (None, Op::Load(access) | Op::Store(access)) => match access.space {
            Space::Global | Space::Generic => &mut classes.global,
            Space::Shared => &mut classes.shared,
            Space::Local => &mut classes.local,
            Space::Const | Space::Param => &mut classes.constant,
        },
        (None, Op::CopyAsync(_)) => &mut classes.global,
        (None, Op::Atomic(..)) => &mut classes.atomic,
        (None, Op::Barrier(..) | Op::Mbarrier { .. }) => &mut classes.barrier,
        (
            None,
            Op::Branch { .. }
            | Op::BranchIndexed { .. }
            | Op::Meet
            | Op::Exit
            | Op::Trap
            | Op::Nop
            | Op::Printf(_)
            | Op::AssertFail(_)
            | Op::Fence(_)
            | Op::CommitGroup
            | Op::WaitGroup(_),
        ) => &mut classes.control,
        (None, _) => &mut classes.integer,
    }
}
